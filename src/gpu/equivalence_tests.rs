//! Random genotypes in every encoding, shape and pattern through an engine: counts are those of the plain implementation, and
//! elements those that the host decodes.

use std::sync::{Arc, OnceLock};

use futures::executor::block_on;
use proptest::prelude::*;

use super::batch::Outcome;
use super::engine::GpuEngine;
use super::plan::ChunkPlanner;
use super::plan::tests::arrays::{Case, genotypes};
use super::software::engine;
use super::work::{CountsOutput, ElementsOutput, Work, WorkOutput};
use crate::codec::testing::noise;
use crate::codec::{ChunkData, CodecChain, Scratch};
use crate::counts::{ChunkCounts, CountRequest, Counter, SampleSet, reference};

/// One variant chunk of a genotype array, of one or more sample chunks.
#[derive(Debug, Clone)]
struct Genotypes {
    /// Of each sample chunk.
    case: Case,
    rows: usize,
    samples: usize,
    ploidy: usize,
    n_alleles: usize,
    /// What codes there are besides 0 and 1.
    pattern: Pattern,
    /// Whether what nobody wants holds anything at all.
    garbage: bool,
    /// One wanted code that has no allele.
    bad: bool,
    alleles: Vec<Vec<u32>>,
    genotypes: Vec<Vec<u32>>,
    zygosity: Vec<Vec<u32>>,
    planes: Vec<Vec<u32>>,
    selected: Vec<u32>,
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pattern {
    Biallelic,
    Rare,
    Missing,
    /// With calls of fewer copies.
    Fill,
    AllMissing,
    Reference,
}

fn arrays() -> impl Strategy<Value = Genotypes> {
    let patterns = vec![
        Pattern::Biallelic,
        Pattern::Rare,
        Pattern::Missing,
        Pattern::Fill,
        Pattern::AllMissing,
        Pattern::Reference,
    ];
    (
        genotypes(40, 30),
        1usize..=3,
        any::<(
            prop::sample::Index,
            prop::sample::Index,
            prop::sample::Index,
        )>(),
        prop_oneof![Just(2usize), 1usize..=6, Just(40)],
        prop::sample::select(patterns),
        (any::<bool>(), prop::bool::weighted(0.1)),
        any::<u64>(),
    )
        .prop_flat_map(
            |(case, across, lengths, n_alleles, pattern, (garbage, bad), seed)| {
                let [chunk_rows, chunk_samples, copies] = case.shape[..] else {
                    panic!("{:?}", case.shape);
                };
                let samples = (across - 1) * chunk_samples + 1 + lengths.1.index(chunk_samples);
                let template = Genotypes {
                    rows: 1 + lengths.0.index(chunk_rows),
                    samples,
                    ploidy: 1 + lengths.2.index(copies),
                    case,
                    n_alleles,
                    pattern,
                    garbage,
                    bad,
                    alleles: vec![],
                    genotypes: vec![],
                    zygosity: vec![],
                    planes: vec![],
                    selected: vec![],
                    seed,
                };
                let ids = move || prop::collection::vec(0..samples as u32, 0..2 * samples);
                let all = Just((0..samples as u32).collect::<Vec<_>>());
                let set = || prop_oneof![1 => all.clone(), 3 => ids()];
                let few = prop::collection::vec(0..samples as u32, 0..3);
                (
                    prop_oneof![
                        8 => prop::collection::vec(set(), 0..4),
                        1 => prop::collection::vec(few, 30..70),
                    ],
                    prop::collection::vec(set(), 0..3),
                    prop::collection::vec(set(), 0..3),
                    prop::collection::vec(set(), 0..3),
                    set(),
                )
                    .prop_map(
                        move |(alleles, genotypes, zygosity, planes, selected)| Genotypes {
                            alleles,
                            genotypes,
                            zygosity,
                            planes,
                            selected,
                            ..template.clone()
                        },
                    )
            },
        )
}

impl Genotypes {
    fn chunk_shape(&self) -> [usize; 3] {
        [self.case.shape[0], self.case.shape[1], self.case.shape[2]]
    }

    fn request(&self) -> CountRequest {
        let sets = |ids: &[Vec<u32>]| -> Vec<Arc<SampleSet>> {
            let set = |ids: &Vec<u32>| Arc::new(SampleSet::new(ids.clone()));
            ids.iter().map(set).collect()
        };
        CountRequest {
            alleles: sets(&self.alleles),
            genotypes: sets(&self.genotypes),
            zygosity: sets(&self.zygosity),
            planes: sets(&self.planes),
            n_alleles: self.n_alleles,
            n_samples: self.samples,
            ploidy: self.ploidy,
        }
    }

    fn is_wanted(&self, sample: usize) -> bool {
        let calls = self
            .genotypes
            .iter()
            .chain(&self.zygosity)
            .chain(&self.planes);
        self.alleles
            .iter()
            .chain(calls)
            .any(|set| set.contains(&(sample as u32)))
    }

    /// The codes of a sample chunk, as they are serialized.
    fn serialized(&self, sample_chunk: usize) -> Vec<u8> {
        let [rows, samples, copies] = self.chunk_shape();
        let noise = noise(
            rows * samples * copies,
            self.seed ^ (sample_chunk as u64) << 7,
        );
        let mut bytes = Vec::new();
        for (at, byte) in noise.into_iter().enumerate() {
            let (row, copy) = (at / copies / samples, at % copies);
            let sample = sample_chunk * samples + at / copies % samples;
            let inside = row < self.rows && copy < self.ploidy && self.is_wanted(sample);
            let n = self.n_alleles as i64;
            let code = match (self.pattern, byte) {
                _ if !inside && self.garbage => i64::from(byte as i8),
                (Pattern::Reference, _) => 0,
                (Pattern::AllMissing, _) => -1,
                (Pattern::Fill, 0..40) if copy > 0 => -2,
                (Pattern::Missing | Pattern::Fill, 0..50) => -1,
                (Pattern::Rare, 8..) => 0,
                (Pattern::Biallelic | Pattern::Rare, byte) => i64::from(byte & 1).min(n - 1),
                (_, byte) => i64::from(byte) % n,
            };
            let code = code.to_le_bytes();
            let start = bytes.len();
            bytes.extend_from_slice(&code[..self.case.width]);
            if self.case.big {
                bytes[start..].reverse();
            }
        }
        if self.bad {
            self.spoil(sample_chunk, &mut bytes);
        }
        bytes
    }

    /// Puts a code that has no allele where somebody is counted, if anybody is.
    fn spoil(&self, sample_chunk: usize, bytes: &mut [u8]) {
        let [_, samples, copies] = self.chunk_shape();
        let first = sample_chunk * samples;
        let wanted = (first..first + samples).find(|sample| self.is_wanted(*sample));
        if let Some(sample) = wanted {
            let width = self.case.width;
            let at = ((self.rows - 1) * samples + sample - first) * copies * width;
            let lowest = if self.case.big { width - 1 } else { 0 };
            bytes[at..at + width].fill(0);
            bytes[at + lowest] = self.n_alleles as u8;
        }
    }

    fn check(&self, engine: &GpuEngine) {
        let [_, chunk_samples, copies] = self.chunk_shape();
        let (mut array, _) = self.case.array();
        array.shape = [self.rows, self.samples, self.ploidy]
            .map(|n| n as u64)
            .to_vec();
        let chain = CodecChain::try_new(&array).unwrap();
        let planner = ChunkPlanner::try_new(&array, &chain).unwrap();
        let shares_rows = planner.shares_rows();
        let counts =
            CountsOutput::try_new(self.request(), chunk_samples, copies, shares_rows).unwrap();
        let across = self.samples.div_ceil(chunk_samples);
        let mut selected = vec![vec![]; across];
        for sample in SampleSet::new(self.selected.clone()).iter() {
            let (chunk, within) = (
                sample as usize / chunk_samples,
                sample as usize % chunk_samples,
            );
            selected[chunk].push(within as u32);
        }
        let width = self.case.width;
        let elements = ElementsOutput {
            samples: selected.into_iter().map(Arc::new).collect(),
            inner: self.ploidy as u32,
            width,
        };
        let wanted_chunks: Vec<bool> = (0..across).map(|at| counts.masks(at).is_some()).collect();
        let work = |wanted| {
            Arc::new(Work {
                planner: planner.clone(),
                filter: None,
                sizes: Arc::default(),
                wanted,
            })
        };
        let (counts, elements) = (
            work(WorkOutput::Counts(counts)),
            work(WorkOutput::Elements(elements)),
        );

        // What the host makes of it: all codes, `[rows, samples, ploidy]`.
        let mut codes = vec![0i64; self.rows * self.samples * self.ploidy];
        let mut submitted = Vec::new();
        let active = engine.queue().register_producer();
        for (chunk, is_wanted) in wanted_chunks.into_iter().enumerate() {
            let encoded = self.case.encode(&self.serialized(chunk));
            let decoded = chain.decode(&encoded, &mut Scratch::default()).unwrap();
            let ChunkData::Fixed(decoded) = decoded else {
                panic!("strings");
            };
            let mut rows = Vec::new();
            let WorkOutput::Elements(wanted) = &elements.wanted else {
                panic!("elements");
            };
            for row in 0..self.rows {
                for within in 0..chunk_samples {
                    let sample = chunk * chunk_samples + within;
                    for copy in 0..self.ploidy {
                        let at = ((row * chunk_samples + within) * copies + copy) * width;
                        let bytes = &decoded[at..at + width];
                        if wanted.samples[chunk].contains(&(within as u32)) {
                            rows.extend_from_slice(bytes);
                        }
                        if sample < self.samples {
                            codes[(row * self.samples + sample) * self.ploidy + copy] = code(bytes);
                        }
                    }
                }
            }
            let submit = |work: &Arc<Work>| {
                let submitted = engine.queue().submit(work, chunk, self.rows, &encoded);
                block_on(submitted).unwrap()
            };
            let tickets = (
                is_wanted.then(|| submit(&counts)),
                (!wanted.samples[chunk].is_empty()).then(|| submit(&elements)),
            );
            submitted.push((tickets, rows));
        }
        drop(active);

        let request = self.request();
        let expected = reference::count(&request, &codes, self.rows);
        let mut found = ChunkCounts::default();
        found.reset(&request, self.rows).unwrap();
        let mut refused = None;
        let counter = Counter::try_new(request.clone(), chunk_samples).unwrap();
        let WorkOutput::Counts(wanted) = &counts.wanted else {
            panic!("elements are wanted");
        };
        for (chunk, ((counted, gathered), rows)) in submitted.into_iter().enumerate() {
            if let Some(ticket) = gathered {
                let Outcome::Done(done) = block_on(ticket).unwrap() else {
                    panic!("elements are left to the host");
                };
                assert!(done.bytes.as_slice() == rows, "other elements");
            }
            match counted.map(|ticket| block_on(ticket).unwrap()) {
                None => {}
                Some(Outcome::Host(reason)) => refused = Some(reason),
                Some(Outcome::Done(done)) => {
                    let computed = wanted.computed(done.bytes, None);
                    counter
                        .add_computed(&computed, self.rows, chunk, &mut found)
                        .unwrap();
                    let mut set = ChunkCounts::default();
                    if counter.set_computed(&computed, self.rows, &mut set) {
                        assert!(set == found, "set differs from added");
                    }
                }
            }
        }
        match (expected, refused) {
            (Ok(expected), None) => {
                assert_eq!(found.alleles, expected.alleles);
                assert_eq!(found.genotypes, expected.genotypes);
                assert_eq!(found.zygosity, expected.zygosity);
                assert!(found.planes == expected.planes, "other planes");
            }
            (Err(error), Some(reason)) => {
                assert_eq!(reason, "a genotype code has no allele", "{error}");
            }
            (expected, refused) => panic!("{expected:?} and {refused:?}"),
        }
    }
}

/// A native-endian integer.
fn code(bytes: &[u8]) -> i64 {
    match bytes {
        [byte] => i64::from(*byte as i8),
        [a, b] => i64::from(i16::from_ne_bytes([*a, *b])),
        [a, b, c, d] => i64::from(i32::from_ne_bytes([*a, *b, *c, *d])),
        bytes => i64::from_ne_bytes(bytes.try_into().unwrap()),
    }
}

fn shared_engine() -> &'static GpuEngine {
    static ENGINE: OnceLock<Arc<GpuEngine>> = OnceLock::new();
    ENGINE.get_or_init(|| engine(2, 1 << 20))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1200))]
    #[test]
    fn an_engine_counts_what_the_plain_implementation_does(genotypes in arrays()) {
        genotypes.check(shared_engine());
    }
}
