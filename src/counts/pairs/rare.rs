//! [`Rare`]: rows of which few units carry one of two alleles. Of these rows, pairs of carriers are visited one by one, unit by unit.

use crate::counts::CountError;
use crate::counts::gathered::PlanesRow;

use super::matrix::too_large;
use super::triangle::Part;

/// A row is rare if at most this part of the copies, and [`FEWEST`] more, carry one of the alleles: then comparing bits of all pairs takes longer.
const PART: usize = 32;
/// See [`PART`].
const FEWEST: usize = 2;

/// The carriers of rare rows.
#[derive(Debug, Default)]
pub(super) struct Rare {
    /// Each unit in the order of a row, with what it carries.
    carriers: Vec<(u32, u8)>,
    /// Where each row ends.
    ends: Vec<usize>,
}

/// The carriers of rare rows, indexed by unit: a thread adds the pairs of some first units, and the counts of a first unit's pairs are adjacent.
#[derive(Debug)]
pub(super) struct RareByUnit {
    rare: Rare,
    /// Where the places of each unit begin, and the end of the last.
    starts: Vec<u32>,
    /// For each carrier its row, and where it is among the carriers.
    places: Vec<(u32, u32)>,
}

/// The plane of a row in which every copy has code 0 or 1, and whether it is that of the rarer code; `None` if it is not rare.
pub(super) fn rare_plane<'a>(row: PlanesRow<'a>, copies: usize) -> Option<(&'a [u64], bool)> {
    let plane = row.only_low().filter(|_| row.is_complete())?;
    let ones: usize = plane.iter().map(|word| word.count_ones() as usize).sum();
    let most = copies / PART + FEWEST;
    match ones <= most {
        true => Some((plane, true)),
        false => (copies.saturating_sub(ones) <= most).then_some((plane, false)),
    }
}

/// The words of a plane of `copies` copies, or those of the copies that have no bit in it.
pub(super) fn words_of(
    plane: &[u64],
    set: bool,
    copies: usize,
) -> impl Iterator<Item = (usize, u64)> {
    plane.iter().enumerate().map(move |(at, word)| match set {
        true => (at, *word),
        false => {
            let last = copies - at * 64;
            let exist = if last < 64 { (1 << last) - 1 } else { u64::MAX };
            (at, !word & exist)
        }
    })
}

impl Rare {
    /// Adds a row with these carriers, which ascend.
    pub(super) fn push(&mut self, carriers: impl Iterator<Item = (u32, u8)>) {
        self.carriers.extend(carriers);
        self.ends.push(self.carriers.len());
    }

    /// Indexes the carriers by unit; `units` is the number of units.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there are 2³² carriers or more.
    pub(super) fn by_unit(self, units: usize) -> Result<RareByUnit, CountError> {
        if u32::try_from(self.carriers.len().max(self.ends.len())).is_err() {
            return Err(too_large("carriers of rare alleles", units));
        }
        let mut starts = vec![0u32; units + 1];
        for (unit, _) in &self.carriers {
            starts[*unit as usize + 1] += 1;
        }
        for at in 0..units {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut places = vec![(0, 0); self.carriers.len()];
        let mut start = 0;
        for (row, end) in self.ends.iter().enumerate() {
            for at in start..*end {
                let next = &mut next[self.carriers[at].0 as usize];
                places[*next as usize] = (row as u32, at as u32);
                *next += 1;
            }
            start = *end;
        }
        Ok(RareByUnit {
            rare: self,
            starts,
            places,
        })
    }
}

impl RareByUnit {
    /// Whether there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rare.ends.is_empty()
    }

    /// Every carrier of every row.
    pub(super) fn carriers(&self) -> &[(u32, u8)] {
        &self.rare.carriers
    }

    /// Calls `sink(row, carriers)` for each carrier of each row that is a first one of a part's pairs: itself and those after it.
    #[inline(always)]
    pub(super) fn for_each_first(&self, part: &Part, mut sink: impl FnMut(usize, &[(u32, u8)])) {
        let Rare { carriers, ends } = &self.rare;
        for unit in part.firsts.clone() {
            let places = self.starts[unit] as usize..self.starts[unit + 1] as usize;
            for (row, from) in &self.places[places] {
                let row = *row as usize;
                sink(row, &carriers[*from as usize..ends[row]]);
            }
        }
    }

    /// Calls `sink(place in the part, what i carries, what j carries)` for the pairs i < j of a part.
    #[inline(always)]
    pub(super) fn for_each_pair(&self, part: &Part, mut sink: impl FnMut(usize, u8, u8)) {
        self.for_each_first(part, |_, carriers| {
            if let Some(((i, of_i), others)) = carriers.split_first() {
                let from = part.at(*i as usize, *i as usize + 1);
                for (j, of_j) in others {
                    sink(from + (j - i - 1) as usize, *of_i, *of_j);
                }
            }
        });
    }
}
