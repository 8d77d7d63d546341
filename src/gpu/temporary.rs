//! How much device memory decoding takes besides the decoded bytes, and so how many of those fit in a share of it.
//!
//! Our own decoder of zstd frames wants room for the literals of the frames that it decodes at the same time, which is so much and
//! no more, however many frames there are; of few or small ones it wants less. nvCOMP's wants three bytes for each decoded byte.

/// Bytes for each decoded byte that our own decoder wants at most, but for batches of a few frames, where that is less than a
/// megabyte.
pub const MOST_TIMES: u64 = 3;

/// What decoding takes of each worker of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Temporary {
    /// Bytes, however much is decoded.
    pub fixed: u64,
    /// Bytes for each decoded byte.
    pub times: u64,
}

impl Temporary {
    /// Bytes that so many decoded bytes take, with what decoding them takes.
    pub fn with(self, decoded: u64) -> u64 {
        let scratch = self.fixed.min(MOST_TIMES.saturating_mul(decoded));
        let each = decoded.saturating_mul(1 + self.times);
        // Buffers are rounded up, by an eighth at most.
        each.saturating_add(scratch) / 8 * 9
    }

    /// Decoded bytes that fit in so many bytes, with what decoding them takes.
    pub fn decoded(self, bytes: u64) -> u64 {
        // Buffers are rounded up, by an eighth at most.
        let fixed = self.fixed + self.fixed / 8;
        let few = bytes / (2 + MOST_TIMES);
        let many = bytes.saturating_sub(fixed) / (5 + 4 * self.times) * 4;
        few.max(many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_leaves_room_to_decode_it() {
        let own = Temporary {
            fixed: 400 << 20,
            times: 0,
        };
        let nvcomp = Temporary { fixed: 0, times: 3 };
        for bytes in [0, 1, 1 << 20, 100 << 20, 2 << 30, 60 << 30] {
            let decoded = own.decoded(bytes);
            assert!(own.with(decoded) <= bytes, "{bytes}: {decoded}");
            let decoded = nvcomp.decoded(bytes);
            assert!(nvcomp.with(decoded) / 9 * 8 <= bytes, "{bytes}: {decoded}");
            assert!(decoded >= bytes / 5, "{bytes}: {decoded}");
        }
        assert!(own.decoded(2 << 30) > 1200 << 20);
    }
}
