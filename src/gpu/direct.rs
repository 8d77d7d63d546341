//! Chunks that a worker reads from their files itself, straight into the memory of its device where the machine can do that
//! (GPUDirect Storage), instead of finding them staged. Between the queue and what reads; knows nothing of cuFile.

use std::fs::File;
use std::thread;

use super::batch::Job;
use crate::store::LocalFile;

/// Threads that read the files of a batch.
const READERS: usize = 8;

/// What reads files into the memory of devices.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Whether it does so straight, and not by way of the host. Cheap where there is nothing.
    fn is_direct(&self) -> bool;

    /// Makes it ready, straight or not.
    ///
    /// # Errors
    /// Why that cannot be.
    fn prepare(&self) -> Result<(), String>;
}

/// Opens the files of those jobs that have one and reads them by `read`, several at a time: what it gave, by job. Files that are
/// gone or have another length by now are refused.
pub fn read_all<T: Send>(
    jobs: &[Job],
    direct: bool,
    read: impl Fn(&Job, &LocalFile, File) -> Result<T, String> + Sync,
) -> Vec<(usize, Result<T, String>)> {
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
                    let one = |(at, job, file): &(usize, &Job, &LocalFile)| {
                        let done = file.open(direct).and_then(|open| read(job, file, open));
                        (*at, done)
                    };
                    part.iter().map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut results = Vec::with_capacity(files.len());
        for (part, reader) in files.chunks(each).zip(parts) {
            results.extend(reader.join().unwrap_or_else(|_| {
                let failed = || Err("the thread that read it has failed".to_string());
                part.iter().map(|(at, ..)| (*at, failed())).collect()
            }));
        }
        results
    })
}
