//! [`MarkedRows`]: the rows of a batch that have stayed on a device. [`of_rows`]: the arguments of others.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter;
use datafusion::common::{Result, internal_err};

use crate::counts::{ChunkKey, ResidentPart, ResidentPlanes, ResidentRow, RowMark};

/// The rows, as marks are found.
pub(crate) struct MarkedRows<'a> {
    /// The function's SQL name.
    name: &'static str,
    planes: &'a ResidentPlanes,
    /// Rows of the batch that were not asked about.
    left: usize,
    /// The chunk and the set of the last part.
    last: Option<(ChunkKey, u32)>,
    pub(crate) parts: Vec<ResidentPart>,
}

impl<'a> MarkedRows<'a> {
    /// None yet of a batch of so many rows, of chunks of `planes`.
    pub(crate) fn new(name: &'static str, planes: &'a ResidentPlanes, rows: usize) -> Self {
        Self {
            name,
            planes,
            left: rows,
            last: None,
            parts: vec![],
        }
    }

    /// Takes the row of a mark; `false` if these words are none.
    ///
    /// # Errors
    /// If the chunk is not there.
    pub(crate) fn take(&mut self, words: &[u64]) -> Result<bool> {
        let left = self.left;
        self.left = left.saturating_sub(1);
        let Some(mark) = RowMark::of(words) else {
            return Ok(false);
        };
        let of = (mark.chunk, mark.set);
        if self.last != Some(of) {
            let Some(chunk) = self.planes.get(mark.chunk) else {
                return internal_err!("{}: a row that stayed on a GPU is gone", self.name);
            };
            self.last = Some(of);
            self.parts.push(ResidentPart {
                chunk,
                set: mark.set,
                rows: Vec::with_capacity(left),
            });
        }
        if let Some(part) = self.parts.last_mut() {
            part.rows.push(ResidentRow {
                row: mark.row,
                ones: mark.ones,
                is_inverted: false,
            });
        }
        Ok(true)
    }
}

/// The arguments of some of `len` rows, which are given by their numbers.
///
/// # Errors
/// If they do not fit in one array.
pub(crate) fn of_rows(
    arguments: &[ArrayRef],
    len: usize,
    rows: impl ExactSizeIterator<Item = usize>,
) -> Result<Vec<ArrayRef>> {
    if rows.len() == 0 {
        return Ok(arguments.iter().map(|array| array.slice(0, 0)).collect());
    }
    let mut is_kept = vec![false; len];
    for row in rows {
        if let Some(is_kept) = is_kept.get_mut(row) {
            *is_kept = true;
        }
    }
    let is_kept = BooleanArray::from(is_kept);
    let kept = arguments.iter().map(|array| filter(array, &is_kept));
    Ok(kept.collect::<Result<_, _>>()?)
}
