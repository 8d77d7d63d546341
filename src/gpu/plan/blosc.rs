//! Planning a Blosc container: each split of each block is a frame of its own.
//!
//! Blocks stay shuffled. In the bit-shuffled zstd blocks of a default store, most bytes are bit-planes of zeros or, where calls
//! are missing, copies of one plane. The block headers of the zstd frame show this: such frames are cut, and the plan has the
//! number of planes that are decoded.

use super::chunk_plan::{
    BlockLocation, ChunkPlan, FrameCodec, KnownByte, PlannedBlock, PlannedFrame, PlannedSegment,
};
use super::deflate;
use super::tile::TileShape;
use super::zstd::zstd_summary;
use crate::codec::blosc::{BloscHeader, Compressor, HEADER_LEN, Shuffle, Split};
use crate::codec::zstd::cut::InPlaceCut;
use crate::codec::zstd::frame::FrameSummary;
use crate::codec::zstd::tail::RepeatedTail;
use crate::gpu::error::GpuError;

/// Plans the container `src`, which starts at `base` in the encoded chunk. Returns the elements of a block.
pub(super) fn plan(
    src: &[u8],
    base: usize,
    shape: &TileShape,
    plan: &mut ChunkPlan,
) -> Result<u32, GpuError> {
    let header = BloscHeader::parse(src)?;
    if header.nbytes() != shape.len {
        return Err(format!(
            "blosc: the container holds {} bytes, expected {}",
            header.nbytes(),
            shape.len
        )
        .into());
    }
    if header.memcpyed() {
        let bytes = base + HEADER_LEN..base + src.len();
        plan.encoded_block(bytes, shape.elements, Shuffle::None, 1)?;
        return Ok(shape.elements);
    }
    if header.n_blocks() > 1 && !header.blocksize().is_multiple_of(shape.width) {
        return Err(format!(
            "blosc: blocks of {} bytes cut elements of {}",
            header.blocksize(),
            shape.width
        )
        .into());
    }
    for i in 0..header.n_blocks() {
        block(src, base, &header, i, shape.width, plan)
            .map_err(|e| format!("blosc: block {i}: {e}"))?;
    }
    elements(header.block_len(0), shape.width)
}

fn block(
    src: &[u8],
    base: usize,
    header: &BloscHeader,
    i: usize,
    width: usize,
    plan: &mut ChunkPlan,
) -> Result<(), GpuError> {
    let shuffle = header.block_shuffle(i);
    if shuffle != Shuffle::None && header.typesize() != width {
        return Err(format!(
            "shuffled as elements of {} bytes, expected {width}",
            header.typesize()
        )
        .into());
    }
    let len = header.block_len(i);
    let elements = elements(len, width)?;
    let all_planes = match shuffle {
        // A width is 1, 2, 4 or 8.
        Shuffle::Bit => 8 * width as u32,
        Shuffle::None | Shuffle::Byte => 1,
    };
    let mut splits = header.splits(src, i)?;
    if header.n_splits(i) == 1
        && let Some(split) = splits.next().transpose()?
    {
        let start = base + split.offset;
        let range = start..start + split.payload.len();
        if split.stored {
            return plan.encoded_block(range, elements, shuffle, all_planes);
        }
        if header.compressor() == Compressor::Zstd && shuffle == Shuffle::Bit {
            return zstd_planes(split, start, elements, all_planes, plan);
        }
        let dst = plan.room(len)?;
        frame(header.compressor(), &split, start, dst, plan)?;
        return plan.block(PlannedBlock {
            location: BlockLocation::Decoded(dst),
            elements,
            shuffle,
            planes: all_planes,
            repeats: false,
        });
    }
    let start = plan.room(len)?;
    let mut dst = start;
    for split in splits {
        let split = split?;
        let src = base + split.offset;
        if split.stored {
            plan.segment(PlannedSegment {
                src: Some(src),
                dst,
                len: split.len,
            })?;
        } else {
            frame(header.compressor(), &split, src, dst, plan)?;
        }
        dst += split.len;
    }
    if dst != start + len {
        return Err(format!("splits of {} bytes, expected {len}", dst - start).into());
    }
    plan.block(PlannedBlock {
        location: BlockLocation::Decoded(start),
        elements,
        shuffle,
        planes: all_planes,
        repeats: false,
    })
}

/// Plans a bit-shuffled block that is one zstd frame, without the planes at its end that are proven to be zero or copies.
fn zstd_planes(
    split: Split<'_>,
    src: usize,
    elements: u32,
    all_planes: u32,
    plan: &mut ChunkPlan,
) -> Result<(), GpuError> {
    let summary = zstd_summary(split.payload, split.len)?;
    let plane_len = elements as usize / 8;
    let mut block = PlannedBlock {
        location: BlockLocation::Zero,
        elements,
        shuffle: Shuffle::Bit,
        planes: 0,
        repeats: false,
    };
    let frame = PlannedFrame {
        codec: FrameCodec::Zstd,
        src: src..src + split.payload.len(),
        dst: plan.decoded_len,
        len: split.len,
        check: None,
    };
    // Kernels support repeated planes in one-byte elements only, the type of genotypes.
    if summary.zero_tail == 0
        && all_planes == 8
        && let Some(tail) = RepeatedTail::find(&summary, split.payload)
        && let Some(planes) = tail.planes(plane_len)
        && let Ok(planes) = u32::try_from(planes)
        && planes < all_planes
    {
        (block.planes, block.repeats) = (planes, true);
        return repeated_planes(&summary, &tail, &split, frame, block, plan);
    }
    // Decoded bytes before the tail of zeros; all bytes if there is none.
    let head = match summary.cut_len() {
        Some(0) if summary.last_kept.is_none() => return plan.block(block),
        // Valid only if all blocks before the tail are empty: the host decides.
        Some(0) => return Err("zstd: blocks that hold more than the content".into()),
        Some(head) => usize::try_from(head).unwrap_or(split.len),
        None => split.len,
    };
    let planes = head.div_ceil(plane_len.max(1));
    block.planes = u32::try_from(planes).unwrap_or(all_planes).min(all_planes);
    let kept = block.planes as usize * plane_len;
    let cut = summary
        .zero_cut()
        .and_then(|cut| summary.in_place_cut(&cut, split.payload));
    match cut {
        Some(cut) => {
            let dst = plan.room(kept)?;
            let frame = PlannedFrame { len: head, ..frame };
            cut_frame(frame, cut, plan)?;
            if kept > head {
                plan.segment(PlannedSegment {
                    src: None,
                    dst: dst + head,
                    len: kept - head,
                })?;
            }
            block.location = BlockLocation::Decoded(dst);
        }
        None => {
            block.location = BlockLocation::Decoded(plan.room(split.len)?);
            plan.frame(frame)?;
        }
    }
    plan.block(block)
}

/// Plans a block in which every plane after the first `block.planes` equals the last of these. The device checks the literals of
/// the tail, which could differ.
fn repeated_planes(
    summary: &FrameSummary,
    tail: &RepeatedTail,
    split: &Split<'_>,
    frame: PlannedFrame,
    mut block: PlannedBlock,
    plan: &mut ChunkPlan,
) -> Result<(), GpuError> {
    let read = ChunkPlan::plane_bytes(&block);
    let head = usize::try_from(tail.cut.decoded_len).unwrap_or(split.len);
    let dst;
    // Devices cannot complete a plane of which only the start is left.
    let cut = summary.in_place_cut(&tail.cut, split.payload);
    match cut.filter(|_| read <= head) {
        Some(cut) => {
            dst = plan.room(head)?;
            cut_frame(PlannedFrame { len: head, ..frame }, cut, plan)?;
        }
        None => {
            dst = plan.room(split.len)?;
            plan.frame(frame)?;
        }
    }
    for (at, byte) in &tail.literals {
        // `at` is before the end of the decoded bytes.
        plan.known_byte(KnownByte {
            at: dst + *at as usize,
            byte: *byte,
        })?;
    }
    block.location = BlockLocation::Decoded(dst);
    plan.block(block)
}

fn cut_frame(frame: PlannedFrame, cut: InPlaceCut, plan: &mut ChunkPlan) -> Result<(), GpuError> {
    if cut.decoded_len != frame.len as u64 {
        return Err(format!(
            "zstd: cut to {} bytes, expected {}",
            cut.decoded_len, frame.len
        )
        .into());
    }
    plan.cut_frame(frame, cut)
}

/// Adds the frame of a split that is compressed; its payload is at `src` in the encoded chunk.
fn frame(
    compressor: Compressor,
    split: &Split<'_>,
    src: usize,
    dst: usize,
    plan: &mut ChunkPlan,
) -> Result<(), GpuError> {
    let whole = src..src + split.payload.len();
    let (codec, src, check) = match compressor {
        Compressor::Zstd => {
            zstd_summary(split.payload, split.len)?;
            (FrameCodec::Zstd, whole, None)
        }
        Compressor::Lz4 => (FrameCodec::Lz4, whole, None),
        Compressor::Zlib => {
            let (stream, check) = deflate::zlib(split.payload)?;
            let stream = src + stream.start..src + stream.end;
            (FrameCodec::Deflate, stream, Some(check))
        }
        Compressor::Blosclz | Compressor::Snappy => {
            return Err(no_decoder(compressor).into());
        }
    };
    plan.frame(PlannedFrame {
        codec,
        src,
        dst,
        len: split.len,
        check,
    })
}

/// Why the host decodes containers of this compressor.
pub(super) fn no_decoder(compressor: Compressor) -> String {
    format!(
        "the codec {} inside blosc has no decoder on the GPU",
        compressor.name()
    )
}

fn elements(len: usize, width: usize) -> Result<u32, GpuError> {
    match u32::try_from(len / width) {
        Ok(elements) if len.is_multiple_of(width) => Ok(elements),
        _ => Err(format!("{len} bytes of elements of {width}").into()),
    }
}
