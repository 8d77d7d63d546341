//! Aggregates over individuals and haplotypes, on the fixtures: they agree with the counts of the same genotypes, with themselves
//! however they are computed, and keep to the memory that they have.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::common::{create, fails, fixtures, renamed_samples, row, run, session};
use crate::partitions::bits;

/// Fixtures of every ploidy, with and without missing calls, of many alleles, in chunks of a few samples.
const STORES: [&str; 9] = [
    "sim.vcz.zip",
    "missing.vcz.zip",
    "missing.v3.vcz.zip",
    "missing_data.vcz.zip",
    "haploid.vcz.zip",
    "tetraploid.vcz.zip",
    "wide_alleles.vcz.zip",
    "int16.vcz.zip",
    "chunks7.vcz.zip",
];

const CLASSES: [&str; 5] = ["hom_ref", "het", "hom_alt", "haploid", "missing"];

/// Sums of `of`'s classes.
fn sums(of: &str) -> String {
    let sums = CLASSES.map(|class| format!("CAST(sum({of}['{class}']) AS BIGINT) AS {class}"));
    sums.join(", ")
}

async fn with_store(ctx: &SessionContext, store: &str) {
    let name = store.split('.').next().unwrap();
    let populations = fixtures().join(format!("{name}.populations.tsv"));
    create(ctx, "t", &fixtures().join(store), Some(&populations)).await;
}

/// Over individuals, sample_counts sum to what genotype_counts sum to over sites; each individual has every row.
#[tokio::test(flavor = "multi_thread")]
async fn sums_over_individuals_are_sums_over_sites() {
    for store in STORES {
        let ctx = session(2, 100);
        with_store(&ctx, store).await;
        for population in ["", ", 'first'", ", 'second'"] {
            let sites = format!(
                "SELECT {} FROM (SELECT genotype_counts(call_genotype{population}) AS g FROM t)",
                sums("g")
            );
            let individuals = format!(
                "SELECT {} FROM (SELECT unnest(sample_counts(call_genotype{population})) AS s FROM t)",
                sums("s")
            );
            let place = format!("{store}{population}");
            assert_eq!(
                row(&ctx, &individuals).await,
                row(&ctx, &sites).await,
                "{place}"
            );
            let alleles = format!(
                "SELECT CAST(sum(cardinality(array_positions(array_slice(ac, 2, CAST(cardinality(ac) AS BIGINT)), 1))) AS BIGINT) FROM
                 (SELECT allele_counts(call_genotype{population})::int[] AS ac FROM t)"
            );
            let singletons = format!(
                "SELECT CAST(sum(s['singletons']) AS BIGINT) FROM
                 (SELECT unnest(sample_counts(call_genotype{population})) AS s FROM t)"
            );
            assert_eq!(
                row(&ctx, &singletons).await,
                row(&ctx, &alleles).await,
                "{place}"
            );
        }
    }
}

/// With other partitions and batches, outside of the scan, and of samples that were selected before: the same bits.
#[tokio::test(flavor = "multi_thread")]
async fn ways_of_computing_do_not_show() {
    for store in STORES {
        let one = session(1, 8192);
        with_store(&one, store).await;
        let over = |genotypes: &str, population: &str, from: &str| {
            format!(
                "SELECT variant_contig, genome_bin(variant_position, 1000) AS w, sample_counts({genotypes}{population}) AS s,
                        garud_h({genotypes}{population}) AS h, haplotype_count({genotypes}{population}) AS n
                 FROM {from} GROUP BY 1, 2 ORDER BY 1, 2"
            )
        };
        let expected = bits(&one, &over("call_genotype", ", 'first'", "t")).await;
        for (partitions, batch) in [(2, 1000), (16, 7), (3, 64)] {
            let ctx = session(partitions, batch);
            with_store(&ctx, store).await;
            let kept = "CREATE TABLE kept AS SELECT variant_contig, variant_position, call_genotype FROM t";
            run(&ctx, kept).await;
            let place = format!("{store}, {partitions} partitions, batches of {batch}");
            for (genotypes, population, from) in [
                ("call_genotype", ", 'first'", "t"),
                (
                    "g",
                    "",
                    "(SELECT variant_contig, variant_position, select_samples(call_genotype, 'first') AS g FROM t)",
                ),
                // Genotypes that no scan computes with, of a table that is in the query.
                (
                    "call_genotype",
                    ", 'first'",
                    "(SELECT * FROM kept WHERE (SELECT count(*) FROM t) > 0)",
                ),
                (
                    "call_genotype",
                    ", (SELECT array_agg(sample_id) FROM vcz_samples('t') WHERE array_has(populations, 'first'))",
                    "t",
                ),
            ] {
                let sql = over(genotypes, population, from);
                let found = bits(&ctx, &sql).await;
                assert!(
                    found.rows == expected.rows,
                    "{place}: {sql}\n{}\nexpected\n{}",
                    found.text,
                    expected.text
                );
            }
        }
    }
}

/// A genome in two stores of the same samples, united, is the genome; stores of other samples are not one.
#[tokio::test(flavor = "multi_thread")]
async fn unions_are_of_the_same_samples() {
    let ctx = session(2, 100);
    with_store(&ctx, "sim.vcz.zip").await;
    run(
        &ctx,
        "CREATE VIEW parts AS SELECT variant_position, call_genotype FROM t WHERE variant_position < 200000
         UNION ALL SELECT variant_position, call_genotype FROM t WHERE variant_position >= 200000",
    )
    .await;
    for call in [
        "sample_counts(call_genotype)",
        "sample_counts(call_genotype, 'first')",
        "garud_h(call_genotype, 'second')",
    ] {
        let of = |from: &str| format!("SELECT {call} AS x FROM {from}");
        assert!(
            bits(&ctx, &of("parts")).await.rows == bits(&ctx, &of("t")).await.rows,
            "{call}"
        );
    }
    let other = renamed_samples("sim.vcz.zip", "individuals.vcz");
    create(&ctx, "other", &other, None).await;
    let sql = "SELECT sample_counts(call_genotype) FROM (SELECT call_genotype FROM t UNION ALL SELECT call_genotype FROM other)";
    let error = fails(&ctx, sql).await;
    assert!(
        error.contains("the sample ids of these genotypes are unknown"),
        "{error}"
    );
}

/// A sliding frame gives what the same rows give by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn sliding_frames_are_recomputation() {
    for store in ["missing.vcz.zip", "tetraploid.vcz.zip", "haploid.vcz.zip"] {
        let ctx = session(2, 50);
        with_store(&ctx, store).await;
        let rows = "(SELECT *, row_number() OVER (ORDER BY variant_contig, variant_position, variant_allele) AS at FROM t)";
        let calls = |over: &str| {
            format!(
                "sample_counts(call_genotype, 'first'){over} AS s, garud_h(call_genotype, 'first'){over} AS h,
                 haplotype_diversity(call_genotype){over} AS d, haplotype_count(call_genotype){over} AS n"
            )
        };
        let sliding = format!(
            "SELECT at, {} FROM {rows} WHERE at <= 60
             WINDOW f AS (ORDER BY at ROWS BETWEEN 4 PRECEDING AND 2 FOLLOWING) ORDER BY at",
            calls(" OVER f")
        );
        let joined = format!(
            "SELECT a.at, {} FROM {rows} AS a JOIN {rows} AS b ON b.at BETWEEN a.at - 4 AND a.at + 2
             WHERE a.at <= 60 AND b.at <= 60 GROUP BY a.at ORDER BY a.at",
            calls("").replace("call_genotype", "b.call_genotype")
        );
        let (found, expected) = (bits(&ctx, &sliding).await, bits(&ctx, &joined).await);
        assert!(
            found.rows == expected.rows,
            "{store}\n{}\nexpected\n{}",
            found.text,
            expected.text
        );
    }
}

/// A session whose queries may take `bytes` of memory together.
fn bounded(bytes: usize, partitions: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(bytes, 1.0)
        .build()
        .unwrap();
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(512);
    datafusion_vcz::session::context(config, Arc::new(runtime)).unwrap()
}

/// The genotypes of `sim` as the table `kept` of `ctx`, whose memory is not accounted.
async fn with_kept(ctx: &SessionContext) {
    let free = session(1, 512);
    with_store(&free, "sim.vcz.zip").await;
    let sql = "CREATE TABLE kept AS SELECT row_number() OVER () AS at, variant_position, call_genotype FROM t";
    run(&free, sql).await;
    let kept = free.table_provider("kept").await.unwrap();
    ctx.register_table("kept", kept).unwrap();
}

/// States are accounted for: a pool that is too small for those of many groups is an error that says so, or groups spill.
#[tokio::test(flavor = "multi_thread")]
async fn states_keep_to_the_memory_pool() {
    let free = session(2, 512);
    with_store(&free, "sim.vcz.zip").await;
    with_kept(&free).await;
    for call in ["sample_counts(call_genotype)", "garud_h(call_genotype)"] {
        // Every site is a group, in no order.
        let sql = format!(
            "SELECT md5(CAST(at AS VARCHAR)) AS k, {call} AS x FROM kept WHERE (SELECT count(*) FROM t) > 0 GROUP BY 1 ORDER BY 1"
        );
        let text = |batches: &[RecordBatch]| pretty_format_batches(batches).unwrap().to_string();
        let expected = text(&run(&free, &sql).await);
        // The second cannot hold the states of one batch.
        for (bytes, must_fail) in [(3_000_000, false), (150_000, true)] {
            let ctx = bounded(bytes, 2);
            with_store(&ctx, "sim.vcz.zip").await;
            with_kept(&ctx).await;
            match ctx.sql(&sql).await.unwrap().collect().await {
                Ok(found) => {
                    assert!(!must_fail, "{call} with {bytes} bytes");
                    assert!(text(&found) == expected, "{call} with {bytes} bytes");
                }
                Err(error) => {
                    let root = error.find_root();
                    let exhausted = matches!(root, DataFusionError::ResourcesExhausted(_));
                    assert!(exhausted, "{call} with {bytes} bytes\n{error}");
                }
            }
        }
    }
    // What fits works.
    let ctx = bounded(3_000_000, 2);
    with_store(&ctx, "sim.vcz.zip").await;
    let sql = "SELECT sample_counts(call_genotype) AS s, garud_h(call_genotype) AS h FROM t";
    assert!(bits(&ctx, sql).await.rows == bits(&free, sql).await.rows);
}

/// Frames are accounted for: those that are too large for the pool are an error that says so, wherever their rows lie.
#[tokio::test(flavor = "multi_thread")]
async fn frames_keep_to_the_memory_pool() {
    let free = session(1, 512);
    with_kept(&free).await;
    let query = |frame: &str| {
        format!(
            "SELECT at, garud_h(call_genotype) OVER ({frame}) AS h, haplotype_count(call_genotype) OVER ({frame}) AS n
             FROM (SELECT * FROM kept WHERE at <= 4000)"
        )
    };
    let kept = "in OVER keeps the genotypes of its frame, now of ";
    let taken = "spectra and genotypes in OVER take";
    for (frame, reason) in [
        ("ROWS 3000 PRECEDING", kept),
        ("ROWS BETWEEN CURRENT ROW AND 3000 FOLLOWING", taken),
        ("", taken),
    ] {
        let sql = query(frame);
        let expected = bits(&free, &sql).await;
        assert_eq!(expected.rows.len(), 4000);
        for bytes in [200_000, 2_000_000] {
            let ctx = bounded(bytes, 1);
            with_kept(&ctx).await;
            if bytes > 1_000_000 {
                let found = bits(&ctx, &sql).await;
                assert!(found.rows == expected.rows, "{frame}");
                continue;
            }
            let failed = ctx.sql(&sql).await.unwrap().collect().await;
            let error = failed.expect_err(frame);
            let exhausted = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
            assert!(exhausted, "{frame}\n{error}");
            assert!(error.to_string().contains(reason), "{frame}\n{error}");
            let pool = Arc::clone(&ctx.runtime_env().memory_pool);
            for _ in 0..500 {
                if pool.reserved() > 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
            assert_eq!(pool.reserved(), 0, "{frame}");
        }
    }
    // Rows that leave a frame give their memory back.
    let ctx = bounded(200_000, 1);
    with_kept(&ctx).await;
    let sql = query("ROWS BETWEEN 50 PRECEDING AND 50 FOLLOWING");
    assert!(bits(&ctx, &sql).await.rows == bits(&free, &sql).await.rows);
}
