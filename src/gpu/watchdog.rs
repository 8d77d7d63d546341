//! [`Watchdog`]: notices a device that does not answer, and gives its chunks to the host.
//!
//! Beside [`serve`](super::serve), which tells it of each batch, on a thread of its own that sleeps while nothing runs: who waits for a device
//! waits without a limit, inside of the driver, and whoever waits for its chunks would wait as long. Invariant: a chunk that is given up has
//! its outcome, once; what the device says of it later is nobody's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::batch::{Job, Outcome, Reply};
use super::queue::Queue;

/// A file may take so many times as long as a device.
const FILES: u32 = 10;
/// How often it looks, at most.
const TICK: Duration = Duration::from_secs(1);

/// Finds out, in words, what a device is at.
pub type Probe = Box<dyn Fn() -> String + Send>;

/// A batch that a worker runs.
struct Running {
    /// Who waits for its chunks.
    replies: Vec<Reply>,
    /// Whether it is the device that has to do something, and not a file that is read.
    on_device: bool,
    /// How long the device, or the file, has had, as far as this process ran meanwhile; `None` until the next look.
    waited: Option<Duration>,
    /// What tells more, if it is the device's.
    probe: Option<Probe>,
}

/// Watches the workers of all devices.
pub struct Watchdog {
    /// A device may take this long.
    limit: Duration,
    /// By worker.
    running: Mutex<Vec<Option<Running>>>,
    begun: Condvar,
    found: AtomicBool,
}

/// How a worker says what its batch waits for.
#[derive(Debug, Clone, Copy)]
pub struct Pulse<'a>(Option<(&'a Watchdog, usize)>);

impl Pulse<'_> {
    /// Of a batch that nobody watches.
    #[cfg(test)]
    pub const UNWATCHED: Pulse<'static> = Pulse(None);

    /// What follows is a file that is read, which may take a while.
    pub fn reads(&self) {
        self.set(false, None);
    }

    /// What follows is up to the device, which has all of its time from here on.
    pub fn waits_for_device(&self, probe: Option<Probe>) {
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
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

impl Watchdog {
    /// Watches so many workers of this queue's batches.
    ///
    /// # Errors
    /// In words, if no thread could be started.
    pub fn start(queue: &Arc<Queue>, workers: usize, limit: Duration) -> Result<Arc<Self>, String> {
        let watchdog = Arc::new(Self {
            limit,
            running: Mutex::new((0..workers).map(|_| None).collect()),
            begun: Condvar::new(),
            found: AtomicBool::new(false),
        });
        let (watching, queue) = (Arc::clone(&watchdog), Arc::clone(queue));
        thread::Builder::new()
            .name("vcz-gpu-watch".into())
            .spawn(move || watching.watch(&queue))
            .map_err(|error| format!("no thread could be started: {error}"))?;
        Ok(watchdog)
    }

    /// A worker runs these from now on.
    pub fn begin(&self, worker: usize, jobs: &[Job]) -> Pulse<'_> {
        let batch = Running {
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
        Pulse(Some((self, worker)))
    }

    /// They have run, and the worker asks nothing of the device any more.
    pub fn end(&self, worker: usize) {
        let ended = self.running.lock().get_mut(worker).and_then(Option::take);
        // Without the lock.
        drop(ended);
    }

    /// Whether a device was given up. Its thread is still inside of the driver.
    pub fn has_found(&self) -> bool {
        self.found.load(Ordering::Relaxed)
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
            // Where the whole process was stopped, the device did not have all of that time.
            let passed = looked.elapsed().min(2 * tick);
            let mut late = None;
            for batch in running.iter_mut().flatten() {
                let waited = batch
                    .waited
                    .map_or(Duration::ZERO, |before| before + passed);
                batch.waited = Some(waited);
                let (limit, what) = match batch.on_device {
                    true => (self.limit, "has not answered"),
                    false => (FILES * self.limit, "has waited for a file"),
                };
                if waited >= limit {
                    late = Some(format!("the GPU {what} for {limit:?}"));
                }
            }
            let Some(reason) = late else {
                continue;
            };
            // All of them: what else runs has hardly a better device.
            let (mut given_up, mut probes) = (Vec::new(), Vec::new());
            for batch in running.iter_mut().filter_map(Option::take) {
                given_up.extend(batch.replies);
                probes.extend(batch.probe);
            }
            drop(running);
            if !self.found.swap(true, Ordering::Relaxed) {
                log::warn!("the GPU is lost, going on with the host: {reason}");
            }
            queue.fail(&format!("the GPU is lost: {reason}"));
            for reply in given_up {
                reply.send(Outcome::Host(reason.clone()));
            }
            // To ask may mean to wait for ever, too. Without a thread, there is only less to know.
            let ask = move || {
                for probe in probes {
                    let found = probe();
                    log::warn!("{found}");
                }
            };
            let _ = thread::Builder::new()
                .name("vcz-gpu-probe".into())
                .spawn(ask);
            // A worker may just have taken another batch.
            running = self.running.lock();
        }
    }
}
