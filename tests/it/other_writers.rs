//! Stores of sgkit, scikit-allel and pg_gpu, which do not say that they are VCF Zarr: `tests/fixtures/other_writers.py` writes them by these
//! packages and computes what they hold with numpy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_vcz::scan::VczSettings;
use datafusion_vcz::scan::notices::{NoticeSink, Notices};
use serde_json::Value;

use crate::common::{fails, fixtures, plain_session, row, run, session, unpack};
use crate::golden::{objects, read_json};

fn zip(name: &str) -> PathBuf {
    fixtures().join(format!("other_writers/{name}.zarr.zip"))
}

fn sql(table: &str, path: &Path, options: &str) -> String {
    let path = path.display();
    format!("CREATE EXTERNAL TABLE {table} STORED AS VCZ LOCATION '{path}' {options}")
}

/// The rows of `t`, which must be those of the expected contigs: contigs, positions, counts, and alleles where the store has them.
async fn check(ctx: &SessionContext, contigs: &[&str], has_alleles: bool) {
    let all = read_json(&fixtures().join("other_writers/expected.json"));
    let of = |key: &str, at: usize| all[key][at].clone();
    let mut rows: Vec<usize> = (0..all["contig"].as_array().unwrap().len())
        .filter(|&at| contigs.contains(&of("contig", at).as_str().unwrap()))
        .collect();
    rows.sort_by_key(|&at| {
        (
            of("contig", at).as_str().unwrap().to_string(),
            of("position", at).as_i64(),
        )
    });
    let alleles = match has_alleles {
        true => "array_to_string(variant_allele, '/')",
        false => "NULL",
    };
    let query = format!(
        "SELECT variant_contig AS contig, variant_position AS position, allele_counts(call_genotype) AS counts, \
         {alleles} AS alleles FROM t ORDER BY 1, 2"
    );
    let found = objects(&run(ctx, &query).await);
    assert_eq!(found.len(), rows.len());
    for (found, at) in found.iter().zip(rows) {
        assert_eq!(found["contig"], of("contig", at));
        assert_eq!(found["position"], of("position", at));
        let counts = found["counts"].as_array().unwrap();
        let wanted = of("counts", at);
        let wanted = wanted.as_array().unwrap();
        assert!(counts.starts_with(wanted), "{counts:?} {wanted:?}");
        assert!(counts[wanted.len()..].iter().all(|count| *count == 0));
        if has_alleles {
            assert_eq!(found["alleles"], of("alleles", at));
        }
    }
    let samples = objects(&run(ctx, "SELECT sample_id AS id FROM vcz_samples('t')").await);
    let samples: Vec<&Value> = samples.iter().map(|row| &row["id"]).collect();
    let wanted: Vec<&Value> = all["samples"].as_array().unwrap().iter().collect();
    assert_eq!(samples, wanted);
}

/// Depths, qualities and the spectrum, where the store has them of all variants.
async fn check_fields(ctx: &SessionContext) {
    let all = read_json(&fixtures().join("other_writers/expected.json"));
    let numbers = |key: &str| -> Vec<f64> {
        let values = all[key].as_array().unwrap().iter();
        values.filter_map(Value::as_f64).collect()
    };
    let query = "SELECT (SELECT sum(d) FROM (SELECT unnest(\"call_DP\") AS d FROM t)) AS depth, count(variant_quality) AS n, \
                 exact_sum(variant_quality) AS quality, sfs(call_genotype) AS sfs, \
                 count(*) FILTER (WHERE variant_quality > 0) AS above FROM t";
    let found = objects(&run(ctx, query).await).remove(0);
    assert_eq!(
        found["depth"].as_f64().unwrap(),
        numbers("depth").iter().sum::<f64>()
    );
    let quality = numbers("quality");
    // NaN is NULL, and so is above nothing.
    assert_eq!(found["n"], quality.len());
    assert_eq!(found["above"], quality.len());
    assert_eq!(
        found["quality"].as_f64().unwrap(),
        quality.iter().sum::<f64>()
    );
    assert_eq!(found["sfs"], all["sfs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sgkit_and_scikit_allel() {
    let unpacked = tempfile::tempdir().unwrap();
    for name in ["sgkit", "scikit_allel"] {
        let zip = zip(name);
        let folder = unpack(&zip, unpacked.path());
        for path in [zip, folder] {
            for ctx in [plain_session(), session(3, 7)] {
                run(&ctx, &sql("t", &path, "")).await;
                check(&ctx, &["2L", "3R"], true).await;
                check_fields(&ctx).await;
                let on_3r = row(&ctx, "SELECT count(*) FROM t WHERE variant_contig = '3R' AND variant_position < 4500").await;
                let all = row(
                    &ctx,
                    "SELECT count(*) FROM (SELECT variant_contig || '' AS c, variant_position + 0 AS p FROM t) WHERE c = '3R' AND p < 4500",
                )
                .await;
                assert_eq!(on_3r, all);
            }
        }
    }
    let ctx = plain_session();
    run(&ctx, &sql("t", &zip("scikit_allel"), "")).await;
    let fields = "SELECT count(\"variant_FILTER_PASS\") AS n, count(*) FILTER (WHERE NOT \"variant_FILTER_PASS\") AS low, \
                  count(variant_id) AS ids FROM t";
    let found = objects(&run(&ctx, fields).await).remove(0);
    assert_eq!(
        (&found["n"], &found["low"], &found["ids"]),
        (&90.into(), &23.into(), &60.into())
    );
    run(&ctx, &sql("s", &zip("sgkit"), "")).await;
    let half = "SELECT count(variant_half) = count(variant_quality) AS same FROM s";
    assert_eq!(objects(&run(&ctx, half).await)[0]["same"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_for_each_chromosome() {
    let unpacked = tempfile::tempdir().unwrap();
    let folder = unpack(&zip("scikit_allel_groups"), unpacked.path());
    let ctx = plain_session();
    run(&ctx, &sql("t", &folder, "")).await;
    check(&ctx, &["2L", "3R"], true).await;
    check_fields(&ctx).await;
    run(&ctx, "DROP TABLE t").await;
    run(&ctx, &sql("t", &folder.join("2L"), "")).await;
    check(&ctx, &["2L"], true).await;
    // Without names of contigs the groups' names are.
    for group in ["2L", "3R"] {
        std::fs::remove_dir_all(folder.join(group).join("variants/CHROM")).unwrap();
    }
    run(&ctx, "DROP TABLE t").await;
    run(&ctx, &sql("t", &folder, "")).await;
    check(&ctx, &["2L", "3R"], true).await;
    let message = fails(&ctx, &sql("u", &zip("scikit_allel_groups"), "")).await;
    for part in [
        "'vcf_zarr_version'",
        "'variant_position'",
        "'variants/POS'",
        "unpack the archive",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pg_gpu() {
    let ctx = plain_session();
    run(
        &ctx,
        &sql("t", &zip("pg_gpu"), "OPTIONS ('vcz.alleles' '3')"),
    )
    .await;
    check(&ctx, &["2L"], false).await;
    run(&ctx, &sql("two", &zip("pg_gpu"), "")).await;
    let message = fails(
        &ctx,
        "SELECT sum(allele_number(allele_counts(call_genotype))) FROM two",
    )
    .await;
    assert!(message.contains("'vcz.alleles'"), "{message}");
    let message = fails(&ctx, &sql("none", &zip("pg_gpu_allel"), "")).await;
    for part in ["'variant_contig'", "'variants/CHROM'", "'vcz.contig'"] {
        assert!(message.contains(part), "{message}");
    }
    run(&ctx, "DROP TABLE t").await;
    let options = "OPTIONS ('vcz.contig' '2L', 'vcz.alleles' '3')";
    run(&ctx, &sql("t", &zip("pg_gpu_allel"), options)).await;
    check(&ctx, &["2L"], false).await;
    let message = fails(
        &ctx,
        &sql("none", &zip("pg_gpu"), "OPTIONS ('vcz.alleles' '0')"),
    )
    .await;
    assert!(message.contains("from 1 to 65536"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_opens_them_is_told() {
    let ctx = plain_session();
    let notices = Arc::new(Notices::default());
    {
        let state = ctx.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        let settings = options.extensions.get_mut::<VczSettings>().unwrap();
        settings.notices = NoticeSink(Some(Arc::clone(&notices)));
    }
    for (name, part) in [
        ("sgkit", "sgkit"),
        ("scikit_allel", "variants/POS is variant_position"),
    ] {
        run(
            &ctx,
            &format!("SELECT count(*) FROM '{}'", zip(name).display()),
        )
        .await;
        let said = notices.take().join("\n");
        for part in ["'vcf_zarr_version'", "NaN", part] {
            assert!(said.contains(part), "{said}");
        }
    }
    run(
        &ctx,
        &format!(
            "SELECT count(*) FROM '{}'",
            fixtures().join("sim.vcz.zip").display()
        ),
    )
    .await;
    assert!(notices.take().is_empty());
}

/// What is damaged in such a store is an error that names the array.
#[tokio::test(flavor = "multi_thread")]
async fn damaged() {
    let query = "SELECT count(*), max(variant_contig), max(variant_allele[1]), sum(allele_number(allele_counts(call_genotype))) FROM t";
    let edit = |file: &str, from: &str, to: &str| {
        let (file, from, to) = (file.to_string(), from.to_string(), to.to_string());
        move |store: &Path| {
            let path = store.join(&file);
            let text = std::fs::read_to_string(&path)
                .unwrap()
                .replace(['\n', ' '], "");
            assert!(text.contains(&from), "{text}");
            std::fs::write(path, text.replace(&from, &to)).unwrap();
        }
    };
    type Damage = Box<dyn Fn(&Path)>;
    let cut = |file: &str| -> Damage {
        let file = file.to_string();
        Box::new(move |store| {
            let bytes = std::fs::read(store.join(&file)).unwrap();
            std::fs::write(store.join(&file), &bytes[..bytes.len() - 3]).unwrap();
        })
    };
    let gone = |file: &str| -> Damage {
        let file = file.to_string();
        Box::new(move |store| std::fs::remove_file(store.join(&file)).unwrap())
    };
    let cases: [(Damage, &str); 11] = [
        (cut("variants/CHROM/1"), "variants/CHROM"),
        (cut("variants/REF/0"), "variants/REF"),
        (cut("variants/ALT/2.0"), "variants/ALT"),
        (gone("variants/CHROM/0"), "variants/CHROM"),
        (
            Box::new(edit("variants/CHROM/.zarray", "[90]", "[80]")),
            "variant_contig",
        ),
        (
            Box::new(edit(
                "variants/CHROM/.zarray",
                "[90]",
                "[4611686018427387904]",
            )),
            "variants/CHROM",
        ),
        (
            Box::new(edit("variants/CHROM/.zarray", "[90]", "[90,1]")),
            "variants/CHROM",
        ),
        (
            Box::new(edit("variants/REF/.zarray", "[90]", "[91]")),
            "variants/ALT",
        ),
        (
            Box::new(edit("variants/ALT/.zarray", "[32,3]", "[16,3]")),
            "variants/ALT",
        ),
        (
            Box::new(edit("variants/POS/.zarray", "<i4", "<q4")),
            "variant_position",
        ),
        (
            Box::new(edit("calldata/GT/.zarray", "[90,", "[89,")),
            "call_genotype",
        ),
    ];
    for (at, (damage, array)) in cases.into_iter().enumerate() {
        let unpacked = tempfile::tempdir().unwrap();
        let store = unpack(&zip("scikit_allel"), unpacked.path());
        damage(&store);
        let ctx = plain_session();
        let message = match ctx.sql(&sql("t", &store, "")).await {
            Err(error) => error.to_string(),
            Ok(_) => fails(&ctx, query).await,
        };
        assert!(message.contains(array), "{at}: {message}");
    }
}
