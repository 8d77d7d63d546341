//! `fu_li_d(ac [, n])`: Fu and Li's D.

use super::neutrality_test::NeutralityTest;
use crate::functions::numeric::spectrum::Theta;

/// `fu_li_d`.
#[derive(Debug)]
pub(crate) struct FuLiD;

impl NeutralityTest for FuLiD {
    const NAME: &'static str = "fu_li_d";
    const ESTIMATORS: [Theta; 2] = [Theta::W, Theta::Singletons];
    const DIFFERENCE: &'static str = "Fu and Li's D (1993): theta_W - eta_e, with eta_e the number of sites with one derived copy";
    const RELATED: &'static [&'static str] = &["singletons", "fu_li_d_star", "spectrum_test"];
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::neutrality_test::testing::assert_by_hand;

    #[test]
    fn by_hand() {
        // The differences of the weights at m = 4: −5/11, 6/11, 6/11.
        assert_by_hand("fu_li_d", 2.0 / 11.0, 5.0 / 11.0, 199.0 / 1089.0);
    }
}
