//! Linkage disequilibrium on the real stores, against `catalogue.json`: of the first 60 rows that vary of a contig.

use serde_json::{Value, json};

use crate::catalogue_data::{self, POPULATIONS, Store, TOLERANCE, assert_agrees};

/// Runs `check` on every store of the catalogue with disequilibrium: its values, the population, and the rows that they are of.
async fn on_every_store(check: impl AsyncFn(&Store<'_>, &Value, &str, &str)) {
    let mut stores = 0;
    let entries = catalogue_data::entries();
    for entry in &entries {
        let Some(wanted) = entry.expected.get("ld") else {
            continue;
        };
        let Some(most) = wanted["position_max"].as_i64() else {
            assert_eq!(wanted["rows"], json!([]), "{}", entry.name);
            continue;
        };
        stores += 1;
        let store = Store::open(entry, &POPULATIONS).await;
        let contig = wanted["contig"].as_str().unwrap();
        let from =
            format!("FROM t WHERE variant_contig = '{contig}' AND variant_position <= {most}");
        check(
            &store,
            wanted,
            wanted["population"].as_str().unwrap(),
            &from,
        )
        .await;
    }
    // The fixtures have no values of pairs of sites.
    assert!(stores >= catalogue_data::least(0, 8), "{stores} stores");
}

#[tokio::test(flavor = "multi_thread")]
async fn mean_r2_of_haplotypes_and_genotypes() {
    on_every_store(async |store, wanted, population, from| {
        let sql = format!(
            "SELECT mean_r2(call_genotype, '{population}') AS mean_r2,
                    mean_r2_genotypes(call_genotype, '{population}') AS mean_r2_genotypes {from}"
        );
        for (name, found) in &store.row(&sql).await {
            let place = format!("{}: {name}", store.name);
            assert_agrees(found, &wanted[name], TOLERANCE, &place);
        }
        // All distances in one bin.
        let sql = format!(
            "SELECT b['defined'] AS n_hap, b['mean_r2'] AS mean_r2
             FROM (SELECT unnest(ld_decay(call_genotype, '{population}', variant_position, [0, 1000000000])) AS b {from})"
        );
        for (name, found) in &store.row(&sql).await {
            let place = format!("{}, ld_decay: {name}", store.name);
            assert_agrees(found, &wanted[name], TOLERANCE, &place);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_of_variants() {
    on_every_store(async |store, wanted, population, _| {
        let (contig, most) = (&wanted["contig"], &wanted["position_max"]);
        let of_pairs = format!(
            "FROM vcz_ld('t', '{population}', 1000000000) WHERE contig = '{}' AND position2 <= {most}",
            contig.as_str().unwrap()
        );
        let sql = format!(
            "SELECT row1, row2, r2, d, d_prime, r2_genotypes {of_pairs} ORDER BY row1, row2"
        );
        // All pairs of larger stores would be too many; `near_pairs_of_variants` has those.
        if !is_small(store).await {
            return;
        }
        let rows = store.rows(&sql).await;
        assert_eq!(rows.len(), wanted["n_hap"].as_u64().unwrap() as usize, "{}", store.name);
        let with_genotypes = rows.iter().filter(|row| !row["r2_genotypes"].is_null());
        assert_eq!(with_genotypes.count() as u64, wanted["n_geno"].as_u64().unwrap());
        for pair in wanted["pairs"].as_array().unwrap() {
            let place = format!("{}: pair {pair}", store.name);
            let is = |row: &&serde_json::Map<String, Value>| {
                row["row1"] == pair[0] && row["row2"] == pair[1]
            };
            let Some(found) = rows.iter().find(is) else {
                assert!(pair[2].is_null(), "{place}: not found");
                continue;
            };
            for (at, name) in ["r2", "d", "d_prime", "r2_genotypes"].iter().enumerate() {
                let place = format!("{place}: {name}");
                assert_agrees(&found[*name], &pair[at + 2], TOLERANCE, &place);
            }
        }
    })
    .await;
}

/// Whether all pairs of the table's variants are few enough to be listed in every session.
async fn is_small(store: &Store<'_>) -> bool {
    let count = store.row_once("SELECT count(*) AS n FROM t").await;
    count["n"].as_u64().unwrap() < 1500
}

/// Near pairs of a store of any size: each of the first ten rows with those after it.
#[tokio::test(flavor = "multi_thread")]
async fn near_pairs_of_variants() {
    on_every_store(async |store, wanted, population, _| {
        let positions = wanted["positions"].as_array().unwrap();
        let at = |place: usize| positions.get(place).and_then(Value::as_i64);
        let (Some(first), Some(last)) = (at(0), at(9.min(positions.len() - 1))) else {
            panic!("{}: no positions", store.name)
        };
        if last - first > 5000 {
            return;
        }
        let sql = format!(
            "SELECT row1, row2, r2, d, d_prime, r2_genotypes FROM vcz_ld('t', '{population}', {}, 0)
             WHERE contig = '{}' AND position2 <= {last} ORDER BY row1, row2",
            last - first,
            wanted["contig"].as_str().unwrap()
        );
        let rows = store.rows_once(&sql).await;
        for pair in wanted["pairs"].as_array().unwrap() {
            let place = format!("{}: pair {pair}", store.name);
            let is = |row: &&serde_json::Map<String, Value>| {
                row["row1"] == pair[0] && row["row2"] == pair[1]
            };
            let Some(found) = rows.iter().find(is) else {
                assert!(pair[2].is_null(), "{place}: not found");
                continue;
            };
            for (at, name) in ["r2", "d", "d_prime", "r2_genotypes"].iter().enumerate() {
                let place = format!("{place}: {name}");
                assert_agrees(&found[*name], &pair[at + 2], TOLERANCE, &place);
            }
        }
    })
    .await;
}

/// Pruning, against its definition over the pairs that `vcz_ld` gives.
#[tokio::test(flavor = "multi_thread")]
async fn pruning_is_its_definition() {
    on_every_store(async |store, _, population, _| {
        if !is_small(store).await {
            return;
        }
        for (window, threshold) in [(1_000_000, 0.2), (100, 0.1), (10_000, 0.8), (0, 0.0)] {
            let sql = format!(
                "SELECT row1, row2, r2 FROM vcz_ld('t', '{population}', {window}) ORDER BY row2, row1"
            );
            let pairs = store.rows_once(&sql).await;
            let sql = format!(
                "SELECT row FROM vcz_ld_prune('t', '{population}', {window}, {threshold}) ORDER BY row"
            );
            let kept: Vec<u64> = store
                .rows(&sql)
                .await
                .iter()
                .map(|row| row["row"].as_u64().unwrap())
                .collect();
            let mut dropped = std::collections::HashSet::new();
            for pair in &pairs {
                let [one, two] = ["row1", "row2"].map(|name| pair[name].as_u64().unwrap());
                if pair["r2"].as_f64().unwrap() > threshold && !dropped.contains(&one) {
                    dropped.insert(two);
                }
            }
            let place = format!("{}: {window}, {threshold}", store.name);
            assert!(kept.iter().all(|row| !dropped.contains(row)), "{place}");
            let sql = format!(
                "SELECT count(*) AS n FROM (SELECT allele_counts(call_genotype, '{population}') AS ac FROM t)
                 WHERE 0 < derived_count(ac) AND derived_count(ac) < allele_number(ac)"
            );
            let all = store.row_once(&sql).await["n"].as_u64().unwrap();
            assert_eq!(kept.len() + dropped.len(), all as usize, "{place}");
        }
    })
    .await;
}
