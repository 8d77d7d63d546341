//! A scan that returns `population_counts` as one column of counts per population, instead of one list per row. For the aggregation of
//! unnested lists, see `crate::session`.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

use super::source::{ScanInput, VczSource};
use crate::scan::calls::call::{FilteredCall, GenotypeCall};

/// A population: its name, and its number of copies, samples × ploidy.
pub type NamedCopies = (String, i64);

/// A scan in which one of the columns was `population_counts`.
#[derive(Debug)]
pub struct PopulationColumns {
    /// The scan: that column has the counts of the first population, and the counts of the others follow the last column.
    pub scan: Arc<dyn ExecutionPlan>,
    /// The populations, one or more, in the order of the lists.
    pub populations: Vec<NamedCopies>,
}

/// `plan` with a column for each population of column `column` that is `wanted`; `None` if `plan` is not a scan of a VCZ table, the column
/// is not `population_counts`, `wanted` does not know of a population, or no population is wanted.
///
/// # Errors
/// If the counts have no type, because their number of alleles is not known.
pub fn population_columns(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    wanted: &dyn Fn(&NamedCopies) -> Option<bool>,
) -> Result<Option<PopulationColumns>> {
    if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        let columns = population_columns(cooperative.input(), column, wanted)?;
        return Ok(columns.map(|columns| PopulationColumns {
            scan: Arc::new(CooperativeExec::new(columns.scan)),
            ..columns
        }));
    }
    let Some(exec) = plan.downcast_ref::<DataSourceExec>() else {
        return Ok(None);
    };
    let Some(source) = exec.data_source().downcast_ref::<VczSource>() else {
        return Ok(None);
    };
    let columns = source.with_population_columns(column, wanted)?;
    Ok(columns.map(|(source, populations)| PopulationColumns {
        scan: Arc::new(exec.clone().with_data_source(Arc::new(source))),
        populations,
    }))
}

/// The inputs of a scan that is being built, each once.
#[derive(Default)]
struct Inputs {
    inputs: Vec<ScanInput>,
    fields: Vec<Field>,
}

impl Inputs {
    /// The column of `input`, which has this field.
    fn column(&mut self, input: &ScanInput, field: Field) -> Column {
        let known = self.inputs.iter().position(|known| known == input);
        let at = known.unwrap_or_else(|| {
            self.inputs.push(input.clone());
            self.fields.push(field);
            self.inputs.len() - 1
        });
        Column::new(self.fields[at].name(), at)
    }
}

impl VczSource {
    fn with_population_columns(
        &self,
        column: usize,
        wanted: &dyn Fn(&NamedCopies) -> Option<bool>,
    ) -> Result<Option<(Self, Vec<NamedCopies>)>> {
        let projected: Vec<&ProjectionExpr> = self.projection.iter().collect();
        let listed = projected
            .get(column)
            .and_then(|projected| projected.expr.downcast_ref::<Column>());
        let Some(listed) = listed.map(Column::index) else {
            return Ok(None);
        };
        let Some(ScanInput::Call(FilteredCall {
            call: GenotypeCall::PopulationCounts(populations),
            filters,
        })) = self.inputs.get(listed)
        else {
            return Ok(None);
        };
        let uses_list = |projected: &ProjectionExpr| {
            let used = collect_columns(&projected.expr);
            used.iter().any(|column| column.index() == listed)
        };
        if projected.iter().filter(|other| uses_list(other)).count() > 1 {
            return Ok(None);
        }
        let context = &self.table.context;
        let mut kept = Vec::with_capacity(populations.len());
        let mut counts = Vec::with_capacity(populations.len());
        for (name, samples) in populations.iter() {
            let copies = i64::try_from(context.copies(samples)).unwrap_or(i64::MAX);
            let population = (name.to_string(), copies);
            match wanted(&population) {
                None => return Ok(None),
                Some(false) => continue,
                Some(true) => kept.push(population),
            }
            let call = FilteredCall {
                call: GenotypeCall::AlleleCounts(Arc::clone(samples)),
                filters: filters.clone(),
            };
            counts.push((self.call_field(&call)?, ScanInput::Call(call)));
        }
        if counts.is_empty() {
            return Ok(None);
        }
        let mut inputs = Inputs::default();
        let mut exprs = Vec::with_capacity(projected.len() + counts.len());
        let mut fields = Vec::with_capacity(exprs.capacity());
        for (at, projected) in projected.into_iter().enumerate() {
            if at == column {
                let (field, input) = &counts[0];
                let column = inputs.column(input, field.clone());
                exprs.push(ProjectionExpr::new(Arc::new(column), field.name()));
                fields.push(field.clone());
                continue;
            }
            let expr = Arc::clone(&projected.expr).transform_up(|expr| {
                let Some(known) = expr.downcast_ref::<Column>() else {
                    return Ok(Transformed::no(expr));
                };
                let field = self.input_schema.field(known.index()).clone();
                let column = inputs.column(&self.inputs[known.index()], field);
                Ok(Transformed::yes(Arc::new(column) as _))
            })?;
            exprs.push(ProjectionExpr::new(expr.data, projected.alias.clone()));
            fields.push(self.schema.field(at).clone());
        }
        for (field, input) in counts.into_iter().skip(1) {
            let column = inputs.column(&input, field.clone());
            exprs.push(ProjectionExpr::new(Arc::new(column), field.name()));
            fields.push(field);
        }
        let source = Self {
            inputs: inputs.inputs,
            input_schema: Arc::new(Schema::new(inputs.fields)),
            projection: ProjectionExprs::new(exprs),
            schema: Arc::new(Schema::new(fields)),
            ..self.clone()
        };
        Ok(Some((source, kept)))
    }
}
