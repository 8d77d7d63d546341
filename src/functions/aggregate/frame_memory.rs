//! Memory of sliding frames that keep their rows, and of values that grow with their frames. DataFusion reserves none for the
//! accumulators and results of window operators, so the accumulators reserve it themselves, with what the operator above their window
//! operator names while it runs it.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

tokio::task_local! {
    static SCOPE: Scope;
}

/// What a window operator takes memory from.
#[derive(Clone)]
struct Scope {
    pool: Arc<dyn MemoryPool>,
    values: Arc<MemoryReservation>,
}

/// Runs `work`; the frames that it creates reserve their memory from `pool`, and values that grow with their frames in `values`,
/// where the caller releases them.
pub fn with_frame_memory<T>(
    pool: &Arc<dyn MemoryPool>,
    values: &Arc<MemoryReservation>,
    work: impl FnOnce() -> T,
) -> T {
    let scope = Scope {
        pool: Arc::clone(pool),
        values: Arc::clone(values),
    };
    SCOPE.sync_scope(scope, work)
}

/// While a column of values is made, each is in memory twice.
pub const COPIES_OF_VALUES: usize = 2;

/// The memory of values of a function that grow with their frames.
#[derive(Debug)]
pub(super) struct ValueMemory {
    function: String,
    reservation: Arc<MemoryReservation>,
}

impl ValueMemory {
    /// For a function that is called inside of [`with_frame_memory`]; `None` elsewhere.
    pub(super) fn current(function: String) -> Option<Self> {
        let reservation = SCOPE.try_with(|scope| Arc::clone(&scope.values)).ok()?;
        Some(Self {
            function,
            reservation,
        })
    }

    /// Reserves memory for a value of so many bytes in so many rows.
    pub(super) fn grow(&self, bytes: usize, rows: usize) -> Result<()> {
        let needed = bytes.saturating_mul(rows).saturating_mul(COPIES_OF_VALUES);
        self.reservation.try_grow(needed).map_err(|error| match error {
            DataFusionError::ResourcesExhausted(reason) => {
                DataFusionError::ResourcesExhausted(format!(
                    "a value of {name} in OVER has every row of its frame, here {bytes} bytes: use smaller frames or GROUP BY, lower \
                     datafusion.execution.batch_size, or raise the memory limit. {reason}",
                    name = self.function
                ))
            }
            other => other,
        })
    }
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
        let register = |scope: &Scope| {
            MemoryConsumer::new(format!("WindowFrame[{function}]")).register(&scope.pool)
        };
        Self {
            function,
            reservation: SCOPE.try_with(register).ok(),
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
        let values = Arc::new(MemoryConsumer::new("values").register(&pool));
        let frame = with_frame_memory(&pool, &values, || FrameMemory::new("garud_h"));
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
        let value = with_frame_memory(&pool, &values, || {
            ValueMemory::current("array_agg".to_string()).unwrap()
        });
        value.grow(15, 2).unwrap();
        assert_eq!(values.size(), 60);
        let error = value.grow(30, 1).unwrap_err().to_string();
        assert!(
            error.contains("array_agg in OVER has every row of its frame, here 30 bytes"),
            "{error}"
        );
        assert!(ValueMemory::current("array_agg".to_string()).is_none());
        // Without a pool nothing is reserved.
        FrameMemory::new("garud_h").grow(usize::MAX, 1).unwrap();
    }
}
