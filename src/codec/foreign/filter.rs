//! Array → array steps: filters of numcodecs, and a transpose before one of them.
//!
//! Our own, with NumPy's arithmetic: zarrs has no `delta`, `astype` or `quantize`, and its `fixedscaleoffset` computes with scale and
//! offset in single precision. `bitround` leaves decoding nothing to do.

use serde_json::{Map, Value};

use super::super::CodecError;
use super::super::transpose::Transpose;
use super::numbers::{self, Number, NumberType};
use crate::store::{ElementType, Endianness};

/// A step between arrays of as many elements.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    /// The type of the elements that it encodes.
    pub(super) decoded: ElementType,
    /// The type of the encoded elements.
    pub(super) encoded: ElementType,
    /// The order of the bytes of decoded and of encoded elements, where the configuration says it.
    pub(super) orders: (Option<Endianness>, Option<Endianness>),
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// Of an array of this shape.
    Transpose(Transpose, Vec<usize>),
    Same,
    Convert,
    Delta,
    ScaleOffset {
        scale: f64,
        offset: f64,
    },
}

impl Filter {
    /// A transpose of an array of `shape`.
    pub(super) fn transpose(
        configuration: &Map<String, Value>,
        shape: &[usize],
        element: ElementType,
    ) -> Result<(Filter, Vec<usize>), CodecError> {
        let mut transpose = Transpose::identity(shape.len());
        transpose.then(configuration)?;
        let encoded = transpose.encoded_shape(shape);
        let filter = Filter {
            decoded: element,
            encoded: element,
            orders: (None, None),
            kind: Kind::Transpose(transpose, shape.to_vec()),
        };
        Ok((filter, encoded))
    }

    /// The filter called `name`, of elements of type `element`; `None` if there is no such filter here.
    pub(super) fn parse(
        name: &str,
        configuration: &Map<String, Value>,
        element: ElementType,
    ) -> Result<Option<Filter>, CodecError> {
        let (decoded, encoded) = match name {
            "bitround" => {
                if !element.is_float() {
                    return Err(unfit(name, element, "floating-point numbers"));
                }
                (None, None)
            }
            "astype" => (
                NumberType::parse(name, configuration, "decode_dtype")?,
                NumberType::parse(name, configuration, "encode_dtype")?,
            ),
            "delta" | "fixedscaleoffset" | "quantize" => {
                let decoded = NumberType::parse(name, configuration, "dtype")?;
                (
                    decoded,
                    NumberType::parse(name, configuration, "astype")?.or(decoded),
                )
            }
            _ => return Ok(None),
        };
        // xarray's booleans are int8 to the filter.
        let flags = element == ElementType::Bool
            && decoded.is_some_and(|decoded| decoded.element == ElementType::Int8);
        let orders = (
            decoded.and_then(|decoded| decoded.endianness),
            encoded.and_then(|encoded| encoded.endianness),
        );
        let decoded = match decoded {
            Some(decoded) if decoded.element != element && !flags => {
                return Err(unfit(name, element, &format!("{}", decoded.element)));
            }
            Some(decoded) => decoded.element,
            None => element,
        };
        let encoded_type = encoded.map_or(decoded, |encoded| encoded.element);
        if decoded.is_text() {
            return Err(unfit(name, element, "numbers"));
        }
        let kind = match name {
            "bitround" => Kind::Same,
            "astype" | "quantize" => Kind::Convert,
            "delta" if decoded == ElementType::Bool => {
                return Err(unfit(name, element, "numbers"));
            }
            "delta" => Kind::Delta,
            _ => Kind::ScaleOffset {
                scale: factor(name, configuration, "scale")?,
                offset: factor(name, configuration, "offset")?,
            },
        };
        Ok(Some(Filter {
            decoded,
            encoded: encoded_type,
            orders,
            kind,
        }))
    }

    /// Decodes native-endian elements; `encoded` has exactly `n`.
    pub(super) fn decode(&self, encoded: Vec<u8>, n: usize) -> Result<Vec<u8>, CodecError> {
        let len = |element: ElementType| element.size().and_then(|size| size.checked_mul(n));
        let (Some(from), Some(to)) = (len(self.encoded), len(self.decoded)) else {
            return Err(format!("a filter of {n} elements of type {}", self.decoded).into());
        };
        if encoded.len() != from {
            return Err(format!("{} bytes for a filter, expected {from}", encoded.len()).into());
        }
        let converted = |encoded: Vec<u8>, change: &dyn Fn(Number) -> Number| {
            let mut decoded = vec![0; to];
            numbers::convert(self.encoded, self.decoded, &encoded, &mut decoded, change);
            decoded
        };
        let same = self.encoded == self.decoded;
        Ok(match &self.kind {
            Kind::Same => encoded,
            Kind::Transpose(transpose, shape) => {
                let mut decoded = vec![0; to];
                transpose.decode(
                    shape,
                    self.decoded.size().unwrap_or(0),
                    &encoded,
                    &mut decoded,
                )?;
                decoded
            }
            Kind::Convert if same => encoded,
            Kind::Convert => converted(encoded, &|number| number),
            Kind::Delta => {
                let mut decoded = match same {
                    true => encoded,
                    false => converted(encoded, &|number| number),
                };
                numbers::accumulate(self.decoded, &mut decoded);
                decoded
            }
            Kind::ScaleOffset { scale, offset } => match self.encoded {
                // NumPy computes with the precision of floating-point elements, and else with double precision.
                ElementType::Float32 => {
                    let (scale, offset) = (*scale as f32, *offset as f32);
                    converted(encoded, &|x| {
                        Number::Float((x.as_f64() as f32 / scale + offset).into())
                    })
                }
                ElementType::Float16 => {
                    let half = |x: f64| f64::from(half::f16::from_f64(x));
                    let (scale, offset) = (half(*scale), half(*offset));
                    converted(encoded, &|x| {
                        Number::Float(half(half(x.as_f64() / scale) + offset))
                    })
                }
                _ => converted(encoded, &|x| Number::Float(x.as_f64() / scale + offset)),
            },
        })
    }
}

fn factor(name: &str, configuration: &Map<String, Value>, key: &str) -> Result<f64, CodecError> {
    let value = configuration.get(key).unwrap_or(&Value::Null);
    value
        .as_f64()
        .ok_or_else(|| format!("{name}: '{key}' is {value}; expected a number").into())
}

fn unfit(name: &str, element: ElementType, expected: &str) -> CodecError {
    format!("{name}: the elements are of type {element}; expected {expected}").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filter(
        name: &str,
        configuration: Value,
        element: ElementType,
    ) -> Result<Filter, CodecError> {
        let parsed = Filter::parse(name, configuration.as_object().unwrap(), element);
        Ok(parsed?.unwrap())
    }

    #[test]
    fn delta() {
        let delta = filter(
            "delta",
            json!({"dtype": "<i2", "astype": "|i1"}),
            ElementType::Int16,
        );
        let delta = delta.unwrap();
        assert_eq!(delta.encoded, ElementType::Int8);
        // numcodecs' own example.
        let decoded = delta.decode(vec![100, 2, 2, 0xff], 4).unwrap();
        let expected: Vec<u8> = [100i16, 102, 104, 103]
            .iter()
            .flat_map(|x| x.to_ne_bytes())
            .collect();
        assert_eq!(decoded, expected);
        assert!(delta.decode(vec![1, 2, 3], 4).is_err());
        assert!(delta.decode(vec![], usize::MAX).is_err());
    }

    #[test]
    fn scale_and_offset() {
        let configuration = json!({"scale": 10, "offset": 1000, "dtype": "<f8", "astype": "|u1"});
        let filter = filter("fixedscaleoffset", configuration, ElementType::Float64).unwrap();
        let decoded = filter.decode(vec![0, 1, 10], 3).unwrap();
        let expected: Vec<u8> = [1000.0f64, 1000.1, 1001.0]
            .iter()
            .flat_map(|x| x.to_ne_bytes())
            .collect();
        assert_eq!(decoded, expected);
    }

    #[test]
    fn refusals() {
        for (name, configuration, element, part) in [
            (
                "delta",
                json!({"dtype": "<i4"}),
                ElementType::Int16,
                "int32",
            ),
            ("delta", json!({"dtype": "i5"}), ElementType::Int16, "i5"),
            (
                "delta",
                json!({"dtype": "|b1"}),
                ElementType::Bool,
                "numbers",
            ),
            ("delta", json!({}), ElementType::String, "numbers"),
            (
                "bitround",
                json!({"keepbits": 3}),
                ElementType::Int32,
                "floating",
            ),
            ("astype", json!({}), ElementType::Unicode(3), "numbers"),
            (
                "fixedscaleoffset",
                json!({"scale": 1}),
                ElementType::Float32,
                "offset",
            ),
        ] {
            let error = filter(name, configuration, element).unwrap_err();
            assert!(error.contains(part) && error.contains(name), "{error}");
        }
        assert!(
            Filter::parse("zstd", &Map::new(), ElementType::Int8)
                .unwrap()
                .is_none()
        );
    }
}
