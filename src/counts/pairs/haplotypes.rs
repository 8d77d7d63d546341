//! [`HaplotypePairs`]: for every pair of copies the rows at which both are called, and those of them at which they differ.

use std::collections::BTreeMap;
use std::num::Wrapping;

use crate::counts::gathered::PlanesRow;
use crate::counts::{CountError, Lanes, Level, ResidentPart, Workers};

use super::matrix::{PairMatrix, Shape, Words, add_all, more_rows, save_optional, zeros};
use super::on_device::OnDevice;
use super::pair_device::Units;
use super::products::{PairCounts, Panel, UnitStrip, for_each_pair};
use super::rare::{Rare, RareByUnit, rare_plane, words_of};
use super::transposed::Transposed;
use super::triangle::{Divided, Part, pairs_of, row_base};

/// Rows that are added at a time.
const ROWS: usize = 1 << 14;

/// Counts over pairs of copies.
#[derive(Clone, Debug)]
pub(crate) struct HaplotypePairs {
    pub(super) copies: usize,
    /// Rows.
    rows: u64,
    /// Rows at which every copy is called.
    pub(super) complete: u64,
    /// For each pair, rows that are not complete at which both are called; empty if there are no such rows.
    pub(super) joint: Vec<u32>,
    /// For each pair, rows at which both are called with different codes; where few copies carry a code, less the rows of [`carried`](Self::carried).
    pub(super) differences: Vec<Wrapping<u32>>,
    /// For each copy, rows at which it has a code that few copies carry.
    carried: Vec<u32>,
}

/// Rows with `planes` planes of codes, every copy called.
#[derive(Clone, Copy)]
struct Complete {
    planes: usize,
}

impl PairCounts<1> for Complete {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; 1],
    ) {
        let differ = differ(lanes, first, second, self.planes);
        sums[0] = lanes.add(sums[0], lanes.counters(differ));
    }
}

/// Rows with one plane of codes, every copy called.
#[derive(Clone, Copy)]
struct CompleteBiallelic;

impl PairCounts<1> for CompleteBiallelic {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; 1],
    ) {
        let differ = lanes.xor(first.plane(lanes, 0), second.plane(lanes, 0));
        sums[0] = lanes.add(sums[0], lanes.counters(differ));
    }
}

/// Rows with `planes` planes of codes and then one of called copies.
#[derive(Clone, Copy)]
struct Incomplete {
    planes: usize,
}

impl PairCounts<2> for Incomplete {
    #[inline(always)]
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; 2],
    ) {
        let joint = lanes.and(
            first.plane(lanes, self.planes),
            second.plane(lanes, self.planes),
        );
        let differ = lanes.and(differ(lanes, first, second, self.planes), joint);
        sums[0] = lanes.add(sums[0], lanes.counters(joint));
        sums[1] = lanes.add(sums[1], lanes.counters(differ));
    }
}

/// Where the codes of two units differ in any plane.
#[inline(always)]
fn differ<L: Lanes>(
    lanes: L,
    first: &UnitStrip<'_>,
    second: &UnitStrip<'_>,
    planes: usize,
) -> L::Strip {
    let mut differ = lanes.zero();
    for plane in 0..planes {
        let these = lanes.xor(first.plane(lanes, plane), second.plane(lanes, plane));
        differ = lanes.or(differ, these);
    }
    differ
}

impl HaplotypePairs {
    /// Rows at which both copies are called and those of them at which they differ, i < j.
    pub(crate) fn pair(&self, i: usize, j: usize) -> (u64, u64) {
        let at = row_base(self.copies, i).wrapping_add(j);
        let joint = self.joint.get(at).copied().map_or(0, u64::from);
        let carried = |copy: usize| Wrapping(self.carried.get(copy).copied().unwrap_or(0));
        let differences = self.differences.get(at).copied().unwrap_or_default();
        let differences = differences + carried(i) + carried(j);
        (self.complete + joint, u64::from(differences.0))
    }

    fn add(
        &mut self,
        rows: &[PlanesRow<'_>],
        complete: bool,
        planes: usize,
        (level, workers): (Level, &Workers<'_>),
    ) -> Result<(), CountError> {
        let copies = self.copies;
        let all = planes + usize::from(!complete);
        let bits = Transposed::try_new(rows, copies, planes, !complete, workers)?;
        let mut panel = Panel::try_new(copies, all, rows.len())?;
        panel.fill(workers, |copy, unit| {
            for plane in 0..all {
                unit.set(plane, bits.of(plane, copy).iter().copied());
            }
        })?;
        drop(bits);
        if !complete && self.joint.is_empty() {
            self.joint = zeros(pairs_of(copies), copies)?;
        }
        let mut of_parts = Divided::new(&mut self.differences);
        let mut joint_of_parts = Divided::new(&mut self.joint);
        let parts = Part::whole(copies, false).divide(1, workers);
        let parts = parts.into_iter().map(|part| {
            let (differences, joint) = (of_parts.next(&part), joint_of_parts.next(&part));
            (part, differences, joint)
        });
        let (panel, on) = (&panel, (level, workers));
        workers.each(parts, |(part, differences, joint)| {
            // Counts fit: there are fewer than 2^32 rows.
            let mut count = |at: usize, [differ]: [u64; 1]| {
                differences[at] += differ as u32;
            };
            match (complete, planes) {
                (true, 1) => {
                    for_each_pair::<1, 8, _, _>(panel, &part, CompleteBiallelic, on, count)
                }
                (true, _) => {
                    for_each_pair::<1, 2, _, _>(panel, &part, Complete { planes }, on, count)
                }
                (false, _) => {
                    let sink = |at: usize, [both, differ]: [u64; 2]| {
                        joint[at] += both as u32;
                        count(at, [differ]);
                    };
                    for_each_pair::<2, 2, _, _>(panel, &part, Incomplete { planes }, on, sink)
                }
            }
        })
    }

    /// Adds rows of which few copies carry a code: two copies differ at those that the one carries and those that the other does, but
    /// for those that both carry.
    fn add_rare(&mut self, rare: &[RareByUnit], workers: &Workers<'_>) -> Result<(), CountError> {
        for (copy, _) in rare.iter().flat_map(RareByUnit::carriers) {
            self.carried[*copy as usize] += 1;
        }
        let mut of_parts = Divided::new(&mut self.differences);
        let parts = Part::whole(self.copies, false).divide(1, workers);
        let parts = parts.into_iter().map(|part| {
            let differences = of_parts.next(&part);
            (part, differences)
        });
        workers.each(parts, |(part, differences)| {
            for rows in rare {
                rows.for_each_pair(&part, |at, _, _| differences[at] -= 2);
            }
            Ok(())
        })
    }
}

/// Rows, sorted by how they are added.
#[derive(Default)]
struct SortedRows<'a> {
    /// Those at which every copy is called.
    complete: u64,
    rare: Rare,
    /// The others, by whether they are complete and by the number of their planes of codes.
    classes: BTreeMap<(bool, usize), Vec<PlanesRow<'a>>>,
}

impl<'a> SortedRows<'a> {
    fn of(rows: &[PlanesRow<'a>], copies: usize) -> Self {
        let mut sorted = Self::default();
        for row in rows {
            let complete = row.is_complete();
            sorted.complete += u64::from(complete);
            let planes = row.codes().count();
            if planes == 0 && complete {
                continue;
            }
            match rare_plane(*row, copies) {
                Some((plane, set)) => sorted.rare.push(bits_of(words_of(plane, set, copies))),
                None => sorted
                    .classes
                    .entry((complete, planes))
                    .or_default()
                    .push(*row),
            }
        }
        sorted
    }
}

/// The copies of the bits of words.
fn bits_of(words: impl Iterator<Item = (usize, u64)>) -> impl Iterator<Item = (u32, u8)> {
    words.flat_map(|(at, mut word)| {
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros())?;
            word &= word - 1;
            Some((at as u32 * 64 + bit, 1))
        })
    })
}

impl PairMatrix for HaplotypePairs {
    const KIND: u32 = 1;
    type Options = ();

    fn try_new(shape: Shape, (): ()) -> Result<Self, CountError> {
        let copies = shape.copies();
        Ok(Self {
            copies,
            rows: 0,
            complete: 0,
            joint: vec![],
            differences: zeros(pairs_of(copies), copies)?,
            carried: zeros(copies, copies)?,
        })
    }

    fn fold(
        &mut self,
        rows: &[PlanesRow<'_>],
        level: Level,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, rows.len() as u64)?;
        let copies = self.copies;
        for rows in rows.chunks(ROWS) {
            let sorted = workers.parts_of(rows, |rows| {
                let SortedRows {
                    complete,
                    rare,
                    classes,
                } = SortedRows::of(rows, copies);
                Ok((complete, rare.by_unit(copies)?, classes))
            })?;
            let (mut all_rare, mut all_classes) = (vec![], BTreeMap::<_, Vec<_>>::new());
            for (complete, rare, classes) in sorted {
                self.complete += complete;
                all_rare.extend((!rare.is_empty()).then_some(rare));
                for (class, rows) in classes {
                    all_classes.entry(class).or_default().extend(rows);
                }
            }
            for ((complete, planes), rows) in all_classes {
                self.add(&rows, complete, planes, (level, workers))?;
            }
            if !all_rare.is_empty() {
                self.add_rare(&all_rare, workers)?;
            }
        }
        Ok(())
    }

    fn send(
        shape: Shape,
        (): (),
        device: &OnDevice,
        rows: &[PlanesRow<'_>],
        workers: &Workers<'_>,
    ) -> Result<Vec<usize>, CountError> {
        Self::send_rows(shape, device, rows, workers)
    }

    fn counts_resident(shape: Shape, (): (), device: &OnDevice) -> Result<bool, CountError> {
        device.open(Units::Copies, shape.copies())
    }

    fn send_resident(
        shape: Shape,
        (): (),
        device: &OnDevice,
        parts: Vec<ResidentPart>,
        workers: &Workers<'_>,
    ) -> Result<(), CountError> {
        device.send_resident(Units::Copies, shape.copies(), &parts, workers)
    }

    fn add_counted(&mut self, device: &OnDevice, workers: &Workers<'_>) -> Result<(), CountError> {
        let sent = device.take_sent();
        self.rows = more_rows(self.rows, sent.rows)?;
        self.complete += sent.complete;
        device.take(|units, sums| self.add_sums(units, sums, workers))
    }

    fn merge(&mut self, other: &Self) -> Result<(), CountError> {
        self.rows = more_rows(self.rows, other.rows)?;
        self.complete += other.complete;
        add_all(&mut self.joint, &other.joint);
        add_all(&mut self.differences, &other.differences);
        add_all(&mut self.carried, &other.carried);
        Ok(())
    }

    fn save(&self, out: &mut Vec<u64>, workers: &Workers<'_>) -> Result<(), CountError> {
        out.extend([self.rows, self.complete]);
        save_optional(&self.joint, out, workers)?;
        save_optional(&self.differences, out, workers)?;
        save_optional(&self.carried, out, workers)
    }

    fn load(shape: Shape, (): (), words: &mut Words<'_>) -> Option<Self> {
        let copies = shape.copies();
        let pairs = pairs_of(copies);
        let (rows, complete) = (words.next()?, words.next()?);
        let (joint, differences) = (words.optional(pairs)?, words.optional(pairs)?);
        let carried = words.optional(copies)?;
        let counted = (differences.len(), carried.len()) == (pairs, copies);
        counted.then_some(Self {
            copies,
            rows,
            complete,
            joint,
            differences,
            carried,
        })
    }

    fn heap_bytes(&self) -> usize {
        let numbers = self.joint.capacity() + self.differences.capacity() + self.carried.capacity();
        numbers * size_of::<u32>()
    }

    fn bytes_of(shape: Shape, (): ()) -> usize {
        pairs_of(shape.copies()).saturating_mul(size_of::<u32>())
    }
}
