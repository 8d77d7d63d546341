//! Tests of the aggregates inside DataFusion: grouping, two phases, filters, sliding frames, constants, planning errors.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::harness::{Counts, counts, counts_field};

const ROWS: i64 = 3000;

/// A table of `position`, the counts `a` (N = 8) and `b` (N = 6), and the same counts without N, in many batches.
fn context(partitions: usize) -> SessionContext {
    let row = |position: i64, copies: i32, missing: i64| -> Counts {
        if position % 97 == 13 {
            return None;
        }
        let called = if position % missing == 0 {
            copies - 2
        } else {
            copies
        };
        let derived = ((position * position + position / 7) % i64::from(called + 1)) as i32;
        let third = i32::from(position % 11 == 0).min(derived);
        Some(vec![called - derived, derived - third, third])
    };
    let fields = vec![
        Field::new("position", DataType::Int64, false),
        counts_field("a", Some("8")),
        counts_field("b", Some("6")),
        counts_field("bare", None),
    ];
    let schema = Arc::new(Schema::new(fields));
    let batches: Vec<RecordBatch> = (0..ROWS / 100)
        .map(|batch| {
            // Gaps between positions, so that RANGE frames can be empty.
            let positions: Vec<i64> = (batch * 100..batch * 100 + 100)
                .map(|i| i + i / 50 * 20)
                .collect();
            let column = |copies, missing| -> ArrayRef {
                let rows = positions
                    .iter()
                    .map(|&position| row(position, copies, missing));
                counts(&rows.collect::<Vec<_>>())
            };
            let (a, b) = (column(8, 5), column(6, 3));
            let columns: Vec<ArrayRef> =
                vec![Arc::new(Int64Array::from(positions)), Arc::clone(&a), b, a];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        })
        .collect();
    let parts = batches
        .chunks(batches.len().div_ceil(partitions))
        .map(<[_]>::to_vec)
        .collect();
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(64);
    if partitions > 1 {
        // DataFusion skips the partial phase early, so that states are made row by row.
        let options = &mut config.options_mut().execution;
        options.skip_partial_aggregation_probe_rows_threshold = 100;
        options.skip_partial_aggregation_probe_ratio_threshold = 0.05;
    }
    let context = SessionContext::new_with_config(config);
    context
        .register_table("t", Arc::new(MemTable::try_new(schema, parts).unwrap()))
        .unwrap();
    super::all()
        .into_iter()
        .for_each(|udaf| context.register_udaf(udaf));
    context
}

async fn run(context: &SessionContext, sql: &str) -> Result<String> {
    let batches = context.sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}

/// Every aggregate, of the rows of table `$`.
const CALLS: [&str; 31] = [
    "sfs($.a)",
    "sfs_folded($.b)",
    "project_sfs($.a, 5)",
    "project_sfs_folded($.bare, 2 + 2)",
    "joint_sfs($.a, $.b)",
    "joint_sfs_folded($.a, $.b)",
    "project_joint_sfs($.a, $.b, 3, 2::int)",
    "project_joint_sfs_folded($.bare, $.b, 3, 3)",
    "diversity($.a)",
    "divergence($.a, $.b)",
    "theta_w($.bare)",
    "segregating_sites($.a)",
    "tajimas_d($.a)",
    "tajimas_d($.a, 8)",
    "fst_hudson($.a, $.b)",
    "exact_sum($.position * 0.1)",
    "net_divergence($.a, $.b)",
    "f2($.a, $.b)",
    "f3($.a, $.b, $.bare)",
    "f3_normalized($.b, $.a, $.bare)",
    "f4($.a, $.b, $.bare, $.b)",
    "patterson_d($.a, $.b, $.bare, $.b)",
    "f_d($.b, $.a, $.bare, $.b)",
    "fst_nei($.a, $.b)",
    "fst_nei($.a, $.b, $.bare, $.b, $.a)",
    "jost_d($.a, $.b, $.b)",
    "pbs($.a, $.b, $.bare)",
    "pbs_n1($.b, $.a, $.bare)",
    "shared_polymorphism($.a, $.b)",
    "private_alleles($.b, $.a)",
    "jackknife($.position * 0.1, $.position / 7.0, $.position)",
];

/// The calls on `table`, each with `over` and a name.
fn calls(table: &str, over: &str) -> String {
    let columns = CALLS.iter().enumerate();
    let columns = columns.map(|(at, call)| format!("{}{over} AS c{at}", call.replace('$', table)));
    columns.collect::<Vec<_>>().join(", ")
}

async fn same_with_one_and_many_partitions(sql: &str) {
    let one = run(&context(1), sql).await.unwrap();
    for partitions in [2, 16] {
        assert_eq!(run(&context(partitions), sql).await.unwrap(), one, "{sql}");
    }
}

#[tokio::test]
async fn partitions_do_not_show() {
    same_with_one_and_many_partitions(&format!("SELECT {} FROM t", calls("t", ""))).await;
    for key in ["position / 100", "position % 700", "position"] {
        let calls = calls("t", "");
        let sql = format!("SELECT {key} AS key, {calls} FROM t GROUP BY key ORDER BY key");
        same_with_one_and_many_partitions(&sql).await;
    }
    let sql = "SELECT sfs(a) FILTER (WHERE position < 90), diversity(a) FILTER (WHERE false), \
               sfs(a) FILTER (WHERE false), fst_hudson(a, b) FILTER (WHERE false) FROM t";
    same_with_one_and_many_partitions(sql).await;
}

#[tokio::test]
async fn sliding_frames_are_recomputation() {
    let context = context(1);
    let sliding = format!(
        "SELECT position, {} FROM t WINDOW w AS (ORDER BY position RANGE BETWEEN 7 PRECEDING AND \
         CURRENT ROW) ORDER BY position",
        calls("t", " OVER w")
    );
    let joined = format!(
        "SELECT t.position, {} FROM t JOIN t AS other ON other.position BETWEEN t.position - 7 \
         AND t.position GROUP BY t.position ORDER BY t.position",
        calls("other", "")
    );
    assert_eq!(
        run(&context, &sliding).await.unwrap(),
        run(&context, &joined).await.unwrap()
    );
}

#[tokio::test]
async fn empty_frames() {
    let sql = "SELECT count(*) FILTER (WHERE n = 0) AS empty, \
               count(*) FILTER (WHERE n = 0 AND s IS NULL AND p IS NULL AND j IS NULL) AS spectra, \
               count(*) FILTER (WHERE n = 0 AND d = 0 AND e = 0 AND k = 0 AND x = 0) AS sums, \
               count(*) FILTER (WHERE n = 0 AND f IS NULL AND t IS NULL) AS ratios, \
               count(*) FILTER (WHERE n > 0 AND s IS NULL) AS wrong \
               FROM (SELECT count(*) OVER w AS n, sfs(a) OVER w AS s, project_sfs(a, 2) OVER w AS p, \
               joint_sfs(a, b) OVER w AS j, diversity(a) OVER w AS d, divergence(a, b) OVER w AS e, \
               segregating_sites(a) OVER w AS k, exact_sum(position) OVER w AS x, \
               fst_hudson(a, b) OVER w AS f, tajimas_d(a) OVER w AS t FROM t \
               WINDOW w AS (ORDER BY position RANGE BETWEEN 12 PRECEDING AND 5 PRECEDING)) AS q";
    let found = run(&context(1), sql).await.unwrap();
    let numbers: Vec<i64> = found
        .lines()
        .nth(3)
        .unwrap()
        .split('|')
        .filter_map(|cell| cell.trim().parse().ok())
        .collect();
    let [empty, spectra, sums, ratios, wrong] = numbers[..] else {
        panic!("{found}")
    };
    assert!(empty > 0, "{found}");
    assert_eq!(
        [spectra, sums, ratios, wrong],
        [empty, empty, empty, 0],
        "{found}"
    );
}

#[tokio::test]
async fn growing_frames() {
    let context = context(1);
    let sql = "SELECT segregating_sites(a) OVER w AS s, sfs(a) OVER w AS f FROM t \
               WINDOW w AS (ORDER BY position) ORDER BY position DESC LIMIT 1";
    let all = "SELECT segregating_sites(a) AS s, sfs(a) AS f FROM t";
    assert_eq!(
        run(&context, sql).await.unwrap(),
        run(&context, all).await.unwrap()
    );
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let context = context(4);
    for (sql, parts) in [
        (
            "SELECT sfs(bare) FROM t",
            &["project_sfs", "GROUP BY derived_count"][..],
        ),
        (
            "SELECT joint_sfs(a, bare) FROM t",
            &["project_joint_sfs", "GROUP BY"],
        ),
        ("SELECT project_sfs(a, 9) FROM t", &["from 1 to 8"]),
        ("SELECT project_sfs(a, 0) FROM t", &["from 1 to 8"]),
        (
            "SELECT project_sfs(a, NULL) FROM t",
            &["constant whole number"],
        ),
        (
            "SELECT project_sfs(a, position) FROM t",
            &["constant whole number"],
        ),
        (
            "SELECT project_sfs(a) FROM t",
            &["write project_sfs(ac, m) or"],
        ),
        ("SELECT project_sfs(a, 'YRI') FROM t", &["whole number"]),
        ("SELECT diversity(position) FROM t", &["list of integers"]),
        ("SELECT diversity(DISTINCT a), sfs(a) FROM t", &["DISTINCT"]),
    ] {
        let error = run(&context, sql).await.unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{sql}: {error}");
        }
    }
}
