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
        let site = size_of::<f64>() + size_of::<Option<Box<[Strip]>>>();
        let strips = self.alternate.capacity() + (self.incomplete + 1) * self.strips;
        strips * size_of::<Strip>() + self.d.capacity() * site
    }
}

struct Exceeds<'a> {
    window: &'a SiteWindow,
    alternate: &'a [Strip],
    called: Option<&'a [Strip]>,
    d: f64,
    threshold: f64,
}

/// Counts the bits that two sites have in common.
#[inline(always)]
fn joint<L: Lanes>(lanes: L, first: &[Strip], second: &[Strip]) -> f64 {
    let mut sum = lanes.zero();
    for (first, second) in first.iter().zip(second) {
        let both = lanes.and(lanes.load(&first.0, STRIP), lanes.load(&second.0, STRIP));
        sum = lanes.add(sum, lanes.counters(both));
    }
    lanes.sum(sum) as f64
}

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

    #[inline(always)]
    fn among_any<L: Lanes>(&self, lanes: L, sites: std::ops::Range<usize>) -> bool {
        let window = self.window;
        for at in sites.rev() {
            let (alternate, called) = (window.site(at), window.called[at].as_deref());
            let mine = self.called.unwrap_or(&window.everyone);
            let other = called.unwrap_or(&window.everyone);
            let n = joint(lanes, mine, other);
            let a = joint(lanes, self.alternate, other);
            let b = joint(lanes, mine, alternate);
            if !may_exceed(self.threshold, n, a, b) {
                continue;
            }
            let x = joint(lanes, self.alternate, alternate);
            if r2_of(n, a, b, x).is_some_and(|r2| r2 > self.threshold) {
                return true;
            }
        }
        false
    }
}
