//! What this crate relies on in DataFusion without an interface for it. These tests use no code of this crate: one that fails after an
//! upgrade names what has to change here.

use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;

/// `session::extract_calls` gives calls that it moves the alias prefix of DataFusion's own leaf extraction, because DataFusion pushes only
/// projections with that prefix below other operators.
#[tokio::test]
async fn extracted_expressions_have_the_prefix_that_is_expected() {
    let ctx = SessionContext::new();
    let run = async |sql: &str| ctx.sql(sql).await.unwrap().collect().await.unwrap();
    run("CREATE TABLE t AS SELECT 1 AS a, named_struct('h', 2) AS s").await;
    let plan = run("EXPLAIN SELECT a FROM t WHERE s['h'] > 1 AND s['h'] < a").await;
    let plan = pretty_format_batches(&plan).unwrap().to_string();
    assert!(
        plan.contains("AS __datafusion_extracted_1"),
        "DataFusion names extracted expressions otherwise: change EXTRACTED in src/session/extract_calls.rs\n{plan}"
    );
}

/// `session` replaces rules of DataFusion's optimizer by their names; a name that is not there any more would replace nothing.
#[test]
fn the_rules_that_are_replaced_are_there() {
    let rules = datafusion::optimizer::Optimizer::new().rules;
    for (name, file) in [
        ("push_down_leaf_projections", "leaf_pushdown.rs"),
        ("common_sub_expression_eliminate", "keep_cohorts.rs"),
        ("eliminate_duplicated_expr", "keys.rs"),
        ("replace_distinct_aggregate", "keys.rs"),
        ("eliminate_join", "keys.rs"),
        ("optimize_projections", "keys.rs"),
    ] {
        assert!(
            rules.iter().any(|rule| rule.name() == name),
            "DataFusion has no rule '{name}': change src/session/{file}"
        );
    }
}
