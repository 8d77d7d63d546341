//! The weighted delete-m_j jackknife of a ratio (Busing, Meijer and van der Leeden 1999), as in ADMIXTOOLS 2.

/// A number of equal blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blocks {
    /// Σ of the numerator over a block's sites.
    pub num: f64,
    /// Σ of the denominator.
    pub den: f64,
    /// Number of sites in a block, positive.
    pub m: i64,
    /// Number of such blocks.
    pub times: i64,
}

/// The result of the jackknife; `None` is NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jackknife {
    /// θ = Σnum / Σden over all blocks.
    pub estimate: Option<f64>,
    /// θ_J = gθ − Σ (1 − m_j/n) θ_(−j), of g blocks and n sites.
    pub jackknife_estimate: Option<f64>,
    /// Standard error, √ of the mean of (τ_j − θ_J)² / (h_j − 1) with h_j = n/m_j and τ_j = h_j θ − (h_j − 1) θ_(−j).
    pub se: Option<f64>,
    /// θ / se.
    pub z: Option<f64>,
    /// g.
    pub blocks: i64,
}

/// The jackknife over `blocks`, summed in their order. The estimate is `None` unless Σden is positive. The other values are `None`, too,
/// if there are fewer than two blocks, or one block has all of Σden.
pub fn jackknife(blocks: &[Blocks]) -> Jackknife {
    let sum = |term: &dyn Fn(&Blocks) -> f64| -> f64 {
        blocks
            .iter()
            .map(|block| term(block) * block.times as f64)
            .sum()
    };
    let g = blocks
        .iter()
        .fold(0i64, |g, block| g.saturating_add(block.times));
    let none = Jackknife {
        blocks: g,
        ..Jackknife::default()
    };
    let (num, den) = (sum(&|block| block.num), sum(&|block| block.den));
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    if den <= 0.0 {
        return none;
    }
    let Some(estimate) = finite(num / den) else {
        return none;
    };
    let none = Jackknife {
        estimate: Some(estimate),
        ..none
    };
    if g < 2 || blocks.iter().any(|block| den - block.den <= 0.0) {
        return none;
    }
    let n: i128 = blocks
        .iter()
        .map(|block| i128::from(block.m) * i128::from(block.times))
        .sum();
    // The number of sites outside of a block, which gives h_j − 1 without cancellation.
    let others = |block: &Blocks| (n - i128::from(block.m)) as f64;
    let left_out = |block: &Blocks| (num - block.num) / (den - block.den);
    let weighted = sum(&|block| others(block) / n as f64 * left_out(block));
    let jackknife_estimate = g as f64 * estimate - weighted;
    let variance = sum(&|block| {
        let ratio = others(block) / block.m as f64;
        let pseudo_value = (ratio + 1.0) * estimate - ratio * left_out(block);
        (pseudo_value - jackknife_estimate).powi(2) / ratio
    }) / g as f64;
    let se = finite(variance.sqrt());
    Jackknife {
        jackknife_estimate: finite(jackknife_estimate),
        se,
        z: se
            .filter(|&se| se > 0.0)
            .and_then(|se| finite(estimate / se)),
        ..none
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(num: f64, den: f64, m: i64) -> Blocks {
        Blocks {
            num,
            den,
            m,
            times: 1,
        }
    }

    #[test]
    fn equal_blocks_are_the_plain_jackknife_of_a_mean() {
        // The mean of 1, 2, 6: its standard error is √(Σ (x − 3)² / (g (g − 1))).
        let found = jackknife(&[block(1.0, 1.0, 1), block(2.0, 1.0, 1), block(6.0, 1.0, 1)]);
        let se = (14.0f64 / 6.0).sqrt();
        assert_eq!(found.blocks, 3);
        assert_eq!(found.estimate, Some(3.0));
        assert!((found.jackknife_estimate.unwrap() - 3.0).abs() < 1e-14);
        assert!((found.se.unwrap() - se).abs() < 1e-14);
        assert!((found.z.unwrap() - 3.0 / se).abs() < 1e-13);
    }

    #[test]
    fn weights_by_hand() {
        // θ = 4/4 = 1; left out, (3/3, 1/1): nothing varies.
        let found = jackknife(&[block(1.0, 1.0, 10), block(3.0, 3.0, 30)]);
        assert_eq!(
            (found.estimate, found.se, found.z),
            (Some(1.0), Some(0.0), None)
        );
        // θ = 3/4; left out, 3/3 and 0/1. θ_J = 3/2 − (3/4 · 1 + 1/4 · 0) = 3/4; h = 4 and 4/3; τ = 0 and 1;
        // (9/16)/3 and (1/16)/(1/3), of which the mean is 3/16.
        let found = jackknife(&[block(0.0, 1.0, 10), block(3.0, 3.0, 30)]);
        assert!((found.jackknife_estimate.unwrap() - 0.75).abs() < 1e-15);
        assert!((found.se.unwrap() - (3.0f64 / 16.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn alike_blocks_may_come_together() {
        let apart = jackknife(&[block(1.0, 2.0, 3), block(1.0, 2.0, 3), block(5.0, 2.0, 4)]);
        let alike = Blocks {
            times: 2,
            ..block(1.0, 2.0, 3)
        };
        assert_eq!(jackknife(&[alike, block(5.0, 2.0, 4)]), apart);
    }

    #[test]
    fn what_cannot_be_estimated_is_null() {
        let only = |blocks| Jackknife {
            blocks,
            ..Jackknife::default()
        };
        assert_eq!(jackknife(&[]), only(0));
        assert_eq!(
            jackknife(&[block(1.0, 0.0, 1), block(1.0, 0.0, 1)]),
            only(2)
        );
        assert_eq!(jackknife(&[block(1.0, -1.0, 1)]), only(1));
        // One block, or one that has the whole denominator.
        let one = jackknife(&[block(1.0, 2.0, 1)]);
        assert_eq!(
            (one.estimate, one.jackknife_estimate, one.se),
            (Some(0.5), None, None)
        );
        let whole = jackknife(&[block(1.0, 2.0, 1), block(0.0, 0.0, 5)]);
        assert_eq!(
            (whole.estimate, whole.se, whole.blocks),
            (Some(0.5), None, 2)
        );
        // Larger than doubles.
        assert_eq!(jackknife(&[block(1e308, 1e-9, 1); 2]), only(2));
    }
}
