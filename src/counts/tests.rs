//! Compares every counting path with the reference implementation: bytes and bit-planes, on every instruction set of the host.

use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::lanes::Level;
use super::*;
use crate::codec::CodecChain;
use crate::store::{ArrayMeta, ElementType};

#[path = "chunk_tests.rs"]
mod chunks;

/// What a row of genotypes looks like: each has its own path.
#[derive(Debug, Clone, Copy)]
enum RowKind {
    Reference,
    Biallelic,
    Multiallelic,
    Missing,
    MixedPloidy,
    Anything,
}

#[derive(Debug, Clone)]
struct Case {
    n_samples: usize,
    ploidy: usize,
    n_alleles: usize,
    rows: usize,
    chunk_samples: usize,
    chunk_rows: usize,
    /// A code of K somewhere.
    bad: bool,
    /// NumPy's name of the element type.
    dtype: &'static str,
    kinds: Vec<RowKind>,
    /// One call in so many is missing.
    lost_in: u64,
    /// Padding is 0, not codes that are too large.
    tidy: bool,
    alleles: Vec<Arc<SampleSet>>,
    genotypes: Vec<Arc<SampleSet>>,
    zygosity: Vec<Arc<SampleSet>>,
    planes: Vec<Arc<SampleSet>>,
    compressor: &'static str,
    shuffle: c_int,
    level: c_int,
    typesize: usize,
    blocksize: usize,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let kind = prop::sample::select(vec![
        RowKind::Reference,
        RowKind::Biallelic,
        RowKind::Biallelic,
        RowKind::Multiallelic,
        RowKind::Missing,
        RowKind::MixedPloidy,
        RowKind::Anything,
    ]);
    let shape = (
        prop_oneof![1usize..40, 30usize..400],
        prop::sample::select(vec![1usize, 2, 2, 2, 3, 4, 5]),
        prop::sample::select(vec![1usize, 2, 2, 3, 4, 7, 64, 126, 127, 128, 200]),
        1usize..50,
        prop_oneof![Just(7usize), 1usize..50, Just(1000)],
        0usize..4,
        prop::bool::weighted(0.1),
        prop::sample::select(vec!["|i1", "|i1", "|i1", "<i2", "<i4", "<i8", ">i2"]),
    );
    let form = (
        prop::sample::select(vec![
            "blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd", "zstd",
        ]),
        prop::sample::select(vec![0, 1, 2, 2, 2]),
        0..=9,
        prop::sample::select(vec![1usize, 1, 1, 2, 3]),
        prop::sample::select(vec![0usize, 0, 128, 136, 160, 1000, 1001, 4096, 10_000]),
    );
    let kinds = (
        prop::collection::vec(kind, 1..6),
        prop::sample::select(vec![2u64, 8, 8, 30, 300]),
    );
    (shape, form, kinds, any::<u64>()).prop_flat_map(|(shape, form, (kinds, lost_in), seed)| {
        let (n_samples, ploidy, n_alleles, rows, chunk_samples, more_rows, bad, dtype) = shape;
        let (compressor, shuffle, level, typesize, blocksize) = form;
        let one = prop_oneof![
            Just(SampleSet::all(n_samples as u32)),
            prop::collection::vec(0..n_samples as u32, 1..12).prop_map(SampleSet::new),
            (0..n_samples as u32, 1..n_samples as u32 + 1).prop_map(move |(from, n)| {
                SampleSet::new((from..(from + n).min(n_samples as u32)).collect())
            }),
        ];
        let sets = || prop::collection::vec(one.clone().prop_map(Arc::new), 0..4);
        // Many sets that share no sample, and everyone.
        let tiles = prop::collection::vec(0..40usize, n_samples).prop_map(move |tiles| {
            let tile = |tile: usize| {
                let samples = (0..n_samples).filter(|&sample| tiles[sample] == tile);
                SampleSet::new(samples.map(|sample| sample as u32).collect())
            };
            let all = SampleSet::all(n_samples as u32);
            (0..40).map(tile).chain([all]).map(Arc::new).collect()
        });
        let alleles = prop_oneof![3 => sets(), 1 => tiles];
        (alleles, sets(), sets(), sets()).prop_map(move |(alleles, genotypes, zygosity, planes)| {
            Case {
                n_samples,
                ploidy,
                n_alleles,
                rows,
                // Few chunks, so that cases stay small.
                chunk_samples: chunk_samples.max(n_samples / 12),
                chunk_rows: rows + more_rows,
                bad,
                dtype,
                kinds: kinds.clone(),
                lost_in,
                tidy: false,
                alleles,
                genotypes,
                zygosity,
                planes,
                compressor,
                shuffle,
                level,
                typesize,
                blocksize,
                seed,
            }
        })
    })
}

/// xorshift64*
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

impl Case {
    fn request(&self) -> CountRequest {
        CountRequest {
            alleles: self.alleles.clone(),
            genotypes: self.genotypes.clone(),
            zygosity: self.zygosity.clone(),
            planes: self.planes.clone(),
            n_alleles: self.n_alleles,
            n_samples: self.n_samples,
            ploidy: self.ploidy,
        }
    }

    /// Largest code of the element type that is below K.
    fn max_code(&self) -> u64 {
        let widest = if self.dtype.ends_with('1') {
            127
        } else {
            30_000
        };
        (self.n_alleles as u64 - 1).min(widest)
    }

    fn codes(&self) -> Vec<i64> {
        let mut noise = Noise(self.seed | 1);
        let top = self.max_code();
        let mut codes = Vec::new();
        for row in 0..self.rows {
            let kind = self.kinds[row % self.kinds.len()];
            for _ in 0..self.n_samples {
                let lost = noise.below(self.lost_in) == 0;
                let haploid = noise.below(4) == 0;
                for copy in 0..self.ploidy {
                    let alt = (noise.below(4) == 0) as u64;
                    codes.push(match kind {
                        RowKind::Reference => 0,
                        RowKind::Biallelic => alt.min(top) as i64,
                        RowKind::Multiallelic => (alt * noise.below(top + 1)) as i64,
                        RowKind::Missing if lost => -1,
                        RowKind::Missing => alt.min(top) as i64,
                        RowKind::MixedPloidy if haploid && copy > 0 => -2,
                        RowKind::MixedPloidy if lost => -1,
                        RowKind::MixedPloidy => alt.min(top) as i64,
                        RowKind::Anything => noise.below(top + 6) as i64 - 5,
                    });
                }
            }
        }
        if self.bad && self.n_alleles <= 127 {
            let at = noise.below(codes.len() as u64) as usize;
            codes[at] = self.n_alleles as i64;
        }
        codes
    }

    fn encode(&self, codes: impl Iterator<Item = i64>) -> Vec<u8> {
        match self.dtype {
            "|i1" => codes.map(|c| c as i8 as u8).collect(),
            "<i2" => codes.flat_map(|c| (c as i16).to_le_bytes()).collect(),
            ">i2" => codes.flat_map(|c| (c as i16).to_be_bytes()).collect(),
            "<i4" => codes.flat_map(|c| (c as i32).to_le_bytes()).collect(),
            "<i8" => codes.flat_map(|c| c.to_le_bytes()).collect(),
            other => unreachable!("{other}"),
        }
    }

    /// One chunk with padding that must not be read: codes that are too large, and negative ones.
    fn chunk(&self, codes: &[i64], chunk: usize) -> Vec<u8> {
        let mut padded = Vec::new();
        for row in 0..self.chunk_rows {
            for s in chunk * self.chunk_samples..(chunk + 1) * self.chunk_samples {
                for copy in 0..self.ploidy {
                    let inside = row < self.rows && s < self.n_samples;
                    padded.push(if inside {
                        codes[(row * self.n_samples + s) * self.ploidy + copy]
                    } else if self.tidy {
                        0
                    } else {
                        [127, -2, 0, -1][(row + s + copy) % 4]
                    });
                }
            }
        }
        c_blosc(&self.encode(padded.into_iter()), self)
    }

    fn array(&self) -> ArrayMeta {
        let zarray = json!({
            "zarr_format": 2, "shape": [self.rows, self.n_samples, self.ploidy],
            "chunks": [self.chunk_rows, self.chunk_samples, self.ploidy],
            "dtype": self.dtype, "fill_value": null, "order": "C", "filters": null,
            "compressor": {"id": "blosc", "cname": self.compressor, "clevel": self.level,
                           "shuffle": self.shuffle, "blocksize": self.blocksize},
        });
        ArrayMeta::from_v2("call_genotype", &zarray, None).unwrap()
    }

    /// Counts through encoded chunks.
    fn by_chunks(&self, level: Level, codes: &[i64]) -> Result<ChunkCounts, CountError> {
        let array = self.array();
        let chain = CodecChain::try_new(&array).unwrap();
        let counter = Counter::with_level(self.request(), self.chunk_samples, level)?;
        let (mut out, mut scratch) = (ChunkCounts::default(), CountScratch::default());
        out.reset(counter.request(), self.rows)?;
        for &chunk in counter.wanted_sample_chunks() {
            let encoded = self.chunk(codes, chunk);
            counter.add_chunk(
                &chain,
                &array,
                Some(&encoded),
                chunk,
                self.rows,
                &mut out,
                &mut scratch,
            )?;
        }
        Ok(out)
    }

    /// Counts a decoded matrix.
    fn by_matrix(&self, level: Level, codes: &[i64]) -> Result<ChunkCounts, CountError> {
        let (elements, element): (Vec<u8>, _) = match self.dtype {
            "|i1" => (
                codes.iter().map(|&c| c as i8 as u8).collect(),
                ElementType::Int8,
            ),
            "<i2" | ">i2" => (
                codes
                    .iter()
                    .flat_map(|&c| (c as i16).to_ne_bytes())
                    .collect(),
                ElementType::Int16,
            ),
            "<i4" => (
                codes
                    .iter()
                    .flat_map(|&c| (c as i32).to_ne_bytes())
                    .collect(),
                ElementType::Int32,
            ),
            _ => (
                codes.iter().flat_map(|&c| c.to_ne_bytes()).collect(),
                ElementType::Int64,
            ),
        };
        let counter = Counter::with_level(self.request(), self.chunk_samples, level)?;
        let mut out = ChunkCounts::default();
        out.reset(counter.request(), self.rows)?;
        // In two pieces, as a scan that filters calls does.
        let mut scratch = CountScratch::default();
        let middle = self.rows / 3;
        let (first, second) = elements.split_at(elements.len() / self.rows.max(1) * middle);
        counter.add_dense(first, element, 0..middle, &mut out, &mut scratch)?;
        counter.add_dense(second, element, middle..self.rows, &mut out, &mut scratch)?;
        Ok(out)
    }
}

fn c_blosc(data: &[u8], case: &Case) -> Vec<u8> {
    let name = CString::new(case.compressor).unwrap();
    let mut out = vec![0u8; data.len() + 16];
    // SAFETY: both buffers are valid for the lengths given, and the name ends in a zero byte.
    #[allow(unsafe_code)]
    let written = unsafe {
        blosc_src::blosc_compress_ctx(
            case.level,
            case.shuffle,
            case.typesize,
            data.len(),
            data.as_ptr().cast::<c_void>(),
            out.as_mut_ptr().cast::<c_void>(),
            out.len(),
            name.as_ptr(),
            case.blocksize,
            1,
        )
    };
    assert!(written > 0);
    out.truncate(written as usize);
    out
}

/// Every path on every instruction set against the plain implementation.
fn check(case: &Case) -> Result<(), TestCaseError> {
    let codes = case.codes();
    let expected = reference::count(&case.request(), &codes, case.rows);
    for level in Level::available() {
        for (path, found) in [
            ("chunks", case.by_chunks(level, &codes)),
            ("matrix", case.by_matrix(level, &codes)),
        ] {
            match (&found, &expected) {
                // There is at most one bad code, so the messages are the same.
                (Ok(found), Ok(expected)) => {
                    prop_assert_eq!(found, expected, "{} {:?}", path, level)
                }
                (Err(found), Err(expected)) => {
                    prop_assert_eq!(found, expected, "{} {:?}", path, level)
                }
                _ => prop_assert!(false, "{path} {level:?}: {found:?}, expected {expected:?}"),
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn every_path_equals_the_reference(case in case()) {
        check(&case)?;
    }

    #[test]
    fn rows_may_straddle_bytes_and_blocks(
        case in case(),
        blocksize in prop::sample::select(vec![128usize, 136, 152, 1000]),
        compressor in prop::sample::select(vec!["lz4", "zstd"]),
    ) {
        // Always bit-planes, and mostly many blocks.
        let chunk_samples = case.chunk_samples.max(case.n_samples / 2);
        check(&Case {
            dtype: "|i1", compressor, shuffle: 2, level: 5, typesize: 1, blocksize, chunk_samples, ..case
        })?;
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Blocks so long that their zstd frames are cut, before zeros or before planes that repeat.
    #[test]
    fn frames_that_are_cut(
        case in case(), n_samples in 200usize..1500, chunks in 1usize..3, tidy in prop::bool::weighted(0.8),
        blocksize in prop::sample::select(vec![0usize, 0, 98 * 1024 * 8, 300_000, 1 << 20]), level in 1..=9,
        kinds in prop::sample::select(vec![
            vec![RowKind::Missing],
            vec![RowKind::Missing, RowKind::Biallelic, RowKind::Reference],
            vec![RowKind::MixedPloidy],
            vec![RowKind::MixedPloidy, RowKind::Missing],
            vec![RowKind::Missing, RowKind::Missing, RowKind::Missing, RowKind::Multiallelic],
        ]),
    ) {
        let rows = 600_000 / (n_samples * case.ploidy);
        let all = Arc::new(SampleSet::all(n_samples as u32));
        let every_other = Arc::new(SampleSet::new((0..n_samples as u32).step_by(2).collect()));
        check(&Case {
            n_samples, rows, chunk_rows: rows + case.chunk_rows % 2, chunk_samples: n_samples.div_ceil(chunks),
            alleles: vec![all.clone(), every_other.clone()],
            zygosity: if case.zygosity.is_empty() { vec![] } else { vec![all.clone(), every_other.clone()] },
            genotypes: if case.genotypes.is_empty() { vec![] } else { vec![every_other.clone(), all.clone()] },
            planes: if case.planes.is_empty() { vec![] } else { vec![every_other, all] },
            kinds, tidy, dtype: "|i1", compressor: "zstd", shuffle: 2, level, typesize: 1, blocksize, ..case
        })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn hostile_bytes_never_panic(case in case(), damage in prop::collection::vec((any::<u16>(), any::<u8>()), 1..6), cut in any::<u16>()) {
        let codes = case.codes();
        let array = case.array();
        let chain = CodecChain::try_new(&array).unwrap();
        let counter = Counter::try_new(case.request(), case.chunk_samples).unwrap();
        let (mut out, mut scratch) = (ChunkCounts::default(), CountScratch::default());
        for &chunk in counter.wanted_sample_chunks().iter().take(2) {
            let mut encoded = case.chunk(&codes, chunk);
            for (at, byte) in &damage {
                let at = *at as usize % encoded.len();
                encoded[at] = *byte;
            }
            if cut % 2 == 0 {
                encoded.truncate(cut as usize % (encoded.len() + 1));
            }
            out.reset(counter.request(), case.rows).unwrap();
            let _ = counter.add_chunk(&chain, &array, Some(&encoded), chunk, case.rows, &mut out, &mut scratch);
        }
    }
}
