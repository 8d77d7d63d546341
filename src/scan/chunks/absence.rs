//! [`Absences`]: decides whether absent chunks of a store are read as fill values. Writers leave out chunks that hold only fill values, but
//! the chunks of a store that was deleted, unmounted or replaced are absent, too.
//!
//! The partitions of an execution share one instance per store. Invariants: before the first absent chunk of an array is accepted, the
//! array's metadata document is checked; if any chunk was absent, it is checked again after the last chunk was read, together with the
//! consolidated metadata. If all chunks are present no request is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

use futures::future::{try_join, try_join_all};
use tokio::sync::OnceCell;

use crate::error::VczError;
use crate::scan::dataset::Dataset;
use crate::scan::schema::ColumnKind;
use crate::store::{AbsentChunk, DocumentId};

/// The first absent chunk of an array, and the state of the array's metadata after it was found to be absent.
#[derive(Debug)]
struct FirstAbsent {
    index: Vec<u64>,
    document: Option<DocumentId>,
}

/// The absent chunks of one store in one execution of a scan.
#[derive(Debug)]
pub struct Absences {
    dataset: Arc<Dataset>,
    /// For each column of the table.
    first: Vec<OnceCell<FirstAbsent>>,
    /// Partitions that have not ended; 0 or negative if an execution is repeated.
    left: AtomicIsize,
    /// Whether a partition was dropped before its end.
    is_abandoned: AtomicBool,
}

impl Absences {
    /// No absent chunks yet, for an execution with this many partitions.
    pub fn new(dataset: &Arc<Dataset>, partitions: usize) -> Self {
        Self {
            dataset: Arc::clone(dataset),
            first: dataset.columns().iter().map(|_| OnceCell::new()).collect(),
            left: AtomicIsize::new(isize::try_from(partitions).unwrap_or(isize::MAX)),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// Lets `more` partitions end before the last one.
    pub fn expect_more(&self, more: usize) {
        let more = isize::try_from(more).unwrap_or(isize::MAX);
        self.left.fetch_add(more, Ordering::AcqRel);
    }

    /// Checks, once for each column, that the absent chunk at `index` may be read as fill values.
    ///
    /// # Errors
    /// If the array's metadata is gone, cannot be read or has changed.
    pub async fn check_first(&self, column: usize, index: Vec<u64>) -> Result<(), VczError> {
        let spec = &self.dataset.columns()[column];
        let check = || async {
            let checked = self.dataset.store().check_array(&spec.array, &index, None);
            let document = checked.await?;
            if spec.kind == ColumnKind::Genotype {
                self.dataset.log_absent(&spec.array, &index);
            }
            Ok::<_, VczError>(FirstAbsent {
                document,
                index: index.clone(),
            })
        };
        self.first[column].get_or_try_init(check).await.map(drop)
    }

    /// Checks again that the chunks that were absent may be read as fill values.
    async fn check_again(&self) -> Result<(), VczError> {
        let store = self.dataset.store();
        let columns = self.dataset.columns().iter().zip(&self.first);
        let absent: Vec<_> = columns
            .filter_map(|(column, first)| Some((&column.array, first.get()?)))
            .collect();
        if absent.is_empty() {
            return Ok(());
        }
        let chunks: Vec<AbsentChunk<'_>> = absent
            .iter()
            .map(|(array, first)| AbsentChunk {
                array,
                index: &first.index,
                document: first.document.as_ref(),
            })
            .collect();
        let arrays = chunks
            .iter()
            .map(|chunk| store.check_array(chunk.array, chunk.index, chunk.document));
        let consolidated = store.check_consolidated(&chunks);
        try_join(try_join_all(arrays), consolidated).await.map(drop)
    }
}

/// One partition of an execution. If it is dropped before its end, the others do not wait for it.
#[derive(Debug)]
pub struct PartitionAbsences {
    stores: Vec<Arc<Absences>>,
    has_ended: bool,
}

impl PartitionAbsences {
    /// Starts a partition; `stores` are those of the execution.
    pub fn of(stores: &[Arc<Absences>]) -> Self {
        Self {
            stores: stores.to_vec(),
            has_ended: false,
        }
    }

    /// The absences of a store, shared by all partitions.
    pub fn all(&self, store: usize) -> Option<&Arc<Absences>> {
        self.stores.get(store)
    }

    /// Ends the partition, before its last batch is returned. The last partition to end checks for all. If others may never end
    /// because of a LIMIT (`may_stop`), each partition checks.
    ///
    /// # Errors
    /// If a chunk was absent, and the metadata of its array is gone, cannot be read or has changed.
    pub async fn end(&mut self, may_stop: bool) -> Result<(), VczError> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(());
        }
        let stores = self.stores.iter().map(|store| async move {
            let is_last = store.left.fetch_sub(1, Ordering::AcqRel) <= 1;
            if is_last || may_stop || store.is_abandoned.load(Ordering::Acquire) {
                return store.check_again().await;
            }
            Ok(())
        });
        try_join_all(stores).await.map(drop)
    }
}

impl Drop for PartitionAbsences {
    fn drop(&mut self) {
        if !self.has_ended {
            for store in &self.stores {
                store.is_abandoned.store(true, Ordering::Release);
                store.left.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}
