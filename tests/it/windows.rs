//! Aggregates over overlapping windows, computed in two steps, give the bits that they give in one.

use std::path::Path;

use crate::common;
use crate::partitions::{Bits, bits};

/// Name of the rule that makes two steps.
const RULE: &str = "vcz_two_step_windows";

/// Every aggregate of ours, and those of DataFusion that are computed in two steps with them.
pub const AGGREGATES: [&str; 70] = [
    "sample_counts(call_genotype)",
    "sample_pairs(call_genotype, 'first')[2]",
    "haplotype_pairs(call_genotype, 'second')[2]",
    "grm(call_genotype, 'first')[2]",
    "pca(call_genotype, 'second', 2)",
    "mean_r2(call_genotype, 'first')",
    "mean_r2_genotypes(call_genotype, 'second')",
    "garud_h(call_genotype, 'first')",
    "haplotype_diversity(call_genotype, 'second')",
    "haplotype_count(call_genotype, 'first') FILTER (WHERE is_segregating(a))",
    "sfs(a)",
    "sfs(call_genotype, 'second')",
    "sfs_folded(a)",
    "project_sfs(a, 4)",
    "project_sfs_folded(b, 3)",
    "joint_sfs(a, b)",
    "joint_sfs_folded(a, b)",
    "project_joint_sfs(a, b, 4, 3)",
    "project_joint_sfs_folded(a, b, 4, 3)",
    "diversity(a)",
    "diversity(call_genotype)",
    "divergence(a, b)",
    "theta_w(a)",
    "segregating_sites(b)",
    "tajimas_d(a)",
    "tajimas_d(a, 6)",
    "fst_hudson(a, b)",
    "theta_h(a)",
    "theta_l(b)",
    "fay_wu_h(a)",
    "fay_wu_h_norm(call_genotype)",
    "zeng_e(a)",
    "fu_li_d(a)",
    "fu_li_d(a, 6)",
    "fu_li_f(b)",
    "fu_li_d_star(a)",
    "fu_li_f_star(a)",
    "singletons(a)",
    "singletons_folded(b)",
    "exact_sum(site_diversity(a))",
    "net_divergence(a, b)",
    "f2(call_genotype, 'second', 'first')",
    "f3(a, b, everyone)",
    "f3_normalized(b, a, everyone)",
    "f4(a, b, everyone, a)",
    "patterson_d(a, b, everyone, b)",
    "f_d(a, b, b, everyone)",
    "fst_nei(a, b)",
    "fst_nei(a, b, everyone, b)",
    "jost_d(a, b, everyone)",
    "pbs(a, b, everyone)",
    "pbs_n1(call_genotype, 'first', 'second', 'first')",
    "shared_polymorphism(a, b)",
    "private_alleles(b, a)",
    "inbreeding(call_genotype, 'second')",
    "fst_weir_cockerham(call_genotype, 'first', 'second')",
    "fst_weir_cockerham_haploid(a, everyone, b)",
    "jackknife(site_f2(a, b), 1, allele_number(a))",
    "diversity(b) FILTER (WHERE is_biallelic(variant_allele))",
    "count(*)",
    "count(variant_id)",
    "count(*) FILTER (WHERE is_segregating(a))",
    "sum(variant_position)",
    "sum(derived_count(a)) FILTER (WHERE variant_position % 3 = 0)",
    "min(variant_position)",
    "max(variant_id)",
    "bool_and(is_segregating(a))",
    "bool_or(is_segregating(b))",
    "bit_xor(variant_position)",
    "bit_and(variant_position)",
];

/// A scan of windows of `size`, a multiple of `step`, or a part of one.
fn queries(size: u32, step: u32) -> Vec<String> {
    let aggregates = AGGREGATES.join(", ");
    let windows = |position: &str| {
        format!(
            "SELECT variant_contig, variant_position, variant_id, variant_allele, call_genotype,
                    allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b,
                    allele_counts(call_genotype) AS everyone,
                    unnest(genome_bins({position}, {size}, {step})) AS w FROM t"
        )
    };
    let plain = windows("variant_position");
    vec![
        format!(
            "SELECT variant_contig, w, {aggregates} FROM ({plain}) GROUP BY 1, 2 ORDER BY 1, 2"
        ),
        // Some positions are NULL, some below 1, and not narrow integers.
        format!(
            "SELECT w, {aggregates} FROM ({}) GROUP BY w ORDER BY w",
            windows("CASE WHEN variant_position % 7 = 0 THEN NULL ELSE variant_position - 1000 END")
        ),
        // Keys that are made of the window or not of it, filters on both, and aggregates above.
        format!(
            "SELECT k, stop, n, pi / n AS pi FROM (
               SELECT substr(s.variant_contig, 2, 2) AS k, s.w + {size} - 1 AS stop, count(*) AS n, diversity(s.a) AS pi
               FROM ({plain}) s WHERE s.w > 2 * {step} AND s.w % 3 <> 1 AND length(s.variant_allele[1]) = 1
               GROUP BY 1, 2 HAVING count(*) > 1) ORDER BY k, stop"
        ),
        // Nothing left.
        format!("SELECT w, {aggregates} FROM ({plain}) WHERE variant_position < 0 GROUP BY w"),
        format!("SELECT w, count(*), sfs(a) FROM ({plain}) WHERE w < 0 GROUP BY w"),
        // A projection, a join and a scan of windows over the windows.
        format!(
            "SELECT g.contig, g.window_start, g.window_stop, s.n, s.d FROM genome_windows('t', {size}, {step}) g LEFT JOIN
               (SELECT variant_contig, w, count(*) AS n, tajimas_d(b) AS d FROM ({plain}) GROUP BY 1, 2) s
             ON s.variant_contig = g.contig AND s.w = g.window_start ORDER BY 1, 2"
        ),
        format!(
            "SELECT v, sum(n), count(*) FROM (SELECT unnest(genome_bins(w, {size}, {step})) AS v, n FROM
               (SELECT w, count(*) AS n FROM ({plain}) GROUP BY w)) GROUP BY v ORDER BY v"
        ),
    ]
}

/// Groups without aggregates come once each, though no one merges them.
#[tokio::test(flavor = "multi_thread")]
async fn distinct_windows_come_once() {
    let ctx = common::session(1, 7);
    let store = common::fixtures().join("missing.vcz.zip");
    common::create(&ctx, "t", &store, None).await;
    let sql = "SELECT DISTINCT w FROM (SELECT unnest(genome_bins(variant_position, 2000, 500)) AS w FROM t)";
    assert!(!common::plan(&ctx, sql).await.contains("AggregateRunsExec"));
    let rows = common::row(
        &ctx,
        &format!("SELECT count(*), count(DISTINCT w) FROM ({sql})"),
    )
    .await;
    assert_eq!(rows[0], rows[1]);
}

fn assert_same(found: &Bits, expected: &Bits, place: &str) {
    assert_eq!(found.rows.len(), expected.rows.len(), "{place}");
    if let Some(row) = (0..found.rows.len()).find(|&row| found.rows[row] != expected.rows[row]) {
        panic!(
            "{place}: row {row} differs\n{}\nexpected\n{}",
            found.text, expected.text
        );
    }
    // Genotype columns are not selected, so that all of the schema must agree.
    assert_eq!(found.schema, expected.schema, "{place}");
}

async fn two_steps_are_one(
    store: &Path,
    populations: &Path,
    queries: &[String],
    batches: &[usize],
) {
    let one_step = common::session(1, 8192);
    assert!(one_step.remove_optimizer_rule(RULE));
    common::create(&one_step, "t", store, Some(populations)).await;
    let mut expected = Vec::new();
    for sql in queries {
        assert!(
            !common::plan(&one_step, sql).await.contains("_merge("),
            "{sql}"
        );
        expected.push(bits(&one_step, sql).await);
    }
    assert!(!expected[0].rows.is_empty());
    let (partitions, batches) = match common::on_given_workers() {
        true => (&[2][..], &batches[..1]),
        false => (&[1, 2, 16][..], batches),
    };
    for &partitions in partitions {
        for &batch in batches {
            let ctx = common::session(partitions, batch);
            common::create(&ctx, "t", store, Some(populations)).await;
            for (sql, expected) in queries.iter().zip(&expected) {
                let place = format!(
                    "{}, {partitions} partitions, batches of {batch}: {sql}",
                    store.display()
                );
                let plan = common::plan(&ctx, sql).await;
                // An empty result may be known while planning.
                let two_steps = plan.contains("AggregateRunsExec") && plan.contains("_merge(");
                assert!(expected.rows.is_empty() || two_steps, "{place}\n{plan}");
                assert_same(&bits(&ctx, sql).await, expected, &place);
            }
        }
    }
}

async fn fixture(name: &str, size: u32, step: u32, batches: &[usize]) {
    let folder = common::fixtures();
    let store = folder.join(format!("{name}.vcz.zip"));
    let populations = folder.join(format!("{name}.populations.tsv"));
    two_steps_are_one(&store, &populations, &queries(size, step), batches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sim() {
    fixture("sim", 50_000, 5_000, &[8192, 100]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing() {
    fixture("missing", 2_000, 500, &[8192, 7]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks7() {
    // Steps so short that most bins hold one site.
    fixture("chunks7", 120, 40, &[8192, 7]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gamb_x() {
    let Some(folder) = common::shared_data() else {
        return;
    };
    // A part of it: without the rule each site is aggregated ten times.
    let of_part = " FROM t WHERE variant_position < 8100000)";
    let query = queries(20_000, 2_000)[0].replace(" FROM t)", of_part);
    assert!(query.contains(of_part), "{query}");
    let (store, populations) = (
        folder.join("gambX.vcz.zip"),
        folder.join("gambX.populations.tsv"),
    );
    two_steps_are_one(&store, &populations, &[query], &[8192]).await;
}
