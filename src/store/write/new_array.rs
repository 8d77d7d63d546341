//! [`NewArray`]: an array that is written, as metadata of Zarr v2 or v3.

use serde_json::{Map, Value, json};

use super::compression::Compression;
use crate::store::element::{ElementType, ZarrFormat};
use crate::store::error::StoreError;
use crate::store::names::check_name;

/// Bytes of a text, guessed.
const TEXT: usize = 16;

/// An array that is written. In Zarr v3 chunks of zeros, or of empty text, are its fill value and are left out. In v2 it has no fill value,
/// which xarray would take for a missing value, and all chunks are written.
#[derive(Debug, Clone)]
pub struct NewArray {
    /// The array's name.
    pub name: String,
    /// The format of its metadata.
    pub format: ZarrFormat,
    /// The type of an element: a boolean, a number, or text of variable length.
    pub element: ElementType,
    /// Elements in each dimension after the first, whose length is known only when all rows are there.
    pub row_shape: Vec<u64>,
    /// Elements of a chunk in each dimension.
    pub chunks: Vec<u64>,
    /// The dimensions' names; empty if they have none.
    pub dimensions: Vec<String>,
    /// The array's attributes.
    pub attributes: Map<String, Value>,
    /// The codec of its chunks.
    pub compression: Compression,
}

impl NewArray {
    /// Returns the array if it can be written.
    ///
    /// # Errors
    /// The reason: a name that is no name of an array, or chunks that are too large.
    pub fn checked(self) -> Result<Self, StoreError> {
        check_name(&self.name)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !self.name.chars().all(plain) || self.name.starts_with('.') {
            return Err(format!(
                "'{}' cannot be the name of an array, which has letters, digits and '_'; name the column with AS",
                self.name
            )
            .into());
        }
        let size = self.element.size().unwrap_or(4) as u64;
        let bytes = self
            .chunks
            .iter()
            .try_fold(size, |bytes, &length| bytes.checked_mul(length.max(1)));
        let most = self.compression.most_chunk_bytes();
        match bytes {
            Some(bytes) if bytes <= most => Ok(self),
            _ => Err(format!(
                "chunks {:?} of {} are more than {most} bytes each; set 'vcz.variants_chunk_size' or \
                 'vcz.samples_chunk_size' to less",
                self.chunks, self.element
            )
            .into()),
        }
    }

    /// Whether chunks of the fill value are left out.
    pub fn leaves_out_fill(&self) -> bool {
        self.format == ZarrFormat::V3
    }

    /// Elements of a row.
    pub fn row_elements(&self) -> usize {
        let product = self
            .row_shape
            .iter()
            .fold(1u64, |product, &length| product.saturating_mul(length));
        usize::try_from(product).unwrap_or(usize::MAX)
    }

    /// Bytes of a row; of text a guess.
    pub fn row_bytes(&self) -> usize {
        let size = self.element.size().unwrap_or(TEXT);
        self.row_elements().saturating_mul(size)
    }

    /// Whether bits are shuffled in Blosc: for genotypes and booleans, as bio2zarr does.
    fn by_bits(&self) -> bool {
        self.element == ElementType::Bool
            || (self.name.starts_with("call_genotype") && self.element.size() == Some(1))
    }

    /// The array's metadata with `rows` elements in its first dimension.
    pub fn metadata(&self, rows: u64) -> Value {
        let mut shape = vec![rows];
        shape.extend(&self.row_shape);
        let codec = self
            .compression
            .metadata(self.format, &self.element, self.by_bits());
        let is_text = self.element == ElementType::String;
        let fill = match self.element {
            ElementType::String => json!(""),
            ElementType::Bool => json!(false),
            ref element if element.is_float() => json!(0.0),
            _ => json!(0),
        };
        match self.format {
            ZarrFormat::V2 => json!({
                "zarr_format": 2,
                "shape": shape,
                "chunks": self.chunks,
                "dtype": self.dtype_v2(),
                "fill_value": null,
                "order": "C",
                "filters": is_text.then(|| json!([{"id": "vlen-utf8"}])),
                "compressor": codec,
                "dimension_separator": "/",
            }),
            ZarrFormat::V3 => {
                let serializer = match self.element.size() {
                    None => json!({"name": "vlen-utf8"}),
                    Some(1) => json!({"name": "bytes"}),
                    Some(_) => json!({"name": "bytes", "configuration": {"endian": "little"}}),
                };
                let codecs: Vec<Value> = std::iter::once(serializer).chain(codec).collect();
                json!({
                    "zarr_format": 3,
                    "node_type": "array",
                    "shape": shape,
                    "data_type": self.data_type_v3(),
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": self.chunks}},
                    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                    "fill_value": fill,
                    "codecs": codecs,
                    "attributes": self.attributes,
                    "dimension_names": (!self.dimensions.is_empty()).then_some(&self.dimensions),
                    "storage_transformers": [],
                })
            }
        }
    }

    /// The array's documents: keys in the store, and contents.
    pub fn documents(&self, rows: u64) -> Vec<(String, Value)> {
        let metadata = self.metadata(rows);
        let name = &self.name;
        match self.format {
            ZarrFormat::V3 => vec![(format!("{name}/zarr.json"), metadata)],
            ZarrFormat::V2 => {
                let mut attributes = self.attributes.clone();
                if !self.dimensions.is_empty() {
                    attributes.insert("_ARRAY_DIMENSIONS".to_owned(), json!(self.dimensions));
                }
                // The array is there once `.zarray` is.
                vec![
                    (format!("{name}/.zattrs"), Value::Object(attributes)),
                    (format!("{name}/.zarray"), metadata),
                ]
            }
        }
    }

    /// The key of the chunk at `index` in the store.
    pub fn chunk_key(&self, index: &[u64]) -> String {
        let index: Vec<String> = index.iter().map(u64::to_string).collect();
        let index = index.join("/");
        match self.format {
            ZarrFormat::V2 => format!("{}/{index}", self.name),
            ZarrFormat::V3 => format!("{}/c/{index}", self.name),
        }
    }

    fn dtype_v2(&self) -> Value {
        json!(match self.element {
            ElementType::Time(time) => return json!(time.dtype_v2()),
            ElementType::Bool => "|b1",
            ElementType::Int8 => "|i1",
            ElementType::Int16 => "<i2",
            ElementType::Int32 => "<i4",
            ElementType::Int64 => "<i8",
            ElementType::UInt8 => "|u1",
            ElementType::UInt16 => "<u2",
            ElementType::UInt32 => "<u4",
            ElementType::UInt64 => "<u8",
            ElementType::Float16 => "<f2",
            ElementType::Float32 => "<f4",
            ElementType::Float64 => "<f8",
            ElementType::String | ElementType::Unicode(_) | ElementType::Bytes(_) => "|O",
        })
    }

    fn data_type_v3(&self) -> Value {
        json!(match self.element {
            ElementType::Time(time) => return time.data_type_v3(),
            ElementType::Bool => "bool",
            ElementType::Int8 => "int8",
            ElementType::Int16 => "int16",
            ElementType::Int32 => "int32",
            ElementType::Int64 => "int64",
            ElementType::UInt8 => "uint8",
            ElementType::UInt16 => "uint16",
            ElementType::UInt32 => "uint32",
            ElementType::UInt64 => "uint64",
            ElementType::Float16 => "float16",
            ElementType::Float32 => "float32",
            ElementType::Float64 => "float64",
            ElementType::String | ElementType::Unicode(_) | ElementType::Bytes(_) => "string",
        })
    }
}
