//! Decompression of zstd frames on the host, with the buffers and contexts that are reused from frame to frame.

use ::zstd::zstd_safe::{DCtx, get_error_name};

use super::super::CodecError;
use super::cut::Cut;
use super::decode::{Decoder, pays};
use super::frame::FrameSummary;

/// Reusable state for decompressing zstd frames, one per thread. Nothing in it carries over from one frame to the next.
#[derive(Default)]
pub struct ZstdContext {
    libzstd: Option<DCtx<'static>>,
    decoder: Option<Box<Decoder>>,
    /// A copy of a frame with its tail cut off.
    cut: Vec<u8>,
}

impl ZstdContext {
    /// Bytes held by the buffers (the decoders' tables, some 350 KB, are not included).
    pub(in crate::codec) fn retained_bytes(&self) -> usize {
        self.cut.capacity()
    }

    /// Decompresses the frames of `src` into `dst`; the number of bytes written. Fails if they do not fit.
    pub(in crate::codec) fn decompress(
        &mut self,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, CodecError> {
        if let Ok(summary) = FrameSummary::parse(src)
            && summary.len == src.len()
            && summary.header.content_size == Some(dst.len() as u64)
            && self
                .decompress_blocks(src, &summary, src.len(), dst)
                .is_some()
        {
            return Ok(dst.len());
        }
        self.decompress_with_libzstd(src, dst)
    }

    /// Decompresses the part of `frame` before `cut` into `dst`, which it must fill. `None` if the frame has to be decompressed
    /// whole.
    pub(super) fn decompress_before(
        &mut self,
        summary: &FrameSummary,
        cut: &Cut,
        frame: &[u8],
        dst: &mut [u8],
    ) -> Option<()> {
        if self
            .decompress_blocks(frame, summary, cut.encoded_len, dst)
            .is_some()
        {
            return Some(());
        }
        if !summary.pays(cut) {
            return None;
        }
        self.cut.clear();
        summary.copy_cut(cut, frame, &mut self.cut)?;
        let written = decompress_into(&mut self.libzstd, &self.cut, dst).ok()?;
        (written == dst.len()).then_some(())
    }

    /// Decompresses the blocks of `frame` up to `encoded_len` into `dst`, which they must fill, with [`Decoder`]. `None` if the
    /// frame is invalid or libzstd is to decompress it.
    fn decompress_blocks(
        &mut self,
        frame: &[u8],
        summary: &FrameSummary,
        encoded_len: usize,
        dst: &mut [u8],
    ) -> Option<()> {
        if !pays(frame, summary, encoded_len, dst.len()) {
            return None;
        }
        let decoder = self.decoder.get_or_insert_default();
        let written = decoder.decode(frame, summary, encoded_len, dst)?;
        (written == dst.len()).then_some(())
    }

    /// Decompresses the frames of `src` with libzstd.
    pub(super) fn decompress_with_libzstd(
        &mut self,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, CodecError> {
        decompress_into(&mut self.libzstd, src, dst)
    }
}

fn decompress_into(
    context: &mut Option<DCtx<'static>>,
    src: &[u8],
    dst: &mut [u8],
) -> Result<usize, CodecError> {
    if context.is_none() {
        *context = DCtx::try_create();
    }
    let Some(context) = context else {
        return Err("zstd: no memory for a decompression context".into());
    };
    context
        .decompress(dst, src)
        .map_err(|code| format!("zstd: {}", get_error_name(code)).into())
}
