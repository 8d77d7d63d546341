//! The accumulator of many groups, for GROUP BY.
//!
//! Rows of genome windows come in runs of one group; a run is handed to the statistic in one call, which keeps its state
//! in registers.

use arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::statistic::{Input, State, Statistic};

/// All groups of a [`Statistic`].
#[derive(Debug)]
pub(crate) struct Groups<S: Statistic> {
    statistic: S,
    states: Vec<S::State>,
    /// Σ of the states' heap sizes, kept up to date because `size` is asked for after every batch.
    heap: usize,
}

/// Rows that are compared at a time.
const SOME_ROWS: usize = 32;

impl<S: Statistic> Groups<S> {
    pub(crate) fn new(statistic: S) -> Self {
        Self {
            statistic,
            states: Vec::new(),
            heap: 0,
        }
    }

    fn grow(&mut self, groups: usize) -> Result<()> {
        if groups > self.states.len() {
            self.statistic.check_groups(groups)?;
            let before = self.states.len();
            self.states.resize_with(groups, S::State::default);
            self.heap += self.states[before..]
                .iter()
                .map(State::heap_size)
                .sum::<usize>();
        }
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<S::State> {
        let states = emit_to.take_needed(&mut self.states);
        self.heap = self.states.iter().map(State::heap_size).sum();
        states
    }
}

/// Whether `filter` lets `row` pass; NULL does not pass.
#[inline]
fn passes(filter: &BooleanArray, row: usize) -> bool {
    filter.is_valid(row) && filter.value(row)
}

/// How many rows at the start are of the first one's group.
fn run_len(groups: &[usize]) -> usize {
    let Some(first) = groups.first() else {
        return 0;
    };
    if groups.get(1).is_some_and(|next| next != first) {
        return 1;
    }
    // Runs are long: many rows are compared at a time.
    let whole = groups.chunks_exact(SOME_ROWS).take_while(|some| {
        let differing = some.iter().fold(0, |any, group| any | (group ^ first));
        differing == 0
    });
    let len = whole.count() * SOME_ROWS;
    let rest = groups[len..].iter().take_while(|group| *group == first);
    len + rest.count()
}

impl<S: Statistic> GroupsAccumulator for Groups<S> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.grow(total_num_groups)?;
        let input = S::input(values)?;
        if input.len() != group_indices.len() {
            return internal_err!(
                "{} rows, {} group indices",
                input.len(),
                group_indices.len()
            );
        }
        let has_nulls = input.has_nulls();
        let mut start = 0;
        while let Some(&group) = group_indices.get(start) {
            let rows = start..start + run_len(&group_indices[start..]);
            start = rows.end;
            let Some(state) = self.states.get_mut(group) else {
                return internal_err!("group {group} is not below {total_num_groups}");
            };
            let before = state.heap_size();
            let there = |row: &usize| !input.is_null(*row);
            match opt_filter {
                // The usual case, in a loop of its own.
                None if !has_nulls => self.statistic.add_run(state, &input, rows)?,
                None => self.statistic.add(state, &input, rows.filter(there))?,
                Some(filter) => {
                    let rows = rows.filter(there).filter(|&row| passes(filter, row));
                    self.statistic.add(state, &input, rows)?;
                }
            }
            self.heap = self.heap - before + state.heap_size();
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.grow(total_num_groups)?;
        let saved = S::saved(values)?;
        if values
            .iter()
            .any(|column| column.len() != group_indices.len())
        {
            return internal_err!("states and {} group indices differ", group_indices.len());
        }
        for (row, &group) in group_indices.iter().enumerate() {
            let Some(state) = self.states.get_mut(group) else {
                return internal_err!("group {group} is not below {total_num_groups}");
            };
            let before = state.heap_size();
            self.statistic.merge(state, &saved, row)?;
            self.heap = self.heap - before + state.heap_size();
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let states = self.take(emit_to);
        self.statistic.evaluate(&states)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.take(emit_to);
        self.statistic.save(&states)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let input = S::input(values)?;
        match opt_filter {
            None => self.statistic.save_rows(&input, |_| true),
            Some(filter) => self.statistic.save_rows(&input, |row| passes(filter, row)),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.states.capacity() * size_of::<S::State>()
            + self.heap
            + self.statistic.heap_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_the_group_changes() {
        for len in [1, 5, 31, 32, 33, 64, 70, 100] {
            let mut groups = vec![7; len];
            assert_eq!(run_len(&groups), len);
            groups.extend([8, 7, 7]);
            assert_eq!(run_len(&groups), len);
            groups.extend([7; 64]);
            assert_eq!(run_len(&groups), len);
        }
        assert_eq!(run_len(&[]), 0);
    }
}
