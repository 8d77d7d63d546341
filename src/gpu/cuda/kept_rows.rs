//! [`KeptRows`]: memory for the rows of a batch that may stay on the device.

use std::sync::Arc;

use super::resident::{ChunkOnDevice, ResidentPool};
use crate::counts::ResidentChunk;
use crate::gpu::batch::ChunkJob;
use crate::gpu::work::WorkOutput;

/// The memory of all jobs of a batch.
pub(super) struct KeptRows {
    pub(super) address: u64,
    pub(super) bytes: usize,
    /// For each job the address of its rows, or 0.
    pub(super) of_jobs: Vec<u64>,
    /// For each job its rows.
    pub(super) chunks: Vec<Option<ResidentChunk>>,
}

impl KeptRows {
    /// Memory of `pool` for the jobs whose rows may stay on its device; `None` if there are none, or there is too little.
    pub(super) fn try_new(pool: &Arc<ResidentPool>, jobs: &[ChunkJob]) -> Option<Self> {
        let mut places = Vec::with_capacity(jobs.len());
        let mut end = 0usize;
        for job in jobs {
            let widths = match &job.work.wanted {
                WorkOutput::Counts(counts) if pool.is_among(counts.keeps_rows().unwrap_or(0)) => {
                    Some(counts.layout(job.sample_chunk, 1)?.widths)
                }
                _ => None,
            };
            let start = end;
            if let Some(widths) = &widths {
                end = end.checked_add(ChunkOnDevice::bytes(job.rows, widths)?)?;
            }
            places.push((start, widths));
        }
        if end == 0 {
            return None;
        }
        let memory = Arc::new(pool.take(end)?);
        let mut kept = Self {
            address: memory.address(),
            bytes: end,
            of_jobs: Vec::with_capacity(jobs.len()),
            chunks: Vec::with_capacity(jobs.len()),
        };
        for (job, (start, widths)) in jobs.iter().zip(places) {
            let address = kept.address + start as u64;
            kept.of_jobs.push(widths.as_ref().map_or(0, |_| address));
            kept.chunks.push(widths.map(|widths| {
                let chunk = ChunkOnDevice::new(&memory, start, job.rows, widths);
                ResidentChunk(Arc::new(chunk))
            }));
        }
        Some(kept)
    }
}
