//! What the tests share: sessions, stores from zips, and reading results.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};

/// The fixtures of this repository.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Real stores beside the checkout, which are not part of it. Says loudly when they are not there.
pub fn shared_data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
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
    datafusion_vcz::session::context(config, Arc::new(RuntimeEnv::default())).unwrap()
}

/// A session as users have it.
pub fn plain_session() -> SessionContext {
    datafusion_vcz::session::context(SessionConfig::new(), Arc::new(RuntimeEnv::default())).unwrap()
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
    let batches = run(ctx, sql).await;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 1, "expected one row from: {sql}");
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).unwrap();
    batch
        .columns()
        .iter()
        .map(|column: &ArrayRef| ScalarValue::try_from_array(column, 0).unwrap())
        .collect()
}

/// A folder for this run of the tests, removed by the operating system's cleaning, not by us: tests share it.
pub fn work_dir() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// Unpacks the store `zip` into a directory `NAME.vcz` under `folder` and gives its path.
pub fn unpack(zip: &Path, folder: &Path) -> PathBuf {
    let name = zip
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .trim_end_matches(".zip");
    let target = folder.join(name);
    let bytes = std::fs::read(zip).unwrap();
    for (key, data) in entries(&bytes) {
        let path = target.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    target
}

/// Entries of a plain zip of stored or deflated entries, read from its central directory.
pub fn entries(zip: &[u8]) -> Vec<(String, Vec<u8>)> {
    use std::io::Read;
    let u16_at = |at: usize| u16::from_le_bytes(zip[at..at + 2].try_into().unwrap()) as usize;
    let u32_at = |at: usize| u32::from_le_bytes(zip[at..at + 4].try_into().unwrap()) as usize;
    let end = zip
        .windows(4)
        .rposition(|window| window == b"PK\x05\x06")
        .expect("a zip");
    let (count, mut at) = (u16_at(end + 10), u32_at(end + 16));
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let (method, stored) = (u16_at(at + 10), u32_at(at + 20));
        let (name, extra, comment) = (u16_at(at + 28), u16_at(at + 30), u16_at(at + 32));
        let local = u32_at(at + 42);
        let key = String::from_utf8(zip[at + 46..at + 46 + name].to_vec()).unwrap();
        let data = local + 30 + u16_at(local + 26) + u16_at(local + 28);
        let bytes = &zip[data..data + stored];
        if !key.ends_with('/') {
            let data = if method == 0 {
                bytes.to_vec()
            } else {
                let mut inflated = Vec::new();
                flate2::read::DeflateDecoder::new(bytes)
                    .read_to_end(&mut inflated)
                    .unwrap();
                inflated
            };
            all.push((key, data));
        }
        at += 46 + name + extra + comment;
    }
    all
}
