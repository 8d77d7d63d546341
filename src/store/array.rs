//! The metadata of one array, the same for Zarr v2 and v3, and its chunk grid.
//!
//! Made by `array_v2` and `array_v3`, read by `codec` (codecs, element, fill value) and `scan` (shape, dimensions).
//! Invariants, kept by [`ArrayMeta::checked`]: `shape` and `chunks` have one rank; no chunk length is zero; the number of
//! elements is below 2^63; one decoded chunk is at most [`MAX_CHUNK_BYTES`]; there is at least one codec.

use serde_json::{Map, Value};

use super::element::{ElementType, ZarrFormat};
use super::error::StoreError;
use super::fill_value::FillValue;

/// Largest decoded chunk that is accepted, in bytes: 4 GiB. (VCF Zarr itself says 2^31 − 1.)
pub const MAX_CHUNK_BYTES: u64 = 1 << 32;

/// Most dimensions that are accepted; NumPy's limit.
const MAX_RANK: usize = 32;

/// One step of an array's encoding, as data: the codec's name and its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct CodecSpec {
    /// The name in Zarr v3, or the `id` in v2, e.g. `blosc`.
    pub name: String,
    /// The parameters, as the store spells them (v2 Blosc has `"shuffle": 2`, v3 `"shuffle": "bitshuffle"`).
    pub configuration: Map<String, Value>,
}

impl CodecSpec {
    /// A codec without parameters.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            configuration: Map::new(),
        }
    }

    /// Whether it encodes bytes of variable length.
    pub fn is_bytes(&self) -> bool {
        self.name == "vlen-bytes"
    }
}

/// The metadata of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayMeta {
    /// The array's name, one path component, e.g. `call_genotype`.
    pub name: String,
    /// The format of its metadata.
    pub format: ZarrFormat,
    /// Elements in each dimension.
    pub shape: Vec<u64>,
    /// Elements of a chunk in each dimension; the last chunk of a dimension may reach beyond the array.
    pub chunks: Vec<u64>,
    /// The type of an element.
    pub element: ElementType,
    /// The value of the elements of absent chunks.
    pub fill_value: FillValue,
    /// How a chunk is encoded, in order: array → array codecs, one array → bytes codec (`bytes`, `vlen-utf8`,
    /// `sharding_indexed`), bytes → bytes codecs. v2 metadata is put into this form.
    pub codecs: Vec<CodecSpec>,
    /// The dimensions' names (v2 `_ARRAY_DIMENSIONS`, v3 `dimension_names`): one for each dimension, `""` for one without
    /// a name; empty where the store gives none.
    pub dimensions: Vec<String>,
    /// The array's attributes.
    pub attributes: Map<String, Value>,
    pub(super) key_encoding: ChunkKeyEncoding,
    /// Whether the last dimension is that of the parts of an element, which keys do not have.
    pub(super) has_parts: bool,
}

/// How the index of a chunk becomes its key below the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkKeyEncoding {
    /// v2 and v3's `v2`: `3.0.0`, and `0` for rank 0.
    V2 { separator: char },
    /// v3's `default`: `c/3/0/0`, and `c` for rank 0.
    Default { separator: char },
}

impl ArrayMeta {
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of chunks in each dimension; zero where the dimension is empty.
    pub fn grid_shape(&self) -> Vec<u64> {
        // `checked` refuses chunk lengths of zero; `max` keeps a hand-made value from dividing by it.
        self.shape
            .iter()
            .zip(&self.chunks)
            .map(|(&length, &chunk)| length.div_ceil(chunk.max(1)))
            .collect()
    }

    /// Number of chunks of the whole grid, stored or not; `None` if it does not fit.
    pub fn n_chunks(&self) -> Option<u64> {
        product(&self.grid_shape())
    }

    /// Number of elements of the array; `None` if it does not fit.
    pub fn n_elements(&self) -> Option<u64> {
        product(&self.shape)
    }

    /// Number of elements of a full chunk; `None` if it does not fit.
    pub fn chunk_elements(&self) -> Option<usize> {
        product(&self.chunks).and_then(|n| usize::try_from(n).ok())
    }

    /// Bytes of a full decoded chunk; `None` for variable-length text, or if it does not fit.
    pub fn chunk_bytes(&self) -> Option<usize> {
        self.chunk_elements()?.checked_mul(self.element.size()?)
    }

    /// Whether `index` names a chunk of the grid.
    pub fn contains_chunk(&self, index: &[u64]) -> bool {
        index.len() == self.rank() && index.iter().zip(self.grid_shape()).all(|(&i, n)| i < n)
    }

    /// Elements of the chunk at `index` that lie inside the array, in each dimension: the last chunks are shorter than
    /// `chunks`, and those outside the grid are empty.
    pub fn chunk_extent(&self, index: &[u64]) -> Vec<u64> {
        let bounds = self.shape.iter().zip(&self.chunks);
        index
            .iter()
            .zip(bounds)
            .map(|(&i, (&length, &chunk))| {
                length.saturating_sub(i.saturating_mul(chunk)).min(chunk)
            })
            .collect()
    }

    /// The key of the chunk at `index`, below the array: `3.0.0`, `3/0/0`, `c/3/0/0`; for rank 0 `0` or `c`.
    pub fn chunk_key(&self, index: &[u64]) -> String {
        let index = &index[..index.len().saturating_sub(usize::from(self.has_parts))];
        match self.key_encoding {
            ChunkKeyEncoding::V2 { .. } if index.is_empty() => "0".to_owned(),
            ChunkKeyEncoding::V2 { separator } => joined(String::new(), index, separator),
            ChunkKeyEncoding::Default { .. } if index.is_empty() => "c".to_owned(),
            ChunkKeyEncoding::Default { separator } => {
                joined(format!("c{separator}"), index, separator)
            }
        }
    }

    /// The chunk at `index` as messages name it, whatever its key: `3.0.0`.
    pub fn chunk_label(&self, index: &[u64]) -> String {
        if index.is_empty() {
            "0".to_owned()
        } else {
            joined(String::new(), index, '.')
        }
    }

    /// Returns the metadata if the invariants of this type hold, else the reason.
    pub(super) fn checked(self) -> Result<Self, StoreError> {
        let (shape, chunks) = (&self.shape, &self.chunks);
        if shape.len() != chunks.len() {
            return Err(format!(
                "shape {shape:?} and chunks {chunks:?} differ in their number of dimensions"
            )
            .into());
        }
        if shape.len() > MAX_RANK {
            return Err(format!("{} dimensions; expected at most {MAX_RANK}", shape.len()).into());
        }
        if chunks.contains(&0) {
            return Err(format!(
                "chunks {chunks:?} have a length of zero; expected at least 1 in each dimension"
            )
            .into());
        }
        let too_many =
            || format!("shape {shape:?} or chunks {chunks:?} make 2^63 elements or more");
        // An empty dimension must not hide an overflow in the others.
        let lengths: Vec<u64> = shape.iter().map(|&length| length.max(1)).collect();
        product(&lengths).ok_or_else(too_many)?;
        let elements = product(chunks).ok_or_else(too_many)?;
        // An encoded text of variable length takes at least the four bytes of its length.
        let bytes = elements.checked_mul(self.element.size().unwrap_or(4) as u64);
        if bytes.is_none_or(|bytes| bytes > MAX_CHUNK_BYTES) {
            return Err(format!(
                "chunks {chunks:?} of {} are more than {MAX_CHUNK_BYTES} bytes each; \
                 rewrite the store with smaller chunks",
                self.element
            )
            .into());
        }
        if !self.dimensions.is_empty() && self.dimensions.len() != shape.len() {
            return Err(format!(
                "{} dimension names {:?} for shape {shape:?}",
                self.dimensions.len(),
                self.dimensions
            )
            .into());
        }
        if self.codecs.is_empty() {
            return Err("the list of codecs is empty; expected at least 'bytes'".into());
        }
        Ok(self.with_flags())
    }

    /// xarray, and so sgkit, writes booleans as int8 with an attribute `dtype` that says so.
    fn with_flags(mut self) -> Self {
        let says_bool = self.attributes.get("dtype").and_then(Value::as_str) == Some("bool");
        if says_bool && self.element == ElementType::Int8 {
            self.element = ElementType::Bool;
        }
        self
    }

    /// The metadata of an array whose chunks are made while it is read, and are not compressed.
    pub(super) fn made(
        name: &str,
        format: ZarrFormat,
        shape: Vec<u64>,
        chunks: Vec<u64>,
        element: ElementType,
    ) -> Result<Self, StoreError> {
        let codec = match element {
            ElementType::String => CodecSpec::named("vlen-utf8"),
            _ => CodecSpec {
                name: "bytes".to_owned(),
                configuration: Map::from_iter([("endian".to_owned(), Value::from("little"))]),
            },
        };
        Self {
            name: name.to_owned(),
            format,
            shape,
            chunks,
            element,
            fill_value: FillValue::Null,
            codecs: vec![codec],
            dimensions: vec![],
            attributes: Map::new(),
            key_encoding: ChunkKeyEncoding::V2 { separator: '.' },
            has_parts: false,
        }
        .checked()
    }
}

/// The product, if it is below 2^63.
fn product(factors: &[u64]) -> Option<u64> {
    let product = factors
        .iter()
        .try_fold(1u64, |product, &factor| product.checked_mul(factor));
    product.filter(|&product| product <= i64::MAX as u64)
}

fn joined(mut key: String, index: &[u64], separator: char) -> String {
    use std::fmt::Write;
    for (position, i) in index.iter().enumerate() {
        if position > 0 {
            key.push(separator);
        }
        // Writing to a String cannot fail.
        let _ = write!(key, "{i}");
    }
    key
}

/// A list of lengths (`shape`, `chunks`): whole numbers below 2^63.
pub(super) fn lengths(value: Option<&Value>, what: &str) -> Result<Vec<u64>, StoreError> {
    let wrong = || match value {
        Some(value) => StoreError::from(format!(
            "'{what}' is {}; expected a list of whole numbers below 2^63",
            shortened(value)
        )),
        None => StoreError::from(format!("'{what}' is missing")),
    };
    let list = value.and_then(Value::as_array).ok_or_else(wrong)?;
    list.iter()
        .map(|length| {
            length
                .as_u64()
                .filter(|&n| n <= i64::MAX as u64)
                .ok_or_else(wrong)
        })
        .collect()
}

/// A list of dimension names; `null` names become `""`.
pub(super) fn dimension_names(
    value: Option<&Value>,
    what: &str,
) -> Result<Vec<String>, StoreError> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    let wrong = || {
        StoreError::from(format!(
            "'{what}' is {}; expected a list of strings",
            shortened(value)
        ))
    };
    let name = |name: &Value| match name {
        Value::Null => Ok(String::new()),
        Value::String(name) => Ok(name.clone()),
        _ => Err(wrong()),
    };
    value
        .as_array()
        .ok_or_else(wrong)?
        .iter()
        .map(name)
        .collect()
}

/// The separator of a chunk key.
pub(super) fn separator(value: Option<&Value>, default: char) -> Result<char, StoreError> {
    match value.map(Value::as_str) {
        None => Ok(default),
        Some(Some(".")) => Ok('.'),
        Some(Some("/")) => Ok('/'),
        Some(_) => Err(format!(
            "the separator of chunk keys is {}; expected \".\" or \"/\"",
            shown(value)
        )
        .into()),
    }
}

/// A value for a message.
pub(super) fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "missing".to_owned(), shortened)
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[u64], chunks: &[u64], key_encoding: ChunkKeyEncoding) -> ArrayMeta {
        ArrayMeta {
            name: "a".into(),
            format: ZarrFormat::V2,
            shape: shape.to_vec(),
            chunks: chunks.to_vec(),
            element: ElementType::Int32,
            fill_value: FillValue::Null,
            codecs: vec![CodecSpec::named("bytes")],
            dimensions: vec![],
            attributes: Map::new(),
            key_encoding,
            has_parts: false,
        }
    }

    const V2: ChunkKeyEncoding = ChunkKeyEncoding::V2 { separator: '.' };

    #[test]
    fn grid_and_keys() {
        let a = array(&[10, 3, 0], &[4, 3, 5], V2).checked().unwrap();
        assert_eq!(a.grid_shape(), [3, 1, 0]);
        assert_eq!(a.n_chunks(), Some(0));
        assert_eq!(a.chunk_extent(&[2, 0, 0]), [2, 3, 0]);
        assert_eq!(a.chunk_extent(&[u64::MAX, 1, 0]), [0, 0, 0]);
        assert_eq!((a.chunk_elements(), a.chunk_bytes()), (Some(60), Some(240)));
        assert_eq!(a.chunk_key(&[2, 0, 0]), "2.0.0");
        assert_eq!(a.chunk_label(&[2, 0, 0]), "2.0.0");
        let a = array(&[10], &[4], V2).checked().unwrap();
        assert!(a.contains_chunk(&[2]) && !a.contains_chunk(&[3]) && !a.contains_chunk(&[0, 0]));

        let slashes = array(&[], &[], ChunkKeyEncoding::V2 { separator: '/' });
        assert_eq!(
            (slashes.chunk_key(&[]), slashes.chunk_key(&[3, 0])),
            ("0".into(), "3/0".into())
        );
        let default = array(&[], &[], ChunkKeyEncoding::Default { separator: '/' });
        assert_eq!(
            (default.chunk_key(&[]), default.chunk_key(&[3, 0])),
            ("c".into(), "c/3/0".into())
        );
        let dots = array(&[], &[], ChunkKeyEncoding::Default { separator: '.' });
        assert_eq!(dots.chunk_key(&[3, 0]), "c.3.0");
        let scalar = slashes.checked().unwrap();
        assert_eq!(
            (scalar.n_chunks(), scalar.chunk_elements()),
            (Some(1), Some(1))
        );
    }

    #[test]
    fn hostile_shapes() {
        let refused =
            |shape: &[u64], chunks: &[u64]| array(shape, chunks, V2).checked().unwrap_err();
        assert!(refused(&[1, 2], &[1]).contains("number of dimensions"));
        assert!(refused(&[1], &[0]).contains("zero"));
        assert!(refused(&[1 << 62, 4], &[1, 1]).contains("2^63"));
        assert!(refused(&[1 << 62, 4, 0], &[1, 1, 1]).contains("2^63"));
        assert!(refused(&[1], &[1 << 31]).contains("smaller chunks"));
        assert!(refused(&[1, 1], &[1 << 40, 1 << 40]).contains("2^63"));
        assert!(refused(&[1; 33], &[1; 33]).contains("at most 32"));
        assert!(array(&[1], &[1 << 30], V2).checked().is_ok());
        let mut text = array(&[1], &[1 << 31], V2);
        text.element = ElementType::String;
        assert!(text.clone().checked().is_err());
        text.chunks = vec![10];
        text.dimensions = vec!["a".into(), "b".into()];
        assert!(
            text.clone()
                .checked()
                .unwrap_err()
                .contains("dimension names")
        );
        text.dimensions.clear();
        text.codecs.clear();
        assert!(text.checked().unwrap_err().contains("codecs"));
    }
}
