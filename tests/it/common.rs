//! What the tests share: sessions, stores from zips, and reading results.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::ScalarValue;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};

pub use crate::unzip::{entries, unpack};

/// The top of the source tree: where cargo says that it is, or the current directory, or where it was when this was compiled.
/// So the tests also run as a program that was copied to another machine.
pub fn top() -> PathBuf {
    let places = [
        std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from),
        std::env::current_dir().ok(),
    ];
    places
        .into_iter()
        .flatten()
        .find(|place| place.join("tests/fixtures").is_dir())
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")))
}

/// The fixtures of this repository.
pub fn fixtures() -> PathBuf {
    top().join("tests/fixtures")
}

/// Real stores, which are not part of this repository: in the folder that VCZ_SHARED names, or beside the checkout. Says loudly when they
/// are not there.
pub fn shared_data() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("VCZ_SHARED") {
        let folder = PathBuf::from(folder);
        assert!(
            folder.is_dir(),
            "VCZ_SHARED: {} is no folder",
            folder.display()
        );
        return Some(folder);
    }
    let folder = top().join("../shared/data");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "NOT RUN: the real stores of ../shared/data are not here; only the fixtures are tested"
    );
    None
}

/// A session that splits work among `partitions` however small it is, with batches of `batch_size` rows.
pub fn session(partitions: usize, batch_size: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(batch_size)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1);
    session_of(config)
}

/// A session as users have it.
pub fn plain_session() -> SessionContext {
    session_of(SessionConfig::new())
}

/// Whether sessions are on workers, which divide queries in their own way: few numbers of partitions and sizes of batches are enough there.
pub fn on_given_workers() -> bool {
    std::env::var_os("VCZ_TEST_WORKERS").is_some()
}

/// A session of these settings; on workers, if the variable `VCZ_TEST_WORKERS` names some.
pub fn session_of(config: SessionConfig) -> SessionContext {
    let ctx = datafusion_vcz::session::context(config, Arc::new(RuntimeEnv::default())).unwrap();
    #[cfg(feature = "flight")]
    if let Ok(workers) = std::env::var("VCZ_TEST_WORKERS") {
        return on_workers(ctx, vec![workers]);
    }
    ctx
}

/// The session with every query that can be divided on `workers`.
#[cfg(feature = "flight")]
pub fn on_workers(ctx: SessionContext, workers: Vec<String>) -> SessionContext {
    use datafusion_vcz::cluster::{ClusterConfig, Workers, distribute};
    let config = ClusterConfig {
        workers,
        ..ClusterConfig::default()
    };
    let runtime = tokio::runtime::Handle::current();
    let connect = || runtime.block_on(Workers::connect(&config)).unwrap();
    let workers = tokio::task::block_in_place(connect);
    let mut state = distribute(ctx.state(), workers).unwrap();
    let options = state.config_mut().options_mut();
    options.set("vcz.distribute", "always").unwrap();
    *ctx.state_ref().write() = state;
    ctx
}

/// Registers the store at `path` as `table`, with the populations file at `populations`.
pub async fn create(ctx: &SessionContext, table: &str, path: &Path, populations: Option<&Path>) {
    let options = populations.map_or(String::new(), |file| {
        format!("OPTIONS ('vcz.populations' '{}')", file.display())
    });
    let sql = format!(
        "CREATE EXTERNAL TABLE \"{table}\" STORED AS VCZ LOCATION '{}' {options}",
        path.display()
    );
    run(ctx, &sql).await;
}

/// Runs a query that must succeed.
pub async fn run(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    match ctx.sql(sql).await {
        Ok(frame) => frame
            .collect()
            .await
            .unwrap_or_else(|error| panic!("{sql}\n{error}")),
        Err(error) => panic!("{sql}\n{error}"),
    }
}

/// Runs a query that must fail, while planning or running, and gives the message.
pub async fn fails(ctx: &SessionContext, sql: &str) -> String {
    let failed = match ctx.sql(sql).await {
        Ok(frame) => frame.collect().await.map(|_| ()),
        Err(error) => Err(error),
    };
    match failed {
        Ok(()) => panic!("expected an error from: {sql}"),
        Err(error) => error.to_string(),
    }
}

/// The columns of a query with one row.
pub async fn row(ctx: &SessionContext, sql: &str) -> Vec<ScalarValue> {
    row_of(&run(ctx, sql).await, sql)
}

/// The columns of the only row of these batches, the answer to `sql`.
pub fn row_of(batches: &[RecordBatch], sql: &str) -> Vec<ScalarValue> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 1, "expected one row from: {sql}");
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).unwrap();
    batch
        .columns()
        .iter()
        .map(|column: &ArrayRef| ScalarValue::try_from_array(column, 0).unwrap())
        .collect()
}

/// The plans of a query, as EXPLAIN shows them.
pub async fn plan(ctx: &SessionContext, sql: &str) -> String {
    let plan = run(ctx, &format!("EXPLAIN {sql}")).await;
    pretty_format_batches(&plan).unwrap().to_string()
}

/// A folder for this run of the tests, removed by the operating system's cleaning, not by us: tests share it.
pub fn work_dir() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// The fixture `zip` as a directory store `name` whose samples have other ids.
pub fn renamed_samples(zip: &str, name: &str) -> PathBuf {
    with_sample_ids(zip, name, |sample, _| format!("other{sample}"))
}

/// The fixture `zip` as a directory store `name` with the sample ids that `id` gives for their indices, of how many there are.
pub fn with_sample_ids(zip: &str, name: &str, id: impl Fn(u32, u32) -> String) -> PathBuf {
    let store = unpack(&fixtures().join(zip), &work_dir().join(name));
    let samples = store.join("sample_id");
    let document = std::fs::read_to_string(samples.join(".zarray")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let n = document["shape"][0].as_u64().unwrap() as u32;
    document["compressor"] = serde_json::Value::Null;
    document["chunks"] = serde_json::json!([n]);
    std::fs::write(samples.join(".zarray"), document.to_string()).unwrap();
    let mut chunk = n.to_le_bytes().to_vec();
    for sample in 0..n {
        let id = id(sample, n);
        chunk.extend((id.len() as u32).to_le_bytes());
        chunk.extend(id.as_bytes());
    }
    std::fs::write(samples.join("0"), chunk).unwrap();
    let _ = std::fs::remove_file(store.join(".zmetadata"));
    store
}
