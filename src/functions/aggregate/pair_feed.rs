//! [`PairFeed`]: sends rows of an aggregate over pairs to devices, for all partitions at a time and without the lock of their state.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use datafusion::common::Result;

use crate::counts::ResidentPlanes;
use crate::counts::pairs::KeepsRows;

/// The part of an accumulator that partitions share.
pub(crate) trait PairFeed: Debug + Send + Sync {
    /// Opens the counters of rows that stay on the devices; `false` if the devices do not count such rows.
    ///
    /// # Errors
    /// Those of devices.
    fn counts_resident(&self) -> Result<bool>;

    /// Memory for rows that stay on the devices, if there is enough.
    fn keep_rows(&self) -> Option<Box<dyn KeepsRows>>;

    /// Sends rows that devices count from now on, however few there are.
    fn open(&self);

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
