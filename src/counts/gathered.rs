//! [`GatheredPlanes`]: the genotypes of a sample set as bit-planes, one bit a copy, as a counter gathers them from chunks.
//! [`PlanesRow`]: one row of them as the words that leave the scan.
//!
//! A row is a header word and then, for each of its set bits from the lowest on, a plane of `copies.div_ceil(64)` words. Bit `k` of the
//! header stands for plane `k` of the codes, [`UNCALLED`] for the copies that exist and are not called, [`ABSENT`] for those that do not
//! exist (-2). Bit `i` of a plane is copy `i` of the set, in store order; bits past the last copy are zero, and so are those of codes
//! that are not called. Planes without a set bit are left out: a row of reference calls is its header alone.

use arrow::buffer::ScalarBuffer;

use super::error::CountError;
use super::resident::{ChunkKey, RowMark};

/// The code of "no such copy" (a haploid call in a diploid array).
pub const FILL_CODE: i64 = -2;
/// Bit of the header for copies that exist and are not called.
pub const UNCALLED: u32 = 62;
/// Bit of the header for copies that do not exist.
pub const ABSENT: u32 = 63;
/// In the entry of a row: it has stayed on the device.
pub(super) const RESIDENT: u32 = 0x80;
/// In such an entry: where the number of its bits begins.
pub(super) const RESIDENT_ONES: u32 = 8;
/// Most planes of codes: K is at most 2³⁰.
const MOST_CODE_PLANES: usize = 30;
/// Planes beside those of codes.
pub const OTHER_PLANES: usize = 2;

/// Words of a plane of this many copies.
pub fn plane_words(copies: usize) -> usize {
    copies.div_ceil(u64::BITS as usize)
}

/// Planes that the codes below `n_alleles` have bits in, and at least one; `None` for more alleles than there are planes for.
pub fn code_planes(n_alleles: usize) -> Option<usize> {
    let highest = n_alleles.saturating_sub(1).max(1);
    let planes = (usize::BITS - highest.leading_zeros()) as usize;
    (planes <= MOST_CODE_PLANES).then_some(planes)
}

/// The most words of a row; saturating.
pub fn most_row_words(copies: usize, n_alleles: usize) -> usize {
    let planes = code_planes(n_alleles).unwrap_or(MOST_CODE_PLANES) + OTHER_PLANES;
    planes.saturating_mul(plane_words(copies)).saturating_add(1)
}

/// The planes of the rows of one chunk. Planes without a set bit take no room.
#[derive(Debug, Clone, Default)]
pub struct GatheredPlanes {
    rows: usize,
    /// Words of a plane.
    width: usize,
    code_planes: usize,
    /// For each row, and in it for each plane of codes, then for uncalled and for absent copies: one more than the place of its first word,
    /// or 0 where it has no set bit.
    places: Vec<u32>,
    /// The words of planes that are made here.
    data: Vec<u64>,
    /// The words of planes that a device has made, instead.
    computed: Option<ScalarBuffer<u64>>,
    /// Where rows have stayed on a device: for each row the number of its bits, or 0 if it is here; else empty.
    resident: Vec<u32>,
    /// The chunk and the set of those rows.
    resident_at: Option<(ChunkKey, u32)>,
}

/// Equal where every row is, wherever its planes are kept.
impl PartialEq for GatheredPlanes {
    fn eq(&self, other: &Self) -> bool {
        let row = |of: &Self, row: usize| {
            let mut words = Vec::new();
            of.push_row(row, &mut words);
            words
        };
        self.rows == other.rows && (0..self.rows).all(|at| row(self, at) == row(other, at))
    }
}

impl Eq for GatheredPlanes {}

impl GatheredPlanes {
    /// Makes room for `rows` rows of `copies` copies with codes below `n_alleles`, without a set bit; allocations are reused.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if that does not fit in memory.
    pub fn reset(
        &mut self,
        rows: usize,
        copies: usize,
        n_alleles: usize,
    ) -> Result<(), CountError> {
        let too_large =
            || CountError::TooLarge(format!("bit-planes of {rows} rows of {copies} copies"));
        self.rows = rows;
        self.width = plane_words(copies);
        self.code_planes = code_planes(n_alleles).ok_or_else(too_large)?;
        self.data.clear();
        self.computed = None;
        self.resident.clear();
        self.resident_at = None;
        self.places.clear();
        let places = rows.checked_mul(self.planes()).ok_or_else(too_large)?;
        let words = places.checked_mul(self.width).ok_or_else(too_large)?;
        // The place of every word must fit.
        if u32::try_from(words).is_err() {
            return Err(too_large());
        }
        self.places
            .try_reserve_exact(places)
            .map_err(|_| too_large())?;
        self.places.resize(places, 0);
        Ok(())
    }

    /// Makes planes of a device those of all rows, `copies` copies with codes below `n_alleles` each. An entry of a row has the planes
    /// that are stored, as bits, and the place of the first of them among the words of `data`; `None` if they are not there. With
    /// `may_stay`, rows may have stayed on the device, as [`RESIDENT`] says.
    pub(super) fn set_rows(
        &mut self,
        entries: &[[u32; 2]],
        data: ScalarBuffer<u64>,
        copies: usize,
        n_alleles: usize,
        may_stay: bool,
    ) -> Option<()> {
        self.reset(entries.len(), copies, n_alleles).ok()?;
        if may_stay {
            self.resident.resize(entries.len(), 0);
        }
        let planes = self.planes();
        let rows = self.places.chunks_exact_mut(planes);
        for (row, (places, &[stored, first])) in rows.zip(entries).enumerate() {
            if may_stay && stored & RESIDENT != 0 {
                *self.resident.get_mut(row)? = stored >> RESIDENT_ONES;
                continue;
            }
            let end = stored.count_ones() as usize * self.width + first as usize;
            if stored.checked_shr(planes as u32).unwrap_or(0) != 0
                || end > data.len() && stored != 0
            {
                return None;
            }
            let mut place = first as usize + 1;
            for (at, to) in places.iter_mut().enumerate() {
                if stored >> at & 1 == 1 {
                    *to = u32::try_from(place).ok()?;
                    place += self.width;
                }
            }
        }
        self.computed = Some(data);
        Some(())
    }

    /// Whether rows have stayed on a device.
    pub(super) fn has_resident(&self) -> bool {
        self.resident.iter().any(|ones| *ones != 0)
    }

    /// Sets the chunk and the set of the rows that have stayed on a device.
    pub(super) fn set_resident(&mut self, chunk: ChunkKey, set: u32) {
        self.resident_at = Some((chunk, set));
    }

    /// The mark of a row that has stayed on a device.
    fn mark(&self, row: usize) -> Option<RowMark> {
        let ones = *self.resident.get(row).filter(|ones| **ones != 0)?;
        let (chunk, set) = self.resident_at?;
        Some(RowMark {
            chunk,
            set,
            // Chunks have fewer than 2^32 rows.
            row: row as u32,
            ones,
        })
    }

    fn planes(&self) -> usize {
        self.code_planes + OTHER_PLANES
    }

    /// Place of the plane of uncalled copies among a row's planes.
    pub(super) fn uncalled(&self) -> usize {
        self.code_planes
    }

    /// Place of the plane of absent copies among a row's planes.
    pub(super) fn absent(&self) -> usize {
        self.code_planes + 1
    }

    /// Plane `plane` of a row, for writing; `None` where there is no such plane.
    pub(super) fn plane_mut(&mut self, row: usize, plane: usize) -> Option<&mut [u64]> {
        let planes = self.planes();
        if plane >= planes {
            return None;
        }
        let place = self.places.get_mut(row * planes + plane)?;
        if *place == 0 {
            // `reset` has checked that the words of all planes fit.
            *place = self.data.len() as u32 + 1;
            self.data.resize(self.data.len() + self.width, 0);
        }
        let from = *place as usize - 1;
        self.data.get_mut(from..from + self.width)
    }

    /// Sets the bits of `words` in plane `plane` of a row, the lowest of them that of copy `first`.
    pub(super) fn add_plane(&mut self, row: usize, plane: usize, first: usize, words: &[u64]) {
        if words.iter().all(|word| *word == 0) {
            return;
        }
        if let Some(plane) = self.plane_mut(row, plane) {
            for (word, at) in words.iter().zip((first..).step_by(u64::BITS as usize)) {
                or_bits(plane, at, *word);
            }
        }
    }

    /// Sets the code of one copy, whose bits are clear.
    pub(super) fn set(&mut self, row: usize, copy: usize, code: i64) {
        let mut set = |plane: usize| {
            if let Some(plane) = self.plane_mut(row, plane) {
                or_bits(plane, copy, 1);
            }
        };
        match u64::try_from(code) {
            Ok(mut code) => {
                while code != 0 {
                    set(code.trailing_zeros() as usize);
                    code &= code - 1;
                }
            }
            Err(_) => {
                let plane = if code == FILL_CODE {
                    self.absent()
                } else {
                    self.uncalled()
                };
                if let Some(plane) = self.plane_mut(row, plane) {
                    or_bits(plane, copy, 1);
                }
            }
        }
    }

    /// Appends a row: its header and its planes, or its mark if it has stayed on a device.
    pub fn push_row(&self, row: usize, out: &mut Vec<u64>) {
        if let Some(mark) = self.mark(row) {
            out.extend(mark.words());
            return;
        }
        let planes = self.planes();
        let places = self
            .places
            .get(row * planes..(row + 1) * planes)
            .unwrap_or(&[]);
        let data = self.computed.as_deref().unwrap_or(&self.data);
        let header_at = out.len();
        out.push(0);
        let mut header = 0u64;
        for (plane, &place) in places.iter().enumerate() {
            let Some(place) = (place as usize).checked_sub(1) else {
                continue;
            };
            header |= 1
                << match plane.checked_sub(self.code_planes) {
                    None => plane as u32,
                    Some(0) => UNCALLED,
                    Some(_) => ABSENT,
                };
            out.extend_from_slice(data.get(place..place + self.width).unwrap_or(&[]));
        }
        if let Some(word) = out.get_mut(header_at) {
            *word = header;
        }
    }

    /// Words of the rows of `rows`.
    pub fn words(&self, rows: std::ops::Range<usize>) -> usize {
        let planes = self.planes();
        let places = self.places.get(rows.start * planes..rows.end * planes);
        let kept = places.unwrap_or(&[]).iter().filter(|place| **place != 0);
        let resident = self.resident.get(rows.clone()).unwrap_or(&[]);
        let marks = resident.iter().filter(|ones| **ones != 0).count();
        rows.len() + kept.count() * self.width + marks * (RowMark::WORDS - 1)
    }
}

/// Sets bits of a plane: those of `bits`, the lowest at bit `at`.
#[inline(always)]
pub(super) fn or_bits(plane: &mut [u64], at: usize, bits: u64) {
    let (word, shift) = (at / 64, at % 64);
    if let Some(word) = plane.get_mut(word) {
        *word |= bits << shift;
    }
    if shift > 0
        && let Some(word) = plane.get_mut(word + 1)
    {
        *word |= bits >> (64 - shift);
    }
}

/// One row, viewed.
#[derive(Debug, Clone, Copy)]
pub struct PlanesRow<'a> {
    header: u64,
    planes: &'a [u64],
    width: usize,
}

impl<'a> PlanesRow<'a> {
    /// The row of `copies` copies with these words; `None` if there are more or fewer than its header says, or they are a mark.
    #[inline]
    pub fn try_new(words: &'a [u64], copies: usize) -> Option<Self> {
        let (&header, planes) = words.split_first()?;
        let width = plane_words(copies);
        let fits = (header.count_ones() as usize).checked_mul(width) == Some(planes.len());
        (fits && !RowMark::is_mark(header)).then_some(Self {
            header,
            planes,
            width,
        })
    }

    /// The header.
    pub fn header(&self) -> u64 {
        self.header
    }

    /// The words of all its planes.
    pub fn all_planes(&self) -> &'a [u64] {
        self.planes
    }

    /// Words of a plane.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether every copy is called, and as the reference.
    #[inline]
    pub fn is_all_reference(&self) -> bool {
        self.header == 0
    }

    /// Whether every copy is called.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.header >> UNCALLED == 0
    }

    /// The only plane of codes, where every code is 0 or 1 and one of them 1.
    #[inline]
    pub fn only_low(&self) -> Option<&'a [u64]> {
        (self.header & !(3 << UNCALLED) == 1)
            .then(|| self.planes.get(..self.width))
            .flatten()
    }

    /// The plane of a bit of the header, if it has a set bit.
    #[inline]
    pub fn plane(&self, bit: u32) -> Option<&'a [u64]> {
        if self.header >> bit & 1 == 0 {
            return None;
        }
        let before = (self.header & ((1 << bit) - 1)).count_ones() as usize;
        let from = before * self.width;
        self.planes.get(from..from + self.width)
    }

    /// The planes of codes with a set bit, from the lowest on, each with its bit of the code.
    pub fn codes(&self) -> impl Iterator<Item = (u32, &'a [u64])> + '_ {
        let bits = (0..UNCALLED).filter(|bit| self.header >> bit & 1 == 1);
        bits.zip(self.planes.chunks_exact(self.width.max(1)))
    }

    /// The code of a copy: -2 where it is absent, -1 where it is not called.
    pub fn code(&self, copy: usize) -> i64 {
        let bit = |plane: &[u64]| {
            plane
                .get(copy / 64)
                .map_or(0, |word| word >> (copy % 64) & 1)
        };
        if self.plane(ABSENT).is_some_and(|plane| bit(plane) == 1) {
            return FILL_CODE;
        }
        if self.plane(UNCALLED).is_some_and(|plane| bit(plane) == 1) {
            return -1;
        }
        self.codes()
            .map(|(at, plane)| (bit(plane) << at) as i64)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_codes() {
        for copies in [1, 63, 64, 65, 200] {
            let code = |row: usize, copy: usize| match (row, (row * 7 + copy * 5) % 11) {
                (0, _) => 0,
                (1, n) => i64::from(n == 3),
                (_, 9) => -1,
                (_, 10) => -2,
                (_, n) => n as i64,
            };
            let mut planes = GatheredPlanes::default();
            planes.reset(4, copies, 9).unwrap();
            for row in 0..4 {
                for copy in 0..copies {
                    planes.set(row, copy, code(row, copy));
                }
            }
            for row in 0..4 {
                let mut words = vec![];
                planes.push_row(row, &mut words);
                assert_eq!(words.len(), planes.words(row..row + 1));
                let view = PlanesRow::try_new(&words, copies).unwrap();
                assert!((0..copies).all(|copy| view.code(copy) == code(row, copy)));
                if row == 0 {
                    assert_eq!(words, [0]);
                }
                assert!(PlanesRow::try_new(&words, copies + 64).is_none() || words == [0]);
            }
            assert!(words_fit(&planes, copies));
        }
        assert!(PlanesRow::try_new(&[], 3).is_none());
    }

    fn words_fit(planes: &GatheredPlanes, copies: usize) -> bool {
        planes.words(0..4) <= 4 * most_row_words(copies, 9)
    }

    #[test]
    fn planes_of_codes() {
        assert_eq!(
            [1, 2, 3, 4, 5, 128, 129].map(code_planes),
            [1, 1, 2, 2, 3, 7, 8].map(Some)
        );
        assert_eq!(code_planes(1 << 30), Some(30));
        assert_eq!(code_planes((1 << 30) + 1), None);
        let mut planes = GatheredPlanes::default();
        assert!(planes.reset(1, 1, usize::MAX).is_err());
        assert!(planes.reset(usize::MAX, 1, 2).is_err());
    }
}
