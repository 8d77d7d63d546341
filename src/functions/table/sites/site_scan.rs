//! What a function does with the variants of one partition: the trait [`SiteScan`].

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};

use crate::counts::gathered::PlanesRow;
use crate::counts::pairs::Shape;
use crate::counts::scans::Job;

/// A variant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'a> {
    /// Its contig.
    pub(super) contig: &'a str,
    /// Its position.
    pub(super) position: i64,
    /// Its row in the table.
    pub(super) row: u64,
    /// The genotypes of the individuals.
    pub(super) planes: PlanesRow<'a>,
}

/// The individuals of a call.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    /// Those of all its populations, each once, whose genotypes the planes are.
    pub(super) shape: Shape,
    /// The copies of each population among them, where there are several populations.
    pub(super) populations: Vec<Arc<[u32]>>,
}

/// Which rows the partitions of a function have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Whole contigs.
    Contigs,
    /// Any rows, and the rows after them of the same contig up to this distance.
    Bases(i64),
}

/// A function with its arguments.
pub(super) trait SiteFunction: Debug + Send + Sync + 'static {
    /// The function's name.
    fn name(&self) -> &'static str;

    /// Its columns.
    fn schema(&self) -> SchemaRef;

    /// Which rows its partitions have.
    fn reach(&self) -> Reach;

    /// Starts a partition with rows of its own, for these individuals, that may use so many threads.
    fn start(&self, own: Range<u64>, panel: &Panel, threads: usize) -> Box<dyn SiteScan>;
}

/// The variants of one partition, one after the other.
pub(super) trait SiteScan: Send {
    /// Adds a variant; none before [`next_batch`](Self::next_batch) has returned `None`.
    fn add(&mut self, site: Site<'_>) -> Result<()>;

    /// Ends the partition.
    fn end(&mut self) -> Result<()>;

    /// Whether there is anything for [`next_batch`](Self::next_batch) to do before more variants are added.
    fn is_pending(&self) -> bool;

    /// Work that tasks may do at the same time, each for some milliseconds. It is asked for, and done, again until there is none, before
    /// [`next_batch`](Self::next_batch).
    fn jobs(&mut self) -> Vec<Job> {
        vec![]
    }

    /// The next rows, `rows` of them or, at the end of the partition, what is left; `None` if more variants are needed.
    fn next_batch(&mut self, rows: usize) -> Result<Option<RecordBatch>>;

    /// Whether further variants would change nothing.
    fn is_done(&self) -> bool {
        false
    }

    /// Bytes on the heap.
    fn bytes(&self) -> usize;
}

/// The position of a scan: checks that contigs do not come again, and that positions do not fall.
#[derive(Debug, Default)]
pub(super) struct SitePosition {
    contig: Option<Box<str>>,
    before: HashSet<Box<str>>,
    position: i64,
}

impl SitePosition {
    /// Goes on to a variant; whether it is the first of a contig.
    ///
    /// # Errors
    /// If the contig was left before, or the position is before the last one.
    pub(super) fn next(&mut self, function: &str, site: &Site<'_>) -> Result<bool> {
        let Site {
            contig,
            position,
            row,
            ..
        } = *site;
        let starts = self.contig.as_deref() != Some(contig);
        if starts {
            self.before.extend(self.contig.take());
            if self.before.contains(contig) {
                return exec_err!(
                    "{function}: the variants of contig '{contig}' do not follow one another: row {row} is on it again; sort the variants \
                     by contig and position before they are converted (bcftools sort)"
                );
            }
            self.contig = Some(contig.into());
        } else if position < self.position {
            return exec_err!(
                "{function}: row {row} is at {contig}:{position}, before the one ahead of it at {}; sort the variants by position \
                 before they are converted (bcftools sort)",
                self.position
            );
        }
        self.position = position;
        Ok(starts)
    }

    /// The contig.
    pub(super) fn contig(&self) -> &str {
        self.contig.as_deref().unwrap_or_default()
    }
}
