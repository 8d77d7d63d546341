//! Fill values: what an element of an absent chunk is, from the JSON spellings of Zarr v2 and v3.
//!
//! Invariant: [`FillValue::Bytes`] holds exactly one element of its array's type, in little-endian order.

use half::f16;
use serde_json::Value;

use super::element::ElementType;
use super::error::StoreError;
use super::time::TimeType;

/// The value of every element of a chunk that is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FillValue {
    /// Not given (v2 `null`): zero, false or the empty string.
    Null,
    /// One element of a fixed-width type, little-endian; for fixed-width Unicode, padded UTF-32.
    Bytes(Vec<u8>),
    /// The text of an element of variable length.
    Text(String),
}

impl FillValue {
    /// Reads the `fill_value` of an array of `element`s.
    pub(super) fn parse(value: &Value, element: &ElementType) -> Result<Self, StoreError> {
        let wrong = |expected: &str| {
            StoreError::from(format!(
                "fill value {value} does not fit {element}; expected {expected}"
            ))
        };
        if value.is_null() {
            return Ok(Self::Null);
        }
        // zarr-python before 3 writes 0, its default, for text too.
        if element.is_text() && value.as_f64() == Some(0.0) {
            return Ok(Self::Null);
        }
        match element {
            ElementType::Bool => match (value.as_bool(), value.as_f64()) {
                (Some(flag), _) => Ok(Self::Bytes(vec![flag.into()])),
                (None, Some(0.0)) => Ok(Self::Bytes(vec![0])),
                (None, Some(1.0)) => Ok(Self::Bytes(vec![1])),
                _ => Err(wrong("true or false")),
            },
            ElementType::Float16 | ElementType::Float32 | ElementType::Float64 => {
                float(value, element).map(Self::Bytes).ok_or_else(|| {
                    wrong("a number, \"NaN\", \"Infinity\", \"-Infinity\" or the bits in hexadecimal, \"0x…\"")
                })
            }
            ElementType::String => {
                value.as_str().map(|text| Self::Text(text.to_owned())).ok_or_else(|| wrong("a string"))
            }
            ElementType::Unicode(width) => {
                let text = value.as_str().ok_or_else(|| wrong("a string"))?;
                if text.chars().count() > *width {
                    return Err(wrong("a string of no more code points than the width"));
                }
                Ok(Self::Bytes(padded(text.chars().flat_map(|c| u32::from(c).to_le_bytes()), width.saturating_mul(4))))
            }
            ElementType::Bytes(width) => {
                let decoded = value.as_str().and_then(base64).filter(|decoded| decoded.len() <= *width);
                let decoded = decoded.ok_or_else(|| wrong("no more bytes than the width, in base64"))?;
                Ok(Self::Bytes(padded(decoded, *width)))
            }
            ElementType::Time(_) => match value.as_str() {
                Some("NaT") => Ok(Self::Bytes(TimeType::NONE.to_le_bytes().to_vec())),
                _ => {
                    let ticks = whole_number(value).and_then(|ticks| i64::try_from(ticks).ok());
                    let ticks = ticks.ok_or_else(|| wrong("a whole number of 64 bits, or \"NaT\""))?;
                    Ok(Self::Bytes(ticks.to_le_bytes().to_vec()))
                }
            },
            integer => {
                let (low, high) = integer.integer_bounds().ok_or_else(|| wrong("a number"))?;
                let number = whole_number(value).filter(|number| (low..=high).contains(number));
                let number = number.ok_or_else(|| wrong(&format!("a whole number from {low} to {high}")))?;
                Ok(Self::Bytes(number.to_le_bytes().into_iter().take(integer.size().unwrap_or(0)).collect()))
            }
        }
    }
}

/// The bytes, then zeros up to `length`. The text or base64 that they come from is at least as long as they are, and
/// `length` was bounded when the type was parsed.
fn padded(bytes: impl IntoIterator<Item = u8>, length: usize) -> Vec<u8> {
    let mut padded: Vec<u8> = bytes.into_iter().collect();
    padded.resize(length, 0);
    padded
}

fn whole_number(value: &Value) -> Option<i128> {
    if let Some(number) = value.as_i64() {
        return Some(number.into());
    }
    if let Some(number) = value.as_u64() {
        return Some(number.into());
    }
    // "1e3" and "0.0": the cast is exact, since f64 integers of this size are i128s.
    value
        .as_f64()
        .filter(|number| number.fract() == 0.0 && number.abs() < 1e20)
        .map(|number| number as i128)
}

fn float(value: &Value, element: &ElementType) -> Option<Vec<u8>> {
    let size = element.size()?;
    if let Some(hex) = value.as_str().and_then(|text| text.strip_prefix("0x")) {
        // The bits are kept as they are: VCZ's missing values are signalling NaNs.
        if hex.len() != 2 * size || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let bits = u64::from_str_radix(hex, 16).ok()?;
        return Some(bits.to_le_bytes().into_iter().take(size).collect());
    }
    let number = match value {
        Value::String(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => return None,
        },
        other => other.as_f64()?,
    };
    Some(match element {
        ElementType::Float16 => f16::from_f64(number).to_le_bytes().to_vec(),
        ElementType::Float32 => (number as f32).to_le_bytes().to_vec(),
        _ => number.to_le_bytes().to_vec(),
    })
}

impl FillValue {
    /// The fill value of an array; that of bytes of variable length (`is_bytes`, the codec `vlen-bytes`) is written in base64.
    pub(super) fn of_bytes(self, is_bytes: bool) -> Result<Self, StoreError> {
        match self {
            Self::Text(text) if is_bytes && !text.is_empty() => {
                let decoded = base64(&text).and_then(|bytes| String::from_utf8(bytes).ok());
                decoded.map(Self::Text).ok_or_else(|| {
                    format!("the fill value '{text}' of bytes is not UTF-8 in base64").into()
                })
            }
            other => Ok(other),
        }
    }
}

/// Decodes standard base64 with or without padding; `None` if it is not that.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 || digits.len() % 4 == 1 {
        return None;
    }
    let mut decoded = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0u32, 0u32);
    for digit in digits.bytes() {
        let six = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(six)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count & 0xff) as u8);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bytes(value: Value, element: ElementType) -> Vec<u8> {
        match FillValue::parse(&value, &element).unwrap() {
            FillValue::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(bytes(json!(-1), ElementType::Int8), [0xff]);
        assert_eq!(bytes(json!(258), ElementType::Int32), [2, 1, 0, 0]);
        assert_eq!(bytes(json!(u64::MAX), ElementType::UInt64), [0xff; 8]);
        assert_eq!(bytes(json!(0.0), ElementType::UInt16), [0, 0]);
        assert_eq!(bytes(json!(true), ElementType::Bool), [1]);
        assert_eq!(bytes(json!(0), ElementType::Bool), [0]);
        assert_eq!(
            bytes(json!(1.5), ElementType::Float32),
            1.5f32.to_le_bytes()
        );
        assert_eq!(bytes(json!(1), ElementType::Float64), 1f64.to_le_bytes());
        assert_eq!(bytes(json!(1), ElementType::Float16), [0x00, 0x3c]);
    }

    #[test]
    fn special_floats_keep_their_bits() {
        assert_eq!(
            bytes(json!("0x7f800001"), ElementType::Float32),
            0x7f80_0001u32.to_le_bytes()
        );
        assert_eq!(
            bytes(json!("0x7ff0000000000002"), ElementType::Float64),
            0x7ff0_0000_0000_0002u64.to_le_bytes()
        );
        assert_eq!(
            bytes(json!("NaN"), ElementType::Float32),
            f32::NAN.to_le_bytes()
        );
        assert_eq!(
            bytes(json!("-Infinity"), ElementType::Float64),
            f64::NEG_INFINITY.to_le_bytes()
        );
    }

    #[test]
    fn text() {
        assert_eq!(
            FillValue::parse(&json!("."), &ElementType::String).unwrap(),
            FillValue::Text(".".into())
        );
        assert_eq!(
            FillValue::parse(&json!(0), &ElementType::String).unwrap(),
            FillValue::Null
        );
        assert_eq!(
            bytes(json!("é"), ElementType::Unicode(2)),
            [0xe9, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(bytes(json!("QUI="), ElementType::Bytes(3)), [b'A', b'B', 0]);
        assert_eq!(bytes(json!(""), ElementType::Bytes(2)), [0, 0]);
    }

    #[test]
    fn hostile() {
        for (value, element) in [
            (json!(128), ElementType::Int8),
            (json!(-1), ElementType::UInt8),
            (json!(1.5), ElementType::Int8),
            (json!(1e300), ElementType::Int64),
            (json!("NaN"), ElementType::Int8),
            (json!("0x7f80"), ElementType::Float32),
            (json!("0x+f800001"), ElementType::Float32),
            (json!("nan"), ElementType::Float32),
            (json!([1]), ElementType::Float32),
            (json!("abc"), ElementType::Unicode(2)),
            (json!("QUJDRA=="), ElementType::Bytes(3)),
            (json!("A"), ElementType::Bytes(3)),
            (json!("Q*=="), ElementType::Bytes(3)),
            (json!(7), ElementType::String),
            (json!(2), ElementType::Bool),
        ] {
            assert!(
                FillValue::parse(&value, &element).is_err(),
                "{value} {element}"
            );
        }
        assert_eq!(
            FillValue::parse(&Value::Null, &ElementType::Int8).unwrap(),
            FillValue::Null
        );
    }

    #[test]
    fn bytes_are_in_base64() {
        let of = |text: &str| FillValue::Text(text.to_owned()).of_bytes(true);
        assert_eq!(of("QUM=").unwrap(), FillValue::Text("AC".to_owned()));
        assert_eq!(of("").unwrap(), FillValue::Text(String::new()));
        for wrong in ["/+8=", "====", "?"] {
            assert!(of(wrong).unwrap_err().contains("base64"), "{wrong}");
        }
        let text = FillValue::Text("QUM=".to_owned());
        assert_eq!(text.clone().of_bytes(false).unwrap(), text);
    }

    #[test]
    fn base64_decodes() {
        assert_eq!(base64("aGVsbG8gd29ybGQ=").unwrap(), b"hello world");
        assert_eq!(base64("aGVsbG8gd29ybGQ").unwrap(), b"hello world");
        assert_eq!(base64("/+8=").unwrap(), [0xff, 0xef]);
        assert!(base64("====").is_none());
    }
}
