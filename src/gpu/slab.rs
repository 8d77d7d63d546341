//! Staging memory for one batch of encoded chunks, filled by many threads at once and copied to a device with one copy.
//!
//! Invariant: the queue reserves disjoint ranges, and a batch runs only after every reservation has been dropped, so no
//! two threads access the same bytes.

use std::ops::Range;

/// Page-locked or other memory of a slab.
///
/// # Safety
/// The pointer is always the same, and valid for reads and writes of `len` bytes, all initialised, as long as the value
/// lives; `len` does not change.
pub unsafe trait Memory: Send + Sync + std::fmt::Debug {
    /// Its first byte.
    fn as_mut_ptr(&self) -> *mut u8;
    /// Number of bytes.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Host memory that is not page-locked: allocated at once, but copied at a fifth of the speed.
#[derive(Debug)]
struct Pageable {
    bytes: *mut u8,
    len: usize,
}

// SAFETY: plain memory; users of the slab ensure exclusive access to bytes.
unsafe impl Send for Pageable {}
// SAFETY: as above.
unsafe impl Sync for Pageable {}

// SAFETY: a boxed slice that is taken back when the value is dropped.
unsafe impl Memory for Pageable {
    fn as_mut_ptr(&self) -> *mut u8 {
        self.bytes
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Pageable {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.bytes, self.len);
        // SAFETY: leaked by `Slab::pageable`, and this value is its only owner.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// Staging memory for one batch, or a part of that of a large-frame batch.
#[derive(Debug)]
pub struct Slab {
    memory: Box<dyn Memory>,
    is_scratch: bool,
}

impl Slab {
    /// A slab of this memory.
    pub fn new(memory: Box<dyn Memory>) -> Self {
        Self {
            memory,
            is_scratch: false,
        }
    }

    /// A scratch slab of `len` bytes: allocated for one batch and freed after it.
    pub fn pageable(len: usize) -> Self {
        // The system zeroes it when it is first used.
        let bytes = Box::into_raw(vec![0u8; len].into_boxed_slice()).cast::<u8>();
        Self {
            memory: Box::new(Pageable { bytes, len }),
            is_scratch: true,
        }
    }

    /// Whether it is freed after its batch.
    pub fn is_scratch(&self) -> bool {
        self.is_scratch
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it has no room at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of `range`.
    ///
    /// # Safety
    /// No other thread reads or writes them while the result lives.
    #[expect(clippy::mut_from_ref, reason = "ranges are disjoint, see the module")]
    pub unsafe fn bytes_mut(&self, range: Range<usize>) -> Option<&mut [u8]> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        // SAFETY: inside the memory, which lives as long as `self`; exclusive by the caller's promise.
        Some(unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.as_mut_ptr().add(range.start),
                range.end - range.start,
            )
        })
    }

    /// The first `len` bytes.
    ///
    /// # Safety
    /// No other thread writes them while the result lives.
    pub unsafe fn bytes(&self, len: usize) -> &[u8] {
        // SAFETY: as above; shared by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.memory.as_mut_ptr(), len.min(self.len())) }
    }
}
