//! The statistics of several populations from allele counts, on fixtures and the real stores, against `catalogue.json`: over each whole store, of
//! genotypes and of counts, over windows, of every pair of populations, and their block jackknives.

use serde_json::{Map, Value};

use crate::catalogue_data::{self, Entry, Store, TEST_TOLERANCE, TOLERANCE, assert_agrees};

/// The populations, in the order of the expected pairs.
const POPULATIONS: [&str; 6] = ["first", "second", "q1", "q2", "q3", "q4"];

/// Statistics of two populations, `first` and `second`, and their arguments.
const PAIR: [(&str, &str, &str); 7] = [
    ("net_divergence", "net_divergence", "first second"),
    ("f2", "f2", "first second"),
    ("gst", "fst_nei", "first second"),
    ("jost_d", "jost_d", "first second"),
    ("polymorphism", "shared_polymorphism", "first second"),
    ("private_alleles1", "private_alleles", "first second"),
    ("private_alleles2", "private_alleles", "second first"),
];
/// Statistics of the quarters, and their arguments.
const MULTI: [(&str, &str, &str); 9] = [
    ("pbs", "pbs", "q1 q2 q3"),
    ("pbs_n1", "pbs_n1", "q1 q2 q3"),
    ("f3", "f3", "q3 q1 q2"),
    ("f3_normalized", "f3_normalized", "q3 q1 q2"),
    ("f4", "f4", "q1 q2 q3 q4"),
    ("patterson_d", "patterson_d", "q1 q2 q3 q4"),
    ("f_d", "f_d", "q1 q2 q3 q4"),
    ("gst", "fst_nei", "q1 q2 q3 q4"),
    ("jost_d", "jost_d", "q1 q2 q3 q4"),
];
/// Expected values of section 3, which are of genotypes.
const OF_GENOTYPES: [&str; 2] = ["wc_", "fst_weir_cockerham"];

/// The calls of statistics with each argument as `argument` has it, under their names after `prefix`.
fn calls(
    statistics: &[(&str, &str, &str)],
    prefix: &str,
    before: &str,
    argument: impl Fn(&str) -> String,
) -> String {
    let call = |(name, function, populations): &(&str, &str, &str)| {
        let arguments: Vec<String> = populations.split(' ').map(&argument).collect();
        format!(
            "{function}({before}{}) AS {prefix}{name}",
            arguments.join(", ")
        )
    };
    statistics.iter().map(call).collect::<Vec<_>>().join(", ")
}

/// How many sites have two copies in all of `populations`.
fn sites_two_copies(populations: &[&str], name: &str) -> String {
    let enough: Vec<String> = populations
        .iter()
        .map(|population| format!("allele_number({population}) >= 2"))
        .collect();
    format!("count(*) FILTER (WHERE {}) AS {name}", enough.join(" AND "))
}

/// Whether a store has all quarters.
fn has_quarters(store: &Store<'_>) -> bool {
    store.expected.get("multi").is_some()
}

/// The populations of a store that its statistics are of.
fn populations(store: &Store<'_>) -> &'static [&'static str] {
    match has_quarters(store) {
        true => &POPULATIONS,
        false => &POPULATIONS[..2],
    }
}

/// Counts of each population under its name, with `more` columns.
fn counts(store: &Store<'_>, more: &str) -> String {
    let columns: Vec<String> = populations(store)
        .iter()
        .map(|name| format!("allele_counts(call_genotype, '{name}') AS {name}"))
        .collect();
    format!("(SELECT {more}{} FROM t)", columns.join(", "))
}

/// Every statistic over counts.
fn of_counts(store: &Store<'_>) -> String {
    let name = |population: &str| population.to_string();
    let mut columns = vec![
        calls(&PAIR, "pair_", "", name),
        sites_two_copies(&POPULATIONS[..2], "pair_sites_two_copies"),
    ];
    if has_quarters(store) {
        columns.push(calls(&MULTI, "multi_", "", name));
        columns.push(sites_two_copies(
            &POPULATIONS[2..],
            "multi_sites_two_copies",
        ));
    }
    columns.join(", ")
}

/// The columns of a query with the parts of `shared_polymorphism` as columns of their own.
fn unpacked(query: &str) -> String {
    let parts = ["fixed", "private1", "private2", "shared"]
        .map(|class| format!("pair_polymorphism['{class}'] AS pair_{class}"));
    format!(
        "SELECT * EXCEPT (pair_polymorphism), {} FROM ({query})",
        parts.join(", ")
    )
}

/// Compares what is expected of pairs, or of all quarters, with the columns after `prefix`, of which there must be `least`.
fn assert_row(row: &Map<String, Value>, prefix: &str, wanted: &Value, place: &str, least: usize) {
    let mut compared = 0;
    for (name, wanted) in wanted.as_object().unwrap() {
        if OF_GENOTYPES.iter().any(|of| name.starts_with(of)) || name.starts_with("jackknife") {
            continue;
        }
        let Some(found) = row.get(&format!("{prefix}{name}")) else {
            // The short form has no number of sites.
            assert_eq!(name, "sites_two_copies", "{place}: {name} is not there");
            continue;
        };
        assert_agrees(found, wanted, TOLERANCE, &format!("{place}: {name}"));
        compared += 1;
    }
    assert!(compared >= least, "{place}: {compared} values compared");
}

/// Runs `check` on every store that has two populations.
async fn on_every_store(check: impl AsyncFn(&Entry, &Store<'_>)) {
    for entry in &catalogue_data::entries() {
        if entry.expected.get("pair").is_some() {
            check(entry, &Store::open(entry, &POPULATIONS).await).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_stores() {
    on_every_store(async |_, store| {
        let from = counts(store, "");
        let sql = format!("SELECT {} FROM {from}", of_counts(store));
        let of_counts = store.row(&unpacked(&sql)).await;
        let quoted = |population: &str| format!("'{population}'");
        let mut short = calls(&PAIR, "pair_", "call_genotype, ", quoted);
        if has_quarters(store) {
            short = short + ", " + &calls(&MULTI, "multi_", "call_genotype, ", quoted);
        }
        let sql = unpacked(&format!("SELECT {short} FROM t"));
        let of_genotypes = store.row_once(&sql).await;
        for (row, how) in [(of_counts, "counts"), (of_genotypes, "genotypes")] {
            let place = format!("{} by {how}", store.name);
            assert_row(&row, "pair_", &store.expected["pair"], &place, 10);
            if has_quarters(store) {
                assert_row(&row, "multi_", &store.expected["multi"], &place, 9);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows() {
    on_every_store(async |_, store| {
        let size = &store.expected["window_size"];
        let from = counts(store, "variant_contig, variant_position, ");
        let sql = format!(
            "SELECT variant_contig AS contig, genome_bin(variant_position, {size}) AS start, count(*) AS variants, {}
             FROM {from} GROUP BY 1, 2",
            of_counts(store)
        );
        let rows = store
            .rows(&format!("{} ORDER BY contig, start", unpacked(&sql)))
            .await;
        let mut windows = 0;
        for (window, row) in store.windows(&rows) {
            let place = format!("{}, {}:{}", store.name, window["contig"], window["start"]);
            assert_eq!(row["variants"], window["variants"], "{place}");
            if let Some(wanted) = window.get("pair") {
                assert_row(row, "pair_", wanted, &place, 10);
                windows += 1;
            }
            if let Some(wanted) = window.get("multi") {
                assert_row(row, "multi_", wanted, &place, 9);
            }
        }
        assert!(windows > 0, "{}: no windows", store.name);
    })
    .await;
}

/// Rows of pairs of sites and populations that are made at most, as they take long: of a store that has more, of some of its sites.
const MOST_ROWS: u64 = 1_000_000;

/// Every pair of populations at once, and by itself.
#[tokio::test(flavor = "multi_thread")]
async fn pairs() {
    on_every_store(async |_, store| {
        let unnested = |from: &str| {
            format!(
                "SELECT p['population1'] AS one, p['population2'] AS two, divergence(p['ac1'], p['ac2']) AS divergence,
                        fst_hudson(p['ac1'], p['ac2']) AS fst
                 FROM (SELECT unnest(population_pair_counts(call_genotype)) AS p FROM {from}) GROUP BY 1, 2 ORDER BY 1, 2"
            )
        };
        let wanted = store.expected["pairs"].as_array().unwrap();
        let one_by_one = |from: &str| {
            let pair = |pair: &Value| {
                let (one, two) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
                let pair = format!("call_genotype, '{one}', '{two}'");
                format!(
                    "SELECT '{one}' AS one, '{two}' AS two, divergence({pair}) AS divergence, fst_hudson({pair}) AS fst FROM {from}"
                )
            };
            let pairs: Vec<String> = wanted.iter().map(pair).collect();
            format!("{} ORDER BY 1, 2", pairs.join(" UNION ALL "))
        };
        let sites = store.row_once("SELECT count(*) AS n FROM t").await["n"].as_u64();
        let rows_of_all = sites.unwrap() * wanted.len() as u64;
        let rows = match rows_of_all > MOST_ROWS {
            true => {
                let some = format!(
                    "(SELECT call_genotype FROM t WHERE variant_position % {} = 0) AS t",
                    rows_of_all.div_ceil(MOST_ROWS)
                );
                let found = store.rows_once(&unnested(&some)).await;
                assert_eq!(found, store.rows_once(&one_by_one(&some)).await, "{}", store.name);
                store.rows(&one_by_one("t")).await
            }
            false => store.rows(&unnested("t")).await,
        };
        assert_eq!(rows.len(), wanted.len(), "{}", store.name);
        for wanted in wanted {
            let of = |row: &&Map<String, Value>| row["one"] == wanted[0] && row["two"] == wanted[1];
            let Some(row) = rows.iter().find(of) else {
                panic!("{}: no pair {wanted}", store.name)
            };
            let place = format!("{}: {} {}", store.name, wanted[0], wanted[1]);
            assert_agrees(&row["divergence"], &wanted[2], TOLERANCE, &place);
            assert_agrees(&row["fst"], &wanted[3], TOLERANCE, &place);
        }
    })
    .await;
}

/// Standard errors over blocks that are the windows: of a ratio, and of means, whose denominator is the number of sites.
#[tokio::test(flavor = "multi_thread")]
async fn jackknives() {
    on_every_store(async |_, store| {
        if !has_quarters(store) {
            return;
        }
        let size = &store.expected["window_size"];
        let from = counts(store, "variant_contig, variant_position, ");
        let terms = [
            ("jackknife_d", "site_patterson_d(q1, q2, q3, q4)", true),
            ("jackknife_f4", "site_f4(q1, q2, q3, q4)", false),
            ("jackknife_f3", "site_f3(q3, q1, q2)", false),
            ("jackknife_fst_hudson", "site_fst_hudson(q1, q2)", true),
        ];
        for (name, term, is_ratio) in terms {
            let (num, den) = match is_ratio {
                true => ("exact_sum(s['num'])", "exact_sum(s['den'])"),
                false => ("exact_sum(s)", "count(s)"),
            };
            let parts = ["estimate", "jackknife_estimate", "se", "z", "blocks"];
            let columns = parts.map(|part| format!("j['{part}'] AS {part}"));
            let sql = format!(
                "SELECT {columns} FROM (SELECT jackknife(num, den, m) AS j FROM (
                   SELECT {num} AS num, {den} AS den, count(s) AS m FROM (
                     SELECT variant_contig, genome_bin(variant_position, {size}) AS start, {term} AS s FROM {from})
                   GROUP BY variant_contig, start))",
                columns = columns.join(", ")
            );
            let row = store.row(&sql).await;
            for part in parts {
                let place = format!("{}, {name}: {part}", store.name);
                let wanted = &store.expected["multi"][name][part];
                assert_agrees(&row[part], wanted, TEST_TOLERANCE, &place);
            }
        }
    })
    .await;
}
