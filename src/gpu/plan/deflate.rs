//! The zlib (RFC 1950) and gzip (RFC 1952) headers and trailers of a DEFLATE stream.
//!
//! Neither format has the length of the stream, so it is assumed to fill the bytes between header and trailer. If it does
//! not, the device finds that the checksum of the decoded bytes differs from the trailer's.

use std::ops::Range;

use super::chunk_plan::Checksum;
use crate::gpu::error::GpuError;

/// The DEFLATE stream of the zlib stream `src`, and the checksum of its decoded bytes.
pub(super) fn zlib(src: &[u8]) -> Result<(Range<usize>, Checksum), GpuError> {
    let (Some([cmf, flags]), Some((body, trailer))) =
        (src.first_chunk::<2>(), src.split_last_chunk::<4>())
    else {
        return Err("zlib: the stream is cut short".into());
    };
    if body.len() < 2 {
        return Err("zlib: the stream is cut short".into());
    }
    let check = u16::from_be_bytes([*cmf, *flags]);
    if cmf & 0x0f != 8 || cmf >> 4 > 7 || !check.is_multiple_of(31) {
        return Err(format!("zlib: a header {cmf:02x} {flags:02x}").into());
    }
    if flags & 0x20 != 0 {
        return Err("zlib: the stream needs a dictionary".into());
    }
    let sum = u32::from_be_bytes(*trailer);
    Ok((2..body.len(), Checksum::Adler32(sum)))
}

/// The DEFLATE stream of `src`, which must be one gzip member of `len` decoded bytes, and the checksum of its decoded bytes.
pub(super) fn gzip(src: &[u8], len: usize) -> Result<(Range<usize>, Checksum), GpuError> {
    let short = || "gzip: the member is cut short".to_string();
    let (member, [c0, c1, c2, c3, s0, s1, s2, s3]) =
        src.split_last_chunk::<8>().ok_or_else(short)?;
    let start = gzip_header(member).ok_or_else(short)??;
    // This is the size of the last member. Further members are detected here or by the checksum.
    let size = u32::from_le_bytes([*s0, *s1, *s2, *s3]);
    if u32::try_from(len) != Ok(size) {
        return Err(format!("gzip: a member of {size} bytes, expected {len}").into());
    }
    let sum = u32::from_le_bytes([*c0, *c1, *c2, *c3]);
    Ok((start..member.len(), Checksum::Crc32(sum)))
}

/// Bytes of a member's header; `None` if it is cut short.
fn gzip_header(src: &[u8]) -> Option<Result<usize, GpuError>> {
    const HEADER_CRC: u8 = 0x02;
    const EXTRA: u8 = 0x04;
    const NAME: u8 = 0x08;
    const COMMENT: u8 = 0x10;
    let &[id1, id2, method, flags, ..] = src.first_chunk::<10>()?;
    if (id1, id2, method) != (0x1f, 0x8b, 8) || flags & 0xe0 != 0 {
        return Some(Err(format!(
            "gzip: a header {id1:02x} {id2:02x} {method:02x} {flags:02x}"
        )
        .into()));
    }
    let mut at = 10;
    if flags & EXTRA != 0 {
        let len = src.get(at..)?.first_chunk::<2>()?;
        at += 2 + usize::from(u16::from_le_bytes(*len));
    }
    for field in [NAME, COMMENT] {
        if flags & field != 0 {
            at += src.get(at..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    if flags & HEADER_CRC != 0 {
        let stored = u16::from_le_bytes(*src.get(at..)?.first_chunk::<2>()?);
        let computed = crc32fast::hash(src.get(..at)?) as u16;
        if stored != computed {
            return Some(Err(format!(
                "gzip: the header has the checksum {stored:04x}, its bytes {computed:04x}"
            )
            .into()));
        }
        at += 2;
    }
    (at <= src.len()).then_some(Ok(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, GzBuilder};
    use std::io::{Read, Write};

    fn inflated(src: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        flate2::bufread::DeflateDecoder::new(src)
            .read_to_end(&mut out)
            .unwrap();
        out
    }

    #[test]
    fn gzip_headers() {
        let data = b"0|0 0|1 1|1 ".repeat(50);
        let plain = || GzBuilder::new().mtime(7);
        for builder in [
            plain(),
            plain().filename("call_genotype"),
            plain().comment("a comment"),
            plain().extra(vec![1, 2, 3]).filename("x").comment("y"),
        ] {
            let mut encoder = builder.write(Vec::new(), Compression::new(5));
            encoder.write_all(&data).unwrap();
            let src = encoder.finish().unwrap();
            let (range, sum) = gzip(&src, data.len()).unwrap();
            assert_eq!(inflated(&src[range]), data);
            assert_eq!(sum, Checksum::Crc32(crc32fast::hash(&data)));
            assert!(gzip(&src, data.len() + 1).unwrap_err().contains("expected"));
            for end in 0..src.len() {
                // A truncated stream has a wrong length in place of the trailer; nothing panics.
                assert!(gzip(&src[..end], data.len()).is_err(), "{end}");
            }
            let mut reserved = src.clone();
            reserved[3] |= 0x40;
            assert!(gzip(&reserved, data.len()).is_err());
            let mut other = src;
            other[1] = 0;
            assert!(gzip(&other, data.len()).is_err());
        }
        // A checksum of the header, which flate2 does not write.
        let mut encoder = plain().write(Vec::new(), Compression::new(5));
        encoder.write_all(&data).unwrap();
        let mut src = encoder.finish().unwrap();
        src[3] = 0x02;
        let sum = crc32fast::hash(&src[..10]) as u16;
        src.splice(10..10, sum.to_le_bytes());
        let (range, _) = gzip(&src, data.len()).unwrap();
        assert_eq!(inflated(&src[range]), data);
        src[10] ^= 1;
        assert!(gzip(&src, data.len()).unwrap_err().contains("checksum"));
    }

    #[test]
    fn zlib_headers() {
        let data = b"0|0 0|1 1|1 ".repeat(50);
        for level in [0, 1, 5, 9] {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::new(level));
            encoder.write_all(&data).unwrap();
            let mut src = encoder.finish().unwrap();
            let (range, sum) = zlib(&src).unwrap();
            assert_eq!(inflated(&src[range]), data);
            assert!(matches!(sum, Checksum::Adler32(sum) if sum != 0));
            for end in 0..6 {
                assert!(zlib(&src[..end]).is_err(), "{end}");
            }
            src[1] ^= 1;
            assert!(zlib(&src).unwrap_err().contains("header"));
        }
        assert!(
            zlib(&[0x78, 0xbb, 0, 0, 0, 0])
                .unwrap_err()
                .contains("dictionary")
        );
    }
}
