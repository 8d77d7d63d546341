//! Scans of tables.

use std::ops::Range;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::common::{Result, plan_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalSortExprNode};

use super::calls::{of_call, to_call};
use super::field_expr::with_fields;
use super::frame::{broken, required};
use super::messages::{Input, InputKind, KeyValue, Ordering, Projected, Rows, Scan, Table};
use crate::cluster::stored_scan::StoredScanExec;
use crate::cluster::worker_stores::StoredTable;
use crate::scan::{PortableInput, PortableScan, TableOrigin, VczSource};

/// What encodes plans and expressions within a message.
#[derive(Clone, Copy)]
pub struct Encoder<'a> {
    /// This crate's codec.
    pub codec: &'a dyn PhysicalExtensionCodec,
    /// DataFusion's.
    pub converter: &'a dyn PhysicalProtoConverterExtension,
}

impl Encoder<'_> {
    /// An expression.
    pub fn expr(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<PhysicalExprNode> {
        self.converter.physical_expr_to_proto(expr, self.codec)
    }

    fn exprs<'b>(
        &self,
        exprs: impl IntoIterator<Item = &'b Arc<dyn PhysicalExpr>>,
    ) -> Result<Vec<PhysicalExprNode>> {
        exprs.into_iter().map(|expr| self.expr(expr)).collect()
    }
}

/// What decodes plans and expressions within a message.
#[derive(Clone, Copy)]
pub struct Decoder<'a> {
    /// This crate's codec.
    pub codec: &'a dyn PhysicalExtensionCodec,
    /// DataFusion's.
    pub converter: &'a dyn PhysicalProtoConverterExtension,
    /// The task that the plan is for.
    pub task: &'a TaskContext,
}

impl Decoder<'_> {
    /// An expression over rows of `schema`.
    pub fn expr(&self, expr: &PhysicalExprNode, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let context = PhysicalPlanDecodeContext::new(self.task, self.codec);
        self.converter
            .proto_to_physical_expr(expr, schema, &context)
    }
}

/// The scan `source`; its operator in the plan is `plan`.
///
/// # Errors
/// If another process could not open its table.
pub fn of_scan(source: &VczSource, plan: &dyn ExecutionPlan, to: Encoder) -> Result<Scan> {
    let table = source.table();
    let Some(origin) = &table.origin else {
        return plan_err!(
            "the stores of table '{}' cannot be opened by their locations in another process",
            table.stores.location()
        );
    };
    let scan = source.portable()?;
    let options = origin.options.iter().map(|(key, value)| KeyValue {
        key: key.clone(),
        value: value.clone(),
    });
    let inputs = scan.inputs.iter().map(|input| Input {
        kind: Some(match input {
            PortableInput::Array(name) => InputKind::Array(name.clone()),
            PortableInput::Call(call) => InputKind::Call(of_call(&call.call, &call.filters)),
        }),
    });
    let projection = scan.projection.iter().map(|projected| {
        Ok(Projected {
            expr: to.expr(&with_fields(
                Arc::clone(&projected.expr),
                &scan.input_schema,
            )?)?,
            alias: projected.alias.clone(),
        })
    });
    let filters = scan.filters.iter().map(|filter| {
        let filter = with_fields(Arc::clone(filter), &scan.filter_schema)?;
        to.expr(&filter)
    });
    let rows = plan.equivalence_properties();
    let orderings = rows.oeq_class().iter().map(|ordering| {
        let by = ordering.iter().map(|by| {
            Ok(PhysicalSortExprNode {
                expr: Some(Box::new(to.expr(&by.expr)?)),
                asc: !by.options.descending,
                nulls_first: by.options.nulls_first,
            })
        });
        Ok(Ordering {
            by: by.collect::<Result<_>>()?,
        })
    });
    // A constant of each partition would become one of all.
    let mut constants = rows.constants();
    constants.retain(|of| matches!(of.across_partitions, AcrossPartitions::Uniform(_)));
    Ok(Scan {
        table: Table {
            locations: origin.locations.clone(),
            options: options.collect(),
            content_key: table.stores.content_key().to_string(),
        },
        inputs: inputs.collect(),
        input_schema: scan.input_schema.as_ref().try_into().map_err(broken)?,
        projection: projection.collect::<Result<_>>()?,
        schema: scan.schema.as_ref().try_into().map_err(broken)?,
        filters: filters.collect::<Result<_>>()?,
        filter_schema: scan.filter_schema.as_ref().try_into().map_err(broken)?,
        limit: scan.limit.map(|limit| limit as u64),
        partitions: scan.partitions.iter().map(|rows| of_rows(rows)).collect(),
        orderings: orderings.collect::<Result<_>>()?,
        constants: to.exprs(constants.iter().map(|constant| &constant.expr))?,
    })
}

/// A scan that opens its table when it is executed.
///
/// # Errors
/// If the message is broken.
pub fn to_scan(scan: Scan, from: Decoder) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = |message| Schema::try_from(message).map(Arc::new).map_err(broken);
    let input_schema = schema(&scan.input_schema)?;
    let output = schema(&scan.schema)?;
    let filter_schema = schema(&scan.filter_schema)?;
    let inputs = scan.inputs.iter().map(|input| {
        Ok(match required(input.kind.as_ref(), "input")? {
            InputKind::Array(name) => PortableInput::Array(name.clone()),
            InputKind::Call(call) => PortableInput::Call(to_call(call)?),
        })
    });
    let projection = scan.projection.iter().map(|projected| {
        let expr = from.expr(&projected.expr, &input_schema)?;
        Ok(ProjectionExpr::new(expr, projected.alias.clone()))
    });
    let projection: Vec<ProjectionExpr> = projection.collect::<Result<_>>()?;
    let filters = scan.filters.iter();
    let filters = filters.map(|filter| from.expr(filter, &filter_schema));
    let mut orderings = vec![];
    for ordering in &scan.orderings {
        let by = ordering.by.iter().map(|by| {
            let expr = required(by.expr.as_ref(), "expression")?;
            let options = SortOptions {
                descending: !by.asc,
                nulls_first: by.nulls_first,
            };
            Ok(PhysicalSortExpr::new(from.expr(expr, &output)?, options))
        });
        orderings.push(by.collect::<Result<Vec<_>>>()?);
    }
    let mut rows = EquivalenceProperties::new_with_orderings(Arc::clone(&output), orderings);
    let constants = scan.constants.iter().map(|constant| {
        let constant = from.expr(constant, &output)?;
        Ok(ConstExpr::new(constant, AcrossPartitions::Uniform(None)))
    });
    rows.add_constants(constants.collect::<Result<Vec<_>>>()?)?;
    let partitions = scan.partitions.iter().map(to_rows);
    let portable = PortableScan {
        inputs: inputs.collect::<Result<_>>()?,
        input_schema,
        projection: ProjectionExprs::new(projection),
        schema: output,
        filters: filters.collect::<Result<_>>()?,
        filter_schema,
        limit: scan.limit.map(|limit| limit as usize),
        partitions: partitions.collect::<Result<_>>()?,
    };
    let options = scan.table.options.into_iter();
    let table = StoredTable {
        origin: TableOrigin {
            locations: scan.table.locations,
            options: options.map(|of| (of.key, of.value)).collect(),
        },
        content_key: scan.table.content_key,
    };
    Ok(Arc::new(StoredScanExec::new(table, portable, rows)))
}

fn of_rows(rows: &[Range<u64>]) -> Rows {
    Rows {
        ranges: rows
            .iter()
            .flat_map(|range| [range.start, range.end])
            .collect(),
    }
}

fn to_rows(rows: &Rows) -> Result<Vec<Range<u64>>> {
    let ranges = rows.ranges.chunks(2).map(|range| match range {
        &[start, end] if start <= end => Ok(start..end),
        _ => Err(broken("rows without an end")),
    });
    let ranges: Vec<Range<u64>> = ranges.collect::<Result<_>>()?;
    match ranges.is_sorted_by(|one, next| one.end <= next.start) {
        true => Ok(ranges),
        false => Err(broken("rows that are not ascending")),
    }
}
