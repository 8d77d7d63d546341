//! How much device memory decoding takes besides the decoded bytes, and so how many of those fit in a share of it.
//!
//! Our own decoder of zstd frames wants room for the literals of the frames that it decodes at the same time, which is so much and
//! no more, however many frames there are; of few or small ones it wants less. nvCOMP's wants three bytes for each decoded byte.

/// Bytes for each decoded byte that our own decoder wants at most, but for batches of one or two frames.
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
    /// Decoded bytes that fit in so many bytes, with what decoding them takes.
    pub fn decoded(self, bytes: u64) -> u64 {
        // Buffers are rounded up, by an eighth at most.
        let few = bytes / (2 + MOST_TIMES);
        let many = bytes.saturating_sub(self.rounded()) / (5 + 4 * self.times) * 4;
        few.max(many)
    }

    fn rounded(self) -> u64 {
        self.fixed + self.fixed / 8
    }

    /// Bytes that so many decoded bytes need, with what decoding them takes.
    pub fn bytes(self, decoded: u64) -> u64 {
        let few = decoded.saturating_mul(2 + MOST_TIMES);
        let many = decoded
            .div_ceil(4)
            .saturating_mul(5 + 4 * self.times)
            .saturating_add(self.rounded());
        if self.times > 0 { many } else { few.min(many) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_needs_no_more() {
        for (fixed, times) in [(0, 0), (400 << 20, 0), (0, 3)] {
            let temporary = Temporary { fixed, times };
            for bytes in [0, 1, 1 << 20, 100 << 20, 2 << 30, 60 << 30] {
                let decoded = temporary.decoded(bytes);
                assert!(temporary.bytes(decoded) <= bytes, "{temporary:?}, {bytes}");
                assert!(decoded >= bytes / 5, "{temporary:?}, {bytes}: {decoded}");
            }
        }
        let own = Temporary {
            fixed: 400 << 20,
            times: 0,
        };
        assert!(own.decoded(2 << 30) > 1300 << 20);
    }
}
