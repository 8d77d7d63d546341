//! Memory of sliding frames that keep their rows. DataFusion reserves none for the accumulators of window operators, so the accumulators
//! reserve it themselves, from the pool that the operator above their window operator names while it runs it.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

tokio::task_local! {
    static POOL: Arc<dyn MemoryPool>;
}

/// Runs `work`; the frames that it creates reserve their memory from `pool`.
pub fn with_frame_memory<T>(pool: &Arc<dyn MemoryPool>, work: impl FnOnce() -> T) -> T {
    POOL.sync_scope(Arc::clone(pool), work)
}

/// The memory of the rows of one frame.
#[derive(Debug)]
pub(super) struct FrameMemory {
    function: &'static str,
    /// `None` outside of [`with_frame_memory`]: then the owner accounts for the frame by its size.
    reservation: Option<MemoryReservation>,
}

impl FrameMemory {
    /// Nothing yet, for a frame of this function.
    pub(super) fn new(function: &'static str) -> Self {
        let register = |pool: &Arc<dyn MemoryPool>| {
            MemoryConsumer::new(format!("WindowFrame[{function}]")).register(pool)
        };
        Self {
            function,
            reservation: POOL.try_with(register).ok(),
        }
    }

    /// Reserves `bytes` more, for a frame of `rows` rows.
    pub(super) fn grow(&self, bytes: usize, rows: usize) -> Result<()> {
        let Some(reservation) = &self.reservation else {
            return Ok(());
        };
        reservation.try_grow(bytes).map_err(|error| match error {
            DataFusionError::ResourcesExhausted(reason) => {
                DataFusionError::ResourcesExhausted(format!(
                    "{name} in OVER keeps the genotypes of its frame, now of {rows} rows: use smaller frames, compute windows \
                     with GROUP BY, or raise the memory limit. {reason}",
                    name = self.function
                ))
            }
            other => other,
        })
    }

    /// Gives back the bytes of a row that leaves the frame.
    pub(super) fn shrink(&self, bytes: usize) {
        if let Some(reservation) = &self.reservation {
            reservation.shrink(bytes.min(reservation.size()));
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn frames_reserve_from_the_pool_and_give_back() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
        let frame = with_frame_memory(&pool, || FrameMemory::new("garud_h"));
        frame.grow(60, 3).unwrap();
        assert_eq!(pool.reserved(), 60);
        let error = frame.grow(60, 6).unwrap_err();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)));
        let error = error.to_string();
        assert!(
            error.contains("garud_h in OVER keeps the genotypes of its frame, now of 6 rows"),
            "{error}"
        );
        frame.shrink(40);
        assert_eq!(pool.reserved(), 20);
        drop(frame);
        assert_eq!(pool.reserved(), 0);
        // Without a pool nothing is reserved.
        FrameMemory::new("garud_h").grow(usize::MAX, 1).unwrap();
    }
}
