//! The same queries on the host and on a GPU: the same batches of every partition, and every chunk really on the GPU. Used
//! by these tests with whatever device there is, and by the library's own with one in software.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use datafusion::prelude::SessionContext;

/// Makes a session of so many partitions and rows of a batch.
pub type MakeSession = fn(usize, usize) -> SessionContext;

/// Longer than any query here takes.
pub const LONG: Duration = Duration::from_secs(120);

/// The most samples of a store of which all pairs are compared.
const MOST_COMPARED: usize = 200;

/// What a query gave.
pub struct Answer {
    /// The batches of each partition, or the error.
    pub batches: std::result::Result<Vec<Vec<RecordBatch>>, String>,
    /// Chunks that were read, and decodings of a chunk by a GPU.
    pub chunks: (usize, usize),
    /// Bytes that a GPU read from files itself.
    pub direct: usize,
}

/// Runs a query to its end, without putting partitions together; a hang is a failure.
pub async fn ask(ctx: &SessionContext, sql: &str) -> Answer {
    let run = async {
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let batches = collect_partitioned(Arc::clone(&plan), ctx.task_ctx()).await;
        Ok::<_, datafusion::common::DataFusionError>((batches?, plan))
    };
    let result: Result<_> = tokio::time::timeout(LONG, run)
        .await
        .unwrap_or_else(|_| panic!("hangs: {sql}"));
    match result {
        Ok((batches, plan)) => Answer {
            batches: Ok(batches),
            chunks: (sum(&plan, "chunks_read"), sum(&plan, "chunks_on_gpu")),
            direct: sum(&plan, "bytes_direct"),
        },
        Err(error) => Answer {
            batches: Err(error.to_string()),
            chunks: (0, 0),
            direct: 0,
        },
    }
}

fn sum(plan: &Arc<dyn ExecutionPlan>, metric: &str) -> usize {
    let metrics = plan.metrics();
    let here = metrics.and_then(|metrics| Some(metrics.sum_by_name(metric)?.as_usize()));
    let below = plan.children().into_iter().map(|child| sum(child, metric));
    here.unwrap_or(0) + below.sum::<usize>()
}

/// Whether both are the same batches. Fields say which table they came from, so their metadata may differ.
pub fn are_equal(one: &[RecordBatch], other: &[RecordBatch]) -> bool {
    let is_equal = |(one, other): (&RecordBatch, &RecordBatch)| {
        one.num_rows() == other.num_rows() && one.columns() == other.columns()
    };
    one.len() == other.len() && one.iter().zip(other).all(is_equal)
}

/// The columns of a query as text.
pub async fn texts(ctx: &SessionContext, sql: &str) -> Vec<Vec<String>> {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| cast(column, &DataType::Utf8).unwrap())
            .collect();
        let text = |column: &arrow::array::ArrayRef, row: usize| {
            let strings = column.as_any().downcast_ref::<StringArray>().unwrap();
            let is_null = strings.is_null(row);
            (!is_null).then(|| strings.value(row).to_string())
        };
        rows.extend((0..batch.num_rows()).map(|row| {
            let row = columns.iter().map(|column| text(column, row));
            row.map(Option::unwrap_or_default).collect::<Vec<String>>()
        }));
    }
    rows
}

/// A session for each backend, with the same tables.
pub struct Backends {
    pub host: SessionContext,
    pub gpu: SessionContext,
    pub partitions: usize,
}

/// A query, the arrays over samples that it reads, and whether each chunk of them is decoded for one thing only.
struct Query {
    sql: String,
    arrays: Vec<String>,
    once: bool,
}

/// Which of the queries are asked: number `at`, and from there on every so many.
#[derive(Clone, Copy)]
pub struct Share {
    pub at: usize,
    pub of: usize,
}

impl Share {
    /// All queries.
    pub const ALL: Self = Self { at: 0, of: 1 };
}

impl Backends {
    pub async fn new(make: MakeSession, partitions: usize, batch_size: usize) -> Self {
        let both = Self {
            host: make(partitions, batch_size),
            gpu: make(partitions, batch_size),
            partitions,
        };
        ask(&both.host, "SET vcz.backend = 'host'").await;
        ask(&both.gpu, "SET vcz.backend = 'gpu'").await;
        both
    }

    pub async fn create(&self, table: &str, store: &Path, populations: Option<&Path>) {
        let options = populations.map_or(String::new(), |file| {
            format!("OPTIONS ('vcz.populations' '{}')", file.display())
        });
        let sql = format!(
            "CREATE EXTERNAL TABLE \"{table}\" STORED AS VCZ LOCATION '{}' {options}",
            store.display()
        );
        for ctx in [&self.host, &self.gpu] {
            ask(ctx, &format!("DROP TABLE IF EXISTS \"{table}\"")).await;
            if let Err(error) = ask(ctx, &sql).await.batches {
                panic!("{}: {error}", store.display());
            }
        }
    }

    /// The same batches, or the same error, from both.
    pub async fn same(&self, sql: &str, place: &str) -> (Answer, Answer) {
        let (host, gpu) = (ask(&self.host, sql).await, ask(&self.gpu, sql).await);
        assert_eq!(host.chunks.1, 0, "{place}: the host's on a GPU: {sql}");
        match (&host.batches, &gpu.batches) {
            (Ok(one), Ok(other)) => {
                assert_eq!(one.len(), other.len(), "{place}: partitions of {sql}");
                for (partition, (one, other)) in one.iter().zip(other).enumerate() {
                    let rows = |batches: &[RecordBatch]| -> Vec<usize> {
                        batches.iter().map(RecordBatch::num_rows).collect()
                    };
                    let place = format!("{place}, partition {partition}: {sql}");
                    assert_eq!(rows(one), rows(other), "{place}");
                    assert!(are_equal(one, other), "other values: {place}");
                }
            }
            (one, other) => assert_eq!(one.as_ref().err(), other.as_ref().err(), "{place}: {sql}"),
        }
        (host, gpu)
    }

    /// Asks a share of all queries of the table `t`. Gives how many chunks the GPU decoded.
    pub async fn compare(&self, place: &str, share: Share) -> usize {
        let place = format!("{place}, {} partitions", self.partitions);
        let refused = self.refused().await;
        let mut on_gpu = 0;
        let queries = self.queries().await.into_iter();
        for Query { sql, arrays, once } in queries.skip(share.at % share.of).step_by(share.of) {
            let reason = arrays.iter().find_map(|array| refused.get_key_value(array));
            if let Some((array, reason)) = reason {
                let answer = ask(&self.gpu, &sql).await;
                let error = answer.batches.expect_err("an array that no device decodes");
                assert!(
                    error.contains(&format!("'{array}'"))
                        && error.contains(reason)
                        && error.contains("SET vcz.backend = 'auto' or 'host'"),
                    "{place}: {sql}: {error}"
                );
                continue;
            }
            let (_, gpu) = self.same(&sql, &place).await;
            let (read, decoded) = gpu.chunks;
            // Frames with a checksum of their own are the host's, one by one.
            if once && !place.contains("zstd-checksum") {
                assert_eq!(decoded, read, "{place}: left to the host: {sql}");
            }
            on_gpu += decoded;
        }
        on_gpu
    }

    /// The arrays over samples that no device decodes, and why.
    async fn refused(&self) -> BTreeMap<String, String> {
        let sql = "SELECT name, reason FROM vcz_arrays('t') WHERE name LIKE 'call\\_%' AND cardinality(shape) > 1 AND backend = 'host'";
        let rows = texts(&self.gpu, sql).await.into_iter();
        rows.map(|row| (row[0].clone(), row[1].clone())).collect()
    }

    async fn queries(&self) -> Vec<Query> {
        let of = |column: &'static str, from: &str| {
            let sql = format!("SELECT {column} FROM {from}");
            let ctx = &self.host;
            async move {
                let rows = texts(ctx, &sql).await;
                rows.into_iter()
                    .map(|mut row| row.remove(0))
                    .collect::<Vec<String>>()
            }
        };
        let columns = of(
            "name",
            "vcz_arrays('t') WHERE name LIKE 'call\\_%' AND backend <> 'none' ORDER BY 1",
        );
        let columns: Vec<String> = columns.await;
        let mut queries = Vec::new();
        for name in &columns {
            let arrays = vec![name.clone()];
            let sql = format!("SELECT \"{name}\" FROM t");
            queries.push(Query {
                sql,
                arrays,
                once: true,
            });
        }
        let samples = of("sample_id", "vcz_samples('t') ORDER BY sample_index").await;
        if samples.is_empty() || !columns.iter().any(|name| name == "call_genotype") {
            return queries;
        }
        let genotypes = vec!["call_genotype".to_string()];
        let mut ask = |sql: String, once: bool| {
            let arrays = genotypes.clone();
            queries.push(Query { sql, arrays, once });
        };
        let quoted = |id: &String| format!("'{}'", id.replace('\'', "''"));
        let named = of("population", "vcz_populations('t')").await;
        let named: Vec<String> = named.iter().map(quoted).collect();
        let few = [0, samples.len() / 2, samples.len() - 1].map(|at| quoted(&samples[at]));
        let few = format!("[{}]", few.join(", "));
        let populations = named.iter().chain([&few]);
        let arguments: Vec<String> = std::iter::once(String::new())
            .chain(populations.map(|population| format!(", {population}")))
            .collect();
        for argument in &arguments {
            ask(
                format!("SELECT allele_counts(call_genotype{argument}) FROM t"),
                true,
            );
            ask(
                format!("SELECT genotype_counts(call_genotype{argument}) FROM t"),
                true,
            );
            ask(
                format!("SELECT zygosity_counts(call_genotype{argument}) FROM t"),
                true,
            );
            ask(
                format!("SELECT sample_counts(call_genotype{argument}) FROM t"),
                true,
            );
            ask(
                format!(
                    "SELECT sample_counts(call_genotype{argument}), haplotype_count(call_genotype{argument}) FROM t"
                ),
                true,
            );
            ask(
                format!(
                    "SELECT variant_contig, ld_decay(call_genotype{argument}, variant_position, [0, 10, 100, 1000]),
                            ld_moments(call_genotype{argument}, variant_position, [0, 300, 301]) FROM t GROUP BY 1 ORDER BY 1"
                ),
                false,
            );
            ask(
                format!(
                    "SELECT variant_contig, genome_bin(variant_position, 500), mean_r2(call_genotype{argument})
                       FROM t GROUP BY 1, 2 ORDER BY 1, 2"
                ),
                false,
            );
            // Counts over all pairs of many samples have millions of values.
            if !argument.is_empty() || samples.len() <= MOST_COMPARED {
                ask(
                    format!(
                        "SELECT sample_pairs(call_genotype{argument}), haplotype_pairs(call_genotype{argument}) FROM t"
                    ),
                    true,
                );
                ask(
                    format!(
                        "SELECT grm(call_genotype{argument}), pca(call_genotype{argument}, 1),
                                pca(call_genotype{argument}, 1, 'covariance') FROM t"
                    ),
                    true,
                );
            }
            let sql = format!(
                "SELECT sfs(call_genotype{argument}), sfs_folded(call_genotype{argument}),
                        diversity(call_genotype{argument}), tajimas_d(call_genotype{argument}) FROM t"
            );
            ask(sql, true);
        }
        if let [first, second, ..] = &named[..] {
            ask(
                "SELECT population_counts(call_genotype) FROM t".to_string(),
                true,
            );
            ask(
                "SELECT population_pair_counts(call_genotype) FROM t".to_string(),
                true,
            );
            ask(
                format!("SELECT joint_sfs(call_genotype, {first}, {second}) FROM t"),
                true,
            );
            let sql = format!(
                "SELECT variant_contig, genome_bin(variant_position, 5000), divergence(call_genotype, {first}, {second}),
                        fst_hudson(call_genotype, {first}, {second}) FROM t GROUP BY 1, 2 ORDER BY 1, 2"
            );
            ask(sql, false);
            let sql = format!(
                "SELECT variant_contig, fst_weir_cockerham(call_genotype, {first}, {second}), inbreeding(call_genotype, {first})
                   FROM t GROUP BY 1 ORDER BY 1"
            );
            ask(sql, false);
        }
        ask(
            format!("SELECT select_samples(call_genotype, {few}) FROM t"),
            true,
        );
        let all: Vec<String> = arguments
            .iter()
            .map(|p| {
                ["allele", "genotype", "zygosity"]
                    .map(|what| format!("{what}_counts(call_genotype{p})"))
                    .join(", ")
            })
            .collect();
        let all = all.join(", ");
        ask(
            format!(
                "SELECT variant_position, {all}, select_samples(call_genotype, {few}), call_genotype FROM t"
            ),
            false,
        );
        ask(
            format!("SELECT {all} FROM t WHERE variant_position % 7 = 3"),
            false,
        );
        if self.partitions == 1 {
            for columns in ["call_genotype", "allele_counts(call_genotype)"] {
                ask(format!("SELECT {columns} FROM t LIMIT 10"), false);
            }
        }
        queries.extend(self.filters(&few).await);
        queries
    }

    /// Genotypes filtered by each field of calls; `few` is a population.
    async fn filters(&self, few: &str) -> Vec<Query> {
        let fields = "SELECT name, dtype, cardinality(shape) FROM vcz_arrays('t')
             WHERE name LIKE 'call\\_%' AND name NOT LIKE 'call\\_genotype' AND backend <> 'none' AND cardinality(shape) > 1 ORDER BY 1";
        let mut queries = Vec::new();
        for row in texts(&self.host, fields).await {
            let (name, data_type) = (&row[0], row[1].as_str());
            let value = match row[2].as_str() {
                "2" => format!("\"{name}\""),
                _ => format!("call_value(\"{name}\", 1)"),
            };
            let is_number = ["int", "uint", "float"]
                .iter()
                .any(|kind| data_type.starts_with(kind));
            let bounds: &[&str] = match data_type {
                "bool" => &["", ", true", ", false"],
                _ if is_number => &["", ", 1", ", NULL, 1.5", ", -1, 2"],
                _ => &[""],
            };
            let mut ask = |columns: String, once: bool| {
                let arrays = vec!["call_genotype".to_string(), name.clone()];
                let sql = format!("SELECT {columns} FROM t");
                queries.push(Query { sql, arrays, once });
            };
            for bounds in bounds {
                let f = format!("filter_calls(call_genotype, {value}{bounds})");
                ask(
                    format!("genotype_counts({f}), allele_counts({f}, {few})"),
                    true,
                );
            }
            let last = bounds.last().unwrap_or(&"");
            let f = format!("filter_calls(call_genotype, {value}{last})");
            let both = format!("filter_calls({f}, {value})");
            ask(f.clone(), true);
            ask(format!("sfs({f}), sample_counts({both}, {few})"), true);
            ask(
                format!(
                    "zygosity_counts({f}), select_samples({both}, {few}), allele_counts(call_genotype)"
                ),
                false,
            );
        }
        queries
    }
}

/// The stores of a folder, each with its populations file if it has one.
pub fn stores(folder: &Path) -> Vec<(PathBuf, Option<PathBuf>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".vcz.zip"));
    paths.sort();
    let populations = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().to_string();
        let base = name.trim_end_matches(".vcz.zip").trim_end_matches(".v3");
        let files = [
            format!("{base}.populations.tsv"),
            "populations.tsv".to_string(),
        ];
        let mut files = files.iter().map(|file| folder.join(file));
        files.find(|file| file.exists())
    };
    paths
        .into_iter()
        .map(|path| {
            let file = populations(&path);
            (path, file)
        })
        .collect()
}

/// Compares stores of uncompressed chunks that the GPU reads from their files itself; also where a file is missing, or has
/// another length than its chunk. `layouts` has the stores, which are unpacked into `folder`.
pub async fn compare_direct(
    make: MakeSession,
    unpack: fn(&Path, &Path) -> PathBuf,
    layouts: &Path,
    folder: &Path,
) {
    const SETTING: &str = "SET vcz.gpu_direct_storage =";
    for (name, chunk) in [
        ("v2-uncompressed", "call_genotype/0.0.0"),
        ("v3-uncompressed", "call_genotype/c/0/0/0"),
        ("v3-big-endian", "call_genotype/c/0/0/0"),
    ] {
        let zip = layouts.join(format!("{name}.vcz.zip"));
        let store = unpack(&zip, &folder.join(name));
        let both = Backends::new(make, 2, 64).await;
        if let Err(error) = ask(&both.gpu, &format!("{SETTING} 'on'")).await.batches {
            panic!("{error}");
        }
        let populations = layouts.join("populations.tsv");
        both.create("t", &store, Some(&populations)).await;
        assert!(both.compare(name, Share::ALL).await > 0);
        let sql = "SELECT sum(cast(allele_number(allele_counts(call_genotype)) AS BIGINT)), sfs(call_genotype) FROM t";
        let (_, direct) = both.same(sql, name).await;
        assert!(direct.direct > 0, "{name}: nothing was read by the GPU");
        ask(&both.gpu, &format!("{SETTING} 'off'")).await;
        let (_, staged) = both.same(sql, name).await;
        assert_eq!(staged.direct, 0, "{name}: off");
        assert_eq!(staged.chunks, direct.chunks, "{name}");
        // Archives have checksums, which a device would not see.
        ask(&both.gpu, &format!("{SETTING} 'on'")).await;
        both.create("t", &zip, Some(&populations)).await;
        assert_eq!(both.same(sql, name).await.1.direct, 0, "{name}: zip");
        both.create("t", &store, Some(&populations)).await;
        let file = store.join(chunk);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[1..]).unwrap();
        let (_, short) = both.same(sql, &format!("{name}, a short chunk")).await;
        assert!(short.batches.unwrap_err().contains("call_genotype"));
        std::fs::remove_file(&file).unwrap();
        let (_, absent) = both.same(sql, &format!("{name}, an absent chunk")).await;
        assert!(absent.batches.is_ok());
    }
}

/// Compares filters of calls: GPUs apply them where fields have the chunks of the genotypes, else the host, as EXPLAIN says.
pub async fn compare_filters(make: MakeSession, fixtures: &Path) {
    let both = Backends::new(make, 2, 64).await;
    let explained = async |sql: &str| {
        let plan = texts(&both.gpu, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
        plan.concat().join("\n")
    };
    let store = fixtures.join("formats.vcz.zip");
    both.create("t", &store, None).await;
    for f in [
        "filter_calls(call_genotype, call_I2, 2, NULL)",
        "filter_calls(filter_calls(call_genotype, call_F4, 0.25), call_U1, NULL, 9)",
        "filter_calls(filter_calls(call_genotype, call_value(call_LI2, 2), 1), call_value(call_LI2, 3))",
        "filter_calls(call_genotype, call_genotype_phased, true)",
    ] {
        let sql = format!("SELECT sfs({f}), sample_counts({f}), diversity(call_genotype) FROM t");
        let (_, gpu) = both.same(&sql, "formats").await;
        let (read, decoded) = gpu.chunks;
        assert!(
            decoded > 0 && decoded == read,
            "{f}: {decoded} of {read} chunks"
        );
        let plan = explained(&sql).await;
        assert!(plan.contains("backend=gpu (vcz.backend = 'gpu')"), "{plan}");
    }
    let store = fixtures.join("filters.vcz.zip");
    both.create("t", &store, None).await;
    for (field, bounds, reason) in [
        (
            "call_GQ",
            "20, NULL",
            "call_GQ: chunks of 45 × 13, the genotypes' 64 × 5",
        ),
        ("call_FT", "'PASS'", "call_FT: text is decoded on the host"),
        (
            "call_value(call_AD, 2)",
            "5",
            "call_AD: chunks of 2 of the 3 values of a call are decoded on the host",
        ),
    ] {
        let sql =
            format!("SELECT allele_counts(filter_calls(call_genotype, {field}, {bounds})) FROM t");
        let plan = explained(&sql).await;
        let expected =
            format!("backend=gpu (vcz.backend = 'gpu'; the host filters calls: {reason})");
        assert!(plan.contains(&expected), "{plan}");
        if field == "call_GQ" {
            let (_, gpu) = both.same(&sql, "filters").await;
            assert!(gpu.chunks.1 > 0, "the GPU decodes");
        }
    }
}

/// Compares stores, with several numbers of partitions and rows of a batch. Gives how many chunks the GPU decoded. Each store is asked one of so many
/// queries (`of`) with each size, others than with the size before.
pub async fn compare_stores(
    make: MakeSession,
    stores: &[(PathBuf, Option<PathBuf>)],
    sizes: &[(usize, usize)],
    of: usize,
) -> usize {
    assert!(!stores.is_empty());
    let mut on_gpu = 0;
    for (size, &(partitions, batch_size)) in sizes.iter().enumerate() {
        let both = Backends::new(make, partitions, batch_size).await;
        for (at, (store, populations)) in stores.iter().enumerate() {
            // One does not say that it is a store.
            if store.ends_with("version-none.vcz.zip") {
                continue;
            }
            both.create("t", store, populations.as_deref()).await;
            let place = store.display().to_string();
            let share = Share { at: at + size, of };
            on_gpu += both.compare(&place, share).await;
        }
    }
    on_gpu
}
