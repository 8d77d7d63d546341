//! Scans of the bit-planes of a population: beside contigs and positions, in partitions of given rows, for functions that compare variants
//! along a contig, each with those before it; and alone, for functions that compare samples.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::ExecutionPlan;

use super::ranges::{merge, split};
use super::source::{PartitionGoal, ScanInput, ScanTable, VczSource};
use crate::counts::SampleSet;
use crate::scan::calls::call::{FilteredCall, GenotypeCall};
use crate::scan::calls::filters::CallFilters;
use crate::scan::options::VczSettings;

/// Columns of the scan before the bit-planes.
const COLUMNS: [&str; 2] = ["variant_contig", "variant_position"];

/// A scan of `table`: contig, position and the bit-planes of `samples`. Partition i gives exactly the rows of `partitions[i]`, in their
/// order.
pub fn scan_site_planes(
    table: &Arc<ScanTable>,
    samples: Arc<SampleSet>,
    partitions: &[Range<u64>],
    settings: VczSettings,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut columns = vec![];
    for name in COLUMNS.iter().chain(&["call_genotype"]) {
        match table.stores.column_index(name) {
            Some(at) => columns.push(at),
            None => {
                return plan_err!("store '{}' has no array {name}", table.context.store_name());
            }
        }
    }
    columns.truncate(COLUMNS.len());
    let mut rows = partitions.to_vec();
    rows.sort_by_key(|range| range.start);
    let mut source = planes_beside(table, &columns, merge(rows), samples, settings)?;
    let one = |range: &Range<u64>| vec![range.clone()];
    source.partitions = partitions.iter().map(one).collect();
    source.fixed = true;
    Ok(DataSourceExec::from_data_source(source))
}

/// A scan of `table`: the bit-planes of `samples` of every variant, in at most `partitions` partitions.
pub fn scan_planes(
    table: &Arc<ScanTable>,
    samples: Arc<SampleSet>,
    partitions: usize,
    settings: VczSettings,
) -> Result<Arc<dyn ExecutionPlan>> {
    if table.stores.column_index("call_genotype").is_none() {
        return plan_err!(
            "store '{}' has no array call_genotype",
            table.context.store_name()
        );
    }
    let rows = merge(std::iter::once(0..table.stores.n_variants()));
    let mut source = planes_beside(table, &[], rows, samples, settings)?;
    source.partitions = split(&source.kept, partitions, source.chunk_boundary());
    source.fixed = true;
    Ok(DataSourceExec::from_data_source(source))
}

/// A scan of some columns, and then the bit-planes of `samples`.
fn planes_beside(
    table: &Arc<ScanTable>,
    columns: &[usize],
    rows: Vec<Range<u64>>,
    samples: Arc<SampleSet>,
    settings: VczSettings,
) -> Result<VczSource> {
    let goal = PartitionGoal {
        partitions: 1,
        min_bytes: usize::MAX,
    };
    let mut source = VczSource::try_new(
        Arc::clone(table),
        table.stores.known_zones().cloned(),
        columns,
        vec![],
        rows,
        None,
        settings,
        goal,
    )?;
    let call = FilteredCall {
        call: GenotypeCall::GenotypePlanes(samples),
        filters: CallFilters::default(),
    };
    let mut fields: Vec<_> = source.input_schema.fields().iter().cloned().collect();
    fields.push(Arc::new(source.call_field(&call)?));
    source.inputs.push(ScanInput::Call(call));
    let schema = Arc::new(Schema::new(fields));
    let all: Vec<usize> = (0..source.inputs.len()).collect();
    source.projection = ProjectionExprs::from_indices(&all, &schema);
    (source.input_schema, source.schema) = (Arc::clone(&schema), schema);
    Ok(source)
}
