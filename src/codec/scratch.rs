//! Buffers and decompression contexts that a decoding thread keeps between chunks.
//!
//! One per thread. Nothing in it carries over from one call to the next: it only saves allocations.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

use super::CodecError;
use super::zstd::ZstdContext;

/// Reusable buffers and decompression contexts, one per thread. Buffers keep the largest size that was needed;
/// [`Scratch::retained_bytes`] is their sum.
#[derive(Default)]
pub struct Scratch {
    /// For zstd frames.
    pub zstd: ZstdContext,
    zlib: Option<Decompress>,
    /// A decompressed block that is still shuffled.
    pub(super) block: GrowBuffer,
    /// Elements before they are transposed or turned into strings.
    pub(super) elements: GrowBuffer,
    /// An inner chunk of a shard, before it is copied to its position.
    pub(super) inner: GrowBuffer,
}

impl Scratch {
    /// Bytes held by the buffers (the contexts, some 350 KB, are not included).
    pub fn retained_bytes(&self) -> usize {
        let buffers = [&self.block, &self.elements, &self.inner];
        let buffers: usize = buffers.iter().map(|buffer| buffer.0.capacity()).sum();
        buffers + self.zstd.retained_bytes()
    }

    /// Decompresses one zlib stream, which must fill `dst` and use up `src`.
    pub(super) fn zlib_exact(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        match self.zlib_prefix(src, dst)? {
            read if read == src.len() => Ok(()),
            read => Err(format!(
                "zlib: the stream ends after {read} of {} encoded bytes",
                src.len()
            )
            .into()),
        }
    }

    /// Decompresses the zlib stream at the start of `src`, which must fill `dst`. Returns the length of the stream.
    pub(super) fn zlib_prefix(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError> {
        let context = self.zlib.get_or_insert_with(|| Decompress::new(true));
        context.reset(true);
        let (mut from, mut to) = (0usize, 0usize);
        // One call is enough if the output has room. The loop continues after a decoder that stops early, and ends when a call
        // makes no progress.
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
                    )
                    .into())
                };
            }
            if read == from && written == to {
                return Err(format!(
                    "zlib: the stream does not end after {written} bytes, expected {} bytes",
                    dst.len()
                )
                .into());
            }
            (from, to) = (read, written);
        }
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("retained_bytes", &self.retained_bytes())
            .finish_non_exhaustive()
    }
}

/// A buffer that never shrinks, so that a slice of it costs nothing once it is large enough. The slice has the bytes of earlier
/// uses.
#[derive(Default)]
pub(super) struct GrowBuffer(Vec<u8>);

impl GrowBuffer {
    pub(super) fn slice(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            // A new allocation, because growing would copy bytes that are not needed.
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
