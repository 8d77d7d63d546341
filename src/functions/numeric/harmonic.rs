//! Harmonic numbers for Watterson's estimator and tests of neutrality, from tables that the whole process shares.
//!
//! The tables consist of segments that are built on first use; a look-up in a built segment is one atomic load without a lock.
//! Sums run over ascending i, so the bits depend on n alone. From [`TABLE_LIMIT`] on an asymptotic series is used, which bounds
//! the tables to 2 × 8 bytes × that limit, however large counts are.

use std::sync::OnceLock;

const SEGMENT_BITS: u32 = 12;
const SEGMENT: usize = 1 << SEGMENT_BITS;
const SEGMENTS: usize = 1 << 10;
/// Values of smaller n are summed, others use the asymptotic series.
pub const TABLE_LIMIT: u64 = (SEGMENT * SEGMENTS) as u64;

/// Euler's constant.
const GAMMA: f64 = 0.577_215_664_901_532_9;

struct Segment {
    harmonic: Box<[f64]>,
    inverse: Box<[f64]>,
}

static TABLE: [OnceLock<Segment>; SEGMENTS] = [const { OnceLock::new() }; SEGMENTS];

#[inline]
fn segment(n: u64) -> Option<(&'static Segment, usize)> {
    let slot = TABLE.get(usize::try_from(n >> SEGMENT_BITS).ok()?)?;
    let within = (n & (SEGMENT as u64 - 1)) as usize;
    Some((slot.get().unwrap_or_else(|| build_up_to(n)), within))
}

/// Builds the segments up to the one that holds `n`, which must be below [`TABLE_LIMIT`].
#[cold]
fn build_up_to(n: u64) -> &'static Segment {
    let last = (n >> SEGMENT_BITS) as usize;
    let mut at = TABLE[0].get_or_init(|| Segment::after(0, 0.0));
    for (index, slot) in TABLE.iter().enumerate().take(last + 1).skip(1) {
        let previous = at.harmonic[SEGMENT - 1];
        at = slot.get_or_init(|| Segment::after(index, previous));
    }
    at
}

impl Segment {
    /// Segment `index`, given h of the last n before it.
    fn after(index: usize, mut h: f64) -> Self {
        let first = index << SEGMENT_BITS;
        let mut harmonic = Vec::with_capacity(SEGMENT);
        for n in first..first + SEGMENT {
            if n >= 2 {
                h += 1.0 / (n - 1) as f64;
            }
            harmonic.push(h);
        }
        let inverse = harmonic
            .iter()
            .map(|&h| if h > 0.0 { 1.0 / h } else { 0.0 })
            .collect();
        Self {
            harmonic: harmonic.into(),
            inverse,
        }
    }
}

/// h(n) = Σ_{i=1}^{n−1} 1/i, Watterson's 1975 a₁; 0 where n < 2.
#[inline]
pub fn harmonic(n: u64) -> f64 {
    match segment(n) {
        Some((segment, within)) => segment.harmonic[within],
        None => asymptotic(n),
    }
}

/// 1/h(n), the contribution of one segregating site to Watterson's θ; in [0, 1], and 0 where n < 2.
#[inline]
pub fn inverse_harmonic(n: u64) -> f64 {
    match segment(n) {
        Some((segment, within)) => segment.inverse[within],
        None => 1.0 / asymptotic(n),
    }
}

/// h(n) = ln m + γ + 1/(2m) − 1/(12 m²) + … with m = n − 1; the terms left out are below 10⁻²⁷ here.
#[cold]
fn asymptotic(n: u64) -> f64 {
    let m = (n - 1) as f64;
    m.ln() + GAMMA + 0.5 / m - 1.0 / (12.0 * m * m)
}

/// a₂(n) = Σ_{i=1}^{n−1} 1/i²; 0 where n < 2.
pub fn harmonic_squares(n: u64) -> f64 {
    // Used per group, not per site, so there is no table. The tail beyond m is 1/m − 1/(2m²) + 1/(6m³) − …, with an error below
    // 10⁻²³ at this m.
    const DIRECT: u64 = 1 << 12;
    let direct = |n: u64| (1..n).map(|i| 1.0 / (i as f64 * i as f64)).sum::<f64>();
    if n <= DIRECT {
        return direct(n);
    }
    let m = (n - 1) as f64;
    std::f64::consts::PI.powi(2) / 6.0 - 1.0 / m + 0.5 / (m * m) - 1.0 / (6.0 * m * m * m)
}

/// ⌊x + ½⌋ of x = `sites` / `inverses`, the harmonic mean of n over sites, with `inverses` their Σ 1/n.
///
/// Σ 1/n is rounded, so an x that is exactly a half above an integer may be computed as slightly less. A margin corrects this: it is
/// far larger than the rounding error and far smaller than the distance of any other x from a half.
pub fn rounded_harmonic_mean(sites: i64, inverses: f64) -> u64 {
    let x = sites as f64 / inverses;
    (x + 0.5 + x * 1e-12).floor() as u64
}

/// The constants of the variance of π − θ_W under neutrality, e1·S + e2·S(S−1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TajimaConstants {
    /// Tajima 1989, eq. 36.
    pub e1: f64,
    /// Tajima 1989, eq. 37.
    pub e2: f64,
}

impl TajimaConstants {
    /// For a sample of `n` copies; `None` where n < 2. (At n = 2 and 3 the variance they give is not positive.)
    pub fn new(n: u64) -> Option<Self> {
        if n < 2 {
            return None;
        }
        let (a1, a2, n) = (harmonic(n), harmonic_squares(n), n as f64);
        let b1 = (n + 1.0) / (3.0 * (n - 1.0));
        let b2 = 2.0 * (n * n + n + 3.0) / (9.0 * n * (n - 1.0));
        let c1 = b1 - 1.0 / a1;
        let c2 = b2 - (n + 2.0) / (a1 * n) + a2 / (a1 * a1);
        Some(Self {
            e1: c1 / a1,
            e2: c2 / (a1 * a1 + a2),
        })
    }

    /// The variance for `s` segregating sites.
    pub fn variance(self, s: u64) -> f64 {
        let s = s as f64;
        self.e1 * s + self.e2 * s * (s - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values() {
        assert_eq!(
            (harmonic(0), harmonic(1), harmonic(2), harmonic(3)),
            (0.0, 0.0, 1.0, 1.5)
        );
        assert_eq!(
            (
                inverse_harmonic(0),
                inverse_harmonic(1),
                inverse_harmonic(2)
            ),
            (0.0, 0.0, 1.0)
        );
        assert_eq!(harmonic_squares(3), 1.25);
    }

    #[test]
    fn tables_are_the_ascending_sum_across_segments() {
        let mut h = 0.0;
        for n in 2..20_000u64 {
            h += 1.0 / (n - 1) as f64;
            assert_eq!(harmonic(n).to_bits(), f64::to_bits(h), "n = {n}");
            assert_eq!(
                inverse_harmonic(n).to_bits(),
                (1.0 / h).to_bits(),
                "n = {n}"
            );
        }
    }

    #[test]
    fn the_series_agrees_with_the_table() {
        let n = TABLE_LIMIT - 1;
        assert!((harmonic(n) - asymptotic(n)).abs() < 1e-11);
        assert!(harmonic(TABLE_LIMIT) > harmonic(n) - 1e-11);
        assert!(harmonic(u64::MAX).is_finite());
        let direct: f64 = (1..9999u64).map(|i| 1.0 / (i as f64 * i as f64)).sum();
        assert!((harmonic_squares(9999) - direct).abs() < 1e-12);
    }

    #[test]
    fn halves_round_up() {
        // 2 / (1/3 + 1/9) = 4.5.
        assert_eq!(rounded_harmonic_mean(2, 1.0 / 3.0 + 1.0 / 9.0), 5);
        assert_eq!(
            rounded_harmonic_mean(2, (1.0 / 3.0 + 1.0 / 9.0) * (1.0 + 1e-15)),
            5
        );
        assert_eq!(rounded_harmonic_mean(3, 3.0 * 0.1), 10);
        assert_eq!(rounded_harmonic_mean(2, 2.0 / 4.49), 4);
    }

    #[test]
    fn tajima_worked_example() {
        // The worked example for n = 10 that population-genetics courses give: a1 = 2.829, e1 = 0.0191, e2 = 0.00495.
        let constants = TajimaConstants::new(10).unwrap();
        assert!((harmonic(10) - 2.828_968).abs() < 1e-6);
        assert!((harmonic_squares(10) - 1.539_768).abs() < 1e-6);
        assert!((constants.e1 - 0.019_061).abs() < 1e-6, "{constants:?}");
        assert!((constants.e2 - 0.004_949).abs() < 1e-6, "{constants:?}");
        assert_eq!(TajimaConstants::new(1), None);
    }
}
