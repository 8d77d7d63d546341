//! Limits on what COPY to a VCZ store takes and shows: memory with many samples and with a slow object store, nothing that appears after a
//! statement failed, tables that stay open, and credentials that no plan shows.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use async_trait::async_trait;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use url::Url;

use crate::common::{create, fails, fixtures, run, session, unpack, work_dir};

/// An object store that takes long to write, and counts what is being written.
#[derive(Debug, Default)]
struct Slow {
    inner: InMemory,
    delay: Duration,
    pool: Option<Arc<dyn MemoryPool>>,
    writing: AtomicUsize,
    bytes: AtomicUsize,
    /// The most writes at once, and the most bytes of them.
    most: AtomicUsize,
    most_bytes: AtomicUsize,
    /// The most bytes that were being written and not reserved.
    unreserved: AtomicUsize,
    begun: AtomicUsize,
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("slow")
    }
}

impl Slow {
    fn new(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    async fn keys(&self) -> Vec<String> {
        let listed = self.inner.list(None);
        let keys = listed.map(|object| object.unwrap().location.to_string());
        keys.collect().await
    }
}

#[async_trait]
impl ObjectStore for Slow {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let is_chunk = !path.as_ref().contains("/.") && !path.as_ref().ends_with("zarr.json");
        let length = match is_chunk {
            true => payload.content_length(),
            false => 0,
        };
        self.begun.fetch_add(1, Ordering::SeqCst);
        let writing = self.writing.fetch_add(1, Ordering::SeqCst) + 1;
        let bytes = self.bytes.fetch_add(length, Ordering::SeqCst) + length;
        self.most.fetch_max(writing, Ordering::SeqCst);
        self.most_bytes.fetch_max(bytes, Ordering::SeqCst);
        if let Some(pool) = &self.pool {
            // Others end between the two readings.
            let read = || {
                self.bytes
                    .load(Ordering::SeqCst)
                    .saturating_sub(pool.reserved())
            };
            let unreserved = (0..20).map(|_| read()).min().unwrap_or(0);
            self.unreserved.fetch_max(unreserved, Ordering::SeqCst);
        }
        tokio::time::sleep(self.delay).await;
        let done = self.inner.put_opts(path, payload, options).await;
        self.writing.fetch_sub(1, Ordering::SeqCst);
        self.bytes.fetch_sub(length, Ordering::SeqCst);
        done
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A session whose object store `slow://b` is this one.
fn with_store(ctx: &SessionContext, slow: &Arc<Slow>) {
    let url = Url::parse("slow://b").unwrap();
    ctx.register_object_store(&url, Arc::clone(slow) as _);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_that_wait_for_a_slow_store_count() {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(200 << 20, 1.0);
    let runtime = Arc::new(runtime.build().unwrap());
    let slow = Arc::new(Slow {
        pool: Some(Arc::clone(&runtime.memory_pool)),
        ..Slow::new(Duration::from_millis(20))
    });
    let ctx = datafusion_vcz::session::context(SessionConfig::new(), runtime).unwrap();
    with_store(&ctx, &slow);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let chunks = "'vcz.variants_chunk_size' '50', 'vcz.codec' 'none'";
    let sql = format!("COPY t TO 'slow://b/x.vcz' STORED AS VCZ OPTIONS ({chunks})");
    run(&ctx, &sql).await;
    let load = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    assert!(load(&slow.begun) > 1000, "{slow:?}");
    assert!((2..=64).contains(&load(&slow.most)), "{slow:?}");
    // Metadata are written one after the other.
    assert_eq!(load(&slow.unreserved), 0, "{slow:?}");
    assert_eq!(ctx.runtime_env().memory_pool.reserved(), 0);
    // A pool that holds a chunk but not the rows of many: chunks are written one after the other.
    let little = RuntimeEnvBuilder::new().with_memory_limit(3 << 20, 1.0);
    let little = Arc::new(little.build().unwrap());
    let ctx = datafusion_vcz::session::context(
        SessionConfig::new().with_target_partitions(1),
        Arc::clone(&little),
    )
    .unwrap();
    with_store(&ctx, &slow);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    run(
        &ctx,
        "COPY t TO 'slow://b/little.vcz' STORED AS VCZ OPTIONS ('vcz.codec' 'none')",
    )
    .await;
    let count = "SELECT count(*), sum(variant_position), sfs(call_genotype) FROM";
    let free = session(1, 8192);
    with_store(&free, &slow);
    create(&free, "t", &fixtures().join("sim.vcz.zip"), None).await;
    run(
        &free,
        "CREATE EXTERNAL TABLE little STORED AS VCZ LOCATION 'slow://b/little.vcz'",
    )
    .await;
    let answer = async |table: &str| cells(&run(&free, &format!("{count} {table}")).await);
    assert_eq!(answer("t").await, answer("little").await);
    // One that does not hold a chunk says what to do.
    let ctx = session_of(600 << 10);
    with_store(&ctx, &slow);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let sql = "COPY (SELECT variant_contig, variant_position, call_genotype FROM t) TO 'slow://b/none.vcz' STORED AS VCZ \
               OPTIONS ('vcz.variants_chunk_size' '100000')";
    let before = slow.keys().await.len();
    let error = fails(&ctx, sql).await;
    if !error.contains("vcz.variants_chunk_size") {
        panic!("{error}");
    }
    assert_eq!(slow.keys().await.len(), before);
}

/// The only row, as text.
fn cells(rows: &[RecordBatch]) -> Vec<String> {
    let rows = pretty_format_batches(rows).unwrap().to_string();
    let row = rows.lines().nth(3).unwrap();
    row.split('|').map(|cell| cell.trim().to_string()).collect()
}

fn session_of(bytes: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0);
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_batch_size(64);
    datafusion_vcz::session::context(config, Arc::new(runtime.build().unwrap())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_appears_after_a_statement_that_failed() {
    let slow = Arc::new(Slow::new(Duration::from_millis(300)));
    let ctx = session(2, 100);
    with_store(&ctx, &slow);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let written = |x: &str| {
        format!(
            "COPY (SELECT *, {x} AS x FROM t) TO 'slow://b/x.vcz' STORED AS VCZ OPTIONS ('vcz.variants_chunk_size' '500')"
        )
    };
    let failing = written(
        "CASE WHEN variant_position > 200000 AND variant_contig = 'chr2' THEN -1 ELSE 1 END",
    );
    let error = fails(&ctx, &failing).await;
    assert!(error.contains("'variant_x'"), "{error}");
    assert!(slow.begun.load(Ordering::SeqCst) > 5, "{slow:?}");
    for _ in 0..3 {
        assert_eq!(slow.keys().await, [] as [&str; 0]);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // A statement that is cancelled cleans up in the background.
    let sql = written("1");
    let begun = slow.begun.load(Ordering::SeqCst);
    let whole = async { run(&ctx, &sql).await };
    tokio::select! {
        _ = whole => panic!("it is too fast"),
        _ = async {
            while slow.begun.load(Ordering::SeqCst) < begun + 5 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        } => {}
    }
    let mut left = slow.keys().await;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        left = slow.keys().await;
        if left.is_empty() && slow.writing.load(Ordering::SeqCst) == 0 {
            break;
        }
    }
    assert_eq!(left, [] as [&str; 0]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(slow.keys().await, [] as [&str; 0]);
    // Then it may be written.
    run(&ctx, &sql).await;
}

/// A folder with the fixture `sim` written again, in a format that leaves out chunks of zeros.
async fn sparse(ctx: &SessionContext, name: &str) -> PathBuf {
    let path = work_dir().join(name);
    create(ctx, "whole", &fixtures().join("sim.vcz.zip"), None).await;
    let sql = format!(
        "COPY (SELECT *, CAST(0 AS INT) AS zeros FROM whole) TO '{}' STORED AS VCZ OPTIONS ('vcz.format' '3')",
        path.display()
    );
    run(ctx, &sql).await;
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn open_tables_stay_open_when_arrays_are_added() {
    let ctx = session(2, 100);
    let path = sparse(&ctx, "undisturbed.vcz").await;
    create(&ctx, "t", &path, None).await;
    // All chunks of `variant_zeros` are absent, so the metadata is read again.
    let sql = "SELECT count(*), sum(variant_zeros), sfs(call_genotype) FROM t";
    let before = run(&ctx, sql).await;
    let add = |array: &str, more: &str| {
        format!(
            "COPY (SELECT {array} FROM t) TO '{}' STORED AS VCZ OPTIONS ('vcz.mode' 'add'{more})",
            path.display()
        )
    };
    run(&ctx, &add("variant_position > 9 AS variant_mask_a", "")).await;
    assert_eq!(run(&ctx, sql).await, before);
    run(&ctx, &add("variant_position > 5 AS variant_mask_b", "")).await;
    assert_eq!(run(&ctx, sql).await, before);
    // An array that is replaced is another one.
    tokio::time::sleep(Duration::from_millis(50)).await;
    run(
        &ctx,
        &add(
            "CAST(nullif(variant_position, 0) * 0 AS INT) AS variant_zeros",
            ", 'vcz.overwrite' 'true'",
        ),
    )
    .await;
    let error = fails(&ctx, sql).await;
    assert!(error.contains("written again or replaced"), "{error}");
    let others = "SELECT count(*), sfs(call_genotype) FROM t";
    run(&ctx, others).await;
    // A store that is written again is another one, though it says the same of its arrays.
    let path = sparse_again(&ctx, "undisturbed-2.vcz").await;
    create(&ctx, "u", &path, None).await;
    let sql = sql.replace("FROM t", "FROM u");
    run(&ctx, &sql).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let again = format!(
        "COPY (SELECT *, CAST(0 AS INT) AS zeros, 7 AS y FROM whole) TO '{}' STORED AS VCZ OPTIONS ('vcz.format' '3', 'vcz.overwrite' \
         'true')",
        path.display()
    );
    run(&ctx, &again).await;
    let error = fails(&ctx, &sql).await;
    assert!(error.contains("written again or replaced"), "{error}");
}

async fn sparse_again(ctx: &SessionContext, name: &str) -> PathBuf {
    run(ctx, "DROP TABLE whole").await;
    sparse(ctx, name).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_without_consolidated_metadata_stay_open_too() {
    let path = unpack(
        &fixtures().join("sim.vcz.zip"),
        &work_dir().join("undisturbed-plain"),
    );
    let ctx = session(2, 100);
    create(&ctx, "t", &path, None).await;
    let sql = "SELECT count(*), sum(variant_quality), sfs(call_genotype) FROM t";
    let before = run(&ctx, sql).await;
    let add = format!(
        "COPY (SELECT variant_position > 9 AS variant_mask FROM t) TO '{}' STORED AS VCZ OPTIONS ('vcz.mode' 'add')",
        path.display()
    );
    run(&ctx, &add).await;
    assert_eq!(run(&ctx, sql).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_that_are_asked_to_be_long_are_not_padded() {
    let ctx = session(2, 100);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let path = work_dir().join("long-chunks.vcz");
    let sql = format!(
        "COPY (SELECT * FROM t LIMIT 1500) TO '{}' STORED AS VCZ OPTIONS ('vcz.variants_chunk_size' '30000000', 'vcz.codec' 'none')",
        path.display()
    );
    run(&ctx, &sql).await;
    create(&ctx, "long", &path, None).await;
    let chunks = run(
        &ctx,
        "SELECT DISTINCT chunks[1] AS n FROM vcz_arrays('long') WHERE dims[1] = 'variants'",
    )
    .await;
    let chunks = pretty_format_batches(&chunks).unwrap().to_string();
    assert!(chunks.contains("| 1500 |"), "{chunks}");
    let sum = "SELECT count(*), sum(variant_position), sfs(call_genotype) FROM";
    let all = run(&ctx, &format!("{sum} long")).await;
    let of = run(&ctx, &format!("{sum} (SELECT * FROM t LIMIT 1500)")).await;
    assert_eq!(cells(&all), cells(&of));
}

#[cfg(feature = "cloud")]
#[tokio::test(flavor = "multi_thread")]
async fn no_plan_shows_credentials() {
    let ctx = session(2, 100);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let copy = |format: &str, target: &str| {
        format!(
            "COPY (SELECT variant_contig, variant_position FROM t) TO '{target}' STORED AS {format} OPTIONS ('aws.access_key_id' \
             'AKIAHIDDEN', 'aws.secret_access_key' 'hunter22', 'aws.region' 'eu-west-1', 'aws.endpoint' 'http://127.0.0.1:9', \
             'aws.allow_http' 'true', 'retry.max_retries' '0')"
        )
    };
    let secrets = ["AKIAHIDDEN", "hunter22"];
    for explain in [
        "EXPLAIN",
        "EXPLAIN VERBOSE",
        "EXPLAIN FORMAT INDENT",
        "EXPLAIN FORMAT TREE",
        "EXPLAIN FORMAT PGJSON",
        "EXPLAIN FORMAT GRAPHVIZ",
    ] {
        let sql = format!("{explain} {}", copy("VCZ", "s3://bucket/x.vcz"));
        let shown = pretty_format_batches(&run(&ctx, &sql).await)
            .unwrap()
            .to_string();
        for secret in secrets {
            assert!(!shown.contains(secret), "{explain}: {shown}");
        }
        assert!(shown.contains("s3://bucket/x.vcz"), "{explain}: {shown}");
        if !explain.ends_with("TREE") {
            assert!(shown.contains("eu-west-1"), "{explain}: {shown}");
            assert!(shown.contains("***"), "{explain}: {shown}");
        }
    }
    // A location with a signature, and a user.
    let sql = "EXPLAIN VERBOSE COPY t TO 'https://me:pass123@127.0.0.1:9/x.vcz?sig=signed99' STORED AS VCZ";
    let shown = pretty_format_batches(&run(&ctx, sql).await)
        .unwrap()
        .to_string();
    for secret in ["pass123", "signed99"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("https://127.0.0.1:9/x.vcz?"), "{shown}");
    // Errors of planning and of writing; the options arrive.
    let error = fails(&ctx, &copy("VCZ", "s3://bucket/x.vcz")).await;
    assert!(error.contains("127.0.0.1:9"), "{error}");
    for (sql, part) in [
        (copy("VCZ", "/nowhere/x.vcz"), "is for object stores"),
        (
            copy("VCZ", "s3://bucket/x.vcz").replace("aws.region", "aws.reigon"),
            "'aws.region'",
        ),
    ] {
        let failed = fails(&ctx, &sql).await;
        assert!(failed.contains(part), "{failed}");
        let shown = fails_or_shows(&ctx, &format!("EXPLAIN VERBOSE {sql}")).await;
        for secret in secrets {
            for shown in [&failed, &shown, &error] {
                assert!(!shown.contains(secret), "{shown}");
            }
        }
    }
    let frame = ctx.sql(&copy("VCZ", "s3://bucket/x.vcz")).await.unwrap();
    let optimized = frame.into_optimized_plan().unwrap();
    let shown = format!("{} {optimized:?}", optimized.display_indent_schema());
    for secret in secrets {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// What a statement shows, or its error.
#[cfg(feature = "cloud")]
async fn fails_or_shows(ctx: &SessionContext, sql: &str) -> String {
    match ctx.sql(sql).await {
        Ok(frame) => match frame.collect().await {
            Ok(rows) => pretty_format_batches(&rows).unwrap().to_string(),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    }
}

/// The most kilobytes that were resident while the program ran statements from a file, and what it printed.
#[cfg(all(feature = "cli", target_os = "linux"))]
fn peak_of(statements: &std::path::Path, more: &[&str]) -> (bool, String, u64) {
    use std::io::Read;
    use std::process::{Command, Stdio};
    // Without the libraries of a GPU, which take hundreds of megabytes.
    let text = std::fs::read_to_string(statements).unwrap();
    std::fs::write(statements, format!("SET vcz.backend = 'host';\n{text}")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_vcz"))
        .args(["sql", "-q", "--format", "csv"])
        .args(more)
        .arg("-f")
        .arg(statements)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let now = status.lines().find_map(|line| {
            let kilobytes = line.strip_prefix("VmHWM:")?;
            kilobytes.trim().trim_end_matches(" kB").parse().ok()
        });
        peak = peak.max(now.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let mut printed = String::new();
    let (out, err) = (child.stdout.as_mut(), child.stderr.as_mut());
    out.unwrap().read_to_string(&mut printed).unwrap();
    err.unwrap().read_to_string(&mut printed).unwrap();
    (status.success(), printed, peak)
}

/// A row of chunks of this store has 500 MB.
#[cfg(all(feature = "cli", target_os = "linux"))]
#[test]
fn many_samples_take_less_than_500_mb() {
    const SAMPLES: usize = 100_000;
    let out = work_dir().join("many-samples");
    std::fs::create_dir_all(&out).unwrap();
    let ids: Vec<String> = (0..SAMPLES).map(|at| format!("s{at}")).collect();
    let calls = |of: &str, element: &str| {
        format!(
            "arrow_cast(array_repeat(arrow_cast({of}, '{element}'), {SAMPLES}), 'FixedSizeList({SAMPLES} x {element})')"
        )
    };
    let query = format!(
        "SELECT 'c' AS variant_contig, CAST(value AS INT) AS variant_position, {} AS call_DP, {} AS call_X FROM generate_series(1, 1500)",
        calls("value % 100", "Int8"),
        calls("value * 7", "Int32")
    );
    let wide = out.join("wide.vcz");
    let options = |more: &str| {
        format!(
            "'vcz.codec' 'blosc-lz4:1', 'vcz.contigs' 'c', 'vcz.samples' '{}'{more}",
            ids.join(",")
        )
    };
    let statements = out.join("wide.sql");
    let text = format!(
        "COPY ({query}) TO '{}' STORED AS VCZ OPTIONS ({});",
        wide.display(),
        options("")
    );
    std::fs::write(&statements, text).unwrap();
    let (succeeded, printed, peak) = peak_of(&statements, &["-b", "4"]);
    assert!(succeeded, "{printed}");
    eprintln!("{peak} kB resident while {SAMPLES} samples are written");
    assert!(peak < 488_000, "{peak} kB resident");
    // Less memory than two chunks: an error that says what to do. In one partition, since several keep rows that wait, which is a part of so
    // little memory that depends on time.
    let one = "SET datafusion.execution.target_partitions = 1;";
    let text = format!(
        "{one} COPY ({query}) TO '{}' STORED AS VCZ OPTIONS ({});",
        out.join("less.vcz").display(),
        options("")
    );
    std::fs::write(&statements, text).unwrap();
    let (succeeded, printed, peak) = peak_of(&statements, &["-b", "4", "-m", "50M"]);
    assert!(
        !succeeded && printed.contains("'vcz.samples_chunk_size'"),
        "{printed}"
    );
    // With the program itself, and a little for each thread.
    assert!(peak < 350_000, "{peak} kB resident: {printed}");
    assert!(!out.join("less.vcz").exists());
    // With smaller chunks the same memory is enough.
    let text = format!(
        "{one} COPY ({query}) TO '{}' STORED AS VCZ OPTIONS ({});",
        out.join("small.vcz").display(),
        options(", 'vcz.samples_chunk_size' '1000'")
    );
    std::fs::write(&statements, text).unwrap();
    let (succeeded, printed, peak) = peak_of(&statements, &["-b", "4", "-m", "50M"]);
    assert!(succeeded, "{printed}");
    eprintln!("{peak} kB resident with a limit of 50 MB");
    assert!(peak < 350_000, "{peak} kB resident");
    let text = format!(
        "CREATE EXTERNAL TABLE a STORED AS VCZ LOCATION '{}'; CREATE EXTERNAL TABLE b STORED AS VCZ LOCATION '{}'; \
         SELECT count(*) AS n, sum(a.call_X[77]) = 7 * sum(a.variant_position) AS s, bool_and(a.call_X = b.call_X AND a.call_DP = b.call_DP) \
         AS same FROM a JOIN b ON a.variant_position = b.variant_position WHERE a.variant_position % 100 = 0;",
        wide.display(),
        out.join("small.vcz").display()
    );
    std::fs::write(&statements, text).unwrap();
    let (succeeded, printed, _) = peak_of(&statements, &["-b", "4"]);
    assert!(succeeded && printed.contains("15,true,true"), "{printed}");
}

/// The bytes of all chunks of a folder, by their keys.
#[cfg(all(feature = "cli", target_os = "linux"))]
fn chunks_of(folder: &std::path::Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = vec![];
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path.strip_prefix(folder).unwrap().to_path_buf(), bytes));
                }
            }
        }
    }
    found.sort();
    found
}

/// Stores whose rows of chunks have 12 MB, which several tasks read, and 500 MB, of which a block of rows is decoded at a time: parts of
/// them, by 8 partitions, take less than 500 MB, and are the same as by one.
#[cfg(all(feature = "cli", target_os = "linux"))]
#[test]
fn parts_of_wide_stores_take_less_than_500_mb() {
    for (samples, variants) in [(3_000, 9_000), (100_000, 1_200)] {
        let out = work_dir().join(format!("wide-{samples}"));
        std::fs::create_dir_all(&out).unwrap();
        let ids: Vec<String> = (0..samples).map(|at| format!("s{at}")).collect();
        // Values of a row differ, and those of neighbours do.
        let calls = |of: &str, element: &str| {
            format!(
                "arrow_cast(array_concat(array_repeat(arrow_cast({of}, '{element}'), {half}), array_repeat(arrow_cast({of} + 1, '{element}'), \
                 {half})), 'FixedSizeList({samples} x {element})')",
                half = samples / 2
            )
        };
        let wide = out.join("wide.vcz");
        let query = format!(
            "SELECT 'c' AS variant_contig, CAST(value AS INT) AS variant_position, {} AS call_DP, {} AS call_X FROM generate_series(1, \
             {variants})",
            calls("value % 90", "Int8"),
            calls("value * 7", "Int32")
        );
        let statements = out.join("wide.sql");
        let text = format!(
            "COPY ({query}) TO '{}' STORED AS VCZ OPTIONS ('vcz.codec' 'blosc-lz4:1', 'vcz.contigs' 'c', 'vcz.samples' '{}');",
            wide.display(),
            ids.join(",")
        );
        std::fs::write(&statements, text).unwrap();
        let (succeeded, printed, peak) = peak_of(&statements, &["-b", "4"]);
        assert!(succeeded, "{printed}");
        assert!(
            peak < 488_000,
            "{peak} kB resident while {samples} samples are written"
        );
        for (name, query) in [
            ("rows", "SELECT * FROM t WHERE variant_position % 3 <> 0"),
            (
                "samples",
                "SELECT variant_contig, variant_position, select_samples(call_DP, ['s1', 's2000', 's7']) AS call_DP FROM t",
            ),
        ] {
            let mut parts = vec![];
            for partitions in [1, 8] {
                let part = out.join(format!("{name}-{partitions}.vcz"));
                let text = format!(
                    "SET datafusion.execution.target_partitions = {partitions}; CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{}'; \
                     COPY ({query}) TO '{}' STORED AS VCZ OPTIONS ('vcz.codec' 'blosc-lz4:1');",
                    wide.display(),
                    part.display()
                );
                std::fs::write(&statements, text).unwrap();
                let (succeeded, printed, peak) = peak_of(&statements, &[]);
                assert!(succeeded, "{printed}");
                eprintln!("{samples} samples, {name}, {partitions} partitions: {peak} kB resident");
                assert!(
                    peak < 488_000,
                    "{samples} samples, {name}, {partitions} partitions: {peak} kB resident"
                );
                parts.push(chunks_of(&part));
            }
            assert!(
                parts[0].len() > 5 && parts[0] == parts[1],
                "{samples}, {name}"
            );
        }
        let text = format!(
            "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{}'; CREATE EXTERNAL TABLE r STORED AS VCZ LOCATION '{}'; \
             CREATE EXTERNAL TABLE s STORED AS VCZ LOCATION '{}'; \
             SELECT (SELECT count(*) FROM r) = (SELECT count(*) FROM t WHERE variant_position % 3 <> 0) AS n, \
             bool_and(r.call_X = t.call_X AND r.call_DP = t.call_DP) AS rows, bool_and(s.call_DP[2] = t.call_DP[8] AND s.call_DP[3] = \
             t.call_DP[2001]) AS samples, count(*) AS joined FROM t JOIN r ON r.variant_position = t.variant_position JOIN s ON \
             s.variant_position = t.variant_position WHERE t.variant_position % 50 = 1;",
            wide.display(),
            out.join("rows-8.vcz").display(),
            out.join("samples-8.vcz").display()
        );
        std::fs::write(&statements, text).unwrap();
        let (succeeded, printed, _) = peak_of(&statements, &["-b", "16"]);
        assert!(
            succeeded && printed.contains("true,true,true,"),
            "{printed}"
        );
        std::fs::remove_dir_all(&out).unwrap();
    }
}
