//! Booleans as bytes, as Zarr has them, and as bits, as Arrow has them: eight at a time.

use arrow::buffer::{BooleanBuffer, Buffer};

/// The lowest bit of each of eight bytes.
const LOW: u64 = 0x0101_0101_0101_0101;

/// Whether each byte is not zero.
pub fn from_bytes(bytes: &[u8]) -> BooleanBuffer {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut bits = vec![0u8; bytes.len().div_ceil(8)];
    for (bits, word) in bits.iter_mut().zip(words) {
        *bits = packed(*word);
    }
    if let (Some(last), false) = (bits.last_mut(), rest.is_empty()) {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        *last = packed(word);
    }
    BooleanBuffer::new(Buffer::from_vec(bits), 0, bytes.len())
}

/// A byte, 0 or 1, for each bit.
pub fn to_bytes(bits: &BooleanBuffer) -> Vec<u8> {
    let mut bytes = vec![0u8; bits.len().next_multiple_of(64)];
    let words = bits.bit_chunks();
    for (bytes, word) in bytes
        .as_chunks_mut::<64>()
        .0
        .iter_mut()
        .zip(words.iter_padded())
    {
        // Most booleans are false.
        if word == 0 {
            continue;
        }
        for (bytes, bits) in bytes
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(word.to_le_bytes())
        {
            *bytes = unpacked(bits);
        }
    }
    bytes.truncate(bits.len());
    bytes
}

/// Bit `i` is whether byte `i` is not zero.
fn packed(bytes: [u8; 8]) -> u8 {
    let word = u64::from_le_bytes(bytes);
    // The highest bit of a byte, if the byte is not zero.
    let high = ((word & !(LOW << 7)) + !(LOW << 7)) | word;
    // The sum of `2^(8 i) × 2^(56 - 7 i)` over the bytes, whose eight highest bits are wanted.
    (((high >> 7) & LOW).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Byte `i` is bit `i`.
fn unpacked(bits: u8) -> [u8; 8] {
    // Byte `i` is 2^i or zero.
    let word = (u64::from(bits) * LOW) & 0x8040_2010_0804_0201;
    (((word + !(LOW << 7)) >> 7) & LOW).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_a_bit() {
        for bits in 0..=u8::MAX {
            let bytes = unpacked(bits);
            assert!((0..8).all(|i| bytes[i] == (bits >> i) & 1), "{bits}");
            assert_eq!(packed(bytes), bits);
            // Any byte but zero is true.
            assert_eq!(packed(bytes.map(|byte| byte * 0x80)), bits);
            assert_eq!(packed(bytes.map(|byte| byte * 0xff)), bits);
            assert_eq!(packed(bytes.map(|byte| byte * 6)), bits);
        }
    }

    #[test]
    fn any_length_and_offset() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * i % 7 % 3) as u8).collect();
        let expected: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
        for end in [0, 1, 7, 8, 9, 63, 64, 65, 128, 199, 200] {
            let bits = from_bytes(&bytes[..end]);
            assert_eq!(bits.iter().collect::<Vec<_>>(), expected[..end]);
            for from in [0, 1, 5, 8, 64].into_iter().filter(|&from| from <= end) {
                let again = to_bytes(&bits.slice(from, end - from));
                let again: Vec<bool> = again.iter().map(|&byte| byte == 1).collect();
                assert_eq!(again, expected[from..end], "{from}..{end}");
            }
        }
    }
}
