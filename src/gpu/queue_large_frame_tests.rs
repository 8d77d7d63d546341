//! Batches of large frames.

use std::sync::{OnceLock, Weak};

use super::*;

/// Memory that is always there.
#[derive(Debug)]
struct Free(usize, u64);

impl FreeMemory for Free {
    fn count(&self, _: u64) -> usize {
        self.0
    }

    fn free(&self, _: u64) -> u64 {
        self.1
    }
}

const TIGHT: BatchLimits = BatchLimits {
    decoded: 2 * CHUNK,
    output: 1 << 20,
};
const PATIENCE: Duration = Duration::from_millis(40);

/// A queue with memory for `chunks` large frames on each of `devices` devices.
fn roomy_queue(slabs: usize, devices: usize, chunks: usize) -> Arc<Queue> {
    let queue = queue(slabs, 3 * STAGED, TIGHT);
    // Of the half, what is not for results, at five quarters of a byte for each that is decoded.
    let free = 2 * ((chunks * CHUNK / 4 + 1) * 5 + TIGHT.output) as u64;
    queue.set_limits(TIGHT, Some(Arc::new(Free(devices, free))));
    queue
}

fn reserve_large(queue: &Arc<Queue>) -> Option<One> {
    let large = Need {
        large_frames: Some(PATIENCE),
        ..need(CHUNK, CHUNK, OUTPUT)
    };
    reserve(queue, large).unwrap()
}

/// Stages a chunk of a large frame; `place` as it was reserved.
fn stage(place: One, work: &Arc<Work>) -> Ticket {
    let mut place = place;
    let (reply, ticket) = Reply::new();
    let mut plan = ChunkPlan::default();
    plan.decoded_len = CHUNK;
    place.job = Some(ChunkJob {
        work: Arc::clone(work),
        sample_chunk: 0,
        rows: ROWS,
        src: place.range.clone(),
        file: None,
        plan,
        fields: vec![],
        masked: None,
        dst: 0,
        out: 0..0,
        resident: None,
        reply,
    });
    ticket
}

/// As many as half of the free memory holds, over several slabs, of which one is left to others.
#[test]
fn large_frames_go_together() {
    let queue = roomy_queue(3, 1, 20);
    let work = plain(ROWS, SAMPLES);
    let _active = queue.register_producer();
    let places: Vec<_> = (0..20).map(|_| reserve_large(&queue).unwrap()).collect();
    let mut ranges: Vec<_> = places.iter().map(|place| place.range.clone()).collect();
    assert!(places.iter().all(|place| place.batch == places[0].batch));
    assert!(
        reserve_large(&queue).is_none(),
        "more than half of what is free"
    );
    let _ordinary = reserve(&queue, need(CHUNK, CHUNK, OUTPUT))
        .unwrap()
        .unwrap();
    let _tickets: Vec<_> = places
        .into_iter()
        .map(|place| stage(place, &work))
        .collect();
    let batch = next(&queue, 0).unwrap();
    assert_eq!((batch.jobs.len(), batch.slabs.len()), (20, 7));
    assert_eq!(
        batch.slabs.iter().filter(|slab| !slab.is_scratch()).count(),
        2
    );
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        assert!(pair[0].end + GUARD <= pair[1].start);
    }
    for range in ranges {
        assert_eq!(range.start / batch.slab_len, range.end / batch.slab_len);
        // SAFETY: nobody else has the batch.
        assert_eq!(unsafe { batch.staging(range) }.unwrap().len(), CHUNK);
    }
    // SAFETY: as above.
    let staged: usize = unsafe { batch.staged() }
        .map(|(_, bytes)| bytes.len())
        .sum();
    assert_eq!(staged, batch.used);
    recycle(&queue, batch);
    assert_eq!(queue.state.lock().slabs.len(), 2);
    assert!(reserve_large(&queue).is_some());
}

/// Looks at memory as long as nobody has the queue's lock, as a driver may take its time.
#[derive(Debug, Default)]
struct Unlocked(OnceLock<Weak<Queue>>, AtomicUsize);

impl FreeMemory for Unlocked {
    fn count(&self, _: u64) -> usize {
        1
    }

    fn free(&self, _: u64) -> u64 {
        let queue = self.0.get().and_then(Weak::upgrade).unwrap();
        assert!(queue.state.try_lock().is_some(), "the queue is locked");
        self.1.fetch_add(1, Ordering::Relaxed);
        1 << 30
    }
}

#[test]
fn memory_is_measured_without_the_lock_and_for_each_batch() {
    let queue = queue(3, 3 * STAGED, TIGHT);
    let memory = Arc::new(Unlocked::default());
    memory.0.set(Arc::downgrade(&queue)).unwrap();
    queue.set_limits(TIGHT, Some(memory.clone()));
    let large = Need {
        large_frames: Some(PATIENCE),
        ..need(CHUNK, CHUNK, OUTPUT)
    };
    let places = |n| block_on(queue.wait_for_places(std::iter::repeat_n(large, n))).unwrap();
    let mut taken = vec![places(2)];
    assert_eq!(taken[0].places.len(), 2);
    taken.push(places(3));
    assert_eq!(memory.1.load(Ordering::Relaxed), 1, "one batch");
    taken.clear();
    taken.push(places(1));
    assert_eq!(memory.1.load(Ordering::Relaxed), 2, "another");
    // There is one already, which takes no more.
    queue.state.lock().close(true);
    let more = queue.wait_for_places(std::iter::once(large)).now_or_never();
    assert!(more.is_none());
    assert_eq!(memory.1.load(Ordering::Relaxed), 2);
}

/// A limit that was set holds for large frames too.
#[test]
fn large_frames_keep_to_a_limit() {
    let queue = roomy_queue(3, 1, 20);
    queue.set_limits(TIGHT, None);
    let places: Vec<_> = (0..2).map(|_| reserve_large(&queue).unwrap()).collect();
    assert!(reserve_large(&queue).is_none());
    assert_eq!(places[0].batch, places[1].batch);
}

/// A batch of large frames waits for more of them; other chunks do not wait with it.
#[test]
fn large_frames_are_waited_for() {
    let queue = roomy_queue(3, 1, 20);
    let work = plain(ROWS, SAMPLES);
    let active = queue.register_producer();
    let begun = Instant::now();
    let _large = stage(reserve_large(&queue).unwrap(), &work);
    let _ordinary = submit(&queue, &work).unwrap();
    assert!(!next(&queue, 0).unwrap().large_frames);
    let batch = next(&queue, 0).unwrap();
    assert!(
        batch.large_frames && begun.elapsed() >= PATIENCE,
        "{:?}",
        begun.elapsed()
    );
    recycle(&queue, batch);
    // Not where nobody can add to it.
    let _large = stage(reserve_large(&queue).unwrap(), &work);
    drop(active);
    assert_eq!(ready(&queue), 1);
}

/// Each device has memory for one large-frame batch.
#[test]
fn a_device_runs_one_batch_of_large_frames_at_a_time() {
    let queue = roomy_queue(6, 2, 1);
    let work = plain(ROWS, SAMPLES);
    let mut batches = Vec::new();
    for _ in 0..2 {
        let active = queue.register_producer();
        let _ticket = stage(reserve_large(&queue).unwrap(), &work);
        drop(active);
    }
    assert!(reserve_large(&queue).is_none());
    batches.push(next(&queue, 0).unwrap());
    assert!(queue.state.lock().take(0).is_none());
    batches.push(next(&queue, 1).unwrap());
    recycle(&queue, batches.remove(0));
    assert!(reserve_large(&queue).is_some());
    assert!(queue.state.lock().take(1).is_none());
}

/// Large frames of which none could be staged leave nothing behind.
#[test]
fn large_frames_that_are_given_up_release_their_reservation() {
    let queue = roomy_queue(2, 1, 4);
    for _ in 0..20 {
        let places: Vec<_> = (0..4).map(|_| reserve_large(&queue).unwrap()).collect();
        drop(places);
        let state = queue.state.lock();
        assert!(state.open_large.is_none() && state.slabs.len() == 2);
    }
}
