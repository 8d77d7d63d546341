//! Chunks that a worker reads from their files instead of from staging memory: directly into device memory where the machine
//! supports it (GPUDirect Storage). `cuda` implements [`Storage`] with cuFile.

use std::fs::File;
use std::thread;

use super::batch::ChunkJob;
use crate::gpu::error::GpuError;
use crate::store::LocalFile;

/// Threads that read the files of a batch.
const READERS: usize = 8;

/// Reads files into device memory.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Whether it reads directly and not through host memory. Cheap where direct storage is not available.
    fn is_direct(&self) -> bool;

    /// Prepares it, for direct reads or not.
    ///
    /// # Errors
    /// Why it is not available.
    fn prepare(&self) -> Result<(), GpuError>;
}

/// Opens the files of the jobs that have one and calls `read` on each, several at a time. Returns its results by job. A file
/// that is gone or has changed its length is an error.
pub fn read_all<T: Send>(
    jobs: &[ChunkJob],
    direct: bool,
    read: impl Fn(&ChunkJob, &LocalFile, File) -> Result<T, GpuError> + Sync,
) -> Vec<(usize, Result<T, GpuError>)> {
    let files: Vec<_> = jobs
        .iter()
        .enumerate()
        .filter_map(|(at, job)| Some((at, job, job.file.as_ref()?)))
        .collect();
    if files.is_empty() {
        return Vec::new();
    }
    let each = files.len().div_ceil(READERS);
    thread::scope(|scope| {
        let parts: Vec<_> = files
            .chunks(each)
            .map(|part| {
                let read = &read;
                scope.spawn(move || {
                    let one = |(at, job, file): &(usize, &ChunkJob, &LocalFile)| {
                        let done = file
                            .open(direct)
                            .map_err(GpuError::from)
                            .and_then(|open| read(job, file, open));
                        (*at, done)
                    };
                    part.iter().map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut results = Vec::with_capacity(files.len());
        for (part, reader) in files.chunks(each).zip(parts) {
            results.extend(reader.join().unwrap_or_else(|_| {
                let failed = || Err("the thread that read it panicked".into());
                part.iter().map(|(at, ..)| (*at, failed())).collect()
            }));
        }
        results
    })
}
