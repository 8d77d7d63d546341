//! Converts fixed-width text to strings: UTF-32 (v2 `<Un`) and bytes (v2 `|Sn`), both padded with NULs at the end.

use super::CodecError;
use super::StringChunk;

/// Native-endian UTF-32, `width` code points to an element.
pub(super) fn unicode(elements: &[u8], width: usize, n: usize) -> Result<StringChunk, CodecError> {
    let (units, _) = elements.as_chunks::<4>();
    let mut out = sized(units.len().checked_div(width.max(1)), n, width)?;
    for (i, element) in split(units, width, n).enumerate() {
        let len = element
            .iter()
            .rposition(|unit| *unit != [0; 4])
            .map_or(0, |last| last + 1);
        for unit in element.iter().take(len) {
            let code = u32::from_ne_bytes(*unit);
            let c = char::from_u32(code)
                .ok_or_else(|| format!("element {i}: {code:#x} is not a Unicode code point"))?;
            out.push_char(c);
        }
        out.end_string()?;
    }
    Ok(out)
}

/// Bytes, `width` to an element, which must be UTF-8.
pub(super) fn bytes(elements: &[u8], width: usize, n: usize) -> Result<StringChunk, CodecError> {
    let mut out = sized(elements.len().checked_div(width.max(1)), n, width)?;
    for (i, element) in split(elements, width, n).enumerate() {
        let len = element
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        let text = element.get(..len).unwrap_or_default();
        let text = std::str::from_utf8(text)
            .map_err(|_| format!("element {i}: {text:02x?} is not valid UTF-8"))?;
        out.push(text)?;
    }
    Ok(out)
}

/// An empty chunk with room for `n` strings, after a check that there are as many.
fn sized(found: Option<usize>, n: usize, width: usize) -> Result<StringChunk, CodecError> {
    if width > 0 && found != Some(n) {
        return Err(format!(
            "{} elements of width {width}, expected {n}",
            found.unwrap_or(0)
        )
        .into());
    }
    let mut out = StringChunk::default();
    out.offsets.reserve_exact(n);
    Ok(out)
}

/// `n` elements; of width zero they are all empty.
fn split<T>(elements: &[T], width: usize, n: usize) -> impl Iterator<Item = &[T]> {
    (0..n).map(move |i| elements.get(i * width..(i + 1) * width).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(strings in prop::collection::vec("[^\0]{0,5}", 0..40), width in 5usize..8) {
            let mut utf32 = Vec::new();
            for text in &strings {
                let units = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
                utf32.extend(units.flat_map(u32::to_ne_bytes));
            }
            let chunk = unicode(&utf32, width, strings.len()).unwrap();
            prop_assert_eq!(chunk.iter().collect::<Vec<_>>(), strings.clone());

            let width = 4 * width;
            let mut utf8 = Vec::new();
            for text in &strings {
                utf8.extend(text.bytes().chain(std::iter::repeat(0)).take(width));
            }
            let chunk = bytes(&utf8, width, strings.len()).unwrap();
            prop_assert_eq!(chunk.iter().collect::<Vec<_>>(), strings);
        }
    }

    #[test]
    fn padding_is_only_at_the_end() {
        assert_eq!(
            bytes(b"a\0b\0\0\0", 3, 2)
                .unwrap()
                .iter()
                .collect::<Vec<_>>(),
            ["a\0b", ""]
        );
        assert_eq!(unicode(&[], 0, 3).unwrap().len(), 3);
        assert!(bytes(b"abc", 2, 2).is_err());
        assert!(bytes(&[0xff], 1, 1).unwrap_err().contains("element 0"));
        assert!(
            unicode(&0xd800u32.to_ne_bytes(), 1, 1)
                .unwrap_err()
                .contains("0xd800")
        );
    }
}
