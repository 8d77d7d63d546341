//! Codecs that the host alone decodes, which zarr-python wrote: `tests/fixtures/host_codecs.py`.

use std::path::PathBuf;

use crate::common::{create, fixtures, plain_session, row, run};
use crate::golden::objects;

fn store(name: &str) -> PathBuf {
    fixtures().join(format!("codecs/{name}.vcz.zip"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_codec() {
    let ctx = plain_session();
    for (name, cases) in [("v2", 39), ("v3", 30)] {
        create(&ctx, name, &store(name), None).await;
        let arrays = run(
            &ctx,
            &format!("SELECT name, backend FROM vcz_arrays('{name}')"),
        )
        .await;
        let mut found = 0;
        for array in objects(&arrays) {
            let array = (array["name"].as_str().unwrap(), &array["backend"]);
            let Some((_, of)) = array.0.split_once("_of_") else {
                continue;
            };
            assert_eq!(array.1, "host", "{}", array.0);
            let column = array.0;
            // NULL where the value is the code of a missing one, in both.
            let sql = format!(
                "SELECT count(*) FILTER (WHERE {column} IS NOT DISTINCT FROM variant_{of}), count({column}) > 30, count(*) FROM {name}"
            );
            let row = row(&ctx, &sql).await;
            assert_eq!(row[0].to_string(), "43", "{name}: {column}");
            assert_eq!(row[1].to_string(), "true", "{name}: {column}");
            found += 1;
        }
        assert_eq!(found, cases, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn genotypes() {
    let ctx = plain_session();
    let sql = |table: &str| {
        format!(
            "SELECT sfs(allele_counts(call_genotype)) AS sfs, diversity(allele_counts(call_genotype)) AS diversity, \
             sum(variant_position) AS sum FROM {table}"
        )
    };
    let layout = fixtures().join("layouts/v2-big-endian.vcz.zip");
    create(&ctx, "layout", &layout, None).await;
    let expected = objects(&run(&ctx, &sql("layout")).await);
    for name in ["lzma_v2", "delta_v2", "delta_v3"] {
        create(&ctx, name, &store(name), None).await;
        assert_eq!(objects(&run(&ctx, &sql(name)).await), expected, "{name}");
        let reason = format!(
            "SELECT backend || ': ' || reason FROM vcz_arrays('{name}') WHERE name = 'call_genotype'"
        );
        let reason = row(&ctx, &reason).await[0].to_string();
        assert!(reason.starts_with("host: "), "{reason}");
    }
}
