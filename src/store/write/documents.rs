//! [`Documents`]: the metadata documents of a new store: the group's, the arrays', and consolidated metadata.

use serde_json::{Map, Value, json};

use super::new_array::NewArray;
use crate::store::consolidate::{consolidated_v2, consolidated_v3};
use crate::store::element::ZarrFormat;
use crate::store::error::StoreError;

/// Metadata documents, in the order in which they are written: arrays, the group, consolidated metadata.
#[derive(Debug, Clone)]
pub struct Documents {
    format: ZarrFormat,
    arrays: Vec<(String, String)>,
}

impl Documents {
    /// No documents yet.
    pub fn new(format: ZarrFormat) -> Self {
        Self {
            format,
            arrays: vec![],
        }
    }

    /// Adds those of an array with `rows` elements in its first dimension.
    pub fn add(&mut self, array: &NewArray, rows: u64) {
        let documents = array.documents(rows).into_iter();
        self.arrays
            .extend(documents.map(|(key, value)| (key, pretty(&value))));
    }

    /// The documents of the arrays alone.
    pub fn of_arrays(self) -> Vec<(String, String)> {
        self.arrays
    }

    /// All documents of a store with these attributes of its group.
    ///
    /// # Errors
    /// The reason, if consolidated metadata cannot be made of them.
    pub fn of_store(
        self,
        attributes: Map<String, Value>,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let mut all = self.arrays;
        all.sort_by(|(one, _), (other, _)| array_of(one).cmp(array_of(other)));
        let consolidated = match self.format {
            ZarrFormat::V2 => {
                all.push((".zattrs".to_owned(), pretty(&Value::Object(attributes))));
                all.push((".zgroup".to_owned(), pretty(&json!({"zarr_format": 2}))));
                consolidated_v2(&all)
            }
            ZarrFormat::V3 => {
                let group =
                    json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
                let mut documents = all.clone();
                documents.push(("zarr.json".to_owned(), pretty(&group)));
                consolidated_v3(documents)
            }
        };
        let (key, text, _) =
            consolidated.map_err(|(key, reason)| StoreError::from(format!("'{key}': {reason}")))?;
        // The group's own documents make it a store, so they come last.
        let group = match self.format {
            ZarrFormat::V2 => all.split_off(all.len() - 2),
            ZarrFormat::V3 => vec![],
        };
        all.push((key.to_owned(), text));
        all.extend(group);
        Ok(all)
    }
}

/// The array of a document. Sorting by it keeps an array's documents in their order.
fn array_of(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(array, _)| array)
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
