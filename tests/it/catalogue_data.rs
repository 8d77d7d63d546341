//! The expected values of the two files `catalogue.json`, of fixtures and of the real stores, and these stores as tables.
//!
//! The tests of the catalogue's statistics ask each store of several sessions, one of them with a GPU where there is one; a query must give
//! the same bits in all of them. The Zarr v3 copy of a store shares its values.

use std::path::{Path, PathBuf};

use datafusion::prelude::SessionContext;
use serde_json::{Map, Value};

use crate::common;
use crate::golden::{assert_near, objects, read_json};
use crate::partitions::{Bits, bits};

/// The tolerance of most floats.
pub const TOLERANCE: f64 = 1e-12;
/// The tolerance of tests of neutrality, of Hardy-Weinberg tests, and of the jackknife.
pub const TEST_TOLERANCE: f64 = 1e-10;

/// Partitions and batch sizes of the sessions that every query runs in.
const SESSIONS: [(usize, usize); 3] = [(1, 8192), (2, 1000), (16, 333)];
/// Partitions and batch size of the session with a GPU.
const GPU_SESSION: (usize, usize) = (4, 2000);

/// Every population that a store may have, in the order that the populations file lists them in.
pub const POPULATIONS: [&str; 8] = ["all", "first", "second", "q1", "q2", "q3", "q4", "few"];

/// A store of the catalogue and what is expected of it.
pub struct Entry {
    /// The store's file name without `.zip`.
    pub name: String,
    /// Where the store is.
    pub zip: PathBuf,
    /// The store's values.
    pub expected: Value,
}

/// The stores of the catalogue: fixtures, and the real stores where they are. Says loudly where they are not.
pub fn entries() -> Vec<Entry> {
    let mut entries = entries_of(&common::fixtures());
    assert_eq!(entries.len(), 6, "fixtures");
    if let Some(folder) = common::shared_data() {
        let real = entries_of(&folder);
        // VCZ_SHARED may have some of them.
        let least = match std::env::var_os("VCZ_SHARED") {
            Some(_) => 1,
            None => 21,
        };
        assert!(real.len() >= least, "{} real stores", real.len());
        entries.extend(real);
    }
    entries
}

/// The least number of `fixtures` and `real` stores that a test must have compared, where the real stores are all there.
pub fn least(fixtures: usize, real: usize) -> usize {
    match common::shared_data() {
        Some(_) if std::env::var_os("VCZ_SHARED").is_none() => fixtures + real,
        _ => fixtures,
    }
}

/// The stores of a folder with a `catalogue.json`.
fn entries_of(folder: &Path) -> Vec<Entry> {
    let Value::Object(all) = read_json(&folder.join("catalogue.json")) else {
        panic!("catalogue.json: an object")
    };
    let mut entries = Vec::new();
    for (name, expected) in all {
        let names = [name.clone(), name.replace(".vcz", ".v3.vcz")];
        for name in names {
            let zip = folder.join(format!("{name}.zip"));
            if zip.exists() {
                let expected = expected.clone();
                entries.push(Entry {
                    name,
                    zip,
                    expected,
                });
            }
        }
    }
    entries
}

/// Whether there is a GPU, looked for once; says loudly why not, and fails where VCZ_REQUIRE_GPU is set.
#[cfg(feature = "gpu")]
async fn has_gpu() -> bool {
    static FOUND: tokio::sync::OnceCell<bool> = tokio::sync::OnceCell::const_new();
    *FOUND.get_or_init(crate::gpu::is_there).await
}

/// A GPU needs the feature `gpu`.
#[cfg(not(feature = "gpu"))]
async fn has_gpu() -> bool {
    false
}

/// A store as the table `t` of several sessions.
pub struct Store<'a> {
    /// The store's file name without `.zip`.
    pub name: &'a str,
    /// The store's values.
    pub expected: &'a Value,
    /// What each session is, and the session.
    sessions: Vec<(String, SessionContext)>,
}

impl<'a> Store<'a> {
    /// Registers the store in every session, with those of `populations` that it has, in their order.
    pub async fn open(entry: &'a Entry, populations: &[&str]) -> Store<'a> {
        let file = populations_file(entry, populations).await;
        let mut sessions = Vec::new();
        let settings = match common::on_given_workers() {
            true => &SESSIONS[..2],
            false => &SESSIONS[..],
        };
        for &(partitions, batch) in settings {
            let name = format!("{partitions} partitions, batches of {batch}");
            let ctx = session(entry, &file, partitions, batch, "host").await;
            sessions.push((name, ctx));
        }
        if has_gpu().await {
            let (partitions, batch) = GPU_SESSION;
            let ctx = session(entry, &file, partitions, batch, "gpu").await;
            sessions.push(("a GPU".to_string(), ctx));
        }
        Store {
            name: &entry.name,
            expected: &entry.expected,
            sessions,
        }
    }

    /// The rows of a query, which has to order them, after checking that every session gives them with the same bits.
    pub async fn rows(&self, sql: &str) -> Vec<Map<String, Value>> {
        let mut wanted: Option<Bits> = None;
        for (session, ctx) in &self.sessions {
            let found = bits(ctx, sql).await;
            let wanted = wanted.get_or_insert_with(|| found.clone());
            assert!(
                found.schema == wanted.schema && found.rows == wanted.rows,
                "{}: {session}: {sql}\n{}\nexpected\n{}",
                self.name,
                found.text,
                wanted.text
            );
        }
        objects(wanted.as_ref().map(|bits| bits.batch.clone()).as_slice())
    }

    /// The only row of a query in the first session alone, for other forms of queries whose bits were compared.
    pub async fn row_once(&self, sql: &str) -> Map<String, Value> {
        let mut rows = self.rows_once(sql).await;
        assert_eq!(rows.len(), 1, "{}: one row from: {sql}", self.name);
        rows.remove(0)
    }

    /// The rows of a query in the first session alone.
    pub async fn rows_once(&self, sql: &str) -> Vec<Map<String, Value>> {
        objects(&common::run(&self.sessions[0].1, sql).await)
    }

    /// The only row of a query, as [`rows`](Self::rows).
    pub async fn row(&self, sql: &str) -> Map<String, Value> {
        let mut rows = self.rows(sql).await;
        assert_eq!(rows.len(), 1, "{}: one row from: {sql}", self.name);
        rows.remove(0)
    }

    /// The expected windows, each with the row of `rows` that has its `contig` and `start`.
    pub fn windows<'r>(
        &'r self,
        rows: &'r [Map<String, Value>],
    ) -> impl Iterator<Item = (&'r Value, &'r Map<String, Value>)> {
        let windows = self.expected["windows"].as_array().unwrap();
        assert!(!windows.is_empty(), "{}: no windows", self.name);
        windows.iter().map(|window| {
            let is = |row: &&Map<String, Value>| {
                row["contig"] == window["contig"] && row["start"] == window["start"]
            };
            match rows.iter().find(is) {
                Some(row) => (window, row),
                None => panic!("{}: no window {window}", self.name),
            }
        })
    }
}

/// A session with the store, decoded and counted by `backend`.
async fn session(
    entry: &Entry,
    populations: &Path,
    partitions: usize,
    batch: usize,
    backend: &str,
) -> SessionContext {
    let ctx = common::session(partitions, batch);
    common::run(&ctx, &format!("SET vcz.backend = '{backend}'")).await;
    common::create(&ctx, "t", &entry.zip, Some(populations)).await;
    ctx
}

/// Writes the populations file of a store: the samples of each range of indices.
async fn populations_file(entry: &Entry, populations: &[&str]) -> PathBuf {
    let ctx = common::session(1, 8192);
    common::create(&ctx, "t", &entry.zip, None).await;
    let sql = "SELECT sample_id FROM vcz_samples('t') ORDER BY sample_index";
    let samples = objects(&common::run(&ctx, sql).await);
    let ranges = entry.expected["populations"].as_object().unwrap();
    let mut lines = String::from("sample_id\tpopulation\n");
    for population in populations {
        let Some(range) = ranges.get(*population) else {
            continue;
        };
        let end = |at: usize| usize::try_from(range[at].as_u64().unwrap()).unwrap();
        for sample in &samples[end(0)..end(1)] {
            let id = sample["sample_id"].as_str().unwrap();
            lines += &format!("{id}\t{population}\n");
        }
    }
    let name = format!("{}.{}.tsv", entry.name, populations.join("-"));
    let path = common::work_dir().join(name);
    // Renamed into place: other tests may be writing and reading the same file.
    let file = tempfile::NamedTempFile::new_in(common::work_dir()).unwrap();
    std::fs::write(file.path(), lines).unwrap();
    file.persist(&path).unwrap();
    path
}

/// Asserts that `found` is `wanted`: integers and text exactly, null only where null is expected, and floats to
/// |a − b| ≤ `tolerance` · max(1, |a|, |b|).
pub fn assert_agrees(found: &Value, wanted: &Value, tolerance: f64, place: &str) {
    let near = |a: f64, b: f64| (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0);
    assert_near(found, wanted, &near, place);
}
