//! The queue alone: the tests take its batches themselves. What is waited for is a batch of its own, so a hang fails.

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

#[path = "queue_large_frame_tests.rs"]
mod large_frames;

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

fn reserve(queue: &Arc<Queue>, need: Need) -> Result<Option<One>, String> {
    let need = std::iter::once(need);
    let (mut places, is_to_measure) = queue.reserve(need.clone(), None)?;
    if is_to_measure {
        (places, _) = queue.reserve(need, Some(queue.large_frame_room()))?;
    }
    Ok((!places.places.is_empty()).then_some(One(places)))
}

fn submit(queue: &Arc<Queue>, work: &Arc<Work>) -> Result<Ticket, String> {
    let (encoded, _) = chunk(ROWS, SAMPLES, 1);
    let submitted = queue.submit(work, 0, ROWS, &encoded).now_or_never();
    submitted.expect("there is no staging memory")
}

/// A chunk that no plan can be made of.
fn submit_bad(queue: &Arc<Queue>, work: &Arc<Work>) -> String {
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
fn a_batch_goes_when_the_last_who_could_add_to_it_leaves() {
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
fn a_batch_goes_after_a_while_however_many_could_add_to_it() {
    let queue = queue(2, 1 << 16, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let _active = queue.register_producer();
    let begun = Instant::now();
    let _ticket = submit(&queue, &work);
    assert_eq!(ready(&queue), 0);
    assert_eq!(next(&queue, 0).unwrap().jobs.len(), 1);
    assert!(begun.elapsed() >= IDLE, "{:?}", begun.elapsed());
}

/// A device that waits from before the first chunk is woken by it.
#[test]
fn waiting_devices_are_woken() {
    let queue = queue(2, 1 << 16, ROOMY);
    let work = plain(ROWS, SAMPLES);
    for _ in 0..50 {
        let (sender, receiver) = mpsc::channel();
        let other = Arc::clone(&queue);
        thread::spawn(move || drop(sender.send(other.next(0))));
        thread::sleep(Duration::from_micros(300));
        let active = queue.register_producer();
        let ticket = submit(&queue, &work);
        drop(active);
        let batch = receiver.recv_timeout(LONG).expect("no batch came").unwrap();
        assert_eq!(batch.jobs.len(), 1);
        drop(ticket);
        recycle(&queue, batch);
    }
}

#[test]
fn a_batch_goes_when_its_slab_is_full() {
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
fn a_batch_goes_when_the_devices_memory_is_full() {
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
fn a_batch_goes_when_its_results_are_full() {
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
fn what_fits_in_no_batch_is_the_hosts() {
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
        chunk,
    };
    chunks.iter().map(encoded).collect()
}

/// Chunks that come together are spread over batches like chunks that come one by one, and what is wrong with one of them is
/// its own.
#[test]
fn chunks_that_come_together_keep_their_order() {
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

/// While the rest of what came together waits for a slab, what was staged goes on.
#[test]
fn chunks_that_come_together_do_not_wait_for_themselves() {
    let queue = queue(1, STAGED, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let open = opened((0..3).map(|seed| chunk(ROWS, SAMPLES, seed).0));
    let chunks = all(&work, &open);
    let active = queue.register_producer();
    let mut waiting = Box::pin(queue.submit_all(&chunks));
    for _ in 0..2 {
        assert!((&mut waiting).now_or_never().is_none(), "there was a slab");
        let batch = next(&queue, 0).unwrap();
        assert_eq!((batch.jobs.len(), batch.writers), (1, 0));
        recycle(&queue, batch);
    }
    let tickets = waiting.now_or_never().expect("not woken");
    assert!(tickets.iter().all(Result::is_ok));
    drop(active);
    assert_eq!(next(&queue, 0).unwrap().jobs.len(), 1);
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
fn chunks_that_cannot_be_planned_give_their_place_back() {
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

/// A batch that was closed while chunks of it were being staged goes when the last of them is settled, given up or not.
#[test]
fn a_closed_batch_waits_for_what_is_being_staged() {
    let queue = queue(2, 1 << 16, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let active = queue.register_producer();
    let places: Vec<_> = (0..3)
        .map(|_| {
            reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
                .unwrap()
                .unwrap()
        })
        .collect();
    let _ticket = submit(&queue, &work).unwrap();
    drop(active);
    for place in places {
        assert_eq!(ready(&queue), 0);
        drop(place);
    }
    assert_eq!(ready(&queue), 1);
    assert_eq!(next(&queue, 0).unwrap().jobs.len(), 1);
}

/// Where all chunks of a closed batch are given up, its slab is free again and whoever waits for it is woken.
#[test]
fn a_batch_of_nothing_frees_its_slab() {
    let queue = queue(1, 1 << 16, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let active = queue.register_producer();
    let place = reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
        .unwrap()
        .unwrap();
    drop(active);
    let (encoded, _) = chunk(ROWS, SAMPLES, 1);
    let mut waiting = Box::pin(queue.submit(&work, 0, ROWS, &encoded));
    assert!((&mut waiting).now_or_never().is_none(), "there was a slab");
    drop(place);
    assert!(waiting.now_or_never().expect("not woken").is_ok());
}

#[test]
fn chunks_wait_for_slabs_and_may_give_up_waiting() {
    let queue = queue(1, STAGED, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let (encoded, _) = chunk(ROWS, SAMPLES, 1);
    let active = queue.register_producer();
    let _first = submit(&queue, &work).unwrap();
    let submit = || Box::pin(queue.submit(&work, 0, ROWS, &encoded));
    let (mut second, mut third) = (submit(), submit());
    assert!((&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    // The full batch went when somebody found no room in it.
    let batch = next(&queue, 0).unwrap();
    drop(second);
    assert!((&mut third).now_or_never().is_none());
    recycle(&queue, batch);
    let _third = third.now_or_never().expect("not woken").unwrap();
    drop(active);
    assert_eq!(next(&queue, 0).unwrap().jobs.len(), 1);
}

/// A slab that is freed after somebody looked for one and before he waits is not missed.
#[test]
fn no_wake_up_is_missed() {
    let queue = queue(1, STAGED, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let taker = Arc::clone(&queue);
    let device = thread::spawn(move || {
        let mut jobs = 0;
        while let Some(batch) = taker.next(0) {
            jobs += batch.jobs.len();
            recycle(&taker, batch);
        }
        jobs
    });
    let (sender, receiver) = mpsc::channel();
    for seed in 0..3 {
        let (queue, work, sender) = (Arc::clone(&queue), Arc::clone(&work), sender.clone());
        thread::spawn(move || {
            let (encoded, _) = chunk(ROWS, SAMPLES, seed);
            for _ in 0..300 {
                let active = queue.register_producer();
                let ticket = block_on(queue.submit(&work, 0, ROWS, &encoded)).unwrap();
                drop((active, ticket));
            }
            sender.send(()).unwrap();
        });
    }
    for _ in 0..3 {
        receiver.recv_timeout(3 * LONG).expect("a thread hangs");
    }
    while queue.state.lock().slabs.is_empty() {
        thread::yield_now();
    }
    queue.fail("the end of the test");
    assert_eq!(device.join().unwrap(), 900);
}

/// Batches reach the device that may take them, whichever others wait too.
#[test]
fn devices_that_take_no_batches_do_not_swallow_wake_ups() {
    let queue = queue(2, 1 << 16, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let (sender, receiver) = mpsc::channel();
    for device in [0, 0, 1, 1] {
        let (queue, sender) = (Arc::clone(&queue), sender.clone());
        thread::spawn(move || {
            while let Some(batch) = queue.next(device) {
                // First, so that the slab is there for the next round.
                recycle(&queue, batch);
                sender.send(device).unwrap();
            }
        });
    }
    for round in 0..200 {
        let device = round / 3 % 2;
        queue.set_devices(1 << device);
        let active = queue.register_producer();
        let _ticket = submit(&queue, &work);
        drop(active);
        assert_eq!(receiver.recv_timeout(LONG), Ok(device), "round {round}");
    }
    queue.fail("the end of the test");
}

#[test]
fn after_a_failure_everything_is_the_hosts() {
    let queue = queue(2, 2 * STAGED, ROOMY);
    let work = plain(ROWS, SAMPLES);
    let active = queue.register_producer();
    // Two in a batch that is ready, one in the open one, one being staged, one waiting for a slab.
    let mut tickets: Vec<_> = (0..3).map(|_| submit(&queue, &work).unwrap()).collect();
    let place = reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
        .unwrap()
        .unwrap();
    let (encoded, _) = chunk(ROWS, SAMPLES, 1);
    let mut waiting = Box::pin(queue.submit(&work, 0, ROWS, &encoded));
    assert!((&mut waiting).now_or_never().is_none());
    assert!(matches!(tickets[0].try_recv(), Err(TryRecvError::Empty)));
    // Device 7 takes nothing, and hears of it all the same.
    queue.set_devices(1);
    let (sender, receiver) = mpsc::channel();
    for _ in 0..3 {
        let (queue, sender) = (Arc::clone(&queue), sender.clone());
        thread::spawn(move || sender.send(queue.next(7).is_none()));
    }
    queue.fail("it burns");
    queue.fail("it drowns");
    assert_eq!(queue.failure().as_deref(), Some("it burns"));
    for ticket in tickets {
        assert_eq!(reason(block_on(ticket).unwrap()), "it burns");
    }
    let refused = waiting.now_or_never().expect("not woken").unwrap_err();
    assert_eq!(refused, "it burns");
    assert_eq!(submit(&queue, &work).unwrap_err(), "it burns");
    for _ in 0..3 {
        assert_eq!(receiver.recv_timeout(LONG), Ok(true));
    }
    assert!(next(&queue, 0).is_none());
    // A chunk that is settled only now has an outcome too.
    let mut place = place;
    let (reply, ticket) = Reply::new();
    place.job = Some(ChunkJob {
        work: Arc::clone(&work),
        sample_chunk: 0,
        rows: ROWS,
        src: place.range.clone(),
        file: None,
        plan: ChunkPlan::default(),
        dst: 0,
        out: 0..0,
        reply,
    });
    drop(place);
    assert_eq!(reason(block_on(ticket).unwrap()), "it burns");
    drop(active);
}

#[test]
fn lower_limits_hold_from_the_next_chunk_on() {
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

/// Plans are kept for other chunks, but not more of them, nor larger ones, than is worth it.
#[test]
fn plans_are_kept() {
    let queue = queue(1, 1 << 16, ROOMY);
    let plan_of = |parts: usize| {
        let mut plan = ChunkPlan::default();
        let segment = crate::gpu::plan::Segment {
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

/// Memory that says when it is given back.
#[derive(Debug)]
struct Counted(Slab, Arc<AtomicUsize>);

// SAFETY: the slab's.
unsafe impl Memory for Counted {
    fn as_mut_ptr(&self) -> *mut u8 {
        // SAFETY: nobody else has it.
        unsafe { self.0.bytes_mut(0..self.len()) }
            .unwrap()
            .as_mut_ptr()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// To give page-locked memory back is to wait for the device, which is what failed.
#[test]
fn a_queue_that_fails_keeps_its_slabs() {
    let given_back = Arc::new(AtomicUsize::new(0));
    let counted = || Counted(slab(1 << 16), Arc::clone(&given_back));
    let slabs = (0..2).map(|_| Slab::new(Box::new(counted())));
    let queue = Queue::new(slabs.collect(), ROOMY);
    let work = plain(ROWS, SAMPLES);
    let active = queue.register_producer();
    let ticket = submit(&queue, &work).unwrap();
    drop(active);
    assert_eq!(ready(&queue), 1);
    let _active = queue.register_producer();
    let open = submit(&queue, &work).unwrap();
    queue.fail("it burns");
    for ticket in [ticket, open] {
        assert_eq!(reason(block_on(ticket).unwrap()), "it burns");
    }
    assert_eq!(given_back.load(Ordering::Relaxed), 0);
}
