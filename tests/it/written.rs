//! Stores that COPY writes: read again they are what the query gave, they are the same bytes for any number of partitions, and a
//! statement that fails leaves nothing. What other programs make of them is shown in `tests/clients`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::common::{create, fails, fixtures, run, session, unpack, work_dir};

/// A folder of its own for a test.
fn folder(name: &str) -> PathBuf {
    let folder = work_dir().join(format!("written-{name}"));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The files below a folder and their contents.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let key = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(key, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The rows of a result as text, without the names of the columns.
async fn text(ctx: &SessionContext, sql: &str) -> String {
    let table = pretty_format_batches(&run(ctx, sql).await).unwrap();
    let lines: Vec<String> = table
        .to_string()
        .lines()
        .skip(3)
        .map(str::to_string)
        .collect();
    // Columns are as wide as their names.
    let cells = lines
        .iter()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    cells
        .filter(|line| !line.starts_with('+'))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A session that gives rows in the store's order.
fn reader() -> SessionContext {
    session(1, 8192)
}

const STORES: [&str; 9] = [
    "sim",
    "missing",
    "tetraploid",
    "haploid",
    "int16",
    "chunks7",
    "filters",
    "formats",
    "unsorted",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_the_store_again() {
    let out = folder("copies");
    for name in STORES {
        let (ctx, reader) = (session(3, 40), reader());
        for ctx in [&ctx, &reader] {
            create(ctx, "t", &fixtures().join(format!("{name}.vcz.zip")), None).await;
        }
        let all = text(&reader, "SELECT * FROM t").await;
        let arrays = "SELECT name, dims, shape FROM vcz_arrays('{}') WHERE name <> 'region_index' ORDER BY name";
        for (copy, options) in [
            (format!("{name}.vcz"), ""),
            (format!("{name}.3.vcz"), "OPTIONS ('vcz.format' '3')"),
            (
                format!("{name}.vcz.zip"),
                "OPTIONS ('vcz.variants_chunk_size' '7', 'vcz.samples_chunk_size' '3', 'vcz.codec' 'zstd')",
            ),
        ] {
            let path = out.join(copy);
            let sql = format!("COPY t TO '{}' STORED AS VCZ {options}", path.display());
            let rows = text(&reader, "SELECT count(*) FROM t").await;
            assert_eq!(text(&ctx, &sql).await, rows);
            create(&reader, "copy", &path, None).await;
            assert_eq!(
                text(&reader, "SELECT * FROM copy").await,
                all,
                "{}",
                path.display()
            );
            let shapes = |table| arrays.replace("{}", table);
            assert_eq!(
                text(&reader, &shapes("copy")).await,
                text(&reader, &shapes("t")).await,
                "{}",
                path.display()
            );
            run(&reader, "DROP TABLE copy").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_store() {
    let out = folder("parts");
    let ctx = session(3, 40);
    let populations = fixtures().join("missing.populations.tsv");
    create(
        &ctx,
        "t",
        &fixtures().join("missing.vcz.zip"),
        Some(&populations),
    )
    .await;
    let path = out.join("subset.vcz");
    let sql = format!(
        "COPY (SELECT variant_contig, variant_position, variant_allele, select_samples(call_genotype, 'first') AS call_genotype, \
         diversity_here AS pi FROM (SELECT *, site_diversity(allele_counts(call_genotype)) AS diversity_here FROM t) \
         WHERE variant_position % 3 = 0 LIMIT 40) TO '{}'",
        path.display()
    );
    run(&ctx, &sql).await;
    let reader = reader();
    create(&reader, "copy", &path, None).await;
    create(
        &reader,
        "t",
        &fixtures().join("missing.vcz.zip"),
        Some(&populations),
    )
    .await;
    let of_both = |sql: &str| {
        let first = sql.replace("G", "select_samples(call_genotype, 'first')");
        (
            first.replace(
                "FROM x",
                "FROM (SELECT * FROM t WHERE variant_position % 3 = 0 LIMIT 40)",
            ),
            sql.replace("G", "call_genotype")
                .replace("FROM x", "FROM copy"),
        )
    };
    for sql in [
        "SELECT count(*), sum(variant_position), sfs(allele_counts(G)), diversity(allele_counts(G)) FROM x",
        "SELECT variant_position, G AS g FROM x ORDER BY 1",
    ] {
        let (whole, part) = of_both(sql);
        assert_eq!(
            text(&reader, &part).await,
            text(&reader, &whole).await,
            "{sql}"
        );
    }
    assert_eq!(
        text(&reader, "SELECT count(*) AS n, sum(variant_pi) AS pi FROM copy").await,
        text(
            &reader,
            "SELECT count(*) AS n, sum(site_diversity(allele_counts(call_genotype))) AS pi FROM (SELECT * FROM t WHERE \
             variant_position % 3 = 0 LIMIT 40)"
        )
        .await
    );
    assert_eq!(
        text(&reader, "SELECT sample_id FROM vcz_samples('copy')").await,
        text(
            &reader,
            "SELECT sample_id FROM vcz_samples('t') WHERE array_has(populations, 'first')"
        )
        .await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_for_any_number_of_partitions() {
    let out = folder("partitions");
    let mut first = None;
    for (partitions, batch) in [(1, 8192), (2, 33), (16, 7)] {
        let ctx = session(partitions, batch);
        create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
        let path = out.join(format!("{partitions}.vcz"));
        let sql = format!(
            "COPY (SELECT * FROM t WHERE variant_position % 2 = 0) TO '{}' OPTIONS ('vcz.variants_chunk_size' '100')",
            path.display()
        );
        run(&ctx, &sql).await;
        let found = files(&path);
        assert!(found.len() > 20, "{:?}", found.keys());
        let first = first.get_or_insert_with(|| found.clone());
        assert!(*first == found, "{partitions} partitions");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_are_added() {
    let path = unpack(&fixtures().join("sim.vcz.zip"), &folder("add"));
    let ctx = session(3, 40);
    create(&ctx, "t", &path, None).await;
    let target = format!(
        "TO '{}' STORED AS VCZ OPTIONS ('vcz.mode' 'add')",
        path.display()
    );
    run(&ctx, &format!("COPY (SELECT is_segregating(allele_counts(call_genotype)) AS variant_mask_seg FROM t) {target}")).await;
    run(
        &ctx,
        &format!(
            "COPY (SELECT variant_contig, variant_position, variant_position * 1.5 AS x, allele_counts(call_genotype) AS counts FROM t) {target}"
        ),
    )
    .await;
    run(
        &ctx,
        &format!("COPY (SELECT sample_id, length(sample_id) AS n FROM vcz_samples('t') ORDER BY sample_id DESC) {target}"),
    )
    .await;
    create(&ctx, "u", &path, None).await;
    let sql = "SELECT count(*) FROM x WHERE variant_mask_seg AND variant_x > 0";
    let expected = "SELECT count(*) FROM t WHERE is_segregating(allele_counts(call_genotype))";
    assert_eq!(
        text(&ctx, &sql.replace("FROM x", "FROM u")).await,
        text(&ctx, expected).await
    );
    assert_eq!(
        text(
            &ctx,
            "SELECT count(*) AS n FROM u WHERE variant_counts = allele_counts(call_genotype)"
        )
        .await,
        text(&ctx, "SELECT count(*) AS n FROM t").await
    );
    let arrays = text(
        &ctx,
        "SELECT name, shape FROM vcz_arrays('u') WHERE name = 'sample_n'",
    )
    .await;
    assert!(arrays.contains("sample_n"), "{arrays}");

    let before = files(&path);
    for (sql, parts) in [
        (
            "SELECT variant_position > 5 AS variant_mask_seg FROM t",
            &["'variant_mask_seg'", "vcz.overwrite"][..],
        ),
        (
            "SELECT variant_position > 5 AS m FROM t WHERE variant_position > 5",
            &["variant_contig"],
        ),
        (
            "SELECT variant_position > 5 AS m FROM t LIMIT 3",
            &["variant_contig"],
        ),
        (
            "SELECT variant_contig, variant_position, true AS m FROM t WHERE variant_position > 50",
            &["rows", "variants"],
        ),
        (
            "SELECT variant_contig, variant_position + 1 AS variant_position, true AS m FROM t",
            &["rows 0 to"],
        ),
        (
            "SELECT variant_contig, 7 AS m FROM t",
            &["both variant_contig and variant_position"],
        ),
        (
            "SELECT sample_id, 'x' AS id FROM vcz_samples('t')",
            &["'sample_id'"],
        ),
        (
            "SELECT sample_id, 1 AS m FROM vcz_samples('t') LIMIT 2",
            &["no row of sample"],
        ),
        (
            "SELECT 'nobody' AS sample_id, 1 AS m",
            &["no row of sample"],
        ),
        (
            "SELECT nullif(variant_position > 5, true) AS m FROM t",
            &["NULL", "coalesce"],
        ),
    ] {
        let error = fails(&ctx, &format!("COPY ({sql}) {target}")).await;
        for part in parts {
            assert!(error.contains(part), "{sql}: no {part}: {error}");
        }
        assert!(files(&path) == before, "{sql}");
    }
    let error = fails(
        &ctx,
        &format!(
            "COPY (SELECT true AS m FROM t) TO '{}' STORED AS VCZ OPTIONS ('vcz.mode' 'add')",
            fixtures().join("sim.vcz.zip").display()
        ),
    )
    .await;
    assert!(
        error.contains("variant_contig") || error.contains("zip"),
        "{error}"
    );
    run(
        &ctx,
        &format!(
            "COPY (SELECT variant_contig, variant_position, 7 AS variant_x FROM t) TO '{}' STORED AS VCZ OPTIONS ('vcz.mode' 'add', \
             'vcz.overwrite' 'true')",
            path.display()
        ),
    )
    .await;
    create(&ctx, "v", &path, None).await;
    let sevens = text(&ctx, "SELECT count(*) AS n FROM v WHERE variant_x = 7").await;
    assert_eq!(sevens, text(&ctx, "SELECT count(*) AS n FROM t").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_cannot_be_written() {
    let out = folder("errors");
    let ctx = session(3, 40);
    create(&ctx, "t", &fixtures().join("missing.vcz.zip"), None).await;
    create(&ctx, "u", &fixtures().join("sim.vcz.zip"), None).await;
    fs::create_dir_all(out.join("there.vcz")).unwrap();
    fs::write(out.join("there.vcz/file"), "x").unwrap();
    fs::create_dir_all(out.join("empty.vcz")).unwrap();
    let before = files(&out);
    for (query, options, parts) in [
        (
            "SELECT variant_position FROM t",
            "",
            &["'variant_contig'"][..],
        ),
        ("SELECT *, -1 AS x FROM t", "", &["'variant_x'", "missing"]),
        (
            "SELECT *, nullif(true, variant_position > 0) AS x FROM t",
            "",
            &["'variant_x'", "coalesce"],
        ),
        (
            "SELECT *, genotype_counts(call_genotype) AS x FROM t",
            "",
            &["'x'", "struct"],
        ),
        (
            "SELECT *, arrow_cast(1, 'Decimal128(5, 2)') AS x FROM t",
            "",
            &["'x'", "DOUBLE"],
        ),
        (
            "SELECT variant_contig, variant_position, select_samples(call_genotype, ['s03']) FROM t",
            "",
            &["AS"],
        ),
        (
            "SELECT 'chrX' AS variant_contig, variant_position FROM t",
            "",
            &["'chrX'"],
        ),
        (
            "SELECT column1 AS variant_contig, column2 AS variant_position FROM (VALUES ('1', 5), ('1', 4))",
            "'vcz.contigs' '1'",
            &["out of order", "ORDER BY"],
        ),
        (
            "SELECT 'c' AS variant_contig, 1 AS variant_position",
            "",
            &["'vcz.contigs'"],
        ),
        ("SELECT * FROM t", "'vcz.format' '4'", &["2 or 3"]),
        (
            "SELECT * FROM t",
            "'vcz.compresion' 'zstd'",
            &["'vcz.codec'"],
        ),
        (
            "SELECT * FROM t",
            "'vcz.samples' 'a,b'",
            &["names 2 samples"],
        ),
        (
            "SELECT t.* FROM t, u WHERE t.variant_position = u.variant_position",
            "",
            &["different contigs"],
        ),
    ] {
        let sql = format!(
            "COPY ({query}) TO '{}' STORED AS VCZ OPTIONS ({options})",
            out.join("x.vcz").display()
        );
        let sql = sql.replace(" OPTIONS ()", "");
        let error = fails(&ctx, &sql).await;
        for part in parts {
            assert!(error.contains(part), "{query}: no {part}: {error}");
        }
        assert!(files(&out) == before, "{query}");
    }
    let there = format!(
        "COPY t TO '{}' STORED AS VCZ",
        out.join("there.vcz").display()
    );
    let error = fails(&ctx, &there).await;
    assert!(
        error.contains("exists") && error.contains("'vcz.overwrite'"),
        "{error}"
    );
    let overwrite = |sql: &str| format!("{sql} OPTIONS ('vcz.overwrite' 'true')");
    let error = fails(&ctx, &overwrite(&there)).await;
    assert!(error.contains("is not a VCZ store"), "{error}");
    assert!(files(&out) == before);
    let empty = there.replace("there.vcz", "empty.vcz");
    run(&ctx, &overwrite(&empty)).await;
    run(&ctx, &overwrite(&empty)).await;
    create(&ctx, "v", &out.join("empty.vcz"), None).await;
    assert_eq!(
        text(&ctx, "SELECT count(*) AS n FROM v").await,
        text(&ctx, "SELECT count(*) AS n FROM t").await
    );
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_in_object_stores() {
    let ctx = session(3, 40);
    let objects = Arc::new(InMemory::new());
    let url = Url::parse("fake://bucket").unwrap();
    ctx.register_object_store(&url, Arc::clone(&objects) as _);
    create(&ctx, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let reader = reader();
    reader.register_object_store(&url, Arc::clone(&objects) as _);
    create(&reader, "t", &fixtures().join("sim.vcz.zip"), None).await;
    let all = text(&reader, "SELECT * FROM t").await;
    let listed = async || {
        let mut keys = vec![];
        let mut listed = objects.list(None);
        while let Some(object) = listed.next().await {
            keys.push(object.unwrap().location.to_string());
        }
        keys.sort();
        keys
    };
    for target in ["fake://bucket/a/x.vcz", "fake://bucket/a/y.vcz.zip"] {
        run(&ctx, &format!("COPY t TO '{target}' STORED AS VCZ")).await;
        let open = format!("CREATE OR REPLACE EXTERNAL TABLE c STORED AS VCZ LOCATION '{target}'");
        run(&reader, &open).await;
        assert_eq!(text(&reader, "SELECT * FROM c").await, all, "{target}");
        let before = listed().await;
        assert!(!before.iter().any(|key| key.ends_with(".vcz-writing")));
        let error = fails(&ctx, &format!("COPY t TO '{target}' STORED AS VCZ")).await;
        assert!(error.contains("exists"), "{error}");
        run(&ctx, &format!("COPY (SELECT * FROM t LIMIT 5) TO '{target}' STORED AS VCZ OPTIONS ('vcz.overwrite' 'true')")).await;
        run(&ctx, &open).await;
        assert_eq!(
            text(&ctx, "SELECT * FROM c").await,
            text(&ctx, "SELECT * FROM t LIMIT 5").await
        );
    }
    let add = "COPY (SELECT variant_contig, variant_position, true AS m FROM c) TO 'fake://bucket/a/x.vcz' STORED AS VCZ OPTIONS ('vcz.mode' 'add')";
    run(
        &ctx,
        "CREATE OR REPLACE EXTERNAL TABLE c STORED AS VCZ LOCATION 'fake://bucket/a/x.vcz'",
    )
    .await;
    run(&ctx, add).await;
    run(
        &ctx,
        "CREATE OR REPLACE EXTERNAL TABLE c STORED AS VCZ LOCATION 'fake://bucket/a/x.vcz'",
    )
    .await;
    let masked = text(&ctx, "SELECT count(*) AS n FROM c WHERE variant_m").await;
    assert_eq!(masked, "| 5 |");

    // A statement that fails leaves nothing.
    let before = listed().await;
    let sql = "COPY (SELECT *, -1 AS x FROM t) TO 'fake://bucket/b/z.vcz' STORED AS VCZ OPTIONS ('vcz.variants_chunk_size' '10')";
    fails(&ctx, sql).await;
    assert_eq!(listed().await, before);
    // Another statement writes there, or was killed.
    let mark = object_store::path::Path::from("b/z.vcz/.vcz-writing");
    objects.put(&mark, "other".into()).await.unwrap();
    let error = fails(&ctx, "COPY t TO 'fake://bucket/b/z.vcz' STORED AS VCZ").await;
    assert!(error.contains("another statement"), "{error}");
    let sql = "COPY t TO 'fake://bucket/b/z.vcz' STORED AS VCZ OPTIONS ('vcz.overwrite' 'true')";
    let error = fails(&ctx, sql).await;
    assert!(error.contains(".vcz-writing"), "{error}");
    objects.delete(&mark).await.unwrap();
    run(&ctx, sql).await;
    assert!(!listed().await.contains(&mark.to_string()));
    // What the query reads is there until all of it is read.
    run(
        &ctx,
        "CREATE EXTERNAL TABLE z STORED AS VCZ LOCATION 'fake://bucket/b/z.vcz'",
    )
    .await;
    run(&ctx, &sql.replace("COPY t", "COPY z")).await;
    run(
        &reader,
        "CREATE EXTERNAL TABLE z STORED AS VCZ LOCATION 'fake://bucket/b/z.vcz'",
    )
    .await;
    assert_eq!(text(&reader, "SELECT * FROM z").await, all);
    // A statement that fails keeps what was to be replaced.
    let before = listed().await;
    assert!(
        !before.iter().any(|key| key.contains(".vcz-")),
        "{before:?}"
    );
    let failing = sql.replace(
        "COPY t",
        "COPY (SELECT *, CASE WHEN variant_position > 9000 THEN -1 END AS x FROM t)",
    );
    fails(&ctx, &failing).await;
    assert_eq!(listed().await, before);
    assert_eq!(text(&reader, "SELECT * FROM z").await, all);
    // So does one that replaces an array.
    run(&ctx, "DROP TABLE z").await;
    run(
        &ctx,
        "CREATE EXTERNAL TABLE z STORED AS VCZ LOCATION 'fake://bucket/b/z.vcz'",
    )
    .await;
    let quality = "COPY (SELECT QUALITY AS variant_quality FROM z) TO 'fake://bucket/b/z.vcz' STORED AS VCZ OPTIONS ('vcz.mode' 'add', \
                   'vcz.overwrite' 'true')";
    let negative = "CASE WHEN variant_position > 9000 THEN -1 END";
    fails(&ctx, &quality.replace("QUALITY", negative)).await;
    assert_eq!(listed().await, before);
    assert_eq!(text(&reader, "SELECT * FROM z").await, all);
    run(&ctx, &quality.replace("QUALITY", "variant_quality * 2")).await;
    assert_eq!(listed().await, before);
    run(
        &ctx,
        "CREATE OR REPLACE EXTERNAL TABLE z STORED AS VCZ LOCATION 'fake://bucket/b/z.vcz'",
    )
    .await;
    let doubled = "SELECT sum(variant_quality) / 2 AS q, sfs(call_genotype) AS s FROM z";
    let single = "SELECT sum(variant_quality) AS q, sfs(call_genotype) AS s FROM t";
    assert_eq!(text(&ctx, doubled).await, text(&ctx, single).await);
    // Neither are other objects.
    let other = object_store::path::Path::from("c/notes.vcz/text");
    objects.put(&other, "text".into()).await.unwrap();
    let error = fails(&ctx, &sql.replace("b/z.vcz", "c/notes.vcz")).await;
    assert!(error.contains("is not a VCZ store"), "{error}");
    let keys = listed().await;
    let left = keys.iter().filter(|key| key.starts_with("c/"));
    assert_eq!(left.collect::<Vec<_>>(), ["c/notes.vcz/text"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_that_are_added_at_once() {
    let ctx = session(2, 100);
    let objects: Arc<InMemory> = Arc::default();
    let url = Url::parse("fake://adds").unwrap();
    ctx.register_object_store(&url, Arc::clone(&objects) as _);
    create(&ctx, "s", &fixtures().join("sim.vcz.zip"), None).await;
    run(&ctx, "COPY s TO 'fake://adds/x.vcz' STORED AS VCZ").await;
    run(
        &ctx,
        "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION 'fake://adds/x.vcz'",
    )
    .await;
    let open = async || {
        let path = object_store::path::Path::from("x.vcz");
        let location = "fake://adds/x.vcz".to_string();
        let objects = Arc::clone(&objects) as _;
        datafusion_vcz::store::Store::open(objects, path, location, None)
            .await
            .unwrap()
    };
    // One statement at a time writes arrays; the others say so, and are run again.
    let adds = (0..6).map(|n| {
        let (ctx, sql) = (
            ctx.clone(),
            format!(
                "COPY (SELECT variant_position > {n} AS variant_mask_{n} FROM t) TO 'fake://adds/x.vcz' STORED AS VCZ OPTIONS ('vcz.mode' \
                 'add')"
            ),
        );
        tokio::spawn(async move {
            loop {
                let done = match ctx.sql(&sql).await {
                    Ok(frame) => frame.collect().await.map(drop),
                    Err(error) => Err(error),
                };
                match done {
                    Ok(()) => return,
                    Err(error) => {
                        assert!(error.to_string().contains("another statement"), "{error}");
                        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                    }
                }
            }
        })
    });
    futures::future::try_join_all(adds.collect::<Vec<_>>())
        .await
        .unwrap();
    let names: Vec<String> = open()
        .await
        .arrays()
        .map(|array| array.name.clone())
        .collect();
    for n in 0..6 {
        assert!(names.contains(&format!("variant_mask_{n}")), "{names:?}");
    }
    // Of those that consolidate at once each sees what it did not write itself.
    let stores = [open().await, open().await, open().await, open().await];
    let all = stores.iter().map(|store| store.consolidate());
    futures::future::try_join_all(all).await.unwrap();
    assert_eq!(open().await.arrays().count(), names.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_statements_write_one_archive() {
    let ctx = session(2, 100);
    let objects: Arc<InMemory> = Arc::default();
    let url = Url::parse("fake://archives").unwrap();
    ctx.register_object_store(&url, Arc::clone(&objects) as _);
    create(&ctx, "s", &fixtures().join("sim.vcz.zip"), None).await;
    let copy = |n: usize| {
        let ctx = ctx.clone();
        tokio::spawn(async move {
            let sql = format!(
                "COPY (SELECT * FROM s LIMIT {n}) TO 'fake://archives/x.vcz.zip' STORED AS VCZ"
            );
            let frame = ctx.sql(&sql).await?;
            frame.collect().await
        })
    };
    let done = futures::future::join_all([copy(7), copy(8), copy(9)]).await;
    let done: Vec<_> = done.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        done.iter().filter(|done| done.is_ok()).count(),
        1,
        "{done:?}"
    );
    for error in done.into_iter().filter_map(Result::err) {
        let error = error.to_string();
        assert!(
            error.contains("another statement") || error.contains("exists"),
            "{error}"
        );
    }
    let keys: Vec<_> = objects.list(None).collect().await;
    assert_eq!(keys.len(), 1, "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_stores_become_one() {
    let out = folder("several");
    let (ctx, reader) = (session(3, 40), reader());
    for ctx in [&ctx, &reader] {
        create(ctx, "t", &fixtures().join("c*r.vcz.zip"), None).await;
    }
    let path = out.join("one.vcz");
    let sql = format!("COPY t TO '{}' STORED AS VCZ", path.display());
    run(&ctx, &sql).await;
    create(&reader, "one", &path, None).await;
    for sql in [
        "SELECT * FROM t",
        "SELECT * FROM vcz_contigs('t')",
        "SELECT * FROM vcz_samples('t')",
    ] {
        let copy = sql.replace("FROM t", "FROM one").replace("'t'", "'one'");
        assert_eq!(
            text(&reader, &copy).await,
            text(&reader, sql).await,
            "{sql}"
        );
    }
}
