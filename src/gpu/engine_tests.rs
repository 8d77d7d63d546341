//! Engines of software workers: every chunk gets one outcome, whatever happens to others. All waiting has a time limit, so a
//! hang is a failure.

use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::super::batch::{Batch, Outcome, Ticket, Times};
use super::super::decode_scratch::DecodeScratch;
use super::super::executor::{Failure, Results};
use super::super::software::{Files, Software, engine, engine_of, slab};
use super::super::testing::{chunk, counts, elements, find, plain, reason, zstd};
use super::super::watchdog::BatchProgress;
use super::super::work::Work;
use super::*;
use crate::gpu::error::GpuError;
use crate::store::LocalFile;

#[path = "engine_loss_tests.rs"]
mod loss;
#[path = "engine_memory_tests.rs"]
mod memory;

const ROWS: usize = 4;
const SAMPLES: usize = 8;
/// What a chunk takes of a slab.
const STAGED: usize = ROWS * SAMPLES * 2 + 16;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap()
}

/// Runs to the end, or fails.
fn finish<T>(future: impl Future<Output = T>) -> T {
    let limited = async { tokio::time::timeout(Duration::from_secs(60), future).await };
    let runtime = runtime();
    let result = runtime.block_on(limited);
    runtime.shutdown_background();
    result.expect("hangs")
}

/// A device of these workers, with three slabs of a megabyte.
fn of_software(
    workers: Vec<Software>,
    limits: BatchLimits,
    free: Option<Arc<dyn FreeMemory>>,
    patience: Duration,
) -> GpuEngine {
    let info = DeviceInfo {
        ordinal: 0,
        name: "software".into(),
        memory: 1 << 40,
    };
    let slabs = (0..3).map(|_| slab(1 << 20)).collect();
    let workers = workers
        .into_iter()
        .map(|software| (0, Box::new(software) as Box<dyn Executor>));
    let workers = workers.collect();
    let files = Arc::new(Files);
    GpuEngine::with_workers(slabs, vec![info], workers, limits, free, files, patience).unwrap()
}

/// Submits one chunk as a scan does: announced until it is staged.
async fn submit(engine: &GpuEngine, work: &Arc<Work>, seed: u64) -> Result<Ticket, GpuError> {
    let active = engine.queue().register_producer();
    let (encoded, _) = chunk(ROWS, SAMPLES, seed);
    let ticket = engine.queue().submit(work, 0, ROWS, &encoded).await;
    drop(active);
    ticket
}

/// The outcome of one chunk; what is refused at once is the host's too.
async fn outcome(engine: &GpuEngine, work: &Arc<Work>, seed: u64) -> Outcome {
    match submit(engine, work, seed).await {
        Ok(ticket) => ticket.await.expect("the chunk was dropped"),
        Err(reason) => Outcome::Host(reason),
    }
}

async fn check(engine: &GpuEngine, work: &Arc<Work>, seed: u64) {
    let found = counts(outcome(engine, work, seed).await);
    assert_eq!(found, chunk(ROWS, SAMPLES, seed).1, "chunk {seed}");
}

/// `tasks` tasks that each have `chunks` chunks counted, several at a time.
async fn load(engine: &Arc<GpuEngine>, tasks: u64, chunks: u64) {
    let work = plain(ROWS, SAMPLES);
    let spawn = |task: u64| -> JoinHandle<()> {
        let (engine, work) = (Arc::clone(engine), Arc::clone(&work));
        tokio::spawn(async move {
            for first in (0..chunks).step_by(5) {
                let seeds = first..chunks.min(first + 5);
                let all = seeds.map(|at| check(&engine, &work, task * chunks + at));
                futures::future::join_all(all).await;
            }
        })
    };
    let tasks: Vec<_> = (0..tasks).map(spawn).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn every_chunk_is_counted_once() {
    for (workers, slab_len) in [
        (1, STAGED),
        (1, 5 * STAGED),
        (2, 3 * STAGED + 1),
        (5, 1 << 20),
    ] {
        finish(load(&engine(workers, slab_len), 24, 60));
    }
}

#[test]
fn large_results_are_copied_by_several_threads() {
    let (rows, samples) = (700, 1000);
    let engine = engine(2, 16 << 20);
    finish(async {
        let work = elements(rows, samples);
        let active = engine.queue().register_producer();
        let mut tickets = Vec::new();
        for seed in 0..7 {
            let (encoded, _) = chunk(rows, samples, seed);
            let ticket = engine.queue().submit(&work, 0, rows, &encoded).await;
            tickets.push((ticket.unwrap(), encoded));
        }
        drop(active);
        for (ticket, encoded) in tickets {
            let Outcome::Done(done) = ticket.await.unwrap() else {
                panic!("left to the host");
            };
            assert!(done.bytes.as_slice() == encoded);
        }
    });
}

/// Results that nobody fetches hold up nobody, and neither does somebody who has announced chunks and brings none.
#[test]
fn tickets_that_are_not_polled_block_nothing() {
    let engine = engine(1, 4 * STAGED);
    finish(async {
        let work = plain(ROWS, SAMPLES);
        let _announced = engine.queue().register_producer();
        let mut lazy = Vec::new();
        for seed in 0..50 {
            lazy.push((seed, submit(&engine, &work, seed).await.unwrap()));
        }
        load(&engine, 8, 40).await;
        for (seed, ticket) in lazy {
            assert_eq!(counts(ticket.await.unwrap()), chunk(ROWS, SAMPLES, seed).1);
        }
    });
}

#[test]
fn dropped_tickets_and_futures_do_no_harm() {
    let engine = engine(2, 3 * STAGED);
    finish(async {
        let work = plain(ROWS, SAMPLES);
        let busy = {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move { load(&engine, 8, 100).await })
        };
        for round in 0..40u64 {
            let tasks: Vec<_> = (0..10)
                .map(|seed| {
                    let (engine, work) = (Arc::clone(&engine), Arc::clone(&work));
                    tokio::spawn(async move { outcome(&engine, &work, seed).await })
                })
                .collect();
            for seed in 0..3 {
                drop(submit(&engine, &work, seed).await.unwrap());
            }
            tokio::time::sleep(Duration::from_micros(round * 20)).await;
            // Wherever they are: waiting for a slab, or for their counts.
            for task in &tasks {
                task.abort();
            }
        }
        busy.await.unwrap();
        load(&engine, 4, 20).await;
    });
}

/// A device does nothing for chunks that nobody waits for.
#[test]
fn batches_without_receivers_are_not_run() {
    let software = Software::default();
    let batches = Arc::clone(&software.batches);
    let engine = engine_of(vec![(0, Box::new(software))], 1 << 16);
    finish(async {
        let work = plain(ROWS, SAMPLES);
        let active = engine.queue().register_producer();
        let (encoded, _) = chunk(ROWS, SAMPLES, 1);
        for _ in 0..10 {
            // Dropped before a millisecond is over, mostly.
            drop(
                engine
                    .queue()
                    .submit(&work, 0, ROWS, &encoded)
                    .await
                    .unwrap(),
            );
        }
        drop(active);
        let before = batches.load(Ordering::Relaxed);
        assert!(before <= 10);
        check(&engine, &work, 3).await;
        assert!(batches.load(Ordering::Relaxed) <= before + 2);
    });
}

/// Two devices of one worker each.
fn two_devices(batches: [&Arc<AtomicUsize>; 2]) -> Arc<GpuEngine> {
    let infos = [3, 5].map(|ordinal| DeviceInfo {
        ordinal,
        name: format!("software {ordinal}"),
        memory: 4 << 30,
    });
    let worker = |ordinal: usize, batches: &Arc<AtomicUsize>| {
        let mut software = Software::default();
        software.batches = Arc::clone(batches);
        (ordinal, Box::new(software) as Box<dyn Executor>)
    };
    let workers = vec![worker(3, batches[0]), worker(5, batches[1])];
    let slabs = (0..3).map(|_| slab(4 * STAGED)).collect();
    let engine = GpuEngine::with_workers(
        slabs,
        infos.to_vec(),
        workers,
        limits(1 << 30, DecodeScratch::default()),
        None,
        Arc::new(Files),
        DEVICE_TIMEOUT,
    )
    .unwrap();
    Arc::new(engine)
}

#[test]
fn codecs_that_need_nvcomp_say_so_without_it() {
    let batches = [Arc::default(), Arc::default()];
    let mut engine = two_devices([&batches[0], &batches[1]]);
    let estimate = |codec| Estimate {
        decoded_bytes: 1 << 20,
        frames: 8,
        codec,
    };
    let all = [
        None,
        Some(FrameCodec::Zstd),
        Some(FrameCodec::Lz4),
        Some(FrameCodec::Deflate),
    ];
    assert!(
        all.iter()
            .all(|codec| engine.decodes(&estimate(*codec)).is_ok())
    );
    Arc::get_mut(&mut engine).unwrap().without_nvcomp = Some("no libnvcomp".into());
    for codec in all {
        match codec {
            None | Some(FrameCodec::Zstd) => engine.decodes(&estimate(codec)).unwrap(),
            Some(codec) => {
                let reason = engine.decodes(&estimate(Some(codec))).unwrap_err();
                assert!(
                    reason.contains(&codec.to_string()) && reason.contains("no libnvcomp"),
                    "{reason}"
                );
            }
        }
    }
    // A larger frame could block the device.
    let large = Estimate {
        decoded_bytes: 8 * (abi::ZSTD_LARGEST + 1),
        ..estimate(Some(FrameCodec::Zstd))
    };
    let reason = engine.decodes(&large).unwrap_err();
    assert!(
        reason.contains("the host decodes zstd frames of 67108865 bytes"),
        "{reason}"
    );
}

#[test]
fn devices_are_chosen_by_their_numbers() {
    let batches = [Arc::default(), Arc::default()];
    let engine = two_devices([&batches[0], &batches[1]]);
    let run = || batches.each_ref().map(|n| n.load(Ordering::Relaxed));
    for unknown in [0, 4, 67] {
        let refused = engine.configure(&[3, unknown], 0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("vcz.gpu_devices: there is no GPU {unknown}; the devices are 3, 5")
        );
    }
    finish(load(&engine, 4, 20));
    engine.configure(&[5, 5], 0).unwrap();
    let before = run();
    finish(load(&engine, 4, 20));
    let after = run();
    assert_eq!(after[0], before[0]);
    assert!(after[1] > before[1]);
    // Back and forth while chunks are on their way.
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let devices: &[usize] = [&[3][..], &[5], &[], &[3, 5]][round % 4];
                engine.configure(devices, 0).unwrap();
                thread::sleep(Duration::from_micros(200));
            }
        });
        finish(load(&engine, 16, 100));
        done.store(true, Ordering::Relaxed);
    });
    engine.configure(&[3], 0).unwrap();
    let before = run();
    finish(load(&engine, 4, 20));
    assert_eq!(run()[1], before[1]);
    assert!(run()[0] > before[0]);
}

/// Everything at once.
#[test]
fn stress() {
    let batches = [Arc::default(), Arc::default()];
    let engine = two_devices([&batches[0], &batches[1]]);
    finish(async {
        let work = plain(ROWS, SAMPLES);
        let tasks: Vec<_> = (0..60u64)
            .map(|task| {
                let (engine, work) = (Arc::clone(&engine), Arc::clone(&work));
                tokio::spawn(async move {
                    for at in 0..40 {
                        let seed = task * 40 + at;
                        match (task + at) % 6 {
                            0 => drop(submit(&engine, &work, seed).await.unwrap()),
                            1 => {
                                let patience = Duration::from_micros(50 * (at % 9));
                                let one = check(&engine, &work, seed);
                                // Too late is no failure.
                                let _ = tokio::time::timeout(patience, one).await;
                            }
                            2 => {
                                let truncated = [0; 3];
                                let queue = engine.queue();
                                let refused = queue.submit(&work, 0, ROWS, &truncated).await;
                                assert!(refused.is_err());
                            }
                            3 if task == 3 => {
                                let memory = [1 << 30, 2 << 30, 0][at as usize % 3];
                                engine.configure(&[3, 5], memory).unwrap();
                            }
                            _ => check(&engine, &work, seed).await,
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Chunks that are not staged; what is wrong with a file is the reason why its chunk is the host's, and nobody else's.
#[test]
fn chunks_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(2, 1 << 16);
    let work = plain(ROWS, SAMPLES);
    let write = |seed: u64, name: &str| {
        let (encoded, _) = chunk(ROWS, SAMPLES, seed);
        let path = folder.path().join(format!("{name}{seed}"));
        std::fs::write(&path, encoded).unwrap();
        find(path).unwrap()
    };
    assert_eq!(find(folder.path().join("nothing")), None);
    let read = async |file: LocalFile| {
        let active = engine.queue().register_producer();
        let ticket = engine.queue().submit_file(&work, 0, ROWS, file).await;
        drop(active);
        ticket.unwrap().await.unwrap()
    };
    finish(async {
        let files = (0..40).map(|seed| write(seed, "good"));
        let good = files.map(|file| {
            let len = file.len();
            let outcome = read(file);
            async move {
                let outcome = outcome.await;
                assert!(matches!(&outcome, Outcome::Done(done) if done.read == len));
                counts(outcome)
            }
        });
        let staged = (0..40).map(|seed| check(&engine, &work, seed));
        let gone = write(1, "gone");
        std::fs::remove_file(gone.path()).unwrap();
        let longer = write(1, "longer");
        std::fs::write(longer.path(), [0; 100]).unwrap();
        let (good, _, gone, longer) = futures::join!(
            futures::future::join_all(good),
            futures::future::join_all(staged),
            read(gone),
            read(longer),
        );
        for (seed, good) in good.into_iter().enumerate() {
            assert_eq!(good, chunk(ROWS, SAMPLES, seed as u64).1);
        }
        let gone = reason(gone);
        assert!(gone.contains("gone1' is gone"), "{gone}");
        let longer = reason(longer);
        assert!(
            longer.contains("longer1' has 100 bytes, expected 64"),
            "{longer}"
        );
        // Known before it is read.
        let path = folder.path().join("short");
        std::fs::write(&path, [0; 63]).unwrap();
        let short = find(path).unwrap();
        let refused = engine.queue().submit_file(&work, 0, ROWS, short).await;
        assert_eq!(refused.unwrap_err(), "63 bytes, expected 64");
    });
}
