//! Plans against the host's decoding: of random arrays in all encodings, of damaged chunks, and of the fixtures.

pub(in crate::gpu) mod arrays;
pub(in crate::gpu) mod device;
mod fixtures;
#[path = "../../../../tests/fuzz/checks/gpu_plan.rs"]
mod fuzz_check;
mod fuzz_corpus;
mod refusals;
mod shapes;

use proptest::prelude::*;

use self::arrays::{Case, cases};
use self::device::{on_device, on_host};
use super::{ChunkPlan, ChunkPlanner};

/// Plans an undamaged chunk, and compares what a device makes of it with what the host does.
fn check(case: &Case, plan: &mut ChunkPlan) {
    let (array, chain, mut encoded) = case.make();
    let expected = on_host(&chain, &encoded).unwrap();
    let planner = ChunkPlanner::try_new(&array, &chain).unwrap();
    assert_eq!(planner.estimate().decoded_bytes, expected.len());
    let before = encoded.clone();
    planner.plan(&mut encoded, plan).unwrap();
    plan.verify(encoded.len(), case.elements(), case.width)
        .unwrap();
    let found = on_device(&planner, plan, &encoded, case.row_shape()).unwrap();
    assert!(found == expected, "{plan:?}");
    plan.restore(&mut encoded);
    assert!(encoded == before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn a_device_finds_what_the_host_decodes(case in cases(60, 40), other in cases(9, 5)) {
        let mut plan = ChunkPlan::default();
        check(&case, &mut plan);
        // What was there before does not show.
        check(&other, &mut plan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Blocks so long that their frames end in zeros.
    #[test]
    fn large_chunks(case in cases(1000, 600)) {
        check(&case, &mut ChunkPlan::default());
    }
}

/// A change to a chunk's bytes.
#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    /// A number where sizes and offsets are: near the start, or near the end.
    Number(usize, bool, u32),
    /// Other bytes of the chunk.
    Copy(prop::sample::Index, prop::sample::Index, usize),
    Truncate(usize),
    Grow(usize),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        if len < 8 {
            return;
        }
        match self {
            Damage::Flip(at, bits) => bytes[at.index(len)] ^= bits,
            Damage::Number(at, front, value) => {
                let at = at % (len - 3);
                let at = if *front {
                    at.min(len - 4)
                } else {
                    len - 4 - at
                };
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            Damage::Copy(from, to, n) => {
                let n = (*n).min(len / 2);
                let (from, to) = (from.index(len - n), to.index(len - n));
                bytes.copy_within(from..from + n, to);
            }
            Damage::Truncate(n) => bytes.truncate(len - n.min(&len)),
            Damage::Grow(n) => bytes.resize(len + n, 0),
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let number = prop_oneof![
        0u32..300,
        any::<u32>(),
        Just(u32::MAX),
        Just(i32::MAX as u32),
        1000u32..5000
    ];
    prop_oneof![
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (0usize..64, any::<bool>(), number).prop_map(|(at, front, n)| Damage::Number(at, front, n)),
        (
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            1usize..40
        )
            .prop_map(|(from, to, n)| Damage::Copy(from, to, n)),
        (1usize..20).prop_map(Damage::Truncate),
        (1usize..20).prop_map(Damage::Grow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    /// Whatever happens to a chunk: nothing panics, a plan stays inside its buffers, and what a device accepts is what the host
    /// decodes.
    #[test]
    fn plan_is_inside(
        case in cases(40, 30), damages in prop::collection::vec(damage(), 1..4), fix_length: bool, cut: bool,
    ) {
        let (array, chain, mut encoded) = case.make();
        damages.iter().for_each(|damage| damage.apply(&mut encoded));
        if cut {
            encoded.truncate(encoded.len() / 2);
        }
        if fix_length && encoded.len() >= 16 {
            // As the header of a Blosc container has it, or most would be refused at once.
            let len = encoded.len() as u32;
            encoded[12..16].copy_from_slice(&len.to_le_bytes());
        }
        let planner = ChunkPlanner::try_new(&array, &chain).unwrap();
        let mut plan = ChunkPlan::default();
        let before = encoded.clone();
        let result = planner.plan(&mut encoded, &mut plan);
        if result.is_err() {
            prop_assert!(encoded == before);
            prop_assert!(plan.tiles.is_empty() && plan.frames.is_empty() && plan.decoded_len == 0);
            return Ok(());
        }
        plan.verify(encoded.len(), case.elements(), case.width).unwrap();
        let found = on_device(&planner, &plan, &encoded, case.row_shape());
        let deflate = plan.frames.iter().any(|frame| frame.check.is_some());
        plan.restore(&mut encoded);
        prop_assert!(encoded == before);
        if let Ok(found) = found {
            match on_host(&chain, &encoded) {
                Ok(expected) => prop_assert!(found == expected),
                // The host also looks where a DEFLATE stream ends. Either way the checksum is right.
                Err(error) => prop_assert!(deflate, "{}", error),
            }
        }
    }
}
