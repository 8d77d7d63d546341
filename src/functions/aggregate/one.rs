//! The accumulator of one group: no GROUP BY, ever-growing frames and sliding frames alike.

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::statistic::{Input, State, Statistic};

/// One group of a [`Statistic`]. It always supports retraction, so it serves sliding frames too.
#[derive(Debug)]
pub(crate) struct One<S: Statistic> {
    statistic: S,
    state: S::State,
}

impl<S: Statistic> One<S> {
    pub(crate) fn new(statistic: S) -> Self {
        Self {
            statistic,
            state: S::State::default(),
        }
    }
}

/// The only row of each of `columns`.
fn scalars(columns: &[ArrayRef]) -> Result<Vec<ScalarValue>> {
    columns
        .iter()
        .map(|column| ScalarValue::try_from_array(column, 0))
        .collect()
}

impl<S: Statistic> Accumulator for One<S> {
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
        let saved = S::saved(states)?;
        let rows = states.first().map_or(0, |column| column.len());
        (0..rows).try_for_each(|row| self.statistic.merge(&mut self.state, &saved, row))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        scalars(&self.statistic.save(std::slice::from_ref(&self.state))?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.statistic.evaluate(std::slice::from_ref(&self.state))?;
        ScalarValue::try_from_array(&value, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.state.heap_size() + self.statistic.heap_size()
    }
}
