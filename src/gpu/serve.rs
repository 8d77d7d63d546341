//! The life of a worker: takes batches from the queue, has its executor run them, and hands their results out.
//!
//! Between [`queue`](super::queue) and [`executor`](super::executor), on a thread of its own for each worker of a device, which the
//! [`engine`](super::engine) starts. Invariant: every job of a batch gets one outcome, whatever becomes of the batch; a worker that panics
//! or loses its device ends the queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use arrow::buffer::{Buffer, MutableBuffer};

use super::abi::{BAD_CHECKSUM, BAD_CODE, BAD_FRAME};
use super::batch::{Batch, BatchLimits, Done, GUARD, Job, Outcome};
use super::executor::{Executor, Failure, Results};
use super::plan::ChunkPlan;
use super::queue::Queue;
use super::watchdog::{Pulse, Watchdog};
use crate::store::LocalFile;

/// More results than this are copied by several threads.
const PARALLEL_COPY: usize = 4 << 20;
/// How many.
const COPY_THREADS: usize = 6;

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

/// The life of a worker: batches until the queue fails. It may keep `most_held` bytes of device memory from batch to batch, and reports
/// how many it has. The watchdog knows it as `worker`.
pub fn serve(
    queue: &Arc<Queue>,
    watchdog: &Watchdog,
    (worker, device): (usize, usize),
    mut executor: Box<dyn Executor>,
    most_held: impl Fn(BatchLimits) -> usize,
    report: impl Fn(usize),
) {
    while let Some(mut batch) = queue.next(device) {
        // Nobody waits for the chunks of a query that has been cancelled.
        batch.jobs.retain(|job| !job.reply.is_closed());
        let mut plans = Vec::new();
        if !batch.jobs.is_empty() {
            let pulse = watchdog.begin(worker, &batch.jobs);
            let limits = queue.limits();
            if executor.device_bytes() > most_held(limits) {
                // The limit was lowered.
                executor.release();
            }
            let is_over = batch.decoded > limits.decoded;
            let is_large = batch.wide && is_over;
            let run = || {
                if is_over && !batch.wide {
                    // Its chunks came to more than those before them did, or the limit was lowered.
                    return run_in_parts(&mut *executor, pulse, &mut batch, limits.decoded);
                }
                match run(&mut *executor, pulse, &mut batch) {
                    Err(Failure::Batch(reason)) if is_large => {
                        log::debug!("batch {}: going on with smaller ones: {reason}", batch.id);
                        executor.release();
                        run_in_parts(&mut *executor, pulse, &mut batch, limits.decoded)
                    }
                    result => result,
                }
            };
            let run = catch_unwind(AssertUnwindSafe(run))
                .unwrap_or_else(|_| Err(Failure::Device("a worker of the GPU has failed".into())));
            match run {
                Ok(used) => plans = used,
                Err(Failure::Batch(reason)) => {
                    // Before memory is given back, which waits for all that runs on the device.
                    refuse(&mut batch.jobs, &reason);
                    executor.release();
                }
                Err(Failure::Device(reason)) => {
                    log::warn!("the GPU is lost, going on with the host: {reason}");
                    queue.fail(&format!("the GPU is lost: {reason}"));
                    refuse(&mut batch.jobs, &reason);
                    watchdog.end(worker);
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
            watchdog.end(worker);
            report(executor.device_bytes());
        }
        queue.recycle(batch, plans.into_iter());
    }
}

/// Runs the chunks of a batch that was too large in batches of at most `most` decoded bytes. Jobs are left only where the
/// device was lost.
fn run_in_parts(
    executor: &mut dyn Executor,
    pulse: Pulse<'_>,
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
        match run(executor, pulse, batch) {
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
        job.reply.send(Outcome::Host(reason.to_string()));
    }
}

/// Runs a batch and hands out its results. Its jobs are gone afterwards, unless it failed; their plans are returned.
fn run(
    executor: &mut dyn Executor,
    pulse: Pulse<'_>,
    batch: &mut Batch,
) -> Result<Vec<ChunkPlan>, Failure> {
    let started = Instant::now();
    pulse.waits_for_device(None);
    let results = executor.run(batch, pulse)?;
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
        job.reply.send(outcome);
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
mod tests {
    use futures::executor::block_on;

    use super::super::software::{Software, slab};
    use super::super::testing::{chunk, counts, plain};
    use super::*;

    #[test]
    fn statuses_in_words() {
        assert_eq!(
            describe(BAD_FRAME | BAD_CHECKSUM),
            "a frame did not decode to what was expected, a checksum does not hold"
        );
        let unknown = !(BAD_FRAME | BAD_CHECKSUM | BAD_CODE);
        assert!(describe(unknown).contains(&unknown.to_string()));
    }

    /// Batches that ran give their plans back for others.
    #[test]
    fn plans_are_used_again() {
        let limits = BatchLimits {
            decoded: 1 << 20,
            output: 1 << 20,
        };
        let queue = Queue::new(vec![slab(1 << 16)], limits);
        let work = plain(4, 8);
        block_on(async {
            let mut tickets = Vec::new();
            for seed in 0..5 {
                let (encoded, _) = chunk(4, 8, seed);
                tickets.push(queue.submit(&work, 0, 4, &encoded).await.unwrap());
            }
            let mut batch = queue.next(0).unwrap();
            let pulse = Pulse::UNWATCHED;
            let plans = run(&mut Software::default(), pulse, &mut batch).unwrap();
            assert_eq!((plans.len(), batch.jobs.len()), (5, 0));
            for (seed, ticket) in tickets.into_iter().enumerate() {
                let found = counts(ticket.await.unwrap());
                assert_eq!(found, chunk(4, 8, seed as u64).1);
            }
        });
    }
}
