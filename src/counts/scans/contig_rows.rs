//! [`ContigRows`]: the rows of a contig that are scanned, with their bits and the gaps between them.

use super::bit_rows::BitRows;
use crate::counts::CountError;
use crate::counts::gathered::plane_words;

/// The most bases that a gap between rows counts.
const MOST_BASES: u64 = 20_000;
/// A gap of more bases ends an integral, as the contig's end does.
const WIDEST_GAP: u64 = 200_000;

/// Bases between a row and the one before it that count; `None` where there is no row near enough.
pub(super) type Gap = Option<u16>;

/// What a row is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContigRow {
    /// Its row in the table.
    pub(super) row: u64,
    /// Its position.
    pub(super) position: i64,
    /// Copies with allele 1.
    pub(super) carriers: u32,
    gap: Gap,
}

/// Rows in the order of their positions.
#[derive(Clone, Debug)]
pub(super) struct ContigRows {
    rows: Vec<ContigRow>,
    bits: BitRows,
}

/// A side of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The rows before it.
    Left,
    /// The rows after it.
    Right,
}

impl ContigRows {
    /// No rows; a row has `copies` copies.
    pub(super) fn new(copies: usize) -> Self {
        Self {
            rows: vec![],
            bits: BitRows::new(plane_words(copies)),
        }
    }

    /// Adds a row, with the plane of its copies with allele 1 and their number.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there are 2³² − 1 rows.
    pub(super) fn push(
        &mut self,
        row: u64,
        position: i64,
        plane: &[u64],
        carriers: u32,
    ) -> Result<(), CountError> {
        if self.rows.len() >= u32::MAX as usize {
            let rows = self.rows.len();
            return Err(CountError::TooLarge(format!(
                "more than {rows} rows of a contig"
            )));
        }
        let last = self.rows.last();
        let gap = last.map(|last| position.abs_diff(last.position));
        let gap = gap.filter(|gap| *gap <= WIDEST_GAP);
        self.rows.push(ContigRow {
            row,
            position,
            carriers,
            gap: gap.map(|gap| gap.min(MOST_BASES) as u16),
        });
        self.bits.push(plane);
        Ok(())
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Row `at`.
    pub(super) fn get(&self, at: usize) -> Option<&ContigRow> {
        self.rows.get(at)
    }

    /// The bits of row `at`.
    pub(super) fn bits(&self, at: usize) -> &[u64] {
        self.bits.row(at)
    }

    /// The gaps from row `at` on to its left, ending with that of the first row, which is `None`.
    pub(super) fn gaps_to_the_left(&self, at: usize) -> impl Iterator<Item = Gap> {
        let rows = self.rows.get(..=at).unwrap_or_default();
        rows.iter().rev().map(|row| row.gap)
    }

    /// The gaps from row `at` on to its right, and then `None`.
    pub(super) fn gaps_to_the_right(&self, at: usize) -> impl Iterator<Item = Gap> {
        let rows = self.rows.get(at + 1..).unwrap_or_default();
        rows.iter().map(|row| row.gap).chain([None])
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<ContigRow>() + self.bits.heap_bytes()
    }
}
