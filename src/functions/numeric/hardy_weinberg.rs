//! The exact test of Hardy–Weinberg proportions: Wigginton, Cutler and Abecasis 2005.

/// Tables whose probability differs from that of the observed one by less than this fraction count as equally probable.
const EQUAL: f64 = 1e-9;

/// The two p-values of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HardyWeinberg {
    /// The probability of all tables that are at most as probable as the observed one.
    pub p: f64,
    /// `p` less half the probability of the observed table and of those equally probable (Graffelman and Moreno 2013).
    pub mid_p: f64,
}

/// The test of `het` heterozygous individuals, and `hom1` and `hom2` homozygous ones; `None` without individuals.
///
/// The probabilities of all numbers of heterozygotes with the same allele counts are computed from the most probable by their ratios,
/// so that nothing overflows, in O(√individuals): others are too improbable for a number.
pub fn hardy_weinberg(hom1: u64, het: u64, hom2: u64) -> Option<HardyWeinberg> {
    let individuals = hom1 + het + hom2;
    if individuals == 0 {
        return None;
    }
    let rare = 2 * hom1.min(hom2) + het;
    let common = 2 * individuals - rare;
    // About the most probable number of heterozygotes, which is even where the number of rare copies is.
    let mut middle = (u128::from(rare) * u128::from(common) / u128::from(2 * individuals)) as u64;
    middle += (middle ^ rare) & 1;
    middle = middle.min(rare);
    let homozygous = |het: u64| ((rare - het) / 2, (common - het) / 2);
    // Relative to that of `middle`.
    let below = successive(middle, |het| {
        let (rare, common) = homozygous(het);
        let next = het.checked_sub(2)?;
        let ratio = het as f64 * (het - 1) as f64 / (4.0 * (rare + 1) as f64 * (common + 1) as f64);
        Some((next, ratio))
    });
    let above = successive(middle, |het| {
        let (rare, common) = homozygous(het);
        let ratio = 4.0 * rare as f64 * common as f64 / ((het + 2) as f64 * (het + 1) as f64);
        (rare > 0).then_some((het + 2, ratio))
    });
    let tables: Vec<(u64, f64)> = std::iter::once((middle, 1.0))
        .chain(below)
        .chain(above)
        .collect();
    let observed = tables
        .iter()
        .find(|(at, _)| *at == het)
        .map_or(0.0, |(_, p)| *p);
    let (mut total, mut extreme, mut equal) = (0.0, 0.0, 0.0);
    for (_, probability) in tables {
        total += probability;
        if probability <= observed * (1.0 + EQUAL) {
            extreme += probability;
            if probability >= observed * (1.0 - EQUAL) {
                equal += probability;
            }
        }
    }
    let p = (extreme / total).min(1.0);
    Some(HardyWeinberg {
        p,
        mid_p: (p - equal / total / 2.0).max(0.0),
    })
}

/// Numbers of heterozygotes after `first`, each with its probability relative to that of `first`, until it underflows. A subnormal number
/// may stay the same when it is multiplied by a ratio below 1, so it ends them, too.
fn successive(
    first: u64,
    next: impl Fn(u64) -> Option<(u64, f64)>,
) -> impl Iterator<Item = (u64, f64)> {
    let step = move |&(het, probability): &(u64, f64)| {
        let (het, ratio) = next(het)?;
        let probability = probability * ratio;
        (probability >= f64::MIN_POSITIVE).then_some((het, probability))
    };
    std::iter::successors(Some((first, 1.0)), step).skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By factorials: n! / (hom1! het! hom2!) 2^het a! b! / (2n)!.
    fn by_definition(hom1: u64, het: u64, hom2: u64) -> HardyWeinberg {
        let log = |n: u64| (1..=n).map(|i| (i as f64).ln()).sum::<f64>();
        let (n, a) = (hom1 + het + hom2, 2 * hom1 + het);
        let b = 2 * n - a;
        let of = |het: u64| {
            let (x, y) = ((a - het) / 2, (b - het) / 2);
            let tables = log(n) - log(x) - log(het) - log(y) + het as f64 * 2f64.ln();
            (tables + log(a) + log(b) - log(2 * n)).exp()
        };
        let all: Vec<f64> = (a % 2..=a.min(b)).step_by(2).map(of).collect();
        let observed = of(het);
        let extreme = all.iter().filter(|p| **p <= observed * (1.0 + EQUAL));
        let p: f64 = extreme.clone().sum();
        let equal: f64 = extreme.filter(|p| **p >= observed * (1.0 - EQUAL)).sum();
        HardyWeinberg {
            p,
            mid_p: p - equal / 2.0,
        }
    }

    #[test]
    fn small_tables_follow_the_definition() {
        for n in 1..=14u64 {
            for hom1 in 0..=n {
                for het in 0..=n - hom1 {
                    let hom2 = n - hom1 - het;
                    let found = hardy_weinberg(hom1, het, hom2).unwrap();
                    let expected = by_definition(hom1, het, hom2);
                    assert!((found.p - expected.p).abs() < 1e-12, "{hom1} {het} {hom2}");
                    assert!(
                        (found.mid_p - expected.mid_p).abs() < 1e-12,
                        "{hom1} {het} {hom2}"
                    );
                }
            }
        }
    }

    #[test]
    fn extremes() {
        assert_eq!(hardy_weinberg(0, 0, 0), None);
        assert_eq!(
            hardy_weinberg(0, 0, 5).unwrap(),
            HardyWeinberg { p: 1.0, mid_p: 0.5 }
        );
        // A hundred thousand individuals, all homozygous, half for each allele.
        let all = hardy_weinberg(50_000, 0, 50_000).unwrap();
        assert!(all.p >= 0.0 && all.p < 1e-300);
        let middle = hardy_weinberg(25_000, 50_000, 25_000).unwrap();
        assert!((middle.p - 1.0).abs() < 1e-9);
        let many = hardy_weinberg(1, 1 << 31, 1 << 31).unwrap();
        assert!(many.p < 1e-300);
    }
}
