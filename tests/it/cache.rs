//! The cache of what is read from object stores: bytes are read once, by whichever process; what has changed is read anew, and what is damaged
//! on the disk is not used.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{fails, fixtures, plain_session, row, run};
use crate::http::{Behaviour, HttpServer};
use crate::server::{consolidate, files_of};

const QUERY: &str = "SELECT sfs(call_genotype), sum(variant_position), max(variant_contig) FROM";

fn zip(name: &str) -> Vec<u8> {
    fs::read(fixtures().join(name)).unwrap()
}

/// The files of a store as a folder with consolidated metadata, and as an archive, by their paths on a server.
fn served(name: &str) -> Vec<(String, Vec<u8>)> {
    let bytes = zip(name);
    let files = consolidate(files_of(&bytes)).into_iter();
    let mut served: Vec<_> = files
        .map(|(key, data)| (format!("/x.vcz/{key}"), data))
        .collect();
    served.push(("/x.vcz.zip".to_string(), bytes));
    served
}

/// The answer of a store, in a session of its own.
async fn answer(location: &str, options: &str) -> String {
    let ctx = plain_session();
    let create =
        format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{location}' OPTIONS ({options})");
    run(&ctx, &create).await;
    format!("{:?}", row(&ctx, &format!("{QUERY} t")).await)
}

async fn local(name: &str) -> String {
    let location = fixtures().join(name);
    answer(&location.display().to_string(), "'vcz.region_index' 'use'").await
}

/// The files of a cache.
fn kept(folder: &Path) -> Vec<PathBuf> {
    let groups = fs::read_dir(folder).unwrap();
    let groups = groups.map(|group| group.unwrap().path());
    let files = groups
        .filter(|group| group.is_dir())
        .flat_map(|group| fs::read_dir(group).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_read_once_until_they_change() {
    for store in ["x.vcz", "x.vcz.zip"] {
        let server = HttpServer::start(served("sim.vcz.zip"), Behaviour::default()).await;
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("new/cache");
        let options = format!(
            "'http.timeout' '30s', 'vcz.cache_dir' '{}'",
            cache.display()
        );
        let location = format!("{}/{store}", server.url());
        let (first, other) = (local("sim.vcz.zip").await, local("missing.vcz.zip").await);

        assert_eq!(answer(&location, &options).await, first, "{store}");
        assert!(server.take_sent() > 0, "{store}");
        // Another session, as of another process: the server is asked, and sends nothing.
        server.take();
        assert_eq!(answer(&location, &options).await, first, "{store}");
        let asked = server.take();
        assert_eq!(server.take_sent(), 0, "{store}: {asked:?}");
        assert!(!asked.is_empty(), "{store}");

        // Damaged files.
        for path in kept(&cache) {
            let mut bytes = fs::read(&path).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 0x40;
            fs::write(&path, bytes).unwrap();
        }
        assert_eq!(answer(&location, &options).await, first, "{store}");
        assert!(server.take_sent() > 0, "{store}");

        // Another store in its place.
        for (path, bytes) in served("missing.vcz.zip") {
            server.replace(&path, bytes);
        }
        assert_eq!(answer(&location, &options).await, other, "{store}");
        server.take_sent();
        assert_eq!(answer(&location, &options).await, other, "{store}");
        assert_eq!(server.take_sent(), 0, "{store}");

        // A folder that cannot be written any more does not matter.
        fs::remove_dir_all(&cache).unwrap();
        fs::write(&cache, "a file").unwrap();
        let ctx = plain_session();
        let create = format!(
            "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{location}' OPTIONS ({options})"
        );
        let error = fails(&ctx, &create).await;
        assert!(error.contains("vcz.cache_dir"), "{error}");
    }
}

#[tokio::test]
async fn options_of_the_cache_are_checked() {
    let ctx = plain_session();
    let store = fixtures().join("sim.vcz.zip");
    for (options, reason) in [
        ("'vcz.cache_dir' ''", "must be the path of a folder"),
        ("'vcz.cache_size' '5GB'", "set 'vcz.cache_dir', too"),
        ("'vcz.cache_size' '5kB'", "at least 1MB"),
        ("'vcz.cache_size' 'much'", "vcz.cache_size must be a number"),
    ] {
        let create = format!(
            "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{}' OPTIONS ({options})",
            store.display()
        );
        let error = fails(&ctx, &create).await;
        assert!(error.contains(reason), "{error}");
    }
}
