//! The statistics of one population's spectrum, on fixtures and the real stores, against `catalogue.json`.
//!
//! Over each whole store, over windows, and after `polarize`; of genotypes with populations, and of counts.

use serde_json::{Map, Value};

use crate::catalogue_data::{
    self, Entry, POPULATIONS, Store, TEST_TOLERANCE, TOLERANCE, assert_agrees,
};

/// Sums over sites, and counts.
const SUMS: [&str; 5] = [
    "theta_h",
    "theta_l",
    "fay_wu_h",
    "singletons",
    "singletons_folded",
];
/// Tests of neutrality.
const TESTS: [&str; 6] = [
    "fay_wu_h_norm",
    "zeng_e",
    "fu_li_d",
    "fu_li_f",
    "fu_li_d_star",
    "fu_li_f_star",
];
/// Names of weights.
const WEIGHTS: [&str; 8] = [
    "pi",
    "w",
    "h",
    "l",
    "singletons",
    "singletons_folded",
    "no_singletons",
    "no_singletons_folded",
];

/// Every aggregate of `arguments`, under its name.
fn aggregates(arguments: &str) -> String {
    let call = |name: &&str| format!("{name}({arguments}) AS {name}");
    let calls: Vec<String> = SUMS.iter().chain(&TESTS).map(call).collect();
    calls.join(", ")
}

fn tolerance(name: &str) -> f64 {
    if TESTS.contains(&name) || name.starts_with("test_") {
        TEST_TOLERANCE
    } else {
        TOLERANCE
    }
}

/// Compares each column of `row` with the expected value of its name.
fn assert_row(row: &Map<String, Value>, wanted: &Value, place: &str) {
    for (name, found) in row {
        let place = format!("{place}: {name}");
        let wanted = wanted
            .get(name)
            .unwrap_or_else(|| panic!("{place} is not expected"));
        assert_agrees(found, wanted, tolerance(name), &place);
    }
}

/// Every statistic over counts, and what else is expected of one population: values of the same sites by functions of counts in
/// which the ALT alleles were pooled, and n, the rounded harmonic mean of called copies.
fn whole_store(counts: &str) -> String {
    format!(
        "SELECT {aggregates}, segregating_sites(p) AS spectrum_sites, diversity(p) AS theta_pi, theta_w(p) AS theta_w,
                exact_sum((n - 1.0) / n) FILTER (WHERE minor_count(p) = 1) AS theta_singletons_folded,
                CAST(coalesce(floor(segregating_sites(p) / nullif(exact_sum(1.0 / n) FILTER (WHERE is_segregating(p)), 0) + 0.5 + 1e-9), 0)
                     AS BIGINT) AS n
         FROM (SELECT ac, nullif(allele_number(ac), 0) AS n, make_array(allele_number(ac) - derived_count(ac), derived_count(ac)) AS p
               FROM ({counts}) WHERE ac IS NOT NULL)",
        aggregates = aggregates("ac"),
    )
}

/// Runs `check` on every store of the catalogue.
async fn on_every_store(check: impl AsyncFn(&Entry, &Store<'_>)) {
    for entry in &catalogue_data::entries() {
        check(entry, &Store::open(entry, &POPULATIONS).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_stores() {
    on_every_store(async |entry, store| {
        for (population, wanted) in entry.expected["single"].as_object().unwrap() {
            let place = format!("{}, {population}", store.name);
            let counts =
                format!("SELECT allele_counts(call_genotype, '{population}') AS ac FROM t");
            assert_row(&store.row(&whole_store(&counts)).await, wanted, &place);
            // The same of genotypes, and with n given.
            let of_genotypes = aggregates(&format!("call_genotype, '{population}'"));
            let sql = format!("SELECT {of_genotypes} FROM t");
            assert_row(&store.row_once(&sql).await, wanted, &place);
            if let Some(n) = wanted["n"].as_u64().filter(|n| *n >= 2) {
                let call =
                    |name: &str| format!("{name}(call_genotype, '{population}', {n}) AS {name}");
                let sql = format!("SELECT {} FROM t", TESTS.map(call).join(", "));
                assert_row(&store.row_once(&sql).await, wanted, &place);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polarized() {
    let mut stores = 0;
    for entry in &catalogue_data::entries() {
        let Some(wanted) = entry.expected.get("polarized") else {
            continue;
        };
        stores += 1;
        let store = Store::open(entry, &POPULATIONS).await;
        let population = wanted["population"].as_str().unwrap();
        let counts = format!(
            "SELECT polarize(allele_counts(call_genotype, '{population}'), variant_allele, {ancestral}) AS ac FROM t",
            ancestral = ancestral(&store).await
        );
        let row = store.row(&whole_store(&counts)).await;
        assert_row(&row, wanted, &format!("{}, polarized", store.name));
        let rows = store
            .row(&format!("SELECT count(ac) AS rows FROM ({counts})"))
            .await;
        assert_row(&rows, wanted, store.name);
    }
    assert!(stores >= catalogue_data::least(2, 3), "{stores} stores");
}

/// The first string of `variant_AA`, of which a store may have one or several a site.
async fn ancestral(store: &Store<'_>) -> &'static str {
    let sql = "SELECT arrow_typeof(variant_AA) LIKE '%List%' AS list FROM t LIMIT 1";
    match store.row(sql).await["list"].as_bool() {
        Some(true) => "variant_AA[1]",
        _ => "variant_AA",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn windows() {
    on_every_store(async |entry, store| {
        let population = match entry.expected["single"].get("first") {
            Some(_) => "first",
            None => "all",
        };
        let size = &entry.expected["window_size"];
        let sql = format!(
            "SELECT variant_contig AS contig, CAST(genome_bin(variant_position, {size}) AS BIGINT) AS start,
                    count(*) AS variants, {aggregates}
             FROM t GROUP BY 1, 2 ORDER BY 1, 2",
            aggregates = aggregates(&format!("call_genotype, '{population}'"))
        );
        let rows = store.rows(&sql).await;
        for (window, row) in store.windows(&rows) {
            let place = format!("{}, window {}:{}", store.name, window["contig"], window["start"]);
            assert_eq!(row["variants"], window["variants"], "{place}");
            for name in SUMS.iter().chain(&TESTS) {
                let place = format!("{place}: {name}");
                assert_agrees(&row[*name], &window["single"][*name], tolerance(name), &place);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spectra() {
    let weights = WEIGHTS.map(|name| format!("spectrum_theta(s, '{name}') AS {name}"));
    on_every_store(async |entry, store| {
        let wanted = &entry.expected["spectrum"];
        let population = wanted["population"].as_str().unwrap();
        let sql = format!(
            "SELECT cardinality(s) < 5 AS small, {}, spectrum_test(s, 'pi', 'w') AS test_pi_w,
                    spectrum_test(s, 'h', 'no_singletons') AS test_h_no_singletons
             FROM (SELECT sfs(call_genotype, '{population}') AS s FROM t)",
            weights.join(", ")
        );
        let mut row = store.row(&sql).await;
        // Where N < 4 no values are given.
        let small = row.remove("small").unwrap();
        assert_eq!(
            small,
            Value::Bool(wanted["theta"].is_null()),
            "{}",
            store.name
        );
        if wanted["theta"].is_null() {
            assert!(row["no_singletons_folded"].is_null() && row["test_pi_w"].is_null());
        } else {
            assert_row(&row, &wanted["theta"], store.name);
        }
    })
    .await;
}
