//! Pairs of a triangle as indices: `i < j`, ordered by `i` and then `j`; and parts of a triangle, which are consecutive pairs.

use std::ops::Range;

use crate::counts::Workers;

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

/// The pairs of some first units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) firsts: Range<usize>,
    units: usize,
    diagonal: bool,
    /// Index of the part's first pair in the triangle.
    start: usize,
    /// Its number of pairs.
    pairs: usize,
}

/// Number of pairs of first units before `first`; saturating.
fn pairs_before(units: usize, diagonal: bool, first: usize) -> usize {
    let each = (2 * units - first + usize::from(diagonal)).saturating_sub(usize::from(!diagonal));
    match first % 2 {
        0 => (first / 2).saturating_mul(each),
        _ => first.saturating_mul(each / 2),
    }
}

impl Part {
    /// The pairs of `units` units; with `diagonal`, those of a unit and itself are among them.
    pub(super) fn whole(units: usize, diagonal: bool) -> Self {
        Self::of(units, diagonal, 0..units)
    }

    /// Those with these first units.
    pub(super) fn of(units: usize, diagonal: bool, firsts: Range<usize>) -> Self {
        let start = pairs_before(units, diagonal, firsts.start);
        Self {
            pairs: pairs_before(units, diagonal, firsts.end) - start,
            firsts,
            units,
            diagonal,
            start,
        }
    }

    /// Parts of about the same size for `workers`, of `step` first units or multiples of that.
    pub(super) fn divide(&self, step: usize, workers: &Workers<'_>) -> Vec<Self> {
        let Range { start, end } = self.firsts;
        let number = workers
            .parts()
            .clamp(1, (end - start).div_ceil(step).max(1));
        let mut parts: Vec<Self> = vec![];
        let mut from = start;
        for to in (start + step..end).step_by(step).chain([end]) {
            let share = self.pairs as u128 * (parts.len() as u128 + 1) / number as u128;
            let before = pairs_before(self.units, self.diagonal, to) - self.start;
            // Last ones without pairs are in the part before them.
            let is_full = before as u128 >= share && before < self.pairs;
            if is_full || to == end {
                parts.push(Self::of(self.units, self.diagonal, from..to));
                from = to;
            }
        }
        parts
    }

    /// The place of a pair among the part's.
    #[inline(always)]
    pub(super) fn at(&self, i: usize, j: usize) -> usize {
        let base = match self.diagonal {
            true => diagonal_base(self.units, i),
            false => row_base(self.units, i),
        };
        base.wrapping_add(j).wrapping_sub(self.start)
    }

    /// Number of all units.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// Number of pairs.
    pub(super) fn pairs(&self) -> usize {
        self.pairs
    }
}

/// Numbers of pairs, divided into those of each part; nothing of numbers that are none at all.
#[derive(Debug)]
pub(super) struct Divided<'a, T>(&'a mut [T]);

impl<'a, T> Divided<'a, T> {
    pub(super) fn new(numbers: &'a mut [T]) -> Self {
        Self(numbers)
    }

    /// Those of the next part.
    pub(super) fn next(&mut self, part: &Part) -> &'a mut [T] {
        let all = std::mem::take(&mut self.0);
        let (next, rest) = all.split_at_mut(part.pairs.min(all.len()));
        self.0 = rest;
        next
    }
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

    #[test]
    fn parts_have_each_pair_once() {
        for (units, diagonal, step, threads, firsts) in [
            (0, true, 1, 1, 0..0),
            (1, false, 1, 2, 0..1),
            (1, true, 6, 2, 0..1),
            (9, false, 1, 3, 0..9),
            (9, false, 1, 3, 2..7),
            (50, true, 6, 2, 0..50),
            (50, true, 6, 2, 12..31),
            (100, false, 1, 1, 0..100),
            (100, false, 4, 5, 0..100),
        ] {
            let workers = Workers::new(threads, &|| false);
            let whole = Part::of(units, diagonal, firsts);
            let parts = whole.divide(step, &workers);
            let mut found = vec![0; whole.pairs()];
            let (mut divided, mut next) = (Divided::new(&mut found), whole.firsts.start);
            for part in &parts {
                assert_eq!(part.firsts.start, next);
                assert_eq!((next - whole.firsts.start) % step, 0);
                next = part.firsts.end;
                let of_part = divided.next(part);
                assert_eq!(of_part.len(), part.pairs());
                for i in part.firsts.clone() {
                    for j in i + usize::from(!diagonal)..units {
                        of_part[part.at(i, j)] += 1;
                    }
                }
            }
            assert_eq!(next, whole.firsts.end);
            assert!(found.iter().all(|times| *times == 1), "{units} {diagonal}");
            let largest = parts.iter().map(Part::pairs).max().unwrap_or(0);
            assert!(largest <= whole.pairs() / parts.len().max(1) + units * step);
        }
        assert_eq!(Part::whole(7, false).pairs(), pairs_of(7));
        assert_eq!(Part::whole(7, true).pairs(), pairs_of(7) + 7);
    }
}
