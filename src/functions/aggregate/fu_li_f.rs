//! `fu_li_f(ac [, n])`: Fu and Li's F.

use super::neutrality_test::NeutralityTest;
use crate::functions::numeric::spectrum::Theta;

/// `fu_li_f`.
#[derive(Debug)]
pub(crate) struct FuLiF;

impl NeutralityTest for FuLiF {
    const NAME: &'static str = "fu_li_f";
    const ESTIMATORS: [Theta; 2] = [Theta::Pi, Theta::Singletons];
    const DIFFERENCE: &'static str = "Fu and Li's F (1993): theta_pi - eta_e, with eta_e the number of sites with one derived copy";
    const RELATED: &'static [&'static str] = &["singletons", "fu_li_f_star", "spectrum_test"];
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::neutrality_test::testing::assert_by_hand;

    #[test]
    fn by_hand() {
        // The differences of the weights at m = 4: −1/2, 2/3, 1/2.
        assert_by_hand("fu_li_f", 1.0 / 6.0, 5.0 / 9.0, 5.0 / 18.0);
    }
}
