//! [`SiteRows`]: rows of bit-planes that are kept, one after the other.

use crate::counts::gathered::{PlanesRow, plane_words};

/// Rows in the layout of [`gathered`](crate::counts::gathered), in the order in which they were added. A row's header gives its length.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteRows {
    words: Vec<u64>,
    /// Words of rows that were removed from the front.
    removed: usize,
    rows: usize,
}

impl SiteRows {
    /// Adds a row, which must be one of the population's.
    pub(crate) fn push(&mut self, row: PlanesRow<'_>) {
        self.words.push(row.header());
        self.words.extend_from_slice(row.all_planes());
        self.rows += 1;
    }

    /// Adds the rows of `words`, as [`words`](Self::words) gives them; `false` if they are not rows of `copies` copies.
    pub(crate) fn extend(&mut self, words: &[u64], copies: usize) -> bool {
        let (mut rest, mut rows) = (words, 0);
        while let Some(header) = rest.first() {
            match rest.get(row_len(*header, copies)..) {
                Some(others) => rest = others,
                None => return false,
            }
            rows += 1;
        }
        self.words.extend_from_slice(words);
        self.rows += rows;
        true
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The words of all rows.
    pub(crate) fn words(&self) -> &[u64] {
        self.words.get(self.removed..).unwrap_or_default()
    }

    /// The rows, of `copies` copies, in parts of at most `most` rows.
    pub(crate) fn parts(
        &self,
        copies: usize,
        most: usize,
    ) -> impl Iterator<Item = Vec<PlanesRow<'_>>> {
        let mut rest = self.words();
        let mut next = move || {
            let (row, others) = rest.split_at_checked(row_len(*rest.first()?, copies))?;
            rest = others;
            PlanesRow::try_new(row, copies)
        };
        std::iter::from_fn(move || {
            let rows: Vec<_> = std::iter::from_fn(&mut next).take(most).collect();
            (!rows.is_empty()).then_some(rows)
        })
    }

    /// Removes the first row; `false` if it is not `words`.
    pub(crate) fn remove_first(&mut self, words: &[u64]) -> bool {
        if self.rows == 0 || !self.words().starts_with(words) {
            return false;
        }
        self.rows -= 1;
        self.removed += words.len();
        if self.removed > self.words.len() / 2 {
            self.words.drain(..self.removed);
            self.removed = 0;
        }
        true
    }

    /// Removes all rows; their memory is kept.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.removed = 0;
        self.rows = 0;
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

/// Words of a row with this header; saturating.
fn row_len(header: u64, copies: usize) -> usize {
    let planes = header.count_ones() as usize;
    planes.saturating_mul(plane_words(copies)).saturating_add(1)
}
