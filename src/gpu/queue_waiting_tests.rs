//! Waiting for slabs and batches: who waits is woken, and nobody waits for what never comes.

use super::*;

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

/// A device runs no more batches than it may, and takes another once one has run.
#[test]
fn a_device_runs_a_limited_number_of_batches() {
    let queue = queue(3, STAGED, ROOMY);
    let work = plain(ROWS, SAMPLES);
    queue.set_most_running(1);
    let active = queue.register_producer();
    let _tickets = [0; 3].map(|_| submit(&queue, &work).unwrap());
    drop(active);
    assert_eq!(ready(&queue), 3);
    let first = next(&queue, 0).unwrap();
    let (sender, receiver) = mpsc::channel();
    let other = Arc::clone(&queue);
    thread::spawn(move || drop(sender.send(other.next(0))));
    let second = receiver.recv_timeout(Duration::from_millis(50));
    assert!(second.is_err(), "two batches at the same time");
    recycle(&queue, next(&queue, 1).expect("another device waits"));
    recycle(&queue, first);
    let last = receiver.recv_timeout(LONG).expect("not woken").unwrap();
    // Without the limit, the next batch does not wait for this one.
    let _ticket = submit(&queue, &work).unwrap();
    queue.set_most_running(usize::MAX);
    recycle(&queue, next(&queue, 0).unwrap());
    recycle(&queue, last);
}

/// While the rest of what came together waits for a slab, what was staged goes on.
#[test]
fn chunks_that_are_submitted_together_do_not_deadlock() {
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
fn a_batch_without_jobs_frees_its_slab() {
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
fn disabled_devices_do_not_consume_wake_ups() {
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
