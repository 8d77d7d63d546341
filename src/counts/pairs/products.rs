//! Counts over all pairs of units (haplotypes or individuals) of a panel, in strips of 512 rows, with the host's best instruction set.

use crate::counts::lanes::STRIP;
use crate::counts::{CountError, Job, Lanes, Level, Workers};

use super::matrix::zeros;
use super::triangle::Part;

/// Rows of a strip.
pub(super) const STRIP_ROWS: usize = 8 * STRIP;
/// Second units that stay in the cache while all first ones pass.
const BLOCK: usize = 64;

/// The bits of units: for each unit and plane, strips of rows.
#[derive(Debug)]
pub(super) struct Panel {
    units: usize,
    planes: usize,
    /// Strips of a plane.
    strips: usize,
    bits: Vec<[u8; STRIP]>,
}

impl Panel {
    /// A panel of `units` units with `planes` planes of `rows` rows, all of its bits zero.
    pub(super) fn try_new(units: usize, planes: usize, rows: usize) -> Result<Self, CountError> {
        let strips = rows.div_ceil(STRIP_ROWS);
        let len = units.saturating_mul(planes).saturating_mul(strips);
        if len.checked_mul(STRIP).is_none() {
            return Err(super::matrix::too_large("bits", units));
        }
        let words: Vec<Zeros> = zeros(len, units)?;
        Ok(Self {
            units,
            planes,
            strips,
            bits: words.into_iter().map(|zeros| zeros.0).collect(),
        })
    }

    /// Calls `set(unit, bits)` for every unit.
    pub(super) fn fill(
        &mut self,
        workers: &Workers<'_>,
        set: impl Fn(usize, &mut UnitBits<'_>) + Sync,
    ) -> Result<(), CountError> {
        let (strips, len) = (self.strips, self.planes * self.strips);
        let blocks = self.bits.chunks_mut((len * BLOCK).max(1)).enumerate();
        workers.each(blocks, |(block, bits)| {
            for (at, bits) in bits.chunks_exact_mut(len).enumerate() {
                set(block * BLOCK + at, &mut UnitBits { bits, strips });
            }
            Ok(())
        })
    }

    /// The planes of a unit, one after the other.
    #[inline(always)]
    fn unit(&self, unit: usize) -> &[[u8; STRIP]] {
        let len = self.planes * self.strips;
        &self.bits[unit * len..(unit + 1) * len]
    }
}

/// The planes of one unit, for writing.
pub(super) struct UnitBits<'a> {
    bits: &'a mut [[u8; STRIP]],
    strips: usize,
}

impl UnitBits<'_> {
    /// Sets the words of a plane, one for each 64 rows.
    #[inline(always)]
    pub(super) fn set(&mut self, plane: usize, words: impl Iterator<Item = u64>) {
        let strips = &mut self.bits[plane * self.strips..(plane + 1) * self.strips];
        for (at, word) in words.enumerate() {
            if let Some(strip) = strips.get_mut(at / 8) {
                let from = at % 8 * 8;
                strip[from..from + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// 64 zero bytes.
#[derive(Clone, Copy)]
struct Zeros([u8; STRIP]);

impl Default for Zeros {
    fn default() -> Self {
        Self([0; STRIP])
    }
}

/// `N` counts of a pair of units.
pub(super) trait PairCounts<const N: usize>: Copy {
    /// Adds the counts of one strip: `first` and `second` are the strips of the units, `planes` apart by `strips`.
    fn add<L: Lanes>(
        self,
        lanes: L,
        first: &UnitStrip<'_>,
        second: &UnitStrip<'_>,
        sums: &mut [L::Strip; N],
    );
}

/// One strip of each plane of a unit.
#[derive(Clone, Copy)]
pub(super) struct UnitStrip<'a> {
    planes: &'a [[u8; STRIP]],
    strips: usize,
    at: usize,
}

impl UnitStrip<'_> {
    /// The strip of a plane.
    #[inline(always)]
    pub(super) fn plane<L: Lanes>(&self, lanes: L, plane: usize) -> L::Strip {
        lanes.load(&self.planes[plane * self.strips + self.at], STRIP)
    }
}

/// Calls `sink(place in the part, counts)` for every pair i < j of a part. Counts of `T` second units are made at a time, in registers.
pub(super) fn for_each_pair<const N: usize, const T: usize, C, S>(
    panel: &Panel,
    part: &Part,
    counts: C,
    (level, workers): (Level, &Workers<'_>),
    sink: S,
) -> Result<(), CountError>
where
    C: PairCounts<N>,
    S: FnMut(usize, [u64; N]),
{
    level.run(Pairs::<N, T, C, S> {
        panel,
        part,
        workers,
        counts,
        sink,
    })
}

struct Pairs<'a, const N: usize, const T: usize, C, S> {
    panel: &'a Panel,
    part: &'a Part,
    workers: &'a Workers<'a>,
    counts: C,
    sink: S,
}

impl<const N: usize, const T: usize, C, S> Job for Pairs<'_, N, T, C, S>
where
    C: PairCounts<N>,
    S: FnMut(usize, [u64; N]),
{
    type Output = Result<(), CountError>;

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) -> Result<(), CountError> {
        let units = self.panel.units;
        let firsts = &self.part.firsts;
        let mut block = firsts.start / BLOCK * BLOCK;
        while block < units {
            self.workers.check()?;
            let end = (block + BLOCK).min(units);
            for i in firsts.start..firsts.end.min(end) {
                let mut j = block.max(i + 1);
                while j + T <= end {
                    self.tile::<L, T>(lanes, i, j);
                    j += T;
                }
                while j < end {
                    self.tile::<L, 1>(lanes, i, j);
                    j += 1;
                }
            }
            block = end;
        }
        Ok(())
    }
}

impl<const N: usize, const T: usize, C, S> Pairs<'_, N, T, C, S>
where
    C: PairCounts<N>,
    S: FnMut(usize, [u64; N]),
{
    #[inline(always)]
    fn tile<L: Lanes, const J: usize>(&mut self, lanes: L, i: usize, j: usize) {
        let panel = self.panel;
        let strips = panel.strips;
        let mut sums = [[lanes.zero(); N]; J];
        let mut seconds: [&[[u8; STRIP]]; J] = [&[]; J];
        for (at, second) in seconds.iter_mut().enumerate() {
            *second = panel.unit(j + at);
        }
        let planes = panel.unit(i);
        for at in 0..strips {
            let first = UnitStrip { planes, strips, at };
            for (planes, sums) in seconds.iter().zip(&mut sums) {
                let second = UnitStrip { planes, strips, at };
                self.counts.add(lanes, &first, &second, sums);
            }
        }
        for (at, sums) in sums.iter().enumerate() {
            let mut counts = [0; N];
            for (count, sum) in counts.iter_mut().zip(sums) {
                *count = lanes.sum(*sum);
            }
            (self.sink)(self.part.at(i, j + at), counts);
        }
    }
}

/// The set bits of a unit's plane.
pub(super) fn ones(panel: &Panel, unit: usize, plane: usize) -> u64 {
    let strips = panel.unit(unit);
    let strips = &strips[plane * panel.strips..(plane + 1) * panel.strips];
    let bytes = strips.as_flattened().as_chunks::<8>().0;
    bytes
        .iter()
        .map(|bytes| u64::from(u64::from_le_bytes(*bytes).count_ones()))
        .sum()
}
