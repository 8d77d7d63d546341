//! Scans for extended haplotypes: nSL and iHS of the real stores against `catalogue.json`, and these, XP-nSL and XP-EHH of fixtures against
//! `scans.json`, which numpy computed (`tests/fixtures/scans.py`).

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;
use serde_json::{Map, Value};

use crate::catalogue_data::{self, POPULATIONS, Store, TOLERANCE, assert_agrees};
use crate::common;
use crate::golden::{objects, read_json};
use crate::partitions::{Bits, bits};

/// The tolerance of scores from integrals.
const INTEGRAL_TOLERANCE: f64 = 1e-9;
/// Partitions and batch sizes of the sessions that every query runs in.
const SESSIONS: [(usize, usize); 4] = [(1, 8192), (2, 1000), (16, 333), (3, 1)];

fn tolerance(function: &str) -> f64 {
    match function.contains("nsl") {
        true => TOLERANCE,
        false => INTEGRAL_TOLERANCE,
    }
}

/// The row of the table with this number.
fn find<'r>(rows: &'r [Map<String, Value>], number: &Value, place: &str) -> &'r Map<String, Value> {
    let at = rows.binary_search_by_key(&number.as_u64(), |row| row["row"].as_u64());
    match at {
        Ok(at) => &rows[at],
        Err(_) => panic!("{place}: row {number} was not scanned"),
    }
}

/// Compares with lists of rows, positions and allele counts, and with `scores`.
fn assert_scores(
    rows: &[Map<String, Value>],
    wanted: &Value,
    scores: &Value,
    tolerance: f64,
    place: &str,
) {
    assert_eq!(
        rows.len() as u64,
        wanted["scanned"].as_u64().unwrap(),
        "{place}"
    );
    for (at, number) in wanted["rows"].as_array().unwrap().iter().enumerate() {
        let place = format!("{place}: row {number}");
        let found = find(rows, number, &place);
        assert_eq!(found["position"], wanted["positions"][at], "{place}");
        assert_eq!(
            found["allele_count"], wanted["allele_counts"][at],
            "{place}"
        );
        assert_agrees(&found["score"], &scores[at], tolerance, &place);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_stores() {
    let mut stores = 0;
    for entry in &catalogue_data::entries() {
        let Some(wanted) = entry.expected.get("extended") else {
            continue;
        };
        stores += 1;
        let store = Store::open(entry, &POPULATIONS).await;
        let population = wanted["population"].as_str().unwrap();
        for statistic in ["nsl", "ihs"] {
            let sql = format!(
                "SELECT row, position, allele_count, score FROM vcz_{statistic}('t', '{population}') ORDER BY row"
            );
            let rows = store.rows(&sql).await;
            let place = format!("{}: {statistic}", store.name);
            let tolerance = tolerance(statistic);
            assert_scores(&rows, wanted, &wanted[statistic], tolerance, &place);
        }
    }
    // The fixtures have theirs in another file.
    assert!(stores >= catalogue_data::least(0, 1), "{stores} stores");
}

#[tokio::test(flavor = "multi_thread")]
async fn fixtures() {
    let folder = common::fixtures();
    let expected = read_json(&folder.join("scans.json"));
    let stores = expected.as_object().unwrap();
    assert_eq!(stores.len(), 7);
    for (name, cases) in stores {
        let populations = folder.join(format!("{name}.populations.tsv"));
        let mut sessions = vec![];
        for version in ["", ".v3"] {
            let zip = folder.join(format!("{name}{version}.vcz.zip"));
            if zip.exists() {
                for (partitions, batch) in SESSIONS {
                    let ctx = common::session(partitions, batch);
                    common::create(&ctx, "t", &zip, Some(&populations)).await;
                    sessions.push((format!("{name}{version}, {partitions} partitions"), ctx));
                }
            }
        }
        for case in cases.as_array().unwrap() {
            let call = case["call"].as_str().unwrap();
            let sql = format!(
                "SELECT contig, row, position, allele_count, score FROM {call} ORDER BY row"
            );
            let mut first: Option<Bits> = None;
            for (session, ctx) in &sessions {
                let found = bits(ctx, &sql).await;
                let first = first.get_or_insert_with(|| found.clone());
                let is_same = found.schema == first.schema && found.rows == first.rows;
                assert!(
                    is_same,
                    "{session}: {call}\n{}\nexpected\n{}",
                    found.text, first.text
                );
            }
            let rows = objects(first.map(|bits| bits.batch).as_slice());
            assert_scores(
                &rows,
                case,
                &case["scores"],
                tolerance(call),
                &format!("{name}: {call}"),
            );
        }
    }
}

/// The rows of a contig that do not fit in memory are an error that names the function.
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_reserved() {
    let folder = common::fixtures();
    let session = |bytes: usize| {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0);
        let config = SessionConfig::new().with_target_partitions(1);
        datafusion_vcz::session::context(config, Arc::new(runtime.build().unwrap())).unwrap()
    };
    for function in ["vcz_nsl", "vcz_ihs"] {
        let (mut fitted, mut named) = (0, 0);
        for bytes in (16..28).map(|bits| 1 << bits) {
            let ctx = session(bytes);
            common::create(&ctx, "t", &folder.join("sim.vcz.zip"), None).await;
            let sql = format!("SELECT count(*) FROM {function}('t', 0)");
            match ctx.sql(&sql).await.unwrap().collect().await {
                Ok(_) => fitted += 1,
                Err(error) => {
                    let is_memory =
                        matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
                    assert!(is_memory && fitted == 0, "{bytes} bytes: {error}");
                    // With less memory the scan of the genotypes is the first to fail.
                    named += usize::from(error.to_string().contains(function));
                }
            }
        }
        assert!(fitted > 0 && named > 0, "{function}: {fitted}, {named}");
    }
}
