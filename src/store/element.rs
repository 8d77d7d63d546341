//! Element types of Zarr arrays, and how Zarr v2 and v3 spell them.
//!
//! Used by the metadata parsers of this layer and by every layer above. Invariant: the width of a fixed-width type that
//! was parsed here is at least one and at most [`MAX_WIDTH`], so that its size in bytes cannot overflow.
use super::error::StoreError;
use super::time::TimeType;

use std::fmt;

use serde_json::Value;

/// Widest fixed-width string that is accepted, in code points or bytes.
const MAX_WIDTH: usize = 1 << 20;

/// The type of one element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed, one byte.
    Int8,
    /// Signed, two bytes.
    Int16,
    /// Signed, four bytes.
    Int32,
    /// Signed, eight bytes.
    Int64,
    /// Unsigned, one byte.
    UInt8,
    /// Unsigned, two bytes.
    UInt16,
    /// Unsigned, four bytes.
    UInt32,
    /// Unsigned, eight bytes.
    UInt64,
    /// IEEE 754, two bytes.
    Float16,
    /// IEEE 754, four bytes.
    Float32,
    /// IEEE 754, eight bytes.
    Float64,
    /// Fixed-width UTF-32 of this many code points, padded with zeros (v2 `<Un`, v3 `fixed_length_utf32`).
    Unicode(usize),
    /// Fixed-width bytes of that many, padded with zeros (v2 `|Sn`, v3 `null_terminated_bytes`).
    Bytes(usize),
    /// Points in time or spans of time (v2 `<M8[ns]`, `<m8[s]`, v3 `numpy.datetime64`, `numpy.timedelta64`).
    Time(TimeType),
    /// Variable-length UTF-8 (v2 `|O` with the filter `vlen-utf8` or `vlen-bytes`, v3 `string` or `variable_length_bytes`).
    String,
}

/// The order of the bytes of one number in an encoded chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endianness {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// The version of the Zarr format in which a store is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZarrFormat {
    /// `.zgroup`, `.zarray`, `.zattrs`.
    V2,
    /// `zarr.json`.
    V3,
}

impl ElementType {
    /// Bytes of one decoded element; `None` for [`ElementType::String`], whose elements differ in length.
    pub fn size(&self) -> Option<usize> {
        Some(match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Time(_) => 8,
            Self::Unicode(width) => width.saturating_mul(4),
            Self::Bytes(width) => *width,
            Self::String => return None,
        })
    }

    /// Whether values are whole numbers (not booleans).
    pub fn is_integer(&self) -> bool {
        self.integer_bounds().is_some()
    }

    /// Whether values are floating-point numbers.
    pub fn is_float(&self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64)
    }

    /// Whether values are text: variable-length, fixed-width Unicode or fixed-width bytes.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::String | Self::Unicode(_) | Self::Bytes(_))
    }

    /// Whether the order of bytes matters: an element is made of units of more than one byte.
    pub fn has_endianness(&self) -> bool {
        match self {
            Self::Unicode(_) => true,
            Self::Bytes(_) | Self::String => false,
            fixed => fixed.size().is_some_and(|size| size > 1),
        }
    }

    /// The smallest and the largest value of an integer type; `None` for the others.
    pub(super) fn integer_bounds(&self) -> Option<(i128, i128)> {
        Some(match self {
            Self::Int8 => (i8::MIN.into(), i8::MAX.into()),
            Self::Int16 => (i16::MIN.into(), i16::MAX.into()),
            Self::Int32 => (i32::MIN.into(), i32::MAX.into()),
            Self::Int64 => (i64::MIN.into(), i64::MAX.into()),
            Self::UInt8 => (0, u8::MAX.into()),
            Self::UInt16 => (0, u16::MAX.into()),
            Self::UInt32 => (0, u32::MAX.into()),
            Self::UInt64 => (0, u64::MAX.into()),
            _ => return None,
        })
    }

    /// Reads the `dtype` of a v2 `.zarray`, NumPy's type string. `|O` is [`ElementType::String`]: the caller checks that
    /// the filter `vlen-utf8` or `vlen-bytes` is there.
    pub(super) fn parse_v2(dtype: &Value) -> Result<(Self, Endianness), StoreError> {
        let unknown =
            || StoreError::from(format!("dtype {dtype} is not supported; {SUPPORTED_V2}"));
        let text = dtype.as_str().ok_or_else(unknown)?;
        let mut chars = text.chars();
        let (order, kind) = match (chars.next(), chars.next()) {
            (Some(order), Some(kind)) => (order, kind),
            _ => return Err(unknown()),
        };
        let digits = chars.as_str();
        let width = || -> Result<usize, StoreError> {
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(unknown());
            }
            digits.parse().map_err(|_| unknown())
        };
        let endianness = match order {
            '<' | '|' => Endianness::Little,
            '>' => Endianness::Big,
            _ => return Err(unknown()),
        };
        let element = match (kind, digits) {
            ('O', "") => Self::String,
            ('U', _) => Self::Unicode(checked_width(width()?)?),
            ('S', _) => Self::Bytes(checked_width(width()?)?),
            ('b', "1") => Self::Bool,
            ('i', "1") => Self::Int8,
            ('i', "2") => Self::Int16,
            ('i', "4") => Self::Int32,
            ('i', "8") => Self::Int64,
            ('u', "1") => Self::UInt8,
            ('u', "2") => Self::UInt16,
            ('u', "4") => Self::UInt32,
            ('u', "8") => Self::UInt64,
            ('f', "2") => Self::Float16,
            ('f', "4") => Self::Float32,
            ('f', "8") => Self::Float64,
            ('M' | 'm', _) => {
                let unit = digits.strip_prefix('8').ok_or_else(unknown)?;
                Self::Time(TimeType::parse_v2(kind == 'm', unit).ok_or_else(unknown)?)
            }
            _ => return Err(unknown()),
        };
        if order == '|' && element.has_endianness() {
            return Err(
                format!("dtype {dtype} has no byte order; expected '<' or '>' first").into(),
            );
        }
        Ok((element, endianness))
    }

    /// Reads the `data_type` of a v3 `zarr.json`: a name, or an object of a name and a configuration.
    pub(super) fn parse_v3(data_type: &Value) -> Result<Self, StoreError> {
        let unknown = || {
            StoreError::from(format!(
                "data type {data_type} is not supported; {SUPPORTED_V3}"
            ))
        };
        let (name, configuration) = match data_type {
            Value::String(name) => (name.as_str(), None),
            Value::Object(object) => (
                object
                    .get("name")
                    .and_then(Value::as_str)
                    .ok_or_else(unknown)?,
                object.get("configuration"),
            ),
            _ => return Err(unknown()),
        };
        let length_bytes = || -> Result<usize, StoreError> {
            configuration
                .and_then(|configuration| configuration.get("length_bytes"))
                .and_then(Value::as_u64)
                .and_then(|length| usize::try_from(length).ok())
                .ok_or_else(|| format!("data type '{name}' needs a configuration with 'length_bytes', a whole number").into())
        };
        Ok(match name {
            "bool" => Self::Bool,
            "int8" => Self::Int8,
            "int16" => Self::Int16,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint8" => Self::UInt8,
            "uint16" => Self::UInt16,
            "uint32" => Self::UInt32,
            "uint64" => Self::UInt64,
            "float16" => Self::Float16,
            "float32" => Self::Float32,
            "float64" => Self::Float64,
            "numpy.datetime64" | "numpy.timedelta64" => {
                let time = TimeType::parse_v3(name == "numpy.timedelta64", configuration);
                Self::Time(time.ok_or_else(unknown)?)
            }
            "string" => Self::String,
            // Text, as far as it is UTF-8.
            "variable_length_bytes" | "bytes" => Self::String,
            "null_terminated_bytes" => Self::Bytes(checked_width(length_bytes()?)?),
            "fixed_length_utf32" => {
                let length = length_bytes()?;
                if !length.is_multiple_of(4) {
                    return Err(format!(
                        "'length_bytes' of '{name}' is {length}; expected a multiple of 4"
                    )
                    .into());
                }
                Self::Unicode(checked_width(length / 4)?)
            }
            _ => return Err(unknown()),
        })
    }
}

const SUPPORTED_V2: &str = "expected one of b1, i1, i2, i4, i8, u1, u2, u4, u8, f2, f4, f8, c8, c16, Un, Sn, Vn, \
     M8[unit] and m8[unit] in weeks or less (with '<', '>' or '|' first) or |O with the filter 'vlen-utf8' or 'vlen-bytes'";

const SUPPORTED_V3: &str = "expected one of bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, \
     float16, float32, float64, complex64, complex128, numpy.datetime64 and \
     numpy.timedelta64 in weeks or less, r8, r16, …, raw_bytes, structured, string, variable_length_bytes, fixed_length_utf32, null_terminated_bytes";

fn checked_width(width: usize) -> Result<usize, StoreError> {
    match width {
        0 => Err(
            "a fixed-width string of width 0 holds nothing; expected a width of at least 1".into(),
        ),
        1..=MAX_WIDTH => Ok(width),
        _ => Err(
            format!("a fixed-width string of width {width}; expected at most {MAX_WIDTH}").into(),
        ),
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Unicode(width) => return write!(f, "<U{width}"),
            Self::Bytes(width) => return write!(f, "|S{width}"),
            Self::Time(time) => return write!(f, "<{time}"),
            Self::String => "string",
        })
    }
}

impl fmt::Display for Endianness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Little => "little",
            Self::Big => "big",
        })
    }
}

impl fmt::Display for ZarrFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2 => "Zarr v2",
            Self::V3 => "Zarr v3",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn v2(dtype: &str) -> Result<(ElementType, Endianness), StoreError> {
        ElementType::parse_v2(&json!(dtype))
    }

    #[test]
    fn v2_dtypes() {
        use ElementType::*;
        for (dtype, element) in [
            ("|b1", Bool),
            ("|i1", Int8),
            ("<i2", Int16),
            ("<i4", Int32),
            ("<i8", Int64),
            ("|u1", UInt8),
            ("<u2", UInt16),
            ("<u4", UInt32),
            ("<u8", UInt64),
            ("<f2", Float16),
            ("<f4", Float32),
            ("<f8", Float64),
            ("<U12", Unicode(12)),
            ("|S3", Bytes(3)),
            ("|O", String),
            ("<m8[25s]", Time(TimeType::of(true, "s", 25).unwrap())),
        ] {
            assert_eq!(v2(dtype).unwrap(), (element, Endianness::Little), "{dtype}");
        }
        assert_eq!(v2(">i4").unwrap(), (Int32, Endianness::Big));
        assert_eq!(v2(">U2").unwrap(), (Unicode(2), Endianness::Big));
        assert_eq!(v2("<i1").unwrap().0, Int8);
    }

    #[test]
    fn v2_hostile() {
        for dtype in [
            "",
            "<",
            "i4",
            "|i4",
            "<i3",
            "<i",
            "<U",
            "<U0",
            "<U-1",
            "<U+1",
            "<U99999999999999999999",
            "<c8",
            "<M8[Y]",
            "<M8",
            "|V4",
            "|O8",
            "é4",
            "<U536870912",
        ] {
            assert!(v2(dtype).is_err(), "{dtype}");
        }
        assert!(
            ElementType::parse_v2(&json!([["a", "<i4"]]))
                .unwrap_err()
                .contains("not supported")
        );
    }

    #[test]
    fn v3_types() {
        let v3 = |value| ElementType::parse_v3(&value);
        assert_eq!(v3(json!("int8")).unwrap(), ElementType::Int8);
        assert_eq!(
            v3(json!({"name": "float64"})).unwrap(),
            ElementType::Float64
        );
        let utf32 = json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}});
        assert_eq!(v3(utf32).unwrap(), ElementType::Unicode(2));
        let bytes = json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}});
        assert_eq!(v3(bytes).unwrap(), ElementType::Bytes(5));
        assert!(
            v3(json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 7}}))
                .is_err()
        );
        assert!(v3(json!({"name": "fixed_length_utf32"})).is_err());
        assert!(
            v3(json!("bfloat16"))
                .unwrap_err()
                .contains("fixed_length_utf32")
        );
        assert!(v3(json!(3)).is_err());
    }
}
