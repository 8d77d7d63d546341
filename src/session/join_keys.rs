//! Names the relation of extracted columns in the keys of joins.
//!
//! DataFusion 55 extracts `s['x']` from a join key such as `s['x'] + 1`, and then pushes the extracting projection below the alias of the table. Its
//! column is now one of that alias, but the key names it without, and planning the join fails: the physical planner looks for a column of the
//! key's old name. Columns that calls on genotypes become are extracted in the same way.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule.
#[derive(Debug)]
pub struct QualifyJoinKeys;

impl OptimizerRule for QualifyJoinKeys {
    fn name(&self) -> &str {
        "vcz_qualify_join_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else {
            return Ok(Transformed::no(plan));
        };
        let Join {
            left, right, on, ..
        } = &mut join;
        let mut is_changed = false;
        for (of_left, of_right) in on {
            for (key, input) in [(of_left, &*left), (of_right, &*right)] {
                let qualified = qualified(key.clone(), input.schema())?;
                is_changed |= qualified.transformed;
                *key = qualified.data;
            }
        }
        let plan = LogicalPlan::Join(join);
        Ok(match is_changed {
            true => Transformed::yes(plan),
            false => Transformed::no(plan),
        })
    }
}

/// `key` with the relations of its columns, where these have one in the schema.
fn qualified(key: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    key.transform_up(|expr| {
        let Expr::Column(Column {
            relation: None,
            name,
            ..
        }) = &expr
        else {
            return Ok(Transformed::no(expr));
        };
        let found = schema.qualified_fields_with_unqualified_name(name);
        Ok(match found[..] {
            [(Some(relation), _)] => {
                let column = Column::new(Some(relation.clone()), name);
                Transformed::yes(Expr::Column(column))
            }
            _ => Transformed::no(expr),
        })
    })
}
