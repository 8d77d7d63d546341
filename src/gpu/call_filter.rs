//! [`PlannedCallFilter`]: filters of the calls of genotypes by FORMAT fields that a device decodes with them. [`MaskedChunk`]: where a device puts
//! which calls of a chunk pass, and the genotypes in which the others are missing.
//!
//! Invariant: every field has the tiles of the genotypes, so that call `c` of a tile is the elements from `c` times the elements of a
//! call on, in each of them.

use super::plan::{ALIGNMENT, BlockLocation, ChunkPlan, ChunkPlanner, PlannedBlock};
use crate::codec::blosc::Shuffle;
use crate::counts::CallRange;
use crate::gpu::error::GpuError;

/// Calls whose bits are in one word.
const WORD_CALLS: usize = 32;

/// A test of the values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldTest {
    /// The index of the field in its [`PlannedCallFilter`].
    pub field: usize,
    /// The value of a call that is tested, counted from 0.
    pub at: u32,
    /// The values that pass.
    pub range: CallRange,
}

/// Calls of genotypes that fail a test are taken as missing.
#[derive(Debug, Clone)]
pub struct PlannedCallFilter {
    fields: Vec<ChunkPlanner>,
    tests: Vec<FieldTest>,
}

impl PlannedCallFilter {
    /// The filter by `tests` of these fields, each with its name, of calls in chunks of `genotypes`.
    ///
    /// # Errors
    /// The reason why a device cannot apply it.
    pub fn try_new(
        genotypes: &ChunkPlanner,
        fields: Vec<(&str, ChunkPlanner)>,
        tests: Vec<FieldTest>,
    ) -> Result<Self, GpuError> {
        for (name, field) in &fields {
            let (found, expected) = (field.grid(), genotypes.grid());
            if found != expected {
                return Err(format!("{name}: chunks of {found}, the genotypes' {expected}").into());
            }
        }
        let exists = |test: &FieldTest| {
            let field = fields.get(test.field);
            field.is_some_and(|(_, field)| test.at < field.grid().per_call)
        };
        if tests.is_empty() || !tests.iter().all(exists) {
            return Err("a filter of calls has no test, or one of a value that calls lack".into());
        }
        Ok(Self {
            fields: fields.into_iter().map(|(_, field)| field).collect(),
            tests,
        })
    }

    /// The planners of the fields.
    pub fn fields(&self) -> &[ChunkPlanner] {
        &self.fields
    }

    /// The tests, at least one. A call passes if it passes all.
    pub fn tests(&self) -> &[FieldTest] {
        &self.tests
    }
}

/// Where a device puts what it makes of a chunk's filtered calls: offsets in the decoded area of its job, all aligned.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MaskedChunk {
    /// For each tile, a bit for each call, padding included, in 32-bit words; and one word more.
    pub passes: Vec<usize>,
    /// For each block of the genotypes, its copy in which calls that fail are missing.
    pub blocks: Vec<PlannedBlock>,
    /// The end of the area.
    pub end: usize,
}

impl MaskedChunk {
    /// The places for genotypes of `plan`, whose codes have `width` bytes, from offset `start` on.
    ///
    /// # Errors
    /// If sizes do not fit in memory.
    pub fn try_new(plan: &ChunkPlan, width: usize, start: usize) -> Result<Self, GpuError> {
        let mut end = start;
        let mut room = |bytes: usize| -> Result<usize, GpuError> {
            let at = end;
            let next = at
                .checked_add(bytes)
                .and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
            end = next.ok_or("the filtered genotypes of a chunk are too large")?;
            Ok(at)
        };
        let passes = plan.tiles.iter().map(|tile| {
            // At most the elements of a tile, which fit in 32 bits.
            let calls = tile.rows as usize * tile.samples as usize;
            room((calls.div_ceil(WORD_CALLS) + 1) * size_of::<u32>())
        });
        let passes = passes.collect::<Result<_, _>>()?;
        let mut blocks = Vec::with_capacity(plan.blocks.len());
        for block in &plan.blocks {
            let mut masked = masked(block, width);
            masked.location = BlockLocation::Decoded(room(ChunkPlan::block_bytes(&masked, width))?);
            blocks.push(masked);
        }
        Ok(Self {
            passes,
            blocks,
            end,
        })
    }
}

/// The copy of a block in which calls that fail are missing, -1, whose bits are all set. It has the same shuffle.
fn masked(block: &PlannedBlock, width: usize) -> PlannedBlock {
    let all = 8 * width as u32;
    let (planes, repeats) = match block.shuffle {
        Shuffle::None | Shuffle::Byte => (1, false),
        // Kernels support repeated planes in one-byte elements only.
        Shuffle::Bit if width > 1 => (all, false),
        // Codes that these planes hold, and -1; the last plane is the sign.
        Shuffle::Bit if block.repeats => (block.planes.min(all), block.planes < all),
        // No code is negative, unless all planes are stored.
        Shuffle::Bit if block.planes < all => (block.planes + 1, block.planes + 1 < all),
        Shuffle::Bit => (all, false),
    };
    PlannedBlock {
        // Until it has a place.
        location: BlockLocation::Decoded(0),
        elements: block.elements,
        shuffle: block.shuffle,
        planes,
        repeats,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::plan::PlannedTile;
    use super::*;
    use crate::codec::CodecChain;
    use crate::codec::testing::one_chunk;
    use crate::counts::CallTest;
    use crate::store::ElementType;

    fn planner(data_type: &str, shape: &[usize], inner: Option<&[usize]>) -> ChunkPlanner {
        let bytes = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
        let codecs: Value = match inner {
            None => bytes,
            Some(inner) => json!([{"name": "sharding_indexed", "configuration": {
                "chunk_shape": inner, "codecs": bytes, "index_codecs": bytes}}]),
        };
        let array = one_chunk(&json!(data_type), json!(0), shape, &codecs);
        let chain = CodecChain::try_new(&array).unwrap();
        ChunkPlanner::try_new(&array, &chain).unwrap()
    }

    fn test(field: usize, at: u32) -> FieldTest {
        let range = CallRange::try_new(ElementType::Int8, &CallTest::Present).unwrap();
        FieldTest { field, at, range }
    }

    #[test]
    fn fields_have_the_tiles_of_the_genotypes() {
        let genotypes = planner("int8", &[6, 8, 2], None);
        let of = |field: ChunkPlanner, tests: Vec<FieldTest>| {
            PlannedCallFilter::try_new(&genotypes, vec![("call_X", field)], tests)
        };
        let filter = of(planner("int16", &[6, 8], None), vec![test(0, 0)]).unwrap();
        assert_eq!((filter.fields().len(), filter.tests().len()), (1, 1));
        assert!(of(planner("int16", &[6, 8, 3], None), vec![test(0, 2)]).is_ok());
        for (field, expected) in [
            (planner("int8", &[6, 4], None), "6 × 4"),
            (planner("int8", &[3, 8], None), "3 × 8"),
            (
                planner("int8", &[6, 8], Some(&[3, 8])),
                "6 × 8 in tiles of 3 × 8",
            ),
        ] {
            let refused = of(field, vec![test(0, 0)]).unwrap_err();
            assert_eq!(
                &*refused,
                format!("call_X: chunks of {expected}, the genotypes' 6 × 8")
            );
        }
        for tests in [vec![], vec![test(1, 0)], vec![test(0, 3)]] {
            assert!(of(planner("int8", &[6, 8, 3], None), tests).is_err());
        }
        let sharded = planner("int8", &[6, 8, 2], Some(&[3, 8, 2]));
        let field = planner("int8", &[6, 8], Some(&[3, 8]));
        assert!(
            PlannedCallFilter::try_new(&sharded, vec![("call_X", field)], vec![test(0, 0)]).is_ok()
        );
    }

    fn block(shuffle: Shuffle, planes: u32, repeats: bool) -> PlannedBlock {
        PlannedBlock {
            location: match planes {
                0 => BlockLocation::Zero,
                _ => BlockLocation::Decoded(16),
            },
            elements: 40,
            shuffle,
            planes,
            repeats,
        }
    }

    #[test]
    fn copies_have_room_for_missing_codes() {
        for (from, width, expected) in [
            (block(Shuffle::Bit, 0, false), 1, (1, true)),
            (block(Shuffle::Bit, 1, false), 1, (2, true)),
            (block(Shuffle::Bit, 6, false), 1, (7, true)),
            (block(Shuffle::Bit, 7, false), 1, (8, false)),
            (block(Shuffle::Bit, 8, false), 1, (8, false)),
            (block(Shuffle::Bit, 3, true), 1, (3, true)),
            (block(Shuffle::Bit, 8, true), 1, (8, false)),
            (block(Shuffle::Bit, 1, false), 2, (16, false)),
            (block(Shuffle::Byte, 1, false), 4, (1, false)),
            (block(Shuffle::None, 0, false), 1, (1, false)),
        ] {
            let copy = masked(&from, width);
            assert_eq!((copy.planes, copy.repeats), expected, "{from:?}");
            assert_eq!((copy.shuffle, copy.elements), (from.shuffle, 40));
        }
    }

    #[test]
    fn places_follow_each_other() {
        let tile = |blocks| PlannedTile {
            blocks,
            block_elements: 40,
            row0: 0,
            rows: 10,
            row_elements: 4,
            sample0: 0,
            samples: 2,
            copies: 2,
        };
        let mut plan = ChunkPlan::default();
        plan.blocks = vec![
            block(Shuffle::Bit, 1, false),
            block(Shuffle::None, 0, false),
        ];
        plan.tiles = vec![tile(0..1), tile(1..2)];
        let masked = MaskedChunk::try_new(&plan, 1, 48).unwrap();
        // 20 calls: a word, and one more.
        assert_eq!(masked.passes, [48, 64]);
        let at: Vec<_> = masked.blocks.iter().map(|block| block.location).collect();
        // Two planes of 5 bytes, then 40 bytes.
        assert_eq!(at, [BlockLocation::Decoded(80), BlockLocation::Decoded(96)]);
        assert_eq!(masked.end, 96 + 48);
        assert!(MaskedChunk::try_new(&plan, 1, usize::MAX - 63).is_err());
    }
}
