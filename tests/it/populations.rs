//! Unnested `population_counts`, aggregated by population without unnesting, give the bits that DataFusion's own unnesting and grouping give.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use crate::common;
use crate::partitions::bits;
use crate::random_plans::Random;

/// Name of the rule that aggregates by populations.
const RULE: &str = "vcz_aggregate_by_populations";
const OPERATOR: &str = "AggregatePopulationsExec";

/// `ctx` without the rule.
fn without_the_rule(ctx: &SessionContext) -> SessionContext {
    let state = ctx.state();
    let rules: Vec<_> = state.physical_optimizers().to_vec();
    let others: Vec<_> = rules
        .iter()
        .filter(|rule| rule.name() != RULE)
        .cloned()
        .collect();
    assert_eq!(others.len() + 1, rules.len());
    let builder = SessionStateBuilder::new_from_existing(state);
    SessionContext::new_with_state(builder.with_physical_optimizer_rules(others).build())
}

/// Runs `sql` with and without the rule; it applies if `by_populations`.
async fn check(ctx: &SessionContext, sql: &str, by_populations: bool, place: &str) -> usize {
    let plain = without_the_rule(ctx);
    let planned = common::plan(ctx, sql).await;
    assert_eq!(
        planned.contains(OPERATOR),
        by_populations,
        "{place}: {sql}\n{planned}"
    );
    assert!(!common::plan(&plain, sql).await.contains(OPERATOR));
    let (found, expected) = (bits(ctx, sql).await, bits(&plain, sql).await);
    assert!(
        found.rows == expected.rows && found.schema == expected.schema,
        "{place}: {sql}\n{}\nexpected\n{}",
        found.text,
        expected.text
    );
    expected.rows.len()
}

/// What the aggregates are over.
const SITES: &str = "(SELECT variant_contig, variant_position, variant_allele, unnest(population_counts(call_genotype)) AS p FROM t)";
/// Functions of the variant.
const VARIANT_KEYS: [&str; 6] = [
    "variant_contig",
    "genome_bin(variant_position, 1000)",
    "variant_position / 500",
    // Hardly a run is longer than a row.
    "variant_position % 5",
    "variant_position",
    "CASE WHEN variant_position % 3 = 0 THEN NULL ELSE variant_position / 700 END",
];
const POPULATION_KEYS: [&str; 3] = [
    "p['population']",
    "p['copies']",
    "p['population'], p['copies']",
];
/// Aggregates whose states are exact.
const EXACT: [&str; 21] = [
    "count(*)",
    "count(p['ac'])",
    "sum(allele_number(p['ac']))",
    "max(p['ac'][1])",
    "bool_or(is_segregating(p['ac']))",
    "diversity(p['ac'])",
    "theta_w(p['ac'])",
    "theta_h(p['ac'])",
    "project_sfs(p['ac'], 4)",
    "tajimas_d(p['ac'])",
    "divergence(p['ac'], p['ac'])",
    "segregating_sites(p['ac'])",
    "exact_sum(site_diversity(p['ac']) * variant_position)",
    "diversity(p['ac']) FILTER (WHERE is_biallelic(variant_allele))",
    "segregating_sites(p['ac']) FILTER (WHERE is_segregating(p['ac']) AND variant_position % 4 > 0)",
    // Of each population's number of copies.
    "sfs(p['ac'])",
    "sfs_folded(p['ac'])",
    "sfs(p['ac'], p['copies']) FILTER (WHERE is_segregating(p['ac']))",
    "max(p['copies'])",
    "count(*) FILTER (WHERE p['population'] > 'p1')",
    "sum(allele_number(p['ac']) * p['copies']) FILTER (WHERE p['copies'] > 4 AND variant_position % 3 = 1)",
];
/// Predicates of the populations; one of them is `p0`.
const POPULATIONS: [&str; 6] = [
    "",
    "",
    "WHERE p['population'] = 'p0'",
    "WHERE p['population'] IN ('p0', 'p2', 'p3', 'p4', 'p7', 'none')",
    "WHERE p['population'] <> 'p1' AND p['copies'] > 0 AND variant_position % 2 = 0",
    "WHERE upper(p['population']) = 'P0' OR p['copies'] > 6",
];

/// Some of `of`, one or more, each once.
fn some(random: &mut Random, of: &[&str]) -> Vec<String> {
    let mut chosen: Vec<String> = vec![];
    for _ in 0..=random.below(3) {
        let one = of[random.below(of.len() as u64) as usize].to_string();
        if !chosen.contains(&one) {
            chosen.push(one);
        }
    }
    chosen
}

fn statement(random: &mut Random) -> String {
    let mut keys = match random.below(3) {
        0 => vec![],
        _ => some(random, &VARIANT_KEYS),
    };
    let place = random.below(keys.len() as u64 + 1) as usize;
    keys.insert(place, POPULATION_KEYS[random.below(3) as usize].to_string());
    let (keys, aggregates) = (keys.join(", "), some(random, &EXACT).join(", "));
    let filter = [
        "",
        " WHERE variant_position % 7 <> 0",
        " WHERE variant_position < 0",
    ];
    let filter = filter[random.below(3) as usize];
    let having = ["", " HAVING count(*) > 2"][random.below(2) as usize];
    let from = SITES.replace("FROM t", &format!("FROM t{filter}"));
    let populations = POPULATIONS[random.below(6) as usize];
    format!(
        "SELECT {keys}, {aggregates} FROM {from} {populations} GROUP BY {keys}{having} ORDER BY {keys}"
    )
}

/// A file of random populations of the samples of `populations`, overlapping ones among them.
fn random_populations(random: &mut Random, populations: &Path, seed: u64) -> PathBuf {
    let text = fs::read_to_string(populations).unwrap();
    let samples: Vec<&str> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split('\t').next())
        .collect();
    let n = 1 + random.below(12);
    let mut lines = vec!["sample_id\tpopulation".to_string()];
    for population in 0..n {
        // Each has a sample.
        let one = samples[random.below(samples.len() as u64) as usize];
        lines.push(format!("{one}\tp{population}"));
    }
    for sample in &samples {
        let line = format!("{sample}\tp{}", random.below(n));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let path = common::work_dir().join(format!("random-{seed}.populations.tsv"));
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn random_statements_give_the_same_with_and_without() {
    let stores = ["missing", "chunks7", "tetraploid", "sim"];
    let mut rows = 0;
    for seed in 1..=8 {
        let mut random = Random(seed);
        let name = stores[seed as usize % stores.len()];
        let folder = common::fixtures();
        let store = folder.join(format!("{name}.vcz.zip"));
        let populations = folder.join(format!("{name}.populations.tsv"));
        let populations = random_populations(&mut random, &populations, seed);
        let partitions = [1, 2, 16][random.below(3) as usize];
        let batch = [7, 100, 8192][random.below(3) as usize];
        let ctx = common::session(partitions, batch);
        common::create(&ctx, "t", &store, Some(&populations)).await;
        for _ in 0..5 {
            let sql = statement(&mut random);
            let place = format!("seed {seed}, {name}, {partitions} partitions, batches of {batch}");
            // Without rows DataFusion may plan no scan at all.
            if sql.contains("variant_position < 0") {
                let (found, plain) = (bits(&ctx, &sql).await, without_the_rule(&ctx));
                assert_eq!(found.rows, bits(&plain, &sql).await.rows, "{place}: {sql}");
                assert!(found.rows.is_empty());
                continue;
            }
            rows += check(&ctx, &sql, true, &place).await;
        }
    }
    assert!(rows > 1000, "{rows} rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_understood_is_left_alone() {
    let sql = |keys: &str, aggregates: &str, filter: &str| {
        format!("SELECT {keys}, {aggregates} FROM {SITES} {filter} GROUP BY {keys} ORDER BY {keys}")
    };
    let population = "p['population']";
    let statements = [
        // Keys that differ between the variants of a run, or are computed.
        sql("p['ac']", "count(*)", ""),
        sql("upper(p['population'])", "count(*)", ""),
        // The element itself.
        sql(population, "count(p)", ""),
        // States that depend on the order, or on which values there are.
        sql(population, "avg(variant_position)", ""),
        sql(population, "count(DISTINCT allele_number(p['ac']))", ""),
        sql(population, "array_agg(variant_position ORDER BY variant_position, variant_contig)", ""),
        // Rows that are left out between the unnesting and the aggregate.
        sql(population, "count(*)", "WHERE is_segregating(p['ac'])"),
        sql(population, "count(*)", "WHERE p['population'] = 'first' AND is_segregating(p['ac'])"),
        sql(population, "count(*)", "WHERE p['population'] = 'first' OR variant_position % 2 = 0"),
        // No groups, groupings, no aggregates.
        format!("SELECT diversity(p['ac']) FROM {SITES}"),
        format!("SELECT {population}, count(*) FROM {SITES} GROUP BY ROLLUP ({population}) ORDER BY 1"),
        format!("SELECT DISTINCT {population} FROM {SITES} ORDER BY 1"),
        // Other lists.
        "SELECT p['population1'], divergence(p['ac1'], p['ac2']) FROM (SELECT unnest(population_pair_counts(call_genotype)) AS p FROM t)
         GROUP BY 1 ORDER BY 1"
            .to_string(),
        // The list, for something else.
        "SELECT p['population'], max(n), diversity(p['ac']) FROM
         (SELECT unnest(l) AS p, array_length(l) AS n FROM (SELECT population_counts(call_genotype) AS l FROM t)) GROUP BY 1 ORDER BY 1"
            .to_string(),
    ];
    let folder = common::fixtures();
    for partitions in [1, 2] {
        let ctx = common::session(partitions, 64);
        let populations = folder.join("missing.populations.tsv");
        common::create(
            &ctx,
            "t",
            &folder.join("missing.vcz.zip"),
            Some(&populations),
        )
        .await;
        for sql in &statements {
            assert!(check(&ctx, sql, false, "missing").await > 0, "{sql}");
        }
    }
}

/// Only the populations that WHERE selects are counted.
#[tokio::test(flavor = "multi_thread")]
async fn where_selects_populations() {
    let folder = common::fixtures();
    let populations = folder.join("missing.populations.tsv");
    for partitions in [1, 3] {
        let ctx = common::session(partitions, 64);
        let store = folder.join("missing.vcz.zip");
        common::create(&ctx, "t", &store, Some(&populations)).await;
        let of = |predicate: &str| {
            format!(
                "SELECT p['population'], sfs(p['ac']), diversity(p['ac']), count(*) FROM {SITES} WHERE {predicate} GROUP BY 1 ORDER BY 1"
            )
        };
        for (predicate, functions) in [
            ("p['population'] = 'second'", "[allele_counts(second)]"),
            (
                "p['population'] IN ('second', 'x')",
                "[allele_counts(second)]",
            ),
            ("p['copies'] = 26", "[allele_counts(first)]"),
            (
                "p['population'] > ''",
                "[allele_counts(first), allele_counts(second)]",
            ),
        ] {
            let sql = of(predicate);
            assert!(check(&ctx, &sql, true, "missing").await > 0, "{sql}");
            let plan = common::plan(&ctx, &sql).await;
            assert!(
                plan.contains(&format!("functions={functions}")),
                "{sql}\n{plan}"
            );
        }
        // None of them: no groups.
        let sql = of("p['population'] = 'third'");
        assert_eq!(check(&ctx, &sql, false, "missing").await, 0);
        // The spectra are those of each population alone.
        for name in ["first", "second"] {
            for function in ["sfs", "sfs_folded"] {
                let alone = format!("SELECT {function}(call_genotype, '{name}') FROM t");
                let of_all = format!(
                    "SELECT {function}(p['ac']) FROM {SITES} WHERE p['population'] = '{name}' GROUP BY p['population']"
                );
                let (found, expected) = (bits(&ctx, &of_all).await, bits(&ctx, &alone).await);
                assert_eq!(found.rows, expected.rows, "{of_all}\n{}", found.text);
            }
        }
    }
}

/// Genotypes that are a column of a batch, filtered calls, selected samples, and a LIMIT.
#[tokio::test(flavor = "multi_thread")]
async fn other_inputs() {
    let folder = common::fixtures();
    let populations = folder.join("missing.populations.tsv");
    for partitions in [1, 2] {
        let ctx = common::session(partitions, 50);
        common::create(
            &ctx,
            "t",
            &folder.join("missing.vcz.zip"),
            Some(&populations),
        )
        .await;
        let of = |genotypes: &str, from: &str| {
            format!(
                "SELECT p['population'], count(*), project_sfs(p['ac'], 4), diversity(p['ac']) FROM
                 (SELECT unnest(population_counts({genotypes})) AS p FROM {from}) GROUP BY 1 ORDER BY 1"
            )
        };
        let cases = [
            (of("call_genotype", "t"), true),
            (of("select_samples(call_genotype, 'first')", "t"), true),
            (of("call_genotype", "(SELECT * FROM t ORDER BY variant_position LIMIT 40)"), false),
            // A call that is also an output of its own, and the same population twice.
            (
                "SELECT p['population'], a[1], diversity(p['ac']), count(*) FROM
                 (SELECT allele_counts(call_genotype, 'second') AS a, unnest(population_counts(call_genotype)) AS p FROM t)
                 GROUP BY 1, 2 ORDER BY 1, 2"
                    .to_string(),
                true,
            ),
        ];
        for (sql, by_populations) in cases {
            assert!(
                check(&ctx, &sql, by_populations, "missing").await > 0,
                "{sql}"
            );
        }
    }
}
