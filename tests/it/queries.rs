//! Every query in `sql/` runs as it is, from the top of the repository, and gives rows; what the README shows is checked.

use datafusion::common::ScalarValue;

use crate::common::{create, fails, fixtures, plain_session, row, run, shared_data, work_dir};

/// The statements of a file: comments cut, split at semicolons.
fn statements(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .map(|line| line.split("--").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n");
    code.split(';')
        .map(|statement| statement.trim().to_string())
        .filter(|statement| !statement.is_empty())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_runs() {
    let top = crate::common::top();
    std::env::set_current_dir(&top).unwrap();
    let mut files = 0;
    for entry in std::fs::read_dir(top.join("sql")).unwrap() {
        let path = entry.unwrap().path();
        files += 1;
        let ctx = plain_session();
        let statements = statements(&std::fs::read_to_string(&path).unwrap());
        assert!(statements.len() > 1, "{} has no queries", path.display());
        for statement in statements {
            let batches = run(&ctx, &statement).await;
            let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            assert!(
                rows > 0 || statement.starts_with("CREATE"),
                "{}: no rows from {statement}",
                path.display()
            );
        }
    }
    assert!(
        files >= 4,
        "expected the queries of sql/, found {files} files"
    );
}

/// The table of settings in the guide has all of them, with the defaults that `SHOW ALL` shows.
#[tokio::test(flavor = "multi_thread")]
async fn the_guide_names_all_settings_and_their_defaults() {
    let page = crate::common::top().join("src/docs/pages/guide/settings.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `vcz."));
    let mut named: Vec<String> = rows
        .map(|row| {
            let mut quoted = row.split('`');
            let (name, default) = (quoted.next().unwrap(), quoted.nth(1).unwrap());
            format!("vcz.{name} = {default}")
        })
        .collect();
    named.sort();
    let ctx = plain_session();
    run(&ctx, "SET datafusion.catalog.information_schema = true").await;
    let shown = run(&ctx, "SHOW ALL").await;
    let mut settings = vec![];
    for batch in &shown {
        for at in 0..batch.num_rows() {
            let value =
                |column: usize| ScalarValue::try_from_array(batch.column(column), at).unwrap();
            if value(0).to_string().starts_with("vcz.") {
                settings.push(format!("{} = {}", value(0), value(1)));
            }
        }
    }
    settings.sort();
    assert!(settings.contains(&"vcz.gpu_memory_limit = 0".to_string()));
    assert_eq!(named, settings);
}

/// The quickstart's spectrum is the one that tests/fixtures/expected.json has, so the README can show it.
#[tokio::test(flavor = "multi_thread")]
async fn the_readme_shows_what_the_quickstart_gives() {
    let top = crate::common::top();
    std::env::set_current_dir(&top).unwrap();
    let ctx = plain_session();
    let quickstart = std::fs::read_to_string(top.join("sql/quickstart.sql")).unwrap();
    run(&ctx, &statements(&quickstart)[0]).await;
    let spectrum = row(&ctx, "SELECT sfs(call_genotype, 'first') FROM sim").await;
    let ScalarValue::List(list) = &spectrum[0] else {
        panic!("not a list")
    };
    let values = arrow::compute::cast(&list.value(0), &arrow::datatypes::DataType::Utf8).unwrap();
    let values: Vec<&str> = arrow::array::AsArray::as_string::<i32>(&values)
        .iter()
        .flatten()
        .collect();
    let readme = std::fs::read_to_string(top.join("README.md")).unwrap();
    assert!(
        readme.contains(&format!("[{}", values[..8].join(", "))),
        "the README shows another spectrum"
    );
}

/// A region of 10 kb of a real store keeps exactly the three chunks that intersect it.
#[tokio::test(flavor = "multi_thread")]
async fn a_region_keeps_the_chunks_that_intersect_it() {
    let Some(data) = shared_data() else { return };
    let ctx = plain_session();
    create(&ctx, "gambX", &data.join("gambX.vcz.zip"), None).await;
    let plan = run(
        &ctx,
        "EXPLAIN FORMAT INDENT SELECT sfs(call_genotype) FROM \"gambX\" WHERE variant_position BETWEEN 9000001 AND 9010000",
    )
    .await;
    let plan = arrow::util::pretty::pretty_format_batches(&plan)
        .unwrap()
        .to_string();
    assert!(plan.contains("chunks=3 of 1020"), "{plan}");
    assert!(plan.contains("variants=3000 of 1019012"), "{plan}");
}

/// Two stores of one shape with different populations: counting in each branch is right, counting above the UNION is refused.
#[tokio::test(flavor = "multi_thread")]
async fn unions_of_tables_with_different_samples() {
    let ctx = plain_session();
    let populations = work_dir().join("swapped.tsv");
    let swapped = std::fs::read_to_string(fixtures().join("sim.populations.tsv")).unwrap();
    let swapped = swapped
        .replace("first", "other")
        .replace("second", "first")
        .replace("other", "second");
    std::fs::write(&populations, swapped).unwrap();
    create(
        &ctx,
        "a",
        &fixtures().join("sim.vcz.zip"),
        Some(&fixtures().join("sim.populations.tsv")),
    )
    .await;
    create(
        &ctx,
        "b",
        &fixtures().join("sim.vcz.zip"),
        Some(&populations),
    )
    .await;
    let separately = row(
        &ctx,
        "SELECT (SELECT diversity(call_genotype, 'first') FROM a), (SELECT diversity(call_genotype, 'first') FROM b)",
    )
    .await;
    assert_ne!(separately[0], separately[1]);
    let above = "SELECT t, diversity(call_genotype, 'first') FROM (SELECT DISTINCT * FROM (\
                 SELECT 'a' AS t, variant_position, call_genotype FROM a UNION ALL \
                 SELECT 'b', variant_position, call_genotype FROM b)) GROUP BY t";
    assert!(
        fails(&ctx, above)
            .await
            .contains("in each branch of a UNION of different stores")
    );
    let both = row(
        &ctx,
        "SELECT exact_sum(d) FROM (SELECT diversity(call_genotype, 'first') AS d FROM a UNION ALL \
         SELECT diversity(call_genotype, 'first') FROM b)",
    )
    .await;
    let sum = |values: &[ScalarValue]| -> f64 {
        values
            .iter()
            .map(|value| f64::try_from(value.clone()).unwrap())
            .sum()
    };
    assert!((sum(&both) - sum(&separately)).abs() < 1e-9);
}

/// A volatile expression is evaluated once: what the filter saw is what comes out.
#[tokio::test(flavor = "multi_thread")]
async fn volatile_expressions_are_evaluated_once() {
    let ctx = plain_session();
    create(&ctx, "sim", &fixtures().join("sim.vcz.zip"), None).await;
    let highest = row(
        &ctx,
        "SELECT max(r) < 0.5 FROM (SELECT random() + 0 AS r, variant_position FROM sim) WHERE r < 0.5",
    )
    .await;
    assert_eq!(highest, [ScalarValue::Boolean(Some(true))]);
}

/// Writes a Zarr v2 store of which every chunk is absent: arrays as (name, shape, chunks, dtype, first dimension names).
fn write_empty_store(name: &str, arrays: &[(&str, &str, &str, &str)]) -> std::path::PathBuf {
    let store = work_dir().join(name);
    std::fs::create_dir_all(&store).unwrap();
    std::fs::write(store.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    std::fs::write(store.join(".zattrs"), r#"{"vcf_zarr_version": "0.4"}"#).unwrap();
    for (array, shape, chunks, dtype) in arrays {
        let folder = store.join(array);
        std::fs::create_dir_all(&folder).unwrap();
        let filters = if *dtype == "|O" {
            r#"[{"id": "vlen-utf8"}]"#
        } else {
            "null"
        };
        let document = format!(
            r#"{{"zarr_format": 2, "shape": {shape}, "chunks": {chunks}, "dtype": "{dtype}", "compressor": null,
                "fill_value": null, "order": "C", "filters": {filters}}}"#
        );
        std::fs::write(folder.join(".zarray"), document).unwrap();
    }
    store
}

/// No sample ids, axes of length 0, more chunks than memory could list: each has its answer.
#[tokio::test(flavor = "multi_thread")]
async fn stores_at_the_edges() {
    let sites = [
        ("variant_position", "[10]", "[10]", "<i4"),
        ("variant_contig", "[10]", "[10]", "|i1"),
        ("variant_allele", "[10, 2]", "[10, 2]", "|O"),
    ];
    let with = |more: &[(&'static str, &'static str, &'static str, &'static str)]| {
        [&sites[..], more].concat()
    };
    let ctx = plain_session();
    let unnamed = with(&[("call_genotype", "[10, 3, 2]", "[10, 3, 2]", "|i1")]);
    create(
        &ctx,
        "unnamed",
        &write_empty_store("unnamed.vcz", &unnamed),
        None,
    )
    .await;
    let everyone = row(
        &ctx,
        "SELECT sum(allele_number(allele_counts(call_genotype))) FROM unnamed",
    )
    .await;
    assert_eq!(everyone, [ScalarValue::Int64(Some(60))]);
    let nobody = with(&[
        ("call_genotype", "[10, 0, 2]", "[10, 1, 2]", "|i1"),
        ("variant_X", "[10, 0]", "[10, 1]", "<i4"),
        ("sample_id", "[0]", "[1]", "|O"),
    ]);
    create(
        &ctx,
        "nobody",
        &write_empty_store("nobody.vcz", &nobody),
        None,
    )
    .await;
    let rows = run(
        &ctx,
        r#"SELECT call_genotype, "variant_X", allele_counts(call_genotype) FROM nobody"#,
    )
    .await;
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 10);
    let endless = [("variant_position", "[4611686018427387904]", "[1000]", "<i4")];
    create(
        &ctx,
        "endless",
        &write_empty_store("endless.vcz", &endless),
        None,
    )
    .await;
    let rows = run(&ctx, "SELECT * FROM endless LIMIT 3").await;
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 3);
}

/// The recipe of consequences counts each site once for each of its consequences, and those of SnpEff are the same.
#[tokio::test(flavor = "multi_thread")]
async fn the_recipe_of_consequences_counts_each_site_once() {
    let top = crate::common::top();
    std::env::set_current_dir(&top).unwrap();
    let expected = std::fs::read_to_string(fixtures().join("consequences.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
    let expected = expected.as_object().unwrap();
    let recipe = std::fs::read_to_string(top.join("sql/consequences.sql")).unwrap();
    let recipe = statements(&recipe);
    let ctx = plain_session();
    run(&ctx, &recipe[0]).await;
    let every = recipe
        .iter()
        .find(|statement| statement.contains("array_distinct"))
        .unwrap();
    for statement in [
        every.clone(),
        every.replace("\"variant_CSQ\"", "\"variant_ANN\""),
    ] {
        let batches = run(&ctx, &statement).await;
        let mut found = 0;
        for batch in &batches {
            for at in 0..batch.num_rows() {
                let value =
                    |column: usize| ScalarValue::try_from_array(batch.column(column), at).unwrap();
                let name = value(0).to_string();
                let wanted = &expected[&name];
                assert_eq!(
                    value(1),
                    ScalarValue::Int64(wanted["sites"].as_i64()),
                    "{name}"
                );
                let diversity = f64::try_from(value(2)).unwrap();
                let difference = diversity - wanted["diversity"].as_f64().unwrap();
                assert!(difference.abs() < 1e-9, "{name}: {diversity}");
                let ScalarValue::List(list) = value(3) else {
                    panic!("not a list")
                };
                let spectrum = list.value(0);
                let spectrum =
                    arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&spectrum);
                let wanted: Vec<i64> = wanted["sfs_folded"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|bin| bin.as_i64().unwrap())
                    .collect();
                assert_eq!(spectrum.values().to_vec(), wanted, "{name}");
                found += 1;
            }
        }
        assert_eq!(found, expected.len());
    }
}

/// N of the scan is what the sexes say, on the autosome and on X.
#[tokio::test(flavor = "multi_thread")]
async fn the_recipe_of_sex_chromosomes_agrees_with_the_sexes() {
    let top = crate::common::top();
    std::env::set_current_dir(&top).unwrap();
    let recipe = std::fs::read_to_string(top.join("sql/sex_chromosomes.sql")).unwrap();
    let recipe = statements(&recipe);
    let ctx = plain_session();
    run(&ctx, &recipe[0]).await;
    run(&ctx, &recipe[1]).await;
    let batches = run(&ctx, &recipe[2]).await;
    let shown = arrow::util::pretty::pretty_format_batches(&batches)
        .unwrap()
        .to_string();
    for line in [
        "| 1              | first      | 26 | 26     |",
        "| 1              | second     | 22 | 22     |",
        "| X              | first      | 24 | 24     |",
        "| X              | second     | 20 | 20     |",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}
