//! Times for one encoded chunk of genotypes, by codec and kind of calls: parsing its container, decoding it, counting it.
//! `cargo bench --bench count --profile dev --config 'profile.dev.package.datafusion-vcz.opt-level=3'`.
//!
//! The chunk has 1,000 variants of 1,470 diploids. The haplotypes are in a random order that changes along the chunk, and each
//! variant's carriers are consecutive in it, so the calls compress about as well as real ones. Throughput is in calls.

use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use datafusion_vcz::codec::blosc::{self, BloscHeader};
use datafusion_vcz::codec::zstd::frame::FrameSummary;
use datafusion_vcz::codec::{CodecChain, Scratch};
use datafusion_vcz::counts::{ChunkCounts, CountRequest, CountScratch, Counter, SampleSet};
use datafusion_vcz::store::ArrayMeta;
use serde_json::{Value, json};

const VARIANTS: usize = 1_000;
const SAMPLES: usize = 1_470;
const PLOIDY: usize = 2;
const ROW: usize = SAMPLES * PLOIDY;

/// xorshift64*
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n as u64) as usize
    }
}

/// Calls with `missing` of a thousand individuals missing, and a second derived allele at `multiallelic` of a thousand variants.
fn calls(missing: usize, multiallelic: usize) -> Vec<u8> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut order: Vec<usize> = (0..ROW).collect();
    for i in (1..ROW).rev() {
        order.swap(i, noise.below(i + 1));
    }
    let mut codes = vec![0u8; VARIANTS * ROW];
    for row in codes.chunks_exact_mut(ROW) {
        // Half of the variants have one or two carriers; the numbers of the others are log-uniform.
        let carriers = (1 + noise.below(3)).pow(1 + noise.below(6) as u32).min(ROW);
        let start = noise.below(ROW - carriers + 1);
        let two = noise.below(1_000) < multiallelic;
        for &copy in &order[start..start + carriers] {
            row[copy] = if two { 1 + noise.below(2) as u8 } else { 1 };
        }
        for call in row.chunks_exact_mut(PLOIDY) {
            if missing > 0 && noise.below(1_000) < missing {
                call.fill(0xff);
            }
        }
        order.swap(noise.below(ROW), noise.below(ROW));
    }
    codes
}

/// A Blosc container with the parameters of bio2zarr, except for the compressor and the shuffle.
fn blosc_container(data: &[u8], compressor: &str, shuffle: i32) -> Vec<u8> {
    let name = CString::new(compressor).expect("a name without zeros");
    let mut out = vec![0u8; data.len() + blosc::HEADER_LEN];
    // SAFETY: both buffers are valid for the lengths given, and the name ends in a zero byte.
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            7,
            shuffle,
            1,
            data.len(),
            data.as_ptr().cast::<c_void>(),
            out.as_mut_ptr().cast::<c_void>(),
            out.len(),
            name.as_ptr(),
            0,
            1,
        )
    };
    assert!(written > 0, "{compressor}");
    out.truncate(written as usize);
    out
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(5));
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

/// The codecs by name: v2 `compressor`, and the encoded chunk.
fn codecs(data: &[u8]) -> Vec<(&'static str, Value, Vec<u8>)> {
    let blosc = |name: &str, shuffle: i32| {
        let meta =
            json!({"id": "blosc", "cname": name, "clevel": 7, "shuffle": shuffle, "blocksize": 0});
        (meta, blosc_container(data, name, shuffle))
    };
    let mut all = vec![];
    for (label, name, shuffle) in [
        ("blosc_zstd_bitshuffle", "zstd", 2),
        ("blosc_zstd_noshuffle", "zstd", 0),
        ("blosc_lz4_bitshuffle", "lz4", 2),
        ("blosc_zlib_bitshuffle", "zlib", 2),
    ] {
        let (meta, encoded) = blosc(name, shuffle);
        all.push((label, meta, encoded));
    }
    let zstd = zstd::bulk::compress(data, 3).expect("memory");
    all.push(("zstd", json!({"id": "zstd", "level": 3}), zstd));
    all.push(("gzip", json!({"id": "gzip", "level": 5}), gzip(data)));
    all.push(("uncompressed", Value::Null, data.to_vec()));
    all
}

fn array(compressor: &Value) -> ArrayMeta {
    let zarray = json!({
        "zarr_format": 2, "shape": [VARIANTS, SAMPLES, PLOIDY], "chunks": [VARIANTS, SAMPLES, PLOIDY], "dtype": "|i1",
        "compressor": compressor, "filters": null, "order": "C", "fill_value": null
    });
    let attributes = json!({"_ARRAY_DIMENSIONS": ["variants", "samples", "ploidy"]});
    ArrayMeta::from_v2("call_genotype", &zarray, Some(attributes)).expect("an array")
}

/// `n` populations of equal size, of neighbouring samples.
fn populations(n: usize) -> Vec<Arc<SampleSet>> {
    let size = SAMPLES / n;
    let members = |i: usize| (i * size) as u32..((i + 1) * size) as u32;
    (0..n)
        .map(|i| Arc::new(SampleSet::new(members(i).collect())))
        .collect()
}

fn benches(c: &mut Criterion) {
    let kinds = [
        ("biallelic", calls(0, 0)),
        ("missing_5_multiallelic_3", calls(50, 30)),
    ];
    let length = Throughput::Elements((VARIANTS * ROW) as u64);

    let mut group = c.benchmark_group("parse");
    for (kind, data) in &kinds {
        let container = blosc_container(data, "zstd", 2);
        group.bench_function(*kind, |b| b.iter(|| parse(black_box(&container))));
    }
    group.finish();

    for (kind, data) in &kinds {
        let mut decode = c.benchmark_group(format!("decode/{kind}"));
        decode
            .throughput(length.clone())
            .measurement_time(Duration::from_secs(2));
        for (codec, compressor, encoded) in codecs(data) {
            let chain = CodecChain::try_new(&array(&compressor)).expect("a chain");
            let mut scratch = Scratch::default();
            decode.bench_function(codec, |b| {
                b.iter(|| {
                    chain
                        .decode(black_box(&encoded), &mut scratch)
                        .expect("a chunk")
                })
            });
        }
        decode.finish();

        let mut count = c.benchmark_group(format!("count/{kind}"));
        count
            .throughput(length.clone())
            .measurement_time(Duration::from_secs(2));
        for (codec, compressor, encoded) in codecs(data) {
            for n in [1, 2, 10, 100] {
                // The cost of more populations does not depend on the codec.
                if n == 2 || codec == "blosc_zstd_bitshuffle" {
                    let id = BenchmarkId::new(codec, format!("{n}_populations"));
                    let counting = Counting::new(&compressor, populations(n), vec![]);
                    count.bench_function(id, |b| counting.bench(b, &encoded));
                }
            }
            if codec == "blosc_zstd_bitshuffle" {
                let id = BenchmarkId::new(codec, "genotype_counts");
                let counting = Counting::new(&compressor, vec![], populations(2));
                count.bench_function(id, |b| counting.bench(b, &encoded));
            }
        }
        count.finish();
    }
}

/// Parses the container's header and the block headers of every frame in it, as is done before decoding.
fn parse(container: &[u8]) -> u64 {
    let header = BloscHeader::parse(container).expect("a container");
    let mut zeros = 0;
    for i in 0..header.n_blocks() {
        for split in header.splits(container, i).expect("a block") {
            let split = split.expect("a split");
            if !split.stored {
                zeros += FrameSummary::parse(split.payload)
                    .expect("a frame")
                    .zero_tail;
            }
        }
    }
    zeros
}

struct Counting {
    array: ArrayMeta,
    chain: CodecChain,
    counter: Counter,
}

impl Counting {
    fn new(
        compressor: &Value,
        alleles: Vec<Arc<SampleSet>>,
        genotypes: Vec<Arc<SampleSet>>,
    ) -> Self {
        let array = array(compressor);
        let request = CountRequest {
            alleles,
            genotypes,
            zygosity: vec![],
            planes: vec![],
            n_alleles: 3,
            n_samples: SAMPLES,
            ploidy: PLOIDY,
        };
        Self {
            chain: CodecChain::try_new(&array).expect("a chain"),
            counter: Counter::try_new(request, SAMPLES).expect("a counter"),
            array,
        }
    }

    fn bench(&self, b: &mut criterion::Bencher, encoded: &[u8]) {
        let (mut counts, mut scratch) = (ChunkCounts::default(), CountScratch::default());
        b.iter(|| {
            counts
                .reset(self.counter.request(), VARIANTS)
                .expect("memory");
            self.counter
                .add_chunk(
                    &self.chain,
                    &self.array,
                    Some(black_box(encoded)),
                    0,
                    VARIANTS,
                    &mut counts,
                    &mut scratch,
                )
                .expect("a chunk");
        })
    }
}

criterion_group!(count, benches);
criterion_main!(count);
