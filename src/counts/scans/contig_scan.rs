//! [`ContigScan`]: the scores of the rows of one contig, which is gathered first, and then scanned in parts at the same time.

use std::sync::Arc;

use parking_lot::Mutex;

use super::contig_rows::ContigRows;
use super::part::{Part, ScannedRow};
use super::sweep::{Groups, Measure};
use crate::counts::CountError;

/// Rows of a part, at least: its first row needs the rows before it until all copies differ.
const LEAST_ROWS: usize = 1 << 9;

/// Work that may be done on any thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Rows of one contig, in the order of their positions.
#[derive(Debug)]
pub(crate) struct ContigScan {
    measure: Measure,
    groups: Groups,
    rows: ContigRows,
}

impl ContigScan {
    /// Without rows; a row has `copies` copies.
    pub(crate) fn new(measure: Measure, groups: &Groups, copies: usize) -> Self {
        Self {
            measure,
            groups: groups.clone(),
            rows: ContigRows::new(copies),
        }
    }

    /// Adds a row: its row in the table, its position, the plane of its copies with allele 1, and their number.
    ///
    /// # Errors
    /// [`CountError::TooLarge`] if there are 2³² − 1 rows.
    pub(crate) fn add(
        &mut self,
        row: u64,
        position: i64,
        plane: &[u64],
        carriers: u32,
    ) -> Result<(), CountError> {
        self.rows.push(row, position, plane, carriers)
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Ends the contig: it is scanned in `parts` parts, or fewer.
    pub(crate) fn close(self, parts: usize) -> Scores {
        let most = self.rows.len().div_ceil(LEAST_ROWS).max(1);
        self.in_parts(parts.clamp(1, most))
    }

    /// In exactly so many parts.
    pub(super) fn in_parts(self, parts: usize) -> Scores {
        let contig = Arc::new(self.rows);
        let cut = |part: usize| contig.len() * part / parts;
        let part = |at: usize| {
            let range = cut(at)..cut(at + 1);
            Arc::new(Mutex::new(Part::new(
                self.measure,
                &self.groups,
                &contig,
                range,
            )))
        };
        let parts = (0..parts).map(part).collect();
        Scores { parts, contig }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes()
    }
}

/// A contig whose rows get their scores.
#[derive(Debug)]
pub(crate) struct Scores {
    parts: Vec<Arc<Mutex<Part>>>,
    contig: Arc<ContigRows>,
}

impl Scores {
    /// The next work, which measures `most` rows of each part, or those that are left, to one side; none once every row has its score. It must be
    /// done before there is more.
    pub(crate) fn jobs(&self, most: usize) -> Vec<Job> {
        let open = self.parts.iter().filter(|part| !part.lock().is_scored());
        let job = |part: &Arc<Mutex<Part>>| -> Job {
            let part = Arc::clone(part);
            Box::new(move || part.lock().advance(most))
        };
        open.map(job).collect()
    }

    /// The next rows, in their order, `most` of them. Every row has its score.
    pub(crate) fn next_rows(&mut self, most: usize) -> Vec<ScannedRow> {
        let mut rows = vec![];
        for part in &self.parts {
            part.lock().take(most - rows.len(), &mut rows);
        }
        rows
    }

    /// Whether there are no rows, or none that were not returned.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.lock().is_empty())
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let parts = self.parts.iter().map(|part| part.lock().heap_bytes());
        self.contig.heap_bytes() + parts.sum::<usize>()
    }
}
