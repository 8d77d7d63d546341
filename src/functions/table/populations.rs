//! `vcz_populations('t')`: the named populations of a table.
//!
//! ```sql
//! SELECT population, samples FROM vcz_populations('ag') ORDER BY samples DESC;
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

/// `vcz_populations('t')`: one row per population of the table's populations file, in its order; none without a file.
///
/// * `population` Utf8;
/// * `samples` Int64: number of individuals;
/// * `copies` Int64: N, samples × ploidy; 0 where the store has no genotypes;
/// * `sample_ids` List(Utf8): in the order of the genotypes.
#[derive(Debug)]
pub struct Populations;

#[async_trait]
impl Metadata for Populations {
    const NAME: &'static str = "vcz_populations";

    fn schema() -> SchemaRef {
        columns::schema([
            ("population", DataType::Utf8, false),
            ("samples", DataType::Int64, false),
            ("copies", DataType::Int64, false),
            ("sample_ids", columns::string_list(), false),
        ])
    }

    async fn rows(
        table: &VczTable,
        _wanted: &(dyn Fn(usize) -> bool + Send + Sync),
    ) -> Result<RecordBatch> {
        let populations = report::populations(table);
        let copies = populations
            .iter()
            .map(|population| i64::try_from(population.copies).unwrap_or(i64::MAX));
        Ok(RecordBatch::try_new(
            Self::schema(),
            vec![
                Arc::new(StringArray::from_iter_values(
                    populations.iter().map(|population| &population.name),
                )),
                Arc::new(Int64Array::from_iter_values(
                    populations
                        .iter()
                        .map(|population| population.samples as i64),
                )),
                Arc::new(Int64Array::from_iter_values(copies)),
                columns::string_lists(
                    populations
                        .iter()
                        .map(|population| Some(population.sample_ids.as_slice())),
                ),
            ],
        )?)
    }

    fn documentation() -> Documentation {
        document_table(
            "The named populations of a VCZ table, a row for each population of the populations file, in its order. Columns: population; \
             samples, the number of individuals; copies, the number N of copies, samples times ploidy; sample_ids, a list.",
            "vcz_populations(table)",
            "SELECT population, samples FROM vcz_populations('t') ORDER BY samples DESC",
        )
        .build()
    }
}
