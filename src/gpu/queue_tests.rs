//! The queue without workers: the tests take its batches. Waiting has a time limit, so a hang is a failure.

use std::ops::{Deref, DerefMut};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::executor::block_on;
use tokio::sync::oneshot::error::TryRecvError;

use super::super::batch::GUARD;
use super::super::queue_state::IDLE;
use super::super::slab::Memory;
use super::super::software::slab;
use super::super::testing::{chunk, plain, reason};
use super::*;
use crate::gpu::error::GpuError;
use crate::store::OpenChunk;

#[path = "queue_failure_tests.rs"]
mod failure;
#[path = "queue_large_frame_tests.rs"]
mod large_frames;
#[path = "queue_waiting_tests.rs"]
mod waiting;

const ROWS: usize = 4;
const SAMPLES: usize = 8;
/// Bytes of a chunk, encoded and decoded, and of its counts.
const CHUNK: usize = ROWS * SAMPLES * 2;
const OUTPUT: usize = ROWS * 2 * 4;
/// What a chunk takes of a slab.
const STAGED: usize = CHUNK + GUARD;
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

const ROOMY: BatchLimits = BatchLimits {
    decoded: 1 << 20,
    output: 1 << 20,
};

fn queue(slabs: usize, slab_len: usize, limits: BatchLimits) -> Arc<Queue> {
    Queue::new((0..slabs).map(|_| slab(slab_len)).collect(), limits)
}

fn need(len: usize, decoded: usize, output: usize) -> Need {
    Need {
        len,
        decoded,
        expected: decoded,
        output,
        large_frames: None,
    }
}

/// A place for one chunk.
struct One(Reservations);

impl Deref for One {
    type Target = Reservation;

    fn deref(&self) -> &Reservation {
        &self.0.places[0]
    }
}

impl DerefMut for One {
    fn deref_mut(&mut self) -> &mut Reservation {
        &mut self.0.places[0]
    }
}

fn reserve(queue: &Arc<Queue>, need: Need) -> Result<Option<One>, GpuError> {
    let need = std::iter::once(need);
    let (mut places, is_to_measure) = queue.reserve(need.clone(), None)?;
    if is_to_measure {
        (places, _) = queue.reserve(need, Some(queue.large_frame_room()))?;
    }
    Ok((!places.places.is_empty()).then_some(One(places)))
}

fn submit(queue: &Arc<Queue>, work: &Arc<Work>) -> Result<Ticket, GpuError> {
    let (encoded, _) = chunk(ROWS, SAMPLES, 1);
    let submitted = queue.submit(work, 0, ROWS, &encoded).now_or_never();
    submitted.expect("there is no staging memory")
}

/// A chunk that no plan can be made of.
fn submit_bad(queue: &Arc<Queue>, work: &Arc<Work>) -> GpuError {
    let encoded = vec![0; CHUNK - 1];
    let submitted = queue.submit(work, 0, ROWS, &encoded).now_or_never();
    submitted
        .expect("there is no staging memory")
        .expect_err("a plan of a truncated chunk")
}

/// The next batch, from a thread of its own.
fn next(queue: &Arc<Queue>, device: usize) -> Option<Batch> {
    let (sender, receiver) = mpsc::channel();
    let queue = Arc::clone(queue);
    thread::spawn(move || drop(sender.send(queue.next(device))));
    receiver.recv_timeout(LONG).expect("no batch came")
}

/// How many batches are ready, without waiting for any.
fn ready(queue: &Queue) -> usize {
    queue.state.lock().ready.len()
}

fn recycle(queue: &Queue, mut batch: Batch) {
    let plans: Vec<_> = batch.take_jobs().into_iter().map(|job| job.plan).collect();
    queue.recycle(batch, plans.into_iter());
}

#[test]
fn a_batch_is_closed_when_the_last_producer_leaves() {
    let queue = queue(2, 1 << 16, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let (first, second) = (queue.register_producer(), queue.register_producer());
    let _tickets = [submit(&queue, &work), submit(&queue, &work)];
    drop(first);
    assert_eq!(ready(&queue), 0);
    drop(second);
    assert_eq!(ready(&queue), 1);
    assert_eq!(next(&queue, 0).unwrap().jobs.len(), 2);
}

#[test]
fn a_batch_is_closed_after_a_while_despite_producers() {
    let queue = queue(2, 1 << 16, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let _active = queue.register_producer();
    let begun = Instant::now();
    let _ticket = submit(&queue, &work);
    assert_eq!(ready(&queue), 0);
    assert_eq!(next(&queue, 0).unwrap().jobs.len(), 1);
    assert!(begun.elapsed() >= IDLE, "{:?}", begun.elapsed());
}

#[test]
fn a_batch_is_closed_when_its_slab_is_full() {
    let queue = queue(2, 3 * STAGED, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let _active = queue.register_producer();
    let _tickets: Vec<_> = (0..4).map(|_| submit(&queue, &work)).collect();
    assert_eq!(ready(&queue), 1);
    let batch = next(&queue, 0).unwrap();
    assert_eq!((batch.jobs.len(), batch.used), (3, 3 * STAGED));
    let sources: Vec<_> = batch.jobs.iter().map(|job| job.src.clone()).collect();
    assert_eq!(sources[1], STAGED..STAGED + CHUNK);
    // Nothing overlaps, on the device either.
    for pair in batch.jobs.windows(2) {
        assert!(pair[0].src.end + GUARD <= pair[1].src.start);
        assert!(pair[0].dst + pair[0].plan.decoded_len + GUARD <= pair[1].dst);
        assert!(pair[0].out.end <= pair[1].out.start);
    }
}

/// Slabs of any length, also where the last chunk only just fits or only just does not.
#[test]
fn nothing_is_staged_beyond_a_slab() {
    let work = plain(ROWS, SAMPLES);
    for len in STAGED..3 * STAGED {
        let queue = queue(3, len, ROOMY);
        let _active = queue.register_producer();
        let _tickets: Vec<_> = (0..3).map(|_| submit(&queue, &work).unwrap()).collect();
        for _ in 0..3_usize.div_ceil(len / STAGED) {
            let batch = next(&queue, 0).unwrap();
            assert_eq!(batch.jobs.len().min(len / STAGED), batch.jobs.len());
            assert!(batch.used <= len);
        }
    }
}

#[test]
fn a_batch_is_closed_when_device_memory_is_full() {
    // Uncompressed chunks decode to nothing, but that much is promised until they are planned.
    let limits = BatchLimits {
        decoded: 3 * CHUNK,
        output: 1 << 20,
    };
    let queue = queue(2, 1 << 16, limits);
    let places: Vec<_> = (0..4)
        .map(|_| {
            reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
                .unwrap()
                .unwrap()
        })
        .collect();
    let batches: Vec<u64> = places.iter().map(|place| place.batch).collect();
    assert_eq!(batches, [0, 0, 0, 1]);
}

/// Results of chunks that are still being staged count too.
#[test]
fn a_batch_is_closed_when_its_results_are_full() {
    let limits = BatchLimits {
        decoded: 1 << 20,
        output: 2 * OUTPUT,
    };
    let queue = queue(3, 1 << 16, limits);
    let places: Vec<_> = (0..5)
        .map(|_| {
            reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
                .unwrap()
                .unwrap()
        })
        .collect();
    let batches: Vec<u64> = places.iter().map(|place| place.batch).collect();
    assert_eq!(batches, [0, 0, 1, 1, 2]);
}

#[test]
fn chunks_that_fit_in_no_batch_are_rejected() {
    let work = plain(ROWS, SAMPLES);
    let of = |slab_len: usize, decoded: usize, output: usize| {
        let queue = queue(2, slab_len, BatchLimits { decoded, output });
        let refused = submit(&queue, &work).unwrap_err();
        // And no place is kept for it.
        assert!(queue.state.lock().open.is_none());
        refused
    };
    let refused = of(CHUNK, 1 << 20, 1 << 20);
    assert!(
        refused.contains("64 encoded bytes is larger than the staging memory (64 bytes)"),
        "{refused}"
    );
    let refused = of(1 << 16, CHUNK - 1, 1 << 20);
    assert!(refused.contains("vcz.gpu_memory_limit"), "{refused}");
    let refused = of(1 << 16, 1 << 20, OUTPUT - 1);
    assert!(refused.contains("results of 32 bytes"), "{refused}");
    let queue = queue(0, 0, ROOMY);
    assert!(
        submit(&queue, &work)
            .unwrap_err()
            .contains("staging memory")
    );
}

fn opened(chunks: impl IntoIterator<Item = Vec<u8>>) -> Vec<OpenChunk> {
    let chunks = chunks.into_iter();
    chunks.map(|bytes| OpenChunk::Bytes(bytes.into())).collect()
}

fn all<'a>(work: &'a Arc<Work>, chunks: &'a [OpenChunk]) -> Vec<Encoded<'a>> {
    let encoded = |chunk| Encoded {
        work,
        sample_chunk: 0,
        rows: ROWS,
        chunk: Some(chunk),
        fields: &[],
    };
    chunks.iter().map(encoded).collect()
}

/// Chunks that come together are spread over batches like chunks that come one by one, and what is wrong with one of them is
/// its own.
#[test]
fn chunks_that_are_submitted_together_keep_their_order() {
    let queue = queue(3, 2 * STAGED, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let active = queue.register_producer();
    let of = |seed| chunk(ROWS, SAMPLES, seed).0;
    let bytes = [
        of(1),
        of(2),
        vec![0; CHUNK - 1],
        of(3),
        vec![0; 4 * STAGED],
        of(4),
    ];
    let open = opened(bytes);
    let chunks = all(&work, &open);
    let tickets = queue.submit_all(&chunks).now_or_never().unwrap();
    let refused: Vec<_> = tickets.iter().map(|ticket| ticket.is_err()).collect();
    assert_eq!(refused, [false, false, true, false, true, false]);
    let reasons: Vec<_> = tickets.into_iter().filter_map(Result::err).collect();
    assert!(reasons[0].contains("63"), "{reasons:?}");
    assert!(reasons[1].contains("staging memory"), "{reasons:?}");
    drop(active);
    let mut staged = Vec::new();
    while ready(&queue) > 0 {
        let batch = next(&queue, 0).unwrap();
        for job in &batch.jobs {
            // SAFETY: nobody else has the batch.
            staged.push(unsafe { batch.staging(job.src.clone()) }.unwrap().to_vec());
        }
    }
    assert_eq!(staged, [of(1), of(2), of(3), of(4)]);
    assert!(block_on(queue.submit_all(&[])).is_empty());
}

/// Sizes near the largest number are refused and not wrapped round.
#[test]
fn sizes_that_overflow_are_refused() {
    let queue = queue(1, 1 << 16, ROOMY);
    for len in [
        usize::MAX,
        usize::MAX - 1,
        usize::MAX - GUARD,
        usize::MAX / 2,
    ] {
        assert!(reserve(&queue, need(len, 1, 1)).is_err());
        assert!(reserve(&queue, need(1, len, 1)).is_err());
        assert!(reserve(&queue, need(1, 1, len)).is_err());
    }
    let work = plain(ROWS, SAMPLES);
    let submitted = queue.submit(&work, 0, usize::MAX, &[]).now_or_never();
    assert!(submitted.unwrap().unwrap_err().contains("do not fit"));
}

/// A chunk without a plan leaves nothing behind, however often that happens.
#[test]
fn chunks_that_cannot_be_planned_release_their_reservation() {
    let queue = queue(1, 2 * STAGED, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let _active = queue.register_producer();
    for _ in 0..20 {
        let refused = submit_bad(&queue, &work);
        assert!(refused.contains("63"), "{refused}");
    }
    let _first = submit(&queue, &work).unwrap();
    submit_bad(&queue, &work);
    let batch = next(&queue, 0).unwrap();
    assert_eq!((batch.jobs.len(), batch.writers), (1, 0));
    assert_eq!((batch.reserved, batch.reserved_output), (0, 0));
}

#[test]
fn lower_limits_apply_from_the_next_chunk_on() {
    let queue = queue(3, 1 << 16, ROOMY);
    let place = reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
        .unwrap()
        .unwrap();
    let second = reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
        .unwrap()
        .unwrap();
    let lower = BatchLimits {
        decoded: CHUNK,
        output: OUTPUT,
    };
    queue.set_limits(lower, None);
    let third = reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
        .unwrap()
        .unwrap();
    assert_eq!((place.batch, second.batch, third.batch), (0, 0, 1));
    assert!(reserve(&queue, need(CHUNK, CHUNK + 1, OUTPUT)).is_err());
}

/// Plans are kept for reuse, up to a number and a size.
#[test]
fn plans_are_kept() {
    let queue = queue(1, 1 << 16, ROOMY);
    let plan_of = |parts: usize| {
        let mut plan = ChunkPlan::default();
        let segment = crate::gpu::plan::PlannedSegment {
            src: None,
            dst: 0,
            len: 0,
        };
        plan.segments.resize(parts, segment);
        plan
    };
    let batch = || Batch::new(0, slab(8), 8, 0, IDLE);
    queue.recycle(batch(), [plan_of(3), plan_of(KEPT_PARTS + 1)].into_iter());
    assert_eq!(queue.state.lock().plans.len(), 1);
    queue.recycle(batch(), (0..KEPT_PLANS + 5).map(|_| plan_of(0)));
    assert_eq!(queue.state.lock().plans.len(), KEPT_PLANS);
}
