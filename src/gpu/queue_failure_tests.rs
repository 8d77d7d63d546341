//! A queue that has failed: the host gets every chunk.

use super::*;

#[test]
fn after_a_failure_the_host_gets_every_chunk() {
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
        fields: vec![],
        masked: None,
        dst: 0,
        out: 0..0,
        resident: None,
        reply,
    });
    drop(place);
    assert_eq!(reason(block_on(ticket).unwrap()), "it burns");
    drop(active);
}

/// Memory that reports when it is freed.
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
