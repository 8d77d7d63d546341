//! The `packbits` filter of numcodecs: the number of unused bits of the last byte, then eight booleans a byte, the first in the
//! highest bit. (The `packbits` codec of Zarr v3 is another format, which zarrs decodes.)

use super::super::CodecError;

/// Bytes of `n` encoded booleans.
pub(super) fn encoded_len(n: usize) -> usize {
    n.div_ceil(8) + 1
}

/// Decodes exactly `dst.len()` booleans.
pub(super) fn decode(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    let n = dst.len();
    let unused = n.next_multiple_of(8) - n;
    let (Some((first, bits)), true) = (src.split_first(), src.len() == encoded_len(n)) else {
        return Err(format!(
            "packbits: {} bytes, expected {} for {n} booleans",
            src.len(),
            encoded_len(n)
        )
        .into());
    };
    if usize::from(*first) != unused {
        return Err(format!("packbits: {first} unused bits, expected {unused}").into());
    }
    for (flags, byte) in dst.chunks_mut(8).zip(bits) {
        for (bit, flag) in flags.iter_mut().enumerate() {
            *flag = byte >> (7 - bit) & 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numcodecs_example() {
        let mut flags = [9; 4];
        decode(&[4, 144], &mut flags).unwrap();
        assert_eq!(flags, [1, 0, 0, 1]);
        assert!(decode(&[3, 144], &mut flags).is_err());
        assert!(decode(&[4], &mut flags).is_err());
        assert!(decode(&[4, 144, 0], &mut flags).is_err());
        assert!(decode(&[], &mut []).is_err());
        decode(&[0], &mut []).unwrap();
    }
}
