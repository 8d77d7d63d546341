//! Every query in `sql/` runs as it is, from the top of the repository, and gives rows; what the README shows is checked.

use std::path::Path;

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
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::set_current_dir(top).unwrap();
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

/// The quickstart's spectrum is the one that tests/fixtures/expected.json has, so the README can show it.
#[tokio::test(flavor = "multi_thread")]
async fn the_readme_shows_what_the_quickstart_gives() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::set_current_dir(top).unwrap();
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
            .contains("in each branch of the UNION")
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
