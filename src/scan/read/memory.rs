//! Reserves memory for decoded chunks in DataFusion's memory pool, with one reservation per scan partition.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

use super::metrics::ScanMetrics;

/// The memory of one scan partition. Clones share it.
#[derive(Clone)]
pub struct ScanMemory {
    reservation: Arc<Mutex<MemoryReservation>>,
    limit: usize,
    metrics: ScanMetrics,
}

impl ScanMemory {
    /// Registers a consumer for `partition`.
    pub fn new(pool: &Arc<dyn MemoryPool>, partition: usize, metrics: ScanMetrics) -> Self {
        let reservation = MemoryConsumer::new(format!("VczScan[{partition}]")).register(pool);
        let limit = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit,
            _ => usize::MAX,
        };
        Self {
            reservation: Arc::new(Mutex::new(reservation)),
            limit,
            metrics,
        }
    }

    /// Bytes of the whole pool; `usize::MAX` if it is unlimited or its limit is not known.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The metrics of the partition.
    pub fn metrics(&self) -> &ScanMetrics {
        &self.metrics
    }

    /// Reserves `bytes` until the result is dropped; a ResourcesExhausted error if the pool has fewer.
    pub fn take(&self, bytes: usize) -> Result<ReservedBytes> {
        let reservation = self.reservation.lock();
        reservation.try_grow(bytes)?;
        self.metrics.memory_reserved.set_max(reservation.size());
        drop(reservation);
        Ok(ReservedBytes {
            reservation: Arc::clone(&self.reservation),
            bytes,
        })
    }
}

/// Reserved bytes, freed when dropped.
pub struct ReservedBytes {
    reservation: Arc<Mutex<MemoryReservation>>,
    bytes: usize,
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.reservation.lock().shrink(self.bytes);
    }
}
