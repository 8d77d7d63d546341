//! A worker's loop: takes batches from the queue, runs them with its executor, and sends the results.
//!
//! The [`engine`](super::engine) starts one thread for each worker of a device. Invariants: every job of a batch gets one outcome,
//! also when the batch fails; a worker that panics or loses its device fails the queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use arrow::buffer::{Buffer, MutableBuffer};

use super::abi::{BAD_CHECKSUM, BAD_CODE, BAD_FRAME, FULL};
use super::batch::{Batch, BatchLimits, ChunkJob, Done, GUARD, Outcome};
use super::executor::{Executor, Failure, Results};
use super::plan::ChunkPlan;
use super::queue::Queue;
use super::watchdog::{BatchProgress, Watchdog};
use crate::gpu::error::{FEW_ROWS_STAY, GpuError};
use crate::store::LocalFile;

/// More bytes of results than this are copied by several threads.
const PARALLEL_COPY: usize = 4 << 20;
/// How many threads copy them.
const COPY_THREADS: usize = 6;

/// Replaces pageable slabs of a large-frame batch with page-locked ones, which are slow to allocate and are kept: the next
/// batch is copied at full speed.
fn replace_pageable(queue: &Queue, executor: &dyn Executor, batch: &mut Batch) {
    for slab in batch.slabs.iter_mut().filter(|slab| slab.is_scratch()) {
        if !queue.may_keep_slab() {
            return;
        }
        match executor.page_locked(slab.len()) {
            Some(kept) => *slab = kept,
            None => return,
        }
    }
}

/// Runs batches until the queue fails. The worker keeps at most `most_held` bytes of device memory from batch to batch, and
/// reports how many it holds. `worker` is its index for the watchdog.
pub fn serve(
    queue: &Arc<Queue>,
    watchdog: &Watchdog,
    (worker, device): (usize, usize),
    mut executor: Box<dyn Executor>,
    most_held: impl Fn(BatchLimits) -> usize,
    report: impl Fn(usize),
) {
    while let Some(mut batch) = queue.next(device) {
        // The chunks of cancelled queries are skipped.
        batch.jobs.retain(|job| !job.reply.is_closed());
        let mut plans = Vec::new();
        if !batch.jobs.is_empty() {
            let progress = watchdog.begin(worker, &batch.jobs);
            let limits = queue.limits();
            if executor.device_bytes() > most_held(limits) {
                // The limit was lowered.
                executor.release();
            }
            let is_over = batch.decoded > limits.decoded;
            let is_large = batch.large_frames && is_over;
            let run = || {
                if is_over && !batch.large_frames {
                    // Its chunks were larger than expected, or the limit was lowered.
                    return run_in_parts(&mut *executor, progress, &mut batch, limits.decoded);
                }
                match run(&mut *executor, progress, &mut batch) {
                    Err(Failure::Batch(reason)) if is_large => {
                        log::debug!("batch {}: retrying in smaller batches: {reason}", batch.id);
                        executor.release();
                        run_in_parts(&mut *executor, progress, &mut batch, limits.decoded)
                    }
                    result => result,
                }
            };
            let run = catch_unwind(AssertUnwindSafe(run))
                .unwrap_or_else(|_| Err(Failure::Device("a GPU worker panicked".into())));
            match run {
                Ok(used) => plans = used,
                Err(Failure::Batch(reason)) => {
                    // Before memory is freed, which waits for all work on the device.
                    reject(&mut batch.jobs, &reason);
                    executor.release();
                }
                Err(Failure::Device(reason)) => {
                    log::warn!("the GPU is lost, continuing on the host: {reason}");
                    queue.fail(&format!("the GPU is lost: {reason}"));
                    reject(&mut batch.jobs, &reason);
                    watchdog.end(worker);
                    report(executor.device_bytes());
                    // Leaked on purpose: the device may still write to this memory.
                    std::mem::forget(executor);
                    std::mem::forget(batch.slabs);
                    return;
                }
            }
            if is_large {
                // Freed for others; the next such batch measures free memory again.
                executor.release();
            }
            replace_pageable(queue, &*executor, &mut batch);
            watchdog.end(worker);
            report(executor.device_bytes());
        }
        queue.recycle(batch, plans.into_iter());
    }
}

/// Runs the chunks of a batch that is too large in batches of at most `most` decoded bytes. Jobs are left only if the device
/// was lost.
fn run_in_parts(
    executor: &mut dyn Executor,
    progress: BatchProgress<'_>,
    batch: &mut Batch,
    most: usize,
) -> Result<Vec<ChunkPlan>, Failure> {
    let mut plans = Vec::new();
    let mut jobs = batch.take_jobs().into_iter().peekable();
    while let Some(job) = jobs.next() {
        let output = job.out.len();
        batch.push(job, output);
        let more = jobs.peek();
        if more.is_some_and(|next| batch.decoded + next.decoded_len() + GUARD <= most) {
            continue;
        }
        match run(executor, progress, batch) {
            Ok(used) => plans.extend(used),
            Err(Failure::Batch(reason)) => reject(&mut batch.jobs, &reason),
            Err(lost) => {
                batch.jobs.extend(jobs);
                return Err(lost);
            }
        }
        batch.take_jobs();
    }
    Ok(plans)
}

fn reject(jobs: &mut Vec<ChunkJob>, reason: &str) {
    for job in jobs.drain(..) {
        job.reply.send(Outcome::Host(reason.into()));
    }
}

/// Runs a batch and sends its results. Its jobs are consumed unless it failed; their plans are returned for reuse.
fn run(
    executor: &mut dyn Executor,
    progress: BatchProgress<'_>,
    batch: &mut Batch,
) -> Result<Vec<ChunkPlan>, Failure> {
    let started = Instant::now();
    progress.waiting_for_device(None);
    let results = executor.run(batch, progress)?;
    log::debug!(
        "batch {}: {} chunks, {} bytes staged, {} read from files, {} decoded, {} of results; started {:.1?} after its last chunk, \
         took {:.1?}, of which {:.1?} copying, {:.1?} decoding, {:.1?} counting",
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
    let n_jobs = batch.jobs.len();
    if results.statuses.len() != n_jobs
        || results.lengths.len() != n_jobs
        || results.bytes.len() < batch.output
    {
        return Err(Failure::Device(
            format!(
                "{} statuses, {} lengths and {} bytes of results, expected {} and {}",
                results.statuses.len(),
                results.lengths.len(),
                results.bytes.len(),
                batch.jobs.len(),
                batch.output
            )
            .into(),
        ));
    }
    for (job, len) in batch.jobs.iter_mut().zip(results.lengths) {
        job.out.end = job.out.end.min(job.out.start.saturating_add(*len));
    }
    for (job, resident) in batch.jobs.iter_mut().zip(&results.resident) {
        job.resident.clone_from(resident);
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
        return Ok(send_outcomes(jobs, &results, whole));
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
            parts.push(scope.spawn(move || send_outcomes(part, results, whole)));
        }
        // If a thread panicked, its plans are lost and its chunks' tickets report that they were dropped.
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_default())
            .collect()
    });
    Ok(plans)
}

/// Sends every job its outcome; returns their plans.
fn send_outcomes(
    jobs: Vec<(ChunkJob, Result<u32, GpuError>)>,
    results: &Results<'_>,
    whole: usize,
) -> Vec<ChunkPlan> {
    let mut plans = Vec::with_capacity(jobs.len());
    for (mut job, status) in jobs {
        let outcome = match (status, results.bytes.get(job.out.clone())) {
            (Err(reason), _) => Outcome::Host(reason),
            (Ok(0), Some(bytes)) => {
                let mut copy = MutableBuffer::with_capacity(bytes.len());
                copy.extend_from_slice(bytes);
                Outcome::Done(Done {
                    bytes: Buffer::from(copy),
                    resident: job.resident.take(),
                    read: job.file.as_ref().map_or(0, LocalFile::len),
                    times: results.times.share(share_of(&job), whole),
                })
            }
            (_, None) => Outcome::Host("its results are missing".into()),
            (Ok(status), _) => Outcome::Host(describe(status).into()),
        };
        job.reply.send(outcome);
        plans.push(job.plan);
    }
    plans
}

/// A job's share of its batch's time, in bytes.
fn share_of(job: &ChunkJob) -> usize {
    job.decoded_len() + job.file.as_ref().map_or(0, LocalFile::len)
}

/// A status as a message.
fn describe(status: u32) -> String {
    let mut found = Vec::new();
    for (bit, words) in [
        (BAD_FRAME, "a frame did not decode as expected"),
        (BAD_CHECKSUM, "a checksum does not match"),
        (BAD_CODE, "a genotype code has no allele"),
        (FULL, FEW_ROWS_STAY),
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
    fn statuses_have_messages() {
        assert_eq!(
            describe(BAD_FRAME | BAD_CHECKSUM),
            "a frame did not decode as expected, a checksum does not match"
        );
        let unknown = !(BAD_FRAME | BAD_CHECKSUM | BAD_CODE | FULL);
        assert!(describe(unknown).contains(&unknown.to_string()));
    }

    /// Batches that ran return their plans for reuse.
    #[test]
    fn plans_are_reused() {
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
            let progress = BatchProgress::UNWATCHED;
            let plans = run(&mut Software::default(), progress, &mut batch).unwrap();
            assert_eq!((plans.len(), batch.jobs.len()), (5, 0));
            for (seed, ticket) in tickets.into_iter().enumerate() {
                let found = counts(ticket.await.unwrap());
                assert_eq!(found, chunk(4, 8, seed as u64).1);
            }
        });
    }
}
