//! Opening, planning and scanning a store, and the aggregates alone over counts in memory: `cargo bench --profile dev --config 'profile.dev.package.datafusion-vcz.opt-level=3'`.
//!
//! The store is the fixture `sim`, or the one that `VCZ_BENCH_STORE` names (with `VCZ_BENCH_POPULATIONS`, a file with the populations
//! `first` and `second`). One partition throughout, so that figures compare with single-threaded peers.

use std::path::Path;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use datafusion::datasource::MemTable;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use tokio::runtime::Runtime;

const SPECTRUM: &str = "SELECT sfs(call_genotype, 'first') FROM bench";
const JOINT: &str = "SELECT joint_sfs(call_genotype, 'first', 'second') FROM bench";
const WINDOWS: &str = "SELECT variant_contig, genome_bin(variant_position, 100000), diversity(call_genotype, 'first'), \
    divergence(call_genotype, 'first', 'second'), fst_hudson(call_genotype, 'first', 'second') FROM bench GROUP BY 1, 2";
const OVERLAPPING: &str = "SELECT variant_contig, w, diversity(call_genotype, 'first') FROM (SELECT variant_contig, call_genotype, \
    unnest(genome_bins(variant_position, 100000, 10000)) AS w FROM bench) GROUP BY 1, 2";

const FILTERED: &str = "SELECT sfs(filter_calls(call_genotype, call_GQ, 20, NULL)) FROM bench";
const FILTERED_BOTH: &str = "SELECT sfs(filter_calls(filter_calls(call_genotype, call_GQ, 20), call_DP, 5, 100)) FROM bench";
/// What the first must decode, as columns.
const BOTH_ARRAYS: &str = "SELECT call_genotype, call_GQ FROM bench";

/// Populations of `hundred`, the same table with other populations: as many of these as it has samples.
const POPULATIONS: usize = 100;
const UNNESTED: &str = "SELECT p['population'], diversity(p['ac']) FROM (SELECT unnest(population_counts(call_genotype)) AS p FROM hundred) GROUP BY 1";
const UNNESTED_WINDOWS: &str = "SELECT variant_contig, genome_bin(variant_position, 100000), p['population'], diversity(p['ac']) FROM \
    (SELECT variant_contig, variant_position, unnest(population_counts(call_genotype)) AS p FROM hundred) GROUP BY 1, 2, 3";

/// The input of the aggregates, one row for each variant.
const COUNTS: &str = "SELECT variant_contig, variant_position, allele_counts(call_genotype, 'first') AS a, \
    allele_counts(call_genotype, 'second') AS b FROM bench";
/// At least this many rows in memory: the store's rows, repeated.
const AGGREGATED_ROWS: usize = 100_000;

fn session() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(1);
    datafusion_vcz::session::context(config, Arc::new(RuntimeEnv::default())).expect("a session")
}

fn store() -> (String, String) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let or = |name: &str, file: &str| {
        std::env::var(name).unwrap_or_else(|_| fixtures.join(file).display().to_string())
    };
    (
        or("VCZ_BENCH_STORE", "sim.vcz.zip"),
        or("VCZ_BENCH_POPULATIONS", "sim.populations.tsv"),
    )
}

async fn open(ctx: &SessionContext) {
    let (location, populations) = store();
    let sql = format!(
        "CREATE OR REPLACE EXTERNAL TABLE bench STORED AS VCZ LOCATION '{location}' OPTIONS ('vcz.populations' '{populations}')"
    );
    ctx.sql(&sql)
        .await
        .expect("a table")
        .collect()
        .await
        .expect("a table");
}

fn benches(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let ctx = session();
    runtime.block_on(open(&ctx));
    c.bench_function("open", |b| b.iter(|| runtime.block_on(open(&ctx))));
    c.bench_function("open_and_plan_cold", |b| {
        b.iter(|| {
            runtime.block_on(async {
                let ctx = session();
                open(&ctx).await;
                ctx.sql(WINDOWS)
                    .await
                    .expect("a plan")
                    .create_physical_plan()
                    .await
                    .expect("a plan")
            })
        })
    });
    c.bench_function("plan_warm", |b| {
        b.iter(|| {
            runtime.block_on(async {
                ctx.sql(WINDOWS)
                    .await
                    .expect("a plan")
                    .create_physical_plan()
                    .await
                    .expect("a plan")
            })
        })
    });
    let mut group = c.benchmark_group("query");
    group.sample_size(10);
    for (name, sql) in [
        ("sfs", SPECTRUM),
        ("joint_sfs", JOINT),
        ("windows", WINDOWS),
        ("overlapping_windows_10", OVERLAPPING),
    ] {
        group.bench_function(name, |b| b.iter(|| collect(&runtime, &ctx, sql)));
    }
    group.finish();
    many_populations(c, &runtime, &ctx);
    filters(c, &runtime, &ctx);
    aggregates(c, &runtime, &ctx);
}

/// One population and many, which together are all samples.
fn many_populations(c: &mut Criterion, runtime: &Runtime, ctx: &SessionContext) {
    let samples = runtime.block_on(async {
        let samples = ctx.sql("SELECT count(*) FROM vcz_samples('bench')").await;
        let rows = samples.expect("a plan").collect().await.expect("rows");
        let counted = rows[0].column(0).as_primitive::<Int64Type>().value(0);
        usize::try_from(counted).expect("a number of samples")
    });
    let populations = POPULATIONS.min(samples);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hundred.tsv");
    runtime.block_on(async {
        let sql = format!(
            "COPY (SELECT sample_id, concat('p', sample_index * {populations} / {samples}) AS population
             FROM vcz_samples('bench')) TO '{}' STORED AS CSV OPTIONS ('format.delimiter' '\t')",
            file.display()
        );
        let copied = ctx.sql(&sql).await.expect("a plan");
        copied.collect().await.expect("a file");
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE hundred STORED AS VCZ LOCATION '{}' OPTIONS ('vcz.populations' '{}')",
            store().0,
            file.display()
        );
        let created = ctx.sql(&sql).await.expect("a table");
        created.collect().await.expect("a table");
    });
    let of_each = |call: fn(usize) -> String, n: usize| {
        let calls: Vec<String> = (0..n).map(call).collect();
        format!("SELECT {} FROM hundred", calls.join(", "))
    };
    let counts = |i: usize| format!("count(allele_counts(call_genotype, 'p{i}'))");
    let diversity = |i: usize| format!("diversity(call_genotype, 'p{i}')");
    let mut group = c.benchmark_group("many_populations");
    group.sample_size(10);
    for (name, sql) in [
        ("allele_counts_one", of_each(counts, 1)),
        ("allele_counts_each", of_each(counts, populations)),
        ("diversity_one", of_each(diversity, 1)),
        ("diversity_each", of_each(diversity, populations)),
        ("diversity_unnested", UNNESTED.to_string()),
        ("diversity_unnested_windows", UNNESTED_WINDOWS.to_string()),
    ] {
        group.bench_function(name, |b| b.iter(|| collect(runtime, ctx, &sql)));
    }
    group.finish();
}

/// Filters of calls, where the store has `call_GQ` and `call_DP` (`simulate.py --calls`), beside decoding the genotypes and `call_GQ`.
fn filters(c: &mut Criterion, runtime: &Runtime, ctx: &SessionContext) {
    let columns = runtime.block_on(async { ctx.table("bench").await.expect("a table") });
    let has = |name| columns.schema().has_column_with_unqualified_name(name);
    if !has("call_GQ") || !has("call_DP") {
        return;
    }
    let mut group = c.benchmark_group("filter_calls");
    group.sample_size(10);
    for (name, sql) in [
        ("decode_genotypes_and_gq", BOTH_ARRAYS),
        ("sfs_gq", FILTERED),
        ("sfs_gq_dp", FILTERED_BOTH),
    ] {
        group.bench_function(name, |b| b.iter(|| stream(runtime, ctx, sql)));
    }
    group.finish();
}

/// Runs a query without keeping its rows.
fn stream(runtime: &Runtime, ctx: &SessionContext, sql: &str) -> usize {
    runtime.block_on(async {
        let rows = ctx.sql(sql).await.expect("a plan");
        let rows = rows.execute_stream().await.expect("rows");
        let counted = rows.try_fold(0, |n, batch| async move { Ok(n + batch.num_rows()) });
        counted.await.expect("rows")
    })
}

/// Aggregates over counts in memory, without fetching, decoding and counting.
fn aggregates(c: &mut Criterion, runtime: &Runtime, ctx: &SessionContext) {
    let counts = runtime.block_on(async {
        let counts = ctx.sql(COUNTS).await.expect("a plan");
        counts.collect().await.expect("rows")
    });
    let rows: usize = counts.iter().map(|batch| batch.num_rows()).sum();
    let times = AGGREGATED_ROWS.div_ceil(rows);
    let schema = counts[0].schema();
    let batches = (0..times).flat_map(|_| counts.iter().cloned()).collect();
    let table = MemTable::try_new(schema, vec![batches]).expect("a table");
    ctx.register_table("counts", Arc::new(table))
        .expect("a table");
    let mut group = c.benchmark_group("aggregate");
    group
        .sample_size(10)
        .throughput(Throughput::Elements((times * rows) as u64));
    for (name, what) in [
        ("sfs", "sfs(a)"),
        ("project_sfs", "project_sfs(a, 20)"),
        ("joint_sfs", "joint_sfs(a, b)"),
        ("diversity", "diversity(a)"),
        ("theta_w", "theta_w(a)"),
        ("tajimas_d", "tajimas_d(a)"),
        ("divergence", "divergence(a, b)"),
        ("fst_hudson", "fst_hudson(a, b)"),
    ] {
        let whole = format!("SELECT {what} FROM counts");
        group.bench_function(name, |b| b.iter(|| collect(runtime, ctx, &whole)));
    }
    for (name, what) in [("sfs", "sfs(a)"), ("fst_hudson", "fst_hudson(a, b)")] {
        let windows = format!(
            "SELECT variant_contig, genome_bin(variant_position, 100000), {what} FROM counts GROUP BY 1, 2"
        );
        group.bench_function(format!("{name}_windows"), |b| {
            b.iter(|| collect(runtime, ctx, &windows))
        });
    }
    group.finish();
}

fn collect(runtime: &Runtime, ctx: &SessionContext, sql: &str) -> usize {
    runtime.block_on(async {
        let rows = ctx.sql(sql).await.expect("a plan");
        rows.collect().await.expect("rows").len()
    })
}

criterion_group!(scan, benches);
criterion_main!(scan);
