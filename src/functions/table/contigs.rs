//! `vcz_contigs('t')`: the contigs of a table.
//!
//! ```sql
//! SELECT contig, variants FROM vcz_contigs('ag') WHERE variants > 0;
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

/// `vcz_contigs('t')`: one row per contig of the store's header, in its order, with or without variants; of several
/// stores the contigs of all.
///
/// * `contig` Utf8: the name, as in `variant_contig`;
/// * `contig_index` Int64: index in the store's list, from 0;
/// * `length` Int64: bases; NULL where the store has none;
/// * `variants` Int64: number of variants; NULL where the store has no region index and no query has read the positions yet.
#[derive(Debug)]
pub struct Contigs;

#[async_trait]
impl Metadata for Contigs {
    const NAME: &'static str = "vcz_contigs";

    fn schema() -> SchemaRef {
        columns::schema([
            ("contig", DataType::Utf8, false),
            ("contig_index", DataType::Int64, false),
            ("length", DataType::Int64, true),
            ("variants", DataType::Int64, true),
        ])
    }

    async fn rows(
        table: &VczTable,
        _wanted: &(dyn Fn(usize) -> bool + Send + Sync),
    ) -> Result<RecordBatch> {
        let contigs = report::contigs(table.stores());
        let variants = contigs
            .iter()
            .map(|contig| contig.variants.and_then(|n| i64::try_from(n).ok()));
        Ok(RecordBatch::try_new(
            Self::schema(),
            vec![
                Arc::new(StringArray::from_iter_values(
                    contigs.iter().map(|contig| &contig.name),
                )),
                Arc::new(Int64Array::from_iter_values(
                    contigs.iter().map(|contig| contig.index as i64),
                )),
                Arc::new(Int64Array::from_iter(
                    contigs.iter().map(|contig| contig.length),
                )),
                Arc::new(Int64Array::from_iter(variants)),
            ],
        )?)
    }

    fn documentation() -> Documentation {
        document_table(
            "The contigs of a VCZ table, a row for each contig of the header, with or without variants. Columns: contig, the name as in \
             variant_contig; contig_index, from 0; length, NULL if the store has none; variants, the number of variants, NULL if the store has \
             no region index and no query has read the positions.",
            "vcz_contigs(table)",
            "SELECT contig, length FROM vcz_contigs('t') WHERE variants > 0",
        )
        .build()
    }
}
