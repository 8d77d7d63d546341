//! `fay_wu_h_norm(ac [, n])`: Fay and Wu's H, normalised.

use super::neutrality_test::NeutralityTest;
use crate::functions::numeric::spectrum::Theta;

/// `fay_wu_h_norm`.
#[derive(Debug)]
pub(crate) struct FayWuHNorm;

impl NeutralityTest for FayWuHNorm {
    const NAME: &'static str = "fay_wu_h_norm";
    // θ_π − θ_H = 2(θ_π − θ_L) at each site, so the normalised test is the same, and these weights are at most 1 (Zeng et al. 2006).
    const ESTIMATORS: [Theta; 2] = [Theta::Pi, Theta::L];
    const DIFFERENCE: &'static str =
        "Fay and Wu's H, normalised (Fay and Wu 2000; Zeng et al. 2006): theta_pi - theta_H";
    const RELATED: &'static [&'static str] = &["fay_wu_h", "zeng_e", "spectrum_test"];
}

#[cfg(test)]
mod tests {
    use crate::functions::aggregate::neutrality_test::testing::assert_by_hand;

    #[test]
    fn by_hand() {
        // The differences of the weights at m = 4: 1/6, 0, −1/2.
        assert_by_hand("fay_wu_h_norm", -1.0 / 6.0, 1.0 / 9.0, 5.0 / 162.0);
    }
}
