//! Formulas for complete diploids at one site: heterozygosity and Weir and Cockerham's variance components. Uses neither Arrow nor
//! DataFusion.
//!
//! Invariant: no count is negative.

/// The complete diploids of a population at one site.
#[derive(Clone, Copy, Debug)]
pub struct Diploids<'a> {
    /// Copies of each allele.
    pub ac: &'a [i32],
    /// For each allele, the heterozygous individuals that carry it.
    pub het: &'a [i32],
}

impl Diploids<'_> {
    /// Number of copies, twice the number of individuals.
    pub fn copies(&self) -> u64 {
        self.ac
            .iter()
            .map(|&count| u64::from(count.max(0) as u32))
            .sum()
    }

    /// Number of individuals.
    pub fn individuals(&self) -> u64 {
        self.copies() / 2
    }

    /// Observed heterozygosity: the share of heterozygous individuals, in [0, 1]; `None` without individuals.
    pub fn observed_heterozygosity(&self) -> Option<f64> {
        let carriers: u64 = self
            .het
            .iter()
            .map(|&count| u64::from(count.max(0) as u32))
            .sum();
        match self.individuals() {
            0 => None,
            // Every heterozygous individual carries two alleles.
            individuals => Some(carriers as f64 / 2.0 / individuals as f64),
        }
    }

    /// Expected heterozygosity without bias, 1 − Σ a(a−1) / (c(c−1)), in [0, 1]; `None` where c < 2. Nei 1978.
    pub fn expected_heterozygosity(&self) -> Option<f64> {
        super::site::site_diversity(self.ac)
    }
}

/// Variance components are multiplied by this, 2⁻³¹, before they are summed, so that they lie in [−1, 1], as fixed-point sums require,
/// for every number of copies that counts can hold. The factor cancels in their ratio.
pub const VARIANCE_UNIT: f64 = 1.0 / (1u32 << 31) as f64;

/// The variance components a (among populations), b (among individuals within populations) and c (within individuals) of a site, as
/// sums over its alleles: Weir and Cockerham 1984, eqs 2 to 4 and 10. `None` unless every population has an individual, and the
/// populations have more than one on average. |a|, |b| and |c| are at most the number of copies.
///
/// `populations` are at least two.
#[inline]
pub fn weir_cockerham<'a>(
    populations: impl Iterator<Item = Diploids<'a>> + Clone,
) -> Option<[f64; 3]> {
    let size = |population: &Diploids<'_>| population.individuals() as f64;
    let sizes = Sizes::new(populations.clone().map(|of| size(&of)))?;
    let alleles = populations.clone().map(|of| of.ac.len()).max()?;
    let mut sum = [0.0; 3];
    if is_fixed(alleles, populations.clone().map(|of| of.ac)) {
        return Some(sum);
    }
    let Sizes { mean, n_c, r, .. } = sizes;
    for allele in 0..alleles {
        let frequency = |of: &Diploids<'_>| at(of.ac, allele) / (2.0 * size(of));
        let heterozygotes: f64 = populations.clone().map(|of| at(of.het, allele)).sum();
        let h = heterozygotes / (r * mean);
        let of = populations.clone().map(|of| (size(&of), frequency(&of)));
        let (q, s2) = sizes.within(of);
        let a = mean / n_c * (s2 - (q - h / 4.0) / (mean - 1.0));
        let b = mean / (mean - 1.0) * (q - (2.0 * mean - 1.0) * h / (4.0 * mean));
        sum = [sum[0] + a, sum[1] + b, sum[2] + h / 2.0];
    }
    Some(sum)
}

/// The variance components a (among populations) and b (within populations) of a site from copies, without genotypes, as sums over its
/// alleles: Weir 1996, ch. 5. `None` unless every population has a called copy, and the populations have more than one on average.
/// |a| and |b| are at most the number of copies.
pub fn weir_cockerham_haploid(populations: &[&[i32]]) -> Option<[f64; 2]> {
    let size = |row: &&[i32]| super::site::allele_number(row) as f64;
    let sizes = Sizes::new(populations.iter().map(size))?;
    let alleles = populations.iter().map(|row| row.len()).max()?;
    let mut sum = [0.0; 2];
    if is_fixed(alleles, populations.iter().copied()) {
        return Some(sum);
    }
    let Sizes { mean, n_c, .. } = sizes;
    for allele in 0..alleles {
        let of = populations
            .iter()
            .map(|row| (size(row), at(row, allele) / size(row)));
        let (q, s2) = sizes.within(of);
        let a = mean / n_c * (s2 - q / (mean - 1.0));
        sum = [sum[0] + a, sum[1] + mean / (mean - 1.0) * q];
    }
    Some(sum)
}

/// A count as a double; 0 beyond the end.
fn at(row: &[i32], allele: usize) -> f64 {
    row.get(allele).copied().map_or(0.0, f64::from)
}

/// Whether only one allele occurs. The components are then exactly 0, which rounding must not change.
fn is_fixed<'a>(alleles: usize, rows: impl Iterator<Item = &'a [i32]> + Clone) -> bool {
    let is_seen = |allele: &usize| {
        rows.clone()
            .any(|row| row.get(*allele).is_some_and(|&n| n > 0))
    };
    (0..alleles).filter(is_seen).nth(1).is_none()
}

/// Sample sizes of the populations of a site.
struct Sizes {
    /// Number of populations.
    r: f64,
    /// n̄, the mean size.
    mean: f64,
    /// n_C = (r n̄ − Σ n_i² / (r n̄)) / (r − 1).
    n_c: f64,
}

impl Sizes {
    /// `None` unless all are positive, and the mean is above 1.
    fn new(sizes: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut r, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for size in sizes {
            if size < 1.0 {
                return None;
            }
            (r, sum, squares) = (r + 1.0, sum + size, squares + size * size);
        }
        let mean = sum / r;
        let n_c = (sum - squares / sum) / (r - 1.0);
        (mean > 1.0 && r > 1.0).then_some(Self { r, mean, n_c })
    }

    /// Q = p̄(1−p̄) − (r−1)s²/r and s² = Σ n_i (p_i − p̄)² / ((r−1) n̄) of populations with these sizes and frequencies.
    fn within(&self, populations: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
        let weighted: f64 = populations.clone().map(|(n, p)| n * p).sum();
        let p = weighted / (self.r * self.mean);
        let squares: f64 = populations.map(|(n, p_i)| n * (p_i - p).powi(2)).sum();
        let s2 = squares / ((self.r - 1.0) * self.mean);
        (p * (1.0 - p) - (self.r - 1.0) * s2 / self.r, s2)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!(
            (found - expected).abs() < 1e-14,
            "{found}, expected {expected}"
        );
    }

    #[test]
    fn heterozygosity_by_hand() {
        // 0/0 0/1 1/2
        let three = Diploids {
            ac: &[3, 2, 1],
            het: &[1, 2, 1],
        };
        assert_eq!(three.individuals(), 3);
        close(three.observed_heterozygosity(), 2.0 / 3.0);
        close(three.expected_heterozygosity(), 1.0 - (6.0 + 2.0) / 30.0);
        let none = Diploids {
            ac: &[0, 0],
            het: &[0, 0],
        };
        assert_eq!(none.observed_heterozygosity(), None);
        assert_eq!(none.expected_heterozygosity(), None);
    }

    #[test]
    fn fixed_differences_have_no_variance_within() {
        let first = Diploids {
            ac: &[8, 0],
            het: &[0, 0],
        };
        let second = Diploids {
            ac: &[0, 8],
            het: &[0, 0],
        };
        let [a, b, c] = weir_cockerham([first, second].into_iter()).unwrap();
        assert!((a / (a + b + c) - 1.0).abs() < 1e-15);
        let [a, b] = weir_cockerham_haploid(&[&[8, 0], &[0, 8]]).unwrap();
        assert!((a / (a + b) - 1.0).abs() < 1e-15);
        assert_eq!(
            weir_cockerham([first, first].into_iter()),
            Some([0.0; 3]),
            "one allele"
        );
    }

    #[test]
    fn equal_haploid_samples_are_hudsons_fst() {
        let rows: [&[i32]; 2] = [&[5, 2, 1], &[1, 6, 1]];
        let [a, b] = weir_cockerham_haploid(&rows).unwrap();
        let (num, den) = super::super::site::fst_hudson_terms(rows[0], rows[1]).unwrap();
        assert!((a / (a + b) - num / den).abs() < 1e-14);
    }

    #[test]
    fn small_populations_are_not_usable() {
        let one = Diploids {
            ac: &[1, 1],
            het: &[1, 1],
        };
        let none = Diploids {
            ac: &[0, 0],
            het: &[0, 0],
        };
        let two = Diploids {
            ac: &[2, 2],
            het: &[2, 2],
        };
        assert_eq!(weir_cockerham([one, one].into_iter()), None, "one each");
        assert_eq!(weir_cockerham([two, none].into_iter()), None);
        assert!(weir_cockerham([two, one].into_iter()).is_some());
        assert_eq!(weir_cockerham_haploid(&[&[1, 0], &[0, 1]]), None);
    }

    /// One population's genotype counts of up to five alleles: copies, heterozygous carriers.
    fn population() -> impl Strategy<Value = [Vec<i32>; 2]> {
        vec([0..5usize, 0..5usize], 2..30).prop_map(|individuals| {
            let [mut ac, mut het] = [vec![0; 5], vec![0; 5]];
            for [first, second] in individuals {
                for allele in [first, second] {
                    ac[allele] += 1;
                    het[allele] += i32::from(first != second);
                }
            }
            [ac, het]
        })
    }

    proptest! {
        /// Populations of any sizes, each fixed for one of several alleles, not all for the same.
        #[test]
        fn fixed_populations_differ_completely(fixed in vec((0..6usize, 1..200i32), 2..8)) {
            let rows: Vec<Vec<i32>> = fixed
                .iter()
                .map(|&(allele, individuals)| {
                    let mut ac = vec![0; 6];
                    ac[allele] = 2 * individuals;
                    ac
                })
                .collect();
            let none = [0; 6];
            let diploids = rows.iter().map(|ac| Diploids { ac, het: &none });
            let total: i32 = fixed.iter().map(|(_, individuals)| individuals).sum();
            let usable = total as usize > fixed.len();
            let one_allele = fixed.iter().all(|(allele, _)| *allele == fixed[0].0);
            let found = weir_cockerham(diploids);
            prop_assert_eq!(found.is_some(), usable);
            let slices: Vec<&[i32]> = rows.iter().map(Vec::as_slice).collect();
            let [a, b] = weir_cockerham_haploid(&slices).unwrap();
            if one_allele {
                prop_assert_eq!([a, b], [0.0; 2]);
                prop_assert!(found.is_none_or(|found| found == [0.0; 3]));
                return Ok(());
            }
            prop_assert!((a / (a + b) - 1.0).abs() < 1e-12, "{} {}", a, b);
            if let Some([a, b, c]) = found {
                prop_assert!((a / (a + b + c) - 1.0).abs() < 1e-12, "{} {} {}", a, b, c);
            }
        }

        /// The same population r times: F is -(Q - h/4)/((n - 1) Q), from -1/(n - 1) to 0; of copies it is -1/(n - 1).
        #[test]
        fn one_population_several_times_does_not_differ([ac, het] in population(), r in 2..6usize) {
            let one = Diploids { ac: &ac, het: &het };
            let n = one.individuals() as f64;
            let [a, b, c] = weir_cockerham(std::iter::repeat_n(one, r)).unwrap();
            let [copies_a, copies_b] = weir_cockerham_haploid(&vec![&ac[..]; r]).unwrap();
            if a + b + c <= 0.0 {
                prop_assert_eq!([a, b, c], [0.0; 3], "one allele");
                return Ok(());
            }
            let f = a / (a + b + c);
            prop_assert!((-1.0 / (n - 1.0) - 1e-12..=1e-12).contains(&f), "{} of {}", f, n);
            let f = copies_a / (copies_a + copies_b);
            prop_assert!((f + 1.0 / (2.0 * n - 1.0)).abs() < 1e-12, "{} of {}", f, n);
        }
    }
}
