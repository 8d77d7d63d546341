//! The `gzip` and `zlib` codecs: DEFLATE with headers and a checksum, which is verified.

use std::io::Read;

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use super::CodecError;

/// Decompresses gzip, of one or more members, into `dst`, which must be the decoded length.
pub(super) fn gzip_exact(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    let mut decoder = MultiGzDecoder::new(src);
    decoder
        .read_exact(dst)
        .map_err(|e| format!("gzip: {e}, expected {} bytes", dst.len()))?;
    // Reading on verifies the checksum in the trailer and detects further bytes.
    match decoder.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(format!("gzip: more than the expected {} bytes", dst.len()).into()),
        Err(e) => Err(format!("gzip: {e}").into()),
    }
}

/// Decompresses at most `limit` bytes of gzip.
pub(super) fn gzip_growing(src: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    growing("gzip", MultiGzDecoder::new(src), limit)
}

/// Decompresses at most `limit` bytes of one zlib stream. Its counterpart for a known length is `Scratch::zlib_exact`.
pub(super) fn zlib_growing(src: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let mut decoder = ZlibDecoder::new(src);
    let out = growing("zlib", &mut decoder, limit)?;
    if decoder.total_in() != src.len() as u64 {
        let rest = src.len() as u64 - decoder.total_in();
        return Err(format!("zlib: {rest} bytes follow the stream").into());
    }
    Ok(out)
}

/// Reads everything. The buffer grows with the decoded bytes, not by a size in a header.
pub(super) fn growing(name: &str, decoder: impl Read, limit: usize) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    let max = (limit as u64).saturating_add(1);
    decoder
        .take(max)
        .read_to_end(&mut out)
        .map_err(|e| format!("{name}: {e}"))?;
    if out.len() > limit {
        return Err(format!("{name}: more than {limit} bytes").into());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use std::io::Write;

    #[test]
    fn gzip_members_and_sizes() {
        let gz = |data: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::new(5));
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        };
        let data = b"0|0 0|1 1|1 ".repeat(50);
        let two = [gz(&data), gz(&data)].concat();
        let mut out = vec![0; 2 * data.len()];
        gzip_exact(&two, &mut out).unwrap();
        assert_eq!(out, data.repeat(2));
        assert_eq!(gzip_growing(&two, out.len()).unwrap(), out);
        assert!(
            gzip_growing(&two, out.len() - 1)
                .unwrap_err()
                .contains("more than")
        );
        assert!(gzip_exact(&two, &mut out[1..]).is_err());
        let one = gz(&data);
        assert!(gzip_exact(&one, &mut out).is_err());
        let out = &mut out[..data.len()];
        for at in one.len() - 8..one.len() {
            let mut damaged = one.clone();
            damaged[at] ^= 1;
            assert!(gzip_exact(&damaged, out).is_err(), "{at}");
        }
        for end in 0..one.len() {
            assert!(gzip_exact(&one[..end], out).is_err(), "{end}");
        }
    }

    #[test]
    fn zlib() {
        let data = b"0|0 0|1 1|1 ".repeat(50);
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(5));
        encoder.write_all(&data).unwrap();
        let mut src = encoder.finish().unwrap();
        assert_eq!(zlib_growing(&src, 600).unwrap(), data);
        assert!(zlib_growing(&src, 599).is_err());
        for end in 0..src.len() {
            assert!(zlib_growing(&src[..end], 600).is_err(), "{end}");
        }
        src.push(0);
        assert!(zlib_growing(&src, 600).unwrap_err().contains("follow"));
    }
}
