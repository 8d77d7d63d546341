//! The `bz2` codec of numcodecs: one bzip2 stream or several.

use bzip2::bufread::MultiBzDecoder;

use super::super::{CodecError, deflate};
use super::guard::guarded;

/// Largest ratio of decoded to encoded bytes: a block of 900,000 bytes after the first run-length coding, in which 5 bytes are 259
/// decoded ones, takes 32 bytes or more.
pub(super) const MAX_RATIO: usize = 2 << 20;

/// Decompresses at most `limit` bytes. The decoder's own memory is 4 MB, whatever the input says.
pub(super) fn growing(src: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    guarded("bz2", || {
        deflate::growing("bz2", MultiBzDecoder::new(src), limit)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn encode(data: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(1));
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn streams_and_sizes() {
        let data = b"0|0 0|1 1|1 ".repeat(50);
        let one = encode(&data);
        assert_eq!(growing(&one, data.len()).unwrap(), data);
        assert!(
            growing(&one, data.len() - 1)
                .unwrap_err()
                .contains("more than")
        );
        let two = [encode(&data), encode(&data)].concat();
        assert_eq!(growing(&two, 2 * data.len()).unwrap(), data.repeat(2));
        for end in 0..one.len() {
            let cut = growing(&one[..end], data.len());
            assert!(cut.is_err() || cut.unwrap().is_empty(), "{end}");
        }
        for at in 0..one.len() {
            let mut damaged = one.clone();
            damaged[at] ^= 0x10;
            if let Ok(decoded) = growing(&damaged, data.len()) {
                assert_eq!(decoded, data, "{at}");
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0; 8 << 20];
        let bomb = encode(&zeros);
        assert!(zeros.len() / bomb.len() < MAX_RATIO);
        assert!(bomb.len() < 2048);
        assert!(growing(&bomb, 1000).unwrap_err().contains("1000 bytes"));
    }
}
