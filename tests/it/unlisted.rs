//! Arrays that are no columns: what is said of those of stores on servers that cannot list, names of arrays by a table option, consolidated
//! metadata, and arrays that cannot be read.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_vcz::session::explain_unknown_column;
use datafusion_vcz::store::Store;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use url::Url;

use crate::common::{create, fails, fixtures, row, run, session, unpack, work_dir};
use crate::server::{Files, Server, consolidate, files, in_memory};

/// The fixture with its array of phases also under a name that nothing tells.
fn with_unlikely_name(name: &str) -> Files {
    let mut files = files(name);
    let copies: Files = files
        .iter()
        .filter_map(|(key, data)| {
            let rest = key.strip_prefix("call_genotype_phased/")?;
            Some((format!("call_XX/{rest}"), data.clone()))
        })
        .collect();
    files.extend(copies);
    files
}

/// A session with a server of these objects, which cannot list.
async fn unlisted(objects: InMemory) -> (SessionContext, Arc<Server>) {
    let mut server = Server::new(objects);
    server.denies_listing = true;
    let server = Arc::new(server);
    let ctx = session(1, 8192);
    let url = Url::parse("fake://unlisted").unwrap();
    ctx.register_object_store(&url, Arc::clone(&server) as _);
    (ctx, server)
}

fn table(name: &str, options: &str) -> String {
    format!(
        "CREATE EXTERNAL TABLE {name} STORED AS VCZ LOCATION 'fake://unlisted/data/my.vcz' {options}"
    )
}

const ANSWER: &str = "SELECT count(*), count(call_XX[1]), sfs(call_genotype) FROM";

#[tokio::test]
async fn arrays_are_found_by_their_names() {
    for name in ["sim.vcz.zip", "sim.v3.vcz.zip"] {
        let files = with_unlikely_name(name);
        let (ctx, _) = unlisted(in_memory(&files).await).await;
        run(&ctx, &table("t", "")).await;
        let error = ctx.sql(&format!("{ANSWER} t AS other")).await.unwrap_err();
        let error = explain_unknown_column(&ctx.state(), error)
            .await
            .to_string();
        for part in [
            "call_XX",
            "'vcz.arrays'",
            "cannot be listed",
            "fake://unlisted/data/my.vcz",
            "VCF header",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let other = ctx.sql("SELECT nothing()").await.unwrap_err();
        let same = explain_unknown_column(&ctx.state(), other)
            .await
            .to_string();
        assert!(!same.contains("vcz.arrays"), "{same}");

        run(
            &ctx,
            &table("u", "OPTIONS ('vcz.arrays' 'call_XX, variant_AA')"),
        )
        .await;
        let found = row(&ctx, &format!("{ANSWER} u")).await;
        let absent = fails(&ctx, &table("v", "OPTIONS ('vcz.arrays' 'call_YY')")).await;
        assert!(absent.contains("there is no array 'call_YY'"), "{absent}");
        let outside = fails(&ctx, &table("v", "OPTIONS ('vcz.arrays' '../x')")).await;
        assert!(
            outside.contains("vcz.arrays") && outside.contains("'/'"),
            "{outside}"
        );

        // A store that can be listed has it anyway.
        let folder = work_dir().join(format!("unlikely-{name}"));
        for (key, data) in &files {
            let path = folder.join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, data).unwrap();
        }
        assert_eq!(
            row(&ctx, &format!("{ANSWER} '{}'", folder.display())).await,
            found
        );
    }
}

#[tokio::test]
async fn arrays_that_are_no_columns() {
    for (name, document, text) in [
        (
            "sim.vcz.zip",
            ".zarray",
            r#"{"zarr_format": 2, "shape": [7402], "chunks": [1000], "dtype": "<f16", "compressor": null, "fill_value": 0, "order": "C",
                "filters": null}"#,
        ),
        (
            "sim.v3.vcz.zip",
            "zarr.json",
            r#"{"zarr_format": 3, "node_type": "array", "shape": [7402], "data_type": "float128", "fill_value": 0,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1000]}}, "chunk_key_encoding": {"name": "default"},
                "codecs": [{"name": "bytes"}]}"#,
        ),
    ] {
        let folder = unpack(
            &fixtures().join(name),
            &work_dir().join(format!("no-columns-{name}")),
        );
        let array = folder.join("variant_odd");
        std::fs::create_dir_all(&array).unwrap();
        std::fs::write(array.join(document), text).unwrap();
        let ctx = session(1, 8192);
        create(&ctx, "t", &folder, None).await;
        let place = folder.display().to_string();
        for (sql, parts) in [
            (
                "SELECT variant_odd FROM t",
                ["'variant_odd'", "cannot be read", "f"],
            ),
            (
                "SELECT a.variant_odd FROM t AS a",
                ["'variant_odd'", "cannot be read", "16|128"],
            ),
            (
                "SELECT sample_id FROM t",
                ["'sample_id'", "no column", "[\"samples\"]"],
            ),
        ] {
            let error = ctx.sql(sql).await.unwrap_err();
            let error = explain_unknown_column(&ctx.state(), error)
                .await
                .to_string();
            let says = |part: &str| part.split('|').any(|part| error.contains(part));
            for part in parts.into_iter().chain([place.as_str()]) {
                assert!(says(part), "{part}: {error}");
            }
        }
        // Other columns are read, and other names are no arrays.
        run(
            &ctx,
            "SELECT sum(variant_position), sfs(call_genotype) FROM t",
        )
        .await;
        let error = ctx.sql("SELECT nothing FROM t").await.unwrap_err();
        let error = explain_unknown_column(&ctx.state(), error).await;
        assert!(
            !error.to_string().contains("no column of the table"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn consolidated_metadata_that_lacks_an_array() {
    let all = with_unlikely_name("sim.vcz.zip");
    let mut files = consolidate(files("sim.vcz.zip"));
    files.extend(
        all.into_iter()
            .filter(|(key, _)| key.starts_with("call_XX/")),
    );
    let (ctx, _) = unlisted(in_memory(&files).await).await;
    run(&ctx, &table("t", "")).await;
    let error = ctx.sql(&format!("{ANSWER} t")).await.unwrap_err();
    let error = explain_unknown_column(&ctx.state(), error)
        .await
        .to_string();
    assert!(
        !error.contains("vcz.arrays"),
        "it was consolidated: {error}"
    );
    run(&ctx, &table("u", "OPTIONS ('vcz.arrays' 'call_XX')")).await;
    row(&ctx, &format!("{ANSWER} u")).await;
}

#[tokio::test]
async fn consolidated_metadata_is_written_and_read_in_one_round() {
    for name in ["sim.vcz.zip", "sim.v3.vcz.zip"] {
        let objects: Arc<dyn ObjectStore> = Arc::new(in_memory(&with_unlikely_name(name)).await);
        let path = Path::from("data/my.vcz");
        let open = || {
            Store::open(
                Arc::clone(&objects),
                path.clone(),
                "fake://x".to_string(),
                None,
            )
        };
        let before = open().await.unwrap();
        let written = before.consolidate().await.unwrap();
        assert_eq!(written.arrays, before.arrays().count());
        // Again, of what is consolidated already.
        assert_eq!(open().await.unwrap().consolidate().await.unwrap(), written);

        let files: Files = {
            use futures::TryStreamExt;
            use object_store::ObjectStoreExt;
            let listed: Vec<_> = objects.list(Some(&path)).try_collect().await.unwrap();
            let mut files = vec![];
            for object in listed {
                let data = objects
                    .get(&object.location)
                    .await
                    .unwrap()
                    .bytes()
                    .await
                    .unwrap();
                let key = object
                    .location
                    .as_ref()
                    .strip_prefix("data/my.vcz/")
                    .unwrap();
                files.push((key.to_string(), data.to_vec()));
            }
            files
        };
        let mut server = Server::in_rounds(in_memory(&files).await);
        server.denies_listing = true;
        let server = Arc::new(server);
        let opened = Store::open(Arc::clone(&server) as _, path, "fake://x".to_string(), None);
        let (opened, rounds) = server.rounds(opened).await;
        let opened = opened.unwrap();
        assert_eq!(rounds, 1, "{:?}", server.asked.lock());
        assert!(opened.array("call_XX").is_some() && opened.missing_arrays().is_none());
        assert_eq!(opened.arrays().count(), before.arrays().count());
        for (one, other) in opened.arrays().zip(before.arrays()) {
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
    }
}

#[tokio::test]
async fn what_cannot_be_consolidated_says_why() {
    let (_, server) = unlisted(in_memory(&files("sim.vcz.zip")).await).await;
    let path = Path::from("data/my.vcz");
    let store = Store::open(server as _, path, "fake://x".to_string(), None)
        .await
        .unwrap();
    let error = store.consolidate().await.unwrap_err().to_string();
    assert!(error.contains("cannot be listed"), "{error}");
    let zip = crate::common::fixtures().join("sim.vcz.zip");
    let local = Arc::new(InMemory::new());
    let store = Store::open(local, Path::from("x"), "sim.vcz.zip".to_string(), Some(zip))
        .await
        .unwrap();
    let error = store.consolidate().await.unwrap_err().to_string();
    assert!(
        error.contains("is a zip archive, which is not changed"),
        "{error}"
    );
}
