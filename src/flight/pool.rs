//! The memory pool of one query: its own limit within the pool that all queries share. A query that exceeds either limit fails; other
//! queries continue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// A pool of `limit` bytes that also reserves every byte in `shared`.
#[derive(Debug)]
pub struct QueryPool {
    shared: Arc<dyn MemoryPool>,
    limit: usize,
    used: AtomicUsize,
}

impl QueryPool {
    /// An empty pool.
    pub fn new(shared: Arc<dyn MemoryPool>, limit: usize) -> Self {
        Self {
            shared,
            limit,
            used: AtomicUsize::new(0),
        }
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shared.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shared.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.used.fetch_add(additional, Ordering::Relaxed);
        self.shared.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.used.fetch_sub(shrink, Ordering::Relaxed);
        self.shared.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(additional).filter(|used| *used <= self.limit)
            })
            .map_err(|used| {
                resources_datafusion_err!(
                    "the query needs more memory than the {} bytes that this server gives one query: {} asked for {additional} \
                     when {used} were taken",
                    self.limit,
                    reservation.consumer().name()
                )
            })?;
        self.shared
            .try_grow(reservation, additional)
            .inspect_err(|_| {
                self.used.fetch_sub(additional, Ordering::Relaxed);
            })
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query({} of {} bytes)", self.reserved(), self.limit)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn both_limits_hold() {
        let shared: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
        let query =
            |limit| -> Arc<dyn MemoryPool> { Arc::new(QueryPool::new(Arc::clone(&shared), limit)) };
        let (small, large) = (query(60), query(90));
        let one = MemoryConsumer::new("one").register(&small);
        let two = MemoryConsumer::new("two").register(&large);
        one.try_grow(50).unwrap();
        let error = one.try_grow(20).unwrap_err().to_string();
        assert!(
            error.contains("60 bytes that this server gives one query"),
            "{error}"
        );
        two.try_grow(40).unwrap();
        assert!(two.try_grow(40).is_err(), "the server's memory is used up");
        assert_eq!(
            (small.reserved(), large.reserved(), shared.reserved()),
            (50, 40, 90)
        );
        one.free();
        two.try_grow(40).unwrap();
        drop((one, two));
        assert_eq!(
            (small.reserved(), large.reserved(), shared.reserved()),
            (0, 0, 0)
        );
    }
}
