//! Calls missing at random must not bias the statistics.
//!
//! From the complete genotypes of the fixture `missing_data` (haploids, so that a missing call is a random copy; see the
//! fixtures' README) 10, 30 and 60 % of the calls are removed, 50 times each. The mean of each statistic over the replicates
//! is compared with its value on the complete data.
//!
//! What may they differ by? The complete data are themselves a sample of sites, and a statistic of them has a standard error:
//! a block jackknife over 25 runs of sites. `expected.json` has it for the sums and FST, computed elsewhere; this test
//! repeats that jackknife in SQL, compares, and takes the spectra's from it too. A bias of less than one standard error is
//! one that no one could see in such data. In detail:
//!
//! * Statistics of pairs of copies (diversity, divergence, FST) are unbiased given the complete data, so only the Monte Carlo error
//!   of 50 replicates is left (a tenth of a standard error): a quarter of a standard error is allowed.
//! * Projected spectra are unbiased given the complete data as well, but each bin has a larger Monte Carlo error (up to a fifth),
//!   and the largest of many is looked at: one standard error.
//! * theta_w under missing calls is unbiased over neutral data sets, not given one of them: one standard error.
//! * The data must be able to tell: estimators that take a missing call for the reference allele, or all segregating sites for
//!   sites of N calls, are further off than that.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType, Field, Int8Type};
use datafusion::prelude::SessionContext;

use super::common::{create, fixtures, plain_session, run};
use super::laws::{Counts, Random, counts_column, floats, register, rows};

const SAMPLES: usize = 40;
const FIRST: usize = 20;
const ALLELES: usize = 3;
const REPLICATES: i32 = 50;
const BLOCKS: usize = 25;
const PERCENT: [i32; 4] = [0, 10, 30, 60];

/// What is compared: a name as in `expected.json`, the call on the counts `$a` and `$b`, and how it is scaled.
const STATISTICS: [(&str, &str, Kind); 10] = [
    ("diversity_first", "diversity($a)", Kind::Sum),
    ("diversity_second", "diversity($b)", Kind::Sum),
    ("theta_w_first", "theta_w($a)", Kind::Sum),
    ("theta_w_second", "theta_w($b)", Kind::Sum),
    ("divergence", "divergence($a, $b)", Kind::Sum),
    ("fst_hudson", "fst_hudson($a, $b)", Kind::Ratio),
    ("first projected", "project_sfs($a, 4)", Kind::Spectrum),
    ("second projected", "project_sfs($b, 4)", Kind::Spectrum),
    (
        "first projected and folded",
        "project_sfs_folded($a, 5)",
        Kind::Spectrum,
    ),
    (
        "jointly projected",
        "project_joint_sfs($a, $b, 3, 3)",
        Kind::Spectrum,
    ),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Grows with the number of sites.
    Sum,
    Ratio,
    /// Sites with too few calls drop out, so it is divided by its sum.
    Spectrum,
}

/// One value for each of [`STATISTICS`], several numbers for a spectrum.
type Values = Vec<Vec<f64>>;

/// [`STATISTICS`] of the rows that `from` gives, for each of its groups, with the columns `a` and `b` for the counts.
async fn statistics(ctx: &SessionContext, [a, b]: [&str; 2], from: &str) -> Vec<Values> {
    let calls = STATISTICS.map(|(_, call, _)| call.replace("$a", a).replace("$b", b));
    let found = rows(ctx, &format!("SELECT {} {from}", calls.join(", "))).await;
    let values = |row: &Vec<datafusion::common::ScalarValue>| {
        let numbers = row.iter().map(floats).zip(STATISTICS);
        numbers
            .map(|(numbers, (.., kind))| match kind {
                Kind::Spectrum => {
                    let sites: f64 = numbers.iter().sum();
                    numbers.iter().map(|bin| bin / sites).collect()
                }
                _ => numbers,
            })
            .collect()
    };
    found.iter().map(values).collect()
}

fn mean(all: &[Values]) -> Values {
    let mut sums = all[0].clone();
    for values in &all[1..] {
        for (sums, values) in sums.iter_mut().zip(values) {
            sums.iter_mut()
                .zip(values)
                .for_each(|(sum, value)| *sum += value);
        }
    }
    sums.iter_mut()
        .flatten()
        .for_each(|sum| *sum /= all.len() as f64);
    sums
}

/// Standard errors from the statistics without each block in turn.
fn jackknife(without: &[Values]) -> Values {
    assert_eq!(without.len(), BLOCKS);
    let blocks = BLOCKS as f64;
    let mean = mean(without);
    let error = |at: usize, bin: usize| {
        let squares = without
            .iter()
            .map(|values| (values[at][bin] - mean[at][bin]).powi(2));
        // A sum over sites loses one part in 25 when a block is left out; a ratio does not.
        let scale = if STATISTICS[at].2 == Kind::Sum {
            blocks / (blocks - 1.0)
        } else {
            1.0
        };
        scale * ((blocks - 1.0) / blocks * squares.sum::<f64>()).sqrt()
    };
    let errors = mean.iter().enumerate();
    errors
        .map(|(at, bins)| (0..bins.len()).map(|bin| error(at, bin)).collect())
        .collect()
}

/// The largest distance between any number of statistic `at` and that of the complete data, in standard errors.
fn distance(at: usize, found: &Values, complete: &Values, errors: &Values) -> f64 {
    let numbers = found[at].iter().zip(&complete[at]).zip(&errors[at]);
    numbers
        .map(|((found, complete), error)| (found - complete).abs() / error)
        .fold(0.0, f64::max)
}

/// The alleles of every site and sample.
async fn genotypes(ctx: &SessionContext) -> Vec<Vec<i8>> {
    let mut sites = Vec::new();
    for batch in run(
        ctx,
        "SELECT call_genotype FROM missing_data ORDER BY variant_position",
    )
    .await
    {
        let samples = batch.column(0).as_fixed_size_list();
        for site in 0..samples.len() {
            let copies = samples.value(site);
            let alleles = copies
                .as_fixed_size_list()
                .values()
                .as_primitive::<Int8Type>();
            sites.push(alleles.values().to_vec());
        }
    }
    assert!(
        sites
            .iter()
            .all(|site| site.len() == SAMPLES && site.iter().all(|&allele| allele >= 0))
    );
    sites
}

/// A table of one row for each percentage, replicate and site: counts `a` and `b` of what is left, and `ra` and `rb`, in which the
/// removed calls are counted as reference.
fn remove_calls(ctx: &SessionContext, sites: &[Vec<i8>]) {
    let (mut percents, mut replicates, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts: [Vec<Counts>; 4] = Default::default();
    for percent in PERCENT {
        for replicate in 0..REPLICATES {
            let mut random = Random::new((percent * 1000 + replicate) as u64);
            for (at, site) in sites.iter().enumerate() {
                let mut of_site = [[0; ALLELES]; 4];
                for (sample, &allele) in site.iter().enumerate() {
                    let population = usize::from(sample >= FIRST);
                    if random.uniform() * 100.0 >= f64::from(percent) {
                        of_site[population][allele as usize] += 1;
                        of_site[population + 2][allele as usize] += 1;
                    } else {
                        of_site[population + 2][0] += 1;
                    }
                }
                for (column, site) in counts.iter_mut().zip(of_site) {
                    column.push(Some(site.to_vec()));
                }
                percents.push(percent);
                replicates.push(replicate);
                blocks.push((at * BLOCKS / sites.len()) as i32);
            }
        }
    }
    let number = |name: &str, values: Vec<i32>| -> (Field, ArrayRef) {
        (
            Field::new(name, DataType::Int32, false),
            Arc::new(Int32Array::from(values)),
        )
    };
    let mut columns = vec![
        number("percent", percents),
        number("replicate", replicates),
        number("block", blocks),
    ];
    for (name, rows) in ["a", "b", "ra", "rb"].into_iter().zip(&counts) {
        columns.push(counts_column(name, FIRST as u64, ALLELES, rows));
    }
    register(ctx, "removed", columns, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_missing_at_random_do_not_bias() {
    let ctx = plain_session();
    let populations = fixtures().join("missing_data.populations.tsv");
    create(
        &ctx,
        "missing_data",
        &fixtures().join("missing_data.vcz.zip"),
        Some(&populations),
    )
    .await;
    let sites = genotypes(&ctx).await;
    remove_calls(&ctx, &sites);

    let stored = [
        "allele_counts(call_genotype, 'first')",
        "allele_counts(call_genotype, 'second')",
    ];
    let complete = statistics(&ctx, stored, "FROM missing_data")
        .await
        .remove(0);
    let kept = "FROM (SELECT * FROM removed WHERE percent = 0 AND replicate = 0) AS t \
                JOIN (SELECT DISTINCT block FROM removed) AS k ON t.block <> k.block GROUP BY k.block";
    let errors = jackknife(&statistics(&ctx, ["t.a", "t.b"], kept).await);

    // The errors are those computed without us.
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = expected["missing_data.vcz"]["standard_errors"]
        .as_object()
        .unwrap();
    assert_eq!(expected.len(), 6);
    for (name, expected) in expected {
        let at = STATISTICS
            .iter()
            .position(|(known, ..)| known == name)
            .unwrap();
        let (found, expected) = (errors[at][0], expected.as_f64().unwrap());
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "standard error of {name}: {found}, not {expected}"
        );
    }

    for percent in PERCENT {
        let from =
            format!("FROM removed WHERE percent = {percent} GROUP BY replicate ORDER BY replicate");
        let replicates = statistics(&ctx, ["a", "b"], &from).await;
        assert_eq!(replicates.len(), REPLICATES as usize);
        if percent == 0 {
            // Nothing is removed, so nothing changes, not even a bit.
            assert!(replicates.iter().all(|values| *values == complete));
            continue;
        }
        let found = mean(&replicates);
        let as_reference = mean(&statistics(&ctx, ["ra", "rb"], &from).await);
        for (at, (name, _, kind)) in STATISTICS.into_iter().enumerate() {
            assert!(
                replicates.iter().any(|values| values[at] != complete[at]),
                "{name} does not see what is removed"
            );
            let pairs = ["diversity", "divergence", "fst"]
                .iter()
                .any(|start| name.starts_with(start));
            let allowed = if pairs { 0.25 } else { 1.0 };
            let off = distance(at, &found, &complete, &errors);
            assert!(
                off < allowed,
                "{name} is off by {off} standard errors with {percent} % of calls missing"
            );

            // Missing calls taken for the reference. With 10 % some sums do not show it in data of this size; spectra, divergence and FST do.
            let naive = distance(at, &as_reference, &complete, &errors);
            let shows = percent > 10 || kind != Kind::Sum || name == "divergence";
            assert!(
                !shows || naive > 1.0,
                "{name}, {percent} %: calls taken for reference are off by only {naive}"
            );
        }

        // Watterson's estimator with one N for all sites.
        let harmonic: f64 = (1..FIRST).map(|i| 1.0 / i as f64).sum();
        let segregating = rows(
            &ctx,
            &format!(
                "SELECT avg(s), avg(t) FROM (SELECT segregating_sites(a) AS s, segregating_sites(b) AS t \
                 FROM removed WHERE percent = {percent} GROUP BY replicate)"
            ),
        )
        .await;
        for (at, segregating) in [2, 3].into_iter().zip(&segregating[0]) {
            let naive = (floats(segregating)[0] / harmonic - complete[at][0]).abs() / errors[at][0];
            assert!(
                naive > 1.0,
                "{}, {percent} %: with one N it is off by only {naive}",
                STATISTICS[at].0
            );
        }
    }
}
