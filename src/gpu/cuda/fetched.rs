//! [`Fetched`]: bytes of device memory that a [`PairStream`] copies to the host.
//!
//! Invariant: page-locked memory that bytes are on their way to is not freed before they have arrived.

use cudarc::driver::{result, sys};

use super::memory::Pinned;
use super::pair_stream::{PairStream, STAGING_BYTES};
use crate::gpu::error::GpuError;

/// Bytes that are fetched at a time.
const FETCHED_BYTES: usize = 8 * STAGING_BYTES;

/// Bytes of device memory in page-locked memory, in parts of [`STAGING_BYTES`].
#[derive(Debug)]
pub(super) struct Fetched {
    parts: Vec<Pinned>,
    len: usize,
    /// The place of the first byte.
    begin: usize,
    /// Passed once they have arrived.
    event: sys::CUevent,
}

// SAFETY: the event is not used through it.
unsafe impl Sync for Fetched {}

impl Fetched {
    /// Numbers of this type.
    pub(super) fn len<T>(&self) -> usize {
        self.len / size_of::<T>()
    }

    /// Number `at`. Its size divides that of a part.
    #[inline]
    pub(super) fn number<T: bytemuck::Pod>(&self, at: usize) -> T {
        let byte = at * size_of::<T>();
        let part = self.parts.get(byte / STAGING_BYTES);
        let from = byte % STAGING_BYTES;
        let bytes =
            part.and_then(|part| part.bytes(STAGING_BYTES).get(from..from + size_of::<T>()));
        bytes.map_or_else(T::zeroed, bytemuck::pod_read_unaligned)
    }
}

impl PairStream {
    /// Reads device memory through page-locked memory, some parts of [`STAGING_BYTES`] at a time: these are read while the next ones are on
    /// their way. `read` gets the place of their first byte.
    ///
    /// # Errors
    /// The error of the driver.
    ///
    /// # Safety
    /// The device has these bytes.
    pub(super) unsafe fn fetch(
        &mut self,
        from: u64,
        bytes: usize,
        mut read: impl FnMut(usize, &Fetched),
    ) -> Result<(), GpuError> {
        let mut on_their_way: Option<Fetched> = None;
        for begin in (0..bytes).step_by(FETCHED_BYTES) {
            let len = FETCHED_BYTES.min(bytes - begin);
            // SAFETY: as the caller says.
            let next = unsafe { self.enqueue_fetch(from + begin as u64, begin, len) };
            // What is on its way is not freed before it has arrived.
            let arrived = self.arrive(on_their_way.take(), &mut read);
            match next {
                Ok(next) => on_their_way = Some(next),
                Err(error) => return Err(error),
            }
            if let Err(error) = arrived {
                on_their_way.into_iter().for_each(std::mem::forget);
                return Err(error);
            }
        }
        self.arrive(on_their_way, &mut read)
    }

    /// Waits for bytes that are on their way, and reads them.
    fn arrive(
        &mut self,
        fetched: Option<Fetched>,
        read: &mut impl FnMut(usize, &Fetched),
    ) -> Result<(), GpuError> {
        let Some(fetched) = fetched else {
            return Ok(());
        };
        if let Err(error) = self.wait(fetched.event) {
            // The device may still write to them.
            std::mem::forget(fetched);
            return Err(error);
        }
        read(fetched.begin, &fetched);
        self.events.push(fetched.event);
        let mut parts = fetched.parts.into_iter();
        parts.try_for_each(|part| self.give_back(part))
    }

    /// # Safety
    /// As [`fetch`](Self::fetch).
    unsafe fn enqueue_fetch(
        &mut self,
        from: u64,
        begin: usize,
        len: usize,
    ) -> Result<Fetched, GpuError> {
        let mut fetched = Fetched {
            parts: vec![],
            len,
            begin,
            event: self.event()?,
        };
        for at in (0..len).step_by(STAGING_BYTES) {
            let bytes = STAGING_BYTES.min(len - at);
            let enqueued = self.wait_for_staging(STAGING_BYTES).and_then(|memory| {
                fetched.parts.push(memory);
                let to = fetched.parts.last_mut().map(|part| part.bytes_mut(bytes));
                let to = to.unwrap_or_default();
                // SAFETY: as the caller says; nobody reads the memory until the event has passed, and after an error it is not freed.
                unsafe { result::memcpy_dtoh_async(to, from + at as u64, self.stream) }
                    .map_err(|error| self.failed(&error))
            });
            if let Err(error) = enqueued {
                std::mem::forget(fetched);
                return Err(error);
            }
        }
        // SAFETY: event and stream are this stream's.
        let recorded = unsafe { result::event::record(fetched.event, self.stream) };
        if let Err(error) = recorded {
            std::mem::forget(fetched);
            return Err(self.failed(&error));
        }
        Ok(fetched)
    }
}
