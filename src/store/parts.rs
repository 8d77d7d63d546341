//! Data types whose elements have several parts, complex numbers, raw bytes and structures: an array of them is read as an array of the
//! parts with one more dimension, the last.
//!
//! Called by `array_v2` and `array_v3` before they read the data type. Invariant: the parts of one element are next to each other in an
//! encoded chunk, so that the array's codecs decode both forms alike.

use serde_json::{Value, json};

use super::array::{ArrayMeta, CodecSpec};
use super::element::ElementType;
use super::error::StoreError;

/// The name of the added dimension, where dimensions have names.
const DIMENSION: &str = "parts";

/// The type of the parts, spelled as the array's own format spells types, and their number.
#[derive(Debug, PartialEq)]
pub struct Parts {
    /// The type of a part.
    pub data_type: Value,
    /// Parts of an element.
    pub number: u64,
}

impl Parts {
    /// Of a v2 dtype: complex numbers (`<c8`), bytes (`|V4`) and structures (a list of fields), of which the bytes. `None` for others.
    pub fn of_v2(dtype: &Value) -> Option<Self> {
        let (part, number) = match dtype {
            Value::String(text) => {
                let order = text
                    .chars()
                    .next()
                    .filter(|c| matches!(c, '<' | '>' | '|'))?;
                let (kind, size) = text[1..].split_at_checked(1)?;
                match (kind, size) {
                    ("c", "8") => (format!("{order}f4"), 2),
                    ("c", "16") => (format!("{order}f8"), 2),
                    ("V", _) => ("|u1".to_string(), digits(size)?),
                    _ => return None,
                }
            }
            Value::Array(_) => ("|u1".to_string(), size_v2(dtype)?),
            _ => return None,
        };
        Self::new(json!(part), number)
    }

    /// Of a v3 data type: complex numbers, raw bits and bytes, and structures, of which the bytes. `None` for others.
    pub fn of_v3(data_type: &Value) -> Option<Self> {
        let (part, number) = match name_of(data_type)? {
            "complex64" | "complex_float32" => ("float32", 2),
            "complex128" | "complex_float64" => ("float64", 2),
            _ => ("uint8", size_of_bytes_v3(data_type)?),
        };
        Self::new(json!(part), number)
    }

    fn new(data_type: Value, number: u64) -> Option<Self> {
        (number > 0).then_some(Self { data_type, number })
    }

    /// The fill value of a part.
    ///
    /// # Errors
    /// If parts have different ones, or it is not known which they have: zeros may be spelled in any way, other values as a list of all
    /// parts, or of bytes in base64.
    pub fn fill(&self, value: &Value) -> Result<Value, StoreError> {
        let wrong = || {
            StoreError::from(format!(
                "fill value {value}; expected one whose parts are all the same, such as zero"
            ))
        };
        let is_bytes = matches!(self.data_type.as_str(), Some("|u1" | "uint8"));
        let parts = match value {
            Value::Null => return Ok(Value::Null),
            Value::Array(parts) => parts.clone(),
            Value::String(text) if is_bytes => {
                let bytes = super::fill_value::base64(text).ok_or_else(wrong)?;
                bytes.iter().map(|byte| json!(byte)).collect()
            }
            Value::Object(fields) => fields.values().cloned().collect(),
            other => vec![other.clone()],
        };
        let is_zero = |part: &Value| part.as_f64() == Some(0.0) || *part == json!(false);
        if parts.iter().all(is_zero) {
            return Ok(json!(0));
        }
        // One value for each field of a structure is not one for each byte.
        let is_whole = !value.is_object() && parts.len() as u64 == self.number;
        match parts.first() {
            Some(first) if is_whole && parts.iter().all(|part| part == first) => Ok(first.clone()),
            _ => Err(wrong()),
        }
    }
}

impl ArrayMeta {
    /// The array of the parts of its elements, with one more dimension.
    pub(super) fn with_parts(mut self, parts: &Parts) -> Result<Self, StoreError> {
        let rank = self.shape.len();
        self.shape.push(parts.number);
        self.chunks.push(parts.number);
        self.has_parts = true;
        if !self.dimensions.is_empty() {
            self.dimensions.push(DIMENSION.to_string());
        }
        for codec in &mut self.codecs {
            extend(codec, rank, parts.number)?;
        }
        Ok(self)
    }
}

/// A codec of arrays of `rank` dimensions as one of arrays with another dimension.
fn extend(codec: &mut CodecSpec, rank: usize, parts: u64) -> Result<(), StoreError> {
    let wrong = |name: &str| {
        StoreError::from(format!(
            "codec '{name}' of a data type of several parts is not supported"
        ))
    };
    match codec.name.as_str() {
        "transpose" => match codec.configuration.get_mut("order") {
            Some(Value::Array(order)) => order.push(json!(rank)),
            _ => return Err(wrong("transpose")),
        },
        "sharding_indexed" => {
            let configuration = &mut codec.configuration;
            match configuration.get_mut("chunk_shape") {
                Some(Value::Array(shape)) => shape.push(json!(parts)),
                _ => return Err(wrong("sharding_indexed")),
            }
            let Some(Value::Array(inner)) = configuration.get_mut("codecs") else {
                return Err(wrong("sharding_indexed"));
            };
            for document in inner {
                let name = name_of(document).ok_or_else(|| wrong("sharding_indexed"))?;
                let configuration = document.get("configuration").and_then(Value::as_object);
                let mut spec = CodecSpec {
                    name: name.to_owned(),
                    configuration: configuration.cloned().unwrap_or_default(),
                };
                extend(&mut spec, rank, parts)?;
                *document = json!({"name": spec.name, "configuration": spec.configuration});
            }
        }
        _ => {}
    }
    Ok(())
}

fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

/// Bytes of an element of a v2 dtype.
fn size_v2(dtype: &Value) -> Option<u64> {
    match dtype {
        Value::String(text) => {
            let (_, text) = text.split_at_checked(1)?;
            let (kind, size) = text.split_at_checked(1)?;
            match kind {
                "M" | "m" => size.starts_with('8').then_some(8),
                "U" => digits(size)?.checked_mul(4),
                "O" => None,
                _ => digits(size),
            }
        }
        // Fields: their names, types and perhaps shapes.
        Value::Array(fields) => fields.iter().try_fold(0u64, |sum, field| {
            let field = field.as_array()?;
            let size = size_v2(field.get(1)?)?;
            let shape = match field.get(2) {
                None => vec![],
                Some(shape) => shape.as_array()?.clone(),
            };
            let each = shape
                .iter()
                .try_fold(size, |size, length| size.checked_mul(length.as_u64()?))?;
            sum.checked_add(each)
        }),
        _ => None,
    }
}

fn name_of(data_type: &Value) -> Option<&str> {
    match data_type {
        Value::String(name) => Some(name),
        other => other.get("name")?.as_str(),
    }
}

/// Bytes of an element of a v3 type of raw bytes, or of a structure.
fn size_of_bytes_v3(data_type: &Value) -> Option<u64> {
    let configuration = data_type.get("configuration");
    match name_of(data_type)? {
        "raw_bytes" => configuration?.get("length_bytes")?.as_u64(),
        "structured" | "struct" => {
            let fields = configuration?.get("fields")?.as_array()?;
            fields.iter().try_fold(0u64, |sum, field| {
                let data_type = match field {
                    Value::Array(field) => field.get(1)?,
                    field => field.get("data_type")?,
                };
                sum.checked_add(size_v3(data_type)?)
            })
        }
        raw => {
            let bits = digits(raw.strip_prefix('r')?)?;
            bits.is_multiple_of(8).then_some(bits / 8)
        }
    }
}

/// Bytes of an element of a v3 type.
fn size_v3(data_type: &Value) -> Option<u64> {
    match ElementType::parse_v3(data_type) {
        Ok(element) => Some(element.size()? as u64),
        Err(_) => match Parts::of_v3(data_type)? {
            Parts { data_type, number } if data_type == json!("float32") => number.checked_mul(4),
            Parts { data_type, number } if data_type == json!("float64") => number.checked_mul(8),
            Parts { number, .. } => Some(number),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_parts() {
        let v2 = |dtype| Parts::of_v2(&dtype).map(|parts| (parts.data_type, parts.number));
        assert_eq!(v2(json!(">c8")), Some((json!(">f4"), 2)));
        assert_eq!(v2(json!("<c16")), Some((json!("<f8"), 2)));
        assert_eq!(v2(json!("|V4")), Some((json!("|u1"), 4)));
        let fields = json!([
            ["a", "<i4"],
            ["b", "<f8", [2, 3]],
            ["c", [["d", "|S3"], ["e", "<U2"]]]
        ]);
        assert_eq!(v2(fields), Some((json!("|u1"), 4 + 48 + 3 + 8)));
        for wrong in [
            json!("<i4"),
            json!("|V0"),
            json!("|V"),
            json!("é"),
            json!([["a", "|O"]]),
            json!([["a"]]),
            json!([]),
            json!(3),
        ] {
            assert_eq!(v2(wrong.clone()), None, "{wrong}");
        }
        let v3 = |data_type| Parts::of_v3(&data_type).map(|parts| (parts.data_type, parts.number));
        assert_eq!(v3(json!("complex128")), Some((json!("float64"), 2)));
        assert_eq!(v3(json!("r16")), Some((json!("uint8"), 2)));
        let raw = json!({"name": "raw_bytes", "configuration": {"length_bytes": 5}});
        assert_eq!(v3(raw), Some((json!("uint8"), 5)));
        let fields = json!([["a", "int32"], ["b", "complex64"], ["c", "bool"]]);
        let structured = json!({"name": "structured", "configuration": {"fields": fields}});
        assert_eq!(v3(structured), Some((json!("uint8"), 13)));
        for wrong in [
            json!("int8"),
            json!("r3"),
            json!("r"),
            json!("raw_bytes"),
            json!({"name": "structured"}),
            json!(3),
        ] {
            assert_eq!(v3(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn fill_values_of_parts() {
        let complex = Parts::of_v3(&json!("complex64")).unwrap();
        assert_eq!(complex.fill(&json!([1.5, 1.5])), Ok(json!(1.5)));
        assert!(complex.fill(&json!([1.5, 2.5])).is_err());
        let raw = Parts::of_v2(&json!("|V3")).unwrap();
        assert_eq!(raw.fill(&json!("AAAA")), Ok(json!(0)));
        assert!(raw.fill(&json!("AAAB")).is_err());
        assert_eq!(raw.fill(&json!("AQEB")), Ok(json!(1)));
        // One byte of three, a number for all of them, the values of fields, a real number: not the values of all parts.
        assert!(raw.fill(&json!("AQ==")).is_err() && raw.fill(&json!(1)).is_err());
        assert!(raw.fill(&json!({"a": 1})).is_err() && raw.fill(&json!([1])).is_err());
        assert_eq!(
            raw.fill(&json!({"a": 0, "b": 0.0, "c": false})),
            Ok(json!(0))
        );
        assert!(complex.fill(&json!(1.5)).is_err() && complex.fill(&json!("AQEB")).is_err());
        assert_eq!(complex.fill(&json!(["NaN", "NaN"])), Ok(json!("NaN")));
        assert_eq!(raw.fill(&Value::Null), Ok(Value::Null));
    }
}
