//! Lists of window starts of bounded size, for `genome_bins` and `interval_bins`.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};

use super::support::Lists;

/// Most windows of one row.
const MAX_ROW: u64 = 1 << 24;
/// Most windows of one batch in total (512 MiB).
const MAX_BATCH: u64 = 1 << 26;

/// A column of lists of evenly spaced starts.
pub(super) struct BinLists {
    function: &'static str,
    lists: Lists<Int64Type>,
}

impl BinLists {
    pub(super) fn new(function: &'static str, rows: usize) -> Result<Self> {
        Ok(Self {
            function,
            lists: Lists::new(&Self::data_type(), rows)?,
        })
    }

    /// The type of such a column.
    pub(super) fn data_type() -> DataType {
        DataType::new_list(DataType::Int64, true)
    }

    pub(super) fn push_null(&mut self) -> Result<()> {
        self.lists.push_null()
    }

    /// Adds a row with `count` starts, `first, first + step, …`. The caller ensures that the last one does not overflow.
    pub(super) fn push(&mut self, first: i64, count: u64, step: i64) -> Result<()> {
        if count > MAX_ROW {
            return exec_err!(
                "{}: {count} windows in one row, more than {MAX_ROW}; use larger windows",
                self.function
            );
        }
        if self.lists.total() as u64 + count > MAX_BATCH {
            return exec_err!(
                "{}: more than {MAX_BATCH} windows in one batch; use larger windows, \
                 or set datafusion.execution.batch_size to a smaller number",
                self.function
            );
        }
        self.lists.push((0..count as i64).map(|k| first + k * step))
    }

    pub(super) fn finish(self) -> Result<ArrayRef> {
        self.lists.finish()
    }
}
