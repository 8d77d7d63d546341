//! [`SiteRows`]: rows of bit-planes that are kept, one after the other.

use std::ops::Range;

use super::listed_row::ListedRow;
use crate::counts::Level;
use crate::counts::gathered::{PlanesRow, plane_words};

/// Words of rows that were lists, in a part of [`SiteRows::parts`] with more than [`FEW_ROWS`] rows.
const PART_WORDS: usize = 1 << 17;
/// Rows that a part has however long they are.
const FEW_ROWS: usize = 512;

/// Rows in the layout of [`gathered`](crate::counts::gathered), or lists of their bits where those are shorter, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteRows {
    words: Vec<u64>,
    /// Words of rows that were removed from the front.
    removed: usize,
    rows: usize,
}

impl SiteRows {
    /// Adds a row, which must be one of the population's, as a list if that is shorter.
    pub(crate) fn push(&mut self, row: PlanesRow<'_>, level: Level) {
        match ListedRow::push(row, level, &mut self.words) {
            true => self.rows += 1,
            false => self.push_planes(row),
        }
    }

    /// Adds a row as it is. This is faster for rows that are soon added to a matrix.
    pub(crate) fn push_planes(&mut self, row: PlanesRow<'_>) {
        self.words.push(row.header());
        self.words.extend_from_slice(row.all_planes());
        self.rows += 1;
    }

    /// Adds the rows of `words`, as [`words`](Self::words) gives them, of `copies` copies, each as a list if that is shorter. `false` if one of
    /// them is no such row; those before it are added.
    pub(crate) fn extend(&mut self, words: &[u64], copies: usize, level: Level) -> bool {
        self.words.reserve(words.len());
        let mut rest = words;
        while let Some(len) = row_len(rest, copies) {
            let Some((row, others)) = rest.split_at_checked(len) else {
                return false;
            };
            rest = others;
            if row.first().is_some_and(|word| ListedRow::is_listed(*word)) {
                if !ListedRow::try_new(row, copies).is_some_and(|row| row.is_valid(copies)) {
                    return false;
                }
                self.words.extend_from_slice(row);
                self.rows += 1;
                continue;
            }
            match PlanesRow::try_new(row, copies) {
                Some(row) if ListedRow::are_planes(row, copies) => self.push(row, level),
                _ => return false,
            }
        }
        rest.is_empty()
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The words of all rows.
    pub(crate) fn words(&self) -> &[u64] {
        self.words.get(self.removed..).unwrap_or_default()
    }

    /// The words of each row of `copies` copies.
    pub(super) fn each(&self, copies: usize) -> impl Iterator<Item = &[u64]> {
        let mut rest = self.words();
        std::iter::from_fn(move || {
            let (row, others) = rest.split_at_checked(row_len(rest, copies)?)?;
            rest = others;
            Some(row)
        })
    }

    /// The rows, of `copies` copies, in parts of at most `most` rows.
    pub(crate) fn parts(&self, copies: usize, most: usize) -> Parts<'_> {
        Parts {
            rest: self.words(),
            copies,
            most,
            planes: vec![],
        }
    }

    /// Removes the first row; `false` if it is not that of `words`, which are planes of `copies` copies.
    pub(crate) fn remove_first(&mut self, words: &[u64], copies: usize, level: Level) -> bool {
        let Some(row) = PlanesRow::try_new(words, copies) else {
            return false;
        };
        let mut listed = vec![];
        let words = match ListedRow::push(row, level, &mut listed) {
            true => &listed,
            false => words,
        };
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

/// Words of the row that `words` begin with, which may have fewer; `None` if there is none.
fn row_len(words: &[u64], copies: usize) -> Option<usize> {
    let header = *words.first()?;
    if ListedRow::is_listed(header) {
        return ListedRow::len(words, copies);
    }
    let planes = header.count_ones() as usize;
    Some(planes.saturating_mul(plane_words(copies)).saturating_add(1))
}

/// Parts of rows, one after the other.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    rest: &'a [u64],
    copies: usize,
    most: usize,
    /// Planes of the rows of a part that are lists.
    planes: Vec<u64>,
}

impl Parts<'_> {
    /// The next rows; `None` after the last.
    pub(crate) fn next_part(&mut self) -> Option<Vec<PlanesRow<'_>>> {
        enum Row<'a> {
            Planes(&'a [u64]),
            Listed(Range<usize>),
        }
        self.planes.clear();
        let mut rows = vec![];
        while rows.len() < self.most && (rows.len() < FEW_ROWS || self.planes.len() < PART_WORDS) {
            let len = row_len(self.rest, self.copies);
            let Some((row, others)) = len.and_then(|len| self.rest.split_at_checked(len)) else {
                break;
            };
            self.rest = others;
            rows.push(match ListedRow::try_new(row, self.copies) {
                Some(listed) => {
                    let from = self.planes.len();
                    listed.push_planes(plane_words(self.copies), &mut self.planes);
                    Row::Listed(from..self.planes.len())
                }
                None => Row::Planes(row),
            });
        }
        let rows: Vec<_> = rows
            .into_iter()
            .filter_map(|row| {
                let words = match row {
                    Row::Planes(words) => words,
                    Row::Listed(range) => self.planes.get(range)?,
                };
                PlanesRow::try_new(words, self.copies)
            })
            .collect();
        (!rows.is_empty()).then_some(rows)
    }
}
