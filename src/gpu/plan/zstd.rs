//! Which zstd frames a device decodes.

use crate::codec::zstd::frame::FrameSummary;
use crate::gpu::error::GpuError;

/// Most blocks of a zstd frame, plus one for each [`BLOCK_BYTES`] of its content; the host decodes frames with more.
const MOST_BLOCKS: usize = 1024;
const BLOCK_BYTES: usize = 256;

/// The summary of `frame`, which must be one whole frame that a device decodes: with a content size, which is `len`, and without
/// checksum or dictionary.
pub(super) fn zstd_summary(frame: &[u8], len: usize) -> Result<FrameSummary, GpuError> {
    let summary = FrameSummary::parse(frame)?;
    let header = &summary.header;
    if header.content_size != Some(len as u64) {
        let size = header.content_size;
        return Err(format!("zstd: a content size of {size:?}, expected {len}").into());
    }
    if header.checksum || header.dictionary_id != 0 {
        return Err("zstd: a frame with a checksum or a dictionary".into());
    }
    // Each block costs a device time. Encoders write blocks of 128 KiB, or of a few KiB with some settings.
    let n_blocks: usize = summary.blocks.iter().sum();
    if n_blocks > MOST_BLOCKS + len / BLOCK_BYTES {
        return Err(format!("zstd: a frame of {n_blocks} blocks for {len} bytes").into());
    }
    if summary.len != frame.len() {
        return Err(format!(
            "zstd: {} bytes, of which a frame takes {}",
            frame.len(),
            summary.len
        )
        .into());
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of empty blocks and one block of four bytes.
    fn frame_of(empty_blocks: usize) -> Vec<u8> {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0, 4, 0, 0, 0];
        frame.extend([0; 3].repeat(empty_blocks));
        frame.extend([4 << 3 | 1, 0, 0, 1, 2, 3, 4]);
        frame
    }

    #[test]
    fn frames_with_very_many_blocks_are_rejected() {
        assert!(zstd_summary(&frame_of(1000), 4).is_ok());
        let reason = zstd_summary(&frame_of(2000), 4).unwrap_err();
        assert_eq!(&*reason, "zstd: a frame of 2001 blocks for 4 bytes");
    }
}
