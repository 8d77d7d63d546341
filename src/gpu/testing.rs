//! For tests: work on small chunks of genotypes, and its expected results.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use serde_json::{Value, json};

use super::batch::Outcome;
use super::batch::Ticket;
use super::encoded::Encoded;
use super::plan::ChunkPlanner;
use super::queue::Queue;
use super::work::{CountsOutput, ElementsOutput, Work, WorkOutput};
use crate::codec::CodecChain;
use crate::codec::testing::{noise, one_chunk};
use crate::counts::{CountRequest, SampleSet, reference};
use crate::gpu::error::GpuError;
use crate::store::{LocalFile, OpenChunk};

/// Counts of alleles 0 and 1 of all samples, in uncompressed chunks of diploid genotypes.
pub fn plain(rows: usize, samples: usize) -> Arc<Work> {
    counted(rows, samples, &json!([{"name": "bytes"}]))
}

/// The same, in chunks that are one zstd frame.
pub fn zstd(rows: usize, samples: usize) -> Arc<Work> {
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    counted(rows, samples, &json!([{"name": "bytes"}, zstd]))
}

fn counted(rows: usize, samples: usize, codecs: &Value) -> Arc<Work> {
    let array = one_chunk(&json!("int8"), json!(0), &[rows, samples, 2], codecs);
    let chain = CodecChain::try_new(&array).unwrap();
    // Four bytes a count, as where tiles share rows.
    let counts = CountsOutput::try_new(request(samples), samples, 2, true).unwrap();
    Arc::new(Work {
        planner: ChunkPlanner::try_new(&array, &chain).unwrap(),
        filter: None,
        sizes: Arc::default(),
        wanted: WorkOutput::Counts(counts),
    })
}

/// All elements of such chunks.
pub fn elements(rows: usize, samples: usize) -> Arc<Work> {
    let all = ElementsOutput {
        samples: vec![Arc::new((0..samples as u32).collect())],
        inner: 2,
        width: 1,
    };
    Arc::new(Work {
        planner: plain(rows, samples).planner.clone(),
        filter: None,
        sizes: Arc::default(),
        wanted: WorkOutput::Elements(all),
    })
}

fn request(samples: usize) -> CountRequest {
    CountRequest {
        alleles: vec![Arc::new(SampleSet::all(samples as u32))],
        genotypes: vec![],
        zygosity: vec![],
        planes: vec![],
        n_alleles: 2,
        n_samples: samples,
        ploidy: 2,
    }
}

/// A chunk of [`plain`], different for each seed, and its counts.
pub fn chunk(rows: usize, samples: usize, seed: u64) -> (Vec<u8>, Vec<i32>) {
    let codes: Vec<u8> = noise(rows * samples * 2, seed.wrapping_mul(2) + 1)
        .iter()
        .map(|byte| if *byte < 20 { 255 } else { byte & 1 })
        .collect();
    let wide: Vec<i64> = codes.iter().map(|code| i64::from(*code as i8)).collect();
    let counts = reference::count(&request(samples), &wide, rows).unwrap();
    (codes, counts.alleles.iter().collect::<Vec<_>>().concat())
}

impl Queue {
    /// Stages one chunk.
    pub async fn submit(
        self: &Arc<Self>,
        work: &Arc<Work>,
        sample_chunk: usize,
        rows: usize,
        bytes: &[u8],
    ) -> Result<Ticket, GpuError> {
        let chunk = Encoded {
            work,
            sample_chunk,
            rows,
            chunk: Some(&OpenChunk::Bytes(Bytes::copy_from_slice(bytes))),
            fields: &[],
        };
        self.submit_all(&[chunk]).await.remove(0)
    }

    /// Stages chunks under one lock, as a scan does with chunks that it fetched together.
    pub async fn submit_together(
        self: &Arc<Self>,
        work: &Arc<Work>,
        rows: usize,
        chunks: impl Iterator<Item = &[u8]>,
    ) -> Vec<Ticket> {
        let chunks: Vec<_> = chunks
            .map(|bytes| OpenChunk::Bytes(Bytes::copy_from_slice(bytes)))
            .collect();
        let encoded = |chunk| Encoded {
            work,
            sample_chunk: 0,
            rows,
            chunk: Some(chunk),
            fields: &[],
        };
        let encoded: Vec<_> = chunks.iter().map(encoded).collect();
        let tickets = self.submit_all(&encoded).await.into_iter();
        tickets.map(Result::unwrap).collect()
    }
}

/// The counts of an outcome that must have counts.
pub fn counts(outcome: Outcome) -> Vec<i32> {
    match outcome {
        Outcome::Done(done) => done.bytes.typed_data().to_vec(),
        Outcome::Host(reason) => panic!("rejected: {reason}"),
    }
}

/// The reason of an outcome that must be for the host.
pub fn reason(outcome: Outcome) -> GpuError {
    match outcome {
        Outcome::Host(reason) => reason,
        Outcome::Done(_) => panic!("done by the device, not rejected"),
    }
}

/// A local file, looked up outside of the test's runtime.
pub fn find(path: PathBuf) -> Option<LocalFile> {
    let found = || futures::executor::block_on(LocalFile::find(path)).unwrap();
    thread::scope(|scope| scope.spawn(found).join().unwrap())
}
