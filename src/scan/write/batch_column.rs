//! [`BatchColumn`]: a column of a batch that is written. Its values are converted to elements when they are first needed, by a thread that
//! encodes.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::Result;
use parking_lot::Mutex;

use super::columns::ColumnPlan;
use super::names::WrittenNames;
use super::values::elements;
use crate::codec::ChunkData;

/// The values of one array in the rows of a batch.
pub struct BatchColumn {
    state: Mutex<ColumnState>,
}

enum ColumnState {
    Values(Values),
    Elements(Arc<ChunkData>),
}

/// Values that have not become elements yet.
struct Values {
    plan: Arc<ColumnPlan>,
    column: ArrayRef,
    names: Arc<WrittenNames>,
}

impl std::fmt::Debug for BatchColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchColumn").finish_non_exhaustive()
    }
}

impl BatchColumn {
    /// The values of `column`, which become elements of the array of `plan`.
    pub fn of_values(plan: Arc<ColumnPlan>, column: ArrayRef, names: Arc<WrittenNames>) -> Self {
        Self {
            state: Mutex::new(ColumnState::Values(Values {
                plan,
                column,
                names,
            })),
        }
    }

    /// Elements, row-major.
    pub fn of_elements(elements: ChunkData) -> Self {
        Self {
            state: Mutex::new(ColumnState::Elements(Arc::new(elements))),
        }
    }

    /// The elements, row-major. Threads that need the same ones wait for the first.
    ///
    /// # Errors
    /// If a value has no place in the array.
    pub fn elements(&self) -> Result<Arc<ChunkData>> {
        let mut state = self.state.lock();
        let made = match &*state {
            ColumnState::Elements(elements) => return Ok(Arc::clone(elements)),
            ColumnState::Values(values) => elements(&values.plan, &values.column, &values.names)?,
        };
        let made = Arc::new(made);
        *state = ColumnState::Elements(Arc::clone(&made));
        Ok(made)
    }
}

/// Rows of a batch's column.
#[derive(Debug, Clone)]
pub struct RowSpan {
    /// The column.
    pub column: Arc<BatchColumn>,
    /// The first row.
    pub from: usize,
    /// How many rows.
    pub rows: usize,
}
