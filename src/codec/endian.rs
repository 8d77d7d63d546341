//! The `bytes` codec: elements one after the other, little- or big-endian.

use serde_json::{Map, Value};

use super::CodecError;
use crate::store::{ElementType, Endianness};

/// The endianness of this machine.
pub(super) const NATIVE: Endianness = if cfg!(target_endian = "big") {
    Endianness::Big
} else {
    Endianness::Little
};

/// Reads `endian` of the codec's configuration, which may be missing for one-byte elements.
pub(super) fn parse(
    configuration: &Map<String, Value>,
    element: &ElementType,
) -> Result<Endianness, CodecError> {
    match configuration.get("endian") {
        None | Some(Value::Null) if unit(element) <= 1 => Ok(NATIVE),
        None | Some(Value::Null) => Err(format!(
            "bytes: 'endian' is missing, which {element} needs: \"little\" or \"big\""
        )
        .into()),
        Some(value) => match value.as_str() {
            Some("little") => Ok(Endianness::Little),
            Some("big") => Ok(Endianness::Big),
            _ => Err(format!("bytes: 'endian' is {value}, expected \"little\" or \"big\"").into()),
        },
    }
}

/// Bytes of the units of an element whose order matters: a number, or a code point.
fn unit(element: &ElementType) -> usize {
    match element {
        ElementType::Unicode(_) => 4,
        ElementType::Bytes(_) | ElementType::String => 1,
        number => number.size().unwrap_or(1),
    }
}

/// Converts elements from endianness `from` to this machine's, or back.
pub(super) fn to_native(from: Endianness, element: &ElementType, elements: &mut [u8]) {
    if from == NATIVE {
        return;
    }
    match unit(element) {
        2 => elements
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .for_each(|x| x.reverse()),
        4 => elements
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .for_each(|x| x.reverse()),
        8 => elements
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .for_each(|x| x.reverse()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn units() {
        let mut bytes: Vec<u8> = (0..16).collect();
        to_native(NATIVE, &ElementType::Int32, &mut bytes);
        assert_eq!(bytes, (0..16).collect::<Vec<u8>>());
        let other = if NATIVE == Endianness::Little {
            Endianness::Big
        } else {
            Endianness::Little
        };
        let swapped = |element: ElementType| {
            let mut bytes: Vec<u8> = (0..16).collect();
            to_native(other, &element, &mut bytes);
            bytes
        };
        assert_eq!(swapped(ElementType::Int8)[..4], [0, 1, 2, 3]);
        assert_eq!(swapped(ElementType::Bytes(4))[..4], [0, 1, 2, 3]);
        assert_eq!(swapped(ElementType::Float16)[..4], [1, 0, 3, 2]);
        assert_eq!(
            swapped(ElementType::Unicode(2))[..8],
            [3, 2, 1, 0, 7, 6, 5, 4]
        );
        assert_eq!(
            swapped(ElementType::Float64)[8..],
            [15, 14, 13, 12, 11, 10, 9, 8]
        );
    }

    #[test]
    fn configuration() {
        let parse = |value: Value, element| parse(value.as_object().unwrap(), &element);
        assert!(parse(json!({}), ElementType::Int8).is_ok());
        assert!(
            parse(json!({}), ElementType::Int16)
                .unwrap_err()
                .contains("int16")
        );
        assert_eq!(
            parse(json!({"endian": "big"}), ElementType::Int16),
            Ok(Endianness::Big)
        );
        assert!(parse(json!({"endian": 1}), ElementType::Int16).is_err());
    }
}
