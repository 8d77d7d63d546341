//! [`ChunkSizes`]: statistics of the chunk sizes of an array, collected while chunks are staged.
//!
//! A table keeps them, so later scans use what earlier ones measured. Metadata gives only the decoded size of a whole chunk;
//! encoded genotypes are often a hundredth of that, and where frames are cut only a quarter is decoded. The statistics
//! determine how many chunks are submitted together and how many fit in a batch.

use std::sync::atomic::{AtomicU64, Ordering};

/// Chunks of which too few rows stay on a device before others are not tried.
const FEW_ROWS: u64 = 16;
/// Chunks after which the mean is better than a guess.
const ENOUGH: u64 = 4;
/// The weight of earlier chunks is halved after this many: sizes may change along the store.
const MOST: u64 = 4096;

/// Mean sizes of an array's chunks. Readers may see counters of different ages, which is good enough for a mean.
#[derive(Debug, Default)]
pub struct ChunkSizes {
    chunks: AtomicU64,
    encoded: AtomicU64,
    decoded: AtomicU64,
    /// Chunks whose rows may stay on a device, and those of which too few can.
    may_stay: AtomicU64,
    few_rows: AtomicU64,
}

impl ChunkSizes {
    /// Whether too few rows stay on devices in many of the chunks whose rows may.
    pub fn few_rows_stay(&self) -> bool {
        let few = self.few_rows.load(Ordering::Relaxed);
        few >= FEW_ROWS && few.saturating_mul(4) >= self.may_stay.load(Ordering::Relaxed)
    }

    /// Whether enough chunks are known of whose rows those that may stay are not too few.
    pub fn rows_stay(&self) -> bool {
        self.may_stay.load(Ordering::Relaxed) >= FEW_ROWS && !self.few_rows_stay()
    }

    /// Adds a chunk whose rows may stay, and whether these are too few.
    pub fn add_resident(&self, are_few: bool) {
        self.may_stay.fetch_add(1, Ordering::Relaxed);
        self.few_rows
            .fetch_add(u64::from(are_few), Ordering::Relaxed);
    }

    /// Adds a chunk: its encoded bytes and the bytes that a device decodes.
    pub fn add(&self, encoded: usize, decoded: usize) {
        let before = self.chunks.fetch_add(1, Ordering::Relaxed);
        self.encoded.fetch_add(encoded as u64, Ordering::Relaxed);
        self.decoded.fetch_add(decoded as u64, Ordering::Relaxed);
        // Exactly one thread gets this number.
        if before == MOST {
            for part in [&self.chunks, &self.encoded, &self.decoded] {
                part.fetch_sub(part.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    /// Mean encoded bytes of a chunk; `guess` while there are too few chunks.
    pub fn encoded(&self, guess: usize) -> usize {
        self.mean(&self.encoded).unwrap_or(guess)
    }

    /// Mean bytes that a device decodes of a chunk; `guess` while there are too few chunks.
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
    fn rows_stay_unless_they_are_few_in_many_chunks() {
        let sizes = ChunkSizes::default();
        (0..60).for_each(|_| sizes.add_resident(false));
        (0..19).for_each(|_| sizes.add_resident(true));
        assert!(!sizes.few_rows_stay() && sizes.rows_stay(), "19 of 79");
        sizes.add_resident(true);
        assert!(sizes.few_rows_stay() && !sizes.rows_stay(), "20 of 80");
        let sizes = ChunkSizes::default();
        (0..15).for_each(|_| sizes.add_resident(true));
        assert!(!sizes.few_rows_stay() && !sizes.rows_stay());
    }

    #[test]
    fn means_follow_the_chunks() {
        let sizes = ChunkSizes::default();
        for _ in 0..3 {
            sizes.add(10, 100);
        }
        assert_eq!(
            (sizes.encoded(1000), sizes.decoded(2000)),
            (1000, 2000),
            "too few"
        );
        sizes.add(50, 100);
        assert_eq!((sizes.encoded(1000), sizes.decoded(2000)), (20, 100));
        for _ in 0..MOST {
            sizes.add(100, 0);
        }
        assert!(
            (95..=100).contains(&sizes.encoded(0)),
            "{}",
            sizes.encoded(0)
        );
        for _ in 0..2 * MOST {
            sizes.add(10, 0);
        }
        assert!(
            (10..=15).contains(&sizes.encoded(0)),
            "{}",
            sizes.encoded(0)
        );
    }
}
