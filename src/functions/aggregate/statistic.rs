//! The trait of aggregates over sites: rows are added to a state, states are merged, and a state is evaluated.
//!
//! Functions implement [`Statistic`], most of them through [`sums`](super::sums) or [`cells`](super::cells), and
//! [`accumulator`](super::accumulator) makes DataFusion's accumulators from it. Every state consists of integers, so the result does
//! not depend on the order in which rows are added, retracted and merged.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_datafusion_err};

use super::pair_feed::PairFeed;
use crate::counts::pairs::PairDevice;

/// One batch of an aggregate's arguments.
pub(crate) trait SiteInput {
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether an argument is NULL at `row`, so that every aggregate skips it.
    fn is_null(&self, row: usize) -> bool;
    /// Whether an argument may be NULL at any row.
    fn has_nulls(&self) -> bool;
}

/// The state of one group.
pub(crate) trait GroupState: Debug + Default + Send + Sync + 'static {
    /// Bytes on the heap.
    fn heap_size(&self) -> usize {
        0
    }
}

/// A statistic over sites.
pub(crate) trait Statistic: Debug + Send + Sync + 'static {
    /// The state of one group.
    type State: GroupState;
    /// A batch of arguments, viewed.
    type Input<'a>: SiteInput;
    /// A batch of saved states, viewed.
    type Saved<'a>;
    /// Whether it compares all pairs of something, so that it may compute for long. It must then call
    /// [`check`](crate::functions::interrupt::check) meanwhile.
    const COMPARES_PAIRS: bool = false;
    /// Whether it sums over pairs of sites, which devices can.
    const COMPARES_SITES: bool = false;
    /// Whether a state of many rows is a matrix of all pairs of individuals or copies, however many partitions have one.
    const KEEPS_MATRIX: bool = false;

    /// Whether devices count pairs or individuals for it.
    const ON_DEVICE: bool = false;

    /// Lets a device count for it. For accumulators of one state, which call [`finish`](Self::finish).
    fn use_device(&mut self, _device: &Arc<dyn PairDevice>) -> Option<Arc<dyn PairFeed>> {
        None
    }

    /// Adds to the state what a device has counted for it. Called before it is saved or evaluated.
    fn finish(&self, _state: &mut Self::State) -> Result<()> {
        Ok(())
    }

    /// The same before the only state is evaluated.
    fn finish_for_value(&self, state: &mut Self::State) -> Result<()> {
        self.finish(state)
    }

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

    /// Adds the sites of consecutive rows, none of them NULL. Same result as [`add`](Self::add), which statistics may override with
    /// faster code.
    fn add_run(
        &self,
        state: &mut Self::State,
        input: &Self::Input<'_>,
        rows: Range<usize>,
    ) -> Result<()> {
        self.add(state, input, rows)
    }

    /// Retracts the sites of `rows`, none of them NULL, all of them added before.
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

    /// Saves a state for each row of a batch; the states of rows that are NULL or not `kept` are empty.
    fn save_rows(
        &self,
        input: &Self::Input<'_>,
        kept: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>>;

    /// The values of states, one row each. `&mut self`, because tables may be cached for the next call; states are not changed.
    fn evaluate(&mut self, states: &[Self::State]) -> Result<ArrayRef>;

    /// Returns an error if the values of this many groups would be too large. Called before their rows are read.
    fn check_groups(&self, _groups: usize) -> Result<()> {
        Ok(())
    }

    /// Bytes of the value of one group, if values may be much larger than states; 0 for numbers.
    fn value_size(&self) -> usize {
        0
    }

    /// Bytes on the heap of tables that are cached between evaluations.
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
