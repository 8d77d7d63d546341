//! The entries of consolidated metadata: one document that repeats the metadata of all arrays.
//!
//! `discover` reads all of them when a store is opened, `unchanged` those of the arrays that a query reads.

use serde_json::{Map, Value};

use super::array::ArrayMeta;
use super::element::ZarrFormat;
use super::error::StoreError;
use super::names::check_name;

/// An array's metadata: absent, parsed, or the reason why it is not supported.
pub(super) type ArrayRead = Option<Result<ArrayMeta, StoreError>>;

/// All entries: in Zarr v3 `metadata` has them by name, in v2 by `name/.zarray` and `name/.zattrs`.
pub(super) fn entries(
    format: ZarrFormat,
    mut metadata: Map<String, Value>,
) -> Vec<(String, ArrayRead)> {
    let names: Vec<String> = match format {
        ZarrFormat::V3 => metadata.keys().cloned().collect(),
        ZarrFormat::V2 => metadata
            .keys()
            .filter_map(|key| key.strip_suffix("/.zarray"))
            .map(str::to_owned)
            .collect(),
    };
    let read = |name: String| {
        let read = entry(format, &mut metadata, &name);
        (name, read)
    };
    names.into_iter().map(read).collect()
}

/// Whether the text of a document, `.zmetadata` or the group's `zarr.json`, has these arrays' metadata as they are.
pub(super) fn has_arrays(format: ZarrFormat, document: &[u8], arrays: &[&ArrayMeta]) -> bool {
    let Ok(Value::Object(mut document)) = serde_json::from_slice(document) else {
        return false;
    };
    let metadata = match format {
        ZarrFormat::V2 => document.remove("metadata"),
        ZarrFormat::V3 => match document.remove("consolidated_metadata") {
            Some(Value::Object(mut consolidated)) => consolidated.remove("metadata"),
            _ => None,
        },
    };
    let Some(Value::Object(mut metadata)) = metadata else {
        return false;
    };
    arrays.iter().all(|known| {
        let found = entry(format, &mut metadata, &known.name);
        found.is_some_and(|found| found.is_ok_and(|found| found == **known))
    })
}

/// The entry of one array. Its attributes are taken out.
fn entry(format: ZarrFormat, metadata: &mut Map<String, Value>, name: &str) -> ArrayRead {
    match (check_name(name), format) {
        // Arrays in nested groups are not part of VCZ.
        (Err(_), _) if name.split('/').all(|part| check_name(part).is_ok()) => None,
        (Err(reason), _) => Some(Err(reason)),
        (Ok(()), ZarrFormat::V3) => metadata
            .get(name)
            .and_then(|document| node_v3(name, document)),
        (Ok(()), ZarrFormat::V2) => {
            let attributes = metadata.remove(&format!("{name}/.zattrs"));
            let array = metadata.get(&format!("{name}/.zarray"));
            array.map(|array| ArrayMeta::from_v2(name, array, attributes))
        }
    }
}

/// The array of a v3 document; groups are left out.
pub(super) fn node_v3(name: &str, document: &Value) -> ArrayRead {
    match document.get("node_type").and_then(Value::as_str) {
        Some("group") => None,
        _ => Some(ArrayMeta::from_v3(name, document)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn v2(shape: u64) -> Value {
        json!({
            "zarr_format": 2, "shape": [shape], "chunks": [10], "dtype": "<i4", "fill_value": 0, "order": "C", "filters": null,
            "compressor": null,
        })
    }

    #[test]
    fn other_arrays_do_not_matter() {
        let text = |metadata: Value| json!({"metadata": metadata}).to_string();
        let one = text(json!({"a/.zarray": v2(5), "a/.zattrs": {"k": 1}}));
        let known = entries(
            ZarrFormat::V2,
            serde_json::from_str::<Map<String, Value>>(&one).unwrap()["metadata"]
                .as_object()
                .unwrap()
                .clone(),
        );
        let known = known[0].1.as_ref().unwrap().as_ref().unwrap();
        let has = |text: &str| has_arrays(ZarrFormat::V2, text.as_bytes(), &[known]);
        assert!(has(&one));
        assert!(has(&text(
            json!({"b/.zarray": v2(7), "a/.zattrs": {"k": 1}, "a/.zarray": v2(5)})
        )));
        for other in [
            text(json!({"a/.zarray": v2(6), "a/.zattrs": {"k": 1}})),
            text(json!({"a/.zarray": v2(5), "a/.zattrs": {"k": 2}})),
            text(json!({"b/.zarray": v2(5)})),
            "{}".to_string(),
            "[".to_string(),
        ] {
            assert!(!has(&other), "{other}");
        }
    }
}
