//! Metadata of the columns of a UNION: kept where the branches agree, dropped where they disagree.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::intersect_metadata_for_union;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};

use crate::scan::copies::{COPIES_DEFERRED, COPIES_KEY};
use crate::scan::{POPULATIONS_KEY, SAMPLES_DEFERRED, SAMPLES_KEY, STORE_KEY, without_metadata};

/// Metadata keys that tell the samples and copies of a column.
const LABELS: [&str; 4] = [STORE_KEY, SAMPLES_KEY, POPULATIONS_KEY, COPIES_KEY];

/// The UNION with its schema recomputed from its branches, which DataFusion does not do. Columns that disagree on their samples or copies
/// lose this metadata in every branch, so that calls on them find no samples.
pub fn reconcile(union: Union) -> Result<LogicalPlan> {
    let inputs = union.inputs.into_iter().map(qualified);
    let mut inputs: Vec<Arc<LogicalPlan>> = inputs.collect::<Result<_>>()?;
    let n_columns = union.schema.fields().len();
    let differing: Vec<bool> = (0..n_columns).map(|at| differs(&inputs, at)).collect();
    let dropped = |at: usize, field: &Field| match differing[at] {
        true => labels_of(field),
        false => vec![],
    };
    for input in &mut inputs {
        *input = without(Arc::clone(input), dropped)?;
    }
    let columns = union.schema.iter().enumerate();
    let columns = columns
        .map(|(at, (qualifier, field))| {
            let fields = inputs.iter().map(|input| input.schema().field(at));
            let metadata =
                intersect_metadata_for_union(fields.clone().map(|field| field.metadata()));
            let data_type = inputs[0].schema().field(at).data_type().clone();
            let nullable = fields.clone().any(|field| field.is_nullable());
            let field = Field::new(field.name(), data_type, nullable).with_metadata(metadata);
            (qualifier.cloned(), Arc::new(field))
        })
        .collect();
    let schema = DFSchema::new_with_metadata(columns, union.schema.metadata().clone())?;
    Ok(LogicalPlan::Union(Union {
        inputs,
        schema: Arc::new(schema),
    }))
}

/// The UNION with metadata dropped in its branches where its own columns do not have them. The batches of all branches then have one
/// schema and can be stored (`CREATE TABLE AS`, COPY), and DataFusion cannot give all rows the metadata of one branch.
/// Columns whose samples or copies are not known yet stay as they are.
pub fn same_metadata(union: Union) -> Result<LogicalPlan> {
    let Union { inputs, schema } = union;
    let is_deferred = |field: &Field| {
        let value = |key: &str| field.metadata().get(key).map(String::as_str);
        value(COPIES_KEY) == Some(COPIES_DEFERRED) || value(SAMPLES_KEY) == Some(SAMPLES_DEFERRED)
    };
    let deferred: Vec<bool> = (0..schema.fields().len())
        .map(|at| {
            let mut fields = inputs.iter().map(|input| input.schema().field(at));
            fields.any(|field| is_deferred(field))
        })
        .collect();
    let dropped = |at: usize, field: &Field| {
        let of_union = schema.field(at).metadata();
        let own = field.metadata().iter().filter(|_| !deferred[at]);
        let dropped = own.filter(|(key, value)| of_union.get(*key) != Some(*value));
        dropped.map(|(key, _)| key.clone()).collect()
    };
    let inputs = inputs.into_iter().map(|input| without(input, dropped));
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(LogicalPlan::Union(Union { inputs, schema }))
}

/// Those of [`LABELS`] that a column has.
fn labels_of(field: &Field) -> Vec<String> {
    let labels = LABELS.into_iter().map(str::to_string);
    labels
        .filter(|key| field.metadata().contains_key(key))
        .collect()
}

/// `input` without the metadata keys that `dropped` gives for the index of each column.
fn without(
    input: Arc<LogicalPlan>,
    dropped: impl Fn(usize, &Field) -> Vec<String>,
) -> Result<Arc<LogicalPlan>> {
    let mut changed = false;
    let columns = input.schema().iter().enumerate();
    let exprs = columns.map(|(at, (qualifier, field))| {
        let column = Expr::from((qualifier, field));
        let mut keys = dropped(at, field);
        if keys.is_empty() {
            return column;
        }
        changed = true;
        keys.sort_unstable();
        without_metadata(column, keys).alias_qualified(qualifier.cloned(), field.name())
    });
    let exprs: Vec<Expr> = exprs.collect();
    if !changed {
        return Ok(input);
    }
    let projection = Projection::try_new(exprs, Arc::clone(&input))?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}

/// A branch whose projection gives plain columns under their own names, with their table. UNION BY NAME and casts rename them, and
/// DataFusion's pushdown then finds the same column under two names. The columns of a UNION are matched by position, so their
/// names in a branch are free.
fn qualified(input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = input.as_ref() else {
        return Ok(input);
    };
    let schema = projection.input.schema();
    let fields = projection.schema.fields();
    let exprs = projection.expr.iter().zip(fields);
    let exprs = exprs.map(|(expr, field)| match expr.clone().unalias() {
        Expr::Column(column) if column.name() == field.name() => {
            let found = schema.qualified_field_from_column(&column)?;
            Ok(Expr::Column(Column::from(found)))
        }
        _ => Ok(expr.clone()),
    });
    let exprs: Vec<Expr> = exprs.collect::<Result<_>>()?;
    if exprs == projection.expr {
        return Ok(input);
    }
    // Fails if the same column occurs twice under two names.
    match Projection::try_new(exprs, Arc::clone(&projection.input)) {
        Ok(renamed) => Ok(Arc::new(LogicalPlan::Projection(renamed))),
        Err(_) => Ok(input),
    }
}

/// Whether column `at` is of different samples, or of different numbers of copies, in the branches of a UNION.
pub fn differs<P: AsRef<LogicalPlan>>(inputs: &[P], at: usize) -> bool {
    let inputs = inputs.iter().map(AsRef::as_ref);
    let fields: Vec<&Field> = inputs
        .filter(|input| !is_null(input, at))
        .map(|input| input.schema().field(at).as_ref())
        .collect();
    let values = |key: &str| {
        let values = fields.iter().map(|field| field.metadata().get(key));
        values.map(|value| value.map(String::as_str)).collect()
    };
    let disagree = |values: Vec<Option<&str>>, deferred: &str| {
        !values.contains(&Some(deferred)) && values.windows(2).any(|pair| pair[0] != pair[1])
    };
    disagree(values(COPIES_KEY), COPIES_DEFERRED) || disagree(values(SAMPLES_KEY), SAMPLES_DEFERRED)
}

/// Whether column `at` of `plan` is the constant NULL.
pub fn is_null(plan: &LogicalPlan, at: usize) -> bool {
    let LogicalPlan::Projection(projection) = plan else {
        return false;
    };
    let mut expr = &projection.expr[at];
    loop {
        expr = match expr {
            Expr::Alias(alias) => &alias.expr,
            Expr::Cast(cast) => &cast.expr,
            Expr::Literal(value, _) => return value.is_null(),
            Expr::Column(column) => {
                let input = &projection.input;
                return match input.schema().index_of_column(column) {
                    Ok(at) => is_null(input, at),
                    Err(_) => false,
                };
            }
            _ => return false,
        };
    }
}
