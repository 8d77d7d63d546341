//! `vcz_arrays('t')`: the arrays of a store, how they are stored, and which backend decodes them.
//!
//! ```sql
//! SELECT name, codecs, stored_bytes, backend, reason FROM vcz_arrays('ag') ORDER BY stored_bytes DESC;
//! ```

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::entry::document_table;
use super::metadata::{Metadata, columns};
use crate::scan::{VczTable, report};

/// Index of `stored_bytes`, the only column that needs more than metadata: the chunks are listed for it.
const STORED_BYTES: usize = 6;

/// `vcz_arrays('t')`: one row per array of each store, by name. For an array whose metadata is not supported, all columns but
/// `name`, `backend` and `reason` are NULL.
///
/// * `name` Utf8;
/// * `dims` List(Utf8): the dimensions' names; NULL where the store has none;
/// * `shape`, `chunks` List(UInt64): elements of the array, and of a chunk, in each dimension;
/// * `dtype` Utf8: the type of an element;
/// * `codecs` List(Utf8): how a chunk is encoded, in order, each codec with its parameters;
/// * `stored_bytes` Int64: sum over the stored chunks; NULL where chunks cannot be listed (plain HTTP);
/// * `decoded_bytes` Int64: NULL for text of variable length;
/// * `backend` Utf8: `gpu` or `host`, or `none` if neither can decode it;
/// * `reason` Utf8: why this backend;
/// * `store` Utf8: the location of the store; a table of several stores has these rows for each store.
#[derive(Debug)]
pub struct Arrays;

#[async_trait]
impl Metadata for Arrays {
    const NAME: &'static str = "vcz_arrays";

    fn schema() -> SchemaRef {
        columns::schema([
            ("name", DataType::Utf8, false),
            ("dims", columns::string_list(), true),
            ("shape", columns::size_list(), true),
            ("chunks", columns::size_list(), true),
            ("dtype", DataType::Utf8, true),
            ("codecs", columns::string_list(), true),
            ("stored_bytes", DataType::Int64, true),
            ("decoded_bytes", DataType::Int64, true),
            ("backend", DataType::Utf8, false),
            ("reason", DataType::Utf8, false),
            ("store", DataType::Utf8, false),
        ])
    }

    async fn rows(
        table: &VczTable,
        wanted: &(dyn Fn(usize) -> bool + Send + Sync),
    ) -> Result<RecordBatch> {
        let arrays = report::arrays(table.stores(), wanted(STORED_BYTES)).await;
        let bytes = |value: Option<u64>| value.and_then(|bytes| i64::try_from(bytes).ok());
        Ok(RecordBatch::try_new(
            Self::schema(),
            vec![
                Arc::new(StringArray::from_iter_values(
                    arrays.iter().map(|array| &array.name),
                )),
                columns::string_lists(arrays.iter().map(|array| array.dimensions.as_deref())),
                columns::size_lists(arrays.iter().map(|array| array.shape.as_deref())),
                columns::size_lists(arrays.iter().map(|array| array.chunks.as_deref())),
                Arc::new(StringArray::from_iter(
                    arrays.iter().map(|array| array.dtype.as_deref()),
                )),
                columns::string_lists(arrays.iter().map(|array| array.codecs.as_deref())),
                Arc::new(Int64Array::from_iter(
                    arrays.iter().map(|array| bytes(array.stored_bytes)),
                )),
                Arc::new(Int64Array::from_iter(
                    arrays.iter().map(|array| bytes(array.decoded_bytes)),
                )),
                Arc::new(StringArray::from_iter_values(
                    arrays.iter().map(|array| &array.backend),
                )),
                Arc::new(StringArray::from_iter_values(
                    arrays.iter().map(|array| &array.reason),
                )),
                Arc::new(StringArray::from_iter_values(
                    arrays.iter().map(|array| &array.store),
                )),
            ],
        )?)
    }

    fn documentation() -> Documentation {
        document_table(
            "The arrays of a VCZ table's stores, how they are stored and what decodes them, a row for each array of each store. Columns: name; \
             dims, shape and chunks, lists; dtype; codecs, a list; stored_bytes, NULL if the chunks cannot be listed; decoded_bytes; backend, gpu, \
             host or none; reason, why this backend; store, the location.",
            "vcz_arrays(table)",
            "SELECT name, codecs, stored_bytes, backend, reason FROM vcz_arrays('t') ORDER BY stored_bytes DESC",
        )
        .build()
    }
}
