//! Requests and rounds of requests that opening a remote store takes.

use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use url::Url;

use crate::archive::archive;
use crate::common::{fixtures, row, run, session, shared_data};
use crate::server::{Files, Server, consolidate, files, files_of, in_memory};

/// A store on a server that answers in rounds, opened as `t`: how many requests and rounds that took.
async fn opened(server: &Arc<Server>, location: &str) -> (SessionContext, usize, usize) {
    let ctx = session(1, 8192);
    let url = Url::parse("fake://rounds").unwrap();
    ctx.register_object_store(&url, Arc::clone(server) as _);
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION 'fake://rounds/{location}'");
    let open = async { ctx.sql(&sql).await.unwrap().collect().await.unwrap() };
    let (_, rounds) = server.rounds(open).await;
    let requests = server.asked.lock().len();
    (ctx, requests, rounds)
}

/// The answer of a query, and the number of requests and rounds.
async fn asked(server: &Arc<Server>, ctx: &SessionContext, sql: &str) -> (String, usize, usize) {
    server.plan(None);
    let (values, rounds) = server.rounds(row(ctx, sql)).await;
    let requests = server.asked.lock().len();
    (format!("{values:?}"), requests, rounds)
}

#[tokio::test]
async fn stores_are_opened_in_few_rounds() {
    let mut cases: Vec<(&str, Files)> = vec![
        ("consolidated", consolidate(files("sim.vcz.zip"))),
        ("v2", files("sim.vcz.zip")),
        ("v3", files("sim.v3.vcz.zip")),
    ];
    // A store of 1,020 chunks of each array.
    if let Some(shared) = shared_data() {
        let gamb_x = files_of(&std::fs::read(shared.join("gambX.vcz.zip")).unwrap());
        cases.push(("consolidated", consolidate(gamb_x.clone())));
        cases.push(("gambX", gamb_x));
    }
    for (name, files) in cases {
        let server = Arc::new(Server::in_rounds(in_memory(&files).await));
        let (_, requests, rounds) = opened(&server, "data/my.vcz").await;
        let asked = server.asked.lock().clone();
        // Contigs, filters, samples, lengths of contigs and the region index; and documents of the group.
        match name {
            "consolidated" => assert!(requests <= 12 && rounds <= 2, "{rounds}: {asked:#?}"),
            _ => assert!(rounds <= 3, "{name}: {rounds}: {asked:#?}"),
        }
        let mut once = asked.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), asked.len(), "{name}: asked twice: {asked:#?}");
    }
}

#[tokio::test]
async fn small_archives_are_read_in_one_request() {
    let zip = std::fs::read(fixtures().join("sim.vcz.zip")).unwrap();
    let objects = InMemory::new();
    let path = Path::from("data/my.vcz.zip");
    objects.put(&path, PutPayload::from(zip)).await.unwrap();
    let server = Arc::new(Server::in_rounds(objects));
    let (ctx, requests, rounds) = opened(&server, "data/my.vcz.zip").await;
    assert_eq!((requests, rounds), (1, 1));
    let sql = "SELECT sfs(call_genotype), sum(variant_position) FROM t";
    let (_, requests, rounds) = asked(&server, &ctx, sql).await;
    assert_eq!((requests, rounds), (0, 0), "all of it is in memory");
}

#[tokio::test]
async fn chunks_are_read_once_and_ahead() {
    let server = Arc::new(Server::in_rounds(in_memory(&files("sim.vcz.zip")).await));
    let (ctx, _, _) = opened(&server, "data/my.vcz").await;
    let sql = "SELECT sfs(call_genotype) FROM t";
    let (ahead, requests, rounds) = asked(&server, &ctx, sql).await;
    assert_eq!((requests, rounds), (8, 1), "all 8 chunks at the same time");
    row(&ctx, "SELECT 1").await;
    ctx.sql("SET vcz.prefetch = 0")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let (without, requests, rounds) = asked(&server, &ctx, sql).await;
    assert_eq!((requests, rounds), (8, 8));
    assert_eq!(ahead, without);
}

#[tokio::test]
async fn neighbours_in_an_archive_are_read_by_one_request() {
    for name in ["sim.vcz.zip", "sim.v3.vcz.zip"] {
        let mut files = files(name);
        // In an order that is not that of the chunks, each array together, as a folder lists its files.
        let hash = |key: &str| crc32fast::hash(key.as_bytes());
        files.sort_by_key(|(key, _)| (key.split('/').next().unwrap().to_string(), hash(key)));
        // More than is read with the directory.
        files.push(("padding".to_string(), vec![7; 3 << 20]));
        let objects = InMemory::new();
        let path = Path::from("data/my.vcz.zip");
        objects.put(&path, archive(&files).into()).await.unwrap();
        let server = Arc::new(Server::in_rounds(objects));
        let (ctx, requests, rounds) = opened(&server, "data/my.vcz.zip").await;
        // The directory; metadata of all arrays; names of samples, contigs and filters.
        assert!(
            rounds <= 3 && requests <= 12,
            "{name}: {requests} in {rounds}"
        );
        let sql = "SELECT sfs(call_genotype), sum(variant_position) FROM t";
        let (found, requests, rounds) = asked(&server, &ctx, sql).await;
        assert_eq!((requests, rounds), (2, 1), "{name}: one for each array");
        let local = fixtures().join(name);
        let expected = row(&ctx, &sql.replace(" t", &format!(" '{}'", local.display()))).await;
        assert_eq!(found, format!("{expected:?}"));
        let shown = analyzed(&server, &ctx, sql).await;
        assert!(shown.contains("requests=2"), "{shown}");
    }
}

/// How many of these requests are for chunks: metadata is asked for again where a chunk is absent.
fn for_chunks(asked: &[String]) -> usize {
    asked.iter().filter(|key| is_chunk(key)).count()
}

fn is_chunk(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    !name.starts_with(".z") && name != "zarr.json"
}

/// What EXPLAIN ANALYZE shows of a query.
async fn analyzed(server: &Arc<Server>, ctx: &SessionContext, sql: &str) -> String {
    let sql = format!("EXPLAIN ANALYZE {sql}");
    let (batches, _) = server.rounds(run(ctx, &sql)).await;
    pretty_format_batches(&batches).unwrap().to_string()
}

#[tokio::test]
async fn requests_are_counted_and_each_chunk_is_read_once() {
    for name in ["sim.vcz.zip", "sim.v3.vcz.zip"] {
        let server = Arc::new(Server::in_rounds(in_memory(&files(name)).await));
        let (ctx, _, _) = opened(&server, "data/my.vcz").await;
        let sql = "SELECT diversity(call_genotype), genome_bin(variant_position, 100000) FROM t GROUP BY 2";
        server.plan(None);
        let shown = analyzed(&server, &ctx, sql).await;
        let asked = server.asked.lock().clone();
        let requests = for_chunks(&asked);
        assert!(
            shown.contains(&format!("requests={requests}")),
            "{shown}\n{asked:#?}"
        );
        let mut once = asked.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), asked.len(), "{asked:#?}");

        // Of a region only its chunks, of genotypes as of contigs and positions.
        let region = "SELECT sfs(call_genotype), count(*) FROM t WHERE variant_contig = 'chr1' AND variant_position BETWEEN 1000 AND 20000";
        server.plan(None);
        let shown = analyzed(&server, &ctx, region).await;
        let asked = server.asked.lock().clone();
        let requests = for_chunks(&asked);
        assert!(
            shown.contains(&format!("requests={requests}")),
            "{shown}\n{asked:#?}"
        );
        let of_chunks = || asked.iter().filter(|key| is_chunk(key));
        let chunks = |array: &str| of_chunks().filter(|key| key.contains(array)).count();
        let genotypes = chunks("call_genotype/");
        assert!((1..=3).contains(&genotypes), "{asked:#?}");
        assert!(
            chunks("variant_position/") <= genotypes && chunks("variant_contig/") <= genotypes,
            "{asked:#?}"
        );
    }
    // A local store takes none.
    let ctx = session(1, 8192);
    let local = fixtures().join("sim.vcz.zip");
    let sql = format!(
        "EXPLAIN ANALYZE SELECT sfs(call_genotype) FROM '{}'",
        local.display()
    );
    let shown = pretty_format_batches(&run(&ctx, &sql).await)
        .unwrap()
        .to_string();
    assert!(shown.contains("requests=0"), "{shown}");
}
