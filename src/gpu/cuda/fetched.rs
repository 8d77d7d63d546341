//! [`Fetched`]: bytes of device memory that a [`PairStream`] copies to the host.
//!
//! Invariant: page-locked memory that bytes are on their way to is not freed before they have arrived.

use std::mem::ManuallyDrop;

use cudarc::driver::{result, sys};

use super::memory::Pinned;
use super::pair_stream::{PairStream, STAGING_BYTES};
use crate::gpu::error::GpuError;

/// Bytes that are fetched at a time.
pub(super) const FETCHED_BYTES: usize = 8 * STAGING_BYTES;

/// Bytes of device memory in page-locked memory, in parts of [`STAGING_BYTES`].
#[derive(Debug)]
pub(super) struct Fetched {
    /// Given back once the bytes have arrived, and until then not freed: the device may write to them.
    parts: Vec<ManuallyDrop<Pinned>>,
    len: usize,
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

    /// All numbers, in slices of which each is a part. Their size divides that of a part, whose memory is aligned to pages.
    pub(super) fn slices<T: bytemuck::Pod>(&self) -> Vec<&[T]> {
        let begins = (0..self.len).step_by(STAGING_BYTES);
        let parts = self.parts.iter().zip(begins).map(|(part, begin)| {
            let bytes = part.bytes(STAGING_BYTES.min(self.len - begin));
            bytemuck::try_cast_slice(bytes).unwrap_or_default()
        });
        parts.collect()
    }
}

impl PairStream {
    /// Reads device memory through page-locked memory, some parts of [`STAGING_BYTES`] at a time. `read` gets the place of their first byte.
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
        read: impl FnMut(usize, &Fetched),
    ) -> Result<(), GpuError> {
        let begins = (0..bytes).step_by(FETCHED_BYTES);
        let make = |_: &mut Self, begin: &usize| {
            Ok((from + *begin as u64, FETCHED_BYTES.min(bytes - begin)))
        };
        // SAFETY: as the caller says.
        unsafe { self.fetch_each(begins, make, read) }
    }

    /// Reads pieces of device memory: one is read while the next one is on its way. `make` enqueues what writes a piece, and gives its address
    /// and its bytes; the next piece may be at the same place, as it is written after this one was copied.
    ///
    /// # Errors
    /// Those of `make`, and the error of the driver.
    ///
    /// # Safety
    /// The device has the bytes that `make` gives.
    pub(super) unsafe fn fetch_each<P>(
        &mut self,
        pieces: impl IntoIterator<Item = P>,
        mut make: impl FnMut(&mut Self, &P) -> Result<(u64, usize), GpuError>,
        mut read: impl FnMut(P, &Fetched),
    ) -> Result<(), GpuError> {
        let mut on_its_way: Option<(P, Fetched)> = None;
        for piece in pieces {
            let made = make(self, &piece);
            // SAFETY: as the caller says.
            let next = made.and_then(|(from, bytes)| unsafe { self.enqueue_fetch(from, bytes) });
            self.arrive(on_its_way.take(), &mut read)?;
            on_its_way = Some((piece, next?));
        }
        self.arrive(on_its_way, &mut read)
    }

    /// Waits for a piece that is on its way, and reads it.
    fn arrive<P>(
        &mut self,
        piece: Option<(P, Fetched)>,
        read: &mut impl FnMut(P, &Fetched),
    ) -> Result<(), GpuError> {
        let Some((piece, fetched)) = piece else {
            return Ok(());
        };
        self.wait(fetched.event)?;
        read(piece, &fetched);
        self.events.push(fetched.event);
        let mut parts = fetched.parts.into_iter().map(ManuallyDrop::into_inner);
        parts.try_for_each(|part| self.give_back(part))
    }

    /// # Safety
    /// The device has these bytes.
    unsafe fn enqueue_fetch(&mut self, from: u64, len: usize) -> Result<Fetched, GpuError> {
        let mut fetched = Fetched {
            parts: vec![],
            len,
            event: self.event()?,
        };
        for at in (0..len).step_by(STAGING_BYTES) {
            let mut part = ManuallyDrop::new(self.wait_for_staging(STAGING_BYTES)?);
            let to = part.bytes_mut(STAGING_BYTES.min(len - at));
            // SAFETY: as the caller says; nobody reads the memory until the event has passed, and until then it is not freed.
            unsafe { result::memcpy_dtoh_async(to, from + at as u64, self.stream) }
                .map_err(|error| self.failed(&error))?;
            fetched.parts.push(part);
        }
        // SAFETY: event and stream are this stream's.
        unsafe { result::event::record(fetched.event, self.stream) }
            .map_err(|error| self.failed(&error))?;
        Ok(fetched)
    }
}
