//! Pairs of variants a second, by SQL: pruning, r² sums and moments by distance, and pairs above an r², with 1 thread.
//! `cargo bench --bench ld --profile dev --config 'profile.dev.package.datafusion-vcz.opt-level=3' -- [variants]`.
//!
//! The stores have 1,470 diploids, all genotypes or 99 % of them, and by default 100,000 independent variants 100 bases apart, whose alternate alleles have frequencies like 1/x, in chunks of
//! 1,000 uncompressed variants. Times are of whole queries, the smallest of three: reading and gathering genotypes is part of them. Every
//! pair within the distance counts as compared, also where the allele frequencies alone decide it.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::{Value, json};

const SAMPLES: usize = 1_470;
const COPIES: usize = 2 * SAMPLES;
const CHUNK: usize = 1_000;
const DISTANCE: usize = 100;

/// xorshift64*
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n as u64) as usize
    }
}

fn array(
    store: &Path,
    name: &str,
    dtype: &str,
    shape: &[usize],
    chunks: &[usize],
    dimensions: &[&str],
) -> Result<(), Box<dyn Error>> {
    let folder = store.join(name);
    fs::create_dir_all(&folder)?;
    let metadata = json!({
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "compressor": Value::Null, "fill_value": Value::Null,
        "order": "C", "filters": Value::Null, "dimension_separator": "."
    });
    fs::write(folder.join(".zarray"), metadata.to_string())?;
    let attributes = json!({ "_ARRAY_DIMENSIONS": dimensions });
    fs::write(folder.join(".zattrs"), attributes.to_string())?;
    Ok(())
}

/// Writes the store; of `missing` samples of each variant the genotype is missing.
fn write_store(store: &Path, variants: usize, missing: usize) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(store)?;
    fs::write(
        store.join(".zgroup"),
        json!({ "zarr_format": 2 }).to_string(),
    )?;
    let attributes = json!({ "vcf_zarr_version": "0.4", "source": "benches/ld.rs" });
    fs::write(store.join(".zattrs"), attributes.to_string())?;
    array(store, "contig_id", "|S1", &[1], &[1], &["contigs"])?;
    fs::write(store.join("contig_id").join("0"), b"1")?;
    array(
        store,
        "sample_id",
        "|S5",
        &[SAMPLES],
        &[SAMPLES],
        &["samples"],
    )?;
    let ids: String = (0..SAMPLES).map(|sample| format!("s{sample:04}")).collect();
    fs::write(store.join("sample_id").join("0"), ids)?;
    let (rows, chunk) = ([variants], [CHUNK]);
    array(store, "variant_contig", "|i1", &rows, &chunk, &["variants"])?;
    array(
        store,
        "variant_position",
        "<i4",
        &rows,
        &chunk,
        &["variants"],
    )?;
    array(
        store,
        "variant_allele",
        "|S1",
        &[variants, 2],
        &[CHUNK, 2],
        &["variants", "alleles"],
    )?;
    let dimensions = ["variants", "samples", "ploidy"];
    let shape = [variants, SAMPLES, 2];
    array(
        store,
        "call_genotype",
        "|i1",
        &shape,
        &[CHUNK, SAMPLES, 2],
        &dimensions,
    )?;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for chunk in 0..variants.div_ceil(CHUNK) {
        let mut codes = vec![0u8; CHUNK * COPIES];
        let mut positions = Vec::with_capacity(4 * CHUNK);
        for (at, row) in codes.chunks_exact_mut(COPIES).enumerate() {
            let position = (1 + (chunk * CHUNK + at) * DISTANCE) as i32;
            positions.extend(position.to_le_bytes());
            // Log-uniform from 1 to half of the copies.
            let exponent = noise.below(1 << 20) as f64 / f64::from(1 << 20);
            let carriers = (COPIES as f64 / 2.0).powf(exponent) as usize;
            for _ in 0..carriers {
                row[noise.below(COPIES)] = 1;
            }
            for _ in 0..missing {
                let copy = noise.below(SAMPLES) * 2;
                row[copy..copy + 2].fill(u8::MAX);
            }
        }
        fs::write(store.join(format!("call_genotype/{chunk}.0.0")), codes)?;
        fs::write(store.join(format!("variant_position/{chunk}")), positions)?;
        fs::write(
            store.join(format!("variant_contig/{chunk}")),
            vec![0u8; CHUNK],
        )?;
        let alleles = b"AC".repeat(CHUNK);
        fs::write(store.join(format!("variant_allele/{chunk}.0")), alleles)?;
    }
    Ok(())
}

async fn seconds(ctx: &SessionContext, sql: &str) -> Result<f64, Box<dyn Error>> {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let start = Instant::now();
        ctx.sql(sql).await?.collect().await?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

fn main() -> Result<(), Box<dyn Error>> {
    let variants = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(100_000usize);
    let folder = tempfile::tempdir()?;
    let complete = folder.path().join("ld.vcz");
    write_store(&complete, variants, 0)?;
    let with_missing = folder.path().join("missing.vcz");
    write_store(&with_missing, variants, SAMPLES / 100)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let config = SessionConfig::new().with_target_partitions(1);
        let ctx = datafusion_vcz::session::context(config, Arc::new(RuntimeEnv::default()))?;
        for (name, store) in [("t", &complete), ("missing", &with_missing)] {
            let sql = format!(
                "CREATE EXTERNAL TABLE {name} STORED AS VCZ LOCATION '{}'",
                store.display()
            );
            ctx.sql(&sql).await?.collect().await?;
        }
        ctx.sql("SET vcz.backend = 'host'").await?.collect().await?;
        let scan = seconds(&ctx, "SELECT haplotype_count(call_genotype) FROM t LIMIT 1").await?;
        println!(
            "{variants} variants of {COPIES} copies; haplotype_count, for comparison: {scan:.3} s"
        );
        let near = 1_000;
        let pairs = (near * variants - near * (near + 1) / 2) as f64;
        let window = near * DISTANCE;
        for (name, sql) in [
            (
                "vcz_ld_prune, r2 0.2",
                format!("SELECT count(*) FROM vcz_ld_prune('t', {window}, 0.2)"),
            ),
            (
                "vcz_ld_prune, r2 0.2, 1 % missing",
                format!("SELECT count(*) FROM vcz_ld_prune('missing', {window}, 0.2)"),
            ),
            (
                "vcz_ld, min_r2 0.2",
                format!("SELECT count(*) FROM vcz_ld('t', {window}, 0.2)"),
            ),
            (
                "ld_decay, 10 bins",
                format!(
                    "SELECT ld_decay(call_genotype, variant_position, {}) FROM t",
                    edges(window)
                ),
            ),
            (
                "ld_decay, 10 bins, 1 % missing",
                format!(
                    "SELECT ld_decay(call_genotype, variant_position, {}) FROM missing",
                    edges(window)
                ),
            ),
            (
                "ld_moments, 10 bins",
                format!(
                    "SELECT ld_moments(call_genotype, variant_position, {}) FROM t",
                    edges(window)
                ),
            ),
        ] {
            let seconds = seconds(&ctx, &sql).await?;
            println!(
                "{name}: {seconds:.3} s, {:.0} M pairs/s within {near} variants",
                pairs / seconds / 1e6
            );
        }
        Ok::<(), Box<dyn Error>>(())
    })
}

/// The bounds of ten bins up to `window`, which is in the last.
fn edges(window: usize) -> String {
    let edges: Vec<String> = (0..10)
        .map(|bin| format!("{}", bin * window / 10))
        .collect();
    format!("[{}, {}]", edges.join(", "), window + 1)
}
