//! Decoder of BloscLZ, the LZ77 of c-blosc 1 (a descendant of FastLZ), for splits of Blosc blocks.
//!
//! The format is defined by `blosclz_decompress` in c-blosc 1.21 `blosc/blosclz.c`; this follows it token by token,
//! including what it does with a stream that ends after a match (the match is dropped).
//!
//! A token starts with a control byte. Below 32 it starts a literal run of `control + 1` bytes. Otherwise its upper three
//! bits, minus one, are a match length; for 7 − 1, further bytes are added to it, up to the first that is not 255. Its lower
//! five bits are the high part of a distance whose low byte comes next. A low byte of 255 with a high part of 31 means that
//! the distance is the next 16 bits plus 8191. The first control byte's upper bits are ignored: it is a literal.

use super::CodecError;

/// Distances above this are stored in 16 bits of their own.
const MAX_DISTANCE: usize = 8191;

/// Decompresses `src` into `dst` and returns the number of bytes written.
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<usize, CodecError> {
    let truncated = || "blosclz: the stream is cut short".to_string();
    let overflow = || "blosclz: the stream holds more bytes than expected".to_string();
    let Some(first) = src.first() else {
        return Ok(0);
    };
    let mut control = usize::from(first & 31);
    let mut from = 1usize;
    let mut to = 0usize;
    loop {
        if control < 32 {
            let len = control + 1;
            let literals = src.get(from..from + len).ok_or_else(truncated)?;
            dst.get_mut(to..to + len)
                .ok_or_else(overflow)?
                .copy_from_slice(literals);
            from += len;
            to += len;
            match src.get(from) {
                Some(next) => control = usize::from(*next),
                None => return Ok(to),
            }
            from += 1;
            continue;
        }

        let mut len = (control >> 5) - 1;
        let high = (control & 31) << 8;
        // c-blosc requires one more byte than it reads here, because a control byte always follows.
        let byte = |at: usize| match src.get(at..at + 2) {
            Some(pair) => Ok(usize::from(pair[0])),
            None => Err(truncated()),
        };
        if len == 6 {
            loop {
                let more = byte(from)?;
                from += 1;
                len += more;
                if more != 255 {
                    break;
                }
            }
            // The length's last byte was checked to have a successor: the distance's low byte.
            let low = src.get(from).copied().ok_or_else(truncated)?;
            (from, to, control) = match finish_match(src, dst, from, to, len, high, low.into())? {
                Some(next) => next,
                None => return Ok(to),
            };
        } else {
            let low = byte(from)?;
            (from, to, control) = match finish_match(src, dst, from, to, len, high, low)? {
                Some(next) => next,
                None => return Ok(to),
            };
        }
    }
}

/// Finishes a match whose low distance byte `low` is at `from`. Returns `(from, to, control)` of the next token, or `None`
/// when the stream ends here.
fn finish_match(
    src: &[u8],
    dst: &mut [u8],
    from: usize,
    to: usize,
    len: usize,
    high: usize,
    low: usize,
) -> Result<Option<(usize, usize, usize)>, CodecError> {
    let mut from = from + 1;
    let len = len + 3;
    let distance = if low == 255 && high == 31 << 8 {
        let far = match src.get(from..from + 2) {
            Some(pair) => usize::from(pair[0]) << 8 | usize::from(pair[1]),
            None => return Err("blosclz: the stream is cut short".into()),
        };
        from += 2;
        far + MAX_DISTANCE + 1
    } else {
        high + low + 1
    };
    if len > dst.len() - to {
        return Err("blosclz: the stream holds more bytes than expected".into());
    }
    if distance > to {
        return Err("blosclz: a match starts before the output".into());
    }
    let Some(control) = src.get(from) else {
        return Ok(None);
    };
    copy_match(dst, to, distance, len);
    Ok(Some((from + 1, to + len, usize::from(*control))))
}

/// Copies `len` bytes from `distance` before `to`, byte after byte in effect, so that an overlap repeats a pattern.
/// The caller has checked `1 <= distance <= to` and `to + len <= dst.len()`.
fn copy_match(dst: &mut [u8], to: usize, distance: usize, len: usize) {
    let start = to - distance;
    if distance == 1 {
        let value = dst[start];
        dst[to..to + len].fill(value);
        return;
    }
    // The bytes from `start` to `to + done` are periodic, so each round can copy all of them.
    let mut done = 0;
    while done < len {
        let step = (distance + done).min(len - done);
        dst.copy_within(start..start + step, to + done);
        done += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_matches() {
        // Three literals, then a match of length 3 + 3 at distance 3, then one literal.
        let src = [2, b'a', b'b', b'c', 4 << 5, 2, 0, b'z'];
        let mut dst = [0; 10];
        assert_eq!(decompress(&src, &mut dst), Ok(10));
        assert_eq!(&dst, b"abcabcabcz");
        // The first control byte is a literal run whatever its upper bits say.
        assert_eq!(decompress(&[0xe0, b'x'], &mut dst), Ok(1));
        // A run: distance 1, length 7 - 1 + 10 + 3.
        let src = [0, b'q', 7 << 5, 10, 0, 0, b'r'];
        let mut dst = [0; 21];
        assert_eq!(decompress(&src, &mut dst), Ok(21));
        assert_eq!(&dst, b"qqqqqqqqqqqqqqqqqqqqr");
    }

    #[test]
    fn hostile_streams() {
        let mut dst = [0; 8];
        assert_eq!(decompress(&[], &mut dst), Ok(0));
        assert!(decompress(&[5, 1], &mut dst).is_err());
        assert!(decompress(&[0], &mut dst).is_err());
        // A match before the start, one that is too long, a length that never ends.
        assert!(decompress(&[0, 1, 4 << 5, 9, 0, 1], &mut dst).is_err());
        assert!(decompress(&[0, 1, 7 << 5, 200, 0, 0, 1], &mut dst).is_err());
        assert!(decompress(&[0, 1, 7 << 5, 255, 255, 255], &mut dst).is_err());
        assert!(decompress(&[0, 1, 7 << 5 | 31, 0, 255, 1], &mut dst).is_err());
    }
}
