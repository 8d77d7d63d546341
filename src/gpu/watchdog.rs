//! [`Watchdog`]: detects a device that does not respond, and hands its chunks to the host.
//!
//! The driver waits for a device without a time limit, so queries would too. [`serve`](super::serve) reports each batch to the
//! watchdog, which checks on a thread of its own that sleeps while nothing runs. Invariant: a chunk that is given up gets its
//! outcome once; results that the device returns later are dropped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::batch::{ChunkJob, Outcome, Reply};
use super::queue::Queue;
use crate::gpu::error::GpuError;

/// Reading a file may take this many times as long as the device.
const FILES: u32 = 10;
/// Longest time between two checks.
const TICK: Duration = Duration::from_secs(1);

/// Describes what a device is doing.
pub type Probe = Box<dyn Fn() -> String + Send>;

/// A batch that a worker runs.
struct RunningBatch {
    /// The replies of its chunks.
    replies: Vec<Reply>,
    /// Whether it waits for the device rather than for a file.
    on_device: bool,
    /// How long it has waited, not counting time in which this process was stopped; `None` until the next check.
    waited: Option<Duration>,
    /// Describes the device's progress, if it waits for the device.
    probe: Option<Probe>,
}

/// Watches the workers of all devices.
pub struct Watchdog {
    /// A device may need this long.
    limit: Duration,
    /// By worker.
    running: Mutex<Vec<Option<RunningBatch>>>,
    begun: Condvar,
    given_up: AtomicBool,
}

/// Reports to the watchdog what a worker's batch waits for.
#[derive(Debug, Clone, Copy)]
pub struct BatchProgress<'a>(Option<(&'a Watchdog, usize)>);

impl BatchProgress<'_> {
    /// Of a batch that is not watched.
    #[cfg(test)]
    pub const UNWATCHED: BatchProgress<'static> = BatchProgress(None);

    /// The worker starts to read files, which may take longer.
    pub fn reading_files(&self) {
        self.set(false, None);
    }

    /// The worker waits for the device; the time limit starts again.
    pub fn waiting_for_device(&self, probe: Option<Probe>) {
        self.set(true, probe);
    }

    fn set(&self, on_device: bool, probe: Option<Probe>) {
        let Some((watchdog, worker)) = self.0 else {
            return;
        };
        let mut running = watchdog.running.lock();
        if let Some(running) = running.get_mut(worker).and_then(Option::as_mut) {
            (running.on_device, running.waited) = (on_device, None);
            running.probe = probe;
        }
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog")
            .field("limit", &self.limit)
            .field("given_up", &self.given_up)
            .finish_non_exhaustive()
    }
}

impl Watchdog {
    /// Watches this many workers of a queue.
    ///
    /// # Errors
    /// If no thread could be started.
    pub fn start(
        queue: &Arc<Queue>,
        workers: usize,
        limit: Duration,
    ) -> Result<Arc<Self>, GpuError> {
        let watchdog = Arc::new(Self {
            limit,
            running: Mutex::new((0..workers).map(|_| None).collect()),
            begun: Condvar::new(),
            given_up: AtomicBool::new(false),
        });
        let (watching, queue) = (Arc::clone(&watchdog), Arc::clone(queue));
        thread::Builder::new()
            .name("vcz-gpu-watch".into())
            .spawn(move || watching.watch(&queue))
            .map_err(|error| format!("no thread could be started: {error}"))?;
        Ok(watchdog)
    }

    /// A worker starts to run these jobs.
    pub fn begin(&self, worker: usize, jobs: &[ChunkJob]) -> BatchProgress<'_> {
        let batch = RunningBatch {
            replies: jobs.iter().map(|job| job.reply.clone()).collect(),
            on_device: true,
            waited: None,
            probe: None,
        };
        let mut running = self.running.lock();
        let was_idle = running.iter().all(Option::is_none);
        if let Some(slot) = running.get_mut(worker) {
            *slot = Some(batch);
        }
        drop(running);
        if was_idle {
            self.begun.notify_one();
        }
        BatchProgress(Some((self, worker)))
    }

    /// The worker has finished its batch.
    pub fn end(&self, worker: usize) {
        let ended = self.running.lock().get_mut(worker).and_then(Option::take);
        // Dropped without the lock held.
        drop(ended);
    }

    /// Whether a device was given up. The worker's thread is then still inside the driver.
    pub fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Whether a worker runs a batch.
    pub fn is_busy(&self) -> bool {
        self.running.lock().iter().any(Option::is_some)
    }

    fn watch(&self, queue: &Queue) {
        let tick = TICK.min(self.limit / 8);
        let mut running = self.running.lock();
        loop {
            if running.iter().all(Option::is_none) {
                self.begun.wait(&mut running);
                continue;
            }
            let looked = Instant::now();
            self.begun.wait_for(&mut running, tick);
            // If the whole process was stopped meanwhile, that time does not count.
            let passed = looked.elapsed().min(2 * tick);
            let mut late = None;
            for batch in running.iter_mut().flatten() {
                let waited = batch
                    .waited
                    .map_or(Duration::ZERO, |before| before + passed);
                batch.waited = Some(waited);
                let (limit, what) = match batch.on_device {
                    true => (self.limit, "has not responded"),
                    false => (FILES * self.limit, "has waited for a file"),
                };
                if waited >= limit {
                    late = Some(format!("the GPU {what} for {limit:?}"));
                }
            }
            let Some(reason) = late else {
                continue;
            };
            // All batches are given up: a lost device rarely leaves others usable.
            let (mut replies, mut probes) = (Vec::new(), Vec::new());
            for batch in running.iter_mut().filter_map(Option::take) {
                replies.extend(batch.replies);
                probes.extend(batch.probe);
            }
            drop(running);
            if !self.given_up.swap(true, Ordering::Relaxed) {
                log::warn!("the GPU is lost, continuing on the host: {reason}");
            }
            queue.fail(&format!("the GPU is lost: {reason}"));
            for reply in replies {
                reply.send(Outcome::Host(reason.as_str().into()));
            }
            // A probe may also wait forever, so it runs on a thread. Without one, the log has less detail.
            let run_probes = move || {
                for probe in probes {
                    let found = probe();
                    log::warn!("{found}");
                }
            };
            let _ = thread::Builder::new()
                .name("vcz-gpu-probe".into())
                .spawn(run_probes);
            // A worker may have taken another batch meanwhile.
            running = self.running.lock();
        }
    }
}
