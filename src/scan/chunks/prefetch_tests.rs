//! Tests of the window over a fake reader.

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::FutureExt;
use parking_lot::Mutex;

use super::*;
use crate::scan::chunks::chunk::Chunk;

/// Returns chunks that hold their own index.
#[derive(Default)]
struct Fake {
    group: usize,
    /// The maximum number of variant chunks that a read returns; 0 for all.
    most: usize,
    /// A chunk that cannot be read.
    broken: Option<u64>,
    /// Whether results have to be waited for after the read.
    waits: bool,
    /// Whether reads never end.
    hangs: bool,
    started: Mutex<Vec<Vec<u64>>>,
    running: Arc<AtomicUsize>,
}

/// Counts a read for as long as it runs.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn parts(chunk: u64) -> Vec<Part> {
    let chunk = Chunk::Encoded(chunk.to_le_bytes().to_vec().into());
    vec![Part {
        trailing: vec![],
        chunk,
    }]
}

impl ChunkReader for Fake {
    fn group(&self) -> usize {
        self.group
    }

    fn read(self: Arc<Self>, chunks: Vec<u64>) -> BoxFuture<'static, Result<Arrivals, VczError>> {
        self.started.lock().push(chunks.clone());
        self.running.fetch_add(1, Ordering::Relaxed);
        let running = Running(Arc::clone(&self.running));
        async move {
            let _running = running;
            if self.hangs {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            let most = if self.most == 0 {
                chunks.len()
            } else {
                self.most
            };
            let arrive = |chunk: u64| {
                if self.broken == Some(chunk) {
                    return Err(VczError::Chunk {
                        store: "fake".to_string(),
                        array: "a".to_string(),
                        chunk: chunk.to_string(),
                        reason: "it is broken".to_string(),
                    });
                }
                Ok((
                    chunk,
                    match self.waits {
                        true => Arriving::Waiting(async move { Ok(parts(chunk)) }.boxed()),
                        false => Arriving::Ready(parts(chunk)),
                    },
                ))
            };
            chunks.into_iter().take(most).map(arrive).collect()
        }
        .boxed()
    }
}

fn metrics() -> ScanMetrics {
    ScanMetrics::new(&ExecutionPlanMetricsSet::new(), 0)
}

/// A window of `reads` reads over the chunks 0 to 19.
fn window(fake: Fake, reads: usize) -> (Arc<Fake>, Prefetch) {
    let window = Window {
        reads,
        chunks: usize::MAX,
        most_chunks: usize::MAX,
    };
    over(fake, window)
}

fn over(fake: Fake, window: Window) -> (Arc<Fake>, Prefetch) {
    let fake = Arc::new(fake);
    let upcoming = chunks_of(std::slice::from_ref(&(0..20)), 1);
    let prefetch = Prefetch::new(Arc::clone(&fake) as _, upcoming, window, metrics());
    (fake, prefetch)
}

fn of_one() -> Fake {
    Fake {
        group: 1,
        ..Fake::default()
    }
}

#[test]
fn chunks_of_ranges_come_once() {
    let all: Vec<u64> = chunks_of(&[0..1, 5..6, 9..11, 11..11, 35..40], 10).collect();
    assert_eq!(all, [0, 1, 3]);
}

#[tokio::test]
async fn reads_are_ahead_of_the_chunk_that_is_asked_for() {
    let (fake, mut prefetch) = window(of_one(), 2);
    assert!(fake.started.lock().is_empty());
    prefetch.start();
    assert_eq!(*fake.started.lock(), [[0], [1]]);
    for chunk in 0..20 {
        assert_eq!(prefetch.fetch(chunk).await.unwrap(), parts(chunk));
        let expected = (chunk as usize + 3).min(20);
        assert_eq!(fake.started.lock().len(), expected);
    }
    assert_eq!(prefetch.metrics.chunks_read.value(), 20);
    assert_eq!(prefetch.metrics.bytes_fetched.value(), 160);
}

#[tokio::test]
async fn nothing_is_read_ahead_without_a_window() {
    let (fake, mut prefetch) = window(of_one(), 0);
    prefetch.start();
    assert!(fake.started.lock().is_empty());
    for chunk in [0, 1, 7] {
        assert_eq!(prefetch.fetch(chunk).await.unwrap(), parts(chunk));
    }
    assert_eq!(*fake.started.lock(), [[0], [1], [7]]);
}

#[tokio::test]
async fn what_is_passed_over_is_forgotten() {
    let (fake, mut prefetch) = window(of_one(), 3);
    assert_eq!(prefetch.fetch(0).await.unwrap(), parts(0));
    assert_eq!(prefetch.fetch(10).await.unwrap(), parts(10));
    assert_eq!(prefetch.fetch(11).await.unwrap(), parts(11));
    let started = fake.started.lock().clone();
    let expected = [[0], [1], [2], [3], [10], [11], [12], [13], [14]];
    assert_eq!(started, expected);
    tokio::task::yield_now().await;
    assert!(
        fake.running.load(Ordering::Relaxed) <= 3,
        "1 to 3 were aborted"
    );
}

#[tokio::test]
async fn a_read_that_ends_early_is_continued() {
    let fake = Fake {
        group: 6,
        most: 2,
        ..Fake::default()
    };
    let (fake, mut prefetch) = window(fake, 1);
    prefetch.start();
    for chunk in 0..8 {
        assert_eq!(prefetch.fetch(chunk).await.unwrap(), parts(chunk));
    }
    let started = fake.started.lock().clone();
    assert_eq!(started[0], [0, 1, 2, 3, 4, 5]);
    assert!(started.contains(&vec![2, 3, 4, 5]) && started.contains(&vec![4, 5]));
    assert!(started.iter().all(|read| read.len() > 1), "{started:?}");
}

#[tokio::test]
async fn a_window_of_few_chunks_grows() {
    let begin = Window {
        reads: usize::MAX,
        chunks: 1,
        most_chunks: 4,
    };
    let fake = Fake {
        group: 2,
        waits: true,
        ..Fake::default()
    };
    let (fake, mut prefetch) = over(fake, begin);
    prefetch.start();
    assert_eq!(*fake.started.lock(), [[0]]);
    assert_eq!(prefetch.fetch(0).await.unwrap(), parts(0));
    assert_eq!(*fake.started.lock(), [vec![0], vec![1]]);
    assert_eq!(prefetch.fetch(1).await.unwrap(), parts(1));
    assert_eq!(*fake.started.lock(), [vec![0], vec![1], vec![2, 3]]);
    assert_eq!(prefetch.fetch(2).await.unwrap(), parts(2));
    let in_flight: usize = prefetch.reads.iter().map(|read| read.chunks.len()).sum();
    assert_eq!((in_flight, prefetch.window.chunks), (4, 4));
    // Chunks for a GPU are counted when they are submitted.
    assert_eq!(prefetch.metrics.chunks_read.value(), 0);
}

/// A read of one chunk with this many bytes.
fn arrived(bytes: usize) -> Arrivals {
    let part = Part {
        trailing: vec![],
        chunk: Chunk::Encoded(vec![0; bytes].into()),
    };
    Arrivals::from([(0, Arriving::Ready(vec![part]))])
}

fn growth(most: usize, memory: usize) -> (Growth, Arc<dyn MemoryPool>) {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(memory));
    let growth = Growth {
        most,
        growth_threshold: REMOTE_PATIENCE,
        memory: ScanMemory::new(&pool, 0, metrics()),
        taken: vec![],
        reads: 0,
        bytes: 0,
    };
    (growth, pool)
}

#[test]
fn reads_are_doubled_while_they_are_waited_for() {
    let slow = REMOTE_PATIENCE;
    let (mut few, _) = growth(20, 1_000_000);
    assert_eq!(few.after(&arrived(8), Duration::ZERO, 4), 4);
    assert_eq!(few.after(&arrived(8), slow, 4), 8);
    assert_eq!(few.after(&arrived(8), slow, 8), 16);
    assert_eq!(few.after(&arrived(8), slow, 16), 20, "the most");
    assert_eq!(few.after(&arrived(8), slow, 20), 20);
    let (mut off, _) = growth(0, 1_000_000);
    assert_eq!(off.after(&arrived(8), slow, 0), 0, "reading ahead is off");

    let (mut little_memory, pool) = growth(64, PART_OF_MEMORY * 200);
    assert_eq!(little_memory.after(&arrived(8), slow, 4), 8);
    assert_eq!(little_memory.after(&arrived(8), slow, 8), 16);
    assert_eq!(pool.reserved(), 96);
    assert_eq!(
        little_memory.after(&arrived(8), slow, 16),
        16,
        "a part of it"
    );
    let rest = PART_OF_MEMORY * 200 - pool.reserved();
    let others = little_memory.memory.take(rest).unwrap();
    assert_eq!(
        little_memory.after(&arrived(8), slow, 4),
        4,
        "it is used up"
    );
    drop((little_memory, others));
    assert_eq!(pool.reserved(), 0);

    let (mut large, _) = growth(64, usize::MAX);
    let quarter = MOST_BYTES_IN_FLIGHT / 4;
    assert_eq!(large.after(&arrived(quarter), slow, 2), 4);
    assert_eq!(large.after(&arrived(quarter), slow, 4), 4, "enough bytes");
}

#[test]
fn a_window_begins_with_few_reads() {
    let ahead = |prefetch| Ahead {
        prefetch,
        few: None,
    };
    let reads =
        |prefetch| [true, false].map(|is_local| ahead(prefetch).first_reads(is_local, 1000));
    assert_eq!(reads(0), [0, 0]);
    assert_eq!(reads(2), [2, 2]);
    assert_eq!(reads(64), [LOCAL_READS, REMOTE_READS]);
    let large = ahead(64).first_reads(false, MOST_BYTES_IN_FLIGHT / 8);
    assert_eq!(large, 8);
    assert_eq!(ahead(64).first_reads(false, usize::MAX), LOCAL_READS);
}

#[tokio::test]
async fn an_error_is_of_the_chunk_that_is_asked_for() {
    let fake = Fake {
        broken: Some(2),
        ..of_one()
    };
    let (_, mut prefetch) = window(fake, 4);
    assert_eq!(prefetch.fetch(0).await.unwrap(), parts(0));
    assert_eq!(prefetch.fetch(1).await.unwrap(), parts(1));
    let error = prefetch.fetch(2).await.unwrap_err().to_string();
    assert!(error.contains("it is broken"), "{error}");
}

#[tokio::test]
async fn reads_end_with_the_window() {
    let fake = Fake {
        hangs: true,
        ..of_one()
    };
    let (fake, mut prefetch) = window(fake, 3);
    let guard = Running(Arc::clone(&fake.running));
    fake.running.fetch_add(1, Ordering::Relaxed);
    prefetch = prefetch.holding(guard, None);
    prefetch.start();
    assert_eq!(
        fake.running.load(Ordering::Relaxed),
        3,
        "the guard is gone once reads are under way"
    );
    drop(prefetch);
    while fake.running.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await;
    }
}
