//! The keys of what UNNEST and GROUP BY give, which DataFusion 55 gets wrong.
//!
//! `Unnest` keeps the functional dependencies of its input: a column that was a key, such as that of a GROUP BY, still counts as unique
//! although its rows are repeated (apache/datafusion#24787). `Aggregate` takes a column that determines some of its columns for a key of
//! all: `GROUP BY k, x` of a join, of which one side has the key `k`. Then `DISTINCT k` keeps repeated rows, another `GROUP BY k, x` groups
//! by `k`, `ORDER BY k, x` orders by `k`, a join on `k` becomes a semi join, and the frame of `OVER (ORDER BY k)` is one of rows.
//!
//! DataFusion computes the dependencies anew wherever it rebuilds a node, so they are corrected before each use: by [`rewrite`] for the
//! rules of [`RULES`], and by [`CorrectKeys`] for the planner of SQL, which looks at those of the relations in FROM.
//!
//! What is not corrected: the frame of `SELECT k, x, sum(…) OVER (ORDER BY k) FROM … GROUP BY k, x`, if the GROUP BY stands in the same
//! SELECT and `k` alone is a key of its input. It is chosen before anything of this crate sees the GROUP BY; a frame that is written is kept.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Dependency, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Unnest};
use datafusion::optimizer::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::{
    TableFactor, TableSample, TableSampleKind, TableSampleModifier,
};

/// DataFusion's rules that use functional dependencies.
pub const RULES: [&str; 4] = [
    "eliminate_duplicated_expr",
    "replace_distinct_aggregate",
    "eliminate_join",
    "optimize_projections",
];

/// Rewrites a plan by one of [`RULES`], which sees the right keys.
pub fn rewrite(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    // A rule with an order is called for each node, and uses the keys of these only.
    let uses = rule.apply_order().is_none()
        || matches!(
            &plan,
            LogicalPlan::Sort(_) | LogicalPlan::Join(_) | LogicalPlan::Distinct(Distinct::All(_))
        );
    let plan = if uses { corrected(plan)? } else { plan };
    rule.rewrite(plan, config)
}

/// `plan` with the keys of each UNNEST and GROUP BY, and of all that is above them, corrected.
fn corrected(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_wrong = false;
    plan.apply_with_subqueries(|node| {
        is_wrong |=
            keys_of(node).is_some_and(|keys| keys != *node.schema().functional_dependencies());
        Ok(if is_wrong {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    if !is_wrong {
        return Ok(plan);
    }
    let corrected = plan.transform_up_with_subqueries(|mut node| {
        let Some(keys) = keys_of(&node) else {
            let before = node.schema().functional_dependencies();
            let after = node.clone().recompute_schema()?;
            return Ok(if before != after.schema().functional_dependencies() {
                Transformed::yes(after)
            } else {
                Transformed::no(node)
            });
        };
        let (LogicalPlan::Unnest(Unnest { schema, .. })
        | LogicalPlan::Aggregate(Aggregate { schema, .. })) = &mut node
        else {
            return Ok(Transformed::no(node));
        };
        if keys == *schema.functional_dependencies() {
            return Ok(Transformed::no(node));
        }
        *schema = Arc::new(schema.as_ref().clone().with_functional_dependencies(keys)?);
        Ok(Transformed::yes(node))
    })?;
    Ok(corrected.data)
}

/// The functional dependencies between the columns of an UNNEST or a GROUP BY; `None` for another node.
fn keys_of(node: &LogicalPlan) -> Option<FunctionalDependencies> {
    match node {
        LogicalPlan::Unnest(unnest) => Some(keys_of_unnest(unnest)),
        LogicalPlan::Aggregate(aggregate) => Some(keys_of_aggregate(aggregate)),
        _ => None,
    }
}

/// The columns of a GROUP BY are a key together. Dependencies of the input hold between them, and one whose determinant is unique in the
/// input, or determines all of them, is a key.
fn keys_of_aggregate(aggregate: &Aggregate) -> FunctionalDependencies {
    let groups = &aggregate.group_expr;
    let has_sets = groups
        .iter()
        .any(|expr| matches!(expr, Expr::GroupingSet(_)));
    if groups.is_empty() || has_sets {
        return FunctionalDependencies::empty();
    }
    let names: Vec<String> = groups
        .iter()
        .map(|expr| expr.schema_name().to_string())
        .collect();
    let input = aggregate.input.schema();
    let columns = input.field_names();
    let place = |column: &usize| {
        let column = columns.get(*column)?;
        names.iter().position(|name| name == column)
    };
    let all: Vec<usize> = (0..aggregate.schema.fields().len()).collect();
    let mut keys = Vec::new();
    for dependence in input.functional_dependencies().iter() {
        let sources: Option<Vec<usize>> = dependence.source_indices.iter().map(place).collect();
        let Some(sources) = sources else {
            continue;
        };
        let targets = dependence.target_indices.iter().filter_map(place);
        let targets: BTreeSet<usize> = targets.chain(sources.iter().copied()).collect();
        let is_key = dependence.mode == Dependency::Single || targets.len() == names.len();
        let (targets, mode) = match is_key {
            true => (all.clone(), Dependency::Single),
            false => (targets.into_iter().collect(), Dependency::Multi),
        };
        keys.push(FunctionalDependence::new(sources, targets, dependence.nullable).with_mode(mode));
    }
    if keys.iter().all(|key| key.mode != Dependency::Single) {
        let sources: Vec<usize> = (0..names.len()).collect();
        let fields = aggregate.schema.fields();
        let nullable = sources.iter().any(|at| fields[*at].is_nullable());
        keys.push(FunctionalDependence::new(sources, all, nullable).with_mode(Dependency::Single));
    }
    FunctionalDependencies::new(keys)
}

/// A key of the input may occur in several rows of a list, and still determines the columns that are not unnested.
fn keys_of_unnest(unnest: &Unnest) -> FunctionalDependencies {
    let lists = unnest.list_type_columns.iter().map(|(index, _)| *index);
    let lists: HashSet<usize> = lists.collect();
    // The columns made of a column of the input, which are several for a struct.
    let made_of = |index: &usize| {
        let columns = unnest.dependency_indices.iter().enumerate();
        let made: Vec<usize> = columns
            .filter(|(_, of)| *of == index && !lists.contains(index))
            .map(|(column, _)| column)
            .collect();
        made
    };
    let of_input = unnest.input.schema().functional_dependencies().iter();
    let of_input = of_input.filter(|key| key.source_indices.iter().all(|at| !lists.contains(at)));
    let corrected = of_input.map(|key| {
        let sources = key.source_indices.iter().flat_map(made_of).collect();
        let targets = key.target_indices.iter().flat_map(made_of).collect();
        let mode = match lists.is_empty() {
            true => key.mode,
            false => Dependency::Multi,
        };
        FunctionalDependence::new(sources, targets, key.nullable).with_mode(mode)
    });
    FunctionalDependencies::new(corrected.collect())
}

/// Corrects the keys of relations in FROM, by which the planner of SQL completes GROUP BY and chooses the frames of OVER.
#[derive(Debug)]
pub struct CorrectKeys;

impl RelationPlanner for CorrectKeys {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let original = |relation| Ok(RelationPlanning::Original(Box::new(relation)));
        let (TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. }) =
            &mut relation
        else {
            return original(relation);
        };
        // The relation is planned by the other planners, which also call this one: it is marked for that.
        match sample {
            Some(kind) if *kind == mark() => {
                *sample = None;
                original(relation)
            }
            Some(_) => original(relation),
            None => {
                *sample = Some(mark());
                let plan = context.plan(relation)?;
                let plan = if plan.schema().functional_dependencies().is_empty() {
                    plan
                } else {
                    corrected(plan)?
                };
                let planned = PlannedRelation::new(plan, None);
                Ok(RelationPlanning::Planned(Box::new(planned)))
            }
        }
    }
}

/// A sample that cannot be written in SQL.
fn mark() -> TableSampleKind {
    TableSampleKind::AfterTableAlias(Box::new(TableSample {
        modifier: TableSampleModifier::TableSample,
        name: None,
        quantity: None,
        seed: None,
        bucket: None,
        offset: None,
    }))
}
