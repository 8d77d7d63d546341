//! Requests and rounds of requests that opening a remote store takes.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use url::Url;

use crate::common::{fixtures, row, session};
use crate::server::{Files, Server, consolidate, files, in_memory};

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
    let cases: [(&str, Files); 3] = [
        ("consolidated", consolidate(files("sim.vcz.zip"))),
        ("v2", files("sim.vcz.zip")),
        ("v3", files("sim.v3.vcz.zip")),
    ];
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
