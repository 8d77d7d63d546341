//! Buffers and decompression contexts that a decoding thread keeps between chunks.
//!
//! One per thread. Nothing in it carries meaning from one call to the next: it only saves allocations.

use std::fmt;

use ::zstd::zstd_safe::{DCtx, get_error_name};
use flate2::{Decompress, FlushDecompress, Status};

use super::zstd::cut::Cut;
use super::zstd::decode::{Decoder, pays};
use super::zstd::frame::FrameSummary;

/// Reusable buffers and decompression contexts, one per thread. It keeps the largest block and the largest
/// intermediate buffer that it has seen; [`Scratch::retained_bytes`] says how much that is.
#[derive(Default)]
pub struct Scratch {
    zstd: Option<DCtx<'static>>,
    decoder: Option<Box<Decoder>>,
    zlib: Option<Decompress>,
    /// A decompressed block that is still shuffled.
    pub(super) block: GrowBuffer,
    /// A zstd frame with its tail cut off.
    frame: Vec<u8>,
    /// Elements before they are transposed or turned into strings.
    pub(super) elements: GrowBuffer,
    /// An inner chunk of a shard, before it is copied to its place.
    pub(super) inner: GrowBuffer,
}

impl Scratch {
    /// Bytes held by the buffers (the contexts, some 350 KB, are not included).
    pub fn retained_bytes(&self) -> usize {
        let buffers = [&self.block.0, &self.frame, &self.elements.0, &self.inner.0];
        buffers.iter().map(|buffer| buffer.capacity()).sum()
    }

    /// Decompresses zstd frames into `dst`; the number of bytes written. Fails if they do not fit.
    pub(super) fn zstd(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, String> {
        if let Ok(summary) = FrameSummary::parse(src)
            && summary.len == src.len()
            && summary.header.content_size == Some(dst.len() as u64)
            && self.zstd_blocks(src, &summary, src.len(), dst).is_some()
        {
            return Ok(dst.len());
        }
        self.libzstd(src, dst)
    }

    /// Decompresses what comes before a cut of `frame` into `dst`, which it must fill. `None` if the frame has to be decompressed whole.
    pub(super) fn zstd_before(
        &mut self,
        summary: &FrameSummary,
        cut: &Cut,
        frame: &[u8],
        dst: &mut [u8],
    ) -> Option<()> {
        if self
            .zstd_blocks(frame, summary, cut.encoded_len, dst)
            .is_some()
        {
            return Some(());
        }
        if !summary.pays(cut) {
            return None;
        }
        self.frame.clear();
        summary.cut_frame(cut, frame, &mut self.frame)?;
        let written = zstd_into(&mut self.zstd, &self.frame, dst).ok()?;
        (written == dst.len()).then_some(())
    }

    /// Decompresses the blocks of `frame` up to `encoded_len` into `dst`, which they must fill. `None` if libzstd is to do it, which
    /// then also finds out what is wrong, if anything; see [`Decoder::decode`].
    fn zstd_blocks(
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

    /// Decompresses zstd frames with libzstd.
    pub(super) fn libzstd(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, String> {
        zstd_into(&mut self.zstd, src, dst)
    }

    /// Decompresses one zlib stream, which must fill `dst` and use up `src`.
    pub(super) fn zlib_exact(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), String> {
        match self.zlib_prefix(src, dst)? {
            read if read == src.len() => Ok(()),
            read => Err(format!(
                "zlib: the stream ends after {read} of {} encoded bytes",
                src.len()
            )),
        }
    }

    /// Decompresses the zlib stream that `src` starts with, which must fill `dst`. How many bytes of `src` it has.
    pub(super) fn zlib_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, String> {
        let context = self.zlib.get_or_insert_with(|| Decompress::new(true));
        context.reset(true);
        let (mut from, mut to) = (0usize, 0usize);
        // One call is enough when the output has room; the loop covers a decoder that stops early, and ends when
        // a call makes no progress.
        loop {
            let (input, output) = (
                src.get(from..).unwrap_or_default(),
                dst.get_mut(to..).unwrap_or_default(),
            );
            let status = context
                .decompress(input, output, FlushDecompress::Finish)
                .map_err(|e| format!("zlib: {e}"))?;
            let (read, written) = (context.total_in() as usize, context.total_out() as usize);
            if status == Status::StreamEnd {
                return if written == dst.len() {
                    Ok(read)
                } else {
                    Err(format!(
                        "zlib: the stream holds {written} bytes, expected {}",
                        dst.len()
                    ))
                };
            }
            if read == from && written == to {
                return Err(format!(
                    "zlib: the stream does not end after {written} bytes, expected {} bytes",
                    dst.len()
                ));
            }
            (from, to) = (read, written);
        }
    }
}

fn zstd_into(
    context: &mut Option<DCtx<'static>>,
    src: &[u8],
    dst: &mut [u8],
) -> Result<usize, String> {
    if context.is_none() {
        *context = DCtx::try_create();
    }
    let Some(context) = context else {
        return Err("zstd: no memory for a decompression context".to_string());
    };
    context
        .decompress(dst, src)
        .map_err(|code| format!("zstd: {}", get_error_name(code)))
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("retained_bytes", &self.retained_bytes())
            .finish_non_exhaustive()
    }
}

/// A buffer that never shrinks, so that taking a slice of it costs nothing once it is large enough. The slice holds
/// whatever was there before.
#[derive(Default)]
pub(super) struct GrowBuffer(Vec<u8>);

impl GrowBuffer {
    pub(super) fn slice(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            // A fresh allocation, because growing would copy bytes that nobody needs.
            self.0 = vec![0; len];
        }
        &mut self.0[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn zlib_sizes_are_exact() {
        let data = b"an even longer line, an even longer line, an even longer line".to_vec();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&data).unwrap();
        let encoded = encoder.finish().unwrap();
        let mut scratch = Scratch::default();
        let mut out = vec![0; data.len()];
        scratch.zlib_exact(&encoded, &mut out).unwrap();
        assert_eq!(out, data);
        for len in [0, 1, data.len() - 1, data.len() + 1] {
            assert!(
                scratch.zlib_exact(&encoded, &mut vec![0; len]).is_err(),
                "{len}"
            );
        }
        for end in 0..encoded.len() {
            assert!(scratch.zlib_exact(&encoded[..end], &mut out).is_err());
        }
        let mut trailing = encoded.clone();
        trailing.push(0);
        assert!(scratch.zlib_exact(&trailing, &mut out).is_err());
        // The context is clean again after every failure.
        scratch.zlib_exact(&encoded, &mut out).unwrap();
    }

    #[test]
    fn buffers_only_grow() {
        let mut buffer = GrowBuffer::default();
        assert_eq!(buffer.slice(10).len(), 10);
        assert_eq!(buffer.slice(3).len(), 3);
        assert_eq!(buffer.0.len(), 10);
    }
}
