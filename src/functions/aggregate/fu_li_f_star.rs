//! `fu_li_f_star(ac [, n])`: Fu and Li's F*.

use super::neutrality_test::NeutralityTest;
use crate::functions::numeric::spectrum::Theta;

/// `fu_li_f_star`.
#[derive(Debug)]
pub(crate) struct FuLiFStar;

impl NeutralityTest for FuLiFStar {
    const NAME: &'static str = "fu_li_f_star";
    const ESTIMATORS: [Theta; 2] = [Theta::Pi, Theta::SingletonsFolded];
    // At m = 3 the estimators are the same.
    const SMALLEST: u64 = 4;
    const DIFFERENCE: &'static str = "Fu and Li's F* (1993), which needs no ancestral allele: theta_pi less the sum of (n - 1) / n over the sites where one copy differs from all others";
    const RELATED: &'static [&'static str] = &["singletons_folded", "fu_li_f", "spectrum_test"];
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::neutrality_test::testing::assert_by_hand;

    #[test]
    fn by_hand() {
        // The differences of the weights at m = 4: −1/4, 2/3, −1/4.
        assert_by_hand("fu_li_f_star", -1.0 / 12.0, 11.0 / 36.0, 83.0 / 216.0);
    }
}
