//! [`QueryMemory`]: the memory pool of a session's queries, for functions. DataFusion gives functions the session's settings, but no pool,
//! and accounts the arrays that they return nowhere.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, ListArray, PrimitiveArray};
use arrow::buffer::{Buffer, ScalarBuffer};
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// The pool of a session's queries; by default none. All are equal, so that the pool does not affect the comparison of plans.
#[derive(Debug, Clone, Default)]
pub struct QueryMemory(Option<Arc<dyn MemoryPool>>);

impl PartialEq for QueryMemory {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for QueryMemory {}

impl QueryMemory {
    /// Memory from `pool`; none is counted if the pool is unlimited.
    pub fn of(pool: &Arc<dyn MemoryPool>) -> Self {
        let is_limited = !matches!(pool.memory_limit(), MemoryLimit::Infinite);
        Self(is_limited.then(|| Arc::clone(pool)))
    }

    /// Memory of a call of `function`: nothing yet, or `None` if none is counted.
    pub fn reservation(&self, function: &str) -> Option<MemoryReservation> {
        let pool = self.0.as_ref()?;
        Some(MemoryConsumer::new(function.to_string()).register(pool))
    }
}

/// A buffer and its memory, which is released with it.
struct Held {
    buffer: Buffer,
    _memory: MemoryReservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// `lists`, a column of lists of numbers, whose numbers keep `memory` as long as anything uses them.
///
/// # Errors
/// If it is of another type.
pub fn holding<T: ArrowPrimitiveType>(
    lists: &ArrayRef,
    memory: MemoryReservation,
) -> Result<ArrayRef> {
    let (item, offsets, values, nulls) = lists.as_list::<i32>().clone().into_parts();
    let (_, numbers, valid) = values.as_primitive::<T>().clone().into_parts();
    let length = numbers.len();
    let held = Held {
        buffer: numbers.into_inner(),
        _memory: memory,
    };
    let buffer = Buffer::from(Bytes::from_owner(held));
    let numbers = ScalarBuffer::<T::Native>::new(buffer, 0, length);
    let values = PrimitiveArray::<T>::try_new(numbers, valid)?;
    Ok(Arc::new(ListArray::try_new(
        item,
        offsets,
        Arc::new(values),
        nulls,
    )?))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Int64Type;
    use datafusion::common::config::ConfigOptions;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;
    use crate::scan::VczSettings;

    fn options(pool: Arc<dyn MemoryPool>) -> ConfigOptions {
        let mut options = ConfigOptions::default();
        let memory = QueryMemory::of(&pool);
        options.extensions.insert(VczSettings {
            memory,
            ..Default::default()
        });
        options
    }

    #[test]
    fn memory_is_released_with_the_last_use() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
        let memory = VczSettings::reservation(&options(Arc::clone(&pool)), "f").unwrap();
        memory.try_grow(60).unwrap();
        let rows = [Some([Some(7), Some(8)]), None];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows));
        let held = holding::<Int64Type>(&lists, memory).unwrap();
        assert_eq!(&held, &lists);
        let part = held.as_list::<i32>().value(0);
        drop(held);
        assert_eq!(pool.reserved(), 60);
        drop(part);
        assert_eq!(pool.reserved(), 0);
        let unlimited = options(Arc::new(UnboundedMemoryPool::default()));
        assert!(VczSettings::reservation(&unlimited, "f").is_none());
        assert!(VczSettings::reservation(&ConfigOptions::default(), "f").is_none());
    }
}
