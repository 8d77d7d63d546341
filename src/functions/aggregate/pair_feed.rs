//! [`PairFeed`]: sends rows of an aggregate over pairs to devices, for all partitions at a time and without the lock of their state.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use datafusion::common::Result;

use crate::counts::ResidentPlanes;
use crate::counts::pairs::KeepsRows;

/// The part of an accumulator that partitions share.
pub(crate) trait PairFeed: Debug + Send + Sync {
    /// Opens the counters of rows that stay on the devices, and memory for them. `None` if the devices do not count such rows. Those that
    /// devices count are sent from now on, however few there are.
    ///
    /// # Errors
    /// Those of devices.
    fn keep_rows(&self) -> Result<Option<Box<dyn KeepsRows>>>;

    /// Sends the rows of arguments that devices count; returns the others. Until the accumulator has many rows these are all. `resident` has
    /// the chunks of rows that have stayed on the devices.
    ///
    /// # Errors
    /// Those of devices.
    fn send(
        &self,
        arguments: Vec<ArrayRef>,
        resident: Option<&ResidentPlanes>,
    ) -> Result<Vec<ArrayRef>>;
}
