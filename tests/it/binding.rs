//! Columns never meet another store's samples or another population's number of copies: through Parquet, CREATE TABLE AS, INSERT, UNION,
//! views, and stores registered again. Each case is the right answer or an error that says what to do.

use std::path::Path;

use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;

use crate::common::{create, fails, fixtures, plain_session, row, row_of, run, work_dir};

/// A session with the fixtures `x` (sim, 30 diploids) and `y` (chunks7, 33 diploids), and their populations.
async fn two_stores() -> SessionContext {
    let ctx = plain_session();
    register(&ctx, "x", "sim").await;
    register(&ctx, "y", "chunks7").await;
    ctx
}

async fn register(ctx: &SessionContext, table: &str, fixture: &str) {
    let folder = fixtures();
    let populations = folder.join(format!("{fixture}.populations.tsv"));
    create(
        ctx,
        table,
        &folder.join(format!("{fixture}.vcz.zip")),
        Some(&populations),
    )
    .await;
}

async fn one(ctx: &SessionContext, sql: &str) -> ScalarValue {
    row(ctx, sql).await.remove(0)
}

async fn copy(ctx: &SessionContext, query: &str, name: &str) -> String {
    let file = work_dir().join(name);
    let path = file.display().to_string();
    run(ctx, &format!("COPY ({query}) TO '{path}'")).await;
    path
}

/// The error of a named population on a column whose store is not in the query.
fn says_what_to_do(message: &str) {
    assert!(
        message.contains("cannot be looked up")
            && message.contains("Count in the query that reads the VCZ table"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn genotypes_in_parquet_meet_no_other_stores_samples() {
    let ctx = two_stores().await;
    let whole = one(&ctx, "SELECT sfs(call_genotype) FROM x").await;
    let first = one(&ctx, "SELECT sfs(call_genotype, 'first') FROM x").await;
    let file = copy(
        &ctx,
        "SELECT variant_position, call_genotype FROM x",
        "x.parquet",
    )
    .await;
    let other = plain_session();
    register(&other, "y", "chunks7").await;
    for ctx in [&ctx, &other] {
        // Over all samples: by the column's width and metadata.
        assert_eq!(
            one(ctx, &format!("SELECT sfs(call_genotype) FROM '{file}'")).await,
            whole
        );
        for call in [
            "allele_counts(call_genotype, 'first')",
            "genotype_counts(call_genotype, ['s00'])",
            "select_samples(call_genotype, 'first')",
            "population_counts(call_genotype)",
            "population_pair_counts(call_genotype)",
            "sfs(call_genotype, 'first')",
        ] {
            says_what_to_do(&fails(ctx, &format!("SELECT {call} FROM '{file}'")).await);
        }
    }
    // With the store's table in the query its samples are proven.
    register(&other, "again", "sim").await;
    let proven = format!(
        "SELECT sfs(call_genotype, 'first') FROM '{file}' WHERE (SELECT count(*) FROM again) > 0"
    );
    assert_eq!(one(&other, &proven).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_ploidy_and_width_are_errors_or_right() {
    let ctx = plain_session();
    register(&ctx, "x", "haploid").await;
    let whole = one(&ctx, "SELECT sfs(call_genotype) FROM x").await;
    let file = copy(&ctx, "SELECT call_genotype FROM x", "haploid.parquet").await;
    let other = plain_session();
    register(&other, "y", "tetraploid").await;
    assert_eq!(
        one(&other, &format!("SELECT sfs(call_genotype) FROM '{file}'")).await,
        whole
    );
    says_what_to_do(
        &fails(
            &other,
            &format!("SELECT sfs(call_genotype, 'first') FROM '{file}'"),
        )
        .await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_made_of_queries_meet_no_other_stores_samples() {
    let ctx = two_stores().await;
    let first = one(&ctx, "SELECT sfs(call_genotype, 'first') FROM x").await;
    let whole = one(&ctx, "SELECT sfs(call_genotype) FROM x").await;
    run(
        &ctx,
        "CREATE TABLE g AS SELECT variant_position, call_genotype FROM x",
    )
    .await;
    assert_eq!(one(&ctx, "SELECT sfs(call_genotype) FROM g").await, whole);
    says_what_to_do(&fails(&ctx, "SELECT sfs(call_genotype, 'first') FROM g").await);
    // A view is its query, so it reads the table.
    run(
        &ctx,
        "CREATE VIEW v AS SELECT variant_position, call_genotype FROM x",
    )
    .await;
    assert_eq!(
        one(&ctx, "SELECT sfs(call_genotype, 'first') FROM v").await,
        first
    );
    run(
        &ctx,
        "CREATE VIEW counts AS SELECT allele_counts(call_genotype, 'first') AS ac FROM x",
    )
    .await;
    assert_eq!(one(&ctx, "SELECT sfs(ac) FROM counts").await, first);
    run(
        &ctx,
        "CREATE VIEW part AS SELECT select_samples(call_genotype, 'first') AS g FROM x",
    )
    .await;
    assert_eq!(one(&ctx, "SELECT sfs(g) FROM part").await, first);
    assert_eq!(one(&ctx, "SELECT sfs(g, 'first') FROM part").await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn united_genotypes_of_different_samples_are_nobodys() {
    let ctx = plain_session();
    register(&ctx, "x", "sim").await;
    // The same width with other sample ids: what a UNION would take for the same column.
    let renamed = crate::common::renamed_samples("sim.vcz.zip", "renamed.vcz");
    create(&ctx, "y", &renamed, None).await;
    let union = "SELECT call_genotype FROM x UNION ALL SELECT call_genotype FROM y";
    // The rows are kept, and that nobody knows whose they are.
    let both = one(&ctx, &format!("SELECT sfs(call_genotype) FROM ({union})")).await;
    run(&ctx, &format!("CREATE TABLE m AS {union}")).await;
    let file = copy(&ctx, union, "m.parquet").await;
    for table in [
        "m".to_string(),
        format!("'{file}'"),
        format!("(SELECT DISTINCT * FROM ({union}))"),
    ] {
        says_what_to_do(
            &fails(
                &ctx,
                &format!("SELECT sfs(call_genotype, 'first') FROM {table}"),
            )
            .await,
        );
        says_what_to_do(
            &fails(
                &ctx,
                &format!("SELECT sfs(call_genotype, ['s00']) FROM {table}"),
            )
            .await,
        );
    }
    for table in ["m".to_string(), format!("'{file}'")] {
        assert_eq!(
            one(&ctx, &format!("SELECT sfs(call_genotype) FROM {table}")).await,
            both
        );
    }
    assert_eq!(
        run(&ctx, union)
            .await
            .iter()
            .map(|batch| batch.num_rows())
            .sum::<usize>(),
        14804
    );
    run(&ctx, "CREATE TABLE g AS SELECT call_genotype FROM x").await;
    let message = fails(&ctx, "INSERT INTO g SELECT call_genotype FROM y").await;
    assert!(
        message.contains("other samples") && message.contains("'g'"),
        "{message}"
    );
    run(&ctx, "INSERT INTO g SELECT call_genotype FROM x").await;
    let twice = "SELECT sfs(call_genotype) FROM (SELECT call_genotype FROM x UNION ALL SELECT call_genotype FROM x)";
    assert_eq!(both, one(&ctx, twice).await);
}

/// 30 and 33 samples: stored, their genotypes are lists of different lengths, which nothing counts.
#[tokio::test(flavor = "multi_thread")]
async fn united_genotypes_of_different_widths_are_not_counted() {
    let ctx = two_stores().await;
    let union = "SELECT call_genotype FROM x UNION ALL SELECT call_genotype FROM y";
    run(&ctx, &format!("CREATE TABLE m AS {union}")).await;
    let file = copy(&ctx, union, "widths.parquet").await;
    run(
        &ctx,
        "CREATE TABLE inserted AS SELECT call_genotype FROM x UNION ALL SELECT call_genotype FROM y WHERE false",
    )
    .await;
    run(&ctx, &format!("INSERT INTO inserted {union}")).await;
    for table in [
        format!("({union})"),
        "m".to_string(),
        format!("'{file}'"),
        "inserted".to_string(),
    ] {
        for call in [
            "sfs(call_genotype)",
            "sfs(call_genotype, 'first')",
            "allele_counts(call_genotype, ['s00'])",
            "genotype_counts(call_genotype)",
            "select_samples(call_genotype, 'first')",
        ] {
            let message = fails(&ctx, &format!("SELECT {call} FROM {table}")).await;
            assert!(
                message.contains("different numbers of samples")
                    && message.contains("count them in each branch"),
                "{call} of {table}: {message}"
            );
        }
    }
    // Rows of another width, and of both, do not fit into genotypes of one store.
    run(&ctx, "CREATE TABLE g AS SELECT call_genotype FROM x").await;
    let whole = one(&ctx, "SELECT sfs(call_genotype) FROM g").await;
    for (rows, reason) in [
        // DataFusion's message, which has both widths.
        ("SELECT call_genotype FROM y", "FixedSizeList(33 x"),
        (union, "calls of other samples into column 'call_genotype'"),
    ] {
        let message = fails(&ctx, &format!("INSERT INTO g {rows}")).await;
        assert!(message.contains(reason), "{rows}: {message}");
    }
    assert_eq!(one(&ctx, "SELECT sfs(call_genotype) FROM g").await, whole);
    // What the message advises.
    let counted = "SELECT allele_counts(call_genotype) AS ac FROM x UNION ALL SELECT allele_counts(call_genotype) FROM y";
    let sites = one(
        &ctx,
        &format!("SELECT segregating_sites(ac) FROM ({counted})"),
    )
    .await;
    let alone = "SELECT (SELECT segregating_sites(call_genotype) FROM x) + (SELECT segregating_sites(call_genotype) FROM y)";
    assert_eq!(sites, one(&ctx, alone).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_different_numbers_of_copies_are_not_stored_together() {
    let ctx = two_stores().await;
    run(
        &ctx,
        "CREATE TABLE m AS SELECT allele_counts(call_genotype, 'first') AS ac FROM x",
    )
    .await;
    let message = fails(
        &ctx,
        "INSERT INTO m SELECT allele_counts(call_genotype, ['s00']) FROM x",
    )
    .await;
    assert!(
        message.contains("2 copies") && message.contains("'m'"),
        "{message}"
    );
    let message = fails(&ctx, "INSERT INTO m VALUES ([1, 2, 3])").await;
    assert!(message.contains("unknown number of copies"), "{message}");
    let before = one(&ctx, "SELECT sfs(ac)[2] FROM m").await;
    run(
        &ctx,
        "INSERT INTO m SELECT allele_counts(call_genotype, 'first') FROM x",
    )
    .await;
    let after = one(&ctx, "SELECT sfs(ac)[2] / 2 FROM m").await;
    assert_eq!(before, after);
    // United, they have no number of copies, also where they are stored: no spectrum, but everything else.
    let union = "SELECT allele_counts(call_genotype, 'first') AS ac FROM x UNION ALL SELECT allele_counts(call_genotype, ['s00']) FROM x";
    run(&ctx, &format!("CREATE TABLE u AS {union}")).await;
    let file = copy(&ctx, union, "u.parquet").await;
    let sites = one(
        &ctx,
        &format!("SELECT segregating_sites(ac) FROM ({union})"),
    )
    .await;
    for table in [format!("({union})"), "u".to_string(), format!("'{file}'")] {
        let message = fails(&ctx, &format!("SELECT sfs(ac) FROM {table}")).await;
        assert!(message.contains("needs the number of copies"), "{message}");
        assert_eq!(
            one(&ctx, &format!("SELECT segregating_sites(ac) FROM {table}")).await,
            sites
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_registered_again_is_looked_up_again() {
    let ctx = plain_session();
    register(&ctx, "t", "sim").await;
    let sim = one(&ctx, "SELECT sfs(call_genotype, 'first') FROM t").await;
    run(&ctx, "CREATE TABLE kept AS SELECT call_genotype FROM t").await;
    run(&ctx, "DROP TABLE t").await;
    register(&ctx, "t", "chunks7").await;
    let chunks7 = one(&ctx, "SELECT sfs(call_genotype, 'first') FROM t").await;
    assert_ne!(sim, chunks7);
    says_what_to_do(&fails(&ctx, "SELECT sfs(call_genotype, 'first') FROM kept").await);
    says_what_to_do(
        &fails(
            &ctx,
            "SELECT sfs(kept.call_genotype, 'first') FROM kept, (SELECT 1 FROM t LIMIT 1)",
        )
        .await,
    );
}

/// A subquery that picks the population is read while planning, wherever the call stands.
#[tokio::test(flavor = "multi_thread")]
async fn populations_by_subquery_are_bound_like_names() {
    let ctx = two_stores().await;
    let cohort =
        "(SELECT array_agg(sample_id) FROM vcz_samples('x') WHERE array_has(populations, 'first'))";
    let first = one(&ctx, "SELECT sfs(call_genotype, 'first') FROM x").await;
    for sql in [
        format!("SELECT sfs(call_genotype, {cohort}) FROM x"),
        format!("SELECT sfs(ac) FROM (SELECT allele_counts(call_genotype, {cohort}) AS ac FROM x)"),
        format!("SELECT sfs(select_samples(call_genotype, {cohort})) FROM x"),
        format!("SELECT sfs(select_samples(call_genotype, {cohort}), 'first') FROM x"),
    ] {
        assert_eq!(one(&ctx, &sql).await, first, "{sql}");
    }
    let union = "SELECT * FROM x WHERE variant_contig = 'chr1' UNION ALL SELECT * FROM x WHERE variant_contig <> 'chr1'";
    let sql = format!("SELECT sfs(call_genotype, {cohort}) FROM ({union})");
    assert_eq!(one(&ctx, &sql).await, first);
}

/// UNION ALL of `SELECT *` where a branch has a filter or LIMIT that the scan does not take: columns keep their values.
#[tokio::test(flavor = "multi_thread")]
async fn columns_of_unions_keep_their_places() {
    let ctx = two_stores().await;
    let expected = row(
        &ctx,
        "SELECT sum(variant_position) * 2, sum(list_sum(allele_counts(call_genotype))) * 2, count(*) * 2 FROM x",
    )
    .await;
    for (one, other) in [
        ("", "WHERE random() < 2"),
        ("WHERE random() < 2", ""),
        ("LIMIT 1000000", ""),
        ("", "WHERE (SELECT true)"),
        ("ORDER BY random()", "LIMIT 1000000"),
    ] {
        let union = format!("(SELECT * FROM x {one}) UNION ALL (SELECT * FROM x {other})");
        for sql in [
            format!(
                "SELECT sum(variant_position), sum(list_sum(allele_counts(call_genotype))), count(*) FROM ({union})"
            ),
            format!(
                "SELECT sum(p), sum(list_sum(a)), count(*) FROM (SELECT variant_position AS p, \
                 allele_counts(call_genotype) AS a FROM ({union}))"
            ),
        ] {
            assert_eq!(row(&ctx, &sql).await, expected, "{sql}");
        }
        let het = format!(
            "SELECT sum(variant_position), sum(genotype_counts(call_genotype)['het']) FROM ({union})"
        );
        let alone = row(
            &ctx,
            "SELECT sum(variant_position) * 2, sum(genotype_counts(call_genotype)['het']) * 2 FROM x",
        )
        .await;
        assert_eq!(row(&ctx, &het).await, alone, "{het}");
    }
}

/// A parameter in a branch of UNION, which a scan does not take before it has a value.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_in_branches_of_unions() {
    let ctx = two_stores().await;
    let sums =
        "sum(variant_position), sum(list_sum(allele_counts(call_genotype, 'first'))), count(*)";
    let whole = row(&ctx, &format!("SELECT {sums} FROM x")).await;
    for (filter, data_type, literal, value) in [
        (
            "variant_position > $1",
            "BIGINT",
            "50000",
            ScalarValue::Int64(Some(50_000)),
        ),
        ("$1", "BOOLEAN", "true", ScalarValue::Boolean(Some(true))),
        (
            "random() < $1",
            "DOUBLE",
            "2.0",
            ScalarValue::Float64(Some(2.0)),
        ),
    ] {
        let part = format!(
            "SELECT {sums} FROM x WHERE {}",
            filter.replace("$1", literal)
        );
        let part = row(&ctx, &part).await;
        let expected: Vec<ScalarValue> = whole
            .iter()
            .zip(&part)
            .map(|(whole, part)| whole.add_checked(part).unwrap())
            .collect();
        for union in [
            format!("SELECT * FROM x UNION ALL SELECT * FROM x WHERE {filter}"),
            format!("SELECT * FROM x WHERE {filter} UNION ALL SELECT * FROM x"),
        ] {
            let sql = format!("SELECT {sums} FROM ({union})");
            let frame = ctx.sql(&sql).await.unwrap();
            let frame = frame.with_param_values(vec![value.clone()]).unwrap();
            let answer = frame.collect().await.unwrap();
            assert_eq!(row_of(&answer, &sql), expected, "{sql}");
            run(&ctx, &format!("PREPARE q({data_type}) AS {sql}")).await;
            assert_eq!(
                row(&ctx, &format!("EXECUTE q({literal})")).await,
                expected,
                "{sql}"
            );
            run(&ctx, "DEALLOCATE q").await;
        }
    }
}

/// A view of a UNION below a filter that the scans do not take.
#[tokio::test(flavor = "multi_thread")]
async fn views_of_unions_below_filters() {
    let ctx = two_stores().await;
    let sums = "sum(variant_position), sum(list_sum(allele_counts(call_genotype, 'first'))), count(*), \
                sum(genotype_counts(call_genotype, 'second')['het'])";
    let expected = row(
        &ctx,
        "SELECT sum(variant_position) * 2, sum(list_sum(allele_counts(call_genotype, 'first'))) * 2, count(*) * 2, \
         sum(genotype_counts(call_genotype, 'second')['het']) * 2 FROM x",
    )
    .await;
    for (name, union) in [
        ("whole", "SELECT * FROM x UNION ALL SELECT * FROM x"),
        (
            "filtered",
            "SELECT * FROM x WHERE random() < 2 UNION ALL SELECT * FROM x",
        ),
        (
            "columns",
            "SELECT call_genotype, variant_position FROM x UNION ALL SELECT call_genotype, variant_position FROM x",
        ),
    ] {
        run(&ctx, &format!("CREATE VIEW {name} AS {union}")).await;
        for filter in ["random() < 2", "(SELECT true)", "variant_position > 0"] {
            let sql = format!("SELECT {sums} FROM {name} WHERE {filter}");
            assert_eq!(row(&ctx, &sql).await, expected, "{sql}");
        }
    }
    // Each branch has its own samples.
    let of = |table: &str| {
        format!("SELECT sum(list_sum(allele_counts(call_genotype, 'first'))) FROM {table}")
    };
    let each = [one(&ctx, &of("x")).await, one(&ctx, &of("y")).await];
    run(
        &ctx,
        "CREATE VIEW both AS SELECT 'x' AS t, allele_counts(call_genotype, 'first') AS ac FROM x \
         UNION ALL SELECT 'y', allele_counts(call_genotype, 'first') FROM y",
    )
    .await;
    for (table, expected) in ["x", "y"].into_iter().zip(each) {
        let sql =
            format!("SELECT sum(list_sum(ac)) FROM both WHERE random() < 2 AND t = '{table}'");
        assert_eq!(one(&ctx, &sql).await, expected, "{sql}");
    }
}

/// The same without any store: a struct column of a table in memory, which DataFusion's own rule would permute.
#[tokio::test(flavor = "multi_thread")]
async fn struct_fields_above_a_union_keep_their_places() {
    let ctx = plain_session();
    let values = "SELECT column1 AS a, column2 AS b, named_struct('h', column3) AS s FROM (VALUES (1, 10, 100), (2, 20, 200))";
    run(&ctx, &format!("CREATE TABLE st AS {values}")).await;
    let file = copy(&ctx, "SELECT * FROM st", "struct.parquet").await;
    for table in ["st".to_string(), format!("'{file}'")] {
        let sums = row(
            &ctx,
            &format!(
                "SELECT sum(a), sum(b), sum(s['h']) FROM (SELECT * FROM {table} WHERE random() < 2 UNION ALL SELECT * FROM {table})"
            ),
        )
        .await;
        let expected = [6, 60, 600].map(|sum| ScalarValue::Int64(Some(sum)));
        assert_eq!(sums, expected, "{table}");
    }
}

/// Branches without rows, and branches matched by name.
#[tokio::test(flavor = "multi_thread")]
async fn unions_with_empty_branches_and_by_name() {
    let ctx = two_stores().await;
    let first = one(&ctx, "SELECT sfs(call_genotype, 'first') FROM x").await;
    for sql in [
        "SELECT sfs(call_genotype, 'first') FROM (SELECT * FROM x UNION ALL SELECT * FROM x WHERE false)",
        "SELECT sfs(call_genotype, 'first') FROM (SELECT * FROM x WHERE false UNION ALL SELECT * FROM x)",
        "SELECT sfs(call_genotype, 'first') FROM (SELECT * FROM x UNION ALL (SELECT * FROM x LIMIT 0))",
        "SELECT sfs(call_genotype, 'first') FROM ((SELECT * FROM x LIMIT 0) UNION ALL SELECT * FROM x)",
        "SELECT sfs(call_genotype, 'first') FROM (SELECT * FROM x WHERE variant_contig = 'chr1' UNION ALL BY NAME \
         SELECT call_genotype, variant_position FROM x WHERE variant_contig = 'chr2')",
        "SELECT sfs(ac) FROM (SELECT allele_counts(call_genotype, 'first') AS ac, 1 AS n FROM x UNION ALL BY NAME \
         SELECT 2 AS n FROM x WHERE variant_position < 0)",
        "SELECT sfs(call_genotype, 'first') FROM (SELECT variant_position, call_genotype FROM x UNION ALL BY NAME \
         SELECT variant_position FROM x)",
    ] {
        assert_eq!(one(&ctx, sql).await, first, "{sql}");
    }
}

/// Counts above joins, CTEs and several levels of UNION are each branch's own.
#[tokio::test(flavor = "multi_thread")]
async fn calls_above_nested_unions_are_each_branchs_own() {
    let ctx = plain_session();
    register(&ctx, "x", "sim").await;
    let swapped = work_dir().join("swapped.binding.tsv");
    let text = std::fs::read_to_string(fixtures().join("sim.populations.tsv")).unwrap();
    let text = text
        .replace("first", "other")
        .replace("second", "first")
        .replace("other", "second");
    std::fs::write(&swapped, text).unwrap();
    create(
        &ctx,
        "y",
        &fixtures().join("sim.vcz.zip"),
        Some(Path::new(&swapped)),
    )
    .await;
    let expected = row(
        &ctx,
        "SELECT (SELECT segregating_sites(call_genotype, 'first') FROM x), (SELECT segregating_sites(call_genotype, 'first') FROM y)",
    )
    .await;
    assert_ne!(expected[0], expected[1]);
    let sql = "WITH u AS (SELECT 'x' AS t, * FROM x UNION ALL SELECT 'y', * FROM y), \
               w AS (SELECT * FROM u WHERE t = 'x' UNION ALL SELECT * FROM u WHERE t = 'y'), \
               names AS (SELECT column1 AS t FROM (VALUES ('x'), ('y')))
               SELECT segregating_sites(call_genotype, 'first') FILTER (WHERE w.t = 'x'), \
               segregating_sites(call_genotype, 'first') FILTER (WHERE w.t = 'y') FROM w JOIN names ON w.t = names.t";
    assert_eq!(row(&ctx, sql).await, expected);
}

/// The same samples under another populations file: what depends on the names is not answered with the other file's.
#[tokio::test(flavor = "multi_thread")]
async fn another_populations_file_is_not_taken_for_the_columns_own() {
    let ctx = plain_session();
    register(&ctx, "x", "sim").await;
    let file = copy(&ctx, "SELECT call_genotype FROM x", "own.parquet").await;
    let other = plain_session();
    create(&other, "y", &fixtures().join("sim.vcz.zip"), None).await;
    let from = format!("FROM '{file}' WHERE (SELECT count(*) FROM y) > 0");
    for call in [
        "population_counts(call_genotype)",
        "population_pair_counts(call_genotype)",
        "allele_counts(call_genotype, 'first')",
        "select_samples(call_genotype, ['s00'])",
    ] {
        says_what_to_do(&fails(&other, &format!("SELECT {call} {from}")).await);
    }
}
