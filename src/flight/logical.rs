//! Turns a statement into a logical plan, with limits on length, depth and size at each step.

use datafusion::common::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;

use super::{complexity, expansion, plan_size, policy, stop};
use crate::session::explain_unknown_column;

/// The logical plan of a statement, with at most `most` relations and expressions.
///
/// # Errors
/// If it is not a statement, too long, too deep or too large.
pub async fn of_text(state: &SessionState, sql: &str, most: usize) -> Result<LogicalPlan> {
    of_statement(state, complexity::parse(state, sql)?, most).await
}

/// The logical plan of a parsed statement, with at most `most` relations and expressions.
///
/// # Errors
/// If it is too large.
pub async fn of_statement(
    state: &SessionState,
    statement: Statement,
    most: usize,
) -> Result<LogicalPlan> {
    policy::check_statement(&statement)?;
    expansion::check(state, &statement, most).await?;
    stop::check()?;
    let plan = match state.statement_to_plan(statement).await {
        Ok(plan) => plan,
        Err(error) => return Err(explain_unknown_column(state, error).await),
    };
    stop::check()?;
    // Twice as many, because the columns of `*` and type conversions are not in the syntax tree.
    plan_size::check(&plan, most.saturating_mul(2))?;
    Ok(plan)
}
