//! For tests: runs batches on the host, step by step as a device would, to test everything but CUDA, nvCOMP and the kernels
//! on machines without a device.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use super::abi::{BAD_CODE, BAD_FRAME};
use super::batch::{ALIGN, Batch, BatchLimits, ChunkJob, Times};
use super::call_filter::PlannedCallFilter;
use super::direct::{Storage, read_all};
use super::engine::{DeviceInfo, GpuEngine};
use super::executor::{Executor, Failure, Results};
use super::plan::tests::device::Device;
use super::plan::{BlockLocation, ChunkPlan, ChunkPlanner};
use super::slab::{Memory, Slab};
use super::watchdog::BatchProgress;
use super::work::{CountsOutput, ElementsOutput, WorkOutput};
use crate::counts::reference::{diploid_alleles, genotype_class};
use crate::counts::{FILL_CODE, GENOTYPE_CLASSES};
use crate::gpu::error::GpuError;
use crate::store::LocalFile;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Plain memory as a slab.
#[derive(Debug)]
struct Plain(*mut u8, usize);

// SAFETY: plain memory that is never freed.
unsafe impl Send for Plain {}
// SAFETY: as above.
unsafe impl Sync for Plain {}

// SAFETY: a leaked slice.
unsafe impl Memory for Plain {
    fn as_mut_ptr(&self) -> *mut u8 {
        self.0
    }

    fn len(&self) -> usize {
        self.1
    }
}

/// A slab of `len` bytes.
pub fn slab(len: usize) -> Slab {
    let bytes: &'static mut [u8] = Box::leak(vec![0; len].into_boxed_slice());
    Slab::new(Box::new(Plain(bytes.as_mut_ptr(), len)))
}

/// Runs batches on the host.
#[derive(Debug, Default)]
pub struct Software {
    bytes: Vec<u8>,
    statuses: Vec<u32>,
    lengths: Vec<usize>,
    /// Batches that have run.
    pub batches: Arc<AtomicUsize>,
    /// Fails instead of running the batch with this number; `true` loses the device.
    pub fails: Option<(usize, bool)>,
    /// Never returns from the batch with this number.
    pub hangs: Option<usize>,
    /// How often its probe was called.
    pub asked: Arc<AtomicUsize>,
    /// Delay before it reads files.
    pub slow_files: Duration,
    /// Decoded bytes that fit in its memory, if limited.
    pub memory: Option<usize>,
    unread: Vec<(usize, GpuError)>,
    /// Memory that a device would hold.
    pub held: Arc<AtomicUsize>,
    /// The maximum of that so far.
    pub most_held: Arc<AtomicUsize>,
}

impl Executor for Software {
    fn run(&mut self, batch: &Batch, progress: BatchProgress<'_>) -> Result<Results<'_>, Failure> {
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        match self.fails {
            Some((at, true)) if at == number => return Err(Failure::Device("on purpose".into())),
            Some((at, false)) if at == number => return Err(Failure::Batch("on purpose".into())),
            _ => {}
        }
        if self.memory.is_some_and(|memory| batch.decoded > memory) {
            return Err(Failure::Batch("no memory".into()));
        }
        let needed = batch.decoded * 5;
        self.held.fetch_max(needed, Ordering::Relaxed);
        self.most_held.fetch_max(needed, Ordering::Relaxed);
        self.bytes = vec![0xa5; batch.output];
        self.statuses.clear();
        self.lengths.clear();
        self.unread.clear();
        let mut read = vec![None; batch.jobs.len()];
        if batch.read > 0 {
            progress.reading_files();
            std::thread::sleep(self.slow_files);
        }
        let all = |_: &ChunkJob, file: &LocalFile, mut open: File| -> Result<_, GpuError> {
            let mut bytes = Vec::with_capacity(file.len());
            open.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
            match bytes.len() == file.len() {
                true => Ok(bytes),
                false => Err(format!("{} bytes came", bytes.len()).into()),
            }
        };
        for (at, bytes) in read_all(&batch.jobs, false, all) {
            match bytes {
                Ok(bytes) => read[at] = Some(bytes),
                Err(reason) => self.unread.push((at, reason)),
            }
        }
        let asked = Arc::clone(&self.asked);
        progress.waiting_for_device(Some(Box::new(move || {
            asked.fetch_add(1, Ordering::Relaxed);
            "the software is asked".to_string()
        })));
        while self.hangs == Some(number) {
            std::thread::park();
        }
        for (job, read) in batch.jobs.iter().zip(&read) {
            let out = &mut self.bytes[job.out.clone()];
            if job.file.is_some() {
                // A job that could not be read is in `unread` instead.
                let run = |read: &Vec<u8>| run(job, &[read.as_slice()], out);
                let (status, used) = read.as_ref().map_or((0, 0), run);
                self.statuses.push(status);
                self.lengths.push(job.results_len(used));
                continue;
            }
            let encoded: Vec<&[u8]> = job
                .pieces()
                // SAFETY: all chunks are staged.
                .map(|piece| &*unsafe { batch.staging(piece.src) }.unwrap())
                .collect();
            let (status, used) = run(job, &encoded, out);
            self.statuses.push(status);
            self.lengths.push(job.results_len(used));
        }
        Ok(Results {
            bytes: &self.bytes,
            statuses: &self.statuses,
            lengths: &self.lengths,
            unread: &self.unread,
            resident: vec![],
            times: Times {
                decode: Duration::from_micros(1),
                ..Times::default()
            },
        })
    }

    fn device_bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn release(&mut self) {
        self.held.store(0, Ordering::Relaxed);
    }
}

/// Runs a job of which these are the encoded pieces: its status, and the words of planes that it has used.
fn run(job: &ChunkJob, encoded: &[&[u8]], out: &mut [u8]) -> (u32, u32) {
    let planners = std::iter::once(&job.work.planner).chain(job.work.fields());
    let mut decoded = Vec::new();
    for ((piece, planner), encoded) in job.pieces().zip(planners).zip(encoded) {
        match decode(piece.plan, planner, encoded) {
            Some(elements) => decoded.push(elements),
            None => return (BAD_FRAME, 0),
        }
    }
    let (mut elements, fields) = (decoded.remove(0), decoded);
    let (samples, copies) = shape(&job.plan);
    if let Some(filter) = &job.work.filter {
        mask(filter, job, &fields, copies, &mut elements);
    }
    match &job.work.wanted {
        WorkOutput::Elements(wanted) => {
            gather(wanted, job, &elements, samples, copies, out);
            (0, 0)
        }
        WorkOutput::Counts(counts) => count(counts, job, &elements, samples, copies, out),
    }
}

/// All elements of a chunk in row-major order, little-endian; `None` if a frame is not as expected.
fn decode(plan: &ChunkPlan, planner: &ChunkPlanner, encoded: &[u8]) -> Option<Vec<u8>> {
    let width = planner.width();
    let device = Device::run(plan, encoded, width).ok()?;
    let (samples, copies) = shape(plan);
    let mut elements = device.elements(samples, copies, planner.chunk_len());
    if planner.big_endian() {
        elements.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    Some(elements)
}

/// Makes the copies of calls that fail missing, and checks the places where a device would put them.
fn mask(
    filter: &PlannedCallFilter,
    job: &ChunkJob,
    fields: &[Vec<u8>],
    copies: usize,
    elements: &mut [u8],
) {
    let width = job.work.planner.width();
    for (call, codes) in elements.chunks_exact_mut(copies * width).enumerate() {
        let passes = filter.tests().iter().all(|test| {
            let width = filter.fields()[test.field].width();
            let per_call = filter.fields()[test.field].grid().per_call as usize;
            let at = (call * per_call + test.at as usize) * width;
            let mut bits = [0; 8];
            bits[..width].copy_from_slice(&fields[test.field][at..at + width]);
            test.range.passes(u64::from_le_bytes(bits), width)
        });
        for at in (0..copies).filter(|_| !passes) {
            if code(codes, width, at) != FILL_CODE {
                codes[at * width..(at + 1) * width].fill(0xff);
            }
        }
    }
    let masked = job.masked.as_ref().unwrap();
    assert_eq!(masked.blocks.len(), job.plan.blocks.len());
    assert_eq!(masked.passes.len(), job.plan.tiles.len());
    let mut end = job
        .fields
        .last()
        .map_or(0, |field| field.dst + field.plan.decoded_len);
    let blocks = masked.blocks.iter().map(|block| match block.location {
        BlockLocation::Decoded(at) => (at, ChunkPlan::block_bytes(block, width)),
        other => panic!("filtered genotypes at {other:?}"),
    });
    let words = masked.passes.iter().zip(&job.plan.tiles).map(|(at, tile)| {
        let calls = (tile.rows * tile.samples) as usize;
        (*at, (calls / 32 + 1) * 4)
    });
    for (at, len) in words.chain(blocks) {
        assert!(at >= end && at % ALIGN == 0, "{at} before {end}");
        end = at + len;
    }
    assert!(end <= masked.end);
}

/// Stored samples of the chunk and elements of each.
fn shape(plan: &ChunkPlan) -> (usize, usize) {
    let samples = plan.tiles.iter().map(|tile| tile.sample0 + tile.samples);
    let copies = plan.tiles.iter().map(|tile| tile.copies);
    (
        samples.max().unwrap() as usize,
        copies.max().unwrap() as usize,
    )
}

fn gather(
    wanted: &ElementsOutput,
    job: &ChunkJob,
    elements: &[u8],
    samples: usize,
    copies: usize,
    out: &mut [u8],
) {
    let (width, inner) = (wanted.width, wanted.inner as usize);
    let mut out = out.chunks_exact_mut(inner * width);
    for row in 0..job.rows {
        for &sample in wanted.samples[job.sample_chunk].iter() {
            let at = (row * samples + sample as usize) * copies * width;
            out.next()
                .unwrap()
                .copy_from_slice(&elements[at..at + inner * width]);
        }
    }
}

fn code(elements: &[u8], width: usize, at: usize) -> i64 {
    let bytes = &elements[at * width..(at + 1) * width];
    let negative = bytes[width - 1] >= 0x80;
    let mut all = [if negative { 0xff } else { 0 }; 8];
    all[..width].copy_from_slice(bytes);
    i64::from_le_bytes(all)
}

fn count(
    counts: &CountsOutput,
    job: &ChunkJob,
    elements: &[u8],
    samples: usize,
    copies: usize,
    out: &mut [u8],
) -> (u32, u32) {
    let request = counts.request();
    let masks = counts.masks(job.sample_chunk).unwrap();
    let width = job.work.planner.width();
    let bit = |mask: usize, at: usize| masks.words[mask + at / 32] >> (at % 32) & 1 != 0;
    let words = masks.mask_words as usize;
    let layout = counts.layout(job.sample_chunk, job.rows).unwrap();
    let mut values = vec![0i32; layout.counts];
    let mut status = 0;
    for row in 0..job.rows {
        let of = |at: usize| code(elements, width, row * samples * copies + at);
        for at in 0..samples * copies {
            if bit(0, at) && of(at) >= request.n_alleles as i64 {
                status = BAD_CODE;
            }
        }
        for set in 0..request.alleles.len() {
            for at in (0..samples * copies).filter(|at| bit((1 + set) * words, *at)) {
                if let Some(allele) = usize::try_from(of(at))
                    .ok()
                    .filter(|a| *a < request.n_alleles)
                {
                    values[(set * job.rows + row) * request.n_alleles + allele] += 1;
                }
            }
        }
        let call = |sample: usize| -> Vec<i64> {
            let copies = (0..request.ploidy).map(|copy| of(sample * copies + copy));
            copies.collect()
        };
        let base = request.alleles.len() * job.rows * request.n_alleles;
        let mask_of =
            |set: usize| (1 + request.alleles.len()) * words + set * masks.sample_words as usize;
        for set in 0..request.genotypes.len() {
            let mask = mask_of(set);
            for sample in (0..samples).filter(|sample| bit(mask, *sample)) {
                let class = genotype_class(&call(sample));
                values[base + (set * job.rows + row) * GENOTYPE_CLASSES + class] += 1;
            }
        }
        let base = base + request.genotypes.len() * job.rows * GENOTYPE_CLASSES;
        let k = request.n_alleles;
        for set in 0..request.zygosity.len() {
            let mask = mask_of(request.genotypes.len() + set);
            let counts = &mut values[base + (set * job.rows + row) * 2 * k..][..2 * k];
            for sample in (0..samples).filter(|sample| bit(mask, *sample)) {
                match diploid_alleles(call(sample)) {
                    Some([first, second]) if first.max(second) >= k => {}
                    Some([first, second]) if first == second => counts[first] += 1,
                    Some(alleles) => alleles.iter().for_each(|allele| counts[k + allele] += 1),
                    None => {}
                }
            }
        }
    }
    let count_bytes = counts.width().bytes();
    for (to, value) in out.chunks_exact_mut(count_bytes).zip(values) {
        to.copy_from_slice(&value.to_le_bytes()[..count_bytes]);
    }
    let (mut used, element_width) = (0, width);
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    for (set, samples_of_set) in counts.planes(job.sample_chunk).iter().enumerate() {
        let width = layout.widths[set];
        let before = layout.widths[..set].iter().sum::<usize>() * layout.planes * job.rows;
        for row in 0..job.rows {
            let mut planes = vec![vec![0u64; width]; layout.planes];
            let copies = samples_of_set.iter().flat_map(|sample| {
                let first = row * samples * copies + *sample as usize * copies;
                first..first + request.ploidy
            });
            for (at, element) in copies.enumerate() {
                let code = code(elements, element_width, element);
                let bits = match code {
                    -2 => 2 << (layout.planes - 2),
                    0.. => code,
                    _ => 1 << (layout.planes - 2),
                };
                for (plane, words) in planes.iter_mut().enumerate() {
                    words[at / 64] |= ((bits >> plane & 1) as u64) << (at % 64);
                }
            }
            let is_empty = |words: &Vec<u64>| words.iter().all(|word| *word == 0);
            let (mut stored, mut place) = (0u32, used);
            if job.plan.shared_rows {
                place = before + row * layout.planes * width;
            }
            for (plane, words) in planes.iter().enumerate() {
                if job.plan.shared_rows || !is_empty(words) {
                    let at = place + stored.count_ones() as usize * width;
                    stored |= 1 << plane;
                    put(layout.data + at * 8, bytemuck::cast_slice(words));
                }
            }
            if !job.plan.shared_rows {
                used += stored.count_ones() as usize * width;
            }
            let at = layout.entries + (set * job.rows + row) * 8;
            put(at, bytemuck::cast_slice(&[stored, place as u32]));
        }
    }
    (status, used as u32)
}

/// Reads files as the host does.
#[derive(Debug)]
pub struct Files;

impl Storage for Files {
    fn is_direct(&self) -> bool {
        false
    }

    fn prepare(&self) -> Result<(), GpuError> {
        Ok(())
    }
}

/// An engine of `workers` software workers with small slabs, which make many batches.
pub fn engine(workers: usize, slab_len: usize) -> Arc<GpuEngine> {
    let executors = (0..workers)
        .map(|_| (0, Box::new(Software::default()) as Box<dyn Executor>))
        .collect();
    engine_of(executors, slab_len)
}

/// An engine of these workers.
pub fn engine_of(workers: Vec<(usize, Box<dyn Executor>)>, slab_len: usize) -> Arc<GpuEngine> {
    let device = DeviceInfo {
        ordinal: 0,
        name: "software".to_string(),
        memory: 1 << 33,
    };
    let slabs = (0..3).map(|_| slab(slab_len)).collect();
    let limits = BatchLimits {
        decoded: 64 << 20,
        output: 16 << 20,
    };
    Arc::new(
        GpuEngine::with_workers(
            slabs,
            vec![device],
            workers,
            limits,
            None,
            Arc::new(Files),
            Duration::from_secs(60),
        )
        .unwrap(),
    )
}
