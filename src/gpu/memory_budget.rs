//! [`MemoryBudget`]: how much memory of the devices is for decoding, and what counts over pairs take from it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::batch::BatchLimits;
use super::decode_scratch::DecodeScratch;
use super::queue::Queue;
use super::queue_state::FreeMemory;
use crate::gpu::error::GpuError;

/// Bytes of a slab: the encoded chunks of a batch.
pub(super) const SLAB_BYTES: usize = 32 << 20;
/// Batches that a device runs at the same time: one is copied while others are decoded and the results of another are
/// returned.
pub const WORKERS_PER_DEVICE: usize = 4;
/// Most bytes of a batch's results.
const OUTPUT_BYTES: usize = 64 << 20;
/// Device memory that is used where no limit is set.
const DEFAULT_MEMORY: u64 = 8 << 30;
/// Most decoded bytes of an ordinary batch: larger ones are decoded no faster.
const MOST_DECODED: u64 = 768 << 20;
/// The part of the memory that may be used in which rows stay while pairs are counted.
const RESIDENT_PART: u64 = 8;
/// What is at most this part of the memory that may be used is small.
const SMALL_PART: u64 = 4;
/// Decoded bytes of a batch for which room must be left beside counts over pairs.
const LEAST_DECODED: usize = 64 << 20;

/// The memory of the devices that may be used.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    queue: Arc<Queue>,
    /// Bytes of the smallest device.
    smallest: u64,
    /// Reports free device memory, which bounds large-frame batches where no limit is set.
    free: Option<Arc<dyn FreeMemory>>,
    limit: Mutex<Limit>,
}

/// The devices that may be used, and how much of their memory.
#[derive(Debug)]
struct Limit {
    /// The limit of each that was last set; 0 for the default.
    set: u64,
    /// Bytes of each that are not for decoding.
    reserved: u64,
    /// Bytes of each that are kept, in which rows of the next query stay while it counts pairs. Not for decoding either.
    kept: u64,
    /// The devices that were last set, as bits.
    devices: u64,
}

/// Device memory that is not for decoding, until this is dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reserved {
    /// Ends the use of memory that stays allocated for [`MemoryBudget::reserve_kept`]; `false` if it must not, because batches would be smaller
    /// than without.
    pub(super) fn keep(self) -> bool {
        let mut limit = self.budget.limit.lock();
        let free = Limit {
            reserved: 0,
            kept: 0,
            ..*limit
        };
        let kept = Limit {
            kept: limit.kept.max(self.bytes),
            ..free
        };
        let is_kept = self.budget.limits(&kept) == self.budget.limits(&free);
        if is_kept {
            limit.kept = kept.kept;
        }
        is_kept
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut limit = self.budget.limit.lock();
        limit.reserved = limit.reserved.saturating_sub(self.bytes);
        // With less reserved there is room to decode, as there was before.
        let _ = self.budget.apply(&limit);
    }
}

impl MemoryBudget {
    /// Of devices of which the smallest has so many bytes, whose batches `queue` limits; no limit is set.
    pub(super) fn new(
        queue: &Arc<Queue>,
        smallest: u64,
        free: Option<Arc<dyn FreeMemory>>,
    ) -> Self {
        Self {
            queue: Arc::clone(queue),
            smallest,
            free,
            limit: Mutex::new(Limit {
                set: 0,
                reserved: 0,
                kept: 0,
                devices: u64::MAX,
            }),
        }
    }

    /// Whether [`configure`](Self::configure) would change something.
    pub(super) fn is_other(&self, devices: u64, memory: u64) -> bool {
        let current = self.limit.lock();
        (current.devices, current.set) != (devices, memory)
    }

    /// Uses these devices, and at most `memory` bytes of each (0 for the default), from the next batch on.
    ///
    /// # Errors
    /// If that leaves no room to decode. Nothing changes then.
    pub(super) fn configure(&self, devices: u64, memory: u64) -> Result<(), GpuError> {
        // Held to the end, so that this is the limit in use.
        let mut current = self.limit.lock();
        if current.set != memory {
            let changed = Limit {
                set: memory,
                ..*current
            };
            self.apply(&changed)?;
            *current = changed;
        }
        current.devices = devices;
        self.queue.set_devices(devices);
        Ok(())
    }

    /// Takes so much memory of each device from decoding.
    ///
    /// # Errors
    /// If too little would be left.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reserved, GpuError> {
        self.take(bytes, false)
    }

    /// The same for rows that stay on the devices; what is kept is part of it.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub(super) fn reserve_kept(self: &Arc<Self>, bytes: u64) -> Result<Reserved, GpuError> {
        self.take(bytes, true)
    }

    fn take(self: &Arc<Self>, bytes: u64, is_kept: bool) -> Result<Reserved, GpuError> {
        let mut current = self.limit.lock();
        let changed = Limit {
            reserved: current.reserved.saturating_add(bytes),
            kept: if is_kept { 0 } else { current.kept },
            ..*current
        };
        if self.limits(&changed).decoded < LEAST_DECODED {
            let left = self.left(&changed);
            return Err(format!("{left} bytes would be left to decode").into());
        }
        self.apply(&changed)?;
        *current = changed;
        Ok(Reserved {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// Gives what is kept back to decoding; `false` if nothing is.
    pub(super) fn release_kept(&self) -> bool {
        let mut current = self.limit.lock();
        let was_kept = std::mem::take(&mut current.kept) > 0;
        if was_kept {
            // There is more room to decode than before.
            let _ = self.apply(&current);
        }
        was_kept
    }

    /// Bytes of each device for rows that stay there while pairs are counted.
    pub(super) fn for_resident_rows(&self) -> usize {
        let allowed = self.allowed(&self.limit.lock());
        usize::try_from(allowed / RESIDENT_PART).unwrap_or(usize::MAX)
    }

    /// Whether so many bytes are at most a quarter of those of each device that may be used.
    pub(super) fn is_small(&self, bytes: usize) -> bool {
        bytes as u64 <= self.allowed(&self.limit.lock()) / SMALL_PART
    }

    /// Whether a device was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.queue.failure().is_some()
    }

    /// Bytes of each device that are in use, and not for decoding.
    pub(super) fn reserved(&self) -> u64 {
        self.limit.lock().reserved
    }

    /// Bytes of each device that are not for decoding.
    pub(super) fn held(&self) -> u64 {
        let limit = self.limit.lock();
        limit.reserved.saturating_add(limit.kept)
    }

    /// The devices that are used, as bits.
    pub(super) fn devices(&self) -> u64 {
        self.limit.lock().devices
    }

    /// Bytes of each device that may be used.
    fn allowed(&self, limit: &Limit) -> u64 {
        match limit.set {
            0 => default_memory(self.smallest),
            set => set.min(self.smallest / 10 * 9),
        }
    }

    /// Bytes of each device that are for decoding.
    fn left(&self, limit: &Limit) -> u64 {
        let others = limit.reserved.saturating_add(limit.kept);
        self.allowed(limit).saturating_sub(others)
    }

    /// Limits of batches that are decoded in that.
    fn limits(&self, limit: &Limit) -> BatchLimits {
        limits(self.left(limit), scratch_of(self.free.as_ref()))
    }

    /// Limits decoding to what is neither reserved nor kept.
    fn apply(&self, limit: &Limit) -> Result<(), GpuError> {
        let (allowed, limits) = (self.allowed(limit), self.limits(limit));
        if limits.decoded == 0 {
            let buffers = (SLAB_BYTES + OUTPUT_BYTES) * WORKERS_PER_DEVICE;
            let counts = match limit.reserved {
                0 => String::new(),
                reserved => format!(" beside {reserved} bytes of counts over pairs"),
            };
            return Err(format!(
                "vcz.gpu_memory_limit: {allowed} bytes leave no room to decode anything{counts}; buffers need {buffers}; set 0 \
                 for the default"
            )
            .into());
        }
        let free = self.free.clone().filter(|_| limit.set == 0);
        self.queue.set_limits(limits, free);
        Ok(())
    }
}

/// Bytes that are used of each device where no limit is set, if the smallest has so many.
pub(super) fn default_memory(smallest: u64) -> u64 {
    DEFAULT_MEMORY.min(smallest / 2)
}

/// Limits of batches that keep all workers of a device under `memory` bytes.
pub(super) fn limits(memory: u64, scratch: DecodeScratch) -> BatchLimits {
    let fixed = (SLAB_BYTES + OUTPUT_BYTES) as u64;
    let each = (memory / WORKERS_PER_DEVICE as u64).saturating_sub(fixed);
    BatchLimits {
        decoded: usize::try_from(scratch.decoded(each).min(MOST_DECODED)).unwrap_or(usize::MAX),
        output: OUTPUT_BYTES,
    }
}

/// Device memory that decoding needs besides its output.
pub(super) fn scratch_of(devices: Option<&Arc<dyn FreeMemory>>) -> DecodeScratch {
    devices.map_or_else(DecodeScratch::default, |devices| devices.decode_scratch())
}

/// Device memory that a worker may keep from batch to batch.
pub(super) fn most_held(limits: BatchLimits, scratch: DecodeScratch) -> usize {
    let decoded = scratch.with(limits.decoded as u64);
    usize::try_from(decoded).map_or(usize::MAX, |decoded| {
        decoded.saturating_add(SLAB_BYTES + 2 * OUTPUT_BYTES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_not_for_decoding() {
        let default = limits(default_memory(80 << 30), DecodeScratch::default());
        let queue = Queue::new(vec![], default);
        let budget = Arc::new(MemoryBudget::new(&queue, 80 << 30, None));
        let small = 2 << 30;
        budget.configure(1, small).unwrap();
        assert!(budget.is_small(512 << 20) && !budget.is_small((512 << 20) + 1));
        let before = queue.limits();
        let reserved = budget.reserve(1 << 30).unwrap();
        assert_eq!((budget.reserved(), budget.devices()), (1 << 30, 1));
        let left = limits(small - (1 << 30), DecodeScratch::default());
        assert!(left.decoded < before.decoded);
        assert_eq!(queue.limits(), left);
        // No room would be left.
        let refused = budget.reserve(1 << 30).unwrap_err();
        assert_eq!(&*refused, "0 bytes would be left to decode");
        let refused = budget.configure(1, 1 << 30).unwrap_err();
        assert!(
            refused.contains("beside 1073741824 bytes of counts over pairs"),
            "{refused}"
        );
        drop(reserved);
        assert_eq!((budget.reserved(), queue.limits()), (0, before));
    }

    #[test]
    fn what_is_kept_is_for_the_next_rows() {
        let default = limits(default_memory(80 << 30), DecodeScratch::default());
        let queue = Queue::new(vec![], default);
        let budget = Arc::new(MemoryBudget::new(&queue, 80 << 30, None));
        let (large, rows) = (12 << 30, 1 << 30);
        budget.configure(1, large).unwrap();
        let before = queue.limits();
        assert!(!budget.is_other(1, large) && budget.is_other(3, large) && budget.is_other(1, 0));
        assert!(budget.reserve_kept(rows).unwrap().keep());
        assert_eq!((budget.reserved(), budget.held()), (0, rows));
        assert_eq!(queue.limits(), before);
        // Not for others, and not twice.
        let others = large - 2 * rows;
        budget.reserve(others + rows).unwrap_err();
        let again = budget.reserve_kept(rows).unwrap();
        assert_eq!((budget.reserved(), budget.held()), (rows, rows));
        assert!(again.keep() && budget.release_kept() && !budget.release_kept());
        assert_eq!((budget.held(), queue.limits()), (0, before));
        // With less memory, batches would be smaller.
        budget.configure(1, 2 << 30).unwrap();
        let before = queue.limits();
        assert!(!budget.reserve_kept(rows).unwrap().keep());
        assert_eq!((budget.held(), queue.limits()), (0, before));
    }
}
