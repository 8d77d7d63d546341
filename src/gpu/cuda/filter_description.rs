//! The filters of a batch for a device: the calls of each tile to test, and the blocks of genotypes to copy with those that fail missing.
//!
//! Part of the [description of a batch](super::batch_description), filled by it job by job.

use super::tables::{Tables, room_for};
use crate::counts::ValueOrder;
use crate::gpu::abi;
use crate::gpu::batch::ChunkJob;
use crate::gpu::error::GpuError;
use crate::gpu::plan::BlockLocation;

/// Filters of the jobs of a batch.
#[derive(Debug, Default)]
pub struct FilterTables {
    /// The calls of tiles.
    pub calls: Vec<abi::CallTile>,
    /// Blocks of genotypes.
    pub masked: Vec<abi::MaskedBlock>,
    filters: Vec<abi::CallFilter>,
}

impl FilterTables {
    /// Forgets all jobs.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.masked.clear();
        self.filters.clear();
    }

    /// Adds a job, if its calls are filtered. `blocks` are those of its genotypes, then of its fields, at device address `address`; its
    /// decoded area is at `area`.
    pub fn add(&mut self, job: &ChunkJob, blocks: &[abi::Block], address: u64, area: u64) {
        let (Some(masked), Some(filter)) = (&job.masked, &job.work.filter) else {
            return;
        };
        // For each field, the address of its first block.
        let mut of_fields = Vec::with_capacity(job.fields.len());
        let mut before = job.plan.blocks.len();
        for field in &job.fields {
            of_fields.push(address + (before * size_of::<abi::Block>()) as u64);
            before += field.plan.blocks.len();
        }
        let planner = &job.work.planner;
        let flags = match planner.big_endian() {
            true => abi::BIG_ENDIAN,
            false => 0,
        };
        for (at, (tile, passes)) in job.plan.tiles.iter().zip(&masked.passes).enumerate() {
            let passes = area + *passes as u64;
            let first_filter = self.filters.len();
            for test in filter.tests() {
                let planner = filter.fields().get(test.field);
                let field = job.fields.get(test.field).zip(of_fields.get(test.field));
                let (Some(planner), Some((field, first))) = (planner, field) else {
                    continue;
                };
                // The field has the same tiles.
                let Some(of_field) = field.plan.tiles.get(at) else {
                    continue;
                };
                let range = test.range;
                let [missing, fill] = range.nulls.unwrap_or_default();
                let order = match range.order {
                    ValueOrder::Signed => abi::SIGNED,
                    ValueOrder::Unsigned => abi::UNSIGNED,
                    ValueOrder::Float => abi::FLOAT,
                };
                let mut flags = 0;
                if planner.big_endian() {
                    flags |= abi::FIELD_BIG_ENDIAN;
                }
                if range.nulls.is_some() {
                    flags |= abi::HAS_NULLS;
                }
                self.filters.push(abi::CallFilter {
                    blocks: first + (of_field.blocks.start * size_of::<abi::Block>()) as u64,
                    low: range.low,
                    high: range.high,
                    missing,
                    fill,
                    block_elements: of_field.block_elements,
                    per_call: of_field.copies,
                    at: test.at,
                    width: planner.width() as u32,
                    order,
                    flags,
                });
            }
            self.calls.push(abi::CallTile {
                passes,
                // The offset, until the table of filters has an address.
                filters: (first_filter * size_of::<abi::CallFilter>()) as u64,
                n_filters: (self.filters.len() - first_filter) as u32,
                // At most the elements of a tile, which fit.
                calls: tile.rows * tile.samples,
            });
            for (in_tile, block) in tile.blocks.clone().enumerate() {
                let (Some(from), Some(copy)) = (blocks.get(block), masked.blocks.get(block)) else {
                    continue;
                };
                let BlockLocation::Decoded(to) = copy.location else {
                    continue;
                };
                self.masked.push(abi::MaskedBlock {
                    from: *from,
                    to: area + to as u64,
                    passes,
                    // Below the elements of the tile.
                    first: in_tile as u32 * tile.block_elements,
                    copies: tile.copies,
                    planes: copy.planes,
                    width: planner.width() as u32,
                    flags,
                    pad: 0,
                });
            }
        }
    }

    /// Pushes the filters to `tables`.
    ///
    /// # Errors
    /// If the tables have no room.
    pub fn push(&mut self, tables: &mut Tables) -> Result<(), GpuError> {
        let address = tables.push(&self.filters)?;
        for tile in &mut self.calls {
            tile.filters += address;
        }
        Ok(())
    }
}

/// Most bytes of the tables of the filters of these jobs.
pub fn filter_room(jobs: &[ChunkJob]) -> usize {
    let (mut tiles, mut filters, mut blocks) = (0, 0, 0);
    for job in jobs {
        if let Some(filter) = &job.work.filter {
            tiles += job.plan.tiles.len();
            filters += job.plan.tiles.len() * filter.tests().len();
            blocks += job.plan.blocks.len();
        }
    }
    room_for::<abi::CallTile>(tiles)
        + room_for::<abi::CallFilter>(filters)
        + room_for::<abi::MaskedBlock>(blocks)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::codec::CodecChain;
    use crate::codec::testing::one_chunk;
    use crate::counts::{CallRange, CallTest, CountRequest, SampleSet};
    use crate::gpu::batch::{FieldPiece, Reply};
    use crate::gpu::call_filter::{FieldTest, MaskedChunk, PlannedCallFilter};
    use crate::gpu::plan::{ChunkPlan, ChunkPlanner};
    use crate::gpu::work::{CountsOutput, Work, WorkOutput};
    use crate::store::ElementType;

    fn planned(data_type: &str, shape: &[usize]) -> (ChunkPlanner, ChunkPlan) {
        let codecs = json!([{"name": "bytes", "configuration": {"endian": "big"}}]);
        let array = one_chunk(&json!(data_type), json!(0), shape, &codecs);
        let chain = CodecChain::try_new(&array).unwrap();
        let planner = ChunkPlanner::try_new(&array, &chain).unwrap();
        let mut plan = ChunkPlan::default();
        let mut bytes = vec![0; planner.chunk_len()];
        planner.plan(&mut bytes, &mut plan).unwrap();
        (planner, plan)
    }

    #[test]
    fn tiles_and_blocks_of_a_job() {
        let (genotypes, plan) = planned("int8", &[3, 5, 2]);
        let (field, field_plan) = planned("int16", &[3, 5, 4]);
        let test = CallTest::Integers {
            min: Some(20),
            max: None,
        };
        let range = CallRange::try_new(ElementType::Int16, &test).unwrap();
        let tests = vec![
            FieldTest {
                field: 0,
                at: 3,
                range,
            },
            FieldTest {
                field: 0,
                at: 0,
                range: CallRange::NONE,
            },
        ];
        let filter =
            PlannedCallFilter::try_new(&genotypes, vec![("call_X", field)], tests).unwrap();
        let request = CountRequest {
            alleles: vec![Arc::new(SampleSet::all(5))],
            genotypes: vec![],
            zygosity: vec![],
            planes: vec![],
            n_alleles: 2,
            n_samples: 5,
            ploidy: 2,
        };
        let work = Work {
            wanted: WorkOutput::Counts(CountsOutput::try_new(request, 5, 2, false).unwrap()),
            planner: genotypes,
            filter: Some(filter),
            sizes: Arc::default(),
        };
        let job = ChunkJob {
            work: Arc::new(work),
            sample_chunk: 0,
            rows: 3,
            src: 0..30,
            file: None,
            masked: Some(MaskedChunk::try_new(&plan, 1, 0).unwrap()),
            plan,
            fields: vec![FieldPiece {
                src: 48..168,
                plan: field_plan,
                dst: 0,
            }],
            dst: 0,
            out: 0..0,
            resident: None,
            reply: Reply::new().0,
        };
        let block = abi::Block {
            data: 1000,
            elements: 30,
            kind: abi::PLAIN,
            planes: 1,
            flags: 0,
        };
        let mut tables = FilterTables::default();
        tables.add(&job, &[block, abi::Block::default()], 4096, 1 << 20);
        assert_eq!((tables.calls.len(), tables.filters.len()), (1, 2));
        let calls = tables.calls[0];
        assert_eq!((calls.calls, calls.n_filters, calls.filters), (15, 2, 0));
        assert_eq!(calls.passes, 1 << 20);
        let first = tables.filters[0];
        // After the block of the genotypes.
        assert_eq!(first.blocks, 4096 + 24);
        assert_eq!((first.per_call, first.at, first.width), (4, 3, 2));
        assert_eq!(first.block_elements, 60);
        assert_eq!(
            (first.low, first.high, first.missing, first.fill),
            (20, i16::MAX.into(), 0xffff, 0xfffe)
        );
        assert_eq!(first.flags, abi::FIELD_BIG_ENDIAN | abi::HAS_NULLS);
        assert_eq!((tables.filters[1].low, tables.filters[1].high), (0, -1));
        let copy = tables.masked[0];
        assert_eq!((copy.from.data, copy.from.elements), (1000, 30));
        // After a word of calls and one more.
        assert_eq!((copy.to, copy.passes), ((1 << 20) + 16, 1 << 20));
        assert_eq!(
            (copy.first, copy.copies, copy.width, copy.flags),
            (0, 2, 1, 0)
        );
        let room = filter_room(std::slice::from_ref(&job));
        assert_eq!(room, 32 + 128 + 64);
        tables.clear();
        assert!(tables.calls.is_empty() && tables.filters.is_empty());
    }
}
