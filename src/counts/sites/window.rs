//! [`SiteWindow`]: sites of a contig in their order, each new one compared with those before it, until r² with one of them is too high.
//!
//! Most pairs of sites cannot reach a high r², because their frequencies differ: those are found from the counts alone, and only the others
//! are compared bit by bit, eight at a time.

use crate::counts::lanes::{STRIP, STRIP_COPIES};
use crate::counts::{Job, Lanes, Level};

use super::bits::{SiteBits, all_ones};
use super::block::{BLOCK, GROUP, Strip};

/// The r² that no two sites may exceed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold(pub(crate) f64);

/// r² of two sites: `n` copies are called at both, of which `a` and `b` carry another allele than the reference at one, and `x` at
/// both; `None` where a site does not vary among these copies.
///
/// Every operation but the last division and, for more than 19,000 copies, the products before it is exact.
#[inline(always)]
pub(crate) fn r2_of(n: f64, a: f64, b: f64, x: f64) -> Option<f64> {
    let (delta, spread) = (n * x - a * b, a * (n - a) * (b * (n - b)));
    (spread > 0.0).then_some(((delta * delta) / spread).min(1.0))
}

/// Whether some number of joint copies gives an r² above `threshold`; the same operations as in [`r2_of`], which all are monotonic.
#[inline(always)]
fn may_exceed(threshold: f64, n: f64, a: f64, b: f64) -> bool {
    let highest = n * a.min(b) - a * b;
    let lowest = a * b - n * (a + b - n).max(0.0);
    let delta = highest.max(lowest);
    (delta * delta) / (a * (n - a) * (b * (n - b))) > threshold
}

/// Relative rounding errors of the bounds below are far smaller.
const SLACK: f64 = 1e-9;

/// Whether r² of two sites of `copies` copies may be above `threshold`, from the called copies `n` and those with another allele than the
/// reference, `d`, of each: of the copies called at one site, as many as are not called at the other may not count.
///
/// r² is at most the ratio of the two odds d / (n − d), or their product, or the inverse of one of these, whichever is highest below 1
/// (VanLiere and Rosenberg 2008). Here the odds lie in intervals. NaN, of a site that does not vary, compares as possible.
#[inline(always)]
fn may_exceed_with_missing(threshold: f64, copies: f64, one: [f64; 2], two: [f64; 2]) -> bool {
    let odds = |[n, d]: [f64; 2], uncalled: f64| {
        let reference = n - d;
        let low = (d - uncalled).max(0.0) / reference;
        let high = d / (reference - uncalled).max(0.0);
        (low, high)
    };
    let (low_1, high_1) = odds(one, copies - two[0]);
    let (low_2, high_2) = odds(two, copies - one[0]);
    let ratio = match (low_1 > high_2, low_2 > high_1) {
        (true, _) => high_2 / low_1,
        (_, true) => high_1 / low_2,
        _ => 1.0,
    };
    let (low, high) = (low_1 * low_2, high_1 * high_2);
    let product = match (low > 1.0, high < 1.0) {
        (true, _) => low.recip(),
        (_, true) => high,
        _ => 1.0,
    };
    let is_below = ratio.max(product) * (1.0 + SLACK) < threshold;
    !is_below
}

/// Some sites of a contig.
#[derive(Debug)]
pub(crate) struct SiteWindow {
    copies: usize,
    strips: usize,
    /// Sites that were removed from the front and are still stored.
    removed: usize,
    /// The strips of each site: copies with another allele than the reference.
    alternate: Vec<Strip>,
    /// Number of those of each site.
    d: Vec<f64>,
    /// Number of called copies of each site.
    n: Vec<f64>,
    /// Called copies of each site; `None` where all are.
    called: Vec<Option<Box<[Strip]>>>,
    /// Sites whose copies are not all called, those removed included.
    incomplete: usize,
    everyone: Box<[Strip]>,
    level: Level,
}

fn strips_of(words: &[u64], strips: usize) -> Box<[Strip]> {
    let mut all = vec![Strip::ZERO; strips];
    for (at, word) in words.iter().enumerate() {
        if let Some(strip) = all.get_mut(at / 8) {
            strip.set(at % 8, *word);
        }
    }
    all.into()
}

impl SiteWindow {
    /// A window of sites of so many copies, without a site.
    pub(crate) fn new(copies: usize, level: Level) -> Self {
        let strips = copies.div_ceil(STRIP_COPIES);
        Self {
            copies,
            strips,
            removed: 0,
            alternate: vec![],
            d: vec![],
            n: vec![],
            called: vec![],
            incomplete: 0,
            everyone: strips_of(&all_ones(copies), strips),
            level,
        }
    }

    /// Number of sites.
    pub(crate) fn len(&self) -> usize {
        self.d.len() - self.removed
    }

    /// Adds a site after the last.
    pub(crate) fn push(&mut self, site: &SiteBits) {
        let strips = strips_of(&site.alternate, self.strips);
        self.alternate.extend_from_slice(&strips);
        self.d.push(site.d as f64);
        self.n.push(site.n as f64);
        let called = (!site.called.is_empty()).then(|| strips_of(&site.called, self.strips));
        self.incomplete += usize::from(called.is_some());
        self.called.push(called);
    }

    /// Removes the first `sites` sites.
    pub(crate) fn remove_first(&mut self, sites: usize) {
        self.removed += sites.min(self.len());
        if self.removed > self.len() {
            self.alternate.drain(..self.removed * self.strips);
            self.d.drain(..self.removed);
            self.n.drain(..self.removed);
            let removed = self.called.drain(..self.removed);
            self.incomplete -= removed.filter(Option::is_some).count();
            self.removed = 0;
        }
    }

    /// Whether r² of `site` with one of the sites is above the threshold.
    pub(crate) fn exceeds(&self, site: &SiteBits, threshold: Threshold) -> bool {
        let alternate = strips_of(&site.alternate, self.strips);
        let called = (!site.called.is_empty()).then(|| strips_of(&site.called, self.strips));
        self.level.run(Exceeds {
            window: self,
            alternate: &alternate,
            called: called.as_deref(),
            d: site.d as f64,
            n: site.n as f64,
            threshold: threshold.0,
        })
    }

    #[inline(always)]
    fn site(&self, at: usize) -> &[Strip] {
        self.alternate
            .get(at * self.strips..(at + 1) * self.strips)
            .unwrap_or_default()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let site = 2 * size_of::<f64>() + size_of::<Option<Box<[Strip]>>>();
        let strips = self.alternate.capacity() + (self.incomplete + 1) * self.strips;
        strips * size_of::<Strip>() + self.d.capacity() * site
    }
}

struct Exceeds<'a> {
    window: &'a SiteWindow,
    alternate: &'a [Strip],
    called: Option<&'a [Strip]>,
    d: f64,
    n: f64,
    threshold: f64,
}

/// Sites that are compared together where copies are not called: four counts of each.
const TOGETHER: usize = GROUP / 4;

impl Job for Exceeds<'_> {
    type Output = bool;

    /// From the last site on: neighbours are most often in disequilibrium.
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> bool {
        let window = self.window;
        let mut end = window.d.len();
        while end > window.removed {
            let start = end.saturating_sub(BLOCK).max(window.removed);
            let all_complete = window.incomplete == 0 && self.called.is_none();
            let found = match all_complete {
                true => self.among_complete(lanes, start..end),
                false => self.among_any(lanes, start..end),
            };
            if found {
                return true;
            }
            end = start;
        }
        false
    }
}

impl Exceeds<'_> {
    /// Of at most 64 sites.
    #[inline(always)]
    fn among_complete<L: Lanes>(&self, lanes: L, sites: std::ops::Range<usize>) -> bool {
        let window = self.window;
        let (n, a) = (window.copies as f64, self.d);
        let mut may = [false; BLOCK];
        let counts = window.d.get(sites.clone()).unwrap_or_default();
        for (may, b) in may.iter_mut().zip(counts) {
            *may = may_exceed(self.threshold, n, a, *b);
        }
        let mut candidates = [0usize; BLOCK + GROUP];
        let mut number = 0;
        for (at, may) in sites.clone().zip(may) {
            candidates[number] = at;
            number += usize::from(may);
        }
        let mut from = 0;
        while from < number {
            // The last candidates may be fewer than eight; the others are then the first site again.
            candidates[number..].fill(sites.start);
            let mut seconds: [&[Strip]; GROUP] = [&[]; GROUP];
            for (second, at) in seconds.iter_mut().zip(&candidates[from..from + GROUP]) {
                *second = window.site(*at);
            }
            let mut sums = [lanes.zero(); GROUP];
            for (at, mine) in self.alternate.iter().enumerate() {
                let mine = lanes.load(&mine.0, STRIP);
                for (sum, second) in sums.iter_mut().zip(seconds) {
                    if let Some(other) = second.get(at) {
                        let both = lanes.and(mine, lanes.load(&other.0, STRIP));
                        *sum = lanes.add(*sum, lanes.counters(both));
                    }
                }
            }
            let sums = lanes.sums(sums);
            let counted = candidates[from..number.min(from + GROUP)].iter().zip(sums);
            for (at, x) in counted {
                let b = window.d[*at];
                if r2_of(n, a, b, x as f64).is_some_and(|r2| r2 > self.threshold) {
                    return true;
                }
            }
            from += GROUP;
        }
        false
    }

    /// The same where copies are not called.
    #[inline(always)]
    fn among_any<L: Lanes>(&self, lanes: L, sites: std::ops::Range<usize>) -> bool {
        let window = self.window;
        let (copies, one) = (window.copies as f64, [self.n, self.d]);
        let mut may = [false; BLOCK];
        let called = window.n.get(sites.clone()).unwrap_or_default();
        let counts = window.d.get(sites.clone()).unwrap_or_default();
        for (may, (n, d)) in may.iter_mut().zip(called.iter().zip(counts)) {
            *may = may_exceed_with_missing(self.threshold, copies, one, [*n, *d]);
        }
        let mut candidates = [0usize; BLOCK + TOGETHER];
        let mut number = 0;
        for (at, may) in sites.clone().zip(may) {
            candidates[number] = at;
            number += usize::from(may);
        }
        let mine = (self.alternate, self.called.unwrap_or(&window.everyone));
        let mut from = 0;
        while from < number {
            candidates[number..].fill(sites.start);
            let mut seconds: [(&[Strip], &[Strip]); TOGETHER] = [(&[], &[]); TOGETHER];
            for (second, at) in seconds.iter_mut().zip(&candidates[from..]) {
                let called = window.called.get(*at).and_then(Option::as_deref);
                *second = (window.site(*at), called.unwrap_or(&window.everyone));
            }
            let mut sums = [lanes.zero(); GROUP];
            for (at, (alternate, called)) in mine.0.iter().zip(mine.1).enumerate() {
                let alternate = lanes.load(&alternate.0, STRIP);
                let called = lanes.load(&called.0, STRIP);
                for (sums, second) in sums.as_chunks_mut::<4>().0.iter_mut().zip(seconds) {
                    let (Some(other), Some(other_called)) = (second.0.get(at), second.1.get(at))
                    else {
                        continue;
                    };
                    let other = lanes.load(&other.0, STRIP);
                    let other_called = lanes.load(&other_called.0, STRIP);
                    let common = [
                        lanes.and(called, other_called),
                        lanes.and(alternate, other_called),
                        lanes.and(called, other),
                        lanes.and(alternate, other),
                    ];
                    for (sum, common) in sums.iter_mut().zip(common) {
                        *sum = lanes.add(*sum, lanes.counters(common));
                    }
                }
            }
            let sums = lanes.sums(sums).map(|sum| sum as f64);
            let counted = (number - from).min(TOGETHER);
            for [n, a, b, x] in sums.as_chunks::<4>().0.iter().take(counted) {
                if r2_of(*n, *a, *b, *x).is_some_and(|r2| r2 > self.threshold) {
                    return true;
                }
            }
            from += TOGETHER;
        }
        false
    }
}
