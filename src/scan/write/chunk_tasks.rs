//! [`ChunkTasks`]: encodes and writes the chunks of a statement in parallel, within limits on memory and on chunks.
//!
//! Invariants: a chunk counts towards the limits until it is written, however slow that is: with its rows while it waits for a thread, with
//! its decoded bytes and those that they may become until it is encoded, and with its encoded bytes afterwards; its memory is reserved in
//! DataFusion's pool. A statement that fails waits for the chunks that are being written before anything is cleaned up, so that none appears
//! afterwards.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};

use super::chunk_part::ChunkPart;
use crate::scan::own_threads::OwnThreads;
use crate::store::write::Target;

/// Bytes that making, encoding and writing chunks takes.
const MAX_IN_WORK: usize = 140 << 20;
/// Bytes that a codec takes beside its input and output: tables of zstd, blocks of Blosc.
const CODEC_BYTES: usize = 8 << 20;
/// Bytes of rows of chunks that wait to be encoded.
const MAX_WAITING: usize = 16 << 20;
/// What a permit of a limit on bytes stands for.
const PERMIT: usize = 1 << 10;
/// Chunks that may be in work.
const MAX_CHUNKS: usize = 64;
/// Threads that encode. Of chunks of some megabytes no more are in work at a time, and each thread keeps memory of its codecs.
const MAX_THREADS: usize = 8;
/// Bytes of rows that are gathered in memory.
const MAX_GATHERED: usize = 32 << 20;
/// How long a statement that failed waits for the chunks that are being written.
const PATIENCE: Duration = Duration::from_secs(60);

/// The chunks of a statement that are in work.
pub struct ChunkTasks {
    target: Arc<Target>,
    runtime: Arc<RuntimeEnv>,
    tasks: JoinSet<Result<()>>,
    /// A permit for each chunk that may be written at the same time.
    writers: Arc<Semaphore>,
    /// A permit for each thread.
    free: Arc<Semaphore>,
    threads: Arc<OwnThreads>,
    waiting: Bytes,
    in_work: Bytes,
    memory: MemoryReservation,
}

/// A limit on bytes.
#[derive(Clone)]
struct Bytes {
    permits: Arc<Semaphore>,
    /// All permits.
    all: usize,
}

impl Bytes {
    fn new(bytes: usize) -> Self {
        let all = bytes.div_ceil(PERMIT);
        Self {
            permits: Arc::new(Semaphore::new(all)),
            all,
        }
    }

    /// Waits until so many bytes are free, or all if the limit is less.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        let permits = permits_of(bytes, self.all) as u32;
        match Arc::clone(&self.permits).acquire_many_owned(permits).await {
            Ok(permit) => Ok(permit),
            Err(_) => stopped(),
        }
    }

    /// Gives back what is more than so many bytes.
    fn shrink(&self, permit: &mut OwnedSemaphorePermit, bytes: usize) {
        let kept = permits_of(bytes, self.all);
        drop(permit.split(permit.num_permits().saturating_sub(kept)));
    }
}

impl ChunkTasks {
    /// No chunks yet. As many are encoded at the same time as the session has partitions, but at most [`MAX_THREADS`].
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn try_new(target: Arc<Target>, context: &TaskContext) -> Result<Self> {
        let partitions = context.session_config().target_partitions();
        let threads = partitions.clamp(1, MAX_THREADS);
        let runtime = context.runtime_env();
        let consumer = MemoryConsumer::new("chunks of a VCZ store that is written");
        let pool = &runtime.memory_pool;
        Ok(Self {
            waiting: Bytes::new(within(pool, MAX_WAITING, 8)),
            in_work: Bytes::new(within(pool, MAX_IN_WORK, 4)),
            writers: Arc::new(Semaphore::new(target.most_writers().min(MAX_CHUNKS))),
            target,
            tasks: JoinSet::new(),
            free: Arc::new(Semaphore::new(threads)),
            threads: Arc::new(OwnThreads::try_new("vcz-encode", threads)?),
            memory: consumer.register(&runtime.memory_pool),
            runtime,
        })
    }

    /// The session's memory and disk.
    pub fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }

    /// Bytes of rows that may be gathered in memory, of which there is no more than the pool has.
    pub fn gathered_limit(&self) -> usize {
        within(&self.runtime.memory_pool, MAX_GATHERED, 8)
    }

    /// An empty reservation in the session's memory.
    pub fn reservation(&self) -> MemoryReservation {
        self.memory.new_empty()
    }

    /// Begins to encode and write a chunk, once the limits allow it. `held` is reserved for its rows.
    ///
    /// # Errors
    /// If there is not enough memory for it, or another chunk was not written.
    pub async fn begin(&mut self, part: ChunkPart, held: MemoryReservation) -> Result<()> {
        let (decoded, needed) = (part.decoded_bytes(), part.needed_bytes());
        let waiting = self.waiting.take(part.gathered).await?;
        // The codecs of zarrs copy the elements once.
        let in_work = needed.saturating_add(decoded).saturating_add(CODEC_BYTES);
        let mut permit = self.in_work.take(in_work).await?;
        let memory = self.memory.new_empty();
        while let Err(error) = memory.try_grow(needed) {
            match self.tasks.join_next().await {
                Some(done) => outcome(done)?,
                None => return Err(too_large(part.name(), part.shape(), decoded, error)),
            }
        }
        let (target, threads) = (Arc::clone(&self.target), Arc::clone(&self.threads));
        let (free, writers) = (Arc::clone(&self.free), Arc::clone(&self.writers));
        let in_work = self.in_work.clone();
        self.tasks.spawn(async move {
            let Ok(thread) = Arc::clone(&free).acquire_owned().await else {
                return stopped();
            };
            let key = part.key();
            // The rows are dropped when the chunk is assembled.
            let encode = move || part.encode(move || drop((waiting, held)));
            let encoded = threads.run(encode).await??;
            // Another chunk is encoded while this one is written.
            drop(thread);
            let Some(encoded) = encoded else {
                return Ok(());
            };
            in_work.shrink(&mut permit, encoded.len());
            memory.shrink(memory.size().saturating_sub(encoded.len()));
            let Ok(_writer) = writers.acquire().await else {
                return stopped();
            };
            if free.is_closed() {
                return stopped();
            }
            target.put(key, encoded).await?;
            drop((permit, memory));
            Ok(())
        });
        while let Some(done) = self.tasks.try_join_next() {
            outcome(done)?;
        }
        Ok(())
    }

    /// Waits for all chunks.
    ///
    /// # Errors
    /// If one was not encoded or written.
    pub async fn finish(&mut self) -> Result<()> {
        while let Some(done) = self.tasks.join_next().await {
            outcome(done)?;
        }
        Ok(())
    }

    /// Stops after an error: chunks that wait are dropped, and those that are being written are waited for.
    pub async fn stop(&mut self) {
        self.close();
        drain(&mut self.tasks).await;
    }

    fn close(&self) {
        self.free.close();
        self.writers.close();
        self.waiting.permits.close();
        self.in_work.permits.close();
    }
}

impl Drop for ChunkTasks {
    fn drop(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        // A statement that was cancelled. Its chunks hold the target, which cleans up when the last of them is written or dropped.
        self.close();
        let mut tasks = std::mem::take(&mut self.tasks);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { drain(&mut tasks).await });
        }
    }
}

/// Waits for the tasks, but not for ever.
async fn drain(tasks: &mut JoinSet<Result<()>>) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        tasks.shutdown().await;
    }
}

/// The permits of so many bytes, of `all`; no chunk has so few that there could be more than [`MAX_CHUNKS`].
fn permits_of(bytes: usize, all: usize) -> usize {
    (bytes / PERMIT + 1).max(all / MAX_CHUNKS).min(all)
}

/// So many bytes, or 1/`part` of the pool: the query needs half of it, too.
fn within(pool: &Arc<dyn MemoryPool>, bytes: usize, part: usize) -> usize {
    match pool.memory_limit() {
        MemoryLimit::Finite(limit) => bytes.min(limit / part),
        _ => bytes,
    }
}

fn outcome(done: std::result::Result<Result<()>, JoinError>) -> Result<()> {
    match done {
        Ok(done) => done,
        Err(error) => exec_err!("a chunk was not written: {error}"),
    }
}

fn stopped<T>() -> Result<T> {
    exec_err!("the statement was stopped")
}

fn too_large(
    array: &str,
    shape: &[u64],
    decoded: usize,
    error: DataFusionError,
) -> DataFusionError {
    error.context(format!(
        "array '{array}': there is not enough memory to encode a chunk of {shape:?} elements, which has {decoded} bytes and may need as many \
         again; set 'vcz.variants_chunk_size' or 'vcz.samples_chunk_size' to less"
    ))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn chunks_are_limited_by_bytes_and_by_number() {
        let all = MAX_IN_WORK / PERMIT;
        assert_eq!(all / permits_of(0, all), MAX_CHUNKS);
        assert_eq!(permits_of(usize::MAX, all), all);
        // Two chunks of the default shape, 1,000 × 10,000 diploid genotypes.
        assert!(permits_of(((3 * 20) << 20) + CODEC_BYTES, all) * 2 <= all);
        let pool = |limit| -> Arc<dyn MemoryPool> { Arc::new(GreedyMemoryPool::new(limit)) };
        assert_eq!(within(&pool(100), MAX_IN_WORK, 4), 25);
        assert_eq!(within(&pool(8 << 30), MAX_IN_WORK, 4), MAX_IN_WORK);
    }
}
