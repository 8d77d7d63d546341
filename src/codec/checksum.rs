//! The `crc32c` codec: four bytes of CRC-32C (RFC 3720) before or after the bytes they protect.

use super::CodecError;

/// Bytes of the checksum.
pub(crate) const LEN: usize = 4;

/// Checks the checksum and returns the bytes without it. `at_start` is numcodecs' `"location": "start"`; Zarr v3 puts
/// it at the end.
pub(crate) fn strip(src: &[u8], at_start: bool) -> Result<&[u8], CodecError> {
    let parts = if at_start {
        src.split_first_chunk::<LEN>()
            .map(|(sum, bytes)| (bytes, sum))
    } else {
        src.split_last_chunk::<LEN>()
    };
    let Some((bytes, sum)) = parts else {
        return Err(format!(
            "crc32c: {} bytes cannot hold a checksum of {LEN}",
            src.len()
        )
        .into());
    };
    let (stored, computed) = (u32::from_le_bytes(*sum), ::crc32c::crc32c(bytes));
    if stored != computed {
        return Err(format!(
            "crc32c: the stored checksum is {stored:08x}, the computed one {computed:08x}; the chunk is damaged"
        ).into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        // RFC 3720, appendix B.4: 32 bytes of zeros.
        let mut bytes = vec![0u8; 32];
        bytes.extend([0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(strip(&bytes, false).unwrap(), &[0; 32]);
        bytes.rotate_right(4);
        assert_eq!(strip(&bytes, true).unwrap(), &[0; 32]);
        bytes[9] ^= 1;
        assert!(strip(&bytes, true).unwrap_err().contains("damaged"));
        assert!(strip(&[1, 2, 3], false).is_err());
    }
}
