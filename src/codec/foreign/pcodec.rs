//! The `pcodec` codec: a standalone pco file of all numbers of a chunk.
//!
//! By the crate pco itself, into a buffer of the decoded length: through zarrs the file alone would say how many numbers there
//! are, of which 20 bytes can claim 2^24.

use bytemuck::{AnyBitPattern, NoUninit};
use half::f16;
use pco::data_types::Number;
use pco::standalone::simple_decompress_into;

use super::super::CodecError;
use super::guard::guarded;
use crate::store::ElementType;

/// Whether pco files hold numbers of this type.
pub(super) fn supports(element: ElementType) -> bool {
    !element.is_text() && element.size().is_some_and(|size| size > 1)
}

/// Decodes exactly the native-endian elements that fill `dst`.
pub(super) fn decode(element: ElementType, src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    guarded("pcodec", || match element {
        ElementType::Int16 => numbers::<i16>(src, dst),
        ElementType::Int32 => numbers::<i32>(src, dst),
        ElementType::Int64 => numbers::<i64>(src, dst),
        ElementType::UInt16 => numbers::<u16>(src, dst),
        ElementType::UInt32 => numbers::<u32>(src, dst),
        ElementType::UInt64 => numbers::<u64>(src, dst),
        // pco's half-precision type is that of `half`, whose values are copied bit by bit.
        ElementType::Float16 => of_halves(src, dst),
        ElementType::Float32 => numbers::<f32>(src, dst),
        ElementType::Float64 => numbers::<f64>(src, dst),
        _ => Err(format!("pcodec: elements of type {element} are not supported").into()),
    })
}

fn numbers<T: Number + NoUninit + AnyBitPattern>(
    src: &[u8],
    dst: &mut [u8],
) -> Result<(), CodecError> {
    // `dst` may not be aligned for `T`.
    match bytemuck::try_cast_slice_mut(dst) {
        Ok(numbers) => exact::<T>(src, numbers),
        Err(_) => {
            let mut numbers = vec![T::zeroed(); dst.len() / size_of::<T>()];
            exact(src, &mut numbers)?;
            dst.copy_from_slice(bytemuck::cast_slice(&numbers));
            Ok(())
        }
    }
}

fn of_halves(src: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
    let mut numbers = vec![f16::ZERO; dst.len() / 2];
    exact(src, &mut numbers)?;
    for (to, from) in dst.as_chunks_mut::<2>().0.iter_mut().zip(&numbers) {
        *to = from.to_ne_bytes();
    }
    Ok(())
}

fn exact<T: Number>(src: &[u8], dst: &mut [T]) -> Result<(), CodecError> {
    let progress = simple_decompress_into(src, dst).map_err(|e| format!("pcodec: {e}"))?;
    if progress.n_processed != dst.len() || !progress.finished {
        return Err(format!(
            "pcodec: {}{} numbers, expected {}",
            if progress.finished { "" } else { "more than " },
            progress.n_processed,
            dst.len()
        )
        .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pco::ChunkConfig;
    use pco::standalone::simple_compress;

    use super::*;

    #[test]
    fn sizes_are_exact() {
        let numbers: Vec<i32> = (0..3000).map(|i| i * i % 1013).collect();
        let src = simple_compress(&numbers, &ChunkConfig::default()).unwrap();
        let expected: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let decode = |src: &[u8], n: usize| {
            let mut dst = vec![0; 4 * n + 1];
            // Aligned and not.
            decode(ElementType::Int32, src, &mut dst[1..])?;
            let mut again = vec![0; 4 * n];
            super::decode(ElementType::Int32, src, &mut again)?;
            assert_eq!(again, dst[1..]);
            Ok::<_, CodecError>(again)
        };
        assert_eq!(decode(&src, 3000).unwrap(), expected);
        for n in [0, 1, 2999, 3001] {
            assert!(decode(&src, n).is_err(), "{n}");
        }
        for end in 0..src.len() {
            assert!(decode(&src[..end], 3000).is_err(), "{end}");
        }
        for at in 0..src.len() {
            let mut damaged = src.clone();
            damaged[at] ^= 0x24;
            let _ = decode(&damaged, 3000);
        }
        let mut dst = [0; 8];
        assert!(super::decode(ElementType::Int8, &src, &mut dst).is_err());
        assert!(super::decode(ElementType::Float64, &src, &mut dst).is_err());
    }

    #[test]
    fn a_bomb_stops_at_the_expected_length() {
        let src = simple_compress(&vec![7i64; 1 << 18], &ChunkConfig::default()).unwrap();
        assert!(src.len() < 100);
        let mut dst = [0; 80];
        let error = decode(ElementType::Int64, &src, &mut dst).unwrap_err();
        assert!(error.contains("expected 10"), "{error}");
    }
}
