//! The statistics of pairs of individuals, on the real stores, against `catalogue.json`.

use serde_json::{Map, Value, json};

use crate::catalogue_data::{self, POPULATIONS, Store, TOLERANCE, assert_agrees};

/// The tolerance of relationships and components.
const MATRIX_TOLERANCE: f64 = 1e-9;
/// Eigenvectors are compared where eigenvalues differ by more.
const DISTINCT: f64 = 1e-6;

/// The rows of the catalogue's relatedness: all of them, or the first window of a large store.
async fn from(store: &Store<'_>) -> String {
    let variants = &store.expected["relatedness"]["variants"];
    let count = store.row_once("SELECT count(*) AS n FROM t").await;
    if count["n"] == *variants {
        return "FROM t".to_string();
    }
    let bin = format!(
        "genome_bin(variant_position, {})",
        store.expected["window_size"]
    );
    let from = format!("FROM t WHERE {bin} = (SELECT min({bin}) FROM t)");
    let count = store
        .row_once(&format!("SELECT count(*) AS n {from}"))
        .await;
    assert_eq!(count["n"], *variants, "{}", store.name);
    from
}

/// Runs `check` on every store of the catalogue with relatedness: its values and the rows that they are of.
async fn on_every_store(check: impl AsyncFn(&Store<'_>, &Value, &str)) {
    for entry in &catalogue_data::entries() {
        let Some(wanted) = entry.expected.get("relatedness") else {
            continue;
        };
        let store = Store::open(entry, &POPULATIONS).await;
        let from = from(&store).await;
        check(&store, wanted, &from).await;
    }
}

fn numbers(row: &Map<String, Value>, names: &[&str]) -> Value {
    names.iter().map(|name| row[*name].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_of_individuals() {
    on_every_store(async |store, wanted, from| {
        let sql = format!(
            "SELECT unnest(p), kinship_king(p['het_het'], p['opposite'], p['het1'], p['het2']) AS kinship
             FROM (SELECT unnest(sample_pairs(call_genotype, 'few')) AS p {from})"
        );
        let rows = store.rows(&sql).await;
        let pairs = wanted["pairs"].as_array().unwrap();
        assert_eq!(rows.len(), pairs.len(), "{}", store.name);
        for (at, row) in rows.iter().enumerate() {
            let row: Map<String, Value> = row
                .iter()
                .map(|(name, value)| {
                    let field = name.rsplit('.').next().unwrap_or(name);
                    (field.to_string(), value.clone())
                })
                .collect();
            let place = format!("{}, pair {}", store.name, pairs[at]);
            for (key, names) in [
                ("ibs", &["ibs0", "ibs1", "ibs2"][..]),
                ("king", &["het_het", "opposite", "het1", "het2", "kinship"]),
                ("distance", &["distance", "distance_sites"]),
            ] {
                let found = numbers(&row, names);
                assert_agrees(&found, &wanted[key][at], TOLERANCE, &format!("{place}: {key}"));
            }
            let sites: i64 = ["ibs0", "ibs1", "ibs2"]
                .map(|name| row[name].as_i64().unwrap())
                .iter()
                .sum();
            assert_eq!(row["sites"], sites, "{place}");
        }
    })
    .await;
}

/// Over copies, differences sum to what the individuals' distances are multiples of, where no call is missing.
#[tokio::test(flavor = "multi_thread")]
async fn pairs_of_copies() {
    on_every_store(async |store, _, from| {
        let sql = format!(
            "SELECT CAST(sum(p['differences']) AS BIGINT) AS differences, CAST(sum(p['sites']) AS BIGINT) AS sites
             FROM (SELECT unnest(haplotype_pairs(call_genotype, 'few')) AS p {from})"
        );
        let found = store.row(&sql).await;
        let sql = format!(
            "SELECT CAST(sum(site_differences(ac)) AS BIGINT) AS differences, CAST(sum(site_comparisons(ac)) AS BIGINT) AS sites
             FROM (SELECT allele_counts(call_genotype, 'few') AS ac {from})"
        );
        assert_eq!(found, store.row_once(&sql).await, "{}", store.name);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn relationship_matrices() {
    on_every_store(async |store, wanted, from| {
        let sql = format!(
            "SELECT p['gcta'] AS gcta, p['vanraden'] AS vanraden
             FROM (SELECT unnest(grm(call_genotype, 'few')) AS p {from})"
        );
        let rows = store.rows(&sql).await;
        if wanted["grm_sites"] == json!(0) {
            assert!(
                rows.iter()
                    .all(|row| row["gcta"].is_null() && row["vanraden"].is_null())
            );
            return;
        }
        for name in ["gcta", "vanraden"] {
            let triangle = wanted[format!("grm_{name}")].as_array().unwrap();
            let triangle: Vec<&Value> = triangle
                .iter()
                .flat_map(|row| row.as_array().unwrap())
                .collect();
            assert_eq!(rows.len(), triangle.len(), "{}", store.name);
            for (at, (row, wanted)) in rows.iter().zip(triangle).enumerate() {
                let place = format!("{}: {name} {at}", store.name);
                assert_agrees(&row[name], wanted, MATRIX_TOLERANCE, &place);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn principal_components() {
    on_every_store(async |store, wanted, from| {
        let samples = store.expected["populations"]["few"][1].as_i64().unwrap()
            - store.expected["populations"]["few"][0].as_i64().unwrap();
        let sql = format!(
            "SELECT p['eigenvalues'] AS eigenvalues, p['trace'] AS trace, p IS NULL AS none, s['pc'] AS pc
             FROM (SELECT p, unnest(p['samples']) AS s FROM (SELECT pca(call_genotype, 'few', {samples}) AS p {from}))"
        );
        let rows = store.rows(&sql).await;
        if wanted["grm_sites"] == json!(0) {
            assert!(rows.is_empty(), "{}", store.name);
            return;
        }
        let values = wanted["pca_eigenvalues"].as_array().unwrap();
        let found = rows[0]["eigenvalues"].as_array().unwrap();
        let trace = format!("{}: trace", store.name);
        assert_agrees(&rows[0]["trace"], &wanted["pca_trace"], MATRIX_TOLERANCE, &trace);
        for (at, wanted_value) in values.iter().enumerate() {
            let place = format!("{}: component {at}", store.name);
            assert_agrees(&found[at], wanted_value, MATRIX_TOLERANCE, &place);
            let value = |at: usize| found.get(at).map(|value| value.as_f64().unwrap());
            let near = |other: Option<f64>| {
                let differ = (other.unwrap_or(f64::INFINITY) - value(at).unwrap()).abs();
                differ <= DISTINCT * value(0).unwrap().max(1.0)
            };
            if at > 0 && near(value(at - 1)) || near(value(at + 1)) {
                continue;
            }
            let wanted = wanted["pca_vectors"][at].as_array().unwrap();
            let pairs: Vec<(f64, f64)> = rows
                .iter()
                .zip(wanted)
                .map(|(row, wanted)| {
                    (row["pc"][at].as_f64().unwrap(), wanted.as_f64().unwrap())
                })
                .collect();
            assert_eq!(pairs.len(), rows.len(), "{place}");
            let differ = |sign: f64| {
                let differ = pairs.iter().map(|(a, b)| (a - sign * b).abs());
                differ.fold(0.0, f64::max)
            };
            // The sign is a matter of rounding where several components are the largest.
            let largest = pairs.iter().map(|(a, _)| a.abs()).fold(0.0, f64::max);
            let ties = pairs.iter().filter(|(a, _)| a.abs() > largest - DISTINCT);
            let differ = match ties.count() {
                1 => differ(1.0),
                _ => differ(1.0).min(differ(-1.0)),
            };
            assert!(differ < MATRIX_TOLERANCE, "{place}: {differ}");
        }
        // The eigenvectors of all samples by themselves are those of the matrix that grm gives, where no call is missing.
        assert_eq!(found.len() as i64, samples, "{}", store.name);
    })
    .await;
}
