//! [`Watchdog`]: notices a device that does not answer, and gives its chunks to the host.
//!
//! Beside [`serve`](super::serve), which tells it of each batch, on a thread of its own that sleeps while nothing runs: who waits for a device
//! waits without a limit, inside of the driver, and whoever waits for its chunks would wait as long. Invariant: a chunk that is given up has
//! its outcome, once; what the device says of it later is nobody's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::batch::{Job, Outcome, Reply};
use super::queue::Queue;

/// A batch that a worker runs: since when, and who waits for it.
type Running = Option<(Instant, Vec<Reply>)>;

/// Watches the workers of all devices.
#[derive(Debug)]
pub struct Watchdog {
    /// A batch may take this long.
    limit: Duration,
    /// By worker.
    running: Mutex<Vec<Running>>,
    begun: Condvar,
    found: AtomicBool,
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
    pub fn begin(&self, worker: usize, jobs: &[Job]) {
        let replies = jobs.iter().map(|job| job.reply.clone()).collect();
        let mut running = self.running.lock();
        let was_idle = running.iter().all(Option::is_none);
        if let Some(slot) = running.get_mut(worker) {
            *slot = Some((Instant::now(), replies));
        }
        drop(running);
        if was_idle {
            self.begun.notify_one();
        }
    }

    /// They have run.
    pub fn end(&self, worker: usize) {
        let ended = self.running.lock().get_mut(worker).and_then(Option::take);
        // Without the lock.
        drop(ended);
    }

    /// Whether a device was given up. Its thread is still inside of the driver.
    pub fn has_found(&self) -> bool {
        self.found.load(Ordering::Relaxed)
    }

    fn watch(&self, queue: &Queue) {
        let mut running = self.running.lock();
        loop {
            let oldest = running.iter().flatten().map(|(begun, _)| *begun).min();
            let Some(oldest) = oldest else {
                self.begun.wait(&mut running);
                continue;
            };
            let left = self.limit.saturating_sub(oldest.elapsed());
            if !left.is_zero() {
                self.begun.wait_for(&mut running, left);
                continue;
            }
            // All of them: what else runs has hardly a better device.
            let given_up: Vec<Reply> = running
                .iter_mut()
                .filter_map(Option::take)
                .flat_map(|(_, replies)| replies)
                .collect();
            drop(running);
            let reason = format!("the GPU has not answered for {:?}", self.limit);
            if !self.found.swap(true, Ordering::Relaxed) {
                log::warn!("the GPU is lost, going on with the host: {reason}");
            }
            queue.fail(&format!("the GPU is lost: {reason}"));
            for reply in given_up {
                reply.send(Outcome::Host(reason.clone()));
            }
            // A worker may just have taken another batch.
            running = self.running.lock();
        }
    }
}
