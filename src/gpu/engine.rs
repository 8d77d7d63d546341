//! The process's one engine: devices, their workers, and the queue between them and the scans.
//!
//! It starts in the background when a session opens ([`start`]), because creating a context takes 0.2 to 0.3 s; until it is
//! ready, `auto` uses the host. Once a device is lost, the engine is off for the rest of the process and the host decodes
//! every waiting chunk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use tokio::sync::{OnceCell, watch};

use super::abi;
use super::batch::BatchLimits;
use super::cuda::{
    CuFileStorage, CudaDevice, DeviceMemory, Nvcomp, Pinned, ResidentPool, Staging, Worker,
    decode_scratch, device_count, nvcomp_is_named,
};
use super::direct::Storage;
use super::executor::Executor;
use super::memory_budget::{
    MemoryBudget, SLAB_BYTES, WORKERS_PER_DEVICE, default_memory, limits, most_held, scratch_of,
};
use super::pairs::{GpuPairs, release_kept};
use super::plan::{Estimate, FrameCodec};
use super::queue::Queue;
use super::queue_state::FreeMemory;
use super::serve::serve;
use super::slab::Slab;
use super::watchdog::Watchdog;
use crate::counts::pairs::PairDevice;
use crate::counts::sites::SiteDevice;
use crate::gpu::error::GpuError;

/// Slabs that can be filled while every worker runs a batch.
const SPARE_SLABS: usize = 2;
/// Initial page-locked memory for results, in bytes.
const FIRST_OUTPUT_BYTES: usize = 8 << 20;
/// A device that needs longer for a batch is lost: the largest batches take a few tenths of a second.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of the engine.
#[derive(Debug, Clone)]
pub enum EngineStatus {
    /// Not started.
    Idle,
    /// Being started.
    Starting,
    /// Running.
    Ready(Arc<GpuEngine>),
    /// Not available, for this reason.
    Off(GpuError),
}

/// Devices that run batches.
#[derive(Debug)]
pub struct GpuEngine {
    queue: Arc<Queue>,
    devices: Vec<DeviceInfo>,
    memory: Arc<Vec<AtomicUsize>>,
    budget: Arc<MemoryBudget>,
    /// The devices, for work that is not decoding, each with memory for rows that stay on it.
    opened: Vec<(Arc<CudaDevice>, Arc<ResidentPool>)>,
    /// Page-locked memory of such work that has ended.
    staging: Arc<Staging>,
    storage: Arc<dyn Storage>,
    has_direct_storage: OnceCell<bool>,
    watchdog: Arc<Watchdog>,
    /// Why nvCOMP could not be loaded, if it could not.
    without_nvcomp: Option<GpuError>,
}

/// A device, for display.
#[derive(Debug, Clone)]
pub struct DeviceInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
}

static STATE: LazyLock<watch::Sender<EngineStatus>> =
    LazyLock::new(|| watch::channel(EngineStatus::Idle).0);

/// Starts the engine in the background, once.
pub fn start() {
    let first = STATE.send_if_modified(|status| {
        let idle = matches!(status, EngineStatus::Idle);
        if idle {
            *status = EngineStatus::Starting;
        }
        idle
    });
    if !first {
        return;
    }
    let run = || {
        // `cudarc` panics where the CUDA driver or nvrtc lacks a function.
        let opened = catch_unwind(AssertUnwindSafe(GpuEngine::open))
            .unwrap_or_else(|_| Err("the CUDA libraries found are not usable together".into()));
        let status = match opened {
            Ok(engine) => EngineStatus::Ready(engine),
            Err(reason) => {
                log::debug!("no GPU: {reason}");
                EngineStatus::Off(reason)
            }
        };
        STATE.send_replace(status);
    };
    if let Err(error) = thread::Builder::new()
        .name("vcz-gpu-start".into())
        .spawn(run)
    {
        let reason = format!("no thread could be started: {error}");
        STATE.send_replace(EngineStatus::Off(reason.into()));
    }
}

/// Replaces the process's engine with this one.
#[cfg(test)]
pub fn install(engine: Arc<GpuEngine>) {
    start();
    // The thread that opens the real engine would otherwise replace this one when it ends.
    while matches!(*STATE.borrow(), EngineStatus::Starting) {
        thread::yield_now();
    }
    STATE.send_replace(EngineStatus::Ready(engine));
}

/// Whether a thread is inside CUDA to start the engine. A process that exits then must not run the libraries' exit handlers,
/// which are not safe while another thread uses the library.
pub fn is_starting() -> bool {
    matches!(*STATE.borrow(), EngineStatus::Starting)
}

/// Whether a thread may be inside CUDA: a worker with a batch that runs or was given up, or a query that counts pairs. A process that exits
/// then must not run exit handlers either.
pub fn is_at_work() -> bool {
    let is_at_work = |watchdog: &Watchdog| watchdog.is_busy() || watchdog.has_given_up();
    let counts_pairs = |engine: &GpuEngine| engine.budget.reserved() > 0;
    match &*STATE.borrow() {
        EngineStatus::Ready(engine) => is_at_work(&engine.watchdog) || counts_pairs(engine),
        _ => false,
    }
}

/// The current state of the engine.
pub fn status() -> EngineStatus {
    let status = STATE.borrow().clone();
    match status {
        EngineStatus::Ready(engine) => match engine.queue.failure() {
            Some(reason) => EngineStatus::Off(reason),
            None => EngineStatus::Ready(engine),
        },
        other => other,
    }
}

/// Starts the engine and waits for it.
///
/// # Errors
/// The reason why no engine is available.
pub async fn ready() -> Result<Arc<GpuEngine>, GpuError> {
    start();
    let mut changes = STATE.subscribe();
    loop {
        match status() {
            EngineStatus::Ready(engine) => return Ok(engine),
            EngineStatus::Off(reason) => return Err(reason),
            // The sender lives as long as the process.
            EngineStatus::Idle | EngineStatus::Starting => {
                if changes.changed().await.is_err() {
                    return Err("the GPU engine has ended".into());
                }
            }
        }
    }
}

impl GpuEngine {
    fn open() -> Result<Arc<Self>, GpuError> {
        let count = device_count()?;
        let (nvcomp, missing) = match Nvcomp::load() {
            Ok(nvcomp) => (Some(Arc::new(nvcomp)), None),
            Err(reason) => {
                if nvcomp_is_named() {
                    log::warn!("{reason}; continuing without it, with zstd frames only");
                }
                (None, Some(reason))
            }
        };
        // The contexts of several devices are created in parallel.
        let openings: Vec<_> = (0..count)
            .map(|ordinal| thread::spawn(move || CudaDevice::open(ordinal)))
            .collect();
        let mut devices = Vec::new();
        let mut reasons = Vec::new();
        for opening in openings {
            match opening.join() {
                Ok(Ok(device)) => devices.push(Arc::new(device)),
                Ok(Err(reason)) => reasons.push(String::from(reason)),
                Err(_) => reasons.push("a device's context could not be created".to_string()),
            }
        }
        let Some(first) = devices.first() else {
            return Err(reasons.join("; ").into());
        };
        for reason in &reasons {
            log::warn!("{reason}; continuing without this device");
        }
        let slabs = (0..WORKERS_PER_DEVICE * devices.len() + SPARE_SLABS)
            .map(|_| Ok(Slab::new(Box::new(Pinned::new(first, SLAB_BYTES)?))))
            .collect::<Result<Vec<_>, GpuError>>()?;
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
        let pools: Vec<_> = devices.iter().map(ResidentPool::new).collect();
        for (device, pool) in devices.iter().zip(&pools) {
            for _ in 0..WORKERS_PER_DEVICE {
                let nvcomp = nvcomp.as_ref();
                let worker = Worker::new(device, nvcomp, &storage, pool, FIRST_OUTPUT_BYTES)?;
                workers.push((device.ordinal, Box::new(worker)));
            }
        }
        let default = default_memory(smallest.unwrap_or(0) as u64);
        let scratch = decode_scratch(&devices);
        let free: Arc<dyn FreeMemory> = Arc::new(DeviceMemory(devices.clone(), scratch));
        let mut engine = Self::with_workers(
            slabs,
            infos,
            workers,
            limits(default, scratch),
            Some(free),
            storage,
            DEVICE_TIMEOUT,
        )?;
        engine.without_nvcomp = missing;
        engine.opened = devices.into_iter().zip(pools).collect();
        Ok(Arc::new(engine))
    }

    /// An engine of these workers, each with the number of its device. A device that does not respond for `timeout` is lost.
    pub(super) fn with_workers(
        slabs: Vec<Slab>,
        devices: Vec<DeviceInfo>,
        workers: Vec<(usize, Box<dyn Executor>)>,
        limits: BatchLimits,
        free: Option<Arc<dyn FreeMemory>>,
        storage: Arc<dyn Storage>,
        timeout: Duration,
    ) -> Result<Self, GpuError> {
        let queue = Queue::new(slabs, limits);
        let watchdog = Watchdog::start(&queue, workers.len(), timeout)?;
        queue.set_limits(limits, free.clone());
        let memory: Arc<Vec<AtomicUsize>> = Arc::new(
            std::iter::repeat_with(AtomicUsize::default)
                .take(workers.len())
                .collect(),
        );
        let scratch = scratch_of(free.as_ref());
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
                    let most_held = |limits| most_held(limits, scratch);
                    serve(&queue, &watchdog, (at, device), executor, most_held, report);
                })
                .map_err(|error| format!("no thread could be started: {error}"))?;
        }
        let smallest = devices.iter().map(|info| info.memory as u64).min();
        let budget = MemoryBudget::new(&queue, smallest.unwrap_or(0), free);
        Ok(Self {
            queue,
            devices,
            memory,
            budget: Arc::new(budget),
            opened: vec![],
            staging: Arc::default(),
            storage,
            has_direct_storage: OnceCell::new(),
            watchdog,
            without_nvcomp: None,
        })
    }

    /// The devices.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    /// The queue that chunks are submitted to.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Bytes of device memory held now, on all devices together.
    pub fn device_bytes(&self) -> usize {
        let of_workers: usize = self
            .memory
            .iter()
            .map(|held| held.load(Ordering::Relaxed))
            .sum();
        let devices = self.budget.devices();
        let used = self
            .devices
            .iter()
            .filter(|info| devices >> (info.ordinal % 64) & 1 != 0);
        let of_pairs = self.budget.held().saturating_mul(used.count() as u64);
        of_workers.saturating_add(usize::try_from(of_pairs).unwrap_or(usize::MAX))
    }

    /// Whether the devices decode chunks of this estimate.
    ///
    /// # Errors
    /// What is missing.
    pub fn decodes(&self, estimate: &Estimate) -> Result<(), GpuError> {
        let frame = estimate.decoded_bytes / estimate.frames.max(1);
        match (estimate.codec, &self.without_nvcomp) {
            (Some(FrameCodec::Zstd), _) if frame > abi::ZSTD_LARGEST => Err(format!(
                "the host decodes zstd frames of {frame} bytes: a GPU decodes frames of at most {}",
                abi::ZSTD_LARGEST
            )
            .into()),
            (None | Some(FrameCodec::Zstd), _) | (_, None) => Ok(()),
            (Some(codec), Some(reason)) => {
                Err(format!("{codec} is decoded by nvCOMP on a GPU: {reason}").into())
            }
        }
    }

    /// Whether devices can read files directly into their memory.
    pub async fn has_direct_storage(&self) -> bool {
        let find = || async {
            let storage = Arc::clone(&self.storage);
            // The first call opens libraries and drivers.
            let found = tokio::task::spawn_blocking(move || storage.is_direct()).await;
            found.unwrap_or(false)
        };
        *self.has_direct_storage.get_or_init(find).await
    }

    /// Prepares reading files into device memory, directly or through host memory.
    ///
    /// # Errors
    /// The reason why files cannot be read into device memory.
    pub async fn prepare_storage(&self) -> Result<(), GpuError> {
        let storage = Arc::clone(&self.storage);
        let prepared = tokio::task::spawn_blocking(move || storage.prepare()).await;
        prepared.map_err(|error| format!("opening cuFile failed: {error}"))?
    }

    /// Uses these devices (their numbers; all if empty) and at most `memory` bytes on each (0 for the default), from the next
    /// batch on. The last call applies, for all queries of the process.
    ///
    /// # Errors
    /// A device that does not exist, or too little memory. Nothing changes then.
    pub fn configure(&self, devices: &[usize], memory: u64) -> Result<(), GpuError> {
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
                )
                .into());
            }
            bits |= 1 << (device % 64);
        }
        let bits = if devices.is_empty() { u64::MAX } else { bits };
        if self.budget.is_other(bits, memory) {
            let pools = self.opened.iter().map(|(_, pool)| pool);
            release_kept(&self.budget, pools);
        }
        self.budget.configure(bits, memory)
    }

    /// The devices that `configure` last set, to count pairs; `None` if there are none that run kernels. Unless `is_required`, the host
    /// counts the pairs that they have no room for.
    pub(crate) fn pairs(&self, is_required: bool) -> Option<Arc<dyn PairDevice>> {
        self.for_pairs(is_required).map(|devices| devices as _)
    }

    /// The same, to sum over pairs of sites.
    pub(crate) fn sites(&self, is_required: bool) -> Option<Arc<dyn SiteDevice>> {
        self.for_pairs(is_required).map(|devices| devices as _)
    }

    fn for_pairs(&self, is_required: bool) -> Option<Arc<GpuPairs>> {
        let bits = self.budget.devices();
        let opened = self.opened.iter();
        let used = opened.filter(|(device, _)| bits >> (device.ordinal % 64) & 1 != 0);
        let (devices, pools): (Vec<_>, Vec<_>) = used.cloned().unzip();
        if devices.is_empty() {
            return None;
        }
        let all_pools = self.opened.iter().map(|(_, pool)| Arc::clone(pool));
        let (budget, staging) = (Arc::clone(&self.budget), Arc::clone(&self.staging));
        let pairs = GpuPairs::new(
            budget,
            devices,
            pools,
            all_pools.collect(),
            staging,
            is_required,
        );
        Some(Arc::new(pairs))
    }

    /// Lets this many workers of a device run batches (0: all of them), from the next batch on. The last call applies, for all queries of
    /// the process. With one worker, batches do not overlap.
    pub fn set_workers(&self, workers: usize) {
        self.queue.set_most_running(match workers {
            0 => usize::MAX,
            workers => workers,
        });
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
