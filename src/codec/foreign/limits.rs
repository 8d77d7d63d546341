//! How many bytes each step of a chain may make.
//!
//! The metadata give the bytes of the elements. From there, each bytes → bytes codec adds to the length of what it encodes: a
//! checksum four bytes, a compressor that meets incompressible bytes at most a quarter and 64 KiB (the formats' own bounds are below
//! that: bzip2 1 % and 600 bytes, DEFLATE, LZ4 and zstd less than 1 % and some bytes, Blosc 16 bytes and 4 for each block or split).

use crate::store::MAX_CHUNK_BYTES;

/// Bytes that a compressor may add, whatever it encodes.
const OVERHEAD: usize = 64 << 10;

/// The length of the bytes between two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// Exactly so many.
    Exact(usize),
    /// No more than so many.
    AtMost(usize),
}

impl Length {
    /// Of bytes of which only a chunk's largest length is known.
    pub(super) fn of_any_chunk() -> Length {
        Length::AtMost(usize::try_from(MAX_CHUNK_BYTES).unwrap_or(usize::MAX))
    }

    /// The most bytes.
    pub(super) fn most(self) -> usize {
        match self {
            Length::Exact(len) | Length::AtMost(len) => len,
        }
    }

    /// After a step that adds `extra` bytes.
    pub(super) fn plus(self, extra: usize) -> Length {
        match self {
            Length::Exact(len) => Length::Exact(len.saturating_add(extra)),
            Length::AtMost(len) => Length::AtMost(len.saturating_add(extra)),
        }
    }

    /// After a compressor.
    pub(super) fn compressed(self) -> Length {
        let len = self.most();
        Length::AtMost(len.saturating_add(len / 4).saturating_add(OVERHEAD))
    }

    /// Whether `len` bytes fit.
    pub(super) fn admits(self, len: usize) -> bool {
        match self {
            Length::Exact(expected) => len == expected,
            Length::AtMost(most) => len <= most,
        }
    }

    /// For messages: `exactly 8` or `at most 8`.
    pub(super) fn expected(self) -> String {
        match self {
            Length::Exact(len) => format!("exactly {len}"),
            Length::AtMost(len) => format!("at most {len}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let checked = Length::Exact(100).plus(4);
        assert_eq!(checked, Length::Exact(104));
        assert!(checked.admits(104) && !checked.admits(103));
        let compressed = checked.compressed();
        assert_eq!(compressed, Length::AtMost(130 + (64 << 10)));
        assert!(compressed.admits(0) && !compressed.admits(1 << 20));
        assert_eq!(Length::Exact(usize::MAX).compressed().most(), usize::MAX);
    }
}
