//! What an aggregate over sites is: rows enter a state, states merge, a state becomes a value.
//!
//! A function implements [`Statistic`], most of them through [`sums`](super::sums) or [`cells`](super::cells);
//! [`accumulator`](super::accumulator) makes DataFusion's accumulators of it. Every state is made of integers, so the result does
//! not depend on the order in which rows are added, removed and merged.

use std::fmt::Debug;
use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_datafusion_err};

/// One batch of an aggregate's arguments.
pub(crate) trait SiteInput {
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether an argument is NULL at `row`, so that every aggregate skips it.
    fn is_null(&self, row: usize) -> bool;
    /// Whether an argument may be NULL at any row.
    fn has_nulls(&self) -> bool;
}

/// What one group holds.
pub(crate) trait GroupState: Debug + Default + Send + Sync + 'static {
    /// Bytes on the heap.
    fn heap_size(&self) -> usize {
        0
    }
}

/// A statistic over sites.
pub(crate) trait Statistic: Debug + Send + Sync + 'static {
    /// What one group holds.
    type State: GroupState;
    /// A batch of arguments, viewed.
    type Input<'a>: SiteInput;
    /// A batch of saved states, viewed.
    type Saved<'a>;

    /// Names and types of the columns that a state is saved in.
    fn state_columns() -> Vec<(String, DataType)>;

    /// Views a batch of arguments; `values` may end in columns of constants, which are ignored.
    fn input(values: &[ArrayRef]) -> Result<Self::Input<'_>>;

    /// Adds the sites of `rows`, none of them NULL.
    fn add(
        &self,
        state: &mut Self::State,
        input: &Self::Input<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()>;

    /// Adds the sites of consecutive rows, none of them NULL; the same as [`add`](Self::add), for statistics that have a faster way.
    fn add_run(
        &self,
        state: &mut Self::State,
        input: &Self::Input<'_>,
        rows: Range<usize>,
    ) -> Result<()> {
        self.add(state, input, rows)
    }

    /// Takes the sites of `rows` out again, none of them NULL, all of them added before.
    fn remove(
        &self,
        state: &mut Self::State,
        input: &Self::Input<'_>,
        rows: impl Iterator<Item = usize>,
    ) -> Result<()>;

    /// Views a batch of saved states.
    fn saved(states: &[ArrayRef]) -> Result<Self::Saved<'_>>;

    /// Adds the saved state of `row`.
    fn merge(&self, state: &mut Self::State, saved: &Self::Saved<'_>, row: usize) -> Result<()>;

    /// Saves states, one row each.
    fn save(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>>;

    /// Saves what each row of a batch adds, one row each; rows that are NULL or not `kept` add nothing.
    fn save_rows(
        &self,
        input: &Self::Input<'_>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>>;

    /// The values of states, one row each. `&mut`: tables may be kept for the next call; the states stay.
    fn evaluate(&mut self, states: &[Self::State]) -> Result<ArrayRef>;

    /// Fails, before any row is looked at, where this many groups are too many.
    fn check_groups(&self, _groups: usize) -> Result<()> {
        Ok(())
    }

    /// Bytes of the value of one group, where values may be much larger than states; 0 for numbers.
    fn value_size(&self) -> usize {
        0
    }

    /// Bytes on the heap of tables that are kept from one evaluation to the next.
    fn heap_size(&self) -> usize {
        0
    }
}

/// Argument or state column `at`.
pub(crate) fn column(values: &[ArrayRef], at: usize) -> Result<&ArrayRef> {
    values.get(at).ok_or_else(|| {
        internal_datafusion_err!(
            "expected column {at} of an aggregate, found {}",
            values.len()
        )
    })
}
