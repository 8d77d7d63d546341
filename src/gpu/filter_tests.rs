//! Random genotypes whose calls are filtered by random fields, in every encoding, type and nesting, through an engine: the counts,
//! bit-planes and elements are those of genotypes that a plain implementation has masked, as are those that the host's fast one masks.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::executor::block_on;
use half::f16;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::batch::Outcome;
use super::call_filter::{FieldTest, PlannedCallFilter};
use super::encoded::Encoded;
use super::engine::GpuEngine;
use super::plan::ChunkPlanner;
use super::plan::tests::arrays::{Case, cases, genotypes};
use super::software::engine;
use super::work::{CountsOutput, ElementsOutput, Work, WorkOutput};
use crate::codec::testing::noise;
use crate::codec::{ChunkData, CodecChain, Scratch};
use crate::counts::{
    CallMask, CallRange, CallTest, CallValues, ChunkCounts, CountRequest, Counter, FloatBound,
    SampleSet, reference,
};
use crate::store::{ArrayMeta, ElementType, OpenChunk};

const ROWS: usize = 30;
const SAMPLES: usize = 20;
const N_ALLELES: usize = 3;

/// A field and a test of its values.
#[derive(Debug, Clone)]
struct Field {
    /// Its encoding and type; its shape is that of the genotypes.
    case: Case,
    per_call: Option<usize>,
    at: prop::sample::Index,
    is_absent: bool,
    bounds: (Option<i8>, Option<i8>),
    seed: u64,
}

/// A chunk of genotypes and the filters of its calls.
#[derive(Debug, Clone)]
struct Filtered {
    case: Case,
    is_absent: bool,
    rows: prop::sample::Index,
    samples: prop::sample::Index,
    ploidy: prop::sample::Index,
    fields: Vec<Field>,
    sets: [Vec<u32>; 4],
    seed: u64,
}

fn fields() -> impl Strategy<Value = Field> {
    (
        cases(ROWS, SAMPLES),
        prop_oneof![2 => Just(None), 1 => (1usize..4).prop_map(Some)],
        any::<prop::sample::Index>(),
        prop::bool::weighted(0.15),
        (prop::option::of(-3i8..6), prop::option::of(-3i8..9)),
        any::<u64>(),
    )
        .prop_map(|(case, per_call, at, is_absent, bounds, seed)| Field {
            case,
            per_call,
            at,
            is_absent,
            bounds,
            seed,
        })
}

fn filtered() -> impl Strategy<Value = Filtered> {
    let set = || prop::collection::vec(0..SAMPLES as u32, 0..2 * SAMPLES);
    (
        genotypes(ROWS, SAMPLES),
        prop::bool::weighted(0.15),
        any::<[prop::sample::Index; 3]>(),
        prop::collection::vec(fields(), 1..4),
        [set(), set(), set(), set()],
        any::<u64>(),
    )
        .prop_map(
            |(case, is_absent, [rows, samples, ploidy], fields, sets, seed)| Filtered {
                case,
                is_absent,
                rows,
                samples,
                ploidy,
                fields,
                sets,
                seed,
            },
        )
}

/// A number from the low bits of `random` as an element of this type, often one of its codes for missing and fill, NaN or infinite.
fn value(element: ElementType, random: u8) -> Vec<u8> {
    let small = i64::from(random % 13) - 4;
    let special = |codes: [u64; 4]| codes[usize::from(random) % 4];
    let bits = match element {
        ElementType::Float16 if random < 60 => special([0x7C01, 0x7C02, 0x7E00, 0xFC00]),
        ElementType::Float32 if random < 60 => {
            special([0x7F80_0001, 0x7F80_0002, 0x7FC0_0000, 0xFF80_0000])
        }
        ElementType::Float64 if random < 60 => special([
            0x7FF0_0000_0000_0001,
            0x7FF0_0000_0000_0002,
            0x7FF8_0000_0000_0000,
            0x7FF0_0000_0000_0000,
        ]),
        ElementType::Float16 => f16::from_f64(small as f64 / 2.0).to_bits().into(),
        ElementType::Float32 => (small as f32 / 2.0).to_bits().into(),
        ElementType::Float64 => (small as f64 / 2.0).to_bits(),
        ElementType::Bool => u64::from(random & 1),
        _ => small.cast_unsigned(),
    };
    bits.to_le_bytes()[..element.size().unwrap()].to_vec()
}

/// Whether a value passes, by the definition of its type.
fn passes(element: ElementType, bytes: &[u8], test: &CallTest) -> bool {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(all);
    let float = |value: f64, nulls: [u64; 2]| {
        !nulls.contains(&bits)
            && match test {
                CallTest::Floats { min, max } => {
                    min.is_none_or(|min| value >= min.value())
                        && max.is_none_or(|max| value <= max.value())
                        && !value.is_nan()
                }
                _ => true,
            }
    };
    let integer = |value: i128, is_signed: bool| {
        !(is_signed && (value == -1 || value == -2))
            && match test {
                CallTest::Integers { min, max } => {
                    min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
                }
                _ => true,
            }
    };
    match element {
        ElementType::Bool => match test {
            CallTest::Flag(flag) => (bits != 0) == *flag,
            _ => true,
        },
        ElementType::Int8 => integer((bits as i8).into(), true),
        ElementType::Int16 => integer((bits as i16).into(), true),
        ElementType::Int32 => integer((bits as i32).into(), true),
        ElementType::Int64 => integer((bits as i64).into(), true),
        ElementType::Float16 => float(f16::from_bits(bits as u16).into(), [0x7C01, 0x7C02]),
        ElementType::Float32 => float(
            f32::from_bits(bits as u32).into(),
            [0x7F80_0001, 0x7F80_0002],
        ),
        ElementType::Float64 => float(
            f64::from_bits(bits),
            [0x7FF0_0000_0000_0001, 0x7FF0_0000_0000_0002],
        ),
        _ => integer(bits.into(), false),
    }
}

impl Field {
    fn test(&self, element: ElementType) -> CallTest {
        let (min, max) = self.bounds;
        match element {
            _ if min.is_none() && max.is_none() => CallTest::Present,
            ElementType::Bool => CallTest::Flag(min.is_some()),
            ElementType::Float16 | ElementType::Float32 | ElementType::Float64 => {
                let bound = |bound: i8| FloatBound::new(f64::from(bound) / 2.0).unwrap();
                CallTest::Floats {
                    min: min.map(bound),
                    max: max.map(bound),
                }
            }
            _ => CallTest::Integers {
                min: min.map(i128::from),
                max: max.map(i128::from),
            },
        }
    }
}

/// The elements of a chunk as the host decodes them, native-endian.
fn decoded(chain: &CodecChain, encoded: Option<&[u8]>) -> Vec<u8> {
    let data = match encoded {
        Some(encoded) => chain.decode(encoded, &mut Scratch::default()).unwrap(),
        None => chain.fill_chunk().unwrap(),
    };
    match data {
        ChunkData::Fixed(elements) => elements.to_vec(),
        ChunkData::Strings(_) => panic!("strings"),
    }
}

/// These elements, little-endian, as `case` serializes them.
fn serialized(case: &Case, elements: &[Vec<u8>]) -> Vec<u8> {
    let element = |element: &Vec<u8>| match case.big {
        true => element.iter().rev().copied().collect(),
        false => element.clone(),
    };
    elements.iter().flat_map(element).collect()
}

/// An array of one chunk, and its planner and encoded chunk.
struct Stored {
    array: ArrayMeta,
    chain: CodecChain,
    planner: ChunkPlanner,
    encoded: Option<Vec<u8>>,
}

impl Stored {
    fn new(case: &Case, shape: Option<&[usize]>, elements: Option<&[Vec<u8>]>) -> Self {
        let (mut array, chain) = case.array();
        if let Some(shape) = shape {
            array.shape = shape.iter().map(|n| *n as u64).collect();
        }
        let planner = ChunkPlanner::try_new(&array, &chain).unwrap();
        let encode = |elements: &[Vec<u8>]| case.encode(&serialized(case, elements));
        Self {
            array,
            chain,
            planner,
            encoded: elements.map(encode),
        }
    }

    fn open(&self) -> Option<OpenChunk> {
        let bytes = self.encoded.as_ref()?;
        Some(OpenChunk::Bytes(Bytes::copy_from_slice(bytes)))
    }

    fn decoded(&self) -> Vec<u8> {
        decoded(&self.chain, self.encoded.as_deref())
    }
}

impl Filtered {
    fn check(&self, engine: &GpuEngine) {
        let [chunk_rows, chunk_samples, copies] = self.case.shape[..] else {
            panic!("{:?}", self.case.shape);
        };
        let rows = 1 + self.rows.index(chunk_rows);
        let samples = 1 + self.samples.index(chunk_samples);
        let ploidy = 1 + self.ploidy.index(copies);
        let calls = chunk_rows * chunk_samples;
        let codes: Vec<Vec<u8>> = noise(calls * copies, self.seed)
            .iter()
            .map(|byte| {
                let code = match byte {
                    0..40 => -1,
                    40..60 => -2,
                    byte => i64::from(*byte) % N_ALLELES as i64,
                };
                code.to_le_bytes()[..self.case.width].to_vec()
            })
            .collect();
        let shape = [rows, samples, ploidy];
        let stored = (!self.is_absent).then_some(&codes[..]);
        let genotypes = Stored::new(&self.case, Some(&shape), stored);
        let width = self.case.width;

        // Which calls pass, by the definition, and as the host's fast implementation has it.
        let mut passed = vec![true; calls];
        let mut mask = CallMask::default();
        mask.reset(calls).unwrap();
        let (mut planners, mut tests, mut opened) = (vec![], vec![], vec![]);
        for (number, field) in self.fields.iter().enumerate() {
            let case = self.case.field(&field.case, field.per_call);
            let per_call = field.per_call.unwrap_or(1);
            let at = field.at.index(per_call);
            let element = case.array().0.element;
            let values: Vec<Vec<u8>> = noise(calls * per_call, field.seed)
                .iter()
                .map(|byte| value(element, *byte))
                .collect();
            let values = (!field.is_absent).then_some(&values[..]);
            let stored = Stored::new(&case, None, values);
            let test = field.test(element);
            let elements = stored.decoded();
            for (call, values) in elements.chunks_exact(per_call * case.width).enumerate() {
                let value = &values[at * case.width..(at + 1) * case.width];
                passed[call] &= passes(element, value, &test);
            }
            // Aligned as every type needs it.
            let mut aligned = vec![0u64; elements.len().div_ceil(8)];
            let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut aligned)[..elements.len()];
            bytes.copy_from_slice(&elements);
            let values = CallValues {
                bytes,
                element,
                per_call,
                at,
                coded: true,
            };
            mask.retain_values(values, &test).unwrap();
            opened.push(stored.open());
            planners.push(("a field", stored.planner));
            tests.push(FieldTest {
                field: number,
                at: at as u32,
                range: CallRange::try_new(element, &test).unwrap(),
            });
        }
        let decoded = genotypes.decoded();
        let mut expected = decoded.clone();
        for (call, codes) in expected.chunks_exact_mut(copies * width).enumerate() {
            for code in codes.chunks_exact_mut(width).filter(|_| !passed[call]) {
                if number(code) != -2 {
                    code.fill(0xff);
                }
            }
        }
        let mut aligned = vec![0u64; decoded.len().div_ceil(8)];
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut aligned)[..decoded.len()];
        bytes.copy_from_slice(&decoded);
        let mut masked = vec![];
        mask.apply(bytes, genotypes.array.element, copies, &mut masked)
            .unwrap();
        assert!(
            bytemuck::cast_slice::<u64, u8>(&masked)[..decoded.len()] == expected,
            "the host masks other codes"
        );

        let within = |ids: &[u32]| -> Vec<u32> {
            let ids = ids.iter().copied().filter(|id| (*id as usize) < samples);
            ids.collect()
        };
        let set = |at: usize| Arc::new(SampleSet::new(within(&self.sets[at])));
        let all = Arc::new(SampleSet::all(samples as u32));
        let request = CountRequest {
            alleles: vec![Arc::clone(&all), set(0)],
            genotypes: vec![set(1)],
            zygosity: vec![set(2)],
            planes: vec![set(3), all],
            n_alleles: N_ALLELES,
            n_samples: samples,
            ploidy,
        };
        let filter = PlannedCallFilter::try_new(&genotypes.planner, planners, tests).unwrap();
        let work = |wanted| {
            Arc::new(Work {
                planner: genotypes.planner.clone(),
                filter: Some(filter.clone()),
                sizes: Arc::default(),
                wanted,
            })
        };
        let selected = SampleSet::new(within(&self.sets[0]));
        let shares_rows = genotypes.planner.shares_rows();
        let counts =
            CountsOutput::try_new(request.clone(), chunk_samples, copies, shares_rows).unwrap();
        let counts = work(WorkOutput::Counts(counts));
        let elements = work(WorkOutput::Elements(ElementsOutput {
            samples: vec![Arc::new(selected.indices().to_vec())],
            inner: ploidy as u32,
            width,
        }));
        let chunk = genotypes.open();
        let submit = |work: &Arc<Work>| {
            let encoded = Encoded {
                work,
                sample_chunk: 0,
                rows,
                chunk: chunk.as_ref(),
                fields: &opened,
            };
            let ticket = block_on(engine.queue().submit_all(&[encoded])).remove(0);
            match block_on(ticket.unwrap()).unwrap() {
                Outcome::Done(done) => done.bytes,
                Outcome::Host(reason) => panic!("left to the host: {reason}"),
            }
        };

        let mut codes = vec![];
        let mut gathered = vec![];
        for row in 0..rows {
            for sample in 0..samples {
                for copy in 0..ploidy {
                    let at = ((row * chunk_samples + sample) * copies + copy) * width;
                    let code = &expected[at..at + width];
                    codes.push(number(code));
                    if selected.contains(sample as u32) {
                        gathered.extend_from_slice(code);
                    }
                }
            }
        }
        if !selected.is_empty() {
            assert!(submit(&elements).as_slice() == gathered, "other elements");
        }
        let expected = reference::count(&request, &codes, rows).unwrap();
        let mut found = ChunkCounts::default();
        found.reset(&request, rows).unwrap();
        let counter = Counter::try_new(request, chunk_samples).unwrap();
        let WorkOutput::Counts(wanted) = &counts.wanted else {
            panic!("elements are wanted");
        };
        let computed = wanted.computed(submit(&counts), None);
        counter
            .add_computed(&computed, rows, 0, &mut found)
            .unwrap();
        assert_eq!(found.alleles, expected.alleles);
        assert_eq!(found.genotypes, expected.genotypes);
        assert_eq!(found.zygosity, expected.zygosity);
        assert!(found.planes == expected.planes, "other planes");
        // The host counts what it has masked itself.
        let mut on_host = ChunkCounts::default();
        on_host.reset(counter.request(), rows).unwrap();
        let masked = &bytemuck::cast_slice(&masked)[..decoded.len()];
        let scratch = &mut Default::default();
        counter
            .add_decoded(&genotypes.array, masked, 0, rows, &mut on_host, scratch)
            .unwrap();
        assert_eq!(on_host.alleles, expected.alleles);
        assert_eq!(on_host.genotypes, expected.genotypes);
        assert_eq!(on_host.zygosity, expected.zygosity);
    }
}

/// A native-endian integer of one to eight bytes.
fn number(bytes: &[u8]) -> i64 {
    let mut all = match bytes.last() {
        Some(0x80..) => [0xff; 8],
        _ => [0; 8],
    };
    all[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn an_engine_filters_calls_as_the_plain_implementation_does(filtered in filtered()) {
        static ENGINE: OnceLock<Arc<GpuEngine>> = OnceLock::new();
        filtered.check(ENGINE.get_or_init(|| engine(2, 1 << 20)));
    }
}

/// Fields that were not submitted, or chunks that are broken, are left to the host.
#[test]
fn what_is_missing_is_left_to_the_host() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let case = genotypes(8, 8).new_tree(&mut runner).unwrap().current();
    let calls = case.shape[0] * case.shape[1];
    let field = case.field(&case, None);
    let codes = vec![vec![0; case.width]; calls * case.shape[2]];
    let values = vec![vec![0; case.width]; calls];
    let genotypes = Stored::new(&case, None, Some(&codes));
    let stored = Stored::new(&field, None, Some(&values));
    let test = FieldTest {
        field: 0,
        at: 0,
        range: CallRange::NONE,
    };
    let fields = vec![("a field", stored.planner.clone())];
    let filter = PlannedCallFilter::try_new(&genotypes.planner, fields, vec![test]).unwrap();
    let work = Arc::new(Work {
        planner: genotypes.planner.clone(),
        filter: Some(filter),
        sizes: Arc::default(),
        wanted: WorkOutput::Elements(ElementsOutput {
            samples: vec![Arc::new((0..case.shape[1] as u32).collect())],
            inner: case.shape[2] as u32,
            width: case.width,
        }),
    });
    let engine = engine(1, 1 << 20);
    let chunk = genotypes.open();
    let submit = |fields: &[Option<OpenChunk>]| {
        let encoded = Encoded {
            work: &work,
            sample_chunk: 0,
            rows: case.shape[0],
            chunk: chunk.as_ref(),
            fields,
        };
        let ticket = block_on(engine.queue().submit_all(&[encoded])).remove(0);
        ticket.map(|ticket| block_on(ticket).unwrap())
    };
    let refused = submit(&[]).unwrap_err();
    assert_eq!(&*refused, "0 fields to filter by, expected 1");
    let broken = OpenChunk::Bytes(Bytes::from_static(&[7; 3]));
    assert!(submit(&[Some(broken)]).is_err());
    for field in [stored.open(), None] {
        let Ok(Outcome::Done(done)) = submit(&[field]) else {
            panic!("left to the host");
        };
        assert!(
            done.bytes.iter().all(|byte| *byte == 0xff),
            "no call passes"
        );
    }
}
