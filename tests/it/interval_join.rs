//! Joins of positions with intervals give the same on bins as pair by pair, for empty, overlapping, nested and huge intervals.

use datafusion::prelude::SessionContext;

use crate::common;

/// Name of the rule that joins on bins.
const RULE: &str = "vcz_interval_join";

/// Tables of positions and intervals; some bounds are NULL, in the wrong order, or out of any genome.
async fn tables(ctx: &SessionContext) {
    for sql in [
        "CREATE TABLE points AS SELECT 'chr' || (value % 3) AS contig, CAST((value * 7919) % 60000 AS INT) AS position, value AS id
         FROM range(2000)",
        "CREATE TABLE genes AS SELECT 'chr' || (value % 4) AS contig, (value * 104729) % 60000 AS start,
         (value * 104729) % 60000 + CASE value % 5 WHEN 0 THEN -1 WHEN 1 THEN 0 WHEN 2 THEN 40000 ELSE value * 10 END AS stop, value AS gene
         FROM range(300)
         UNION ALL
         VALUES ('chr0', NULL, 5, 1000), ('chr1', 1, NULL, 1001), ('chr2', -9000000000000000000, 9000000000000000000, 1002),
         ('chr1', -5, 8191, 1003), ('chr1', 8192, 8192, 1004), (NULL, 1, 60000, 1005)",
    ] {
        common::run(ctx, sql).await;
    }
}

async fn pairs(ctx: &SessionContext, join: &str) -> Vec<String> {
    let sql = format!(
        "SELECT count(*), sum(id * gene), sum(gene), min(position), max(stop), count(DISTINCT gene) FROM {join}"
    );
    rows(ctx, &sql).await
}

async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let row = common::row(ctx, sql).await;
    row.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_pairs() {
    let (binned, stock) = (common::session(2, 100), common::session(2, 100));
    assert!(
        stock.remove_optimizer_rule(RULE),
        "the rule has another name"
    );
    tables(&binned).await;
    tables(&stock).await;
    for join in [
        "points p JOIN genes g ON p.contig = g.contig AND p.position BETWEEN g.start AND g.stop",
        "points p JOIN genes g ON p.contig = g.contig AND p.position > g.start AND p.position <= g.stop",
        "genes g JOIN points p ON p.contig = g.contig AND g.start <= p.position AND g.stop > p.position",
        "points p JOIN genes g ON p.position BETWEEN g.start AND g.stop",
        "points p, genes g WHERE p.contig = g.contig AND p.position >= g.start AND p.position < g.stop AND g.gene % 2 = 0",
        "points p JOIN genes g ON p.contig = g.contig AND p.position + 10 BETWEEN g.start - 5 AND g.stop + 5",
        // Two joins with intervals in one statement.
        "points p JOIN genes g ON p.contig = g.contig AND p.position BETWEEN g.start AND g.stop
         JOIN (SELECT contig AS c, start AS s, stop AS e FROM genes WHERE gene < 40) h ON p.contig = h.c AND p.position BETWEEN h.s AND h.e",
    ] {
        let plan = common::plan(&binned, &format!("SELECT count(*) FROM {join}")).await;
        assert!(plan.contains("__vcz_point_bin"), "{join}: {plan}");
        let expected = pairs(&stock, join).await;
        assert_ne!(expected[0], "0", "{join}");
        assert_eq!(pairs(&binned, join).await, expected, "{join}");
    }
    // Rows without pairs are returned once, whichever side they are on.
    let on = "ON p.contig = g.contig AND p.position BETWEEN g.start AND g.stop";
    for join in [
        format!("genes g LEFT JOIN points p {on}"),
        format!("points p LEFT JOIN genes g {on}"),
        format!("genes g RIGHT JOIN points p {on}"),
        format!("points p RIGHT JOIN genes g {on}"),
        "genes g LEFT JOIN points p ON p.position > g.start AND p.position <= g.stop AND p.id % 3 > 0".to_string(),
        format!("genes g LEFT JOIN points p {on} AND p.id > 1990"),
    ] {
        let plan = common::plan(&binned, &format!("SELECT count(*) FROM {join}")).await;
        assert!(plan.contains("__vcz_point_bin"), "{join}: {plan}");
        let expected = pairs(&stock, &join).await;
        assert_eq!(pairs(&binned, &join).await, expected, "{join}");
    }
    let overlap = "p.contig = g.contig AND p.position BETWEEN g.start AND g.stop";
    for (sql, is_binned) in [
        (format!("SELECT count(*), sum(gene) FROM genes g WHERE EXISTS (SELECT 1 FROM points p WHERE {overlap})"), true),
        (format!("SELECT count(*), sum(gene) FROM genes g WHERE NOT EXISTS (SELECT 1 FROM points p WHERE {overlap})"), true),
        (format!("SELECT count(*), sum(id) FROM points p WHERE EXISTS (SELECT 1 FROM genes g WHERE {overlap})"), true),
        (format!("SELECT count(*), sum(id) FROM points p WHERE NOT EXISTS (SELECT 1 FROM genes g WHERE {overlap})"), true),
        (format!("SELECT count(*), sum(id) FROM points p WHERE id < 9 OR EXISTS (SELECT 1 FROM genes g WHERE {overlap})"), true),
        (format!("SELECT count(*), sum(gene) FROM genes g WHERE gene < 9 OR EXISTS (SELECT 1 FROM points p WHERE {overlap})"), true),
        (
            "SELECT count(*), sum(gene) FROM genes g WHERE gene NOT IN (SELECT id FROM points p WHERE p.position BETWEEN g.start AND g.stop)"
                .to_string(),
            false,
        ),
    ] {
        let plan = common::plan(&binned, &sql).await;
        assert_eq!(plan.contains("__vcz_point_bin"), is_binned, "{sql}: {plan}");
        let expected = rows(&stock, &sql).await;
        assert_ne!(expected[0], "0", "{sql}");
        assert_eq!(rows(&binned, &sql).await, expected, "{sql}");
    }
    // Joins of other kinds and types are as they were.
    for join in [
        "genes g FULL JOIN points p ON p.contig = g.contig AND p.position BETWEEN g.start AND g.stop",
        "points p JOIN genes g ON p.contig = g.contig AND p.position > g.start",
        "points p JOIN genes g ON p.contig = g.contig AND CAST(p.position AS DOUBLE) BETWEEN g.start AND g.stop",
        "points p JOIN genes g ON p.contig = g.contig AND p.position BETWEEN g.start AND p.id",
    ] {
        let plan = common::plan(&binned, &format!("SELECT count(*) FROM {join}")).await;
        assert!(!plan.contains("__vcz_point_bin"), "{join}: {plan}");
        assert_eq!(
            pairs(&binned, join).await,
            pairs(&stock, join).await,
            "{join}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_per_gene() {
    let ctx = common::session(2, 1000);
    let store = common::fixtures().join("sim.vcz.zip");
    common::create(&ctx, "sim", &store, None).await;
    let genes = common::fixtures().join("sim.genes.tsv");
    let sql = format!(
        "CREATE EXTERNAL TABLE genes STORED AS CSV LOCATION '{}' OPTIONS ('format.delimiter' E'\\t', 'format.has_header' 'true')",
        genes.display()
    );
    common::run(&ctx, &sql).await;
    let grouped = |join: &str| {
        format!(
            "SELECT sum(sites), round(sum(pi), 9), count(*) FROM (SELECT gene, count(*) AS sites, diversity(call_genotype) AS pi FROM {join} GROUP BY gene)"
        )
    };
    let plain = grouped(
        "sim JOIN genes ON variant_contig = contig AND variant_position BETWEEN start AND stop",
    );
    let by_hand = grouped(
        "sim JOIN (SELECT *, unnest(interval_bins(start, stop, 10000)) AS bin FROM genes)
         ON variant_contig = contig AND genome_bin(variant_position, 10000) = bin WHERE variant_position BETWEEN start AND stop",
    );
    assert_eq!(
        common::row(&ctx, &plain).await,
        common::row(&ctx, &by_hand).await
    );
    // Genotypes are counted in the scan, below the join.
    let plan = common::plan(&ctx, &plain).await;
    assert!(
        plan.contains("allele_counts") && plan.contains("vcz_join_bins"),
        "{plan}"
    );
}
