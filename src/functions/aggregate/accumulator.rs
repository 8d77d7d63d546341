//! DataFusion's accumulators for a [`Statistic`]: [`StatisticAccumulator`] for one group (no GROUP BY, and frames of OVER) and
//! [`StatisticGroupsAccumulator`] for many (GROUP BY).
//!
//! With genome windows, consecutive rows usually belong to one group. Such a run is passed to the statistic in one call, which keeps its
//! state in registers.
//!
//! `size` includes the values that `evaluate` will build, because DataFusion reserves no memory of its own for them: a dense
//! spectrum can be much larger than the sparse state that it is made from.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::pair_feed::PairFeed;
use super::statistic::{GroupState, SiteInput, Statistic};
use crate::counts::pairs::PairDevice;
use crate::functions::interrupt;

/// The accumulator of one group. It always supports retraction, so it serves sliding frames too.
#[derive(Debug)]
pub(crate) struct StatisticAccumulator<S: Statistic> {
    statistic: S,
    state: S::State,
    /// Whether states were merged: then this accumulator will be evaluated. One that has only seen rows may be the partial step of an
    /// aggregation, which never builds a value. `session::memory_rule` plans spectra without GROUP BY in two steps, so that the evaluated
    /// accumulator always merges, but for that of `session::pairs`, which reserves memory for values itself.
    merged: bool,
}

impl<S: Statistic> StatisticAccumulator<S> {
    pub(crate) fn new(statistic: S) -> Self {
        Self {
            statistic,
            state: S::State::default(),
            merged: false,
        }
    }

    /// Lets a device count pairs, if no rows were added. Rows may be sent to it by what this returns, too.
    pub(crate) fn use_device(&mut self, device: &Arc<dyn PairDevice>) -> Option<Arc<dyn PairFeed>> {
        self.statistic.use_device(device)
    }
}

/// The only row of each of `columns`.
fn scalars(columns: &[ArrayRef]) -> Result<Vec<ScalarValue>> {
    columns
        .iter()
        .map(|column| ScalarValue::try_from_array(column, 0))
        .collect()
}

impl<S: Statistic> Accumulator for StatisticAccumulator<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let input = S::input(values)?;
        if !input.has_nulls() {
            return self
                .statistic
                .add_run(&mut self.state, &input, 0..input.len());
        }
        let rows = (0..input.len()).filter(|&row| !input.is_null(row));
        self.statistic.add(&mut self.state, &input, rows)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let input = S::input(values)?;
        let rows = (0..input.len()).filter(|&row| !input.is_null(row));
        self.statistic.remove(&mut self.state, &input, rows)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.merged = true;
        let saved = S::saved(states)?;
        let rows = states.first().map_or(0, |column| column.len());
        (0..rows).try_for_each(|row| self.statistic.merge(&mut self.state, &saved, row))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.statistic.finish(&mut self.state)?;
        scalars(&self.statistic.save(std::slice::from_ref(&self.state))?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        interrupt::check()?;
        self.statistic.finish_for_value(&mut self.state)?;
        let value = self.statistic.evaluate(std::slice::from_ref(&self.state))?;
        ScalarValue::try_from_array(&value, 0)
    }

    fn size(&self) -> usize {
        let value = if self.merged {
            self.statistic.value_size()
        } else {
            0
        };
        size_of_val(self) + self.state.heap_size() + self.statistic.heap_size() + value
    }
}

/// The accumulator of many groups.
#[derive(Debug)]
pub(crate) struct StatisticGroupsAccumulator<S: Statistic> {
    statistic: S,
    states: Vec<S::State>,
    /// Σ of the states' heap sizes, maintained because DataFusion calls `size` after every batch.
    heap: usize,
}

/// Rows whose groups are compared at a time.
const COMPARED_ROWS: usize = 32;

impl<S: Statistic> StatisticGroupsAccumulator<S> {
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
                .map(GroupState::heap_size)
                .sum::<usize>();
        }
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<S::State> {
        let states = emit_to.take_needed(&mut self.states);
        self.heap = self.states.iter().map(GroupState::heap_size).sum();
        states
    }
}

/// Whether `filter` lets `row` pass; NULL does not pass.
#[inline]
fn passes(filter: &BooleanArray, row: usize) -> bool {
    filter.is_valid(row) && filter.value(row)
}

/// The number of leading rows that belong to the first row's group.
fn run_len(groups: &[usize]) -> usize {
    let Some(first) = groups.first() else {
        return 0;
    };
    if groups.get(1).is_some_and(|next| next != first) {
        return 1;
    }
    // Runs are long, so rows are compared in blocks.
    let whole = groups.chunks_exact(COMPARED_ROWS).take_while(|some| {
        let differing = some.iter().fold(0, |any, group| any | (group ^ first));
        differing == 0
    });
    let len = whole.count() * COMPARED_ROWS;
    let rest = groups[len..].iter().take_while(|group| *group == first);
    len + rest.count()
}

impl<S: Statistic> GroupsAccumulator for StatisticGroupsAccumulator<S> {
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
            let not_null = |row: &usize| !input.is_null(*row);
            match opt_filter {
                // The usual case, in a separate loop.
                None if !has_nulls => self.statistic.add_run(state, &input, rows)?,
                None => self.statistic.add(state, &input, rows.filter(not_null))?,
                Some(filter) => {
                    let rows = rows.filter(not_null).filter(|&row| passes(filter, row));
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
            + self
                .statistic
                .value_size()
                .saturating_mul(self.states.len())
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
