//! [`PairFeed`]: sends rows of an aggregate over pairs to devices, for all partitions at a time and without the lock of their state.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use datafusion::common::Result;

/// The part of an accumulator that partitions share.
pub(crate) trait PairFeed: Debug + Send + Sync {
    /// Sends the rows of arguments that devices count; returns the others. Until the accumulator has many rows these are all.
    ///
    /// # Errors
    /// Those of devices.
    fn send(&self, arguments: Vec<ArrayRef>) -> Result<Vec<ArrayRef>>;
}
