//! `zeng_e(ac [, n])`: Zeng et al.'s E.

use super::neutrality_test::NeutralityTest;
use crate::functions::numeric::spectrum::Theta;

/// `zeng_e`.
#[derive(Debug)]
pub(crate) struct ZengE;

impl NeutralityTest for ZengE {
    const NAME: &'static str = "zeng_e";
    const ESTIMATORS: [Theta; 2] = [Theta::L, Theta::W];
    const DIFFERENCE: &'static str = "Zeng et al.'s E (2006): theta_L - theta_W";
    const RELATED: &'static [&'static str] = &["theta_l", "theta_w", "spectrum_test"];
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::neutrality_test::testing::assert_by_hand;

    #[test]
    fn by_hand() {
        // The differences of the weights at m = 4: −7/33, 4/33, 15/33.
        assert_by_hand("zeng_e", 5.0 / 33.0, 4.0 / 33.0, 218.0 / 9801.0);
    }
}
