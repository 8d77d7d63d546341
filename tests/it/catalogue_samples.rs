//! The statistics of individuals and of haplotypes in windows, on fixtures and the real stores, against `catalogue.json`.

use serde_json::{Map, Value};

use crate::catalogue_data::{self, Entry, POPULATIONS, Store, TOLERANCE, assert_agrees};

/// What `sample_counts` gives of an individual.
const COUNTS: [&str; 9] = [
    "hom_ref",
    "het",
    "hom_alt",
    "haploid",
    "missing",
    "singletons",
    "private_sites",
    "expected_het",
    "inbreeding",
];
/// What `garud_h` gives of a window.
const HAPLOTYPES: [&str; 8] = [
    "h1",
    "h12",
    "h123",
    "h2_h1",
    "diversity",
    "count",
    "n",
    "sites",
];

/// The fields of a struct as columns.
fn fields(of: &str, names: &[&str]) -> String {
    let fields = names.iter().map(|name| format!("{of}['{name}'] AS {name}"));
    fields.collect::<Vec<_>>().join(", ")
}

/// Runs `check` on every store of the catalogue.
async fn on_every_store(check: impl AsyncFn(&Entry, &Store<'_>)) {
    for entry in &catalogue_data::entries() {
        check(entry, &Store::open(entry, &POPULATIONS).await).await;
    }
}

fn assert_samples(rows: &[Map<String, Value>], wanted: &Value, store: &str) {
    let samples = wanted["het"].as_array().unwrap().len();
    assert_eq!(rows.len(), samples, "{store}");
    for row in rows {
        let sample = usize::try_from(row["sample_index"].as_u64().unwrap()).unwrap();
        for name in COUNTS {
            let place = format!("{store}, sample {sample}: {name}");
            assert_agrees(&row[name], &wanted[name][sample], TOLERANCE, &place);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn individuals() {
    on_every_store(async |entry, store| {
        let wanted = &entry.expected["samples"];
        let sql = |call: &str| {
            format!(
                "SELECT CAST(sample_index AS BIGINT) AS sample_index, {} FROM
                   (SELECT unnest({call}) AS s FROM t) AS c JOIN vcz_samples('t') AS v ON c.s['sample'] = v.sample_id
                 ORDER BY sample_index",
                fields("s", &COUNTS)
            )
        };
        let rows = store.rows(&sql("sample_counts(call_genotype)")).await;
        assert_samples(&rows, wanted, store.name);
        // The same with a population that is everyone, and by windows whose counts are added.
        let rows = store.rows_once(&sql("sample_counts(call_genotype, 'all')")).await;
        assert_samples(&rows, wanted, store.name);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn haplotypes() {
    on_every_store(async |entry, store| {
        let population = match entry.expected["populations"].get("first") {
            Some(_) if entry.expected["single"].get("first").is_some() => "first",
            _ => "all",
        };
        let size = &entry.expected["window_size"];
        let sql = format!(
            "SELECT contig, start, {}, haplotype_diversity, haplotype_count FROM
               (SELECT variant_contig AS contig, CAST(genome_bin(variant_position, {size}) AS BIGINT) AS start,
                       garud_h(call_genotype, '{population}') AS h,
                       haplotype_diversity(call_genotype, '{population}') AS haplotype_diversity,
                       haplotype_count(call_genotype, '{population}') AS haplotype_count
                FROM t GROUP BY 1, 2) ORDER BY 1, 2",
            fields("h", &HAPLOTYPES)
        );
        let rows = store.rows(&sql).await;
        for (window, row) in store.windows(&rows) {
            let place = format!("{}, window {}:{}", store.name, window["contig"], window["start"]);
            let wanted = &window["haplotypes"];
            for name in HAPLOTYPES {
                assert_agrees(&row[name], &wanted[name], TOLERANCE, &format!("{place}: {name}"));
            }
            assert_eq!(row["haplotype_diversity"], row["diversity"], "{place}");
            assert_eq!(row["haplotype_count"], row["count"], "{place}");
        }
    })
    .await;
}
