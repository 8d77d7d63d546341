//! The statistics of complete diploids, on fixtures and the real stores, against `catalogue.json`: heterozygosity, inbreeding, Weir and
//! Cockerham's FST and the exact test of Hardy-Weinberg proportions; over each whole store and over windows.

use serde_json::{Map, Value};

use crate::catalogue_data::{self, POPULATIONS, Store, TEST_TOLERANCE, TOLERANCE, assert_agrees};

/// Compares the expected values of these names with the columns after `prefix`.
fn assert_columns(
    row: &Map<String, Value>,
    prefix: &str,
    wanted: &Value,
    names: &[&str],
    place: &str,
) {
    for &name in names {
        let place = format!("{place}: {name}");
        let found = row.get(&format!("{prefix}{name}"));
        let (Some(found), Some(wanted)) = (found, wanted.get(name)) else {
            panic!("{place} is not there")
        };
        assert_agrees(found, wanted, TOLERANCE, &place);
    }
}

/// Statistics of one population.
const SINGLE: [&str; 3] = [
    "observed_heterozygosity",
    "expected_heterozygosity",
    "inbreeding",
];

/// [`SINGLE`] of `zygosity`; heterozygosities as sums over sites.
fn single(zygosity: &str, prefix: &str) -> String {
    format!(
        "coalesce(exact_sum(observed_heterozygosity({zygosity})), 0) AS {prefix}observed_heterozygosity,
         coalesce(exact_sum(expected_heterozygosity({zygosity})), 0) AS {prefix}expected_heterozygosity,
         inbreeding({zygosity}) AS {prefix}inbreeding"
    )
}

/// Weir and Cockerham's FST of `populations`, and the number of sites that are usable.
fn weir_cockerham(populations: &str, prefix: &str) -> String {
    format!(
        "fst_weir_cockerham({populations}) AS {prefix}fst_weir_cockerham,
         count(site_fst_weir_cockerham({populations})) AS {prefix}wc_sites"
    )
}

/// Runs `check` on every store.
async fn on_every_store(check: impl AsyncFn(&Store<'_>)) {
    for entry in &catalogue_data::entries() {
        check(&Store::open(entry, &POPULATIONS).await).await;
    }
}

/// Zygosity of each population of a store under its name, and allele counts under `ac_` and its name, with `more` columns.
fn sites(store: &Store<'_>, more: &str) -> String {
    let names = store.expected["populations"].as_object().unwrap().keys();
    let columns: Vec<String> = names
        .map(|name| {
            format!("zygosity_counts(call_genotype, '{name}') AS \"{name}\", allele_counts(call_genotype, '{name}') AS ac_{name}")
        })
        .collect();
    format!("(SELECT {more}{} FROM t)", columns.join(", "))
}

#[tokio::test(flavor = "multi_thread")]
async fn heterozygosity() {
    on_every_store(async |store| {
        for (population, wanted) in store.expected["single"].as_object().unwrap() {
            let place = format!("{}, {population}", store.name);
            let sql = format!(
                "SELECT {} FROM {}",
                single(&format!("\"{population}\""), ""),
                sites(store, "")
            );
            assert_columns(&store.row(&sql).await, "", wanted, &SINGLE, &place);
            let short = single(&format!("call_genotype, '{population}'"), "");
            let row = store.row_once(&format!("SELECT {short} FROM t")).await;
            assert_columns(&row, "", wanted, &SINGLE, &place);
            let sql = format!(
                "SELECT count(observed_heterozygosity(call_genotype, '{population}')) AS zygosity_sites FROM t"
            );
            let row = store.row(&sql).await;
            assert_columns(&row, "", wanted, &["zygosity_sites"], &place);
            if wanted.get("hwe_sum").is_some() {
                let sql = format!(
                    "SELECT count(p) AS zygosity_sites, coalesce(exact_sum(p), 0) AS hwe_sum, coalesce(exact_sum(midp), 0) AS hwe_midp_sum,
                            count(*) FILTER (WHERE p < 0.05) AS hwe_below_005, min(p) AS hwe_min
                     FROM (SELECT hwe_exact(call_genotype, '{population}') AS p, hwe_exact_midp(call_genotype, '{population}') AS midp FROM t)"
                );
                let row = store.row(&sql).await;
                for (name, found) in &row {
                    let place = format!("{place}: {name}");
                    assert_agrees(found, &wanted[name], TEST_TOLERANCE, &place);
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fst() {
    let mut compared = 0;
    for entry in &catalogue_data::entries() {
        let store = &Store::open(entry, &POPULATIONS).await;
        let Some(pair) = store.expected.get("pair") else {
            continue;
        };
        compared += 1;
        let sql = format!(
            "SELECT coalesce(exact_sum(wc['a']), 0) AS wc_a, coalesce(exact_sum(wc['b']), 0) AS wc_b,
                    coalesce(exact_sum(wc['c']), 0) AS wc_c, count(wc) AS wc_sites,
                    fst_weir_cockerham(first, second) AS fst_weir_cockerham,
                    fst_weir_cockerham_haploid(ac_first, ac_second) AS fst_weir_cockerham_haploid
             FROM (SELECT *, site_fst_weir_cockerham(first, second) AS wc FROM {})",
            sites(store, "")
        );
        let names = [
            "wc_a",
            "wc_b",
            "wc_c",
            "wc_sites",
            "fst_weir_cockerham",
            "fst_weir_cockerham_haploid",
        ];
        assert_columns(&store.row(&sql).await, "", pair, &names, store.name);
        let (genotypes, fst) = ("call_genotype, 'first', 'second'", "fst_weir_cockerham");
        let sql = format!(
            "SELECT {}, {fst}_haploid({genotypes}) AS {fst}_haploid FROM t",
            weir_cockerham(genotypes, "")
        );
        let row = store.row_once(&sql).await;
        assert_columns(&row, "", pair, &names[3..], store.name);
        if let Some(multi) = store.expected.get("multi") {
            let quarters = "call_genotype, 'q1', 'q2', 'q3', 'q4'";
            for (from, populations) in
                [(sites(store, ""), "q1, q2, q3, q4"), ("t".into(), quarters)]
            {
                let sql = format!("SELECT {} FROM {from}", weir_cockerham(populations, ""));
                let row = store.row(&sql).await;
                assert_columns(
                    &row,
                    "",
                    multi,
                    &["fst_weir_cockerham", "wc_sites"],
                    store.name,
                );
            }
        }
    }
    assert!(compared >= catalogue_data::least(6, 8), "{compared} stores");
}

#[tokio::test(flavor = "multi_thread")]
async fn windows() {
    on_every_store(async |store| {
        let size = &store.expected["window_size"];
        let has = |key: &str| store.expected.get(key).is_some();
        let population = match store.expected["single"].get("first") {
            Some(_) => "first",
            None => "all",
        };
        let mut columns = vec![single(&format!("\"{population}\""), "single_")];
        if has("pair") {
            columns.push(
                "fst_weir_cockerham(first, second) AS pair_fst_weir_cockerham,
                 fst_weir_cockerham_haploid(ac_first, ac_second) AS pair_fst_weir_cockerham_haploid"
                    .into(),
            );
        }
        if has("multi") {
            columns.push(weir_cockerham("q1, q2, q3, q4", "multi_"));
        }
        let sql = format!(
            "SELECT variant_contig AS contig, genome_bin(variant_position, {size}) AS start, {} FROM {} GROUP BY 1, 2 ORDER BY 1, 2",
            columns.join(", "),
            sites(store, "variant_contig, variant_position, ")
        );
        let rows = store.rows(&sql).await;
        for (window, row) in store.windows(&rows) {
            let place = format!("{}, {}:{}", store.name, window["contig"], window["start"]);
            assert_columns(row, "single_", &window["single"], &SINGLE, &place);
            if let Some(wanted) = window.get("pair") {
                let names = ["fst_weir_cockerham", "fst_weir_cockerham_haploid"];
                assert_columns(row, "pair_", wanted, &names, &place);
            }
            if let Some(wanted) = window.get("multi") {
                let names = ["fst_weir_cockerham", "wc_sites"];
                assert_columns(row, "multi_", wanted, &names, &place);
            }
        }
    })
    .await;
}

/// The first rows with an individual, and the test of allele 1 there.
#[tokio::test(flavor = "multi_thread")]
async fn hardy_weinberg() {
    on_every_store(async |store| {
        let Some(wanted) = store.expected.get("hwe") else {
            return;
        };
        let population = wanted["population"].as_str().unwrap();
        let numbers = wanted["rows"].as_array().unwrap();
        let list: Vec<String> = numbers.iter().map(Value::to_string).collect();
        // The session has one partition: its rows come in the order of the store.
        let sql = format!(
            "SELECT row, z['individuals'] AS individuals, het, hom, hwe_exact(z) AS p, hwe_exact_midp(z, 1) AS midp,
                    hwe_exact(hom, het, z['individuals'] - het - hom) AS p_of_counts
             FROM (SELECT row, z, z['het'][2] AS het, (z['ac'][2] - z['het'][2]) / 2 AS hom
                   FROM (SELECT row_number() OVER () - 1 AS row, z
                         FROM (SELECT zygosity_counts(call_genotype, '{population}') AS z FROM t)))
             WHERE row IN ({}) ORDER BY row",
            match list.is_empty() {
                true => "-1".to_string(),
                false => list.join(", "),
            }
        );
        let rows = store.rows_once(&sql).await;
        assert_eq!(rows.len(), numbers.len(), "{}", store.name);
        for (at, row) in rows.iter().enumerate() {
            let place = format!("{}, row {}", store.name, numbers[at]);
            assert_eq!(row["row"], numbers[at], "{place}");
            for name in ["het", "hom", "individuals", "p", "midp"] {
                assert_agrees(&row[name], &wanted[name][at], TEST_TOLERANCE, &format!("{place}: {name}"));
            }
            assert_eq!(row["p_of_counts"], row["p"], "{place}");
        }
    })
    .await;
}
