//! Decoding a zstd frame without the tail of zeros that its block headers show.
//!
//! A cut never changes which frames are accepted: a frame with a checksum, a dictionary, no content size, or anything
//! after it is decoded whole, and so is one whose cut form libzstd rejects.

use super::super::CodecError;
use super::context::ZstdContext;
use super::frame::FrameSummary;

/// The result of [`decompress_prefix`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Bytes of the output that are valid: decoded, or filled with zeros up to `needed_len`.
    pub valid: usize,
    /// The content is zero from here to its end. At most `valid`.
    pub zero_from: usize,
}

/// Decodes `frame`, whose content must be exactly `dst.len()` bytes. Where its block headers show that it ends in zeros,
/// only what comes before is decoded; of the zeros, those before `needed_len` are written and the rest of `dst` is
/// left as it was. With `needed_len == dst.len()` all of `dst` is valid afterwards.
pub fn decompress_prefix(
    frame: &[u8],
    dst: &mut [u8],
    needed_len: usize,
    context: &mut ZstdContext,
) -> Result<Prefix, CodecError> {
    if let Some(prefix) = decompress_cut(frame, dst, needed_len, context) {
        return Ok(prefix);
    }
    let written = context.decompress(frame, dst)?;
    if written != dst.len() {
        return Err(format!("zstd: decoded {written} bytes, expected {}", dst.len()).into());
    }
    Ok(Prefix {
        valid: written,
        zero_from: written,
    })
}

/// `None` if the frame has to be decoded whole, which then also detects errors.
fn decompress_cut(
    frame: &[u8],
    dst: &mut [u8],
    needed_len: usize,
    context: &mut ZstdContext,
) -> Option<Prefix> {
    let summary = FrameSummary::parse(frame).ok()?;
    if summary.len != frame.len() || summary.header.content_size != Some(dst.len() as u64) {
        return None;
    }
    let zero_from = usize::try_from(summary.cut_len()?).ok()?;
    if zero_from > 0 {
        let cut = summary.zero_cut()?;
        context.decompress_before(&summary, &cut, frame, dst.get_mut(..zero_from)?)?;
    } else if summary.last_kept.is_some() {
        // Valid only if all blocks before the tail are empty: libzstd decides.
        return None;
    }
    let valid = zero_from.max(needed_len.min(dst.len()));
    dst.get_mut(zero_from..valid)?.fill(0);
    Some(Prefix { valid, zero_from })
}

#[cfg(test)]
#[path = "prefix_tests.rs"]
mod tests;
