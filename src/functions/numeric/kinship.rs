//! Kinship from counts over pairs of individuals.

/// The KING-robust kinship (Manichaikul et al. 2010, equation 11) from variants at which both are heterozygous, are homozygous for different
/// alleles, the first is heterozygous, and the second; `None` if one never is. In doubles, where sums of counts are exact.
#[inline]
pub fn king([het_het, opposite, het1, het2]: [i64; 4]) -> Option<f64> {
    let least = het1.min(het2);
    let [het_het, opposite, het1, het2] = [het_het, opposite, het1, het2].map(|count| count as f64);
    let distance = 4.0 * opposite + het1 + het2 - 2.0 * het_het;
    (least > 0).then(|| 0.5 - distance / (4.0 * least as f64))
}
