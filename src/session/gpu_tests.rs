//! Queries on a simulated device: the same answers and errors as on the host, and no query hangs.

#[path = "../../tests/it/backends.rs"]
mod backends;
#[path = "../../tests/it/random_store.rs"]
mod random_store;
#[path = "../../tests/it/unzip.rs"]
pub(super) mod unzip;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

use self::backends::{
    Answer, Backends, LONG, Share, are_equal, ask, compare_direct, compare_filters, compare_stores,
    stores, texts,
};
use self::random_store::{Random, prepare, put_field, put_genotypes};
use crate::gpu;

/// Bytes of a slab: more than any one chunk of the fixtures, less than all chunks of a scan.
const SLAB: usize = 1 << 20;
/// Stores of at least this many bytes are too large for a simulated device.
const LARGE: u64 = 4 << 20;
/// A simulated device takes long, so a store is asked one of so many queries at a time. tests/it/gpu.rs asks all, on a device.
const SHARE: usize = 2;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Installs the simulated device in place of any other, for all tests of this process.
pub(super) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| gpu::install(gpu::software::engine(2, SLAB)));
}

fn config(partitions: usize, batch_size: usize) -> SessionConfig {
    SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(batch_size)
        .set_usize("datafusion.optimizer.repartition_file_min_size", 1)
}

fn session(partitions: usize, batch_size: usize) -> SessionContext {
    install();
    super::context(
        config(partitions, batch_size),
        Arc::new(RuntimeEnv::default()),
    )
    .unwrap()
}

/// Both backends with the table `t`.
async fn both(store: &Path, partitions: usize, batch_size: usize) -> Backends {
    let both = Backends::new(session, partitions, batch_size).await;
    let populations = fixtures().join("sim.populations.tsv");
    let is_sim = store.to_string_lossy().contains("sim");
    both.create("t", store, is_sim.then_some(&populations))
        .await;
    both
}

fn rows(answer: &Answer) -> usize {
    let batches = answer.batches.iter().flatten().flatten();
    batches.map(|batch| batch.num_rows()).sum()
}

async fn limited<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("hangs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fixtures_are_the_same() {
    let sizes = [(1, 8192), (16, 37)];
    let on_gpu = compare_stores(session, &stores(&fixtures()), &sizes, SHARE).await;
    assert!(on_gpu > 650, "only {on_gpu} chunks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn layouts_are_the_same() {
    let on_gpu = compare_stores(
        session,
        &stores(&fixtures().join("layouts")),
        &[(2, 64)],
        SHARE,
    )
    .await;
    assert!(on_gpu > 1000, "only {on_gpu} chunks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn real_stores_are_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !folder.is_dir() {
        eprintln!("NOT RUN: the real stores of ../shared/data are not here");
        return;
    }
    // A simulated device would take hours for the largest.
    let mut stores = stores(&folder);
    stores.retain(|(path, _)| fs::metadata(path).unwrap().len() < LARGE);
    compare_stores(session, &stores, &[(1, 8192), (16, 1000)], SHARE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_stores_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = prepare(unzip::unpack, &fixtures(), folder.path());
    let populations = fixtures().join("chunks7.populations.tsv");
    let mut on_gpu = 0;
    for seed in 1..=25 {
        let mut random = Random::new(seed);
        let metadata = put_genotypes(&store, &mut random);
        let field = put_field(&store, &mut random);
        let (partitions, batch_size) = random.one(&[(1, 8192), (3, 50), (16, 200)]);
        let both = Backends::new(session, partitions, batch_size).await;
        both.create("t", &store, Some(&populations)).await;
        on_gpu += both
            .compare(
                &format!("seed {seed}: {metadata} {field}"),
                Share {
                    at: seed as usize,
                    of: SHARE,
                },
            )
            .await;
    }
    assert!(on_gpu > 500, "only {on_gpu} chunks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn filters_of_calls_are_the_same() {
    compare_filters(session, &fixtures()).await;
}

/// Chunks of fields or of filtered genotypes that are damaged or absent give the host's answer or its error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn damaged_chunks_of_fields_give_the_hosts_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = unzip::unpack(&fixtures().join("formats.vcz.zip"), folder.path());
    let both = both(&store, 1, 8192).await;
    let f = "filter_calls(filter_calls(call_genotype, call_I2, 2), call_value(call_LI2, 1))";
    let sqls = [
        format!("SELECT genotype_counts({f}) FROM t"),
        format!("SELECT {f} FROM t"),
        format!("SELECT allele_counts({f}), {f} FROM t"),
    ];
    let mut errors = 0;
    for (array, chunk) in [
        ("call_genotype", "call_genotype/0.0.0"),
        ("call_I2", "call_I2/1.0"),
        ("call_LI2", "call_LI2/0.0.0"),
    ] {
        let path = store.join(chunk);
        let whole = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (what, bytes) in damages(&whole) {
            fs::write(&path, bytes).unwrap();
            for sql in &sqls {
                let (host, _) = both.same(sql, &format!("{chunk}: {what}")).await;
                if let Err(error) = host.batches {
                    assert!(error.contains(&format!("'{array}'")), "{chunk}: {error}");
                    errors += 1;
                }
            }
        }
        fs::remove_file(&path).unwrap();
        for sql in &sqls {
            let (host, gpu) = both.same(sql, &format!("{chunk} is absent")).await;
            assert!(host.batches.is_ok() && gpu.chunks.1 > 0, "{chunk}");
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(errors > 30, "only {errors} errors");
}

/// Uncompressed chunks that the device reads directly from their files.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_are_read_directly() {
    let folder = tempfile::tempdir().unwrap();
    compare_direct(
        session,
        unzip::unpack,
        &fixtures().join("layouts"),
        folder.path(),
    )
    .await;
}

/// Partitions are polled one after the other: while the first waits, the second has not submitted anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unions_and_limits() {
    for (partitions, batch_size) in [(1, 8192), (1, 10), (2, 100)] {
        let both = Backends::new(session, partitions, batch_size).await;
        let populations = fixtures().join("sim.populations.tsv");
        for (table, store) in [("a", "sim.vcz.zip"), ("b", "sim.v3.vcz.zip")] {
            let store = fixtures().join(store);
            both.create(table, &store, Some(&populations)).await;
        }
        let union =
            |columns: &str| format!("SELECT {columns} FROM a UNION ALL SELECT {columns} FROM b");
        let counts = "variant_position, allele_counts(call_genotype, 'first')";
        for sql in [union(counts), union("call_genotype")] {
            let (_, gpu) = both.same(&sql, "union").await;
            assert_eq!(rows(&gpu), 2 * 7402);
            assert!(gpu.chunks.1 >= 16, "{:?}", gpu.chunks);
        }
        for limit in [0, 1, 10, 1001] {
            let sql = format!(
                "SELECT {counts} FROM a ORDER BY variant_contig, variant_position LIMIT {limit}"
            );
            assert_eq!(rows(&both.same(&sql, "order by").await.1), limit);
            // The rows may come from either branch.
            let sql = format!("{} LIMIT {limit}", union(counts));
            assert_eq!(rows(&ask(&both.gpu, &sql).await), limit);
        }
    }
    // With a limit only the chunks that may be needed are decoded.
    let both = both(&fixtures().join("sim.vcz.zip"), 1, 8192).await;
    let limited = ask(
        &both.gpu,
        "SELECT allele_counts(call_genotype) FROM t LIMIT 10",
    )
    .await;
    assert!((1..=2).contains(&limited.chunks.1), "{:?}", limited.chunks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropped_streams_harm_nobody() {
    let both = both(&fixtures().join("sim.vcz.zip"), 16, 50).await;
    let sqls = [
        "SELECT allele_counts(call_genotype), call_genotype FROM t",
        "SELECT genotype_counts(call_genotype, 'first') FROM t",
    ];
    for round in 0..60u64 {
        let frame = both.gpu.sql(sqls[round as usize % 2]).await.unwrap();
        let mut streams = frame.execute_stream_partitioned().await.unwrap();
        let take = round as usize % 3;
        for stream in streams.iter_mut().take(take) {
            let batch = limited(stream.next()).await;
            assert!(batch.unwrap().unwrap().num_rows() > 0);
        }
        // Also a stream that is dropped while it is polled.
        if let Some(stream) = streams.last_mut() {
            let patience = Duration::from_micros(round * 100);
            let _ = tokio::time::timeout(patience, stream.next()).await;
        }
    }
    both.same(sqls[0], "after dropped streams").await;
    let pool = &both.gpu.runtime_env().memory_pool;
    limited(async {
        while pool.reserved() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Streams that are opened and asked for one batch, while others run to their end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_that_nobody_polls_hold_up_nobody() {
    let both = both(&fixtures().join("sim.vcz.zip"), 4, 100).await;
    let sql = "SELECT allele_counts(call_genotype), call_genotype FROM t";
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let frame = both.gpu.sql(sql).await.unwrap();
        let mut streams = frame.execute_stream_partitioned().await.unwrap();
        let first = limited(streams[0].next()).await;
        waiting.push((first, streams));
    }
    both.same(sql, "beside waiting streams").await;
    let expected = ask(&both.host, sql).await.batches.unwrap();
    for (first, streams) in waiting {
        let mut all = Vec::new();
        for stream in streams {
            let batches = limited(stream.collect::<Vec<_>>()).await;
            all.push(batches.into_iter().collect::<Result<Vec<_>, _>>().unwrap());
        }
        all[0].insert(0, first.unwrap().unwrap());
        let both = all.iter().zip(&expected);
        assert!(both.clone().count() == expected.len());
        assert!(both.into_iter().all(|(one, other)| are_equal(one, other)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_queries_at_once() {
    let both = Arc::new(both(&fixtures().join("sim.vcz.zip"), 16, 100).await);
    let tasks: Vec<_> = (0..12)
        .map(|task| {
            let both = Arc::clone(&both);
            tokio::spawn(async move {
                for round in 0..4 {
                    let sql = match (task + round) % 3 {
                        0 => "SELECT allele_counts(call_genotype), genotype_counts(call_genotype, 'second') FROM t",
                        1 => "SELECT call_genotype FROM t",
                        _ => "SELECT joint_sfs(call_genotype, 'first', 'second') FROM t",
                    };
                    both.same(sql, "at once").await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// What happens to a chunk's file.
fn damages(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let flipped = |at: usize| {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 0xff;
        flipped
    };
    vec![
        ("no byte left", vec![]),
        ("half", bytes[..bytes.len() / 2].to_vec()),
        ("one byte more", [bytes, &[7]].concat()),
        ("other bytes", vec![0xab; bytes.len()]),
        ("its first byte", flipped(0)),
        ("its length", flipped(4)),
        ("an offset", flipped(17.min(bytes.len() - 1))),
        ("near its start", flipped(bytes.len() / 10)),
        ("its middle", flipped(bytes.len() / 2)),
        ("its last byte", flipped(bytes.len() - 1)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn damaged_chunks_give_the_hosts_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut errors = 0;
    for (zip, chunk) in [
        ("sim.vcz.zip", "call_genotype/3.0.0"),
        ("chunks7.v3.vcz.zip", "call_genotype/c/1/2/0"),
        (
            "layouts/v3-sharded-zstd-end.vcz.zip",
            "call_genotype/c/0/0/0",
        ),
        ("layouts/v2-gzip.vcz.zip", "call_genotype/1.0.0"),
        ("layouts/v2-uncompressed.vcz.zip", "call_genotype/0.0.0"),
        (
            "layouts/v2-blosc-lz4-shuffle.vcz.zip",
            "call_genotype/0.0.0",
        ),
    ] {
        let store = unzip::unpack(&fixtures().join(zip), folder.path());
        let path = store.join(chunk);
        let whole = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let both = both(&store, 1, 8192).await;
        for (what, bytes) in damages(&whole) {
            fs::write(&path, bytes).unwrap();
            let place = format!("{zip}: {what}");
            for columns in [
                "allele_counts(call_genotype)",
                "genotype_counts(call_genotype)",
                "call_genotype",
                "allele_counts(call_genotype), call_genotype",
            ] {
                let (host, _) = both.same(&format!("SELECT {columns} FROM t"), &place).await;
                if let Err(error) = host.batches {
                    assert!(error.contains("'call_genotype'"), "{place}: {error}");
                    errors += 1;
                }
            }
            // Other columns can still be read.
            let sql = "SELECT variant_position FROM t";
            assert!(both.same(sql, &place).await.1.batches.is_ok());
        }
        fs::write(&path, whole).unwrap();
        let sql = "SELECT allele_counts(call_genotype) FROM t";
        let (_, gpu) = both.same(sql, zip).await;
        assert_eq!(gpu.chunks.0, gpu.chunks.1, "{zip}");
    }
    assert!(errors > 100, "only {errors} errors");
}

/// With `gpu` an error that names the array and the reason; with `auto` the host.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_no_device_decodes() {
    for (layout, reason) in [
        ("v2-blosc-snappy-shuffle", "snappy"),
        ("v2-blosc-blosclz-bitshuffle", "blosclz"),
        ("v3-transpose", "transposed"),
        ("v2-order-f", "transposed"),
        ("v3-gzip-blosc", "one compressor after another"),
    ] {
        let store = fixtures().join(format!("layouts/{layout}.vcz.zip"));
        let both = both(&store, 2, 64).await;
        for sql in [
            "SELECT call_genotype FROM t",
            "SELECT sfs(call_genotype) FROM t",
        ] {
            ask(&both.gpu, "SET vcz.backend = 'gpu'").await;
            let error = ask(&both.gpu, sql).await.batches.unwrap_err();
            for part in [
                "vcz.backend = 'gpu'",
                "'call_genotype'",
                reason,
                "'auto' or 'host'",
            ] {
                assert!(error.contains(part), "{layout}: no {part} in: {error}");
            }
            ask(&both.gpu, "SET vcz.backend = 'auto'").await;
            let (_, auto) = both.same(sql, layout).await;
            assert_eq!(auto.chunks.1, 0);
            let explained = texts(&both.gpu, &format!("EXPLAIN {sql}"))
                .await
                .concat()
                .join("\n");
            assert!(explained.contains(reason), "{layout}: {explained}");
        }
        // Arrays over variants alone are always decoded by the host.
        ask(&both.gpu, "SET vcz.backend = 'gpu'").await;
        both.same("SELECT variant_position, variant_allele FROM t", layout)
            .await;
    }
    // Text over samples.
    let both = both(&fixtures().join("formats.vcz.zip"), 1, 64).await;
    let error = ask(&both.gpu, "SELECT call_FT FROM t")
        .await
        .batches
        .unwrap_err();
    assert!(
        error.contains("'call_FT'") && error.contains("text"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn settings_that_cannot_be_are_errors() {
    let both = both(&fixtures().join("sim.vcz.zip"), 1, 8192).await;
    let sql = "SELECT sfs(call_genotype) FROM t";
    ask(&both.gpu, "SET vcz.gpu_devices = '5'").await;
    let error = ask(&both.gpu, sql).await.batches.unwrap_err();
    assert!(
        error.contains("vcz.gpu_devices: there is no GPU 5; the devices are 0"),
        "{error}"
    );
    ask(&both.gpu, "SET vcz.gpu_devices = '0'").await;
    assert!(both.same(sql, "device 0").await.1.batches.is_ok());
}

/// A memory pool that is too small for many chunks at once is an error, or a right answer; what was taken is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn small_memory_pools() {
    install();
    let store = fixtures().join("sim.vcz.zip");
    let both = both(&store, 4, 100).await;
    let (mut answers, mut errors) = (0, 0);
    for sql in [
        "SELECT allele_counts(call_genotype) FROM t",
        "SELECT call_genotype FROM t",
        "SELECT select_samples(call_genotype, 'first') FROM t",
    ] {
        let expected = ask(&both.host, sql).await.batches.unwrap();
        for bytes in [1_000, 20_000, 100_000, 300_000, 1_000_000, 100_000_000] {
            let runtime = RuntimeEnvBuilder::new()
                .with_memory_limit(bytes, 1.0)
                .build()
                .unwrap();
            let ctx = super::context(config(4, 100), Arc::new(runtime)).unwrap();
            let small = Backends {
                host: both.host.clone(),
                gpu: ctx,
                partitions: 4,
            };
            ask(&small.gpu, "SET vcz.backend = 'gpu'").await;
            let populations = fixtures().join("sim.populations.tsv");
            small.create("t", &store, Some(&populations)).await;
            match ask(&small.gpu, sql).await.batches {
                Ok(batches) => {
                    let mut both = batches.iter().zip(&expected);
                    let is_same = both.all(|(one, other)| are_equal(one, other));
                    assert!(
                        is_same && batches.len() == expected.len(),
                        "{bytes} bytes: {sql}"
                    );
                    answers += 1;
                }
                Err(error) => {
                    assert!(error.contains("VczScan"), "{bytes} bytes: {sql}: {error}");
                    errors += 1;
                }
            }
            let pool = &small.gpu.runtime_env().memory_pool;
            limited(async {
                while pool.reserved() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
        }
    }
    assert!(
        answers >= 3 && errors >= 3,
        "{answers} answers and {errors} errors"
    );
}
