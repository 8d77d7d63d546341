//! The `vlen-utf8` codec of numcodecs and Zarr v3: the number of strings in four little-endian bytes, then each string
//! as its length in four bytes and its UTF-8. Those of `vlen-bytes` are laid out alike, and are text as far as they are UTF-8.

use super::CodecError;
use super::StringChunk;

/// Decodes exactly `n` strings that use up `src`.
pub(super) fn decode(src: &[u8], n: usize) -> Result<StringChunk, CodecError> {
    let cut_short = |i: usize| format!("vlen-utf8: cut short in string {i} of {n}");
    let Some((count, mut rest)) = src.split_first_chunk::<4>() else {
        return Err(format!(
            "vlen-utf8: {} bytes cannot hold the number of strings",
            src.len()
        )
        .into());
    };
    let count = u32::from_le_bytes(*count);
    if count as usize != n {
        return Err(format!("vlen-utf8: {count} strings, expected {n}").into());
    }
    // Each string has a length of four bytes. Checked before anything is allocated.
    let text_len = n
        .checked_mul(4)
        .and_then(|lengths| rest.len().checked_sub(lengths))
        .ok_or_else(|| format!("vlen-utf8: {} bytes cannot hold {n} strings", src.len()))?;
    if u32::try_from(text_len).is_err() {
        return Err(
            format!("vlen-utf8: {text_len} bytes of text, at most 4 GiB are supported").into(),
        );
    }
    let mut offsets = Vec::with_capacity(n + 1);
    let mut data = Vec::with_capacity(text_len);
    offsets.push(0);
    for i in 0..n {
        let (len, tail) = rest.split_first_chunk::<4>().ok_or_else(|| cut_short(i))?;
        let len = u32::from_le_bytes(*len) as usize;
        let (text, tail) = tail.split_at_checked(len).ok_or_else(|| cut_short(i))?;
        data.extend_from_slice(text);
        // Corrupt lengths may exceed `text_len` until the missing bytes are detected.
        let end = u32::try_from(data.len()).map_err(|_| cut_short(i))?;
        offsets.push(end);
        rest = tail;
    }
    if !rest.is_empty() {
        return Err(format!("vlen-utf8: {} bytes follow the last string", rest.len()).into());
    }
    // Text that is valid as a whole and split at character boundaries is valid string by string.
    let text = std::str::from_utf8(&data).map_err(|e| invalid(&offsets, e.valid_up_to()))?;
    if let Some(i) = offsets
        .iter()
        .position(|at| !text.is_char_boundary(*at as usize))
    {
        return Err(invalid(
            &offsets,
            offsets.get(i).map_or(0, |at| *at as usize),
        ));
    }
    Ok(StringChunk { offsets, data })
}

fn invalid(offsets: &[u32], at: usize) -> CodecError {
    let i = offsets
        .partition_point(|offset| *offset as usize <= at)
        .saturating_sub(1);
    format!("vlen-utf8: string {i} is not valid UTF-8").into()
}

#[cfg(test)]
mod tests {
    use super::super::testing::encode_vlen as encode;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_of_numcodecs() {
        // numcodecs.VLenBytes().encode([b"A", b"", b"ACGT", "Zü".encode()]) of numcodecs 0.16.
        let hex = "040000000100000041000000000400000041434754030000005ac3bc";
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        let chunk = decode(&bytes, 4).unwrap();
        assert_eq!(chunk.iter().collect::<Vec<_>>(), ["A", "", "ACGT", "Zü"]);
        let latin = [1, 0, 0, 0, 1, 0, 0, 0, 0xfc];
        assert!(decode(&latin, 1).unwrap_err().contains("UTF-8"));
        // Lengths that lie.
        for at in [0, 4, 9, 13, 21] {
            let mut lying = bytes.clone();
            lying[at + 3] = 0x7f;
            assert!(decode(&lying, 4).is_err(), "{at}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(strings in prop::collection::vec(".{0,6}", 0..40)) {
            let chunk = decode(&encode(&strings), strings.len()).unwrap();
            prop_assert_eq!(chunk.iter().collect::<Vec<_>>(), strings);
        }

        #[test]
        fn damaged(strings in prop::collection::vec("[ACGT]{0,6}", 0..20), at: prop::sample::Index, bit in 0..8u32, cut in 0usize..9) {
            let mut src = encode(&strings);
            let len = src.len();
            src[at.index(len)] ^= 1 << bit;
            src.truncate(len - cut.min(len));
            if let Ok(chunk) = decode(&src, strings.len()) {
                prop_assert_eq!(encode(&chunk.iter().collect::<Vec<_>>()), src);
            }
        }
    }

    #[test]
    fn hostile() {
        let src = encode(&["A", "CG"]);
        assert!(
            decode(&src, 3)
                .unwrap_err()
                .contains("2 strings, expected 3")
        );
        assert!(decode(&[src.clone(), vec![0]].concat(), 2).is_err());
        assert!(
            decode(&[255; 4], u32::MAX as usize)
                .unwrap_err()
                .contains("cannot hold")
        );
        assert!(
            decode(&encode(&[&[b'a', 0xff][..], b""]), 2)
                .unwrap_err()
                .contains("string 0 ")
        );
        // Together these two are a character; apart they are nothing.
        assert!(decode(&encode(&[&[0xce], &[0xb2]]), 2).is_err());
    }
}
