//! The process's one engine: devices, their workers and the queue between them and the scans.
//!
//! It starts in the background when a session opens ([`start`]), because a context costs 0.2 to 0.3 s; until it is ready
//! `auto` goes on with the host. Once a device is lost the engine is off for the rest of the process, and every chunk that
//! waits is the host's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};

use super::abi;
use super::batch::BatchLimits;
use super::cuda::{
    CuFileStorage, Device, DeviceMemory, Nvcomp, Pinned, Worker, device_count, nvcomp_is_named,
    temporary, zstd_by_nvcomp,
};
use super::direct::Storage;
use super::executor::Executor;
use super::plan::{Estimate, FrameCodec};
use super::queue::Queue;
use super::serve::serve;
use super::slab::Slab;
use super::state::FreeMemory;
use super::temporary::Temporary;
use super::watchdog::Watchdog;

/// Bytes of a slab: the encoded chunks of a batch.
const SLAB_BYTES: usize = 32 << 20;
/// Slabs that are being filled while every worker runs one.
const SPARE_SLABS: usize = 2;
/// Batches that a device works on at the same time, so that one is copied while others are decoded, and the host is at work on the
/// results of the first while the last are read. `VCZ_GPU_WORKERS` sets another number, from 1 to 8: with one, batches do not overlap,
/// and the times of EXPLAIN ANALYZE are those of each step alone.
const WORKERS_PER_DEVICE: usize = 4;
/// Most results of a batch, in bytes.
const OUTPUT_BYTES: usize = 64 << 20;
/// Results that come back without page-locked memory having to grow first.
const FIRST_OUTPUT_BYTES: usize = 8 << 20;
/// Device memory that is taken where no limit is set.
const DEFAULT_MEMORY: u64 = 8 << 30;
/// Most decoded bytes of an ordinary batch: with more it is decoded no faster.
const MOST_DECODED: u64 = 768 << 20;
/// A device that takes longer for a batch, or a part of one, does not answer: the largest take a few tenths of a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is an engine.
#[derive(Debug, Clone)]
pub enum Status {
    /// Nobody has asked for one.
    Idle,
    /// It is on its way.
    Starting,
    /// It is there.
    Ready(Arc<Engine>),
    /// There is none, for this reason.
    Off(String),
}

/// Devices that run batches.
#[derive(Debug)]
pub struct Engine {
    queue: Arc<Queue>,
    devices: Vec<DeviceInfo>,
    memory: Arc<Vec<AtomicUsize>>,
    /// What `configure` was last asked for.
    limit: Mutex<u64>,
    /// Tells what batches of large frames may take where no limit is set.
    free: Option<Arc<dyn FreeMemory>>,
    storage: Arc<dyn Storage>,
    has_direct_storage: OnceCell<bool>,
    watchdog: Arc<Watchdog>,
    /// Why nvCOMP is not there, if it is not.
    without_nvcomp: Option<String>,
    /// Whether it decodes zstd frames, too.
    zstd_by_nvcomp: bool,
}

/// A device as users see it.
#[derive(Debug, Clone)]
pub struct DeviceInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
}

static STATE: LazyLock<watch::Sender<Status>> = LazyLock::new(|| watch::channel(Status::Idle).0);

/// Starts the engine in the background, unless somebody has.
pub fn start() {
    let first = STATE.send_if_modified(|status| {
        let idle = matches!(status, Status::Idle);
        if idle {
            *status = Status::Starting;
        }
        idle
    });
    if !first {
        return;
    }
    let run = || {
        // The bindings panic where a library lacks a function.
        let opened = catch_unwind(AssertUnwindSafe(Engine::open))
            .unwrap_or_else(|_| Err("the CUDA libraries found are not usable together".into()));
        let status = match opened {
            Ok(engine) => Status::Ready(engine),
            Err(reason) => {
                log::debug!("no GPU: {reason}");
                Status::Off(reason)
            }
        };
        STATE.send_replace(status);
    };
    if let Err(error) = thread::Builder::new()
        .name("vcz-gpu-start".into())
        .spawn(run)
    {
        STATE.send_replace(Status::Off(format!("no thread could be started: {error}")));
    }
}

/// Puts this engine in the place of whatever the machine has.
#[cfg(test)]
pub fn install(engine: Arc<Engine>) {
    start();
    // Not in between, or the one that is being started would take its place back.
    while matches!(*STATE.borrow(), Status::Starting) {
        thread::yield_now();
    }
    STATE.send_replace(Status::Ready(engine));
}

/// Whether the engine is being started right now, by a thread that is inside of CUDA. A process that ends then must not run
/// the libraries' exit handlers: they do not expect that.
pub fn is_starting() -> bool {
    matches!(*STATE.borrow(), Status::Starting)
}

/// Whether a worker is inside of CUDA, with a batch that runs or that was given up there; a process that ends then must not run exit
/// handlers either.
pub fn is_at_work() -> bool {
    let is_at_work = |watchdog: &Watchdog| watchdog.is_busy() || watchdog.has_found();
    matches!(&*STATE.borrow(), Status::Ready(engine) if is_at_work(&engine.watchdog))
}

/// Whether there is an engine, now.
pub fn status() -> Status {
    let status = STATE.borrow().clone();
    match status {
        Status::Ready(engine) => match engine.queue.failure() {
            Some(reason) => Status::Off(reason),
            None => Status::Ready(engine),
        },
        other => other,
    }
}

/// The engine, started and waited for.
///
/// # Errors
/// The reason why there is none.
pub async fn ready() -> Result<Arc<Engine>, String> {
    start();
    let mut changes = STATE.subscribe();
    loop {
        match status() {
            Status::Ready(engine) => return Ok(engine),
            Status::Off(reason) => return Err(reason),
            // The sender lives as long as the process.
            Status::Idle | Status::Starting => {
                if changes.changed().await.is_err() {
                    return Err("the GPU engine has ended".to_string());
                }
            }
        }
    }
}

impl Engine {
    fn open() -> Result<Arc<Self>, String> {
        let count = device_count()?;
        let (nvcomp, missing) = match Nvcomp::load() {
            Ok(nvcomp) => (Some(Arc::new(nvcomp)), None),
            Err(reason) => {
                if nvcomp_is_named() {
                    log::warn!("{reason}; going on without it, with zstd frames only");
                }
                (None, Some(reason))
            }
        };
        // Contexts of several devices are made at the same time.
        let openings: Vec<_> = (0..count)
            .map(|ordinal| thread::spawn(move || Device::open(ordinal)))
            .collect();
        let mut devices = Vec::new();
        let mut reasons = Vec::new();
        for opening in openings {
            match opening.join() {
                Ok(Ok(device)) => devices.push(Arc::new(device)),
                Ok(Err(reason)) => reasons.push(reason),
                Err(_) => reasons.push("a device's context could not be made".to_string()),
            }
        }
        let Some(first) = devices.first() else {
            return Err(reasons.join("; "));
        };
        for reason in &reasons {
            log::warn!("{reason}; going on without this device");
        }
        let slabs = (0..workers_per_device() * devices.len() + SPARE_SLABS)
            .map(|_| Ok(Slab::new(Box::new(Pinned::new(first, SLAB_BYTES)?))))
            .collect::<Result<Vec<_>, String>>()?;
        let infos = devices
            .iter()
            .map(|device| DeviceInfo {
                ordinal: device.ordinal,
                name: device.name.clone(),
                memory: device.memory,
            })
            .collect();
        let smallest = devices.iter().map(|device| device.memory).min();
        let mut workers: Vec<(usize, Box<dyn Executor>)> = Vec::new();
        let storage = Arc::new(CuFileStorage::new(first));
        for device in &devices {
            for _ in 0..workers_per_device() {
                let worker = Worker::new(device, nvcomp.as_ref(), &storage, FIRST_OUTPUT_BYTES)?;
                workers.push((device.ordinal, Box::new(worker)));
            }
        }
        let default = DEFAULT_MEMORY.min(smallest.unwrap_or(0) as u64 / 2);
        let temporary = temporary(&devices, nvcomp.is_some());
        let free: Arc<dyn FreeMemory> = Arc::new(DeviceMemory(devices, temporary));
        let mut engine = Self::with_workers(
            slabs,
            infos,
            workers,
            limits(default, temporary),
            Some(free),
            storage,
            PATIENCE,
        )?;
        engine.zstd_by_nvcomp = zstd_by_nvcomp(missing.is_none());
        engine.without_nvcomp = missing;
        Ok(Arc::new(engine))
    }

    /// An engine of these workers, each with the number of its device. One whose device does not answer for `patience` is lost.
    pub(super) fn with_workers(
        slabs: Vec<Slab>,
        devices: Vec<DeviceInfo>,
        workers: Vec<(usize, Box<dyn Executor>)>,
        limits: BatchLimits,
        free: Option<Arc<dyn FreeMemory>>,
        storage: Arc<dyn Storage>,
        patience: Duration,
    ) -> Result<Self, String> {
        let queue = Queue::new(slabs, limits);
        let watchdog = Watchdog::start(&queue, workers.len(), patience)?;
        queue.set_limits(limits, free.clone());
        let memory: Arc<Vec<AtomicUsize>> = Arc::new(
            std::iter::repeat_with(AtomicUsize::default)
                .take(workers.len())
                .collect(),
        );
        let temporary = temporary_of(free.as_ref());
        for (at, (device, executor)) in workers.into_iter().enumerate() {
            let (queue, memory) = (Arc::clone(&queue), Arc::clone(&memory));
            let watchdog = Arc::clone(&watchdog);
            thread::Builder::new()
                .name(format!("vcz-gpu-{device}"))
                .spawn(move || {
                    let report = |bytes| {
                        if let Some(held) = memory.get(at) {
                            held.store(bytes, Ordering::Relaxed);
                        }
                    };
                    let most_held = |limits| budget(limits, temporary);
                    serve(&queue, &watchdog, (at, device), executor, most_held, report);
                })
                .map_err(|error| format!("no thread could be started: {error}"))?;
        }
        Ok(Self {
            queue,
            devices,
            memory,
            limit: Mutex::new(0),
            free,
            storage,
            has_direct_storage: OnceCell::new(),
            watchdog,
            without_nvcomp: None,
            zstd_by_nvcomp: false,
        })
    }

    /// The devices.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    /// Where chunks go.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Device memory held now, in bytes, on all devices together.
    pub fn device_bytes(&self) -> usize {
        self.memory
            .iter()
            .map(|held| held.load(Ordering::Relaxed))
            .sum()
    }

    /// Whether chunks of which this is the estimate can be decoded.
    ///
    /// # Errors
    /// What is missing.
    pub fn decodes(&self, estimate: &Estimate) -> Result<(), String> {
        let frame = estimate.decoded_bytes / estimate.frames.max(1);
        match (&self.without_nvcomp, estimate.codec) {
            (_, None) => Ok(()),
            (_, Some(FrameCodec::Zstd)) if frame <= abi::ZSTD_LARGEST || self.zstd_by_nvcomp => {
                Ok(())
            }
            (_, Some(FrameCodec::Zstd)) => Err(format!(
                "zstd frames of {frame} bytes are the host's: a GPU takes those of {} at most",
                abi::ZSTD_LARGEST
            )),
            (None, _) => Ok(()),
            (Some(reason), Some(codec)) => {
                Err(format!("{codec} is decoded by nvCOMP on a GPU: {reason}"))
            }
        }
    }

    /// Whether files can be read straight into the devices' memory.
    pub async fn has_direct_storage(&self) -> bool {
        let find = || async {
            let storage = Arc::clone(&self.storage);
            // The first time, libraries and drivers are opened.
            let found = tokio::task::spawn_blocking(move || storage.is_direct()).await;
            found.unwrap_or(false)
        };
        *self.has_direct_storage.get_or_init(find).await
    }

    /// Makes the reading of files into the devices' memory ready, also where that goes by way of the host.
    ///
    /// # Errors
    /// The reason why files cannot be read so.
    pub async fn prepare_storage(&self) -> Result<(), String> {
        let storage = Arc::clone(&self.storage);
        let prepared = tokio::task::spawn_blocking(move || storage.prepare()).await;
        prepared.map_err(|error| format!("opening cuFile has failed: {error}"))?
    }

    /// Uses these devices (numbers, none for all) and at most `memory` bytes on each (0 for the default), from the next
    /// batch on. What several queries ask for at the same time, the last one gets.
    ///
    /// # Errors
    /// A device that is not there, or too little memory. Nothing has changed then.
    pub fn configure(&self, devices: &[usize], memory: u64) -> Result<(), String> {
        let mut bits = 0u64;
        for &device in devices {
            if !self.devices.iter().any(|info| info.ordinal == device) {
                let known: Vec<String> = self
                    .devices
                    .iter()
                    .map(|info| info.ordinal.to_string())
                    .collect();
                return Err(format!(
                    "vcz.gpu_devices: there is no GPU {device}; the devices are {}",
                    known.join(", ")
                ));
            }
            bits |= 1 << (device % 64);
        }
        // Held to the end, so that what is remembered is what holds.
        let mut current = self.limit.lock();
        if *current != memory {
            let most = self.devices.iter().map(|info| info.memory as u64).min();
            let limit = if memory == 0 {
                DEFAULT_MEMORY.min(most.unwrap_or(0) / 2)
            } else {
                memory.min(most.unwrap_or(0) / 10 * 9)
            };
            let limits = limits(limit, temporary_of(self.free.as_ref()));
            if limits.decoded == 0 {
                return Err(format!(
                    "vcz.gpu_memory_limit: {limit} bytes leave no room to decode anything; {} are needed before that, and 0 \
                     takes the default",
                    (SLAB_BYTES + OUTPUT_BYTES) * workers_per_device()
                ));
            }
            let free = self.free.clone().filter(|_| memory == 0);
            self.queue.set_limits(limits, free);
            *current = memory;
        }
        self.queue
            .set_devices(if devices.is_empty() { u64::MAX } else { bits });
        Ok(())
    }
}

fn workers_per_device() -> usize {
    let set = std::env::var("VCZ_GPU_WORKERS").ok();
    let set = set.and_then(|value| value.parse().ok());
    set.filter(|n| (1..=8).contains(n))
        .unwrap_or(WORKERS_PER_DEVICE)
}

/// What batches may hold so that all workers of a device stay under `memory` bytes.
fn limits(memory: u64, temporary: Temporary) -> BatchLimits {
    let fixed = (SLAB_BYTES + OUTPUT_BYTES) as u64;
    let each = (memory / workers_per_device() as u64).saturating_sub(fixed);
    BatchLimits {
        decoded: usize::try_from(temporary.decoded(each).min(MOST_DECODED)).unwrap_or(usize::MAX),
        output: OUTPUT_BYTES,
    }
}

/// What decoding takes of the devices' memory.
fn temporary_of(devices: Option<&Arc<dyn FreeMemory>>) -> Temporary {
    devices.map_or_else(Temporary::default, |devices| devices.temporary())
}

/// Device memory that a worker may keep from batch to batch.
fn budget(limits: BatchLimits, temporary: Temporary) -> usize {
    let decoded = temporary.with(limits.decoded as u64);
    usize::try_from(decoded).map_or(usize::MAX, |decoded| {
        decoded.saturating_add(SLAB_BYTES + 2 * OUTPUT_BYTES)
    })
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
