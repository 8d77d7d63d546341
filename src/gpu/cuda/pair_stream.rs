//! [`PairStream`]: a stream of one device on which pairs are counted, with page-locked memory that rows are copied from.
//!
//! Everything is enqueued on one stream, in the order of calls. Invariants: page-locked memory is handed out again only after an event has
//! passed; after an error nothing is freed that the device may still use.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{DriverError, result, sys};
use parking_lot::Mutex;

use super::device::CudaDevice;
use super::kernel_times::KernelTimes;
use super::memory::Pinned;
use crate::counts::{CountError, ResidentRows};
use crate::gpu::error::GpuError;

/// A device that needs longer for what is enqueued does not respond.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a thread sleeps before it asks again.
pub(super) const POLL: Duration = Duration::from_micros(20);
/// Bytes of page-locked memory that rows are copied through at a time.
pub(super) const STAGING_BYTES: usize = 2 << 20;
/// Page-locked memory that streams have given back.
pub type Staging = Mutex<Vec<Pinned>>;
/// How many of a stream's are in use at most, and how many are kept.
const MOST_STAGED: usize = 32;

/// What the device reads.
#[derive(Debug)]
struct Copied {
    /// Page-locked memory of which copies were enqueued.
    memory: Option<Pinned>,
    /// Rows on the device.
    _held: Vec<Arc<dyn ResidentRows>>,
    /// Passed once they are done.
    event: sys::CUevent,
    since: Instant,
}

/// A stream.
#[derive(Debug)]
pub(super) struct PairStream {
    pub(super) device: Arc<CudaDevice>,
    pub(super) stream: sys::CUstream,
    /// What the device copies, the first ones first.
    copied: VecDeque<Copied>,
    /// Events that are not in use.
    pub(super) events: Vec<sys::CUevent>,
    /// How much page-locked memory is being filled.
    filling: usize,
    /// How much is copied from.
    copying: usize,
    /// Page-locked memory that is not in use.
    spare: Vec<Pinned>,
    /// How much page-locked memory may be in use.
    most: usize,
    free: Arc<Staging>,
    kernel_times: KernelTimes,
    /// Whether the device failed or did not respond.
    is_lost: bool,
}

// SAFETY: the handles may be used from one thread at a time, which exclusive borrows of the stream ensure.
unsafe impl Send for PairStream {}

/// An error of a device, with what can be done.
pub fn of_device(error: GpuError) -> CountError {
    CountError::Device(format!(
        "{error}; use SET vcz.backend = 'host' to count pairs on the host"
    ))
}

impl PairStream {
    /// A stream of `device`, which takes page-locked memory from `free`.
    ///
    /// # Errors
    /// The error of the driver.
    pub(super) fn try_new(device: &Arc<CudaDevice>, free: &Arc<Staging>) -> Result<Self, GpuError> {
        device.bind()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        Ok(Self {
            device: Arc::clone(device),
            stream: stream.map_err(|error| format!("GPU {}: {error}", device.ordinal))?,
            copied: VecDeque::new(),
            events: vec![],
            filling: 0,
            copying: 0,
            spare: vec![],
            most: MOST_STAGED,
            free: Arc::clone(free),
            kernel_times: KernelTimes::default(),
            is_lost: false,
        })
    }

    pub(super) fn failed(&mut self, error: &DriverError) -> GpuError {
        self.is_lost = true;
        format!("GPU {}: {error}", self.device.ordinal).into()
    }

    /// Page-locked memory of at least so many bytes to fill, for [`enqueue_copy`](Self::enqueue_copy); `None` while all of it is in use:
    /// ask again.
    ///
    /// # Errors
    /// If there is none, or the device failed or does not respond.
    pub(super) fn staging(&mut self, bytes: usize) -> Result<Option<Pinned>, GpuError> {
        if self.is_lost {
            return Err(format!("GPU {} has failed", self.device.ordinal).into());
        }
        self.device.bind()?;
        self.sweep()?;
        let mut memory = self.spare.pop();
        let in_use = self.filling + self.copying;
        if memory.is_none() {
            if in_use >= self.most {
                return Ok(None);
            }
            memory = self.free.lock().pop();
        }
        let mut memory = match memory {
            Some(memory) => memory,
            None => match Pinned::new(&self.device, STAGING_BYTES) {
                Ok(memory) => memory,
                // There is no more than what is in use.
                Err(error) if in_use > 0 => {
                    log::debug!("pairs are counted with {in_use} buffers: {error}");
                    self.most = in_use;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            },
        };
        memory.ensure(&self.device, bytes)?;
        // Memory of another device may have been freed.
        self.device.bind()?;
        self.filling += 1;
        Ok(Some(memory))
    }

    /// Copies bytes of page-locked memory to the device.
    ///
    /// # Errors
    /// The error of the driver.
    ///
    /// # Safety
    /// The address is of device memory with room for the bytes, which lives as long as the stream.
    pub(super) unsafe fn enqueue_copy(
        &mut self,
        to: u64,
        memory: &Pinned,
        bytes: std::ops::Range<usize>,
    ) -> Result<(), GpuError> {
        let from = memory.bytes(bytes.end).get(bytes).unwrap_or_default();
        // SAFETY: as the caller says; the memory is not written to until `copied` has seen the event pass.
        unsafe { result::memcpy_htod_async(to, from, self.stream) }
            .map_err(|error| self.failed(&error))
    }

    /// Takes page-locked memory back, of which copies were enqueued.
    ///
    /// # Errors
    /// The error of the driver; then the memory is not freed.
    pub(super) fn give_back(&mut self, memory: Pinned) -> Result<(), GpuError> {
        self.filling = self.filling.saturating_sub(1);
        self.copying += 1;
        self.after_all(Some(memory), vec![])
    }

    /// Keeps rows on the device until everything that was enqueued has been done.
    ///
    /// # Errors
    /// The error of the driver; then they are not freed.
    pub(super) fn hold(&mut self, rows: Vec<Arc<dyn ResidentRows>>) -> Result<(), GpuError> {
        self.after_all(None, rows)?;
        self.sweep()
    }

    fn after_all(
        &mut self,
        memory: Option<Pinned>,
        held: Vec<Arc<dyn ResidentRows>>,
    ) -> Result<(), GpuError> {
        let recorded = self.event().and_then(|event| {
            // SAFETY: event and stream are this stream's.
            let recorded = unsafe { result::event::record(event, self.stream) };
            recorded
                .map_err(|error| self.failed(&error))
                .map(|()| event)
        });
        match recorded {
            Ok(event) => {
                let since = Instant::now();
                self.copied.push_back(Copied {
                    memory,
                    _held: held,
                    event,
                    since,
                });
                Ok(())
            }
            Err(error) => {
                std::mem::forget((memory, held));
                Err(error)
            }
        }
    }

    /// Drops what the device no longer reads; its page-locked memory is free for others.
    fn sweep(&mut self) -> Result<(), GpuError> {
        while let Some((event, since)) = self.copied.front().map(|first| (first.event, first.since))
        {
            if !self.has_passed(event)? {
                return self.check_time(since);
            }
            self.events.push(event);
            if let Some(memory) = self.copied.pop_front().and_then(|first| first.memory) {
                self.copying = self.copying.saturating_sub(1);
                self.spare.push(memory);
            }
        }
        Ok(())
    }

    /// Copies bytes to the device, through page-locked memory.
    ///
    /// # Errors
    /// The error of the driver.
    ///
    /// # Safety
    /// As [`enqueue_copy`](Self::enqueue_copy).
    pub(super) unsafe fn copy(&mut self, to: u64, bytes: &[u8]) -> Result<(), GpuError> {
        let parts = bytes.chunks(STAGING_BYTES);
        for (to, part) in (to..).step_by(STAGING_BYTES).zip(parts) {
            let mut memory = self.wait_for_staging(part.len())?;
            memory.bytes_mut(part.len()).copy_from_slice(part);
            // SAFETY: as the caller says.
            let enqueued = unsafe { self.enqueue_copy(to, &memory, 0..part.len()) };
            enqueued.and(self.give_back(memory))?;
        }
        Ok(())
    }

    /// Sets bytes of device memory to 0.
    ///
    /// # Safety
    /// As [`enqueue_copy`](Self::enqueue_copy).
    pub(super) unsafe fn clear(&mut self, at: u64, bytes: usize) -> Result<(), GpuError> {
        // SAFETY: as the caller says.
        unsafe { result::memset_d8_async(at, 0, bytes, self.stream) }
            .map_err(|error| self.failed(&error))
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// The kernel takes one argument of this type, which names live device memory.
    pub(super) unsafe fn launch<T: bytemuck::Pod>(
        &mut self,
        kernel: sys::CUfunction,
        blocks: u32,
        threads: u32,
        shared: u32,
        argument: &T,
    ) -> Result<(), GpuError> {
        let argument: *const T = argument;
        let mut arguments = [argument.cast_mut().cast::<c_void>()];
        self.kernel_times.record(self.stream);
        // SAFETY: as the caller says; the driver copies arguments before it returns.
        unsafe {
            result::launch_kernel(
                kernel,
                (blocks, 1, 1),
                (threads, 1, 1),
                shared,
                self.stream,
                &mut arguments,
            )
        }
        .map_err(|error| self.failed(&error))?;
        self.kernel_times.record(self.stream);
        Ok(())
    }

    fn has_passed(&mut self, event: sys::CUevent) -> Result<bool, GpuError> {
        // SAFETY: the event is this stream's.
        match unsafe { result::event::query(event) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Waits for an event.
    pub(super) fn wait(&mut self, event: sys::CUevent) -> Result<(), GpuError> {
        if self.is_lost {
            return Err(format!("GPU {} has failed", self.device.ordinal).into());
        }
        let begin = Instant::now();
        while !self.has_passed(event)? {
            self.check_time(begin)?;
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// An error if the device has not responded for too long.
    fn check_time(&mut self, since: Instant) -> Result<(), GpuError> {
        if since.elapsed() <= TIMEOUT {
            return Ok(());
        }
        self.is_lost = true;
        let (ordinal, seconds) = (self.device.ordinal, TIMEOUT.as_secs());
        Err(format!("GPU {ordinal} did not respond for {seconds} s").into())
    }

    /// Waits for everything that was enqueued, and calls `check` meanwhile.
    ///
    /// # Errors
    /// That of `check`, and the error of the driver.
    pub(super) fn wait_and_check<E: From<GpuError>>(
        &mut self,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let event = self.event()?;
        self.events.push(event);
        // SAFETY: event and stream are this stream's.
        let recorded = unsafe { result::event::record(event, self.stream) };
        recorded.map_err(|error| self.failed(&error))?;
        let begin = Instant::now();
        while !self.has_passed(event)? {
            check()?;
            self.check_time(begin)?;
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits for everything that was enqueued.
    ///
    /// # Errors
    /// The error of the driver.
    pub(super) fn wait_for_all(&mut self) -> Result<(), GpuError> {
        let event = self.event()?;
        self.events.push(event);
        // SAFETY: event and stream are this stream's.
        unsafe { result::event::record(event, self.stream) }
            .map_err(|error| self.failed(&error))?;
        self.wait(event)
    }

    /// An event that is not in use.
    pub(super) fn event(&mut self) -> Result<sys::CUevent, GpuError> {
        match self.events.pop() {
            Some(event) => Ok(event),
            None => result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
                .map_err(|error| self.failed(&error)),
        }
    }

    /// Page-locked memory, once there is some; more than usual if all of it is being filled.
    pub(super) fn wait_for_staging(&mut self, bytes: usize) -> Result<Pinned, GpuError> {
        loop {
            if let Some(memory) = self.staging(bytes)? {
                return Ok(memory);
            }
            let Some(first) = self.copied.front() else {
                self.filling += 1;
                return Pinned::new(&self.device, bytes);
            };
            self.wait(first.event)?;
        }
    }

    /// Logs the time that the kernels took, all of which have ended.
    pub(super) fn log_times(&mut self, what: &str) {
        let milliseconds = self.kernel_times.take();
        let ordinal = self.device.ordinal;
        log::debug!("GPU {ordinal}: the kernels of {what} took {milliseconds} ms");
    }
}

impl PairStream {
    /// Ends the stream; `false` if the device is lost, so that memory which it may still use must not be freed. To be called once.
    pub(super) fn close(&mut self) -> bool {
        // Freeing memory of a lost device would wait for it.
        if self.device.bind().is_err() || self.is_lost || self.wait_for_all().is_err() {
            let copied = std::mem::take(&mut self.copied);
            copied.into_iter().for_each(std::mem::forget);
            return false;
        }
        for copied in self.copied.drain(..) {
            self.events.push(copied.event);
            self.spare.extend(copied.memory);
        }
        for memory in self.spare.drain(..) {
            let mut free = self.free.lock();
            if free.len() < MOST_STAGED {
                free.push(memory);
            }
        }
        // Memory of another device may have been freed.
        let _ = self.device.bind();
        // SAFETY: nothing uses them any more. An error means that the device is lost.
        unsafe {
            for event in self
                .events
                .drain(..)
                .chain(self.kernel_times.events.drain(..))
            {
                let _ = result::event::destroy(event);
            }
            let _ = result::stream::destroy(self.stream);
        }
        true
    }
}
