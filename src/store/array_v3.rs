//! Zarr v3 array metadata (`zarr.json`).
//!
//! Called while a store is opened. Invariant: an unknown field that the specification requires to be understood is an error.

use serde_json::{Map, Value};

use super::array::{
    ArrayMeta, ChunkKeyEncoding, CodecSpec, dimension_names, lengths, separator, shown,
};
use super::element::{ElementType, ZarrFormat};
use super::error::StoreError;
use super::fill_value::FillValue;
use super::parts::Parts;

/// The fields of an array's `zarr.json` that are understood.
const FIELDS: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "dimension_names",
    "storage_transformers",
];

impl ArrayMeta {
    /// Reads the metadata of array `name` from its `zarr.json`.
    ///
    /// # Errors
    /// The reason why the array is not supported: the field, what was found and what was expected.
    pub fn from_v3(name: &str, document: &Value) -> Result<Self, StoreError> {
        let fields = document
            .as_object()
            .ok_or("'zarr.json' is not a JSON object")?;
        if fields.get("zarr_format").and_then(Value::as_u64) != Some(3) {
            return Err(format!(
                "'zarr_format' is {}; expected 3",
                shown(fields.get("zarr_format"))
            )
            .into());
        }
        if fields.get("node_type").and_then(Value::as_str) != Some("array") {
            return Err(format!(
                "'node_type' is {}; expected \"array\"",
                shown(fields.get("node_type"))
            )
            .into());
        }
        for (field, value) in fields {
            let optional = value.get("must_understand").and_then(Value::as_bool) == Some(false);
            if !FIELDS.contains(&field.as_str()) && !optional {
                return Err(format!(
                    "the field '{field}' is not known and must be understood to read the array"
                )
                .into());
            }
        }
        let transformers = fields
            .get("storage_transformers")
            .filter(|value| !value.is_null());
        if transformers.is_some_and(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
            return Err(format!(
                "'storage_transformers' is {}; none are supported",
                shown(transformers)
            )
            .into());
        }
        let attributes = match fields.get("attributes") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(attributes)) => attributes.clone(),
            other => {
                return Err(format!("'attributes' is {}; expected an object", shown(other)).into());
            }
        };
        let data_type = fields.get("data_type").ok_or("'data_type' is missing")?;
        let parts = Parts::of_v3(data_type);
        let data_type = parts.as_ref().map_or(data_type, |parts| &parts.data_type);
        let element = ElementType::parse_v3(data_type)?;
        let fill_value = fields.get("fill_value").unwrap_or(&Value::Null);
        let fill_value = match &parts {
            Some(parts) => parts.fill(fill_value)?,
            None => fill_value.clone(),
        };
        let codecs = match fields.get("codecs").and_then(Value::as_array) {
            Some(codecs) => codecs.iter().map(codec).collect::<Result<Vec<_>, _>>()?,
            None => {
                return Err(format!(
                    "'codecs' is {}; expected a list",
                    shown(fields.get("codecs"))
                )
                .into());
            }
        };
        let mut dimensions = dimension_names(fields.get("dimension_names"), "dimension_names")?;
        if dimensions.is_empty() {
            // Stores that were converted from v2 may have only its attribute.
            dimensions = dimension_names(attributes.get("_ARRAY_DIMENSIONS"), "_ARRAY_DIMENSIONS")?;
        }
        let meta = Self {
            name: name.to_owned(),
            format: ZarrFormat::V3,
            shape: lengths(fields.get("shape"), "shape")?,
            chunks: chunk_shape(fields.get("chunk_grid"))?,
            fill_value: FillValue::parse(&fill_value, &element)?
                .of_bytes(codecs.iter().any(CodecSpec::is_bytes))?,
            key_encoding: key_encoding(fields.get("chunk_key_encoding"))?,
            has_parts: false,
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

/// The name of an extension point, and its configuration if it has one.
type Extension<'a> = (&'a str, Option<&'a Map<String, Value>>);

/// The name and configuration of an extension point; a bare string is a name without configuration.
fn extension<'a>(value: Option<&'a Value>, what: &str) -> Result<Extension<'a>, StoreError> {
    let wrong = || {
        StoreError::from(format!(
            "{what} is {}; expected an object with a string 'name'",
            shown(value)
        ))
    };
    match value {
        Some(Value::String(name)) => Ok((name, None)),
        Some(Value::Object(object)) => {
            let name = object
                .get("name")
                .and_then(Value::as_str)
                .ok_or_else(wrong)?;
            match object.get("configuration") {
                None | Some(Value::Null) => Ok((name, None)),
                Some(Value::Object(configuration)) => Ok((name, Some(configuration))),
                Some(_) => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

fn codec(value: &Value) -> Result<CodecSpec, StoreError> {
    let (name, configuration) = extension(Some(value), "a codec")?;
    Ok(CodecSpec {
        name: name.to_owned(),
        configuration: configuration.cloned().unwrap_or_default(),
    })
}

fn chunk_shape(value: Option<&Value>) -> Result<Vec<u64>, StoreError> {
    match extension(value, "'chunk_grid'")? {
        ("regular", configuration) => lengths(
            configuration.and_then(|fields| fields.get("chunk_shape")),
            "chunk_shape",
        ),
        (name, _) => {
            Err(format!("the chunk grid '{name}' is not supported; expected 'regular'").into())
        }
    }
}

fn key_encoding(value: Option<&Value>) -> Result<ChunkKeyEncoding, StoreError> {
    let (name, configuration) = extension(value, "'chunk_key_encoding'")?;
    let given = configuration.and_then(|fields| fields.get("separator"));
    match name {
        "default" => Ok(ChunkKeyEncoding::Default {
            separator: separator(given, '/')?,
        }),
        "v2" => Ok(ChunkKeyEncoding::V2 {
            separator: separator(given, '.')?,
        }),
        _ => Err(format!(
            "the chunk key encoding '{name}' is not supported; expected 'default' or 'v2'"
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(changes: Value) -> Value {
        let mut base = json!({
            "zarr_format": 3, "node_type": "array", "shape": [10, 4], "data_type": "int8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes"}, {"name": "blosc", "configuration": {"typesize": 1}}],
            "dimension_names": ["variants", null], "storage_transformers": [],
        });
        for (key, value) in changes.as_object().unwrap() {
            base[key] = value.clone();
        }
        base
    }

    fn parse(changes: Value) -> Result<ArrayMeta, StoreError> {
        ArrayMeta::from_v3("a", &document(changes))
    }

    #[test]
    fn default_array() {
        let array = parse(json!({"attributes": {"description": "x"}})).unwrap();
        assert_eq!(
            (array.shape.as_slice(), array.chunks.as_slice()),
            (&[10, 4][..], &[4, 4][..])
        );
        assert_eq!(array.fill_value, FillValue::Bytes(vec![0]));
        assert_eq!(array.dimensions, ["variants", ""]);
        assert_eq!(array.codecs[1].name, "blosc");
        assert_eq!(array.codecs[1].configuration["typesize"], 1);
        assert_eq!(array.attributes["description"], "x");
        assert_eq!(array.chunk_key(&[2, 0]), "c/2/0");
    }

    #[test]
    fn key_encodings() {
        let key = |encoding: Value| {
            parse(json!({"chunk_key_encoding": encoding})).map(|a| a.chunk_key(&[2, 0]))
        };
        assert_eq!(key(json!("default")).unwrap(), "c/2/0");
        assert_eq!(key(json!({"name": "v2"})).unwrap(), "2.0");
        assert_eq!(
            key(json!({"name": "v2", "configuration": {"separator": "/"}})).unwrap(),
            "2/0"
        );
        assert_eq!(
            key(json!({"name": "default", "configuration": {"separator": "."}})).unwrap(),
            "c.2.0"
        );
        assert!(key(json!({"name": "default", "configuration": {"separator": "../"}})).is_err());
        assert!(
            key(json!({"name": "fanout"}))
                .unwrap_err()
                .contains("fanout")
        );
    }

    #[test]
    fn many_types() {
        for (data_type, fill) in [
            (json!("bool"), json!(false)),
            (json!("uint64"), json!(u64::MAX)),
            (json!("float32"), json!("0x7f800001")),
            (json!("float64"), json!("NaN")),
            (json!("string"), json!("")),
            (
                json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 4}}),
                json!("."),
            ),
            (
                json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 4}}),
                json!(""),
            ),
            (json!("int16"), Value::Null),
        ] {
            let array = parse(json!({"data_type": data_type, "fill_value": fill}));
            assert!(array.is_ok(), "{data_type}: {array:?}");
        }
    }

    #[test]
    fn extensions() {
        assert!(parse(json!({"hint": {"must_understand": false}})).is_ok());
        assert!(
            parse(json!({"hint": {"name": "x"}}))
                .unwrap_err()
                .contains("hint")
        );
        assert!(
            parse(json!({"storage_transformers": [{"name": "x"}]}))
                .unwrap_err()
                .contains("storage_transformers")
        );
        assert_eq!(
            parse(json!({"codecs": ["bytes"]})).unwrap().codecs,
            [CodecSpec::named("bytes")]
        );
    }

    #[test]
    fn hostile() {
        for (changes, reason) in [
            (json!({"zarr_format": 2}), "expected 3"),
            (json!({"node_type": "group"}), "node_type"),
            (json!({"codecs": []}), "codecs"),
            (json!({"codecs": [{"name": 3}]}), "codec"),
            (
                json!({"codecs": [{"name": "bytes", "configuration": 3}]}),
                "codec",
            ),
            (json!({"codecs": null}), "codecs"),
            (
                json!({"chunk_grid": {"name": "rectilinear"}}),
                "rectilinear",
            ),
            (json!({"chunk_grid": {"name": "regular"}}), "chunk_shape"),
            (
                json!({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 4]}}}),
                "zero",
            ),
            (json!({"data_type": "bfloat16"}), "bfloat16"),
            (json!({"fill_value": 300}), "fill value"),
            (json!({"dimension_names": ["a"]}), "dimension names"),
            (json!({"dimension_names": [1, 2]}), "dimension_names"),
            (json!({"attributes": []}), "attributes"),
        ] {
            let error = parse(changes.clone()).unwrap_err();
            assert!(error.contains(reason), "{changes}: {error}");
        }
        assert!(ArrayMeta::from_v3("a", &json!(null)).is_err());
    }
}
