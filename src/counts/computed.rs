//! [`ComputedLayout`]: how a device lays out what it computed of a chunk for a [`CountRequest`], and [`Counter::add_computed`], which
//! adds it to the counts of a chunk.
//!
//! First counts, each of as many bytes as hold the largest ([`CountWidth`]): for each allele set `[rows × K]`, then for each genotype set
//! `[rows × 5]`, then for each zygosity set `[rows × 2 K]`. Then, at a multiple of 8 bytes, for each set of planes and row an entry of two `u32`: the planes that are stored, as
//! bits in the order of [`GatheredPlanes`](super::gathered::GatheredPlanes), and the place of the first among the 64-bit words that
//! follow after all entries. The stored planes of a row lie one after the other; a plane has one bit for each copy of the set in the
//! sample chunk. Words after the last one used may be left out. Of rows that have [stayed on the device](super::resident) an entry has
//! [`RESIDENT`](super::gathered::RESIDENT) and their number of bits.

use arrow::buffer::{Buffer, ScalarBuffer};

use super::count_width::CountWidth;
use super::counter::Counter;
use super::error::CountError;
use super::gathered::{GatheredPlanes, OTHER_PLANES, code_planes, plane_words};
use super::request::{ChunkCounts, CountRequest, GENOTYPE_CLASSES};
use super::resident::ResidentChunk;

/// Bytes of an entry, and of a word of a plane.
const WORD: usize = size_of::<u64>();

/// What a device computed of a chunk, laid out as [`ComputedLayout`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct ComputedCounts {
    /// The results.
    pub bytes: Buffer,
    /// Bytes of a count.
    pub width: CountWidth,
    /// Whether several tiles of the chunk have the same rows. Then all planes are stored, also those without a set bit.
    pub shares_rows: bool,
    /// The rows that have stayed on the device.
    pub resident: Option<ResidentChunk>,
}

/// Where the parts of a device's results are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedLayout {
    /// Number of counts.
    pub counts: usize,
    /// Byte at which the entries of rows start.
    pub entries: usize,
    /// Byte at which the words of planes start.
    pub data: usize,
    /// For each set of planes: the 64-bit words of a plane.
    pub widths: Vec<usize>,
    /// Planes of a row at most.
    pub planes: usize,
    /// Bytes at most.
    pub len: usize,
}

impl ComputedLayout {
    /// The layout for `rows` rows of a sample chunk that has `copies` copies of each set of planes, with counts of this width; `None` if
    /// sizes do not fit in memory, or places in 32 bits.
    pub fn try_new(
        request: &CountRequest,
        copies: &[usize],
        rows: usize,
        width: CountWidth,
    ) -> Option<Self> {
        let widths = [
            (request.alleles.len(), request.n_alleles),
            (request.genotypes.len(), GENOTYPE_CLASSES),
            (request.zygosity.len(), request.zygosity_width()),
        ];
        let mut counts = 0usize;
        for (sets, of_row) in widths {
            counts = counts.checked_add(sets.checked_mul(of_row)?.checked_mul(rows)?)?;
        }
        let bytes = counts.checked_mul(width.bytes())?;
        if copies.is_empty() {
            return Some(Self {
                counts,
                entries: bytes,
                data: bytes,
                widths: vec![],
                planes: 0,
                len: bytes,
            });
        }
        let planes = code_planes(request.n_alleles)? + OTHER_PLANES;
        let widths: Vec<usize> = copies.iter().map(|copies| plane_words(*copies)).collect();
        let of_row = widths.iter().try_fold(0usize, |sum, width| {
            sum.checked_add(width.checked_mul(planes)?)
        })?;
        let words = of_row.checked_mul(rows)?;
        u32::try_from(words).ok()?;
        let entries = bytes.checked_next_multiple_of(WORD)?;
        let entry_bytes = copies.len().checked_mul(rows)?.checked_mul(WORD)?;
        let data = entries.checked_add(entry_bytes)?;
        Some(Self {
            counts,
            entries,
            data,
            widths,
            planes,
            len: data.checked_add(words.checked_mul(WORD)?)?,
        })
    }
}

impl Counter {
    /// Makes what a device computed of `rows` rows of a sample chunk the counts and planes of `out`, if every set is in that chunk: without
    /// a copy where they are as wide as those of `out`. `out` need not have been reset. Otherwise returns false, and `out` must be reset.
    pub fn set_computed(
        &self,
        computed: &ComputedCounts,
        rows: usize,
        out: &mut ChunkCounts,
    ) -> bool {
        self.wanted_sample_chunks().len() == 1 && self.try_set(computed, rows, out).is_some()
    }

    fn try_set(&self, computed: &ComputedCounts, rows: usize, out: &mut ChunkCounts) -> Option<()> {
        let request = self.request();
        let ComputedCounts {
            bytes,
            width,
            shares_rows,
            resident,
        } = computed;
        let copies: Vec<usize> = request
            .planes
            .iter()
            .map(|set| request.copies(set))
            .collect();
        let layout = ComputedLayout::try_new(request, &copies, rows, *width)?;
        let is_whole = match request.planes.is_empty() {
            true => bytes.len() == layout.len,
            false => (layout.data..=layout.len).contains(&bytes.len()),
        };
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(WORD);
        let has_empty_planes = *shares_rows && !request.planes.is_empty();
        if !is_whole || !is_aligned || has_empty_planes {
            return None;
        }
        let (alleles, genotypes, zygosity) =
            (&request.alleles, &request.genotypes, &request.zygosity);
        let rest = out
            .alleles
            .set(bytes, *width, alleles.len(), rows * request.n_alleles)?;
        let rest = out
            .genotypes
            .set(&rest, *width, genotypes.len(), rows * GENOTYPE_CLASSES)?;
        out.zygosity.set(
            &rest,
            *width,
            zygosity.len(),
            rows * request.zygosity_width(),
        )?;
        out.rows = rows;
        out.planes
            .resize_with(request.planes.len(), GatheredPlanes::default);
        if request.planes.is_empty() {
            return Some(());
        }
        let entries: &[[u32; 2]] = cast(bytes.get(layout.entries..layout.data)?)?;
        let words = bytes.slice(layout.data);
        let data = ScalarBuffer::new(words.clone(), 0, words.len() / WORD);
        let sets = out.planes.iter_mut().zip(entries.chunks_exact(rows.max(1)));
        for ((planes, entries), copies) in sets.zip(copies) {
            let may_stay = resident.is_some();
            planes.set_rows(entries, data.clone(), copies, request.n_alleles, may_stay)?;
        }
        Some(())
    }

    /// Adds what a device computed of `rows` rows of a sample chunk to the same rows of `out`.
    ///
    /// # Errors
    /// [`CountError::Mismatch`]: bytes that are not laid out as [`ComputedLayout`] says.
    pub fn add_computed(
        &self,
        computed: &ComputedCounts,
        rows: usize,
        sample_chunk: usize,
        out: &mut ChunkCounts,
    ) -> Result<(), CountError> {
        self.check_out(out, rows)?;
        let request = self.request();
        let samples = self.samples_of(sample_chunk);
        let mut firsts = Vec::with_capacity(request.planes.len());
        let mut copies = Vec::with_capacity(request.planes.len());
        for set in &request.planes {
            let before = |stop: usize| {
                let ends = set
                    .indices()
                    .partition_point(|sample| (*sample as usize) < stop);
                ends * request.ploidy
            };
            let first = before(samples.start);
            firsts.push(first);
            copies.push(before(samples.end) - first);
        }
        let ComputedCounts { bytes, width, .. } = computed;
        let mismatch = || {
            CountError::Mismatch(format!(
                "expected what a device computed of {rows} rows of every set, found {} bytes of something else",
                bytes.len()
            ))
        };
        let layout =
            ComputedLayout::try_new(request, &copies, rows, *width).ok_or_else(mismatch)?;
        if bytes.len() > layout.len || request.planes.is_empty() && bytes.len() < layout.len {
            return Err(mismatch());
        }
        let part = |range| {
            let bytes: Option<&[u8]> = bytes.get::<std::ops::Range<usize>>(range);
            bytes.ok_or_else(mismatch)
        };
        let columns = out
            .alleles
            .iter_mut()
            .map(|column| (column, request.n_alleles));
        let genotypes = out
            .genotypes
            .iter_mut()
            .map(|column| (column, GENOTYPE_CLASSES));
        let of_zygosity = request.zygosity_width();
        let zygosity = out.zygosity.iter_mut().map(|column| (column, of_zygosity));
        let mut rest = part(0..layout.counts * width.bytes())?;
        for (column, of_row) in columns.chain(genotypes).chain(zygosity) {
            // The layout has checked that this fits.
            let len = rows * of_row * width.bytes();
            let (counts, tail) = rest.split_at_checked(len).ok_or_else(mismatch)?;
            width.add(counts, column).ok_or_else(mismatch)?;
            rest = tail;
        }
        let entries: &[[u32; 2]] = cast(part(layout.entries..layout.data)?).ok_or_else(mismatch)?;
        let data: &[u64] = cast(part(layout.data..bytes.len())?).ok_or_else(mismatch)?;
        let sets = out.planes.iter_mut().zip(firsts).zip(&layout.widths);
        for (set, ((planes, first), &width)) in sets.enumerate() {
            let entries = entries
                .get(set * rows..(set + 1) * rows)
                .ok_or_else(mismatch)?;
            for (row, [stored, place]) in entries.iter().enumerate() {
                let (mut left, mut from) = (*stored, *place as usize);
                while left != 0 {
                    let plane = left.trailing_zeros() as usize;
                    left &= left - 1;
                    let words = data.get(from..from + width).ok_or_else(mismatch)?;
                    if plane >= layout.planes {
                        return Err(mismatch());
                    }
                    planes.add_plane(row, plane, first, words);
                    from += width;
                }
            }
        }
        Ok(())
    }
}

/// The bytes as numbers, where they are aligned and whole ones.
fn cast<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Option<&[T]> {
    match bytes {
        [] => Some(&[]),
        bytes => bytemuck::try_cast_slice(bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::gathered::{PlanesRow, RESIDENT, RESIDENT_ONES};
    use super::super::sample_set::SampleSet;
    use super::*;

    fn counter() -> Counter {
        let request = CountRequest {
            alleles: vec![Arc::new(SampleSet::all(4))],
            genotypes: vec![],
            zygosity: vec![],
            planes: vec![Arc::new(SampleSet::new(vec![0, 2, 3]))],
            n_alleles: 3,
            n_samples: 4,
            ploidy: 2,
        };
        Counter::try_new(request, 3).unwrap()
    }

    fn computed(words: Vec<u64>, width: CountWidth) -> ComputedCounts {
        let bytes = Buffer::from_vec(words);
        ComputedCounts {
            bytes,
            width,
            shares_rows: false,
            resident: None,
        }
    }

    /// Of the second sample chunk, which has the last sample: its copies follow those of the other two in the set.
    #[test]
    fn planes_of_a_sample_chunk_follow_those_before() {
        let counter = counter();
        let layout = ComputedLayout::try_new(counter.request(), &[2], 2, CountWidth::Four).unwrap();
        assert_eq!((layout.counts, layout.entries, layout.data), (6, 24, 40));
        assert_eq!((layout.widths.as_slice(), layout.planes), (&[1][..], 4));
        assert_eq!(layout.len, 40 + 2 * 4 * 8);
        let mut words = vec![0u64; 5];
        words[0] = 1 | 1 << 32;
        // Row 1: plane 1 of the codes and the absent copies, from word 1 on.
        words[4] = 0b1010 | 1 << 32;
        words.extend([u64::MAX, 0b01, 0b10]);
        let mut out = ChunkCounts::default();
        out.reset(counter.request(), 2).unwrap();
        counter
            .add_computed(&computed(words, CountWidth::Four), 2, 1, &mut out)
            .unwrap();
        assert_eq!(out.alleles.get(0), Some(&[1, 1, 0, 0, 0, 0][..]));
        let mut row = vec![];
        out.planes[0].push_row(1, &mut row);
        let row = PlanesRow::try_new(&row, 6).unwrap();
        let codes: Vec<i64> = (0..6).map(|copy| row.code(copy)).collect();
        assert_eq!(codes, [0, 0, 0, 0, 2, -2]);
    }

    #[test]
    fn other_bytes_are_refused() {
        let counter = counter();
        let add = |words: &[u64]| {
            let mut out = ChunkCounts::default();
            out.reset(counter.request(), 2).unwrap();
            counter.add_computed(&computed(words.to_vec(), CountWidth::Four), 2, 1, &mut out)
        };
        assert!(add(&[0; 5]).is_ok());
        assert!(add(&[0; 4]).is_err(), "fewer entries");
        assert!(add(&[0; 14]).is_err(), "more than there can be");
        assert!(add(&[0, 0, 0, 0, 1]).is_err(), "a plane that is not there");
        assert!(add(&[0, 0, 0, 0, 16, 0]).is_err(), "no such plane");
        let layout = ComputedLayout::try_new(counter.request(), &[2], usize::MAX, CountWidth::One);
        assert!(layout.is_none());
    }

    /// Rows that have stayed on the device are marks; others are as without such rows.
    #[test]
    fn rows_that_stay_are_marks() {
        #[derive(Debug)]
        struct Rows;
        impl crate::counts::ResidentRows for Rows {}

        let counter = Counter::try_new(counter().request().clone(), 4).unwrap();
        // Three rows of three counts of one byte, in two words; one row of references, one that has stayed with three bits, one of two planes.
        let entries = [
            0,
            u64::from(1 | RESIDENT | 3 << RESIDENT_ONES) | 17 << 32,
            0b101,
        ];
        let words = [vec![0, 0], entries.to_vec(), vec![0b011, 0b100]].concat();
        let without = computed(words, CountWidth::One);
        let mut out = ChunkCounts::default();
        assert!(
            !counter.set_computed(&without, 3, &mut out),
            "nothing stays"
        );
        let chunk = ResidentChunk(Arc::new(Rows));
        let with = ComputedCounts {
            resident: Some(chunk.clone()),
            ..without
        };
        assert!(counter.set_computed(&with, 3, &mut out));
        let planes = Arc::new(crate::counts::ResidentPlanes::new(1, 0));
        let key = crate::counts::ResidentReader::new(&planes).register(&chunk);
        out.planes[0].set_resident(key, 5);
        let row = |at: usize| {
            let mut words = vec![];
            out.planes[0].push_row(at, &mut words);
            assert_eq!(words.len(), out.planes[0].words(at..at + 1));
            words
        };
        assert_eq!((row(0), row(2)), (vec![0], vec![1 | 1 << 62, 0b011, 0b100]));
        let mark = crate::counts::RowMark::of(&row(1)).unwrap();
        assert_eq!((mark.chunk, mark.set, mark.row, mark.ones), (key, 5, 1, 3));
        assert!(PlanesRow::try_new(&row(1), 6).is_none());
        // They cannot be added to those of other sample chunks.
        let mut sum = ChunkCounts::default();
        sum.reset(counter.request(), 3).unwrap();
        assert!(counter.add_computed(&with, 3, 0, &mut sum).is_err());
    }

    /// A store with one chunk along the samples: narrow counts are widened, planes are taken as they are, and so both ways agree.
    #[test]
    fn whole_results_are_taken() {
        let request = CountRequest {
            zygosity: vec![Arc::new(SampleSet::new(vec![1, 2]))],
            ..counter().request().clone()
        };
        let counter = Counter::try_new(request, 4).unwrap();
        for (width, words) in [
            // Two rows of three counts, two of six, entries, planes: counts of one byte fill 18 bytes, of two 36, of four 72.
            (CountWidth::One, vec![0x0605_0403_0201, 0x0807, 9 << 8]),
            (
                CountWidth::Two,
                vec![1 | 2 << 16 | 3 << 32 | 4 << 48, 5 | 6 << 16, 7, 8, 9],
            ),
            (CountWidth::Four, vec![1 | 2 << 32, 3, 4, 5, 6, 7, 8, 0, 9]),
        ] {
            let mut words = words;
            // Row 0 has no plane. Row 1: plane 0 of the codes and the uncalled copies.
            words.extend([0, 0b101, 0b011, 0b100]);
            let bytes = computed(words.clone(), width);
            let (mut set, mut added) = (ChunkCounts::default(), ChunkCounts::default());
            assert!(counter.set_computed(&bytes, 2, &mut set));
            added.reset(counter.request(), 2).unwrap();
            counter.add_computed(&bytes, 2, 0, &mut added).unwrap();
            assert_eq!(set, added);
            assert_eq!(set.alleles.get(0).unwrap()[0], 1, "{width:?}");
            let mut row = vec![];
            set.planes[0].push_row(1, &mut row);
            assert_eq!(row, [1 | 1 << 62, 0b011, 0b100]);
            // Planes that are not there.
            let short = computed(words[..words.len() - 1].to_vec(), width);
            assert!(!counter.set_computed(&short, 2, &mut set));
            let shared = ComputedCounts {
                shares_rows: true,
                ..bytes
            };
            assert!(!counter.set_computed(&shared, 2, &mut set));
        }
    }
}
