//! [`Execution`]: the state that the partitions of one execution of a scan share.

use std::any::Any;
use std::sync::Arc;

use super::backend::ExecutionBackend;
use super::source::VczSource;
use crate::scan::chunks::absence::Absences;

/// One execution of a scan.
#[derive(Debug)]
pub struct Execution {
    /// The backend for arrays over samples.
    pub backend: ExecutionBackend,
    /// The chunks that were found to be absent in each store.
    pub absences: Vec<Arc<Absences>>,
}

impl VczSource {
    /// The state that the partitions of one execution share: an [`Execution`].
    pub(in crate::scan) fn new_execution(&self, partitions: usize) -> Arc<dyn Any + Send + Sync> {
        Arc::new(Execution {
            backend: ExecutionBackend::default(),
            absences: (self.table.stores.members().iter())
                .map(|member| Arc::new(Absences::new(&member.dataset, partitions)))
                .collect(),
        })
    }
}
