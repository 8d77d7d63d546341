//! [`PairNames`]: the columns of sample ids of all pairs of a population, and [`all_names`], for aggregates that return them.
//!
//! There may be millions of pairs, so ids are not copied one by one: those of the pairs of one first sample are next to each other in the text of
//! all ids. Several threads copy them, for one group while a GPU counts.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use datafusion::common::{Result, exec_err};
use parking_lot::Mutex;

use super::count_errors::counted;
use crate::counts::{Setter, Unset, Workers};
use crate::functions::interrupt;

/// Runs of pairs that a thread copies at a time.
const RUNS: usize = 32;

/// Copies of an id that are copied at a time.
const COPIES: usize = 64;

/// Ids as one text.
struct Ids {
    text: Vec<u8>,
    /// Where each begins, and the end of the last.
    begins: Vec<usize>,
}

impl Ids {
    fn new(ids: &[String]) -> Self {
        let mut begins = Vec::with_capacity(ids.len() + 1);
        begins.push(0);
        begins.extend(ids.iter().scan(0, |end, id| {
            *end += id.len();
            Some(*end)
        }));
        Self {
            text: ids.concat().into_bytes(),
            begins,
        }
    }

    /// Where the text of some ids is.
    fn of(&self, ids: &Range<usize>) -> Range<usize> {
        let at = |id: usize| self.begins.get(id).copied().unwrap_or(self.text.len());
        at(ids.start)..at(ids.end)
    }
}

/// Which id of a pair.
#[derive(Clone, Copy)]
enum Side {
    First,
    Second,
}

impl Side {
    /// Bytes of the ids of a run, saturating.
    fn bytes(self, ids: &Ids, (first, seconds): &Run) -> usize {
        match self {
            Self::First => ids
                .of(&(*first..first + 1))
                .len()
                .saturating_mul(seconds.len()),
            Self::Second => ids.of(seconds).len(),
        }
    }
}

/// The pairs of one sample with some others, as places among the ids.
type Run = (usize, Range<usize>);

/// The ids of the pairs of a population.
#[derive(Debug)]
pub(super) struct PairNames {
    /// The SQL function.
    function: &'static str,
    ids: Vec<String>,
    /// The second samples of the pairs of each sample, among so many samples, as places among the ids.
    seconds: fn(usize, usize) -> Range<usize>,
    /// Columns that were made ahead.
    ahead: Mutex<Option<[ArrayRef; 2]>>,
}

impl PairNames {
    /// For `function`, whose pairs of each sample, among so many samples, are those with `seconds`.
    pub(super) fn new(
        function: &'static str,
        ids: Vec<String>,
        seconds: fn(usize, usize) -> Range<usize>,
    ) -> Self {
        Self {
            function,
            ids,
            seconds,
            ahead: Mutex::default(),
        }
    }

    /// The ids of the population.
    pub(super) fn ids(&self) -> &[String] {
        &self.ids
    }

    /// Makes the columns of one group for the next call of [`columns`](Self::columns).
    ///
    /// # Errors
    /// As of that.
    pub(super) fn make_ahead(&self, workers: &Workers<'_>) -> Result<()> {
        let columns = self.make(1, workers)?;
        *self.ahead.lock() = Some(columns);
        Ok(())
    }

    /// The ids of both samples of all pairs, once for each of `groups` groups.
    ///
    /// # Errors
    /// If they have more bytes than a column of text holds.
    pub(super) fn columns(&self, groups: usize) -> Result<[ArrayRef; 2]> {
        let ahead = self.ahead.lock().take();
        match ahead {
            Some(columns) if groups == 1 => Ok(columns),
            _ => interrupt::with_workers(|workers| self.make(groups, workers)),
        }
    }

    fn make(&self, groups: usize, workers: &Workers<'_>) -> Result<[ArrayRef; 2]> {
        let samples = self.ids.len();
        let of_group = || (0..samples).map(|first| (first, (self.seconds)(first, samples)));
        let runs = (0..groups).flat_map(|_| of_group()).collect();
        pair_names(self.function, &self.ids, runs, workers)
    }
}

/// The ids of both samples of the pairs of each of `runs`, one run after the other, for `function`.
///
/// # Errors
/// If they have more bytes than a column of text holds.
fn pair_names(
    function: &'static str,
    ids: &[String],
    runs: Vec<Run>,
    workers: &Workers<'_>,
) -> Result<[ArrayRef; 2]> {
    let ids = Ids::new(ids);
    Ok([
        side(function, &ids, &runs, Side::First, workers)?,
        side(function, &ids, &runs, Side::Second, workers)?,
    ])
}

/// All ids, `times` times.
///
/// # Errors
/// As [`PairNames::columns`].
pub(super) fn all_names(function: &'static str, ids: &[String], times: usize) -> Result<ArrayRef> {
    let runs = vec![(0, 0..ids.len()); times];
    let ids = Ids::new(ids);
    interrupt::with_workers(|workers| side(function, &ids, &runs, Side::Second, workers))
}

fn side(
    function: &'static str,
    ids: &Ids,
    runs: &[Run],
    side: Side,
    workers: &Workers<'_>,
) -> Result<ArrayRef> {
    let pairs: usize = runs.iter().map(|(_, seconds)| seconds.len()).sum();
    let bytes = runs.iter().map(|run| side.bytes(ids, run));
    let bytes = bytes.fold(0, usize::saturating_add);
    let Ok(end) = i32::try_from(bytes) else {
        return exec_err!(
            "{function}: the sample ids of all pairs have {bytes} bytes, more than the {} of one result; use fewer samples, or shorter ids",
            i32::MAX
        );
    };
    let set = || {
        let mut text = Unset::try_new(bytes, "bytes of sample ids")?;
        let mut offsets = Unset::try_new(pairs + 1, "sample ids")?;
        let parts: Vec<_> = runs.chunks(RUNS).collect();
        let text_of = |runs: &&[Run]| runs.iter().map(|run| side.bytes(ids, run)).sum();
        let pairs_of = |runs: &&[Run]| runs.iter().map(|(_, seconds)| seconds.len()).sum();
        let begins = parts.iter().scan(0, |end, runs| {
            let begin = *end;
            *end += text_of(runs);
            Some(begin)
        });
        let of_text = text.setters(parts.iter().map(text_of));
        // The last offset is the end of the text.
        let mut of_offsets = offsets.setters(parts.iter().map(pairs_of).chain([1]));
        if let Some(mut last) = of_offsets.pop() {
            last.push(end);
        }
        let jobs = parts
            .iter()
            .zip(begins)
            .zip(of_text.into_iter().zip(of_offsets));
        workers.each(jobs, |((runs, begin), (mut text, mut offsets))| {
            let mut begin = begin;
            for run in *runs {
                side.set(ids, run, begin, &mut text, &mut offsets);
                begin += side.bytes(ids, run);
            }
            Ok(())
        })?;
        Ok((text.finish(), offsets.finish()))
    };
    let (text, offsets) = counted(function, set())?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    // SAFETY: the text is made of whole ids, and each offset is where one begins or ends; the last is the end of the text.
    Ok(Arc::new(unsafe {
        StringArray::new_unchecked(offsets, Buffer::from_vec(text), None)
    }))
}

impl Side {
    /// Sets the text of a run and the offset of each of its ids; the text is at `begin` in the column. All offsets fit.
    fn set(
        self,
        ids: &Ids,
        run: &Run,
        begin: usize,
        text: &mut Setter<'_, u8>,
        offsets: &mut Setter<'_, i32>,
    ) {
        let (first, seconds) = run;
        match self {
            Self::First => {
                let id = ids.text.get(ids.of(&(*first..first + 1)));
                let id = id.unwrap_or_default();
                for at in 0..seconds.len() {
                    offsets.push((begin + at * id.len()) as i32);
                }
                // Many copies at a time, as an id has few bytes.
                let copies = id.repeat(COPIES.min(seconds.len()));
                let mut left = id.len() * seconds.len();
                while left > 0 {
                    let some = copies.get(..copies.len().min(left)).unwrap_or_default();
                    text.extend_from_slice(some);
                    left -= some.len();
                }
            }
            Self::Second => {
                let from = ids.of(seconds);
                let begins = ids.begins.get(seconds.clone()).unwrap_or_default();
                for at in begins {
                    offsets.push((begin + at - from.start) as i32);
                }
                text.extend_from_slice(ids.text.get(from).unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    /// As if the ids were copied one by one.
    #[test]
    fn ids_of_all_pairs() {
        let ids: Vec<String> = (0..70)
            .map(|at| "é".repeat(at % 4) + &at.to_string())
            .collect();
        let runs: Vec<Run> = [(3, 0..0), (0, 0..70), (69, 5..6)]
            .into_iter()
            .chain((0..70).map(|i| (i, i + 1..70)))
            .collect();
        let pairs: Vec<(usize, usize)> = runs
            .iter()
            .flat_map(|(first, seconds)| seconds.clone().map(|second| (*first, second)))
            .collect();
        let [first, second] = pair_names("f", &ids, runs, &Workers::new(3, &|| false)).unwrap();
        let of = |column: &ArrayRef| -> Vec<String> {
            let ids = column.as_string::<i32>().iter();
            ids.map(|id| id.unwrap().to_string()).collect()
        };
        let expected = |of: fn(&(usize, usize)) -> usize| -> Vec<String> {
            pairs.iter().map(|pair| ids[of(pair)].clone()).collect()
        };
        assert_eq!(of(&first), expected(|pair| pair.0));
        assert_eq!(of(&second), expected(|pair| pair.1));
    }

    #[test]
    fn columns_made_ahead_are_of_one_group() {
        let ids: Vec<String> = (0..40).map(|id| format!("id{id}")).collect();
        let names = PairNames::new("f", ids, |first, samples| first + 1..samples);
        let one = names.columns(1).unwrap();
        assert_eq!(one[0].len(), 40 * 39 / 2);
        names.make_ahead(&Workers::new(2, &|| false)).unwrap();
        let ahead = names.columns(1).unwrap();
        assert_eq!(ahead, one);
        names.make_ahead(&Workers::new(2, &|| false)).unwrap();
        let [first, second] = names.columns(2).unwrap();
        for (two, one) in [(first, &one[0]), (second, &one[1])] {
            assert_eq!(&two.slice(0, one.len()), one);
            assert_eq!(&two.slice(one.len(), one.len()), one);
        }
    }

    #[test]
    fn more_text_than_a_column_holds_is_an_error() {
        let ids = ["x".repeat(1 << 20), String::new()];
        let runs = vec![(0, 0..2); 1 << 11];
        let error = pair_names("f", &ids, runs, &Workers::new(1, &|| false)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("use fewer samples, or shorter ids"),
            "{error}"
        );
    }
}
