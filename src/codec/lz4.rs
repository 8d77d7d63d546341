//! The `lz4` codec of numcodecs: the decoded length in four little-endian bytes, then one raw LZ4 block.

use super::CodecError;

/// An LZ4 block decodes to less than 255 times its own length.
const MAX_RATIO: usize = 255;

/// Decompresses into `dst`, which must be the decoded length.
pub(super) fn exact(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    let (len, block) = split(src)?;
    if len != dst.len() {
        return Err(format!("lz4: the header says {len} bytes, expected {}", dst.len()).into());
    }
    let written = lz4_flex::block::decompress_into(block, dst).map_err(|e| format!("lz4: {e}"))?;
    if written != len {
        return Err(format!("lz4: decoded {written} bytes, expected {len}").into());
    }
    Ok(())
}

/// Decompresses at most `limit` bytes.
pub(super) fn growing(src: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let (len, block) = split(src)?;
    if len > limit || len > block.len().saturating_mul(MAX_RATIO) {
        return Err(format!(
            "lz4: the header says {len} bytes, more than {} encoded bytes can hold or more than {limit}",
            block.len()
        ).into());
    }
    let mut out = vec![0; len];
    exact(src, &mut out)?;
    Ok(out)
}

fn split(src: &[u8]) -> Result<(usize, &[u8]), CodecError> {
    let Some((len, block)) = src.split_first_chunk::<4>() else {
        return Err(format!("lz4: {} bytes cannot hold the decoded length", src.len()).into());
    };
    Ok((u32::from_le_bytes(*len) as usize, block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numcodecs_layout() {
        let data = b"GATTACAGATTACAGATTACAGATTACA".repeat(9);
        let mut src = (data.len() as u32).to_le_bytes().to_vec();
        src.extend(lz4_flex::block::compress(&data));
        assert_eq!(growing(&src, 1000).unwrap(), data);
        let mut out = vec![0; data.len()];
        exact(&src, &mut out).unwrap();
        assert_eq!(out, data);
        assert!(growing(&src, 10).is_err());
        assert!(exact(&src, &mut out[1..]).is_err());
        for end in 0..src.len() {
            assert!(exact(&src[..end], &mut out).is_err());
        }
        src[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(growing(&src, usize::MAX).unwrap_err().contains("can hold"));
    }
}
