//! Loads masks from a BED file, or from a registered table with contig, start and end (0-based, half-open), while planning,
//! and binds them to the functions that use them.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use super::mask::Mask;
use super::scalar::{AccessibleBases, IsAccessible, bound_accessible_bases, bound_is_accessible};
use crate::scan::{VczSettings, read_file};

/// Whether `function` has a mask argument that is not bound yet.
pub fn needs_mask(function: &ScalarUDF) -> bool {
    let inner = function.inner();
    inner
        .downcast_ref::<IsAccessible>()
        .is_some_and(|function| !function.is_bound())
        || inner
            .downcast_ref::<AccessibleBases>()
            .is_some_and(|function| !function.is_bound())
}

/// The mask that is bound to `function`; `None` if there is none, or it takes none.
pub fn bound_mask(function: &ScalarUDF) -> Option<&Arc<Mask>> {
    let inner = function.inner();
    let of_sites = inner.downcast_ref::<IsAccessible>();
    let of_intervals = inner.downcast_ref::<AccessibleBases>();
    of_sites
        .and_then(IsAccessible::mask)
        .or_else(|| of_intervals.and_then(AccessibleBases::mask))
}

/// `function` with `mask` bound to it.
pub fn bind_mask(function: &ScalarUDF, mask: Arc<Mask>) -> ScalarUDF {
    if function.inner().is::<IsAccessible>() {
        bound_is_accessible(mask)
    } else {
        bound_accessible_bases(mask)
    }
}

/// Reads the mask `name`: a registered table of that name, else a BED file at that location.
pub async fn load_mask(session: &dyn Session, name: &str) -> Result<Mask> {
    let mask = match registered(session, name).await? {
        Some(table) => from_table(session, name, table.as_ref()).await?,
        None => Mask::from_bed(name, &read_file(session, name).await?)?,
    };
    if mask.contigs().next().is_none() {
        let notices = VczSettings::of(session.config_options()).notices;
        notices.add(format!(
            "mask '{name}' has no intervals, so no base is accessible"
        ));
    }
    Ok(mask)
}

/// The table registered under `name`, taken as it is written and, failing that, as a (qualified) SQL name.
pub async fn registered(
    session: &dyn Session,
    name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
        return plan_err!("tables cannot be looked up in this kind of session");
    };
    for reference in [TableReference::bare(name), TableReference::parse_str(name)] {
        let Ok(schema) = state.schema_for_ref(reference.clone()) else {
            continue;
        };
        if schema.table_exist(reference.table()) {
            return schema.table(reference.table()).await;
        }
    }
    Ok(None)
}

async fn from_table(session: &dyn Session, name: &str, table: &dyn TableProvider) -> Result<Mask> {
    let schema = table.schema();
    let column = |names: &[&str]| {
        let found = schema
            .fields()
            .iter()
            .position(|field| names.contains(&field.name().to_lowercase().as_str()));
        match found {
            Some(at) => Ok(at),
            None => plan_err!(
                "the mask table '{name}' must have the columns contig (or chrom), start and end (0-based, half-open); it has no {}",
                names[0]
            ),
        }
    };
    let columns = vec![
        column(&["contig", "chrom", "chromosome"])?,
        column(&["start", "chromstart"])?,
        column(&["end", "stop", "chromend"])?,
    ];
    let plan = table.scan(session, Some(&columns), &[], None).await?;
    let context = session.task_ctx();
    let memory = MemoryConsumer::new(format!("mask '{name}'")).register(context.memory_pool());
    let mut batches = execute_stream(plan, context)?;
    let mut rows: Vec<(String, i64, i64)> = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        // Twice, because the rows stay in memory while the mask is built from them.
        memory.try_grow(batch.num_rows() * 2 * size_of::<(String, i64, i64)>())?;
        read_rows(name, &batch, &mut rows)?;
    }
    Ok(Mask::from_rows(
        name,
        rows.iter()
            .map(|(contig, start, end)| (contig.as_str(), *start, *end)),
    )?)
}

fn read_rows(name: &str, batch: &RecordBatch, rows: &mut Vec<(String, i64, i64)>) -> Result<()> {
    let options = arrow::compute::CastOptions {
        safe: false,
        ..Default::default()
    };
    let cast = |at: usize, data_type: &DataType| {
        let array = arrow::compute::cast_with_options(batch.column(at), data_type, &options)?;
        if array.null_count() > 0 {
            return plan_err!(
                "the mask table '{name}' has NULL in its column '{}'",
                batch.schema().field(at).name()
            );
        }
        Ok(array)
    };
    let (contigs, starts, ends) = (
        cast(0, &DataType::Utf8)?,
        cast(1, &DataType::Int64)?,
        cast(2, &DataType::Int64)?,
    );
    let (contigs, starts, ends) = (
        contigs.as_string::<i32>(),
        starts.as_primitive::<Int64Type>(),
        ends.as_primitive::<Int64Type>(),
    );
    rows.extend((0..batch.num_rows()).map(|row| {
        (
            contigs.value(row).to_string(),
            starts.value(row),
            ends.value(row),
        )
    }));
    Ok(())
}
