//! Device memory that decoding needs besides the decoded bytes, and so how many decoded bytes fit in a share of memory.
//!
//! Our decoder of zstd frames needs scratch memory for the literals of the frames that it decodes at the same time: a fixed
//! amount, however many frames a batch has, and less for few or small frames.

/// The zstd decoder needs at most this many bytes for each decoded byte, except for batches of a few frames, where it needs
/// less than a megabyte.
pub const MOST_TIMES: u64 = 3;

/// Scratch memory for decoding that each worker of a device needs, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecodeScratch(pub u64);

impl DecodeScratch {
    /// Device memory for this many decoded bytes and for decoding them.
    pub fn with(self, decoded: u64) -> u64 {
        let scratch = self.0.min(MOST_TIMES.saturating_mul(decoded));
        // Buffers are rounded up, by an eighth at most.
        decoded.saturating_add(scratch) / 8 * 9
    }

    /// Decoded bytes that fit in this much device memory, with the scratch memory for decoding them.
    pub fn decoded(self, bytes: u64) -> u64 {
        // Buffers are rounded up, by an eighth at most.
        let fixed = self.0 + self.0 / 8;
        let few = bytes / (2 + MOST_TIMES);
        let many = bytes.saturating_sub(fixed) / 5 * 4;
        few.max(many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_bytes_leave_room_for_scratch() {
        let scratch = DecodeScratch(400 << 20);
        for bytes in [0, 1, 1 << 20, 100 << 20, 2 << 30, 60 << 30] {
            let decoded = scratch.decoded(bytes);
            assert!(scratch.with(decoded) <= bytes, "{bytes}: {decoded}");
        }
        assert!(scratch.decoded(2 << 30) > 1200 << 20);
    }
}
