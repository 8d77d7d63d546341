//! The physical rule that aggregates unnested `population_counts` with [`AggregatePopulationsExec`], in place of partial
//! `AggregateExec`s over an `UnnestExec`.
//!
//! The rows are aggregated in another order, population by population, so every call must be one whose states are exact. The groups must
//! be the same for all rows of a run of variants in a population: the keys are functions of the variant, or the population's name or
//! number of copies. Elsewhere the counts, the name and the number of copies may be used, the latter two as constants of each population.
//! A WHERE above the unnesting must be a function of these constants: then it selects the populations that the scan counts. Any other
//! aggregate is not changed. The rule runs after DataFusion's own and before [`runs_rule`](super::runs_rule).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::unnest::{ListUnnest, UnnestExec};
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PhysicalExpr};

use super::populations::{AggregatePopulationsExec, Call, Key, Populations, Value};
use super::runs_rule::{before_shuffling, in_two_steps, takes_rows};
use super::runs_table::passing_rows;
use crate::functions::is_exact;
use crate::scan::{NamedCopies, PopulationColumns, population_columns};

/// The fields of the elements of `population_counts`.
const POPULATION: &str = "population";
const COPIES: &str = "copies";
const COUNTS: &str = "ac";

/// The rule.
#[derive(Debug)]
pub struct AggregateByPopulations;

impl PhysicalOptimizerRule for AggregateByPopulations {
    fn name(&self) -> &str {
        "vcz_aggregate_by_populations"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let by_populations = match plan.downcast_ref::<AggregateExec>() {
                Some(aggregate) => by_populations(aggregate)?,
                None => None,
            };
            Ok(match by_populations {
                Some(by_populations) => Transformed::yes(by_populations),
                None => Transformed::no(plan),
            })
        })
        .map(|transformed| transformed.data)
    }
}

/// The aggregate by populations, if the aggregate has that form.
fn by_populations(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !takes_rows(aggregate) || !all_exact(aggregate)? {
        return Ok(None);
    }
    let Some(below) = Below::of(aggregate)? else {
        return Ok(None);
    };
    let Some(populations) = below.populations(aggregate)? else {
        return Ok(None);
    };
    in_two_steps(aggregate, |partial| {
        Ok(Arc::new(AggregatePopulationsExec::try_new(
            Arc::new(partial),
            Arc::new(populations),
            below.columns.scan,
        )?))
    })
}

/// Whether the values of all calls are the same bits in any order of their rows.
fn all_exact(aggregate: &AggregateExec) -> Result<bool> {
    let schema = aggregate.input().schema();
    for call in aggregate.aggr_expr() {
        let fields = call.expressions();
        let fields = fields.iter().map(|expr| expr.return_field(&schema));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        let ordered = !call.order_bys().is_empty() || call.ignore_nulls();
        if call.is_distinct() || ordered || !is_exact(call.fun(), &fields) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The input of a round-robin repartitioning, which is not worth it for rows that are counts already.
fn before_round_robin(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let repartition = plan.downcast_ref::<RepartitionExec>()?;
    matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
        .then(|| repartition.input())
}

/// What is below the aggregate.
struct Below {
    /// The projections above the unnesting, from the aggregate down.
    projections: Vec<ProjectionExprs>,
    /// The unnested element.
    element: Element,
    columns: PopulationColumns,
    /// The rows of one population: those of the unnesting with the counts in place of the element.
    schema: Schema,
}

/// What is between the aggregate and an unnesting.
struct Above {
    projections: Vec<ProjectionExprs>,
    /// The predicates of WHERE, over the rows of the unnesting.
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// What is below.
    input: Arc<dyn ExecutionPlan>,
}

impl Above {
    fn of(aggregate: &AggregateExec) -> Result<Self> {
        let mut above = Self {
            projections: vec![],
            predicates: vec![],
            input: Arc::clone(aggregate.input()),
        };
        loop {
            let input = Arc::clone(&above.input);
            above.input = if let Some(projection) = input.downcast_ref::<ProjectionExec>() {
                above.project(projection.projection_expr().clone())?;
                Arc::clone(projection.input())
            } else if let Some(filter) = input.downcast_ref::<FilterExec>()
                && filter.fetch().is_none()
            {
                if let Some(columns) = filter.projection() {
                    let schema = filter.input().schema();
                    above.project(ProjectionExprs::from_indices(columns, &schema))?;
                }
                above.predicates.push(Arc::clone(filter.predicate()));
                Arc::clone(filter.input())
            } else if let Some(before) = before_shuffling(&input)? {
                before
            } else if let Some(before) = before_round_robin(&input) {
                Arc::clone(before)
            } else {
                return Ok(above);
            };
        }
    }

    fn project(&mut self, projection: ProjectionExprs) -> Result<()> {
        for predicate in &mut self.predicates {
            *predicate = projection.unproject_expr(predicate)?;
        }
        self.projections.push(projection);
        Ok(())
    }

    /// Whether the rows of `population` pass the predicates; `None` if that depends on the variant, or is not known before the query
    /// runs.
    fn passes(&self, element: Element, population: &NamedCopies) -> Option<bool> {
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(schema, vec![], &options).ok()?;
        let mut passes = true;
        for predicate in &self.predicates {
            let changes = DynamicFilterTracking::classify(predicate).contains_dynamic_filter();
            if changes || is_volatile(predicate) {
                return None;
            }
            let constant = element.in_population(predicate, population).ok()?;
            if !collect_columns(&constant).is_empty() {
                return None;
            }
            let found = passing_rows(&constant, &row).ok()?;
            passes &= found.is_valid(0) && found.value(0);
        }
        Some(passes)
    }
}

impl Below {
    /// `None` if the input is not projections, and selections of populations, over unnested `population_counts`.
    fn of(aggregate: &AggregateExec) -> Result<Option<Self>> {
        let above = Above::of(aggregate)?;
        let Some(unnest) = above.input.downcast_ref::<UnnestExec>() else {
            return Ok(None);
        };
        let (
            &[
                ListUnnest {
                    index_in_input_schema: column,
                    depth: 1,
                },
            ],
            [],
        ) = (unnest.list_column_indices(), unnest.struct_column_indices())
        else {
            return Ok(None);
        };
        let unnested = unnest.schema();
        // Only then do all columns keep their indices.
        if unnested.fields().len() != unnest.input().schema().fields().len() {
            return Ok(None);
        }
        let DataType::Struct(fields) = unnested.field(column).data_type() else {
            return Ok(None);
        };
        let Some((_, counts)) = fields.find(COUNTS) else {
            return Ok(None);
        };
        let element = Element(column);
        let scan = before_round_robin(unnest.input()).unwrap_or(unnest.input());
        let wanted = |population: &NamedCopies| above.passes(element, population);
        let Some(columns) = population_columns(scan, column, &wanted)? else {
            return Ok(None);
        };
        let mut fields = unnested.fields().to_vec();
        fields[column] = Arc::clone(counts);
        Ok(Some(Self {
            projections: above.projections,
            element,
            columns,
            schema: Schema::new(fields),
        }))
    }

    /// The aggregate's expressions over the rows of one population; `None` if one of them uses more of the list than its counts.
    fn populations(&self, aggregate: &AggregateExec) -> Result<Option<Populations>> {
        let mut keys = vec![];
        for (key, _) in aggregate.group_expr().expr() {
            let Some(key) = self.key(key)? else {
                return Ok(None);
            };
            keys.push(key);
        }
        let mut calls = vec![];
        for (call, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
            let mut values = vec![];
            for expr in call.expressions().iter().chain(filter) {
                let Some(value) = self.value(expr)? else {
                    return Ok(None);
                };
                values.push(value);
            }
            let filter = match filter {
                Some(_) => values.pop(),
                None => None,
            };
            calls.push(Call {
                arguments: values,
                filter,
            });
        }
        Ok(Some(Populations {
            len: self.columns.populations.len(),
            schema: Arc::new(self.schema.clone()),
            counts: self.element.0,
            keys,
            calls,
        }))
    }

    /// `expr`, which is over the aggregate's input, rewritten over the rows of the unnesting.
    fn over_unnested(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let mut expr = Arc::clone(expr);
        for projection in &self.projections {
            expr = projection.unproject_expr(&expr)?;
        }
        Ok(expr)
    }

    fn key(&self, key: &Arc<dyn PhysicalExpr>) -> Result<Option<Key>> {
        let over_unnested = self.over_unnested(key)?;
        let populations = self.columns.populations.iter();
        Ok(match self.element.field(&over_unnested) {
            Some(POPULATION) => {
                let names = populations.map(|(name, _): &NamedCopies| name);
                let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
                Some(Key::Population(names))
            }
            Some(COPIES) => {
                let copies = populations.map(|(_, copies)| *copies);
                let copies: ArrayRef = Arc::new(Int64Array::from_iter_values(copies));
                Some(Key::Population(copies))
            }
            _ => match self.over_rows(over_unnested)? {
                Some(Value::Variant(expr)) => Some(Key::Variant(expr)),
                _ => None,
            },
        })
    }

    fn value(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Value>> {
        self.over_rows(self.over_unnested(expr)?)
    }

    /// `expr`, which is over the rows of the unnesting, rewritten over those of one population; `None` if it uses the element other than by
    /// its fields, or is volatile.
    fn over_rows(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Option<Value>> {
        if is_volatile(&expr) {
            return Ok(None);
        }
        let (mut of_fields, mut of_element) = (false, false);
        expr.apply(|expr| {
            if let Some(POPULATION | COPIES | COUNTS) = self.element.field(expr) {
                of_fields = true;
                return Ok(TreeNodeRecursion::Jump);
            }
            of_element |= self.element.is(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if of_element {
            return Ok(None);
        }
        if !of_fields {
            return Ok(Some(Value::Variant(expr)));
        }
        let populations = self.columns.populations.iter();
        let exprs = populations.map(|population| self.element.in_population(&expr, population));
        Ok(Some(Value::Populations(exprs.collect::<Result<_>>()?)))
    }
}

/// The unnested element of `population_counts`: the index of its column, the same in the unnesting and in the scan.
#[derive(Debug, Clone, Copy)]
struct Element(usize);

impl Element {
    /// Whether `expr` is the element.
    fn is(self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        expr.downcast_ref::<Column>()
            .is_some_and(|column| column.index() == self.0)
    }

    /// The name of the field, where `expr` is a field of the element.
    fn field(self, expr: &Arc<dyn PhysicalExpr>) -> Option<&str> {
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        let [element, name] = call.args() else {
            return None;
        };
        if !call.fun().inner().is::<GetFieldFunc>() || !self.is(element) {
            return None;
        }
        match name.downcast_ref::<Literal>()?.value() {
            ScalarValue::Utf8(Some(name))
            | ScalarValue::Utf8View(Some(name))
            | ScalarValue::LargeUtf8(Some(name)) => Some(name),
            _ => None,
        }
    }

    /// `expr` over the rows of one population: its counts are in the column of the element, its name and copies are constants.
    fn in_population(
        self,
        expr: &Arc<dyn PhysicalExpr>,
        (name, copies): &NamedCopies,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let rewritten = Arc::clone(expr).transform_down(|expr| {
            let value: Arc<dyn PhysicalExpr> = match self.field(&expr) {
                Some(COUNTS) => Arc::new(Column::new(COUNTS, self.0)),
                Some(POPULATION) => Arc::new(Literal::new(ScalarValue::from(name.as_str()))),
                Some(COPIES) => Arc::new(Literal::new(ScalarValue::from(*copies))),
                _ => return Ok(Transformed::no(expr)),
            };
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        })?;
        Ok(rewritten.data)
    }
}
