//! The pairs of some first samples with all samples after them: how many fit into memory, and their rows.

use std::ops::Range;

use super::columns::Found;
use crate::counts::pairs::{IndividualPairs, pairs_of};
use crate::counts::{CountError, Workers};
use crate::functions::numeric::kinship::king;

/// Pairs between two yields to other tasks. Tests have more turns.
pub(super) const TURN: usize = if cfg!(test) { 1 << 4 } else { 1 << 18 };
/// Threads look at the pairs of at most so many turns at a time, which bounds the memory of those that are related.
const MOST_TURNS: usize = 8;
/// Bytes of the counts of a pair: of complete biallelic calls, with missing ones, and with any others.
pub(super) const PAIR_BYTES: [usize; 3] = [8, 20, 60];

/// Number of pairs of so many samples whose first is one of `firsts`; saturating.
pub(super) fn pairs_of_firsts(samples: usize, firsts: &Range<usize>) -> usize {
    let after = |first: usize| pairs_of(samples.saturating_sub(first));
    after(firsts.start) - after(firsts.end)
}

/// The first samples from `start` on of whose pairs there are at most `most`, and at least one.
pub(super) fn firsts_within(samples: usize, start: usize, most: usize) -> Range<usize> {
    let (mut enough, mut end) = (start + 1, samples.max(start + 1));
    while enough < end {
        let middle = enough + (end - enough).div_ceil(2);
        match pairs_of_firsts(samples, &(start..middle)) <= most {
            true => enough = middle,
            false => end = middle - 1,
        }
    }
    start..enough
}

/// How often the table is read for all pairs, if so many are counted at a time.
pub(super) fn passes(samples: usize, most: usize) -> usize {
    let (mut start, mut passes) = (0, 0);
    while start + 1 < samples {
        start = firsts_within(samples, start, most).end;
        passes += 1;
    }
    passes
}

/// Counted pairs of some first samples.
#[derive(Debug)]
pub(super) struct Strip {
    pairs: IndividualPairs,
    samples: usize,
    end: usize,
    /// The next pair that was not looked at.
    next: [usize; 2],
    /// Pairs before it that are wanted, in their order, and how many of them were taken.
    related: Vec<[usize; 2]>,
    taken: usize,
}

/// What [`Strip::take`] ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// There are no more pairs.
    All,
    /// There may be more.
    Some,
}

impl Strip {
    /// The pairs of `firsts`, all of which were counted.
    pub(super) fn new(pairs: IndividualPairs, samples: usize, firsts: Range<usize>) -> Self {
        Self {
            pairs,
            samples,
            end: firsts.end,
            next: [firsts.start, firsts.start + 1],
            related: vec![],
            taken: 0,
        }
    }

    /// Appends pairs of a kinship of at least `least` to `found` until it has `rows`, or others must get a turn.
    ///
    /// # Errors
    /// [`CountError::Stopped`].
    pub(super) fn take(
        &mut self,
        least: Option<f64>,
        rows: usize,
        found: &mut Vec<Found>,
        workers: &Workers<'_>,
    ) -> Result<Taken, CountError> {
        workers.check()?;
        match least {
            None => Ok(self.take_all(rows, found)),
            Some(least) => self.take_related(least, rows, found, workers),
        }
    }

    fn take_all(&mut self, rows: usize, found: &mut Vec<Found>) -> Taken {
        for _ in 0..TURN {
            let [i, j] = self.next;
            if i >= self.end {
                return Taken::All;
            }
            if j >= self.samples {
                self.next = [i + 1, i + 2];
                continue;
            }
            if found.len() >= rows {
                break;
            }
            self.next = [i, j + 1];
            found.push(self.found([i, j]));
        }
        Taken::Some
    }

    fn take_related(
        &mut self,
        least: f64,
        rows: usize,
        found: &mut Vec<Found>,
        workers: &Workers<'_>,
    ) -> Result<Taken, CountError> {
        if self.taken == self.related.len() {
            self.find_related(least, workers)?;
        }
        let some = self.related.iter().skip(self.taken);
        let some = some.take(rows.saturating_sub(found.len()));
        let before = found.len();
        found.extend(some.map(|pair| self.found(*pair)));
        self.taken += found.len() - before;
        let are_all = self.next[0] >= self.end && self.taken == self.related.len();
        Ok(if are_all { Taken::All } else { Taken::Some })
    }

    /// Looks at the pairs of the next first samples, by all threads.
    fn find_related(&mut self, least: f64, workers: &Workers<'_>) -> Result<(), CountError> {
        let first = self.next[0].min(self.end);
        let turn = TURN.saturating_mul(workers.threads().min(MOST_TURNS));
        let end = firsts_within(self.samples, first, turn).end.min(self.end);
        let is_related = |i: usize, j: usize| {
            king(self.pairs.king(i, j)).is_some_and(|kinship| kinship >= least)
        };
        let some = (end - first).div_ceil(workers.parts()).max(1);
        let parts = (first..end).step_by(some);
        let mut parts: Vec<_> = parts
            .map(|first| (first..end.min(first + some), vec![]))
            .collect();
        workers.each(&mut parts, |(firsts, related)| {
            for i in firsts.clone() {
                let after = (i + 1..self.samples).filter(|j| is_related(i, *j));
                related.extend(after.map(|j| [i, j]));
            }
            Ok(())
        })?;
        self.related.clear();
        self.related
            .extend(parts.into_iter().flat_map(|(_, related)| related));
        self.taken = 0;
        self.next = [end, end + 1];
        Ok(())
    }

    fn found(&self, [i, j]: [usize; 2]) -> Found {
        Found {
            samples: [i, j],
            counts: self.pairs.pair(i, j),
            kinship: king(self.pairs.king(i, j)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_have_each_pair_once() {
        for samples in [0, 1, 2, 3, 10, 100] {
            for most in [0, 1, 7, 99, 5000] {
                let (mut start, mut strips, mut pairs) = (0, 0, 0);
                while start + 1 < samples {
                    let firsts = firsts_within(samples, start, most);
                    assert!(firsts.start == start && firsts.end > start);
                    let of_firsts = pairs_of_firsts(samples, &firsts);
                    assert!(of_firsts <= most.max(samples - start - 1), "{firsts:?}");
                    if firsts.end < samples {
                        let more = pairs_of_firsts(samples, &(start..firsts.end + 1));
                        assert!(more > most, "{firsts:?}");
                    }
                    (start, strips, pairs) = (firsts.end, strips + 1, pairs + of_firsts);
                }
                assert_eq!(pairs, pairs_of(samples));
                assert_eq!(passes(samples, most), strips);
            }
        }
    }
}
