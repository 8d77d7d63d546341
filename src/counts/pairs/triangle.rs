//! Pairs of a triangle as indices: `i < j`, ordered by `i` and then `j`.

/// Number of pairs of different units; saturating.
pub(crate) fn pairs_of(units: usize) -> usize {
    // One of the factors is even.
    match units % 2 {
        0 => (units / 2).saturating_mul(units.saturating_sub(1)),
        _ => units.saturating_mul(units.saturating_sub(1) / 2),
    }
}

/// What is added to `j` to get the index of the pair `(i, j)`, i < j; it wraps around for i = 0.
#[inline(always)]
pub(super) fn row_base(units: usize, i: usize) -> usize {
    // i rows before, of units − 1, units − 2, … pairs, and then j − i − 1.
    (i * (2 * units - i - 1) / 2).wrapping_sub(i + 1)
}

/// The same where the diagonal is included, i ≤ j.
#[inline(always)]
pub(super) fn diagonal_base(units: usize, i: usize) -> usize {
    i * (2 * units - i + 1) / 2 - i
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_in_order() {
        for units in 1..9 {
            let (mut at, mut with_diagonal) = (0, 0);
            for i in 0..units {
                for j in i..units {
                    assert_eq!(diagonal_base(units, i).wrapping_add(j), with_diagonal);
                    with_diagonal += 1;
                    if j > i {
                        assert_eq!(row_base(units, i).wrapping_add(j), at);
                        at += 1;
                    }
                }
            }
            assert_eq!(at, pairs_of(units));
        }
        assert_eq!(pairs_of(0), 0);
        assert_eq!(pairs_of(usize::MAX), usize::MAX);
    }
}
