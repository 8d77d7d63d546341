//! `TABLESAMPLE` is an error: DataFusion parses it and returns every row.

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::TableFactor;

/// Refuses samples of tables.
#[derive(Debug)]
pub struct RefuseTableSample;

impl RelationPlanner for RefuseTableSample {
    fn plan_relation(
        &self,
        relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Table {
                sample: Some(_), ..
            }
            | TableFactor::Derived {
                sample: Some(_), ..
            } => plan_err!(
                "TABLESAMPLE is not supported; for about a tenth of the rows write WHERE random() < 0.1, and for the first rows LIMIT"
            ),
            relation => Ok(RelationPlanning::Original(Box::new(relation))),
        }
    }
}
