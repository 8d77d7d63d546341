//! Windows that do not overlap, grouped by runs of rows, give the bits that DataFusion's own grouping gives.

use std::path::Path;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use crate::common;
use crate::partitions::bits;
use crate::windows::AGGREGATES;

/// Name of the rule that groups by runs.
const RULE: &str = "vcz_aggregate_by_runs";

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

/// What is grouped, by what, and whether that is by runs.
fn queries() -> Vec<(String, bool)> {
    let aggregates = AGGREGATES.join(", ");
    let sites = "(SELECT variant_contig, variant_position, variant_id, variant_allele, call_genotype,
                         allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b,
                         allele_counts(call_genotype) AS everyone FROM t)";
    let of = |aggregates: &str, keys: &str, runs: bool| {
        (
            format!("SELECT {keys}, {aggregates} FROM {sites} GROUP BY {keys} ORDER BY {keys}"),
            runs,
        )
    };
    let by = |keys: &str, runs: bool| of("count(*), sfs(a), fst_hudson(a, b)", keys, runs);
    vec![
        of(&aggregates, "variant_contig, genome_bin(variant_position, 1000)", true),
        of(&aggregates, "genome_bin(variant_position, 3000)", true),
        by("variant_position / 500, variant_contig", true),
        // Hardly a run is longer than a row.
        by("variant_position % 5", true),
        by("variant_contig", false),
        by("variant_contig, variant_position", false),
        by("genome_bin(variant_position, 1000), length(variant_allele[1])", false),
        (
            format!(
                "SELECT genome_bin(variant_position, 1000) AS w, diversity(a), array_agg(variant_position ORDER BY variant_position DESC)
                 FROM {sites} GROUP BY 1 ORDER BY 1"
            ),
            false,
        ),
        (
            format!(
                "SELECT * FROM (SELECT variant_contig, genome_bin(variant_position, 2000) AS w, count(DISTINCT variant_id), sfs(a)
                 FROM {sites} WHERE variant_position % 3 > 0 GROUP BY 1, 2 HAVING count(*) > 3) ORDER BY 1, 2"
            ),
            false,
        ),
        // Nobody needs the order.
        (
            format!(
                "SELECT count(*), exact_sum(pi) FROM (SELECT diversity(a) AS pi FROM {sites} GROUP BY genome_bin(variant_position, 700))"
            ),
            true,
        ),
    ]
}

async fn same_with_and_without(name: &str) {
    let folder = common::fixtures();
    let store = folder.join(format!("{name}.vcz.zip"));
    let populations = folder.join(format!("{name}.populations.tsv"));
    check(&store, &populations, &queries()).await;
}

async fn check(store: &Path, populations: &Path, queries: &[(String, bool)]) {
    for partitions in [1, 2, 16] {
        for batch in [7, 8192] {
            let ctx = common::session(partitions, batch);
            common::create(&ctx, "t", store, Some(populations)).await;
            let plain = without_the_rule(&ctx);
            for (sql, runs) in queries {
                let place = format!(
                    "{}, {partitions} partitions, batches of {batch}: {sql}",
                    store.display()
                );
                let plan_by_runs = common::plan(&ctx, sql).await;
                assert_eq!(
                    plan_by_runs.contains("AggregateRunsExec"),
                    *runs,
                    "{place}\n{plan_by_runs}"
                );
                assert!(
                    !common::plan(&plain, sql)
                        .await
                        .contains("AggregateRunsExec")
                );
                let (found, expected) = (bits(&ctx, sql).await, bits(&plain, sql).await);
                assert!(!expected.rows.is_empty(), "{place}");
                assert!(
                    found.rows == expected.rows && found.schema == expected.schema,
                    "{place}\n{}\nexpected\n{}",
                    found.text,
                    expected.text
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing() {
    same_with_and_without("missing").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks7() {
    same_with_and_without("chunks7").await;
}
