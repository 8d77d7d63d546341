//! Hypergeometric projection: the spectrum of m copies drawn without replacement from a site's n.
//!
//! P(j | n, d, m) = C(d, j) C(n−d, m−j) / C(n, m) (Gutenkunst et al. 2009, the projection of dadi). The weights
//! are computed from the mode outwards by the ratio of neighbours and then normalised. Every weight is then accurate to a few units in
//! the last place even for n of hundreds of thousands, where differences of log-gamma lose digits.

use hashbrown::HashMap;

/// The weights of one (n, d), without those that are 0.
#[derive(Debug)]
struct Weights {
    first: usize,
    values: Box<[f64]>,
}

/// Projects to m copies, with a cache of the weights of each (n, d).
#[derive(Debug)]
pub(crate) struct Projector {
    m: u32,
    known: HashMap<(u32, u32), Weights>,
    bytes: usize,
}

/// The cache is cleared when it takes more bytes than this.
const MAX_BYTES: usize = 32 << 20;

impl Projector {
    pub(crate) fn new(m: u32) -> Self {
        Self {
            m,
            known: HashMap::new(),
            bytes: 0,
        }
    }

    /// Number of bins, m + 1.
    pub(crate) fn bins(&self) -> usize {
        self.m as usize + 1
    }

    /// Bytes on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        self.bytes + self.known.allocation_size()
    }

    /// The bins that a site with d of n copies derived can fall into: the first bin, and the probability of each from there on.
    /// No bins if n < m or d > n.
    pub(crate) fn weights(&mut self, n: u32, d: u32) -> (usize, &[f64]) {
        if n < self.m || d > n {
            return (0, &[]);
        }
        if self.bytes > MAX_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        let (m, bytes) = (self.m, &mut self.bytes);
        let weights = self.known.entry((n, d)).or_insert_with(|| {
            let weights = hypergeometric(u64::from(n), u64::from(d), u64::from(m));
            *bytes += size_of_val(&*weights.values);
            weights
        });
        (weights.first, &weights.values)
    }

    /// Adds `sites` sites with d of n copies derived to `bins`.
    pub(crate) fn add(&mut self, n: u32, d: u32, sites: f64, bins: &mut [f64]) {
        let (first, weights) = self.weights(n, d);
        let bins = bins.get_mut(first..).unwrap_or_default();
        bins.iter_mut()
            .zip(weights)
            .for_each(|(bin, &weight)| *bin += sites * weight);
    }
}

/// P(j | n, d, m) for all j, given d ≤ n and m ≤ n.
fn hypergeometric(n: u64, d: u64, m: u64) -> Weights {
    let (first, last) = (m.saturating_sub(n - d), d.min(m));
    let mode = ((m + 1) * (d + 1) / (n + 2)).clamp(first, last);
    // P(j+1) / P(j) = rises(j) / falls(j).
    let rises = |j: u64| (d - j) as f64 * (m - j) as f64;
    let falls = |j: u64| (j + 1) as f64 * (n - d + j + 1 - m) as f64;
    let in_range = |weight: &f64| *weight >= f64::MIN_POSITIVE;
    let next = |weight: &mut f64, factor: f64| {
        *weight *= factor;
        Some(*weight)
    };
    let below: Vec<f64> = (first..mode)
        .rev()
        .scan(1.0, |weight, j| next(weight, falls(j) / rises(j)))
        .take_while(in_range)
        .collect();
    let above = (mode..last)
        .scan(1.0, |weight, j| next(weight, rises(j) / falls(j)))
        .take_while(in_range);
    let first = mode as usize - below.len();
    let mut values: Vec<f64> = below.into_iter().rev().chain([1.0]).chain(above).collect();
    let total = compensated_sum(&values);
    values.iter_mut().for_each(|weight| *weight /= total);
    Weights {
        first,
        values: values.into(),
    }
}

/// The sum of positive values, to the last place (Neumaier 1974).
fn compensated_sum(values: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0, 0.0);
    for &value in values {
        let next: f64 = sum + value;
        lost += if sum >= value {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
    }
    sum + lost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(n: u32, d: u32, m: u32, j: usize) -> f64 {
        let mut projector = Projector::new(m);
        let (first, weights) = projector.weights(n, d);
        j.checked_sub(first)
            .and_then(|at| weights.get(at))
            .copied()
            .unwrap_or(0.0)
    }

    /// C(n, k), exact for the sizes used here.
    fn choose(n: u128, k: u128) -> u128 {
        if k > n {
            0
        } else {
            (0..k).fold(1, |product, i| product * (n - i) / (i + 1))
        }
    }

    #[test]
    fn is_the_definition() {
        for n in 1..=24u32 {
            for m in 1..=n {
                for d in 0..=n {
                    for j in 0..=m {
                        let ways = choose(d.into(), j.into())
                            * choose(u128::from(n - d), u128::from(m - j));
                        let exact = ways as f64 / choose(n.into(), m.into()) as f64;
                        let found = weight(n, d, m, j as usize);
                        assert!((found - exact).abs() <= 4e-16 * exact, "{n} {d} {m} {j}");
                    }
                }
            }
        }
    }

    #[test]
    #[allow(clippy::excessive_precision)]
    fn is_exact_for_large_samples() {
        // Computed with exact fractions.
        for (n, d, m, j, exact) in [
            (5008, 1234, 300, 60, 0.008550494959498701),
            (5008, 1234, 300, 0, 6.415980599898071e-39),
            (5008, 1234, 300, 150, 7.147955098983559e-23),
            (200_000, 777, 200, 5, 0.0010417715309712365),
            (200_000, 100_000, 200, 100, 0.056376674326523615),
            (200_000, 100_000, 200, 3, 7.442376923187594e-55),
        ] {
            let found = weight(n, d, m, j);
            assert!(
                (found / exact - 1.0).abs() < 1e-13,
                "{n} {d} {m} {j}: {found:e}"
            );
        }
    }

    #[test]
    fn weights_sum_to_one() {
        for (n, m) in [
            (10, 10),
            (5008, 300),
            (5008, 5000),
            (200_000, 200),
            (20_000, 9000),
        ] {
            for d in [0, 1, 2, n / 3, n / 2, n - 1, n] {
                let mut projector = Projector::new(m);
                let (first, weights) = projector.weights(n, d);
                let total: f64 = weights.iter().sum();
                assert!((total - 1.0).abs() < 1e-14, "{n} {d} {m}: {total}");
                assert!(first + weights.len() <= projector.bins());
            }
        }
    }

    #[test]
    fn whole_samples_stay_where_they_are() {
        for d in 0..=30 {
            let mut projector = Projector::new(30);
            assert_eq!(projector.weights(30, d), (d as usize, &[1.0][..]));
        }
    }

    #[test]
    fn sites_with_too_few_copies_have_no_weights() {
        let mut projector = Projector::new(5);
        assert_eq!(projector.weights(4, 2), (0, &[][..]));
        assert_eq!(projector.weights(8, 9), (0, &[][..]));
    }
}
