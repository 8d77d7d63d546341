//! [`MarkedRows`]: the rows of a batch that have stayed on a device.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};

use crate::counts::{ChunkKey, ResidentPlanes, ResidentRow, ResidentRows, RowMark};

/// The rows, as marks are found.
pub(crate) struct MarkedRows<'a> {
    /// The function's SQL name.
    name: &'static str,
    planes: &'a ResidentPlanes,
    /// The chunk of the last one.
    chunk: Option<(ChunkKey, Arc<dyn ResidentRows>)>,
    pub(crate) rows: Vec<ResidentRow>,
}

impl<'a> MarkedRows<'a> {
    /// None yet, of chunks of `planes`.
    pub(crate) fn new(name: &'static str, planes: &'a ResidentPlanes) -> Self {
        Self {
            name,
            planes,
            chunk: None,
            rows: vec![],
        }
    }

    /// Takes the row of a mark; `false` if these words are none.
    ///
    /// # Errors
    /// If the chunk is not there.
    pub(crate) fn take(&mut self, words: &[u64]) -> Result<bool> {
        let Some(mark) = RowMark::of(words) else {
            return Ok(false);
        };
        let rows = match &self.chunk {
            Some((key, rows)) if *key == mark.chunk => Arc::clone(rows),
            _ => {
                let Some(rows) = self.planes.get(mark.chunk) else {
                    return internal_err!("{}: a row that stayed on a GPU is gone", self.name);
                };
                self.chunk = Some((mark.chunk, Arc::clone(&rows)));
                rows
            }
        };
        self.rows.push(ResidentRow {
            rows,
            set: mark.set,
            row: mark.row,
            ones: mark.ones,
        });
        Ok(true)
    }
}
