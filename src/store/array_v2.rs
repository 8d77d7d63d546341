//! Zarr v2 array metadata (`.zarray`, `.zattrs`), converted to the codec list of v3.
//!
//! Called while a store is opened. Invariant: the resulting codec list has exactly one array → bytes codec, `bytes`
//! or `vlen-utf8` or `vlen-bytes`, after the transpose of order "F" and the filters on arrays and before everything on bytes.

use serde_json::{Map, Value, json};

use super::array::{
    ArrayMeta, ChunkKeyEncoding, CodecSpec, dimension_names, lengths, separator, shown,
};
use super::element::{ElementType, Endianness, ZarrFormat};
use super::error::StoreError;
use super::fill_value::FillValue;
use super::parts::Parts;

/// Filters that make bytes of text of variable length.
const TEXT_FILTERS: [&str; 2] = ["vlen-utf8", "vlen-bytes"];

/// Filters that work on bytes; they follow the array → bytes codec. All others work on arrays.
const BYTES_FILTERS: [&str; 13] = [
    "adler32",
    "blosc",
    "bz2",
    "crc32",
    "crc32c",
    "fletcher32",
    "gzip",
    "jenkins_lookup3",
    "lz4",
    "lzma",
    "shuffle",
    "zlib",
    "zstd",
];

impl ArrayMeta {
    /// Reads the metadata of array `name` from its `.zarray` and, if there is one, its `.zattrs`.
    ///
    /// # Errors
    /// The reason why the array is not supported: the field, what was found and what was expected.
    pub fn from_v2(name: &str, zarray: &Value, zattrs: Option<Value>) -> Result<Self, StoreError> {
        let fields = zarray.as_object().ok_or("'.zarray' is not a JSON object")?;
        if fields.get("zarr_format").and_then(Value::as_u64) != Some(2) {
            return Err(format!(
                "'zarr_format' is {}; expected 2",
                shown(fields.get("zarr_format"))
            )
            .into());
        }
        let attributes = match zattrs {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(attributes)) => attributes,
            Some(_) => return Err("'.zattrs' is not a JSON object".into()),
        };
        let shape = lengths(fields.get("shape"), "shape")?;
        let dtype = fields.get("dtype").ok_or("'dtype' is missing")?;
        let parts = Parts::of_v2(dtype);
        let dtype = parts.as_ref().map_or(dtype, |parts| &parts.data_type);
        let (element, endianness) = ElementType::parse_v2(dtype)?;
        let codecs = codecs(fields, shape.len(), element, endianness)?;
        let dimensions = dimension_names(attributes.get("_ARRAY_DIMENSIONS"), "_ARRAY_DIMENSIONS")?;
        let fill_value = fields.get("fill_value").unwrap_or(&Value::Null);
        let fill_value = match &parts {
            Some(parts) => parts.fill(fill_value)?,
            None => fill_value.clone(),
        };
        let meta = Self {
            name: name.to_owned(),
            format: ZarrFormat::V2,
            chunks: lengths(fields.get("chunks"), "chunks")?,
            fill_value: FillValue::parse(&fill_value, &element)?
                .of_bytes(codecs.iter().any(CodecSpec::is_bytes))?,
            key_encoding: ChunkKeyEncoding::V2 {
                separator: separator(fields.get("dimension_separator"), '.')?,
            },
            has_parts: false,
            shape,
            element,
            codecs,
            dimensions,
            attributes,
        };
        match &parts {
            Some(parts) => meta.with_parts(parts)?.checked(),
            None => meta.checked(),
        }
    }
}

fn codecs(
    fields: &Map<String, Value>,
    rank: usize,
    element: ElementType,
    endianness: Endianness,
) -> Result<Vec<CodecSpec>, StoreError> {
    let mut codecs = Vec::new();
    match fields.get("order").map(Value::as_str) {
        None | Some(Some("C")) => {}
        // In fewer than two dimensions both orders are the same.
        Some(Some("F")) if rank < 2 => {}
        Some(Some("F")) => codecs.push(CodecSpec {
            name: "transpose".to_owned(),
            configuration: Map::from_iter([(
                "order".to_owned(),
                json!((0..rank).rev().collect::<Vec<_>>()),
            )]),
        }),
        Some(_) => {
            return Err(format!(
                "'order' is {}; expected \"C\" or \"F\"",
                shown(fields.get("order"))
            )
            .into());
        }
    }
    let filters = match fields.get("filters") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(filters)) => filters
            .iter()
            .map(|filter| codec(filter, "filter"))
            .collect::<Result<Vec<_>, _>>()?,
        filters => {
            return Err(format!("'filters' is {}; expected null or a list", shown(filters)).into());
        }
    };
    let compressor = match fields.get("compressor") {
        None | Some(Value::Null) => None,
        Some(compressor) => Some(codec(compressor, "compressor")?),
    };

    let mut serialized = false;
    for filter in filters {
        let is_text = TEXT_FILTERS.contains(&filter.name.as_str());
        if is_text && (element != ElementType::String || serialized) {
            return Err(format!(
                "the filter '{}' does not fit here: it needs dtype |O, once, not {element}",
                filter.name
            )
            .into());
        }
        if BYTES_FILTERS.contains(&filter.name.as_str()) && !serialized {
            codecs.push(serializer(element, endianness)?);
            serialized = true;
        }
        serialized |= is_text;
        codecs.push(filter);
    }
    if !serialized {
        codecs.push(serializer(element, endianness)?);
    }
    codecs.extend(compressor);
    Ok(codecs)
}

/// The array → bytes codec of arrays without one among their filters.
fn serializer(element: ElementType, endianness: Endianness) -> Result<CodecSpec, StoreError> {
    if element == ElementType::String {
        return Err(
            "dtype |O without the filter 'vlen-utf8' or 'vlen-bytes': the encoding of its chunks is unknown; \
                    only text and bytes of variable length are supported"
                .into(),
        );
    }
    let mut codec = CodecSpec::named("bytes");
    if element.has_endianness() {
        codec
            .configuration
            .insert("endian".to_owned(), Value::String(endianness.to_string()));
    }
    Ok(codec)
}

/// A v2 codec: an object whose `id` is its name and whose other fields are its configuration.
fn codec(value: &Value, what: &str) -> Result<CodecSpec, StoreError> {
    let wrong = || {
        StoreError::from(format!(
            "{what} {value} is not a codec; expected an object with a string 'id'"
        ))
    };
    let mut configuration = value.as_object().ok_or_else(wrong)?.clone();
    match configuration.remove("id") {
        Some(Value::String(name)) => Ok(CodecSpec {
            name,
            configuration,
        }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zarray(changes: Value) -> Value {
        let mut base = json!({
            "zarr_format": 2, "shape": [10, 4], "chunks": [4, 4], "dtype": "<i4", "fill_value": null, "order": "C",
            "filters": null, "compressor": {"id": "blosc", "cname": "zstd", "clevel": 7, "shuffle": 1, "blocksize": 0},
        });
        for (key, value) in changes.as_object().unwrap() {
            base[key] = value.clone();
        }
        base
    }

    fn parse(changes: Value) -> Result<ArrayMeta, StoreError> {
        ArrayMeta::from_v2("a", &zarray(changes), None)
    }

    fn names(array: &ArrayMeta) -> Vec<&str> {
        array
            .codecs
            .iter()
            .map(|codec| codec.name.as_str())
            .collect()
    }

    #[test]
    fn default_array() {
        let attributes = json!({"_ARRAY_DIMENSIONS": ["variants", "samples"], "description": "x"});
        let array = ArrayMeta::from_v2("a", &zarray(json!({})), Some(attributes)).unwrap();
        assert_eq!(
            (array.rank(), array.element, array.fill_value.clone()),
            (2, ElementType::Int32, FillValue::Null)
        );
        assert_eq!(array.dimensions, ["variants", "samples"]);
        assert_eq!(names(&array), ["bytes", "blosc"]);
        assert_eq!(array.codecs[0].configuration["endian"], "little");
        assert_eq!(array.codecs[1].configuration["shuffle"], 1);
        assert!(!array.codecs[1].configuration.contains_key("id"));
        assert_eq!(array.chunk_key(&[2, 0]), "2.0");
        assert_eq!(
            parse(json!({"dimension_separator": "/"}))
                .unwrap()
                .chunk_key(&[2, 0]),
            "2/0"
        );
    }

    #[test]
    fn codec_order() {
        let filters = json!([{"id": "delta", "dtype": "<i4"}, {"id": "crc32c"}]);
        let array = parse(json!({"dtype": ">i4", "order": "F", "filters": filters})).unwrap();
        assert_eq!(
            names(&array),
            ["transpose", "delta", "bytes", "crc32c", "blosc"]
        );
        assert_eq!(array.codecs[0].configuration["order"], json!([1, 0]));
        assert_eq!(array.codecs[2].configuration["endian"], "big");
        let text = parse(json!({"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": 0}))
            .unwrap();
        assert_eq!(names(&text), ["vlen-utf8", "blosc"]);
        let bytes = json!({"dtype": "|O", "filters": [{"id": "vlen-bytes"}], "fill_value": "QUM="});
        let bytes = parse(bytes).unwrap();
        assert_eq!(names(&bytes), ["vlen-bytes", "blosc"]);
        assert_eq!(bytes.fill_value, FillValue::Text("AC".to_owned()));
        let plain = parse(json!({"dtype": "|i1", "compressor": null})).unwrap();
        assert_eq!(plain.codecs, [CodecSpec::named("bytes")]);
        let one = parse(json!({"shape": [3], "chunks": [3], "order": "F"})).unwrap();
        assert_eq!(names(&one), ["bytes", "blosc"]);
    }

    #[test]
    fn hostile() {
        for (changes, reason) in [
            (json!({"zarr_format": 3}), "expected 2"),
            (json!({"dtype": "|O"}), "vlen-utf8"),
            (json!({"filters": [{"id": "vlen-utf8"}]}), "vlen-utf8"),
            (
                json!({"dtype": "|O", "filters": [{"id": "vlen-utf8"}, {"id": "vlen-utf8"}]}),
                "once",
            ),
            (
                json!({"dtype": "|O", "filters": [{"id": "zlib"}]}),
                "vlen-utf8",
            ),
            (json!({"dtype": null}), "dtype"),
            (json!({"filters": {}}), "filters"),
            (json!({"compressor": "blosc"}), "'id'"),
            (json!({"compressor": {"id": 3}}), "'id'"),
            (json!({"order": "K"}), "order"),
            (json!({"dimension_separator": "x"}), "separator"),
            (json!({"shape": [-1, 2]}), "shape"),
            (json!({"shape": [9223372036854775808u64, 2]}), "shape"),
            (json!({"shape": 5}), "shape"),
            (json!({"chunks": [4]}), "dimensions"),
            (json!({"chunks": [0, 4]}), "zero"),
            (json!({"fill_value": "x"}), "fill value"),
        ] {
            let error = parse(changes.clone()).unwrap_err();
            assert!(error.contains(reason), "{changes}: {error}");
        }
        let attributes = Some(json!({"_ARRAY_DIMENSIONS": ["x"]}));
        assert!(
            ArrayMeta::from_v2("a", &zarray(json!({})), attributes)
                .unwrap_err()
                .contains("dimension names")
        );
        assert!(ArrayMeta::from_v2("a", &json!([]), None).is_err());
        assert!(ArrayMeta::from_v2("a", &zarray(json!({})), Some(json!([]))).is_err());
    }
}
