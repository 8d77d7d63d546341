//! Stores that are deleted, replaced or no longer answered for while a query runs: the right answer or an error, never another
//! answer, though absent chunks stand for fill values.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use url::Url;

use crate::archive::archive;
use crate::common::{create, fixtures, session, unpack, work_dir};
use crate::server::{Fault, Files, Plan, Server, consolidate, files, in_memory};

/// The chunks that the stores of these tests lack.
fn is_left_out(key: &str) -> bool {
    let lost = ["call_genotype/", "variant_quality/"]
        .iter()
        .find_map(|array| key.strip_prefix(array));
    lost.is_some_and(|chunk| chunk.trim_start_matches("c/").starts_with('1'))
}

/// A fixture without some chunks.
fn with_absent(name: &str) -> Files {
    let kept = files(name).into_iter().filter(|(key, _)| !is_left_out(key));
    kept.collect()
}

/// A store with the same metadata and other genotypes, positions and qualities.
async fn other_store(files: &Files, kind: Kind) -> InMemory {
    // Other objects first, so that entity tags differ.
    let objects = InMemory::new();
    for n in 0..1000 {
        let path = Path::from(format!("else/{n}"));
        objects.put(&path, PutPayload::default()).await.unwrap();
    }
    let is_metadata =
        |key: &str| key.contains("/.z") || key.starts_with(".z") || key.ends_with("zarr.json");
    let mut others = Files::new();
    for (key, data) in files {
        let array = key.split('/').next().unwrap();
        let chunks = files.iter().filter(|(other, _)| {
            other.starts_with(array) && !is_metadata(other) && !key.starts_with(".z")
        });
        let first = chunks.map(|(_, data)| data).next();
        let data = match first {
            Some(first) if !is_metadata(key) => first,
            _ => data,
        };
        others.push((key.clone(), data.clone()));
    }
    let others = match kind {
        Kind::Archive => archived(&others).await,
        Kind::Folder | Kind::Cached { .. } => in_memory(&others).await,
    };
    let mut listed = others.list(None);
    while let Some(object) = listed.next().await {
        let path = object.unwrap().location;
        let bytes = others.get(&path).await.unwrap().bytes().await.unwrap();
        objects.put(&path, bytes.into()).await.unwrap();
    }
    objects
}

/// How a store is kept on the server, and read.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Folder,
    Archive,
    /// A folder that is read with a cache, which is emptied before every query or not.
    Cached {
        is_cold: bool,
    },
}

/// A session with a store on a server as `t`.
struct Bench {
    ctx: SessionContext,
    server: Arc<Server>,
    location: String,
    kind: Kind,
    cache: tempfile::TempDir,
}

/// An archive with these files, stored in it at `data/my.vcz.zip`. With what is added it is longer than what is read with its directory.
async fn archived(files: &Files) -> InMemory {
    let mut files = files.clone();
    files.push(("padding".to_string(), vec![7; 3 << 20]));
    let objects = InMemory::new();
    let path = Path::from("data/my.vcz.zip");
    objects.put(&path, archive(&files).into()).await.unwrap();
    objects
}

impl Bench {
    async fn new(host: &str, files: &Files, denies: bool) -> Self {
        Self::of(host, files, denies, Kind::Folder).await
    }

    async fn of(host: &str, files: &Files, denies: bool, kind: Kind) -> Self {
        let objects = match kind {
            Kind::Archive => archived(files).await,
            Kind::Folder | Kind::Cached { .. } => in_memory(files).await,
        };
        let mut server = Server::new(objects);
        (server.other, server.denies) = (other_store(files, kind).await, denies);
        let server = Arc::new(server);
        let ctx = session(3, 40);
        let url = Url::parse(&format!("fake://{host}")).unwrap();
        ctx.register_object_store(&url, Arc::clone(&server) as _);
        Self {
            ctx,
            server,
            location: match kind {
                Kind::Archive => format!("fake://{host}/data/my.vcz.zip"),
                Kind::Folder | Kind::Cached { .. } => format!("fake://{host}/data/my.vcz"),
            },
            kind,
            cache: tempfile::tempdir().unwrap(),
        }
    }

    /// Removes what is cached.
    fn forget(&self) {
        for group in std::fs::read_dir(self.cache.path()).unwrap() {
            let group = group.unwrap().path();
            // The files beside the folders say how much is cached.
            if !group.is_dir() {
                continue;
            }
            for file in std::fs::read_dir(group).unwrap() {
                // A temporary file may have got its name meanwhile.
                match std::fs::remove_file(file.unwrap().path()) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        panic!("{error}")
                    }
                    _ => {}
                }
            }
        }
    }

    async fn open(&self, table: &str, options: &str) -> datafusion::common::Result<()> {
        let with_cache = format!(
            "OPTIONS ('vcz.cache_dir' '{}')",
            self.cache.path().display()
        );
        let options = match self.kind {
            Kind::Cached { .. } => with_cache.as_str(),
            Kind::Folder | Kind::Archive => options,
        };
        if self.kind == (Kind::Cached { is_cold: true }) {
            self.forget();
        }
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE {table} STORED AS VCZ LOCATION '{}' {options}",
            self.location
        );
        self.ctx.sql(&sql).await?.collect().await.map(drop)
    }

    async fn answer(&self, sql: &str) -> datafusion::common::Result<String> {
        if self.kind == (Kind::Cached { is_cold: true }) {
            self.forget();
        }
        let batches = self.ctx.sql(sql).await?.collect().await?;
        Ok(pretty_format_batches(&batches)?.to_string())
    }

    /// The answer without faults. What a failed query has asked for may still get into a cache that was emptied meanwhile, which then
    /// is emptied again.
    async fn answer_without_faults(&self, sql: &str) -> String {
        self.server.plan(None);
        for _ in 0..20 {
            match self.answer(sql).await {
                Ok(answer) => return answer,
                Err(_) if self.kind == (Kind::Cached { is_cold: true }) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{}: {sql}: {error}", self.location),
            }
        }
        panic!("{}: {sql}: no answer without faults", self.location)
    }

    /// Runs `sql` with faults at every request: it must give the right answer or fail. Returns the errors.
    async fn with_faults(&self, sql: &str, fault: Fault, is_alone: bool) -> Vec<String> {
        let right = self.answer_without_faults(sql).await;
        let requests = self.server.asked.lock().len();
        let mut errors = vec![];
        for first in 0..requests + 2 {
            self.server.plan(Some(Plan {
                fault,
                first,
                is_alone,
            }));
            match self.answer(sql).await {
                Ok(answer) => assert_eq!(
                    answer, right,
                    "{}: {sql}: {fault:?} at request {first}, alone: {is_alone}",
                    self.location
                ),
                Err(error) => errors.push(error.to_string()),
            }
        }
        let found = self.answer_without_faults(sql).await;
        assert_eq!(found, right, "{sql}: afterwards");
        errors
    }
}

const QUERIES: [&str; 4] = [
    "SELECT sfs(call_genotype) FROM t",
    "SELECT variant_contig, count(*), sum(variant_position) FROM t WHERE variant_contig <> 'chr1' GROUP BY 1 ORDER BY 1",
    "SELECT sum(variant_quality), count(variant_quality), max(variant_allele[1]) FROM t",
    "SELECT variant_position, variant_quality, allele_counts(call_genotype) AS k FROM t ORDER BY 1, 2 LIMIT 130",
];

/// The same store without and with consolidated metadata, in Zarr v3, as an archive, and with a cache.
fn layouts() -> [(&'static str, Files, Kind); 6] {
    let v2 = || with_absent("sim.vcz.zip");
    [
        ("v2", v2(), Kind::Folder),
        ("consolidated", consolidate(v2()), Kind::Folder),
        ("v3", with_absent("sim.v3.vcz.zip"), Kind::Folder),
        ("archive", v2(), Kind::Archive),
        ("cold", consolidate(v2()), Kind::Cached { is_cold: true }),
        ("warm", consolidate(v2()), Kind::Cached { is_cold: false }),
    ]
}

/// Whether an answer of another store in place of this one can be told in all queries. Folders are checked where a chunk is absent, which
/// comes after present ones were read, or not at all where rows are enough.
fn tells_replaced(kind: Kind, sql: &str) -> bool {
    kind == Kind::Archive || !sql.contains("LIMIT")
}

/// A part of the message that names the cause, which at least one error of the query must have.
fn cause(kind: Kind, sql: &str, fault: Fault) -> Option<&'static str> {
    Some(match (kind, fault) {
        (Kind::Archive, Fault::Replaced) => "its ETag has changed",
        (Kind::Archive, Fault::Absent | Fault::Denied) => "as planned",
        // Of whichever array is looked for first.
        (_, Fault::Absent) => "is absent, too",
        (_, Fault::Denied) => "'vcz.denied_chunks' to 'absent'",
        (_, Fault::Unavailable) => "as planned",
        // A region index notices other contigs before.
        (_, Fault::Replaced) if sql.contains("WHERE") => return None,
        (_, Fault::Replaced) => "written again or replaced",
        // The body of an answer that is in the cache is not sent.
        (Kind::Cached { is_cold: false }, _) => return None,
        (_, Fault::Reset) => "connection reset",
        (_, Fault::Short) => "bytes and sent ",
        // Decoders say what is wrong. More bytes than there are may be of no importance.
        (_, Fault::Shorter | Fault::Longer) => return None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_at_every_request_of_a_query() {
    for (name, files, kind) in layouts() {
        let bench = Bench::of(name, &files, false, kind).await;
        bench.open("t", "").await.unwrap();
        for sql in QUERIES {
            for fault in Fault::ALL {
                if fault == Fault::Replaced && !tells_replaced(kind, sql) {
                    continue;
                }
                let mut errors = bench.with_faults(sql, fault, false).await;
                // One chunk alone that is absent or another cannot be told in folders.
                let is_told = !matches!(fault, Fault::Absent | Fault::Replaced);
                if is_told || kind == Kind::Archive {
                    errors.extend(bench.with_faults(sql, fault, true).await);
                }
                if fault != Fault::Longer && kind != (Kind::Cached { is_cold: false }) {
                    assert!(errors.len() > 1, "{name}: {sql}: {fault:?}: {errors:?}");
                }
                for error in &errors {
                    for part in ["fake://", "data/my.vcz"] {
                        assert!(
                            error.contains(part),
                            "{name}: {sql}: {fault:?}: no {part}: {error}"
                        );
                    }
                    // By their names, or by the key of the chunk.
                    let is_named = error.contains("array '") && error.contains("chunk ");
                    assert!(
                        is_named || error.contains("cannot read '"),
                        "{name}: {sql}: {fault:?}: {error}"
                    );
                }
                if let Some(cause) = cause(kind, sql, fault) {
                    let named = errors.iter().any(|error| error.contains(cause));
                    assert!(named, "{name}: {sql}: {fault:?}: {errors:?}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_at_every_request_while_a_store_is_opened() {
    for (name, files, kind) in layouts() {
        let bench = Bench::of(&format!("opening-{name}"), &files, false, kind).await;
        bench.open("t", "").await.unwrap();
        let requests = bench.server.asked.lock().len();
        let mut right = vec![];
        for sql in QUERIES {
            right.push(bench.answer(sql).await.unwrap());
        }
        let schema = bench.ctx.table("t").await.unwrap().schema().clone();
        let mut opened = 0;
        for fault in Fault::ALL {
            for (first, is_alone) in
                (0..requests + 2).flat_map(|first| [(first, false), (first, true)])
            {
                // A lone answer of another store, or that something is absent, cannot be told, nor can a store that was replaced before
                // it is opened.
                if fault == Fault::Replaced || (fault == Fault::Absent && is_alone) {
                    continue;
                }
                let told = format!("{name}: {fault:?} at request {first}, alone: {is_alone}");
                bench.server.plan(Some(Plan {
                    fault,
                    first,
                    is_alone,
                }));
                let result = bench.open("t", "").await;
                let asked = bench.server.asked.lock().clone();
                bench.server.plan(None);
                if let Err(error) = result {
                    let error = error.to_string();
                    // What is in the cache decides how many requests there are. Emptied ones still get answers of the last query.
                    let is_cached = matches!(kind, Kind::Cached { .. });
                    assert!(first < requests || is_cached, "{told}: {error}");
                    assert!(error.contains("data/my.vcz"), "{told}: {error}");
                    continue;
                }
                opened += 1;
                let found = bench.ctx.table("t").await.unwrap().schema().clone();
                assert_eq!(found, schema, "{told}: {asked:#?}");
                for (sql, right) in QUERIES.iter().zip(&right) {
                    let answer = bench.answer(sql).await;
                    let answer = answer.unwrap_or_else(|error| panic!("{told}: {error}"));
                    assert_eq!(&answer, right, "{told}: {asked:#?}");
                }
            }
        }
        println!("{name}: {requests} requests; opened with faults {opened} times");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_read_again_only_where_chunks_are_absent() {
    let is_metadata = |path: &&String| {
        let name = path.rsplit('/').next().unwrap();
        name.starts_with(".z") || name == "zarr.json"
    };
    let sql = "SELECT sfs(call_genotype), sum(variant_quality) FROM t";
    for (name, files, absent) in [
        ("full", files("sim.vcz.zip"), false),
        (
            "full-consolidated",
            consolidate(files("sim.vcz.zip")),
            false,
        ),
        ("full-v3", files("sim.v3.vcz.zip"), false),
        ("less", with_absent("sim.vcz.zip"), true),
        (
            "less-consolidated",
            consolidate(with_absent("sim.vcz.zip")),
            true,
        ),
        ("less-v3", with_absent("sim.v3.vcz.zip"), true),
    ] {
        let bench = Bench::new(name, &files, false).await;
        bench.open("t", "").await.unwrap();
        for _ in 0..2 {
            bench.server.plan(None);
            bench.answer(sql).await.unwrap();
            let asked = bench.server.asked.lock().clone();
            let documents: Vec<&String> = asked.iter().filter(is_metadata).collect();
            if !absent {
                assert_eq!(documents, [] as [&str; 0], "{name}");
                continue;
            }
            for array in ["call_genotype", "variant_quality"] {
                let of = documents.iter().filter(|path| path.contains(array));
                assert_eq!(of.count(), 2, "{name}: {documents:?}");
            }
            let consolidated = usize::from(name == "less-consolidated");
            assert_eq!(documents.len(), 4 + consolidated, "{name}: {documents:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_deny_what_is_absent() {
    let files = with_absent("sim.vcz.zip");
    let open = Bench::new("answers", &files, false).await;
    open.open("t", "").await.unwrap();
    let bench = Bench::new("denies", &files, true).await;
    // `contig_id` and the like are not absent, so that the store can be opened.
    bench.open("t", "").await.unwrap();
    let error = bench.answer(QUERIES[0]).await.unwrap_err().to_string();
    for part in ["call_genotype/1", "vcz.denied_chunks"] {
        assert!(error.contains(part), "{error}");
    }
    let option = "OPTIONS ('vcz.denied_chunks' 'absent')";
    bench.open("t", option).await.unwrap();
    for sql in QUERIES {
        let right = open.answer(sql).await.unwrap();
        assert_eq!(bench.answer(sql).await.unwrap(), right);
        for fault in [Fault::Absent, Fault::Denied] {
            let errors = bench.with_faults(sql, fault, false).await;
            assert!(!errors.is_empty(), "{sql}: {fault:?}");
        }
    }
    let error = bench
        .open("u", "OPTIONS ('vcz.denied_chunks' 'maybe')")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("'error' or 'absent'"), "{error}");
}

/// A directory store without some chunks.
fn directory(name: &str, zip: &str) -> PathBuf {
    let store = unpack(&fixtures().join(zip), &work_dir().join(name));
    for (key, _) in files(zip).iter().filter(|(key, _)| is_left_out(key)) {
        std::fs::remove_file(store.join(key)).unwrap();
    }
    store
}

type Change = fn(&FilePath);

#[tokio::test(flavor = "multi_thread")]
async fn directories_that_change_after_they_were_opened() {
    let changes: [(&str, Change, &str); 4] = [
        (
            "deleted",
            |store| std::fs::remove_dir_all(store).unwrap(),
            "is absent, too",
        ),
        (
            "array-deleted",
            |store| {
                std::fs::remove_dir_all(store.join("call_genotype")).unwrap();
            },
            "is absent, too",
        ),
        (
            "rewritten",
            |store| {
                for name in ["call_genotype/.zarray", "call_genotype/zarr.json"] {
                    let path = store.join(name);
                    if let Ok(document) = std::fs::read_to_string(&path) {
                        std::fs::write(&path, document + "\n").unwrap();
                    }
                }
            },
            "written again or replaced",
        ),
        (
            "replaced",
            |store| {
                // The same metadata, written later.
                for name in ["call_genotype/.zarray", "call_genotype/zarr.json"] {
                    let path = store.join(name);
                    if let Ok(file) = std::fs::File::options().append(true).open(&path) {
                        let later =
                            std::time::SystemTime::now() + std::time::Duration::from_secs(5);
                        file.set_modified(later).unwrap();
                    }
                }
            },
            "written again or replaced",
        ),
    ];
    for zip in ["sim.vcz.zip", "sim.v3.vcz.zip"] {
        for (name, change, expected) in changes {
            let store = directory(&format!("vanished-{name}"), zip);
            let ctx = session(2, 8192);
            create(&ctx, "t", &store, None).await;
            let sfs = "SELECT sfs(call_genotype) FROM t";
            crate::common::run(&ctx, sfs).await;
            change(&store);
            let error = crate::common::fails(&ctx, sfs).await;
            let shown = store.display().to_string();
            for part in ["array 'call_genotype', chunk ", expected, shown.as_str()] {
                assert!(error.contains(part), "{name}: {error}");
            }
        }
    }
}

/// A documented limit: of a single chunk that is gone nobody can tell that it was there.
#[tokio::test]
async fn a_chunk_that_is_lost_stands_for_fill_values() {
    let whole = unpack(&fixtures().join("sim.vcz.zip"), &work_dir().join("whole"));
    let ctx = session(1, 8192);
    create(&ctx, "t", &whole, None).await;
    let sfs = "SELECT sfs(call_genotype) FROM t";
    let before = crate::common::row(&ctx, sfs).await;
    let chunk = files("sim.vcz.zip")
        .into_iter()
        .find(|(key, _)| is_left_out(key));
    std::fs::remove_file(whole.join(chunk.unwrap().0)).unwrap();
    assert_ne!(crate::common::row(&ctx, sfs).await, before);
    let plan = format!("EXPLAIN ANALYZE {sfs}");
    let plan = pretty_format_batches(&crate::common::run(&ctx, &plan).await).unwrap();
    assert!(plan.to_string().contains("chunks_absent=1"), "{plan}");
}
