//! `vcz_samples('t')`: the samples of a table and the populations each belongs to.
//!
//! ```sql
//! SELECT sample_id FROM vcz_samples('ag') WHERE array_has(populations, 'first') AND attributes['sex'] = 'F';
//! ```

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::logical_expr::Documentation;

use super::entry::document_table;
use super::metadata::{Metadata, columns};
use crate::scan::VczTable;

/// `vcz_samples('t')`: one row per sample, in the order of the genotypes.
///
/// * `sample_id` Utf8;
/// * `sample_index` Int64: index on the sample axis, from 0;
/// * `populations` List(Utf8): names of its populations, in the order of their file; empty if there are none;
/// * `attributes` Map(Utf8, Utf8): the other columns of the populations file, without those that are empty for the sample.
#[derive(Debug)]
pub struct Samples;

#[async_trait]
impl Metadata for Samples {
    const NAME: &'static str = "vcz_samples";

    fn schema() -> SchemaRef {
        columns::schema([
            ("sample_id", DataType::Utf8, false),
            ("sample_index", DataType::Int64, false),
            ("populations", columns::string_list(), false),
            ("attributes", columns::string_map(), false),
        ])
    }

    async fn rows(
        table: &VczTable,
        _wanted: &(dyn Fn(usize) -> bool + Send + Sync),
    ) -> Result<RecordBatch> {
        let context = table.context();
        let ids = context.sample_ids();
        let mut populations: Vec<Vec<&str>> = vec![vec![]; ids.len()];
        for (name, samples) in context.populations().iter() {
            for sample in samples.iter() {
                if let Some(names) = populations.get_mut(sample as usize) {
                    names.push(name);
                }
            }
        }
        let populations =
            columns::string_lists(populations.iter().map(|names| Some(names.as_slice())));
        let attributes = (0..ids.len()).map(|sample| {
            let all = context.populations().attributes();
            all.filter_map(move |(name, values)| Some((name, values.get(sample)?.as_deref()?)))
        });
        Ok(RecordBatch::try_new(
            Self::schema(),
            vec![
                Arc::new(StringArray::from_iter_values(ids)),
                Arc::new(Int64Array::from_iter_values((0i64..).take(ids.len()))),
                populations,
                columns::string_maps(attributes)?,
            ],
        )?)
    }

    fn documentation() -> Documentation {
        document_table(
            "The samples of a VCZ table and the populations of each, a row for each sample in the order of the genotypes. A subquery on it is \
             a population: sfs(call_genotype, (SELECT array_agg(sample_id) FROM vcz_samples('t') WHERE attributes['sex'] = 'F')). Columns: \
             sample_id; sample_index, from 0; populations, a list of names; attributes, a map with the other columns of the populations file.",
            "vcz_samples(table)",
            "SELECT sample_id FROM vcz_samples('t') WHERE array_has(populations, 'YRI')",
        )
        .build()
    }
}
