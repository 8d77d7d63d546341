//! Checksums of four little-endian bytes before or after the bytes that they protect: `crc32` and `fletcher32`.
//!
//! Not by zarrs: it has no `crc32`, and its `fletcher32` leaves out the last byte of an odd number of bytes.

use super::super::CodecError;
use super::super::checksum::LEN;

/// A checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksum {
    /// CRC-32 of zlib; numcodecs puts it before the bytes unless told.
    Crc32 { at_start: bool },
    /// Fletcher-32 of HDF5, after the bytes.
    Fletcher32,
}

impl Checksum {
    /// Checks the checksum and returns the bytes without it.
    pub(super) fn strip(self, src: &[u8]) -> Result<&[u8], CodecError> {
        let name = self.name();
        let parts = match self {
            Checksum::Crc32 { at_start: true } => src
                .split_first_chunk::<LEN>()
                .map(|(sum, bytes)| (bytes, sum)),
            _ => src.split_last_chunk::<LEN>(),
        };
        let Some((bytes, sum)) = parts else {
            return Err(format!(
                "{name}: {} bytes cannot hold a checksum of {LEN}",
                src.len()
            )
            .into());
        };
        let stored = u32::from_le_bytes(*sum);
        let computed = match self {
            Checksum::Crc32 { .. } => crc32fast::hash(bytes),
            Checksum::Fletcher32 => fletcher32(bytes),
        };
        if stored != computed {
            return Err(format!(
                "{name}: the stored checksum is {stored:08x}, the computed one {computed:08x}; the chunk is damaged"
            )
            .into());
        }
        Ok(bytes)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Checksum::Crc32 { .. } => "crc32",
            Checksum::Fletcher32 => "fletcher32",
        }
    }
}

/// HDF5's Fletcher-32, of big-endian pairs of bytes; the last byte of an odd number is the high one of a pair.
fn fletcher32(bytes: &[u8]) -> u32 {
    let folded = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut low, mut high) = (0u32, 0u32);
    let mut add = |pairs: &[[u8; 2]]| {
        for pair in pairs {
            low += u32::from(u16::from_be_bytes(*pair));
            high += low;
        }
        (low, high) = (folded(low), folded(high));
    };
    let (pairs, rest) = bytes.as_chunks::<2>();
    // After 360 pairs the sums are still below 2^32.
    pairs.chunks(360).for_each(&mut add);
    if let [last] = rest {
        add(&[[*last, 0]]);
    }
    folded(high) << 16 | folded(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // Of numcodecs: `CRC32().encode(b"abcde")` and `Fletcher32().encode(…)`.
        let crc = Checksum::Crc32 { at_start: true };
        assert_eq!(crc.strip(b"\x65\xd8\x87\x85abcde"), Ok(&b"abcde"[..]));
        let end = Checksum::Crc32 { at_start: false };
        assert_eq!(end.strip(b"abcde\x65\xd8\x87\x85"), Ok(&b"abcde"[..]));
        for (bytes, sum) in [
            (&b"ab"[..], 0x6162_6162u32),
            (b"abcdef", 0x5056_2a2d),
            (b"abcde", 0x4ff0_29c7),
        ] {
            let src = [bytes, &sum.to_le_bytes()].concat();
            assert_eq!(Checksum::Fletcher32.strip(&src), Ok(bytes));
            let mut damaged = src.clone();
            damaged[0] ^= 4;
            let error = Checksum::Fletcher32.strip(&damaged).unwrap_err();
            assert!(error.contains("damaged"));
        }
        let long: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();
        assert_eq!(fletcher32(&long), 0x39b7_d377);
        assert_eq!(fletcher32(&long[..9_999]), 0x394e_d30e);
        assert!(crc.strip(&[1, 2, 3]).is_err());
    }
}
