//! A device in software: executes a plan with the codecs' own crates, and reads elements where the plan says they are.

use crate::codec::blosc::Shuffle;
use crate::codec::{ChunkData, CodecChain, Scratch};
use crate::gpu::error::GpuError;
use crate::gpu::plan::{
    BlockLocation, Checksum, ChunkPlan, ChunkPlanner, FrameCodec, PlannedBlock, PlannedTile,
};

/// What a plan does not write; no element may show it.
const POISON: u8 = 0xa5;

/// An executed plan.
pub(in crate::gpu) struct Device<'a> {
    plan: &'a ChunkPlan,
    encoded: &'a [u8],
    decoded: Vec<u8>,
    width: usize,
}

impl<'a> Device<'a> {
    /// Decodes all frames and copies all segments. An error is what a device finds wrong with a frame.
    pub fn run(
        plan: &'a ChunkPlan,
        encoded: &'a [u8],
        width: usize,
    ) -> Result<Device<'a>, GpuError> {
        let mut decoded = vec![POISON; plan.decoded_len];
        for frame in &plan.frames {
            let dst = &mut decoded[frame.dst..frame.dst + frame.len];
            let src = &encoded[frame.src.clone()];
            match frame.codec {
                FrameCodec::Zstd => {
                    let written = ::zstd::bulk::decompress_to_buffer(src, dst)
                        .map_err(|e| format!("zstd: {e}"))?;
                    if written != frame.len {
                        return Err(format!("zstd: {written} bytes").into());
                    }
                }
                FrameCodec::Lz4 => {
                    let written = lz4_flex::block::decompress_into(src, dst)
                        .map_err(|e| format!("lz4: {e}"))?;
                    if written != frame.len {
                        return Err(format!("lz4: {written} bytes").into());
                    }
                }
                FrameCodec::Deflate => inflate(src, dst)?,
            }
            let sum = match frame.check {
                None => continue,
                Some(Checksum::Crc32(sum)) => sum == crc32fast::hash(dst),
                Some(Checksum::Adler32(sum)) => sum == adler32(dst),
            };
            if !sum {
                return Err("a wrong checksum".into());
            }
        }
        for segment in &plan.segments {
            let dst = &mut decoded[segment.dst..segment.dst + segment.len];
            match segment.src {
                Some(src) => dst.copy_from_slice(&encoded[src..src + segment.len]),
                None => dst.fill(0),
            }
        }
        for known in &plan.known_bytes {
            if decoded[known.at] != known.byte {
                return Err("a tail that does not repeat what comes before".into());
            }
        }
        Ok(Device {
            plan,
            encoded,
            decoded,
            width,
        })
    }

    /// All elements of the chunk, in row-major order of `[rows, samples, copies]`, as they are stored.
    pub fn elements(&self, samples: usize, copies: usize, len: usize) -> Vec<u8> {
        let mut out = vec![POISON; len];
        let mut n = 0;
        for tile in &self.plan.tiles {
            for row in 0..tile.rows {
                for sample in 0..tile.samples {
                    for copy in 0..tile.copies {
                        let row_at = (tile.row0 + row) as usize * samples;
                        let at =
                            (row_at + (tile.sample0 + sample) as usize) * copies + copy as usize;
                        let to = &mut out[at * self.width..(at + 1) * self.width];
                        self.element(tile, row, sample, copy, to);
                        n += self.width;
                    }
                }
            }
        }
        assert_eq!(n, len, "tiles are not the chunk");
        out
    }

    fn element(&self, tile: &PlannedTile, row: u32, sample: u32, copy: u32, to: &mut [u8]) {
        let at = row * tile.row_elements + sample * tile.copies + copy;
        let block = &self.plan.blocks[tile.blocks.clone()][(at / tile.block_elements) as usize];
        let i = (at % tile.block_elements) as usize;
        let bytes = self.bytes(block);
        let n = block.elements as usize;
        for (j, to) in to.iter_mut().enumerate() {
            *to = match (block.location, block.shuffle) {
                (BlockLocation::Zero, _) => 0,
                (_, Shuffle::None) => bytes[i * self.width + j],
                (_, Shuffle::Byte) => bytes[j * n + i],
                (_, Shuffle::Bit) => (0..8)
                    .filter(|k| block.repeats || 8 * j + k < block.planes as usize)
                    .map(|k| (k, (8 * j + k).min(block.planes as usize - 1)))
                    .map(|(k, plane)| (bytes[plane * (n / 8) + i / 8] >> (i % 8) & 1) << k)
                    .sum(),
            };
        }
    }

    fn bytes(&self, block: &PlannedBlock) -> &[u8] {
        let len = ChunkPlan::block_bytes(block, self.width);
        match block.location {
            BlockLocation::Decoded(at) => &self.decoded[at..at + len],
            BlockLocation::Encoded(at) => &self.encoded[at..at + len],
            BlockLocation::Zero => &[],
        }
    }
}

fn inflate(src: &[u8], dst: &mut [u8]) -> Result<(), GpuError> {
    let mut context = flate2::Decompress::new(false);
    let status = context
        .decompress(src, dst, flate2::FlushDecompress::Finish)
        .map_err(|e| format!("deflate: {e}"))?;
    // Where the stream ends before `src` does is not something a device reports.
    if status != flate2::Status::StreamEnd || context.total_out() != dst.len() as u64 {
        return Err(format!("deflate: {} bytes", context.total_out()).into());
    }
    Ok(())
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

/// The elements of a chunk as the host decodes them.
pub(in crate::gpu) fn on_host(chain: &CodecChain, encoded: &[u8]) -> Result<Vec<u8>, GpuError> {
    match chain.decode(encoded, &mut Scratch::default())? {
        ChunkData::Fixed(elements) => Ok(elements.to_vec()),
        ChunkData::Strings(_) => panic!("strings"),
    }
}

/// The elements of a chunk as a device finds them.
pub(in crate::gpu) fn on_device(
    planner: &ChunkPlanner,
    plan: &ChunkPlan,
    encoded: &[u8],
    (samples, copies): (usize, usize),
) -> Result<Vec<u8>, GpuError> {
    let width = planner.width();
    let device = Device::run(plan, encoded, width)?;
    let mut elements = device.elements(samples, copies, planner.chunk_len());
    if planner.big_endian() == cfg!(target_endian = "little") {
        elements.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    Ok(elements)
}
