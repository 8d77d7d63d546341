//! Decides which statements run for a client, on the logical plan before it is optimised or executed. Denies by default: a plan is
//! allowed only if each of its nodes, including those of subqueries and below EXPLAIN, is of a kind that is listed here.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    DdlStatement, DescribeTable, LogicalPlan, ResetVariable, SetVariable, Statement,
};
use datafusion::sql::parser::Statement as Parsed;

/// A statement that may run.
#[derive(Debug)]
pub enum Allowed {
    /// A query, which changes nothing.
    Query,
    /// DESCRIBE.
    Describe(DescribeTable),
    /// SET; the setting and the value are checked when it runs.
    Set(SetVariable),
    /// RESET.
    Reset(ResetVariable),
    /// CREATE or DROP of a view, a table in memory or a schema.
    Ddl,
}

/// Refuses COPY before it is planned, because planning looks for the format of its file first, and servers have none.
///
/// # Errors
/// A planning error that says so.
pub fn check_statement(statement: &Parsed) -> Result<()> {
    match statement {
        Parsed::CopyTo(_) => plan_err!(
            "COPY is not allowed: the server is read-only and writes no files; run the query, and write its rows where the client is"
        ),
        Parsed::Explain(explain) => check_statement(&explain.statement),
        _ => Ok(()),
    }
}

/// What kind of statement `plan` is, if it may run.
///
/// # Errors
/// A planning error that names what is not allowed.
pub fn check(plan: &LogicalPlan, allow_ddl: bool) -> Result<Allowed> {
    match plan {
        LogicalPlan::DescribeTable(describe) => Ok(Allowed::Describe(describe.clone())),
        LogicalPlan::Statement(Statement::SetVariable(set)) => Ok(Allowed::Set(set.clone())),
        LogicalPlan::Statement(Statement::ResetVariable(reset)) => {
            Ok(Allowed::Reset(reset.clone()))
        }
        LogicalPlan::Ddl(ddl) => {
            check_ddl(ddl, allow_ddl)?;
            plan.inputs().into_iter().try_for_each(check_query)?;
            Ok(Allowed::Ddl)
        }
        _ => {
            check_query(plan)?;
            Ok(Allowed::Query)
        }
    }
}

/// Checks that every node of `plan` only reads.
fn check_query(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_) => Ok(TreeNodeRecursion::Continue),
        LogicalPlan::Dml(dml) => refuse(&format!("{} is", dml.op)),
        LogicalPlan::Copy(_) => refuse("COPY is"),
        LogicalPlan::Ddl(ddl) => refuse(&format!("{} here is", keywords(ddl))),
        LogicalPlan::Statement(Statement::Prepare(_) | Statement::Execute(_) | Statement::Deallocate(_)) => plan_err!(
            "PREPARE, EXECUTE and DEALLOCATE are not run by this server; use the prepared statements of the Flight SQL client"
        ),
        LogicalPlan::Statement(statement) => refuse(&format!("{} here is", statement.name())),
        LogicalPlan::DescribeTable(_) => refuse("DESCRIBE inside another statement is"),
        LogicalPlan::Extension(extension) => refuse(&format!("the plan node {} is", extension.node.name())),
    })
    .map(drop)
}

fn check_ddl(ddl: &DdlStatement, allow_ddl: bool) -> Result<()> {
    match ddl {
        DdlStatement::CreateView(_)
        | DdlStatement::CreateMemoryTable(_)
        | DdlStatement::CreateCatalogSchema(_)
        | DdlStatement::DropTable(_)
        | DdlStatement::DropView(_)
        | DdlStatement::DropCatalogSchema(_)
            if allow_ddl =>
        {
            Ok(())
        }
        DdlStatement::CreateView(_)
        | DdlStatement::CreateMemoryTable(_)
        | DdlStatement::CreateCatalogSchema(_)
        | DdlStatement::DropTable(_)
        | DdlStatement::DropView(_)
        | DdlStatement::DropCatalogSchema(_) => {
            plan_err!(
                "{} is not allowed: the server is read-only; its operator can allow it with --allow-ddl",
                keywords(ddl)
            )
        }
        DdlStatement::CreateExternalTable(_) => plan_err!(
            "CREATE EXTERNAL TABLE is not allowed: a client cannot name files; the operator registers tables with --sql"
        ),
        _ => plan_err!("{} is not allowed on this server", keywords(ddl)),
    }
}

/// A statement as it is written in SQL.
fn keywords(ddl: &DdlStatement) -> &str {
    match ddl {
        DdlStatement::CreateView(_) => "CREATE VIEW",
        DdlStatement::CreateMemoryTable(_) => "CREATE TABLE",
        DdlStatement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE",
        DdlStatement::CreateCatalogSchema(_) => "CREATE SCHEMA",
        DdlStatement::CreateCatalog(_) => "CREATE DATABASE",
        DdlStatement::CreateFunction(_) => "CREATE FUNCTION",
        DdlStatement::DropTable(_) => "DROP TABLE",
        DdlStatement::DropView(_) => "DROP VIEW",
        DdlStatement::DropCatalogSchema(_) => "DROP SCHEMA",
        DdlStatement::DropFunction(_) => "DROP FUNCTION",
        other => other.name(),
    }
}

fn refuse(what: &str) -> Result<TreeNodeRecursion> {
    plan_err!("{what} not allowed: the server is read-only")
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    /// A session with all of DataFusion, so that refusals come from the policy.
    async fn plan(sql: &str) -> LogicalPlan {
        let config = SessionConfig::new().with_information_schema(true);
        let ctx = SessionContext::new_with_config(config);
        ctx.sql("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
            .await
            .unwrap();
        let state = ctx.state();
        state
            .create_logical_plan(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    #[tokio::test]
    async fn queries_pass() {
        for sql in [
            "SELECT a, count(*) OVER () FROM t WHERE a IN (SELECT a FROM t) ORDER BY a LIMIT 1",
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
            "SELECT DISTINCT unnest([1, 2]) UNION ALL SELECT a FROM t",
            "VALUES (1), (2)",
            "EXPLAIN SELECT * FROM t",
            "EXPLAIN ANALYZE SELECT * FROM t JOIN t AS u ON t.a = u.a",
            "SHOW TABLES",
            "SHOW datafusion.execution.batch_size",
        ] {
            assert!(
                matches!(check(&plan(sql).await, false), Ok(Allowed::Query)),
                "{sql}"
            );
        }
        assert!(matches!(
            check(&plan("DESCRIBE t").await, false),
            Ok(Allowed::Describe(_))
        ));
        assert!(matches!(
            check(&plan("SET a.b = 1").await, false),
            Ok(Allowed::Set(_))
        ));
        assert!(matches!(
            check(&plan("RESET a.b").await, false),
            Ok(Allowed::Reset(_))
        ));
    }

    #[tokio::test]
    async fn writes_never_pass() {
        for sql in [
            "INSERT INTO t VALUES (1, 'y')",
            "EXPLAIN INSERT INTO t VALUES (1, 'y')",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (1, 'y')",
            "DELETE FROM t",
            "UPDATE t SET a = 2",
            "TRUNCATE t",
            "COPY t TO '/tmp/x.csv'",
            "EXPLAIN COPY t TO '/tmp/x.csv'",
            "EXPLAIN ANALYZE COPY t TO '/tmp/x.csv'",
            "PREPARE p AS SELECT 1",
            "PREPARE p AS INSERT INTO t VALUES (1, 'y')",
            "EXECUTE p",
            "DEALLOCATE p",
            "START TRANSACTION",
            "COMMIT",
            "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
            "EXPLAIN CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
            "EXPLAIN SET a.b = 1",
            "CREATE FUNCTION f(INT) RETURNS INT RETURN $1 + 1",
            "CREATE DATABASE d",
        ] {
            let plan = plan(sql).await;
            for allow_ddl in [false, true] {
                assert!(check(&plan, allow_ddl).is_err(), "{sql}");
            }
        }
    }

    #[tokio::test]
    async fn ddl_only_when_allowed() {
        for sql in [
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE TABLE u AS SELECT * FROM t",
            "DROP TABLE t",
            "DROP VIEW v",
            "CREATE SCHEMA s",
        ] {
            let plan = plan(sql).await;
            let error = check(&plan, false).unwrap_err().to_string();
            assert!(error.contains("--allow-ddl"), "{sql}: {error}");
            assert!(matches!(check(&plan, true), Ok(Allowed::Ddl)), "{sql}");
        }
    }
}
