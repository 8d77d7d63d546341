//! Plans in a form that can be sent: [`portable`] turns operators with functions of this crate into [`SerializableExec`]s, gives expressions
//! their fields, gives shuffles one input without an order, and runs what only this process can.
//!
//! Invariant: the portable plan gives the same rows as the plan, here and on workers. What cannot be made portable is an error that says
//! what it is; the plan then runs here.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
    execute_stream,
};
use futures::TryStreamExt;

use super::serializable::SerializableExec;
use super::shuffle_input::ShuffleInputExec;
use super::split::scan_of;
use super::wire::field_expr::with_fields;
use super::wire::functions::is_known_everywhere;
use crate::flight::HeldInputExec;
use crate::session::operators::{Operator, in_two_steps};
use crate::session::window_calls;

/// The most bytes of the rows of table functions that are sent with a plan.
const MOST_ROWS_BYTES: usize = 32 << 20;

/// `plan` in a form that can be sent.
///
/// # Errors
/// What keeps the plan in this process.
pub async fn portable(
    plan: Arc<dyn ExecutionPlan>,
    task: &Arc<TaskContext>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = in_two_steps(with_rows(plan, task).await?)?;
    let carried = plan.transform_up(serializable)?;
    carried.data.transform_up(unordered).map(|plan| plan.data)
}

/// The plan with the rows of table functions in place of their operators, which only this process has.
async fn with_rows(
    plan: Arc<dyn ExecutionPlan>,
    task: &Arc<TaskContext>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut leaves = vec![];
    plan.apply(|node| {
        if node.is::<StreamingTableExec>() || node.is::<LazyMemoryExec>() {
            leaves.push(Arc::clone(node));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut rows: Vec<(Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>)> = vec![];
    let memory = MemoryConsumer::new("rows of table functions").register(task.memory_pool());
    let mut bytes = 0;
    for leaf in leaves {
        let mut stream = execute_stream(Arc::clone(&leaf), Arc::clone(task))?;
        let mut batches = vec![];
        while let Some(batch) = stream.try_next().await? {
            bytes += batch.get_array_memory_size();
            memory.try_resize(bytes)?;
            if bytes > MOST_ROWS_BYTES {
                return plan_err!(
                    "its table functions give more than {MOST_ROWS_BYTES} bytes of rows"
                );
            }
            batches.push(batch);
        }
        let table = MemorySourceConfig::try_new_exec(&[batches], leaf.schema(), None)?;
        rows.push((leaf, table));
    }
    if rows.is_empty() {
        return Ok(plan);
    }
    plan.transform_up(|node| {
        let found = rows.iter().find(|(leaf, _)| Arc::ptr_eq(leaf, &node));
        Ok(match found {
            Some((_, table)) => Transformed::yes(Arc::clone(table)),
            None => Transformed::no(node),
        })
    })
    .map(|plan| plan.data)
}

/// An operator in a form that can be sent.
fn serializable(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let operator = match Operator::of(node.as_ref()) {
        Some(Operator::Runs(aggregate)) => Some(Operator::Runs(fielded(aggregate)?)),
        Some(Operator::Pairs(aggregate)) => Some(Operator::Pairs(fielded(aggregate)?)),
        Some(Operator::LeftOut(aggregate)) => Some(Operator::LeftOut(fielded(aggregate)?)),
        Some(Operator::ByPopulation(aggregate, populations)) => {
            Some(Operator::ByPopulation(fielded(aggregate)?, populations))
        }
        other => other,
    };
    let carry = |inner| {
        Ok(Transformed::yes(
            Arc::new(SerializableExec::new(inner, None)) as _,
        ))
    };
    if let Some(operator) = operator {
        let input = match node.children()[..] {
            [input] => Arc::clone(input),
            _ => return plan_err!("{} has one input", node.name()),
        };
        return carry(operator.over(input)?);
    }
    if node.is::<HeldInputExec>() {
        return carry(node);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let aggregate = fielded(Arc::new(aggregate.clone()))?;
        return carry(aggregate as _);
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let schema = projection.input().schema();
        let mut changed = false;
        let exprs = projection.expr().iter().map(|projected| {
            let mut projected = projected.clone();
            let expr = with_fields(Arc::clone(&projected.expr), &schema)?;
            changed |= !Arc::ptr_eq(&expr, &projected.expr);
            projected.expr = expr;
            Ok(projected)
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        return match changed {
            true => carry(Arc::new(ProjectionExec::try_new(
                exprs,
                Arc::clone(projection.input()),
            )?)),
            false => carry(node),
        };
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        let predicate = with_fields(Arc::clone(filter.predicate()), &schema)?;
        if Arc::ptr_eq(&predicate, filter.predicate()) {
            return carry(node);
        }
        let builder = FilterExecBuilder::from(filter).with_predicate(predicate);
        return carry(Arc::new(builder.build()?));
    }
    if node.is::<RecursiveQueryExec>() {
        return plan_err!("a recursive query");
    }
    check_windows(&node)?;
    if node.is::<SortExec>() || node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>() {
        let schema = match node.children()[..] {
            [input] => input.schema(),
            _ => return plan_err!("{} has one input", node.name()),
        };
        check(&node, |expr| {
            let same = with_fields(Arc::clone(expr), &schema)?;
            match Arc::ptr_eq(&same, expr) {
                true => Ok(()),
                false => plan_err!(
                    "{} of {expr}, a function whose result has metadata",
                    node.name()
                ),
            }
        })?;
        return carry(node);
    }
    if scan_of(node.as_ref()).is_some() {
        return Ok(Transformed::no(node));
    }
    // DataFusion's own encoding takes functions by their names.
    check(&node, by_name)?;
    Ok(Transformed::no(node))
}

/// Returns an error for window functions with what DataFusion's encoding leaves out: FILTER, IGNORE NULLS, and the reverse of a function.
fn check_windows(node: &Arc<dyn ExecutionPlan>) -> Result<()> {
    for call in window_calls(node) {
        // DataFusion has no other way to ask for these; a test fails if the text changes.
        let shown = format!("{call:?}");
        let marks = ["filter: Some(", "ignore_nulls: true", "is_reversed: true"];
        if marks.iter().any(|mark| shown.contains(mark)) {
            return plan_err!(
                "{} OVER with FILTER, IGNORE NULLS or in the reverse order of another one",
                call.name()
            );
        }
    }
    Ok(())
}

/// Calls `f` with the expressions of an operator.
fn check(
    node: &Arc<dyn ExecutionPlan>,
    f: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<()>,
) -> Result<()> {
    node.apply_expressions(&mut |expr| {
        f(expr)?;
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}

/// Returns an error if a function in `expr` is bound to something that its name does not say, or has an argument whose field has metadata.
fn by_name(expr: &Arc<dyn PhysicalExpr>) -> Result<()> {
    let of_call = |expr: &Arc<dyn PhysicalExpr>| -> Result<bool> {
        // The field of a function's result is known without a schema.
        let is_call = expr.is::<ScalarFunctionExpr>();
        Ok(is_call && !expr.return_field(&Schema::empty())?.metadata().is_empty())
    };
    expr.apply(|expr| {
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            let mut stays = !is_known_everywhere(call.fun());
            for argument in call.args() {
                stays |= of_call(argument)?;
            }
            if stays {
                return plan_err!("a join or a shuffle by {expr}");
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}

/// The aggregate with the fields of its arguments.
fn fielded(aggregate: Arc<AggregateExec>) -> Result<Arc<AggregateExec>> {
    let schema = aggregate.input_schema();
    for (key, _) in aggregate.group_expr().expr() {
        let same = with_fields(Arc::clone(key), &schema)?;
        if !Arc::ptr_eq(&same, key) {
            return plan_err!("GROUP BY {key}, a function whose result has metadata");
        }
    }
    let filters = aggregate.filter_expr().iter().flatten();
    let orders = aggregate
        .aggr_expr()
        .iter()
        .flat_map(|call| call.order_bys());
    for expr in filters.chain(orders.map(|by| &by.expr)) {
        let same = with_fields(Arc::clone(expr), &schema)?;
        if !Arc::ptr_eq(&same, expr) {
            return plan_err!("FILTER or ORDER BY {expr}, a function whose result has metadata");
        }
    }
    let mut changed = false;
    let calls = aggregate.aggr_expr().iter().map(|call| {
        let arguments = call.expressions();
        let kept = arguments
            .iter()
            .map(|argument| with_fields(Arc::clone(argument), &schema))
            .collect::<Result<Vec<_>>>()?;
        let same = kept.iter().zip(&arguments).all(|(a, b)| Arc::ptr_eq(a, b));
        changed |= !same;
        match same {
            true => Ok(Arc::clone(call)),
            false => rebuilt(call, kept, &aggregate).map(Arc::new),
        }
    });
    let calls = calls.collect::<Result<Vec<_>>>()?;
    Ok(match changed {
        true => Arc::new(aggregate.with_new_aggr_exprs(calls)),
        false => aggregate,
    })
}

/// The call with other arguments.
fn rebuilt(
    call: &AggregateFunctionExpr,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    aggregate: &AggregateExec,
) -> Result<AggregateFunctionExpr> {
    let mut builder = AggregateExprBuilder::new(Arc::new(call.fun().clone()), arguments)
        .schema(aggregate.input_schema())
        .alias(call.name())
        .with_distinct(call.is_distinct())
        .with_ignore_nulls(call.ignore_nulls())
        .order_by(call.order_bys().to_vec())
        .with_reversed(call.is_reversed());
    if let Some(shown) = call.human_display() {
        builder = builder.human_display(shown);
    }
    if let Some(alias) = call.human_display_alias() {
        builder = builder.human_display_alias(alias);
    }
    let built = builder.build()?;
    if built.field() != call.field() || built.state_fields()? != call.state_fields()? {
        return plan_err!("{}, whose result would change", call.name());
    }
    Ok(built)
}

/// An operator that needs no order of a shuffle: the shuffle's input is one partition that declares none (see [`ShuffleInputExec`]), and rows
/// are sorted again where an operator needs it.
fn unordered(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(shuffle) = node.downcast_ref::<RepartitionExec>() {
        // What the rule for bounded memory has put there.
        let merged = shuffle.input().downcast_ref::<CoalescePartitionsExec>();
        let merged = merged.filter(|merged| merged.fetch().is_none());
        let input = merged.map_or(shuffle.input(), |merged| merged.input());
        let several = input.output_partitioning().partition_count() > 1;
        let hashed = matches!(shuffle.partitioning(), Partitioning::Hash(..));
        if hashed || several && !shuffle.preserve_order() {
            let input = Arc::new(ShuffleInputExec::new(Arc::clone(input)));
            let shuffle = RepartitionExec::try_new(input, shuffle.partitioning().clone())?;
            return Ok(Transformed::yes(Arc::new(shuffle)));
        }
    }
    let mut changed = false;
    let needed = node.required_input_ordering();
    let inputs = node
        .children()
        .into_iter()
        .zip(needed)
        .map(|(input, need)| {
            let Some(need) = need else {
                return Ok(Arc::clone(input));
            };
            let properties = input.equivalence_properties();
            let need = need.into_single();
            if properties.ordering_satisfy_requirement(need.clone())? {
                return Ok(Arc::clone(input));
            }
            changed = true;
            let several = input.output_partitioning().partition_count() > 1;
            let sorted = SortExec::new(LexOrdering::from(need), Arc::clone(input))
                .with_preserve_partitioning(several);
            let sorted = SerializableExec::new(Arc::new(sorted), None);
            Ok(Arc::new(sorted) as Arc<dyn ExecutionPlan>)
        });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    if !changed {
        return Ok(Transformed::no(node));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(inputs, options).map(Transformed::yes)
}
