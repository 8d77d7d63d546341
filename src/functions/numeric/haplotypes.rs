//! Formulas of haplotype frequencies. Sizes of classes of equal haplotypes come from the layers above; nothing here knows Arrow.

/// Haplotype homozygosity and diversity of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Haplotypes {
    /// H1 = Σ f², expected homozygosity.
    pub h1: f64,
    /// H12 = (f₁ + f₂)² + Σ_{i>2} f².
    pub h12: f64,
    /// H123 = (f₁ + f₂ + f₃)² + Σ_{i>3} f².
    pub h123: f64,
    /// H2/H1 = (H1 − f₁²) / H1.
    pub h2_h1: f64,
    /// (1 − H1) n/(n − 1), Nei 1987; `None` where n < 2.
    pub diversity: Option<f64>,
    /// Number of distinct haplotypes.
    pub count: u64,
}

/// The statistics of haplotype classes of these sizes, none of them 0, in any order: Garud et al. 2015, with the frequencies
/// f₁ ≥ f₂ ≥ …, the sizes over their sum n. `None` without a class. Sums of squares are integers, so the bits do not depend on the order.
pub fn haplotypes(mut sizes: Vec<u64>) -> Option<Haplotypes> {
    if sizes.is_empty() {
        return None;
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let square = |n: u64| u128::from(n) * u128::from(n);
    let squares: u128 = sizes.iter().map(|size| square(*size)).sum();
    let n: u64 = sizes.iter().sum();
    let all = square(n);
    // The `pooled` largest classes counted as one.
    let pooled = |pooled: usize| {
        let (largest, _) = sizes.split_at(pooled.min(sizes.len()));
        let apart: u128 = largest.iter().map(|size| square(*size)).sum();
        squares - apart + square(largest.iter().sum())
    };
    let over_all = |part: u128| part as f64 / all as f64;
    let first = sizes.first().copied().map_or(0, square);
    let pairs = u128::from(n) * u128::from(n.saturating_sub(1));
    Some(Haplotypes {
        h1: over_all(squares),
        h12: over_all(pooled(2)),
        h123: over_all(pooled(3)),
        h2_h1: (squares - first) as f64 / squares as f64,
        diversity: (n >= 2).then(|| (all - squares) as f64 / pairs as f64),
        count: sizes.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(haplotypes(vec![]), None);
        let one = haplotypes(vec![5]).unwrap();
        assert_eq!((one.h1, one.h12, one.h123, one.h2_h1), (1.0, 1.0, 1.0, 0.0));
        assert_eq!((one.diversity, one.count), (Some(0.0), 1));
        assert_eq!(haplotypes(vec![1]).unwrap().diversity, None);
        // f = 1/2, 1/4, 1/8, 1/8.
        let four = haplotypes(vec![1, 4, 1, 2]).unwrap();
        assert_eq!(four.h1, 22.0 / 64.0);
        assert_eq!(four.h12, 38.0 / 64.0);
        assert_eq!(four.h123, 50.0 / 64.0);
        assert_eq!(four.h2_h1, 6.0 / 22.0);
        assert_eq!((four.diversity, four.count), (Some(42.0 / 56.0), 4));
    }
}
