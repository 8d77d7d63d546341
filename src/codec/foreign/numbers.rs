//! Types of numbers in the configurations of filters, and conversions between them as NumPy's `astype` does them.

use half::f16;
use serde_json::{Map, Value};

use super::super::CodecError;
use crate::store::{ElementType, Endianness};

/// A number of any type: whole numbers keep all their bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Whole(i128),
    Float(f64),
}

impl Number {
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

/// A data type of NumPy, and its order of bytes where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberType {
    pub(super) element: ElementType,
    pub(super) endianness: Option<Endianness>,
}

impl NumberType {
    /// Reads the field `key` of a filter's configuration, such as `"<i4"`, `"i4"` or `"int32"`; `None` if it is missing.
    pub(super) fn parse(
        filter: &str,
        configuration: &Map<String, Value>,
        key: &str,
    ) -> Result<Option<NumberType>, CodecError> {
        let value = match configuration.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value,
        };
        let parsed = value.as_str().and_then(of_numpy);
        let wrong = || {
            format!(
                "{filter}: '{key}' is {value}; expected a type of numbers such as \"<i4\" or \"float32\""
            )
        };
        Ok(Some(parsed.ok_or_else(wrong)?))
    }
}

fn of_numpy(text: &str) -> Option<NumberType> {
    let (endianness, name) = match text.split_at_checked(1) {
        Some(("<", name)) => (Some(Endianness::Little), name),
        Some((">", name)) => (Some(Endianness::Big), name),
        Some(("|" | "=", name)) => (None, name),
        _ => (None, text),
    };
    let element = match name {
        "b1" | "?" | "bool" => ElementType::Bool,
        "i1" | "int8" => ElementType::Int8,
        "i2" | "int16" => ElementType::Int16,
        "i4" | "int32" => ElementType::Int32,
        "i8" | "int64" => ElementType::Int64,
        "u1" | "uint8" => ElementType::UInt8,
        "u2" | "uint16" => ElementType::UInt16,
        "u4" | "uint32" => ElementType::UInt32,
        "u8" | "uint64" => ElementType::UInt64,
        "f2" | "float16" => ElementType::Float16,
        "f4" | "float32" => ElementType::Float32,
        "f8" | "float64" => ElementType::Float64,
        _ => return None,
    };
    Some(NumberType {
        element,
        endianness,
    })
}

/// Reads one native-endian number; text is zero, which no filter accepts.
pub(super) fn load(element: ElementType, bytes: &[u8]) -> Number {
    macro_rules! whole {
        ($type:ty) => {
            Number::Whole(<$type>::from_ne_bytes(array(bytes)) as i128)
        };
    }
    match element {
        ElementType::Bool => Number::Whole(i128::from(bytes.first().is_some_and(|b| *b != 0))),
        ElementType::Int8 => whole!(i8),
        ElementType::Int16 => whole!(i16),
        ElementType::Int32 => whole!(i32),
        ElementType::Int64 | ElementType::Time(_) => whole!(i64),
        ElementType::UInt8 => whole!(u8),
        ElementType::UInt16 => whole!(u16),
        ElementType::UInt32 => whole!(u32),
        ElementType::UInt64 => whole!(u64),
        ElementType::Float16 => Number::Float(f16::from_ne_bytes(array(bytes)).to_f64()),
        ElementType::Float32 => Number::Float(f32::from_ne_bytes(array(bytes)).into()),
        ElementType::Float64 => Number::Float(f64::from_ne_bytes(array(bytes))),
        ElementType::Unicode(_) | ElementType::Bytes(_) | ElementType::String => Number::Whole(0),
    }
}

/// Writes one native-endian number. Whole numbers that do not fit wrap around, as in NumPy; fractions are cut off.
pub(super) fn store(element: ElementType, number: Number, bytes: &mut [u8]) {
    macro_rules! whole {
        ($type:ty) => {
            match number {
                Number::Whole(value) => put(bytes, &(value as $type).to_ne_bytes()),
                Number::Float(value) => put(bytes, &(value as $type).to_ne_bytes()),
            }
        };
    }
    match element {
        ElementType::Bool => put(bytes, &[u8::from(number.as_f64() != 0.0)]),
        ElementType::Int8 => whole!(i8),
        ElementType::Int16 => whole!(i16),
        ElementType::Int32 => whole!(i32),
        ElementType::Int64 | ElementType::Time(_) => whole!(i64),
        ElementType::UInt8 => whole!(u8),
        ElementType::UInt16 => whole!(u16),
        ElementType::UInt32 => whole!(u32),
        ElementType::UInt64 => whole!(u64),
        ElementType::Float16 => put(bytes, &f16::from_f64(number.as_f64()).to_ne_bytes()),
        ElementType::Float32 => whole!(f32),
        ElementType::Float64 => put(bytes, &number.as_f64().to_ne_bytes()),
        ElementType::Unicode(_) | ElementType::Bytes(_) | ElementType::String => {}
    }
}

/// The first `N` bytes; zeros where there are fewer, which callers that split by the size of an element do not have.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn put(bytes: &mut [u8], value: &[u8]) {
    for (to, from) in bytes.iter_mut().zip(value) {
        *to = *from;
    }
}

/// Converts all of `src` by `change`, from numbers of one type to numbers of another, into `dst`, which has as many elements.
pub(super) fn convert(
    from: ElementType,
    to: ElementType,
    src: &[u8],
    dst: &mut [u8],
    change: impl Fn(Number) -> Number,
) {
    let (width, out) = (from.size().unwrap_or(1), to.size().unwrap_or(1));
    for (src, dst) in src.chunks_exact(width).zip(dst.chunks_exact_mut(out)) {
        store(to, change(load(from, src)), dst);
    }
}

/// Adds up numbers of one type in place: each becomes the sum of all up to it. Whole numbers wrap around.
pub(super) fn accumulate(element: ElementType, numbers: &mut [u8]) {
    macro_rules! sums {
        ($type:ty, $zero:expr, $add:expr) => {{
            let mut sum: $type = $zero;
            for bytes in numbers.chunks_exact_mut(size_of::<$type>()) {
                sum = $add(sum, <$type>::from_ne_bytes(array(bytes)));
                put(bytes, &sum.to_ne_bytes());
            }
        }};
    }
    match element {
        ElementType::Int8 | ElementType::UInt8 => sums!(u8, 0, u8::wrapping_add),
        ElementType::Int16 | ElementType::UInt16 => sums!(u16, 0, u16::wrapping_add),
        ElementType::Int32 | ElementType::UInt32 => sums!(u32, 0, u32::wrapping_add),
        ElementType::Int64 | ElementType::UInt64 | ElementType::Time(_) => {
            sums!(u64, 0, u64::wrapping_add)
        }
        // From −0, so that a first −0 stays one.
        ElementType::Float16 => sums!(f16, f16::NEG_ZERO, |a: f16, b: f16| f16::from_f32(
            a.to_f32() + b.to_f32()
        )),
        ElementType::Float32 => sums!(f32, -0.0, |a: f32, b: f32| a + b),
        ElementType::Float64 => sums!(f64, -0.0, |a: f64, b: f64| a + b),
        ElementType::Bool
        | ElementType::Unicode(_)
        | ElementType::Bytes(_)
        | ElementType::String => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ElementType::*;

    #[test]
    fn types() {
        let parse = |value: Value| {
            let configuration = Map::from_iter([("dtype".to_owned(), value)]);
            NumberType::parse("delta", &configuration, "dtype")
        };
        let of = |value: Value| parse(value).unwrap().unwrap();
        assert_eq!(of(json!("<i4")).endianness, Some(Endianness::Little));
        assert_eq!(of(json!(">f8")).element, Float64);
        assert_eq!(of(json!("|u1")), of(json!("uint8")));
        assert_eq!(parse(json!(null)), Ok(None));
        for wrong in [
            json!("i3"),
            json!(""),
            json!("é"),
            json!("<"),
            json!("<U4"),
            json!(4),
        ] {
            assert!(
                parse(wrong.clone()).unwrap_err().contains("delta"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn conversions() {
        let one = |from: ElementType, to: ElementType, number| {
            let (mut src, mut dst) = ([0; 8], [0; 8]);
            store(from, number, &mut src);
            let (src, dst) = (&src[..from.size().unwrap()], &mut dst[..to.size().unwrap()]);
            convert(from, to, src, dst, |number| number);
            load(to, dst)
        };
        assert_eq!(one(Int64, Int8, Number::Whole(-129)), Number::Whole(127));
        assert_eq!(one(Int8, UInt16, Number::Whole(-1)), Number::Whole(65535));
        assert_eq!(
            one(UInt64, Int64, Number::Whole(u64::MAX.into())),
            Number::Whole(-1)
        );
        assert_eq!(one(Float32, Int16, Number::Float(-2.75)), Number::Whole(-2));
        assert_eq!(
            one(Float64, Float16, Number::Float(0.1)).as_f64(),
            f16::from_f64(0.1).to_f64()
        );
        assert_eq!(one(Int32, Bool, Number::Whole(7)), Number::Whole(1));
        assert_eq!(
            one(UInt32, Float32, Number::Whole(1 << 31)),
            Number::Float(2f64.powi(31))
        );
    }

    #[test]
    fn sums() {
        let mut bytes = [200u8, 100, 1];
        accumulate(UInt8, &mut bytes);
        assert_eq!(bytes, [200, 44, 45]);
        let mut floats: Vec<u8> = [0.5f32, -1.0, 0.25]
            .iter()
            .flat_map(|x| x.to_ne_bytes())
            .collect();
        accumulate(Float32, &mut floats);
        assert_eq!(floats[8..], (-0.25f32).to_ne_bytes());
    }
}
