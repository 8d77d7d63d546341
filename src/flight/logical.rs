//! A statement to a logical plan, within limits of length, depth and size at each step.

use datafusion::common::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;

use super::{complexity, expansion, plan_size, stop};

/// The logical plan of a statement that becomes no larger than `most`.
///
/// # Errors
/// If it is not a statement, too long, too deep or too large.
pub async fn of_text(state: &SessionState, sql: &str, most: usize) -> Result<LogicalPlan> {
    of_statement(state, complexity::parse(state, sql)?, most).await
}

/// The logical plan of a parsed statement that becomes no larger than `most`.
///
/// # Errors
/// If it is too large.
pub async fn of_statement(
    state: &SessionState,
    statement: Statement,
    most: usize,
) -> Result<LogicalPlan> {
    expansion::check(state, &statement, most).await?;
    stop::check()?;
    let plan = state.statement_to_plan(statement).await?;
    stop::check()?;
    // Columns of `*` and conversions of types are in the plan only.
    plan_size::check(&plan, most.saturating_mul(2))?;
    Ok(plan)
}
