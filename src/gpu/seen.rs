//! [`Seen`]: what the chunks of an array came to, learnt while they are staged.
//!
//! Whoever keeps it (a table does) makes later scans know what earlier ones found. Metadata tells only what a chunk decodes to as a whole:
//! genotypes are often a hundredth of that encoded, and where frames are cut a quarter of it is decoded. How many chunks are handed over
//! together and how many fit a batch follows what is here.

use std::sync::atomic::{AtomicU64, Ordering};

/// Chunks after which a mean is worth more than a guess.
const ENOUGH: u64 = 4;
/// Half of what was learnt is forgotten after so many chunks: they may grow or shrink along the store.
const MOST: u64 = 4096;

/// Mean sizes of an array's chunks. Who looks while others add or forget may find some numbers newer than others: they are only means.
#[derive(Debug, Default)]
pub struct Seen {
    chunks: AtomicU64,
    encoded: AtomicU64,
    decoded: AtomicU64,
}

impl Seen {
    /// Adds a chunk: its encoded bytes and those that a device decodes of it.
    pub fn add(&self, encoded: usize, decoded: usize) {
        let before = self.chunks.fetch_add(1, Ordering::Relaxed);
        self.encoded.fetch_add(encoded as u64, Ordering::Relaxed);
        self.decoded.fetch_add(decoded as u64, Ordering::Relaxed);
        // One thread gets just this number.
        if before == MOST {
            for part in [&self.chunks, &self.encoded, &self.decoded] {
                part.fetch_sub(part.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    /// Encoded bytes of a chunk; `guess` until some were seen.
    pub fn encoded(&self, guess: usize) -> usize {
        self.mean(&self.encoded).unwrap_or(guess)
    }

    /// Bytes that a device decodes of a chunk; `guess` until some were seen.
    pub fn decoded(&self, guess: usize) -> usize {
        self.mean(&self.decoded).unwrap_or(guess)
    }

    fn mean(&self, bytes: &AtomicU64) -> Option<usize> {
        let chunks = self.chunks.load(Ordering::Relaxed);
        let mean = (chunks >= ENOUGH).then(|| bytes.load(Ordering::Relaxed) / chunks)?;
        usize::try_from(mean).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_follow_what_was_seen() {
        let seen = Seen::default();
        for _ in 0..3 {
            seen.add(10, 100);
        }
        assert_eq!(
            (seen.encoded(1000), seen.decoded(2000)),
            (1000, 2000),
            "too few"
        );
        seen.add(50, 100);
        assert_eq!((seen.encoded(1000), seen.decoded(2000)), (20, 100));
        for _ in 0..MOST {
            seen.add(100, 0);
        }
        assert!((95..=100).contains(&seen.encoded(0)), "{}", seen.encoded(0));
        for _ in 0..2 * MOST {
            seen.add(10, 0);
        }
        assert!((10..=15).contains(&seen.encoded(0)), "{}", seen.encoded(0));
    }
}
