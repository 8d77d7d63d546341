//! Device memory: limits, large frames, and chunks that are larger than expected.

use super::*;

#[test]
fn memory_is_limited() {
    let engine = two_devices([&Arc::default(), &Arc::default()]);
    let limits_of = |memory| {
        engine.configure(&[], memory)?;
        Ok::<_, String>(engine.queue().limits())
    };
    let large = limits_of(1 << 30).unwrap();
    let small = limits_of(512 << 20).unwrap();
    assert!(0 < small.decoded && small.decoded < large.decoded);
    // All batches that are run at the same time, with their slabs and results, stay below it.
    let held = |limits: BatchLimits| {
        let decoded = DecodeScratch::default().with(limits.decoded as u64);
        WORKERS_PER_DEVICE as u64 * (decoded + (SLAB_BYTES + limits.output) as u64)
    };
    assert!(held(large) <= 1 << 30 && held(small) <= 512 << 20);
    // More than there is.
    assert!(held(limits_of(u64::MAX).unwrap()) <= 4 << 30);
    let default = limits_of(0).unwrap();
    assert!(held(default) <= 2 << 30);
    // Too little changes nothing, and is not remembered as if it had.
    for _ in 0..2 {
        let refused = limits_of(100 << 20).unwrap_err();
        assert!(
            refused.starts_with("vcz.gpu_memory_limit: 104857600 bytes leave no room"),
            "{refused}"
        );
        assert_eq!(engine.queue().limits(), default);
    }
    finish(load(&engine, 4, 20));
}

#[derive(Debug)]
struct Plenty;

impl FreeMemory for Plenty {
    fn count(&self, _: u64) -> usize {
        1
    }

    fn free(&self, _: u64) -> u64 {
        1 << 40
    }
}

/// Chunks of one large frame each go together, however many batches the limits would make of them; where the memory is not
/// there after all, in several; and none of it is kept.
#[test]
fn large_frames_are_run_together() {
    let (rows, samples, chunks) = (400, 1000, 12);
    let len = rows * samples * 2;
    // Made before, so that they come one right after the other.
    let encoded: Vec<_> = (0..chunks)
        .map(|seed| {
            let (codes, expected) = chunk(rows, samples, seed);
            (::zstd::bulk::compress(&codes, 1).unwrap(), expected)
        })
        .collect();
    let limits = BatchLimits {
        decoded: 3 * len,
        output: 1 << 20,
    };
    for (memory, expected) in [(None, 1), (Some(2 * len + 1000), 1 + 6), (Some(0), 1 + 6)] {
        let mut software = Software::default();
        let batches = Arc::clone(&software.batches);
        let (held, most_held) = (Arc::clone(&software.held), Arc::clone(&software.most_held));
        software.memory = memory;
        let engine = of_software(
            vec![software],
            limits,
            Some(Arc::new(Plenty)),
            DEVICE_TIMEOUT,
        );
        finish(async {
            let work = zstd(rows, samples);
            let active = engine.queue().register_producer();
            let all = encoded.iter().map(|(encoded, _)| encoded.as_slice());
            let tickets = engine.queue().submit_together(&work, rows, all).await;
            drop(active);
            for (ticket, (_, expected)) in tickets.into_iter().zip(&encoded) {
                match ticket.await.unwrap() {
                    Outcome::Host(reason) => {
                        assert_eq!((&*reason, memory), ("no memory", Some(0)))
                    }
                    done => assert_eq!(&counts(done), expected),
                }
            }
        });
        assert_eq!(batches.load(Ordering::Relaxed), expected, "{memory:?}");
        let most_held = most_held.load(Ordering::Relaxed);
        assert_eq!(most_held > 5 * 11 * len, memory.is_none(), "{most_held}");
        // After the results have been handed out.
        let begun = Instant::now();
        while memory.is_none() && held.load(Ordering::Relaxed) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "memory is kept");
            thread::yield_now();
        }
    }
}

/// Chunks that come to more than those before them did: what is too much for a batch is run in several.
#[test]
fn chunks_that_were_expected_to_be_smaller_keep_to_the_limit() {
    // Three chunks, each with what is between them.
    let limit = 3 * STAGED + STAGED / 2;
    let mut software = Software::default();
    software.memory = Some(limit);
    let limits = BatchLimits {
        decoded: limit,
        output: 1 << 20,
    };
    let engine = of_software(vec![software], limits, None, DEVICE_TIMEOUT);
    let work = plain(ROWS, SAMPLES);
    for _ in 0..2000 {
        work.sizes.add(STAGED, 1);
    }
    finish(async {
        for round in 0..20 {
            let active = engine.queue().register_producer();
            let seeds = round * 10..round * 10 + 10;
            let chunks: Vec<_> = seeds.map(|seed| chunk(ROWS, SAMPLES, seed)).collect();
            let all = chunks.iter().map(|(encoded, _)| encoded.as_slice());
            let tickets = engine.queue().submit_together(&work, ROWS, all).await;
            drop(active);
            for (ticket, (_, expected)) in tickets.into_iter().zip(&chunks) {
                assert_eq!(&counts(ticket.await.unwrap()), expected);
            }
        }
    });
}
