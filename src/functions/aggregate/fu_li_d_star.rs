//! `fu_li_d_star(ac [, n])`: Fu and Li's D*.

use super::neutrality_test::NeutralityTest;
use crate::functions::numeric::spectrum::Theta;

/// `fu_li_d_star`.
#[derive(Debug)]
pub(crate) struct FuLiDStar;

impl NeutralityTest for FuLiDStar {
    const NAME: &'static str = "fu_li_d_star";
    const ESTIMATORS: [Theta; 2] = [Theta::W, Theta::SingletonsFolded];
    // At m = 3 the estimators are the same.
    const SMALLEST: u64 = 4;
    const DIFFERENCE: &'static str = "Fu and Li's D* (1993), which needs no ancestral allele: theta_W less the sum of (n - 1) / n over the sites where one copy differs from all others";
    const RELATED: &'static [&'static str] = &["singletons_folded", "fu_li_d", "spectrum_test"];
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::neutrality_test::testing::assert_by_hand;

    #[test]
    fn by_hand() {
        // The differences of the weights at m = 4: −9/44, 24/44, −9/44.
        assert_by_hand("fu_li_d_star", -3.0 / 44.0, 9.0 / 44.0, 249.0 / 968.0);
    }
}
