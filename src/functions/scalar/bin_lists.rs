//! Lists of window starts of bounded size, for `genome_bins` and `interval_bins`.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err, resources_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::support::Lists;
use crate::scan::{VczSettings, holding};

/// Most windows of one row.
const MAX_ROW: u64 = 1 << 24;
/// Most windows of one batch in total (512 MiB).
const MAX_BATCH: u64 = 1 << 26;
/// The memory of this many windows (1 MiB) is not counted, like that of other functions' results.
const UNCOUNTED: usize = 1 << 17;

/// A column of lists of evenly spaced starts.
pub(super) struct BinLists {
    function: &'static str,
    lists: Lists<Int64Type>,
    /// `None` if the session's memory is not limited.
    memory: Option<MemoryReservation>,
}

impl BinLists {
    /// For a batch of `rows` rows, in a session with these settings.
    pub(super) fn new(
        function: &'static str,
        rows: usize,
        options: &ConfigOptions,
    ) -> Result<Self> {
        Ok(Self {
            function,
            lists: Lists::new(&Self::data_type(), rows)?,
            memory: VczSettings::reservation(options, function),
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
        self.make_room(self.lists.total() + count as usize)?;
        self.lists.push((0..count as i64).map(|k| first + k * step))
    }

    /// Takes memory for `total` windows.
    fn make_room(&mut self, total: usize) -> Result<()> {
        let before = self.lists.capacity();
        if total <= before {
            return Ok(());
        }
        let capacity = total.max(before.saturating_mul(2));
        if let Some(memory) = &self.memory
            && capacity > UNCOUNTED
        {
            let taken = memory.try_resize(capacity.saturating_mul(size_of::<i64>()));
            taken.map_err(|error| {
                resources_datafusion_err!(
                    "{}: no memory for {capacity} windows in one batch; use larger windows or steps, or set \
                     datafusion.execution.batch_size to a smaller number. {}",
                    self.function,
                    error.message()
                )
            })?;
        }
        self.lists.make_room(capacity);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<ArrayRef> {
        let lists = self.lists.finish()?;
        match self.memory {
            Some(memory) if memory.size() > 0 => holding::<Int64Type>(&lists, memory),
            _ => Ok(lists),
        }
    }
}
