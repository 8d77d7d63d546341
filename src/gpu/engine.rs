//! The process's one engine: devices, their workers and the queue between them and the scans.
//!
//! It starts in the background when a session opens ([`start`]), because a context costs 0.2 to 0.3 s; until it is ready
//! `auto` goes on with the host. Once a device is lost the engine is off for the rest of the process, and every chunk that
//! waits is the host's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Instant;

use arrow::buffer::{Buffer, MutableBuffer};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::abi::{BAD_CHECKSUM, BAD_CODE, BAD_FRAME};
use super::batch::{Batch, Done, GUARD, Job, Outcome};
use super::cuda::{
    CuFileStorage, Device, DeviceMemory, Nvcomp, Pinned, Worker, device_count, nvcomp_is_named,
    temporary,
};
use super::direct::Storage;
use super::executor::{Executor, Failure, Results};
use super::plan::{ChunkPlan, Estimate, FrameCodec};
use super::queue::{Limits, Queue};
use super::slab::Slab;
use super::state::FreeMemory;
use super::temporary::Temporary;
use crate::store::LocalFile;

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
/// More results than this are copied by several threads.
const PARALLEL_COPY: usize = 4 << 20;
/// How many.
const COPY_THREADS: usize = 6;

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
    /// Why nvCOMP is not there, if it is not.
    without_nvcomp: Option<String>,
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
        )?;
        engine.without_nvcomp = missing;
        Ok(Arc::new(engine))
    }

    /// An engine of these workers, each with the number of its device.
    pub(super) fn with_workers(
        slabs: Vec<Slab>,
        devices: Vec<DeviceInfo>,
        workers: Vec<(usize, Box<dyn Executor>)>,
        limits: Limits,
        free: Option<Arc<dyn FreeMemory>>,
        storage: Arc<dyn Storage>,
    ) -> Result<Self, String> {
        let queue = Queue::new(slabs, limits);
        queue.set_limits(limits, free.clone());
        let memory: Arc<Vec<AtomicUsize>> = Arc::new(
            std::iter::repeat_with(AtomicUsize::default)
                .take(workers.len())
                .collect(),
        );
        let temporary = temporary_of(free.as_ref());
        for (at, (device, executor)) in workers.into_iter().enumerate() {
            let (queue, memory) = (Arc::clone(&queue), Arc::clone(&memory));
            thread::Builder::new()
                .name(format!("vcz-gpu-{device}"))
                .spawn(move || {
                    work(&queue, device, executor, temporary, |bytes| {
                        if let Some(held) = memory.get(at) {
                            held.store(bytes, Ordering::Relaxed);
                        }
                    })
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
            without_nvcomp: None,
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
        match (&self.without_nvcomp, estimate.codec) {
            (None, _) | (_, None | Some(FrameCodec::Zstd)) => Ok(()),
            (Some(reason), Some(codec)) => {
                Err(format!("{codec} is decoded by nvCOMP on a GPU: {reason}"))
            }
        }
    }

    /// Whether files can be read straight into the devices' memory.
    pub fn has_direct_storage(&self) -> bool {
        self.storage.is_direct()
    }

    /// Makes the reading of files into the devices' memory ready, also where that goes by way of the host.
    ///
    /// # Errors
    /// The reason why files cannot be read so.
    pub fn prepare_storage(&self) -> Result<(), String> {
        self.storage.prepare()
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
fn limits(memory: u64, temporary: Temporary) -> Limits {
    let fixed = (SLAB_BYTES + OUTPUT_BYTES) as u64;
    let each = (memory / workers_per_device() as u64).saturating_sub(fixed);
    Limits {
        decoded: usize::try_from(temporary.decoded(each).min(MOST_DECODED)).unwrap_or(usize::MAX),
        output: OUTPUT_BYTES,
    }
}

/// Puts page-locked memory, which is slow to get and kept, in the place of what was lent to a wide batch: the next one is
/// copied at full speed.
fn replace_lent(queue: &Queue, executor: &dyn Executor, batch: &mut Batch) {
    for slab in batch.slabs.iter_mut().filter(|slab| slab.is_lent()) {
        if !queue.may_keep_slab() {
            return;
        }
        match executor.page_locked(slab.len()) {
            Some(kept) => *slab = kept,
            None => return,
        }
    }
}

/// The life of a worker: batches until the queue fails.
fn work(
    queue: &Arc<Queue>,
    device: usize,
    mut executor: Box<dyn Executor>,
    temporary: Temporary,
    report: impl Fn(usize),
) {
    while let Some(mut batch) = queue.next(device) {
        // Nobody waits for the chunks of a query that has been cancelled.
        batch.jobs.retain(|job| !job.reply.is_closed());
        let mut plans = Vec::new();
        if !batch.jobs.is_empty() {
            let limits = queue.limits();
            if executor.device_bytes() > budget(limits, temporary) {
                // The limit was lowered.
                executor.release();
            }
            let is_over = batch.decoded > limits.decoded;
            let is_large = batch.wide && is_over;
            let run = || {
                if is_over && !batch.wide {
                    // Its chunks came to more than those before them did, or the limit was lowered.
                    return run_in_parts(&mut *executor, &mut batch, limits.decoded);
                }
                match run(&mut *executor, &mut batch) {
                    Err(Failure::Batch(reason)) if is_large => {
                        log::debug!("batch {}: going on with smaller ones: {reason}", batch.id);
                        executor.release();
                        run_in_parts(&mut *executor, &mut batch, limits.decoded)
                    }
                    result => result,
                }
            };
            let run = catch_unwind(AssertUnwindSafe(run));
            let run = run
                .unwrap_or_else(|_| Err(Failure::Device("a worker of the GPU has failed".into())));
            match run {
                Ok(used) => plans = used,
                Err(Failure::Batch(reason)) => {
                    executor.release();
                    refuse(&mut batch.jobs, &reason);
                }
                Err(Failure::Device(reason)) => {
                    log::warn!("the GPU is lost, going on with the host: {reason}");
                    queue.fail(&format!("the GPU is lost: {reason}"));
                    refuse(&mut batch.jobs, &reason);
                    report(executor.device_bytes());
                    // What the device may still be writing to must stay; the process is none the worse for it.
                    std::mem::forget(executor);
                    std::mem::forget(batch.slabs);
                    return;
                }
            }
            if is_large {
                // Others may want it, and the next such batch looks at what is free.
                executor.release();
            }
            replace_lent(queue, &*executor, &mut batch);
            report(executor.device_bytes());
        }
        queue.recycle(batch, plans.into_iter());
    }
}

/// What decoding takes of the devices' memory.
fn temporary_of(devices: Option<&Arc<dyn FreeMemory>>) -> Temporary {
    devices.map_or_else(Temporary::default, |devices| devices.temporary())
}

/// Device memory that a worker may keep from batch to batch.
fn budget(limits: Limits, temporary: Temporary) -> usize {
    let decoded = temporary.with(limits.decoded as u64);
    usize::try_from(decoded).map_or(usize::MAX, |decoded| {
        decoded.saturating_add(SLAB_BYTES + 2 * OUTPUT_BYTES)
    })
}

/// Runs the chunks of a batch that was too large in batches of at most `most` decoded bytes. Jobs are left only where the
/// device was lost.
fn run_in_parts(
    executor: &mut dyn Executor,
    batch: &mut Batch,
    most: usize,
) -> Result<Vec<ChunkPlan>, Failure> {
    let mut plans = Vec::new();
    let mut jobs = batch.take_jobs().into_iter().peekable();
    while let Some(job) = jobs.next() {
        let output = job.out.len();
        batch.push(job, output);
        let more = jobs.peek();
        if more.is_some_and(|next| batch.decoded + next.plan.decoded_len + GUARD <= most) {
            continue;
        }
        match run(executor, batch) {
            Ok(used) => plans.extend(used),
            Err(Failure::Batch(reason)) => refuse(&mut batch.jobs, &reason),
            Err(lost) => {
                batch.jobs.extend(jobs);
                return Err(lost);
            }
        }
        batch.take_jobs();
    }
    Ok(plans)
}

fn refuse(jobs: &mut Vec<Job>, reason: &str) {
    for job in jobs.drain(..) {
        // Whoever asked may be gone.
        let _ = job.reply.send(Outcome::Host(reason.to_string()));
    }
}

/// Runs a batch and hands out its results. Its jobs are gone afterwards, unless it failed; their plans are returned.
fn run(executor: &mut dyn Executor, batch: &mut Batch) -> Result<Vec<ChunkPlan>, Failure> {
    let started = Instant::now();
    let results = executor.run(batch)?;
    log::debug!(
        "batch {}: {} chunks, {} bytes staged, {} read from files, {} decoded, {} of results, {:.1?} after its last chunk came: {:.1?}, of which \
         {:.1?} copying, {:.1?} decoding, {:.1?} counting",
        batch.id,
        batch.jobs.len(),
        batch.used,
        batch.read,
        batch.decoded,
        batch.output,
        started.duration_since(batch.last),
        started.elapsed(),
        results.times.copy,
        results.times.decode,
        results.times.count,
    );
    if results.statuses.len() != batch.jobs.len() || results.bytes.len() < batch.output {
        return Err(Failure::Device(format!(
            "{} results and {} bytes came back of {} chunks and {} bytes",
            results.statuses.len(),
            results.bytes.len(),
            batch.jobs.len(),
            batch.output
        )));
    }
    let whole = batch.decoded + batch.read;
    let mut verdicts: Vec<_> = results.statuses.iter().map(|status| Ok(*status)).collect();
    for (at, reason) in results.unread {
        if let Some(verdict) = verdicts.get_mut(*at) {
            *verdict = Err(reason.clone());
        }
    }
    let jobs: Vec<_> = batch.jobs.drain(..).zip(verdicts).collect();
    if batch.output < PARALLEL_COPY {
        return Ok(hand_out(jobs, &results, whole));
    }
    let each = jobs.len().div_ceil(COPY_THREADS).max(1);
    let mut jobs = jobs.into_iter();
    let plans = thread::scope(|scope| {
        let mut parts = Vec::new();
        loop {
            let part: Vec<_> = jobs.by_ref().take(each).collect();
            if part.is_empty() {
                break;
            }
            let results = &results;
            parts.push(scope.spawn(move || hand_out(part, results, whole)));
        }
        // A thread that panicked has lost its plans, and those who wait hear that their chunks were dropped.
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_default())
            .collect()
    });
    Ok(plans)
}

/// Gives every job its outcome, and their plans back.
fn hand_out(
    jobs: Vec<(Job, Result<u32, String>)>,
    results: &Results<'_>,
    whole: usize,
) -> Vec<ChunkPlan> {
    let mut plans = Vec::with_capacity(jobs.len());
    for (job, status) in jobs {
        let outcome = match (status, results.bytes.get(job.out.clone())) {
            (Err(reason), _) => Outcome::Host(reason),
            (Ok(0), Some(bytes)) => {
                let mut copy = MutableBuffer::with_capacity(bytes.len());
                copy.extend_from_slice(bytes);
                Outcome::Done(Done {
                    bytes: Buffer::from(copy),
                    read: job.file.as_ref().map_or(0, LocalFile::len),
                    times: results.times.share(part(&job), whole),
                })
            }
            (_, None) => Outcome::Host("its results did not come back".to_string()),
            (Ok(status), _) => Outcome::Host(describe(status)),
        };
        // Whoever asked may be gone.
        let _ = job.reply.send(outcome);
        plans.push(job.plan);
    }
    plans
}

/// What a job has of its batch's time, in bytes.
fn part(job: &Job) -> usize {
    job.plan.decoded_len + job.file.as_ref().map_or(0, LocalFile::len)
}

/// A status in words.
fn describe(status: u32) -> String {
    let mut found = Vec::new();
    for (bit, words) in [
        (BAD_FRAME, "a frame did not decode to what was expected"),
        (BAD_CHECKSUM, "a checksum does not hold"),
        (BAD_CODE, "a genotype code has no allele"),
    ] {
        if status & bit != 0 {
            found.push(words);
        }
    }
    if found.is_empty() {
        format!("the device reports {status}")
    } else {
        found.join(", ")
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
