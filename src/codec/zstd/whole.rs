//! The `zstd` codec: one or more Zstandard frames, with or without content size and checksum.

use super::super::CodecError;
use super::super::deflate::growing as read_growing;
use super::context::ZstdContext;
use super::frame::{BLOCK_MAX, FrameSummary};
use super::prefix::decompress_prefix;

/// Decompresses into `dst`, which must be the decoded length.
pub(in crate::codec) fn exact(
    src: &[u8],
    dst: &mut [u8],
    context: &mut ZstdContext,
) -> Result<(), CodecError> {
    decompress_prefix(src, dst, dst.len(), context).map(|_| ())
}

/// Decompresses at most `limit` bytes.
pub(in crate::codec) fn growing(
    src: &[u8],
    limit: usize,
    context: &mut ZstdContext,
) -> Result<Vec<u8>, CodecError> {
    // The frame's content size is used if its blocks can hold that much.
    if let Ok(summary) = FrameSummary::parse(src) {
        let blocks: usize = summary.blocks.iter().sum();
        let can_hold = (blocks as u64).saturating_mul(BLOCK_MAX).min(limit as u64);
        let len = summary.header.content_size.filter(|len| *len <= can_hold);
        if let (Some(Ok(len)), true) = (len.map(usize::try_from), summary.len == src.len()) {
            let mut out = vec![0; len];
            exact(src, &mut out, context)?;
            return Ok(out);
        }
    }
    let decoder =
        ::zstd::stream::read::Decoder::with_buffer(src).map_err(|e| format!("zstd: {e}"))?;
    read_growing("zstd", decoder, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_content_size() {
        let data = b"AT,ATT,A,*".repeat(30_000);
        let known = ::zstd::bulk::compress(&data, 3).unwrap();
        let unknown = ::zstd::stream::encode_all(&data[..], 3).unwrap();
        let two = [known.clone(), unknown.clone()].concat();
        let mut context = ZstdContext::default();
        for (src, n) in [(known, 1), (unknown, 1), (two, 2)] {
            let mut out = vec![0; n * data.len()];
            exact(&src, &mut out, &mut context).unwrap();
            assert_eq!(out, data.repeat(n));
            assert_eq!(growing(&src, out.len(), &mut context).unwrap(), out);
            assert!(growing(&src, out.len() - 1, &mut context).is_err());
            assert!(exact(&src, &mut out[1..], &mut context).is_err());
            assert!(growing(&src[..src.len() - 1], out.len(), &mut context).is_err());
        }
        assert!(growing(&[], 10, &mut context).is_err());
        assert!(exact(&[], &mut [0], &mut context).is_err());
    }
}
