//! Failed batches, lost or unresponsive devices, and damaged chunks: every other chunk still gets its outcome.

use std::sync::mpsc;

use super::*;

#[test]
fn the_host_gets_a_failed_batch_and_the_next_one_runs() {
    for workers in [1, 3] {
        let batches = Arc::new(AtomicUsize::new(0));
        let executors = (0..workers).map(|_| {
            let mut software = Software::default();
            software.batches = Arc::clone(&batches);
            software.fails = Some((2, false));
            (0, Box::new(software) as Box<dyn Executor>)
        });
        let engine = engine_of(executors.collect(), 4 * STAGED);
        finish(async {
            let work = plain(ROWS, SAMPLES);
            let active = engine.queue().register_producer();
            let mut tickets = Vec::new();
            for seed in 0..40 {
                let (encoded, _) = chunk(ROWS, SAMPLES, seed);
                let ticket = engine.queue().submit(&work, 0, ROWS, &encoded).await;
                tickets.push((seed, ticket.unwrap()));
            }
            drop(active);
            let mut refused = 0;
            for (seed, ticket) in tickets {
                match ticket.await.unwrap() {
                    Outcome::Host(reason) => {
                        assert_eq!(reason, "on purpose");
                        refused += 1;
                    }
                    done => assert_eq!(counts(done), chunk(ROWS, SAMPLES, seed).1),
                }
            }
            assert!((1..=4).contains(&refused), "{refused} chunks");
            assert_eq!(engine.queue().failure(), None);
            load(&engine, 4, 20).await;
        });
    }
}

/// How a worker goes wrong.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Device,
    Panic,
    TooFewStatuses,
    TooFewBytes,
}

/// Runs some batches, and then goes wrong.
struct Faulty {
    software: Software,
    good: usize,
    fault: Fault,
    zeros: Vec<u8>,
    statuses: Vec<u32>,
    lengths: Vec<usize>,
}

impl Executor for Faulty {
    fn run(&mut self, batch: &Batch, progress: BatchProgress<'_>) -> Result<Results<'_>, Failure> {
        if self.good > 0 {
            self.good -= 1;
            return self.software.run(batch, progress);
        }
        // So that others are waiting for slabs by now.
        thread::sleep(Duration::from_millis(5));
        let (mut bytes, mut statuses) = (batch.output, batch.jobs.len());
        match self.fault {
            Fault::Device => return Err(Failure::Device("it burns".into())),
            Fault::Panic => panic!("on purpose"),
            Fault::TooFewStatuses => statuses -= 1,
            Fault::TooFewBytes => bytes -= 1,
        }
        self.zeros = vec![0; bytes];
        self.statuses = vec![0; statuses];
        self.lengths = vec![0; batch.jobs.len()];
        Ok(Results {
            bytes: &self.zeros,
            statuses: &self.statuses,
            lengths: &self.lengths,
            unread: &[],
            resident: vec![],
            times: Times::default(),
        })
    }

    fn device_bytes(&self) -> usize {
        0
    }

    fn release(&mut self) {}
}

#[test]
fn when_a_device_is_lost_the_host_gets_every_chunk() {
    for (fault, expected) in [
        (Fault::Device, "it burns"),
        (Fault::Panic, "a GPU worker panicked"),
        (Fault::TooFewStatuses, "results"),
        (Fault::TooFewBytes, "bytes of results"),
    ] {
        for good in [0, 3] {
            let faulty = Faulty {
                software: Software::default(),
                good,
                fault,
                zeros: Vec::new(),
                statuses: Vec::new(),
                lengths: Vec::new(),
            };
            let workers: Vec<(usize, Box<dyn Executor>)> =
                vec![(0, Box::new(faulty)), (0, Box::new(Software::default()))];
            let engine = engine_of(workers, 2 * STAGED);
            finish(async {
                let work = plain(ROWS, SAMPLES);
                let refused = Arc::new(AtomicUsize::new(0));
                let tasks: Vec<_> = (0..20u64)
                    .map(|task| {
                        let (engine, work) = (Arc::clone(&engine), Arc::clone(&work));
                        let refused = Arc::clone(&refused);
                        tokio::spawn(async move {
                            let mut seed = task * 1_000_000;
                            loop {
                                seed += 1;
                                match outcome(&engine, &work, seed).await {
                                    Outcome::Host(reason) => {
                                        assert!(reason.contains(expected), "{reason}");
                                        refused.fetch_add(1, Ordering::Relaxed);
                                        return;
                                    }
                                    done => {
                                        assert_eq!(counts(done), chunk(ROWS, SAMPLES, seed).1);
                                    }
                                }
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
                assert_eq!(refused.load(Ordering::Relaxed), 20);
                let failure = engine.queue().failure().unwrap();
                assert!(failure.starts_with("the GPU is lost: "), "{failure}");
                assert_eq!(reason(outcome(&engine, &work, 1).await), failure);
            });
        }
    }
}

#[test]
fn errors_of_a_device_have_messages() {
    let engine = engine(1, 1 << 16);
    let work = plain(ROWS, SAMPLES);
    let mut encoded = chunk(ROWS, SAMPLES, 1).0;
    encoded[5] = 2;
    let found = finish(async {
        let ticket = engine.queue().submit(&work, 0, ROWS, &encoded).await;
        ticket.unwrap().await.unwrap()
    });
    assert_eq!(reason(found), "a genotype code has no allele");
}

/// A device that does not respond is given up: the host gets its chunks and all later ones.
#[test]
fn a_device_that_hangs_is_lost() {
    let asked = Arc::new(AtomicUsize::new(0));
    let hung = |hangs| {
        let mut software = Software::default();
        software.hangs = Some(hangs);
        software.asked = Arc::clone(&asked);
        software
    };
    let limits = BatchLimits {
        decoded: 1 << 20,
        output: 1 << 20,
    };
    let patience = Duration::from_secs(3);
    let engine = of_software(vec![hung(1), hung(0)], limits, None, patience);
    let work = plain(ROWS, SAMPLES);
    let begun = Instant::now();
    finish(async {
        // One worker or the other: both hang by the third, the second of them later.
        let mut tickets = Vec::new();
        for seed in 0..3 {
            let ticket = submit(&engine, &work, seed).await.unwrap();
            tickets.push(ticket);
            tokio::time::sleep(patience / 5).await;
        }
        assert!(!engine.watchdog.has_given_up());
        let mut given_up = 0;
        for (ticket, seed) in tickets.into_iter().zip(0..) {
            match ticket.await.unwrap() {
                Outcome::Host(found) => {
                    assert_eq!(found, "the GPU has not responded for 3s");
                    given_up += 1;
                }
                done => assert_eq!(counts(done), chunk(ROWS, SAMPLES, seed).1),
            }
        }
        assert!(given_up >= 2, "{given_up}");
        let found = outcome(&engine, &work, 9).await;
        assert_eq!(
            reason(found),
            "the GPU is lost: the GPU has not responded for 3s"
        );
    });
    // All at once, not each after its own time.
    let took = begun.elapsed();
    assert!(took >= patience && took < 10 * patience && engine.watchdog.has_given_up());
    // By a thread of its own.
    let begun = Instant::now();
    while asked.load(Ordering::Relaxed) < 2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody asked");
        thread::yield_now();
    }
}

/// A device whose files take so long, and the outcome of a chunk that it reads from one.
fn with_slow_files(slow_files: Duration, patience: Duration) -> (GpuEngine, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chunk");
    std::fs::write(&path, chunk(ROWS, SAMPLES, 1).0).unwrap();
    let mut software = Software::default();
    software.slow_files = slow_files;
    let limits = BatchLimits {
        decoded: 1 << 20,
        output: 1 << 20,
    };
    let engine = of_software(vec![software], limits, None, patience);
    let work = plain(ROWS, SAMPLES);
    let outcome = finish(async {
        let file = LocalFile::find(path).await.unwrap().unwrap();
        let ticket = engine.queue().submit_file(&work, 0, ROWS, file).await;
        ticket.unwrap().await.unwrap()
    });
    (engine, outcome)
}

/// The device has nothing to answer while files are read; but that has an end, too.
#[test]
fn slow_files_are_not_a_hanging_device() {
    let patience = Duration::from_millis(300);
    let (engine, outcome) = with_slow_files(4 * patience, patience);
    assert_eq!(counts(outcome), chunk(ROWS, SAMPLES, 1).1);
    finish(check(&engine, &plain(ROWS, SAMPLES), 2));
    assert!(!engine.watchdog.has_given_up());
    let patience = Duration::from_millis(40);
    let (engine, outcome) = with_slow_files(Duration::MAX, patience);
    assert_eq!(reason(outcome), "the GPU has waited for a file for 400ms");
    assert!(engine.watchdog.has_given_up());
}

/// Gives memory back only when it is told that somebody has heard of the batch that failed.
struct Slow(Software, mpsc::Receiver<()>);

impl Executor for Slow {
    fn run(&mut self, batch: &Batch, progress: BatchProgress<'_>) -> Result<Results<'_>, Failure> {
        self.0.run(batch, progress)
    }

    fn device_bytes(&self) -> usize {
        0
    }

    fn release(&mut self) {
        self.1.recv().unwrap();
    }
}

/// Memory is given back after all that runs on the device, so nobody waits for that.
#[test]
fn a_failed_batch_is_reported_before_memory_is_freed() {
    let mut software = Software::default();
    software.fails = Some((0, false));
    let (heard, hears) = mpsc::channel();
    let engine = engine_of(vec![(0, Box::new(Slow(software, hears)))], 1 << 16);
    let work = plain(ROWS, SAMPLES);
    finish(async {
        assert_eq!(reason(outcome(&engine, &work, 1).await), "on purpose");
        assert!(engine.watchdog.is_busy());
        heard.send(()).unwrap();
        check(&engine, &work, 2).await;
    });
}
