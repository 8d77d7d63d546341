//! `filter_calls` against values that numpy computed (`tests/fixtures/filter_calls.py`): in the scan and on columns of genotypes, with
//! any partitions and batches; and what is refused.

use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};

use crate::common;
use crate::golden::{objects, read_json};
use crate::partitions::bits;

/// Numbers of partitions and rows of a batch.
const SESSIONS: [(usize, usize); 4] = [(1, 8192), (2, 64), (16, 7), (3, 1)];

async fn table(store: &str, partitions: usize, batch_size: usize) -> SessionContext {
    let ctx = common::session(partitions, batch_size);
    let folder = common::fixtures();
    let name = store.split('.').next().unwrap();
    let populations = folder.join(format!("{name}.populations.tsv"));
    common::create(&ctx, "t", &folder.join(store), Some(&populations)).await;
    ctx
}

/// Makes the table `m` of the genotypes, fields and sites of `t`, held as columns.
async fn materialise(ctx: &SessionContext) {
    common::run(
        ctx,
        "CREATE TABLE m AS SELECT *, row_number() OVER (ORDER BY variant_contig, variant_position) AS number FROM t",
    )
    .await;
}

async fn explained(ctx: &SessionContext, sql: &str) -> String {
    let batches = common::run(ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
    let plans = batches.iter().flat_map(|batch| {
        let plans = batch.column(1).as_string::<i32>();
        plans
            .iter()
            .flatten()
            .map(str::to_string)
            .collect::<Vec<_>>()
    });
    plans.last().unwrap()
}

/// What `filter_calls.json` has of a case, found in the table `t`: `numbered` adds the row's number to it.
async fn found(ctx: &SessionContext, filtered: &str, from: &str, first: bool) -> Value {
    let sums = |name: &str, counts: &str, weight: &str, k: usize| {
        let of = |allele| format!("sum({counts}[{allele}] * {weight})");
        let all: Vec<String> = (1..=k).map(of).collect();
        format!("[{}] AS {name}", all.join(", "))
    };
    let k = common::row(
        ctx,
        "SELECT cardinality(allele_counts(call_genotype)) FROM t LIMIT 1",
    )
    .await;
    let k: usize = k[0].to_string().parse().unwrap();
    let mut columns = vec![sums("ac", "a", "1", k), sums("weighted", "a", "number", k)];
    let mut counts = vec![
        format!("allele_counts({filtered}) AS a"),
        format!("genotype_counts({filtered}) AS g"),
    ];
    if first {
        columns.push(sums("first", "f", "number", k));
        counts.push(format!("allele_counts({filtered}, 'first') AS f"));
    }
    let classes = ["hom_ref", "het", "hom_alt", "haploid", "missing"];
    let classes = classes.map(|class| format!("sum(g['{class}']) AS {class}"));
    let sql = format!(
        "SELECT {}, {} FROM (SELECT number, {} FROM {from})",
        columns.join(", "),
        classes.join(", "),
        counts.join(", ")
    );
    let mut values = objects(&common::run(ctx, &sql).await).pop().unwrap();
    let classes = ["hom_ref", "het", "hom_alt", "haploid", "missing"];
    let classes = classes.map(|class| (class.to_string(), values.remove(class).unwrap()));
    values.insert(
        "genotype_counts".to_string(),
        Value::Object(classes.into_iter().collect()),
    );
    let sql = format!("SELECT {filtered} AS g FROM {from} ORDER BY number LIMIT 2");
    let rows = objects(&common::run(ctx, &sql).await);
    let rows: Vec<&Value> = rows.iter().map(|row| &row["g"]).collect();
    values.insert("rows".to_string(), json!(rows));
    Value::Object(values)
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_those_of_numpy() {
    let expected = read_json(&common::fixtures().join("filter_calls.json"));
    let numbered = "(SELECT *, row_number() OVER (ORDER BY variant_contig, variant_position) AS number FROM t)";
    for (store, cases) in expected.as_object().unwrap() {
        for (at, (partitions, batch_size)) in SESSIONS.into_iter().take(3).enumerate() {
            let ctx = table(store, partitions, batch_size).await;
            if at < 2 {
                materialise(&ctx).await;
            }
            for case in cases.as_array().unwrap() {
                let filtered = case["sql"].as_str().unwrap();
                let place = format!("{store}, {filtered}, {partitions} partitions");
                assert_eq!(
                    found(&ctx, filtered, numbered, true).await,
                    without_sql(case),
                    "{place}"
                );
                if at < 2 {
                    // Populations are names of the table `t`, which is not in the query.
                    let mut case = without_sql(case);
                    case.as_object_mut().unwrap().remove("first");
                    assert_eq!(
                        found(&ctx, filtered, "m", false).await,
                        case,
                        "{place}, columns"
                    );
                }
            }
        }
    }
}

fn without_sql(case: &Value) -> Value {
    let mut case = case.clone();
    case.as_object_mut().unwrap().remove("sql");
    case
}

/// Every function that takes genotypes takes filtered ones; all in one scan, which gives the same bits whatever its partitions.
#[tokio::test(flavor = "multi_thread")]
async fn every_function_in_any_partitions_and_batches() {
    let f = "filter_calls(filter_calls(call_genotype, call_GQ, 20, NULL), call_DP, 5, 60000)";
    let half = "filter_calls(call_genotype, call_value(call_AD, 2), NULL, 30)";
    let queries = [
        format!(
            "SELECT allele_counts({f}), allele_counts({f}, 'first'), population_counts({f}), population_pair_counts({f}),
                    genotype_counts({f}, 'second'), zygosity_counts({f}), select_samples({f}, ['s11', 's02', 's03']), {f},
                    allele_counts(select_samples({f}, 'second'), ['s07', 's09']), allele_counts(call_genotype, 'first'),
                    allele_counts({half}), call_GQ
             FROM t ORDER BY variant_contig, variant_position"
        ),
        format!(
            "SELECT variant_contig, genome_bin(variant_position, 500), diversity({f}, 'first'), theta_w({f}), sfs({f}, 'second'),
                    project_sfs({f}, 4), fst_hudson({f}, 'first', 'second'), tajimas_d({half}), diversity(call_genotype)
             FROM t GROUP BY 1, 2 ORDER BY 1, 2"
        ),
        format!(
            "SELECT variant_position, diversity({f}) OVER w, theta_w({half}, 'first') OVER w, divergence({f}, 'first', 'second') OVER w
             FROM t WINDOW w AS (PARTITION BY variant_contig ORDER BY variant_position ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
             ORDER BY variant_contig, variant_position"
        ),
        format!(
            "SELECT start, segregating_sites({f}) FROM
               (SELECT unnest(genome_bins(variant_position, 1000, 250)) AS start, call_genotype, call_GQ, call_DP FROM t)
             GROUP BY start ORDER BY start"
        ),
        format!(
            "SELECT count(*) FROM t WHERE is_segregating(allele_counts({f}, 'first')) AND variant_position BETWEEN 300 AND 2500"
        ),
    ];
    for sql in &queries {
        let mut wanted = None;
        for (partitions, batch_size) in SESSIONS {
            let ctx = table("filters.vcz.zip", partitions, batch_size).await;
            let found = bits(&ctx, sql).await;
            let wanted = wanted.get_or_insert_with(|| found.clone());
            assert_eq!(
                found.rows, wanted.rows,
                "{sql}\n{}\n{}",
                found.text, wanted.text
            );
            if partitions > 2 {
                continue; // DataFusion may put a repartition between the scan and a projection above it.
            }
            let plan = explained(&ctx, sql).await;
            let mut scans = plan.lines().filter(|line| line.contains("VczSource"));
            let scan = scans.next().unwrap();
            let functions = scan
                .split_once("functions=[filter")
                .or(scan.split_once("functions=[allele_counts(filter"));
            let (columns, _) = functions.unwrap_or_else(|| panic!("{sql}\n{plan}"));
            assert!(
                !columns.contains("call_genotype") && !columns.contains("call_DP"),
                "{sql}\n{plan}"
            );
        }
    }
    // A scan of one pass: each array over samples is read once.
    let ctx = table("filters.vcz.zip", 1, 8192).await;
    let batches = common::run(&ctx, &format!("EXPLAIN ANALYZE SELECT sum(allele_counts({f})[1]), sum(allele_counts(call_genotype)[1]), \
        sum(genotype_counts({f})['het']) FROM t")).await;
    let text = format!("{:?}", batches[0].column(1));
    // 3 × 3 chunks of genotypes, 3 of call_GQ, 2 × 4 of call_DP.
    assert!(text.contains("chunks_read=20"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_without_bounds_change_calls_without_values_only() {
    for (store, field, fields) in [
        ("filters.vcz.zip", "call_GQ", "call_GQ"),
        ("filters.vcz.zip", "call_F4", "call_F4"),
        ("filters.vcz.zip", "call_U2", "call_U2"),
        ("filters.vcz.zip", "call_FLAG", "call_FLAG"),
        ("filters.vcz.zip", "call_value(call_AD, 3)", "call_AD"),
        ("missing.vcz.zip", "call_GL", "call_GL"),
    ] {
        let ctx = table(store, 2, 50).await;
        let open = [
            format!("filter_calls(call_genotype, {field})"),
            format!("filter_calls(call_genotype, {field}, NULL)"),
            format!("filter_calls(call_genotype, {field}, NULL, NULL)"),
        ];
        let counts = open.clone().map(|open| format!("genotype_counts({open})"));
        let found = bits(
            &ctx,
            &format!("SELECT {}, {}, {} FROM t", counts[0], counts[1], counts[2]),
        )
        .await;
        assert_eq!(found.batch.column(0), found.batch.column(1), "{field}");
        assert_eq!(found.batch.column(0), found.batch.column(2), "{field}");
        // Calls that differ, against values that are NULL, of existing copies.
        let sql = format!(
            "SELECT (SELECT count(*) FROM (SELECT unnest(x) AS x, unnest(g) AS g, unnest(v) AS v FROM
                       (SELECT {open} AS x, call_genotype AS g, {field} AS v FROM (SELECT call_genotype, {fields} FROM t)))
                     WHERE (x <> g) AND v IS NOT NULL) AS changed,
                    (SELECT count(*) FROM (SELECT unnest(x) AS x, unnest(v) AS v FROM
                       (SELECT {open} AS x, {field} AS v FROM t)) WHERE v IS NULL AND x[1] <> -1) AS kept",
            open = open[0]
        );
        let row = common::row(&ctx, &sql).await;
        for count in row {
            assert_eq!(count, Some(0i64).into(), "{field}");
        }
    }
}

/// Calls that are moved into the branches of a UNION take their filters along, and rows of stores of the same shape can be united.
#[tokio::test(flavor = "multi_thread")]
async fn unions_and_joins() {
    let ctx = table("filters.vcz.zip", 2, 50).await;
    let f = "filter_calls(call_genotype, call_GQ, 20)";
    let one = common::row(
        &ctx,
        &format!("SELECT sum(allele_counts({f}, 'first')[2]) FROM t"),
    )
    .await;
    let other = common::renamed_samples("filters.vcz.zip", "renamed_filters.vcz");
    common::create(&ctx, "other", &other, None).await;
    let twice = common::row(
        &ctx,
        &format!(
            "SELECT sum(allele_counts({f}, 'first')[2]) / 2 FROM (SELECT * FROM t UNION ALL SELECT * FROM t WHERE variant_position > 0)"
        ),
    )
    .await;
    assert_eq!(one[0].to_string(), twice[0].to_string());
    let all = common::row(&ctx, &format!("SELECT sum(allele_counts({f})[2]) FROM t")).await;
    let both = common::row(
        &ctx,
        &format!("SELECT sum(allele_counts({f})[2]) / 2 FROM (SELECT call_genotype, call_GQ FROM t UNION ALL SELECT call_genotype, call_GQ FROM other)"),
    )
    .await;
    assert_eq!(all[0].to_string(), both[0].to_string());
    // Rows of the same store, joined.
    let joined = common::row(
        &ctx,
        "SELECT sum(allele_counts(filter_calls(a.call_genotype, b.call_GQ, 20))[2]) FROM t a JOIN t b
         ON a.variant_contig = b.variant_contig AND a.variant_position = b.variant_position",
    )
    .await;
    assert_eq!(joined, all);
    // An outer join without a partner gives NULL.
    let none = common::row(
        &ctx,
        "SELECT count(allele_counts(filter_calls(b.call_genotype, b.call_GQ, 20))) FROM t a LEFT JOIN t b
         ON a.variant_position = b.variant_position + 1",
    )
    .await;
    assert_eq!(none[0], Some(0i64).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_while_planning() {
    let ctx = table("filters.vcz.zip", 2, 50).await;
    let other = common::renamed_samples("filters.vcz.zip", "other_filters.vcz");
    common::create(&ctx, "other", &other, None).await;
    for (call, expected) in [
        (
            "filter_calls(call_genotype, variant_position, 5)",
            "one value for each call",
        ),
        (
            "filter_calls(call_genotype, variant_allele, 'A')",
            "one value for each call",
        ),
        ("filter_calls(call_genotype, 20)", "one value for each call"),
        (
            "filter_calls(call_genotype, call_AD, 5)",
            "call_value(call_AD, 1)",
        ),
        (
            "filter_calls(call_genotype, call_genotype, 0)",
            "choose one of them",
        ),
        ("filter_calls(call_GQ, call_GQ, 5)", "must be genotypes"),
        ("filter_calls(call_genotype)", "found 1 arguments"),
        (
            "filter_calls(call_genotype, call_GQ, 1, 2, 3)",
            "found 5 arguments",
        ),
        (
            "filter_calls(call_genotype, call_GQ, 'x')",
            "compared with numbers",
        ),
        (
            "filter_calls(call_genotype, call_GQ, true)",
            "compared with numbers",
        ),
        (
            "filter_calls(call_genotype, call_FT, 5)",
            "compared with a string",
        ),
        (
            "filter_calls(call_genotype, call_FT, 'a', 'b')",
            "found a second",
        ),
        ("filter_calls(call_genotype, call_FLAG, 1)", "true or false"),
        (
            "filter_calls(call_genotype, call_GQ, 30, 20)",
            "at least 30 and at most 20",
        ),
        (
            "filter_calls(call_genotype, call_GQ, variant_position)",
            "expected a constant",
        ),
        (
            "filter_calls(call_genotype, call_GQ, (SELECT 5))",
            "expected a constant",
        ),
        (
            "filter_calls(select_samples(call_genotype, 'first'), call_GQ, 5)",
            "filter the calls first",
        ),
        (
            "filter_calls(call_genotype, call_value(call_AD, 0), 5)",
            "numbered from 1",
        ),
        (
            "filter_calls(call_genotype, call_value(call_AD, 4), 5)",
            "found 4",
        ),
        (
            "filter_calls(call_genotype, call_value(call_GQ, 1), 5)",
            "several values for each call",
        ),
        (
            "filter_calls(call_genotype, call_value(call_AD, variant_position), 5)",
            "expected a constant",
        ),
        ("filter_calls(call_genotype, call_NO, 5)", "call_NO"),
    ] {
        let sql = format!("SELECT allele_counts({call}) FROM t");
        let planned = match ctx.sql(&sql).await {
            Ok(frame) => frame.create_physical_plan().await.map(|_| ()),
            Err(error) => Err(error),
        };
        let error = planned.unwrap_err().to_string();
        assert!(error.contains(expected), "{call}: {error}");
    }
    let sql = "SELECT allele_counts(filter_calls(t.call_genotype, other.call_GQ, 20)) FROM t JOIN other USING (variant_position)";
    let error = ctx.sql(sql).await.unwrap_err().to_string();
    assert!(
        error.contains("its own store") && error.contains("other_filters"),
        "{error}"
    );
    // Bounds may be computed, as long as they are constants.
    let sum = |bound: &str| {
        format!(
            "SELECT sum(allele_counts(filter_calls(call_genotype, call_GQ, {bound}))[1]) FROM t"
        )
    };
    let wanted = common::row(&ctx, &sum("20")).await;
    assert_eq!(common::row(&ctx, &sum("10 + 10")).await, wanted);
    assert_eq!(common::row(&ctx, &sum("CAST('20' AS INT)")).await, wanted);
    assert_eq!(common::row(&ctx, &sum("20.0")).await, wanted);
}

/// Filtered genotypes in a Parquet file, and fields beside genotypes there.
#[tokio::test(flavor = "multi_thread")]
async fn columns_in_files() {
    let ctx = table("filters.vcz.zip", 2, 50).await;
    let path = common::work_dir().join("filters.parquet");
    let path: &Path = &path;
    let f = "filter_calls(filter_calls(call_genotype, call_F4, -20.5, 30), call_FT, 'PASS')";
    common::run(
        &ctx,
        &format!("COPY (SELECT call_genotype, call_F4, call_FT, call_AD, {f} AS filtered FROM t) TO '{}' STORED AS PARQUET", path.display()),
    )
    .await;
    common::run(
        &ctx,
        &format!(
            "CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION '{}'",
            path.display()
        ),
    )
    .await;
    for (in_table, in_file) in [
        (f, f),
        (f, "filtered"),
        (
            "filter_calls(call_genotype, call_value(call_AD, 2), 7)",
            "filter_calls(call_genotype, call_value(call_AD, 2), 7)",
        ),
    ] {
        let query = |call: &str, from: &str| {
            format!(
                "SELECT sum(g['het']), sum(g['missing']), sum(g['hom_alt']) FROM (SELECT genotype_counts({call}) AS g FROM {from})"
            )
        };
        let wanted = common::row(&ctx, &query(in_table, "t")).await;
        assert_eq!(
            common::row(&ctx, &query(in_file, "p")).await,
            wanted,
            "{in_file}"
        );
    }
    let rows = common::run(&ctx, "SELECT count(*) FROM p").await;
    assert!(rows[0].column(0).as_primitive::<Int64Type>().value(0) > 0);
}
