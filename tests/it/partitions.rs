//! The same query gives the same bits, however it is split among partitions and batches.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use crate::common;

/// A result to the last bit: its rows in the row format, which tells all values apart, -0 and 0 too.
#[derive(Clone)]
pub struct Bits {
    pub schema: SchemaRef,
    pub batch: RecordBatch,
    pub rows: Vec<Vec<u8>>,
    /// For messages.
    pub text: String,
    /// The most partitions that a scan of the query had.
    scanned: usize,
}

fn scan_partitions(plan: &dyn ExecutionPlan) -> usize {
    let children = plan.children();
    if children.is_empty() {
        return plan.output_partitioning().partition_count();
    }
    children
        .into_iter()
        .map(|child| scan_partitions(child.as_ref()))
        .max()
        .unwrap_or(0)
}

/// Runs a query that must succeed.
pub async fn bits(ctx: &SessionContext, sql: &str) -> Bits {
    let run = async {
        let frame = ctx.sql(sql).await?;
        let task = ctx.task_ctx();
        let plan = frame.create_physical_plan().await?;
        let scanned = scan_partitions(plan.as_ref());
        let batches: Vec<_> = execute_stream(plan.clone(), task)?.try_collect().await?;
        datafusion::common::Result::<_>::Ok((plan.schema(), batches, scanned))
    };
    let (schema, batches, scanned) = run.await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let whole = concat_batches(&schema, &batches).unwrap();
    let fields = schema
        .fields()
        .iter()
        .map(|field| SortField::new(field.data_type().clone()))
        .collect();
    let rows = RowConverter::new(fields)
        .unwrap()
        .convert_columns(whole.columns())
        .unwrap();
    let text = pretty_format_batches(&[whole.slice(0, whole.num_rows().min(40))])
        .unwrap()
        .to_string();
    Bits {
        schema,
        batch: whole,
        rows: rows.iter().map(|row| row.as_ref().to_vec()).collect(),
        text,
        scanned,
    }
}

/// Statistics of each population and pair, of genotypes and of counts, filtered, in one row.
fn statistics(m: u32) -> String {
    let one = |x: &str| {
        let named = |function: &str, rest: &str| format!("{function}({x}{rest})");
        let projected = format!(", {m}");
        [
            named("sfs", ""),
            named("sfs_folded", ""),
            named("project_sfs", &projected),
            named("project_sfs_folded", &projected),
            named("diversity", ""),
            named("theta_w", ""),
            named("segregating_sites", ""),
            named("tajimas_d", ""),
            named("theta_h", ""),
            named("theta_l", ""),
            named("fay_wu_h", ""),
            named("fay_wu_h_norm", ""),
            named("zeng_e", ""),
            named("fu_li_d", ""),
            named("fu_li_f", ""),
            named("fu_li_d_star", ""),
            named("fu_li_f_star", &projected),
            named("singletons", ""),
            named("singletons_folded", ""),
            format!("spectrum_theta(project_sfs({x}{projected}), 'no_singletons')"),
            format!("spectrum_test(sfs({x}), 'l', 'pi')"),
            format!("diversity({x}) FILTER (WHERE is_biallelic(variant_allele))"),
        ]
        .join(", ")
    };
    let two = format!(
        "divergence(a, b), fst_hudson(a, b), joint_sfs(a, b), joint_sfs_folded(a, b),
         project_joint_sfs(a, b, {m}, 3), project_joint_sfs_folded(a, b, {m}, 3),
         net_divergence(a, b), f2(a, b), f3(e, a, b), f3_normalized(e, a, b), f4(a, e, b, a), patterson_d(a, e, b, a),
         f_d(a, b, e, a), fst_nei(a, b), fst_nei(a, b, e), jost_d(a, b, e), pbs(a, b, e), pbs_n1(e, a, b),
         shared_polymorphism(a, b), private_alleles(a, b), inbreeding(z), fst_weir_cockerham(z, y),
         fst_weir_cockerham_haploid(a, b, e),
         jackknife(site_f2(a, b), 1, allele_number(a)), jackknife(site_f4(a, e, b, a), 1, allele_number(b))"
    );
    format!(
        "SELECT count(*), {everyone}, {first}, {second}, {two},
                exact_sum(site_diversity(a)), exact_sum(site_divergence(a, b)), exact_sum(site_fst_hudson(a, b)['num']),
                sum(site_differences(a, b)), sum(site_comparisons(a, b)), sum(g['het']), sum(g['missing'])
         FROM (SELECT variant_allele, call_genotype, genotype_counts(call_genotype, 'second') AS g,
                      allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b,
                      allele_counts(call_genotype) AS e, zygosity_counts(call_genotype, 'first') AS z,
                      zygosity_counts(call_genotype, 'second') AS y FROM t)",
        everyone = one("call_genotype"),
        first = one("a"),
        second = one("b"),
    )
}

/// Queries with one order of rows each, over the table `t` with the populations `first` and `second`.
pub fn queries(size: u32) -> Vec<(&'static str, String)> {
    let interval = "count(*) AS n, diversity(a) AS pi, theta_w(a) AS w, tajimas_d(a) AS d, divergence(a, b) AS dxy,
                    fst_hudson(a, b) AS fst, sfs(a) AS sfs, joint_sfs(a, b) AS joint, project_sfs(b, 3) AS projected";
    let counts =
        "allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b";
    vec![
        ("statistics", statistics(4)),
        (
            "by contig",
            "SELECT variant_contig, count(*), sfs(call_genotype), tajimas_d(call_genotype, 'first'),
                    divergence(call_genotype, 'first', 'second'), project_sfs(call_genotype, 'second', 3)
             FROM t GROUP BY variant_contig ORDER BY variant_contig"
                .to_string(),
        ),
        (
            "genome scan",
            format!(
                "SELECT variant_contig, start, {interval} FROM (
                   SELECT variant_contig, unnest(genome_bins(variant_position, {size}, {step})) AS start, {counts} FROM t)
                 GROUP BY variant_contig, start ORDER BY variant_contig, start",
                step = size / 5
            ),
        ),
        (
            "grouping sets",
            format!(
                "SELECT one, variant_contig, bin, count(*), diversity(a), sfs(b) FROM (
                   SELECT 'one' AS one, variant_contig, genome_bin(variant_position, {size}) AS bin, {counts} FROM t)
                 GROUP BY CUBE(one, variant_contig, bin) ORDER BY one, variant_contig, bin"
            ),
        ),
        (
            "windows of sites",
            format!(
                "SELECT bin, {interval} FROM (
                   SELECT site_bin(row_number() OVER (ORDER BY variant_contig, variant_position), 50) AS bin, {counts} FROM t)
                 GROUP BY bin ORDER BY bin"
            ),
        ),
        (
            "every population",
            "SELECT p['population'] AS population, count(*), sum(p['copies']), diversity(p['ac']), theta_w(p['ac']),
                    segregating_sites(p['ac']), tajimas_d(p['ac']), project_sfs(p['ac'], 4)
             FROM (SELECT unnest(population_counts(call_genotype)) AS p FROM t) GROUP BY 1 ORDER BY 1"
                .to_string(),
        ),
        (
            "every pair",
            "SELECT p['population1'] AS population1, p['population2'] AS population2, count(*), sum(p['copies1'] + p['copies2']),
                    divergence(p['ac1'], p['ac2']), fst_hudson(p['ac1'], p['ac2']), f2(p['ac1'], p['ac2'])
             FROM (SELECT unnest(population_pair_counts(call_genotype)) AS p FROM t) GROUP BY 1, 2 ORDER BY 1, 2"
                .to_string(),
        ),
        (
            "sliding rows",
            "SELECT variant_contig, variant_position,
                    diversity(call_genotype, 'first') OVER w, theta_w(call_genotype) OVER w,
                    tajimas_d(call_genotype, 'second') OVER w, segregating_sites(call_genotype, 'first') OVER w,
                    fst_hudson(call_genotype, 'first', 'second') OVER w, divergence(call_genotype, 'first', 'second') OVER w,
                    sfs(call_genotype, 'first') OVER w, project_sfs(call_genotype, 'second', 3) OVER w,
                    f3(call_genotype, 'first', 'second', 'first') OVER w, pbs(call_genotype, 'first', 'second', 'second') OVER w,
                    patterson_d(call_genotype, 'first', 'second', 'first', 'second') OVER w,
                    jost_d(call_genotype, 'first', 'second', 'second') OVER w,
                    shared_polymorphism(call_genotype, 'first', 'second') OVER w
             FROM t WINDOW w AS (PARTITION BY variant_contig ORDER BY variant_position ROWS BETWEEN 20 PRECEDING AND 5 FOLLOWING)
             ORDER BY variant_contig, variant_position"
                .to_string(),
        ),
        (
            "sliding range",
            format!(
                "SELECT variant_contig, variant_position,
                        diversity(call_genotype, 'first') OVER w, tajimas_d(call_genotype) OVER w,
                        exact_sum(site_divergence(allele_counts(call_genotype, 'first'),
                                                  allele_counts(call_genotype, 'second'))) OVER w
                 FROM t WINDOW w AS (PARTITION BY variant_contig ORDER BY variant_position
                                     RANGE BETWEEN {half} PRECEDING AND {half} FOLLOWING)
                 ORDER BY variant_contig, variant_position",
                half = size / 10
            ),
        ),
        (
            "rows",
            "SELECT variant_contig, variant_position, variant_allele, allele_counts(call_genotype, 'second'),
                    genotype_counts(call_genotype)['het'], population_counts(call_genotype),
                    population_pair_counts(call_genotype),
                    select_samples(call_genotype, 'first')
             FROM t ORDER BY variant_contig, variant_position"
                .to_string(),
        ),
    ]
}

/// Runs `queries` in sessions of each of `partitions` and `batches`; the first of both is what the others are compared with.
async fn same_bits(
    store: &Path,
    populations: &Path,
    queries: &[(&'static str, String)],
    partitions: &[usize],
    batches: &[usize],
) {
    let on_workers = common::on_given_workers();
    let batches = match on_workers {
        true => &batches[..batches.len().min(2)],
        false => batches,
    };
    let mut wanted: Vec<Bits> = Vec::new();
    let mut most = 0;
    for &partitions in partitions {
        for &batch in batches {
            let ctx = common::session(partitions, batch);
            common::create(&ctx, "t", store, Some(populations)).await;
            for (at, (name, sql)) in queries.iter().enumerate() {
                let found = bits(&ctx, sql).await;
                // On workers every scan is divided.
                assert!(
                    on_workers || found.scanned <= partitions.max(1),
                    "{name}: {} partitions of {partitions}",
                    found.scanned
                );
                most = most.max(found.scanned);
                let Some(wanted) = wanted.get(at) else {
                    assert!(!found.rows.is_empty(), "{name}: no rows");
                    wanted.push(found);
                    continue;
                };
                let place = format!(
                    "{}, {name}, {partitions} partitions, batches of {batch}",
                    store.display()
                );
                assert_eq!(found.schema, wanted.schema, "{place}");
                assert_eq!(
                    found.rows.len(),
                    wanted.rows.len(),
                    "{place}: number of rows"
                );
                if let Some(row) =
                    (0..found.rows.len()).find(|&row| found.rows[row] != wanted.rows[row])
                {
                    panic!(
                        "{place}: row {row} differs\n{}\nexpected\n{}",
                        found.text, wanted.text
                    );
                }
            }
        }
    }
    // On workers, the scans of a plan are not found here.
    assert!(
        most > 2 || on_workers,
        "{}: the scan was never split into more than {most} partitions",
        store.display()
    );
}

async fn fixture(store: &str, size: u32, batches: &[usize]) {
    let folder = common::fixtures();
    let (zip, populations) = (
        folder.join(format!("{store}.vcz.zip")),
        folder.join(format!("{store}.populations.tsv")),
    );
    same_bits(&zip, &populations, &queries(size), &[1, 2, 16], batches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sim() {
    fixture("sim", 50_000, &[8192, 7, 1000]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing() {
    fixture("missing", 2_000, &[8192, 1, 7, 1000]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks7() {
    fixture("chunks7", 5_000, &[8192, 1, 7, 1000]).await;
}

/// A million sites: sums long enough for the order of additions to show in doubles.
#[tokio::test(flavor = "multi_thread")]
async fn gamb_x() {
    let Some(folder) = common::shared_data() else {
        return;
    };
    let some = ["statistics", "genome scan", "every population"];
    let mut queries = queries(250_000);
    queries.retain(|(name, _)| some.contains(name));
    assert_eq!(queries.len(), some.len());
    // Every statistic, and frames, of a part of it.
    for (name, sql) in &mut queries {
        if *name == "statistics" {
            let part = " FROM t WHERE variant_position < 9000000)";
            *sql = sql.replace(" FROM t)", part);
            assert!(sql.contains(part), "{sql}");
        }
    }
    queries.push((
        "sliding",
        "SELECT variant_position, diversity(call_genotype, 'first') OVER w, tajimas_d(call_genotype, 'second') OVER w,
                fst_hudson(call_genotype, 'first', 'second') OVER w
         FROM t WHERE variant_position BETWEEN 9000001 AND 9050000
         WINDOW w AS (ORDER BY variant_position ROWS BETWEEN 500 PRECEDING AND CURRENT ROW) ORDER BY variant_position"
            .to_string(),
    ));
    let (store, populations) = (
        folder.join("gambX.vcz.zip"),
        folder.join("gambX.populations.tsv"),
    );
    same_bits(&store, &populations, &queries, &[1, 2, 16], &[8192, 1000]).await;
}
