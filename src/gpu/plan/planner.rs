//! [`ChunkPlanner`]: decides whether a GPU can decode an array, and plans its chunks.

use std::fmt;
use std::ops::Range;

use super::chunk_plan::{BlockLocation, ChunkPlan, PlannedBlock, PlannedTile};
use super::encoding::{Crc32c, Encoding, outermost_checksums, strip};
use super::estimate::{self, Estimate};
use super::tile::{TileShape, check_copies};
use crate::codec::blosc::Shuffle;
use crate::codec::{CodecChain, Serializer, Sharding};
use crate::gpu::error::GpuError;
use crate::store::{ArrayMeta, Endianness, FillValue};

/// Plans the chunks of one array. Built once per array, and shared by the threads that read its chunks.
#[derive(Debug, Clone)]
pub struct ChunkPlanner {
    /// Checksums around the whole chunk, outermost first. A shard has no compressor around it.
    outer: Vec<Crc32c>,
    sharding: Option<Sharding>,
    encoding: Encoding,
    tile: TileShape,
    chunk_len: usize,
    big_endian: bool,
    summary: String,
    estimate: Estimate,
}

/// How the calls of a chunk are cut into tiles. Grids of the same tiles are equal, whatever the values of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallGrid {
    tiles: [usize; 2],
    rows: u32,
    samples: u32,
    /// Stored elements of a call.
    pub per_call: u32,
}

impl PartialEq for CallGrid {
    fn eq(&self, other: &Self) -> bool {
        (self.tiles, self.rows, self.samples) == (other.tiles, other.rows, other.samples)
    }
}

/// Variants by samples of a chunk, and of its tiles if it has several.
impl fmt::Display for CallGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [down, across] = self.tiles;
        let whole = |n: usize, len: u32| n.saturating_mul(len as usize);
        let (rows, samples) = (whole(down, self.rows), whole(across, self.samples));
        write!(f, "{rows} × {samples}")?;
        match self.tiles {
            [1, 1] => Ok(()),
            _ => write!(f, " in tiles of {} × {}", self.rows, self.samples),
        }
    }
}

impl ChunkPlanner {
    /// A planner for `array`, whose codec chain is `chain`.
    ///
    /// # Errors
    /// The reason why a GPU cannot decode this array.
    pub fn try_new(array: &ArrayMeta, chain: &CodecChain) -> Result<ChunkPlanner, GpuError> {
        if array.element.is_text() {
            return Err("text is decoded on the host".into());
        }
        if !chain.transpose().is_identity() {
            return Err("transposed chunks are decoded on the host".into());
        }
        // A device treats absent chunks as zeros.
        match &array.fill_value {
            FillValue::Null => {}
            FillValue::Bytes(bytes) if bytes.iter().all(|byte| *byte == 0) => {}
            _ => return Err("a fill value other than 0 is left to the host".into()),
        }
        let (inner, sharding, outer) = match chain.serializer() {
            Serializer::Sharding(sharding) => {
                let (rest, checksums) = outermost_checksums(chain.compressors());
                if let Some(codec) = rest.first() {
                    return Err(format!(
                        "shards that are compressed again ({}) are decoded on the host",
                        codec.summary()
                    )
                    .into());
                }
                (sharding.inner(), Some(sharding.as_ref().clone()), checksums)
            }
            _ => (chain, None, Vec::new()),
        };
        let encoding = Encoding::try_new(inner)?;
        let tile = TileShape::try_new(array.element, inner.shape())?;
        check_copies(array, inner.shape(), sharding.as_ref())?;
        let chunk_len = chain.fixed_len()?;
        if u32::try_from(chunk_len).is_err() {
            return Err(format!(
                "chunks of {chunk_len} bytes are too large for the GPU, which takes less than 4 GiB"
            )
            .into());
        }
        let big_endian = matches!(inner.serializer(), Serializer::Bytes(Endianness::Big));
        Ok(ChunkPlanner {
            estimate: estimate::of(array, chain, chunk_len),
            summary: chain.summary(),
            big_endian: big_endian && tile.width > 1,
            outer,
            sharding,
            encoding,
            tile,
            chunk_len,
        })
    }

    /// Plans one encoded chunk, all bytes of its object. Clears and fills `plan`.
    ///
    /// `encoded` is a copy of the chunk for the device: planning cuts frames in it before a tail of zeros or of copies of a
    /// plane, which [`ChunkPlan::restore`] undoes. After an error, `encoded` is unchanged and `plan` is empty.
    ///
    /// # Errors
    /// The reason why the host decodes this chunk, or reports what is wrong with it.
    pub fn plan(&self, encoded: &mut [u8], plan: &mut ChunkPlan) -> Result<(), GpuError> {
        plan.clear();
        let result = self.fill(encoded, plan).and_then(|()| plan.finish(encoded));
        if result.is_err() {
            plan.clear();
        }
        result
    }

    /// Whether encoded chunks are exactly their elements, so that a device can read them from files.
    pub fn is_plain(&self) -> bool {
        self.sharding.is_none() && self.outer.is_empty() && self.encoding.is_plain()
    }

    /// Plans a chunk of `len` encoded bytes that was not read; only where [`is_plain`](Self::is_plain).
    ///
    /// # Errors
    /// The reason why the host decodes this chunk.
    pub fn plan_unread(&self, len: usize, plan: &mut ChunkPlan) -> Result<(), GpuError> {
        plan.clear();
        if !self.is_plain() {
            return Err("the chunk must be read before it is planned".into());
        }
        if len != self.tile.len {
            return Err(format!("{len} bytes, expected {}", self.tile.len).into());
        }
        plan.encoded_block(0..len, self.tile.elements, Shuffle::None, 1)?;
        self.push_tile(0, self.tile.elements, [0, 0], plan);
        Ok(())
    }

    /// Plans an absent chunk: zeros.
    ///
    /// # Errors
    /// The reason why the host decodes this chunk.
    pub fn plan_absent(&self, plan: &mut ChunkPlan) -> Result<(), GpuError> {
        plan.clear();
        let [down, across] = self.tiles();
        plan.shared_rows = self.shares_rows();
        for i in 0..down * across {
            let (row, column) = (i / across, i % across);
            // Below the lengths of the chunk, which were checked.
            let origin = [
                row as u32 * self.tile.rows,
                column as u32 * self.tile.samples,
            ];
            self.absent_tile(origin, plan)?;
        }
        Ok(())
    }

    /// The tiles of a chunk along variants and along samples, at least one.
    fn tiles(&self) -> [usize; 2] {
        let along = |axis: usize| {
            let grid = self.sharding.as_ref().map_or(&[][..], Sharding::grid);
            grid.get(axis).copied().unwrap_or(1).max(1)
        };
        [along(0), along(1)]
    }

    /// Whether several tiles of a chunk have the same rows, and different samples.
    pub fn shares_rows(&self) -> bool {
        self.tiles()[1] > 1
    }

    /// The calls of a chunk and of its tiles.
    pub fn grid(&self) -> CallGrid {
        CallGrid {
            tiles: self.tiles(),
            rows: self.tile.rows,
            samples: self.tile.samples,
            per_call: self.tile.copies,
        }
    }

    /// What one chunk is expected to contain, from metadata alone.
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// A short description of the encoding, e.g. `blosc(zstd, bitshuffle)`.
    pub fn summary(&self) -> String {
        self.summary.clone()
    }

    /// Whether elements are stored with the most significant byte first.
    pub fn big_endian(&self) -> bool {
        self.big_endian
    }

    /// Bytes of an element: 1, 2, 4 or 8.
    pub fn width(&self) -> usize {
        self.tile.width
    }

    /// Bytes of a decoded chunk.
    pub fn chunk_len(&self) -> usize {
        self.chunk_len
    }

    fn fill(&self, encoded: &[u8], plan: &mut ChunkPlan) -> Result<(), GpuError> {
        let object = strip(&self.outer, encoded, 0..encoded.len())?;
        let Some(sharding) = &self.sharding else {
            return self.tile(encoded, object, [0, 0], plan);
        };
        let columns = sharding.grid().get(1).copied().unwrap_or(1);
        plan.shared_rows = self.shares_rows();
        self.inner_tiles(encoded, object, sharding, columns, plan)
    }

    /// Plans the inner chunks of a shard, `columns` to a band of rows.
    fn inner_tiles(
        &self,
        encoded: &[u8],
        shard: Range<usize>,
        sharding: &Sharding,
        columns: usize,
        plan: &mut ChunkPlan,
    ) -> Result<(), GpuError> {
        let bytes = encoded.get(shard.clone()).unwrap_or_default();
        // Taken out, so that the plan can be modified while the index is read.
        let mut index = std::mem::take(&mut plan.index);
        let mut run = || {
            sharding.read_index(bytes, &mut index)?;
            for (i, range) in index.ranges().iter().enumerate() {
                // Below the lengths of the chunk, which were checked.
                let row0 = (i / columns) as u32 * self.tile.rows;
                let sample0 = (i % columns) as u32 * self.tile.samples;
                let Some(range) = range else {
                    self.absent_tile([row0, sample0], plan)?;
                    continue;
                };
                // The index was checked against the shard's length.
                let piece = shard.start + range.start as usize..shard.start + range.end as usize;
                self.tile(encoded, piece, [row0, sample0], plan)
                    .map_err(|e| format!("inner chunk {i}: {e}"))?;
            }
            Ok(())
        };
        let result = run();
        plan.index = index;
        result
    }

    /// A tile of zeros.
    fn absent_tile(&self, origin: [u32; 2], plan: &mut ChunkPlan) -> Result<(), GpuError> {
        let first = plan.blocks.len();
        plan.block(PlannedBlock {
            location: BlockLocation::Zero,
            elements: self.tile.elements,
            shuffle: Shuffle::None,
            planes: 0,
            repeats: false,
        })?;
        self.push_tile(first, self.tile.elements, origin, plan);
        Ok(())
    }

    /// Plans the tile whose encoded bytes are `piece` of `encoded`.
    fn tile(
        &self,
        encoded: &[u8],
        piece: Range<usize>,
        origin: [u32; 2],
        plan: &mut ChunkPlan,
    ) -> Result<(), GpuError> {
        let first = plan.blocks.len();
        let block_elements = self.encoding.plan(encoded, piece, &self.tile, plan)?;
        self.push_tile(first, block_elements, origin, plan);
        Ok(())
    }

    fn push_tile(&self, first: usize, block_elements: u32, origin: [u32; 2], plan: &mut ChunkPlan) {
        let [row0, sample0] = origin;
        let TileShape {
            rows,
            samples,
            copies,
            ..
        } = self.tile;
        plan.tiles.push(PlannedTile {
            blocks: first..plan.blocks.len(),
            block_elements,
            row0,
            rows,
            // No more than the elements of the tile.
            row_elements: samples * copies,
            sample0,
            samples,
            copies,
        });
    }
}
