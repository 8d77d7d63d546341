//! Pairs of variants within a distance: variants are gathered in blocks of 64, and each block is compared with those before it, tile by
//! tile, so that what waits to be returned is never more than the pairs of a tile.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::counts::pairs::Shape;
use crate::counts::sites::{BLOCK, Block, JointCounts, Ranges, SiteBits, joint_counts, r2_of};
use crate::counts::{Job, Lanes, Level};
use crate::functions::numeric::two_dosages::TwoDosages;
use crate::functions::numeric::two_sites::TwoSites;

/// A variant of a block.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) row: u64,
    pub(super) position: i64,
    bits: SiteBits,
    /// Its complete diploids.
    diploids: SiteBits,
}

/// Variants of one contig that follow one another.
#[derive(Debug)]
pub(super) struct Variants {
    pub(super) contig: Arc<str>,
    pub(super) all: Vec<Variant>,
    block: Block,
}

/// A pair with an r².
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) first: usize,
    pub(super) second: usize,
    /// Counts of copies called at both.
    pub(super) sites: TwoSites<u32>,
    pub(super) r2: f64,
}

/// Two blocks whose pairs have not been compared.
pub(super) type Tile = (Arc<Variants>, Arc<Variants>);

/// The variants of a partition.
#[derive(Debug)]
pub(super) struct PairWindow {
    own: Range<u64>,
    shape: Shape,
    max_bases: i64,
    least_r2: Option<f64>,
    level: Level,
    contig: Arc<str>,
    current: Vec<Variant>,
    window: VecDeque<Arc<Variants>>,
    tiles: VecDeque<Tile>,
    counts: Box<[JointCounts; 4]>,
}

impl PairWindow {
    /// Of pairs whose first variant is a row of `own`, at most `max_bases` apart, with an r² of `least_r2` or more.
    pub(super) fn new(
        own: Range<u64>,
        shape: Shape,
        max_bases: i64,
        least_r2: Option<f64>,
    ) -> Self {
        Self {
            own,
            shape,
            max_bases,
            least_r2,
            level: Level::detect(),
            contig: Arc::from(""),
            current: vec![],
            window: VecDeque::new(),
            tiles: VecDeque::new(),
            counts: Box::new([[[0; BLOCK]; BLOCK]; 4]),
        }
    }

    /// Ends the contig, and begins another one.
    pub(super) fn begin(&mut self, contig: &str) {
        self.close();
        self.window.clear();
        self.contig = contig.into();
    }

    /// Adds a variant of the contig.
    pub(super) fn add(&mut self, row: u64, position: i64, bits: &SiteBits, diploids: &SiteBits) {
        self.current.push(Variant {
            row,
            position,
            bits: bits.clone(),
            diploids: diploids.clone(),
        });
        if self.current.len() == BLOCK {
            self.close();
        }
    }

    /// Ends the current block.
    pub(super) fn close(&mut self) {
        let (Some(first), all) = (
            self.current.first().map(|first| first.position),
            std::mem::take(&mut self.current),
        ) else {
            return;
        };
        while let Some(oldest) = self.window.front() {
            let last = oldest.all.last().map_or(first, |last| last.position);
            if first.saturating_sub(last) <= self.max_bases {
                break;
            }
            self.window.pop_front();
        }
        let mut block = Block::new(self.shape.copies());
        block.load(all.iter().map(|variant| {
            let called = variant.bits.called.as_slice();
            let called = (!called.is_empty()).then_some(called);
            (Some(variant.bits.alternate.as_slice()), called)
        }));
        block.fill_called();
        let closed = Arc::new(Variants {
            contig: Arc::clone(&self.contig),
            all,
            block,
        });
        let tiles = self.window.iter().chain([&closed]);
        let tiles = tiles.map(|other| (Arc::clone(other), Arc::clone(&closed)));
        self.tiles.extend(tiles);
        // Rows after those of this partition are never the first of a pair.
        if closed
            .all
            .first()
            .is_some_and(|first| self.own.contains(&first.row))
        {
            self.window.push_back(closed);
        }
    }

    /// Whether there are pairs that have not been compared.
    pub(super) fn has_tiles(&self) -> bool {
        !self.tiles.is_empty()
    }

    /// Whether no variant from `row` on can be in a pair.
    pub(super) fn is_past(&self, row: u64) -> bool {
        row >= self.own.end
            && self.window.is_empty()
            && self.current.is_empty()
            && self.tiles.is_empty()
    }

    /// Compares the pairs of the next tile: those with an r² that is high enough.
    pub(super) fn next_tile(&mut self) -> Option<(Tile, Vec<Pair>)> {
        let tile = self.tiles.pop_front()?;
        let (one, two) = (&tile.0, &tile.1);
        let same = Arc::ptr_eq(one, two);
        let mut ranges: Ranges = [const { 0..0 }; BLOCK];
        for (at, (variant, range)) in one.all.iter().zip(&mut ranges).enumerate() {
            if self.own.contains(&variant.row) {
                let near = |other: &Variant| {
                    other.position.saturating_sub(variant.position) <= self.max_bases
                };
                let end = two.all.partition_point(near);
                let start = if same { at + 1 } else { 0 };
                *range = start.min(end) as u8..end as u8;
            }
        }
        let complete = one.block.is_complete() && two.block.is_complete();
        let (first, second) = (&one.block, &two.block);
        let planes = [
            (&first.alternate, &second.alternate),
            (&first.alternate, &second.called),
            (&first.called, &second.alternate),
            (&first.called, &second.called),
        ];
        let wanted = if complete { 1 } else { planes.len() };
        for ((one, two), counts) in planes.iter().zip(self.counts.iter_mut()).take(wanted) {
            joint_counts(self.level, one, two, &ranges, counts);
        }
        let pairs = self.level.run(Defined {
            first,
            second,
            complete,
            ranges: &ranges,
            counts: &self.counts,
            least: self.least_r2.unwrap_or(f64::NEG_INFINITY),
        });
        Some((tile, pairs))
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        let copies = self.shape.copies();
        // Alternates and called copies of each variant, and of its diploids.
        let variant = size_of::<Variant>() + 4 * copies.div_ceil(64) * size_of::<u64>();
        let blocks = self.window.len() + 2;
        size_of::<[JointCounts; 4]>()
            + blocks.saturating_mul(Block::bytes_of(copies) + BLOCK * variant)
            + self.tiles.capacity() * size_of::<Tile>()
    }
}

/// The pairs of a tile with an r² that is high enough.
struct Defined<'a> {
    first: &'a Block,
    second: &'a Block,
    complete: bool,
    ranges: &'a Ranges,
    counts: &'a [JointCounts; 4],
    least: f64,
}

impl Job for Defined<'_> {
    type Output = Vec<Pair>;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Vec<Pair> {
        let mut pairs = vec![];
        let [alternates, a, b, n] = self.counts;
        let copies = self.first.copies() as u32;
        for (row, range) in self.ranges.iter().enumerate() {
            let range = usize::from(range.start)..usize::from(range.end);
            if self.complete {
                let (n, a) = (f64::from(copies), f64::from(self.first.d[row]));
                let spread = a * (n - a);
                let mut all = [0.0; BLOCK];
                for (r2, (b, x)) in all
                    .iter_mut()
                    .zip(self.second.d.iter().zip(&alternates[row]))
                {
                    let (b, x) = (f64::from(*b), f64::from(*x));
                    // As in `r2_of`, for sites that vary.
                    let delta = n * x - a * b;
                    *r2 = ((delta * delta) / (spread * (b * (n - b)))).min(1.0);
                }
                for other in range {
                    if all[other] >= self.least {
                        let sites = TwoSites {
                            n: copies,
                            a: self.first.d[row],
                            b: self.second.d[other],
                            x: alternates[row][other],
                        };
                        pairs.push(Pair {
                            first: row,
                            second: other,
                            sites,
                            r2: all[other],
                        });
                    }
                }
                continue;
            }
            for other in range {
                let sites = TwoSites {
                    n: n[row][other],
                    a: a[row][other],
                    b: b[row][other],
                    x: alternates[row][other],
                };
                let float = |number: u32| f64::from(number);
                let r2 = r2_of(
                    float(sites.n),
                    float(sites.a),
                    float(sites.b),
                    float(sites.x),
                );
                if let Some(r2) = r2.filter(|r2| *r2 >= self.least) {
                    pairs.push(Pair {
                        first: row,
                        second: other,
                        sites,
                        r2,
                    });
                }
            }
        }
        pairs
    }
}

/// The squared correlation of the genotypes of two variants.
pub(super) fn r2_of_genotypes(one: &Variant, two: &Variant, individuals: usize) -> Option<f64> {
    let (one, two) = (&one.diploids, &two.diploids);
    let word = |words: &[u64], at: usize| words.get(at).copied();
    let copies = individuals * 2;
    let everyone = |at: usize| match copies.saturating_sub(at * 64) {
        64.. => u64::MAX,
        rest => (1 << rest) - 1,
    };
    let [mut n, mut x, mut y, mut xx, mut yy, mut xy] = [0u64; 6];
    for at in 0..copies.div_ceil(64) {
        let called = |bits: &SiteBits| word(&bits.called, at).unwrap_or_else(|| everyone(at));
        let both = called(one) & called(two);
        let first = word(&one.alternate, at).unwrap_or(0) & both;
        let second = word(&two.alternate, at).unwrap_or(0) & both;
        let swapped =
            |word: u64| (word & 0x5555_5555_5555_5555) << 1 | word >> 1 & 0x5555_5555_5555_5555;
        let ones = |word: u64| u64::from(word.count_ones());
        n += ones(both);
        x += ones(first);
        y += ones(second);
        xx += ones(first & swapped(first));
        yy += ones(second & swapped(second));
        xy += ones(first & second) + ones(first & swapped(second));
    }
    let dosages = TwoDosages {
        individuals: (n / 2) as f64,
        x: x as f64,
        y: y as f64,
        xx: (x + xx) as f64,
        yy: (y + yy) as f64,
        xy: xy as f64,
        higher: [0.0; 3],
    };
    dosages.r2()
}
