//! Moves calls on genotypes below UNION ALL, into each branch, where they are bound to the branch's own table.
//!
//! ```text
//! Projection: allele_counts(g, 'p')            Projection: __vcz_call_1
//!   Filter: random() < 0.5                       Filter: random() < 0.5
//!     Union                               ->       Union
//!       TableScan: x                                 Projection: g, …, allele_counts(g, 'p') AS __vcz_call_1
//!       TableScan: y                                   TableScan: x
//!                                                    Projection: g, …, allele_counts(g, 'p') AS __vcz_call_1
//!                                                      TableScan: y
//! ```
//! Only calls with a UNION between them and their table move. DataFusion's own leaf pushdown moves the others into the scan.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union};

use super::binder::{Binder, call_filter, genotype_call};
use super::unions::{self, is_null};
use crate::scan::FilterCalls;

/// Prefix of the columns that calls become.
const ALIAS: &str = "__vcz_call_";

/// Names of new columns, each used once in a plan.
#[derive(Debug)]
pub struct Aliases {
    next: usize,
}

impl Aliases {
    /// Names that `plan` does not use: it may have been through the rule before.
    pub fn unused_in(plan: &LogicalPlan) -> Result<Self> {
        let mut next = 1;
        plan.apply_with_subqueries(|node| {
            for field in node.schema().fields() {
                let number = field.name().strip_prefix(ALIAS);
                if let Some(number) = number.and_then(|number| number.parse::<usize>().ok()) {
                    next = next.max(number.saturating_add(1));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self { next })
    }

    fn take(&mut self) -> String {
        let alias = format!("{ALIAS}{}", self.next);
        self.next += 1;
        alias
    }
}

/// `node` with its calls replaced by columns, where a UNION is below the call.
pub fn push(
    node: LogicalPlan,
    binder: &mut Binder,
    aliases: &mut Aliases,
) -> Result<Transformed<LogicalPlan>> {
    let mut inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
    let mut pushed: HashMap<Expr, Column> = HashMap::new();
    let names = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        let replaced = expr.transform_down(|expr| {
            let Some(columns) = columns_of(&expr) else {
                return Ok(Transformed::no(expr));
            };
            if let Some(known) = pushed.get(&expr) {
                let known = Expr::Column(known.clone());
                return Ok(Transformed::new(known, true, TreeNodeRecursion::Jump));
            }
            for input in &mut inputs {
                if !has_columns(input, &columns) {
                    continue;
                }
                let alias = aliases.take();
                let mut push = Push {
                    binder: &mut *binder,
                    alias: &alias,
                };
                if let Some(below) = push.below(input, &expr, &columns)? {
                    let found = push.column(&below)?;
                    *input = below;
                    pushed.insert(expr, found.clone());
                    let found = Expr::Column(found);
                    return Ok(Transformed::new(found, true, TreeNodeRecursion::Jump));
                }
            }
            Ok(Transformed::no(expr))
        })?;
        exprs.push(name.restore(replaced.data));
    }
    if pushed.is_empty() {
        return Ok(Transformed::no(node));
    }
    let original = Arc::clone(node.schema());
    let rewritten = node.with_new_exprs(exprs, inputs)?;
    // Nodes that pass on the columns of their input would also return the new ones.
    let columns: Vec<Expr> = original.iter().map(Expr::from).collect();
    Ok(Transformed::yes(
        if rewritten.schema().fields().len() == original.fields().len() {
            rewritten
        } else {
            LogicalPlanBuilder::from(rewritten)
                .project(columns)?
                .build()?
        },
    ))
}

/// The genotype column of a call and the fields that filter it; `None` if the call depends on other columns.
fn columns_of(expr: &Expr) -> Option<Vec<Column>> {
    let filter = call_filter(expr).filter(|call| call.func.inner().is::<FilterCalls>());
    let (args, constants) = match (filter, genotype_call(expr)) {
        (Some(filter), _) => (&filter.args, filter.args.get(2..)?),
        (None, Some((_, call))) => (&call.args, call.args.get(1..)?),
        (None, None) => return None,
    };
    let mut columns = match args.first()? {
        Expr::Column(column) => vec![column.clone()],
        inner => columns_of(inner)?,
    };
    if filter.is_some() {
        columns.push(match args.get(1)? {
            Expr::Column(column) => column.clone(),
            value => match call_filter(value)?.args.as_slice() {
                [Expr::Column(column), number] if is_constant(number) => column.clone(),
                _ => return None,
            },
        });
    }
    constants.iter().all(is_constant).then_some(columns)
}

fn is_constant(expr: &Expr) -> bool {
    !expr.any_column_refs() && !expr.contains_outer()
}

fn has_columns(plan: &LogicalPlan, columns: &[Column]) -> bool {
    columns
        .iter()
        .all(|column| plan.schema().has_column(column))
}

/// One call that is being pushed down.
struct Push<'a> {
    binder: &'a mut Binder,
    /// The name of its column.
    alias: &'a str,
}

impl Push<'_> {
    /// `plan` with one more column, `call` on its columns `columns`, computed below a UNION; `None` if there is no UNION on the way.
    fn below(
        &mut self,
        plan: &LogicalPlan,
        call: &Expr,
        columns: &[Column],
    ) -> Result<Option<LogicalPlan>> {
        let places = columns
            .iter()
            .map(|column| plan.schema().index_of_column(column));
        let places = places.collect::<Result<Vec<usize>>>()?;
        match plan {
            LogicalPlan::Union(union) => self.in_branches(union, call, columns, &places).map(Some),
            LogicalPlan::Projection(projection) => {
                let inner = places
                    .iter()
                    .map(|at| projection.expr[*at].clone().unalias());
                let inner: Option<Vec<Column>> = inner
                    .map(|expr| match expr {
                        Expr::Column(column) => Some(column),
                        _ => None,
                    })
                    .collect();
                let Some(inner) = inner else {
                    return Ok(None);
                };
                let call = over(call, columns, &inner)?;
                let Some(input) = self.below(&projection.input, &call, &inner)? else {
                    return Ok(None);
                };
                let mut exprs = projection.expr.clone();
                exprs.push(Expr::Column(self.column(&input)?));
                let projection = Projection::try_new(exprs, Arc::new(input))?;
                Ok(Some(LogicalPlan::Projection(projection)))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let inner = columns_at(alias.input.schema(), &places);
                let call = over(call, columns, &inner)?;
                let Some(input) = self.below(&alias.input, &call, &inner)? else {
                    return Ok(None);
                };
                let builder = LogicalPlanBuilder::from(input).alias(alias.alias.clone())?;
                Ok(Some(builder.build()?))
            }
            LogicalPlan::Unnest(unnest)
                if !columns
                    .iter()
                    .any(|column| unnest.exec_columns.contains(column)) =>
            {
                if !has_columns(&unnest.input, columns) {
                    return Ok(None);
                }
                let Some(input) = self.below(&unnest.input, call, columns)? else {
                    return Ok(None);
                };
                let (columns, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                let builder = LogicalPlanBuilder::from(input);
                let builder = builder.unnest_columns_with_options(columns, options)?;
                Ok(Some(builder.build()?))
            }
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Join(_) => {
                let mut inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
                let mut owners = inputs
                    .iter_mut()
                    .filter(|input| has_columns(input, columns));
                let (Some(input), None) = (owners.next(), owners.next()) else {
                    return Ok(None);
                };
                let Some(below) = self.below(input, call, columns)? else {
                    return Ok(None);
                };
                *input = below;
                Ok(Some(plan.with_new_exprs(plan.expressions(), inputs)?))
            }
            _ => Ok(None),
        }
    }

    /// The UNION with the call in each branch.
    fn in_branches(
        &mut self,
        union: &Union,
        call: &Expr,
        columns: &[Column],
        places: &[usize],
    ) -> Result<LogicalPlan> {
        let mut inputs: Vec<Option<LogicalPlan>> = Vec::with_capacity(union.inputs.len());
        let mut result: Option<DataType> = None;
        for input in &union.inputs {
            // In a branch without the column (UNION BY NAME) there are no genotypes to count: the call is NULL.
            if places.first().is_some_and(|at| is_null(input, *at)) {
                inputs.push(None);
                continue;
            }
            let inner = columns_at(input.schema(), places);
            let branch_call = over(call, columns, &inner)?;
            let input = match self.below(input, &branch_call, &inner)? {
                // The column of the call must be the last one.
                Some(below) => {
                    let last = Expr::Column(self.column(&below)?);
                    with_column(&Arc::new(below), input.schema(), last)?
                }
                None => {
                    let bound = self.binder.bind(branch_call, input.schema())?.data;
                    with_column(input, input.schema(), bound.alias(self.alias))?
                }
            };
            let last = input.schema().fields().len() - 1;
            let found = input.schema().field(last).data_type().clone();
            match &result {
                Some(expected) if *expected != found => {
                    return plan_err!(
                        "{call} in a UNION of stores of different shapes: {expected} in one branch, {found} in another; \
                         aggregate in each branch of the UNION, or make one table of stores with the same samples: LOCATION ('…', '…')"
                    );
                }
                _ => result = Some(found),
            }
            inputs.push(Some(input));
        }
        let Some(result) = result else {
            return plan_err!("{call}: no branch of the UNION has genotypes");
        };
        let inputs = inputs.into_iter().zip(&union.inputs);
        let inputs: Vec<Arc<LogicalPlan>> = inputs
            .map(|(input, original)| match input {
                Some(input) => Ok(Arc::new(input)),
                None => {
                    let null = Expr::Literal(ScalarValue::try_from(&result)?, None);
                    let null = null.alias(self.alias);
                    with_column(original, original.schema(), null).map(Arc::new)
                }
            })
            .collect::<Result<_>>()?;
        let fields = inputs.iter().map(|input| {
            let schema = input.schema();
            schema.field(schema.fields().len() - 1)
        });
        let nullable = fields.into_iter().any(|field| field.is_nullable());
        let field = Field::new(self.alias, result, nullable);
        let mut columns: Vec<_> = union
            .schema
            .iter()
            .map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)))
            .collect();
        columns.push((None, Arc::new(field)));
        let schema = DFSchema::new_with_metadata(columns, union.schema.metadata().clone())?;
        unions::reconcile(Union {
            inputs,
            schema: Arc::new(schema),
        })
    }

    /// The column of the call in `plan`.
    fn column(&self, plan: &LogicalPlan) -> Result<Column> {
        let schema = plan.schema();
        match schema.iter().find(|(_, field)| field.name() == self.alias) {
            Some(found) => Ok(Column::from(found)),
            None => plan_err!("column '{}' was lost in {}", self.alias, plan.display()),
        }
    }
}

/// A projection of the columns of `schema` and of `last`.
fn with_column(input: &Arc<LogicalPlan>, schema: &DFSchema, last: Expr) -> Result<LogicalPlan> {
    let mut exprs: Vec<Expr> = schema.iter().map(Expr::from).collect();
    exprs.push(last);
    let projection = Projection::try_new(exprs, Arc::clone(input))?;
    Ok(LogicalPlan::Projection(projection))
}

/// The columns at `places`.
fn columns_at(schema: &DFSchema, places: &[usize]) -> Vec<Column> {
    let columns = places.iter();
    columns
        .map(|at| Column::from(schema.qualified_field(*at)))
        .collect()
}

/// `call` on the columns `new` instead of `old`, one for one.
fn over(call: &Expr, old: &[Column], new: &[Column]) -> Result<Expr> {
    let column = |expr| {
        let Expr::Column(column) = &expr else {
            return Ok(Transformed::no(expr));
        };
        Ok(match old.iter().zip(new).find(|(old, _)| *old == column) {
            Some((_, new)) => Transformed::yes(Expr::Column(new.clone())),
            None => Transformed::no(expr),
        })
    };
    Ok(call.clone().transform(column)?.data)
}
