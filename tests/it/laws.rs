//! Laws that the statistics obey through SQL: on random counts with seeds, so that a failure repeats, and on fixtures.
//!
//! The aggregates themselves have such tests beside them; here everything above them takes part: short forms, pushdown into the
//! scan, populations, Parquet, joins, window frames.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Int32Array, Int64Array, RecordBatch, StringArray,
    StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use datafusion_vcz::functions::counts_arg::with_copies;

use super::common::{create, fixtures, plain_session, row, run, session, work_dir};

/// A small generator of random numbers (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Allele counts of a site; `None` is NULL.
pub type Counts = Option<Vec<i32>>;

/// A column of counts of `alleles` alleles, with its number of copies N, and its values.
pub fn counts_column(
    name: &str,
    copies: u64,
    alleles: usize,
    rows: &[Counts],
) -> (Field, ArrayRef) {
    let item: FieldRef = Arc::new(Field::new_list_field(DataType::Int32, true));
    let mut values = Vec::with_capacity(rows.len() * alleles);
    for row in rows {
        match row {
            Some(counts) => values.extend_from_slice(counts),
            None => values.resize(values.len() + alleles, 0),
        }
    }
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let values = Arc::new(Int32Array::from(values));
    let list = FixedSizeListArray::new(Arc::clone(&item), alleles as i32, values, Some(nulls));
    let field = Field::new(name, DataType::FixedSizeList(item, alleles as i32), true);
    (with_copies(field, Some(copies)), Arc::new(list))
}

/// Registers an in-memory table in `partitions` partitions of batches of 17 rows or more.
pub fn register(
    ctx: &SessionContext,
    name: &str,
    columns: Vec<(Field, ArrayRef)>,
    partitions: usize,
) {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let all = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
    let size = all.num_rows().div_ceil(partitions * 5).max(17);
    let starts = (0..all.num_rows()).step_by(size);
    let batches: Vec<RecordBatch> = starts
        .map(|at| all.slice(at, size.min(all.num_rows() - at)))
        .collect();
    let parts = batches
        .chunks(batches.len().div_ceil(partitions))
        .map(<[_]>::to_vec)
        .collect();
    ctx.register_table(name, Arc::new(MemTable::try_new(schema, parts).unwrap()))
        .unwrap();
}

/// Every row of a query.
pub async fn rows(ctx: &SessionContext, sql: &str) -> Vec<Vec<ScalarValue>> {
    let mut all = Vec::new();
    for batch in run(ctx, sql).await {
        for at in 0..batch.num_rows() {
            let value = |column: &ArrayRef| ScalarValue::try_from_array(column, at).unwrap();
            all.push(batch.columns().iter().map(value).collect());
        }
    }
    all
}

/// The numbers in a value, lists and structs flattened; none of them may be NULL.
pub fn floats(value: &ScalarValue) -> Vec<f64> {
    fn flatten(array: &ArrayRef, out: &mut Vec<f64>) {
        assert_eq!(array.null_count(), 0, "{array:?}");
        match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (0..list.len()).for_each(|at| flatten(&list.value(at), out));
            }
            DataType::Struct(_) => {
                let parts = array.as_struct().columns();
                parts.iter().for_each(|part| flatten(part, out));
            }
            _ => {
                let numbers = arrow::compute::cast(array, &DataType::Float64).unwrap();
                out.extend_from_slice(numbers.as_primitive::<Float64Type>().values());
            }
        }
    }
    let mut out = Vec::new();
    flatten(&value.to_array().unwrap(), &mut out);
    out
}

fn assert_close(found: &[f64], expected: &[f64], about: &str) {
    assert_eq!(found.len(), expected.len(), "{about}");
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-12 * expected.abs().max(1.0),
            "{about}: {found} is not {expected}"
        );
    }
}

/// Every aggregate over counts and over zygosity: its name, how many populations it takes, what follows them.
const AGGREGATES: [(&str, usize, &str); 45] = [
    ("sfs", 1, ""),
    ("sfs_folded", 1, ""),
    ("project_sfs", 1, ", 5"),
    ("project_sfs_folded", 1, ", 4"),
    ("joint_sfs", 2, ""),
    ("joint_sfs_folded", 2, ""),
    ("project_joint_sfs", 2, ", 3, 2"),
    ("project_joint_sfs_folded", 2, ", 3, 3"),
    ("diversity", 1, ""),
    ("divergence", 2, ""),
    ("theta_w", 1, ""),
    ("segregating_sites", 1, ""),
    ("tajimas_d", 1, ""),
    ("tajimas_d", 1, ", 8"),
    ("fst_hudson", 2, ""),
    ("theta_h", 1, ""),
    ("theta_l", 1, ""),
    ("fay_wu_h", 1, ""),
    ("fay_wu_h_norm", 1, ""),
    ("zeng_e", 1, ""),
    ("fu_li_d", 1, ""),
    ("fu_li_d", 1, ", 8"),
    ("fu_li_f", 1, ""),
    ("fu_li_d_star", 1, ""),
    ("fu_li_f_star", 1, ""),
    ("singletons", 1, ""),
    ("singletons_folded", 1, ""),
    ("net_divergence", 2, ""),
    ("f2", 2, ""),
    ("f3", 3, ""),
    ("f3_normalized", 3, ""),
    ("f4", 4, ""),
    ("patterson_d", 4, ""),
    ("f_d", 4, ""),
    ("fst_nei", 2, ""),
    ("fst_nei", 5, ""),
    ("jost_d", 3, ""),
    ("pbs", 3, ""),
    ("pbs_n1", 3, ""),
    ("shared_polymorphism", 2, ""),
    ("private_alleles", 2, ""),
    ("inbreeding", 1, ""),
    ("fst_weir_cockerham", 2, ""),
    ("fst_weir_cockerham_haploid", 2, ""),
    ("fst_weir_cockerham_haploid", 3, ""),
];

/// Aggregates of [`AGGREGATES`] that take zygosity in place of counts.
const OF_ZYGOSITY: [&str; 2] = ["inbreeding", "fst_weir_cockerham"];

/// The zygosity of the population whose counts are `counts`: zygosity_counts for allele_counts, and the column `za` for `a`.
fn zygosity_of(counts: &str) -> String {
    if counts.contains("allele_counts(") {
        return counts.replace("allele_counts(", "zygosity_counts(");
    }
    match counts.rsplit_once('.') {
        Some((table, column)) => format!("{table}.z{column}"),
        None => format!("z{counts}"),
    }
}

/// Aggregates whose value is NULL over no sites.
const NULL_OF_NOTHING: [&str; 21] = [
    "tajimas_d",
    "fst_hudson",
    "fay_wu_h_norm",
    "zeng_e",
    "fu_li_d",
    "fu_li_f",
    "fu_li_d_star",
    "fu_li_f_star",
    "f2",
    "f3",
    "f3_normalized",
    "f4",
    "patterson_d",
    "f_d",
    "fst_nei",
    "jost_d",
    "pbs",
    "pbs_n1",
    "inbreeding",
    "fst_weir_cockerham",
    "fst_weir_cockerham_haploid",
];

/// The calls of [`AGGREGATES`] on two populations, which take turns where more are taken, after `before`; each call as `form` makes
/// it of its name and itself; columns `c0`, `c1`, …
fn calls(
    before: &str,
    populations: [&str; 2],
    form: impl Fn(&str, String) -> Option<String>,
) -> String {
    let mut columns = Vec::new();
    for (at, (name, counts, more)) in AGGREGATES.into_iter().enumerate() {
        let argument = |at: usize| match populations[at % 2] {
            counts if before.is_empty() && OF_ZYGOSITY.contains(&name) => zygosity_of(counts),
            population => population.to_string(),
        };
        let arguments: Vec<String> = (0..counts).map(argument).collect();
        let call = format!("{name}({before}{}{more})", arguments.join(", "));
        if let Some(column) = form(name, call) {
            columns.push(format!("{column} AS c{at}"));
        }
    }
    columns.join(", ")
}

/// All aggregates on counts, each followed by `over`.
fn on_counts(first: &str, second: &str, over: &str) -> String {
    calls("", [first, second], |_, call| Some(call + over))
}

/// All aggregates as short forms on genotypes, each followed by `over`.
fn on_genotypes(genotypes: &str, first: &str, second: &str, over: &str) -> String {
    calls(&format!("{genotypes}, "), [first, second], |_, call| {
        Some(call + over)
    })
}

/// What frames over the rows of `row` give: all aggregates, and NULL for spectra over no rows.
fn on_frames(before: &str, populations: [&str; 2], row: &str) -> String {
    calls(before, populations, |name, call| {
        Some(match name.contains("sfs") {
            true => format!("CASE WHEN count({row}) > 0 THEN {call} END"),
            false => call,
        })
    })
}

/// All aggregates over counts that need no number of copies.
fn without_copies(first: &str, second: &str) -> String {
    calls("", [first, second], |name, call| {
        let spectrum = name.contains("sfs") && !name.starts_with("project");
        (!spectrum && !OF_ZYGOSITY.contains(&name)).then_some(call)
    })
}

/// Random sites of two populations.
struct Sites {
    alleles: usize,
    copies: [u64; 2],
    counts: [Vec<Counts>; 2],
    /// Called copies as complete diploids, paired at random: copies and heterozygous carriers of each allele.
    zygosity: [Vec<Option<[Vec<i32>; 2]>>; 2],
}

/// Complete diploids of the called copies of a site, paired at random.
fn paired(random: &mut Random, site: &[i32]) -> [Vec<i32>; 2] {
    let mut copies: Vec<usize> = Vec::new();
    for (allele, &count) in site.iter().enumerate() {
        copies.extend(std::iter::repeat_n(allele, count as usize));
    }
    for at in (1..copies.len()).rev() {
        copies.swap(at, random.below(at as u64 + 1) as usize);
    }
    let [mut ac, mut het] = [vec![0; site.len()], vec![0; site.len()]];
    for pair in copies.chunks_exact(2) {
        for &allele in pair {
            ac[allele] += 1;
            het[allele] += i32::from(pair[0] != pair[1]);
        }
    }
    [ac, het]
}

/// A column of zygosity.
fn zygosity_column(
    name: &str,
    alleles: usize,
    rows: &[Option<[Vec<i32>; 2]>],
) -> (Field, ArrayRef) {
    let part = |name: &str, at: usize| {
        let rows: Vec<Counts> = rows
            .iter()
            .map(|row| row.as_ref().map(|row| row[at].clone()))
            .collect();
        let (field, array) = counts_column(name, 0, alleles, &rows);
        (field.with_metadata(Default::default()), array)
    };
    let individuals = rows
        .iter()
        .map(|row| row.as_ref().map(|row| row[0].iter().sum::<i32>() / 2));
    let individuals: ArrayRef = Arc::new(individuals.collect::<Int32Array>());
    let individuals = (
        Field::new("individuals", DataType::Int32, true),
        individuals,
    );
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) =
        [individuals, part("ac", 0), part("het", 1)]
            .into_iter()
            .unzip();
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let array = StructArray::new(fields.into(), arrays, Some(nulls));
    (
        Field::new(name, array.data_type().clone(), true),
        Arc::new(array),
    )
}

impl Sites {
    /// `rows` sites of `alleles` alleles; a share `missing` of the sites lacks calls, and a tenth of that is NULL.
    fn random(random: &mut Random, rows: usize, alleles: usize, missing: f64) -> Self {
        let copies = [5 + random.below(7), 5 + random.below(7)];
        let mut counts = [Vec::new(), Vec::new()];
        for _ in 0..rows {
            // One frequency for both, so that they share alleles; often small, as frequencies are.
            let derived = random.uniform().powi(2);
            for (rows, copies) in counts.iter_mut().zip(copies) {
                let lacks = random.uniform() < missing;
                if lacks && random.below(10) == 0 {
                    rows.push(None);
                    continue;
                }
                let called = if lacks {
                    random.below(copies + 1)
                } else {
                    copies
                };
                let mut site = vec![0; alleles];
                for _ in 0..called {
                    let other = 1 + random.below(alleles as u64 - 1) as usize;
                    site[if random.uniform() < derived { other } else { 0 }] += 1;
                }
                rows.push(Some(site));
            }
        }
        let zygosity = [0, 1].map(|at: usize| {
            let rows: &Vec<Counts> = &counts[at];
            rows.iter()
                .map(|row| row.as_ref().map(|site| paired(random, site)))
                .collect()
        });
        Self {
            alleles,
            copies,
            counts,
            zygosity,
        }
    }

    /// The number of calls, 0 where the counts are NULL.
    fn called(&self, population: usize) -> impl Iterator<Item = u64> {
        let called = |row: &Counts| row.iter().flatten().sum::<i32>() as u64;
        self.counts[population].iter().map(called)
    }

    /// A table of `contig` (two of them), `position` (with gaps), `site` (0, 1, …), the counts `a` and `b`, their zygosity `za` and
    /// `zb`, and `sa` and `sb`, in which the first and the second allele are swapped.
    fn register(&self, ctx: &SessionContext, name: &str, partitions: usize) {
        let rows = self.counts[0].len() as i64;
        let contig = (0..rows).map(|row| if row < rows / 3 { "x" } else { "y" });
        let position = (0..rows).map(|row| 3 * row + row / 9 * 20 + 1);
        let column = |name, nullable| {
            move |values: ArrayRef| {
                (
                    Field::new(name, values.data_type().clone(), nullable),
                    values,
                )
            }
        };
        let mut columns = vec![
            column("contig", false)(Arc::new(StringArray::from_iter_values(contig))),
            column("position", false)(Arc::new(position.collect::<Int64Array>())),
            column("site", false)(Arc::new((0..rows).collect::<Int64Array>())),
        ];
        for (at, names) in [["a", "sa", "za"], ["b", "sb", "zb"]]
            .into_iter()
            .enumerate()
        {
            columns.push(zygosity_column(names[2], self.alleles, &self.zygosity[at]));
            let mut swapped = self.counts[at].clone();
            swapped
                .iter_mut()
                .flatten()
                .for_each(|site| site.swap(0, 1));
            columns.push(counts_column(
                names[0],
                self.copies[at],
                self.alleles,
                &self.counts[at],
            ));
            columns.push(counts_column(
                names[1],
                self.copies[at],
                self.alleles,
                &swapped,
            ));
        }
        register(ctx, name, columns, partitions);
    }
}

fn zip(store: &str) -> PathBuf {
    fixtures().join(format!("{store}.vcz.zip"))
}

/// The samples of `population` of a fixture, in the order of its file.
fn members(store: &str, population: &str) -> Vec<String> {
    let text =
        std::fs::read_to_string(fixtures().join(format!("{store}.populations.tsv"))).unwrap();
    let lines = text
        .lines()
        .skip(1)
        .map(|line| line.split_once('\t').unwrap());
    lines
        .filter(|(_, of)| *of == population)
        .map(|(sample, _)| sample.to_string())
        .collect()
}

async fn with_store(ctx: &SessionContext, store: &str) {
    let populations = fixtures().join(format!("{store}.populations.tsv"));
    create(ctx, store, &zip(store), Some(&populations)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spectra_hold_every_site_with_enough_calls() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let alleles = 2 + random.below(3) as usize;
        let sites = Sites::random(&mut random, 150, alleles, 0.5);
        let [n1, n2] = sites.copies;
        let (m1, m2) = (1 + random.below(n1), 1 + random.below(n2));
        let ctx = plain_session();
        sites.register(&ctx, "t", 3);
        let found = row(
            &ctx,
            &format!(
                "SELECT sfs(a), sfs_folded(a), project_sfs(a, {m1}), project_sfs_folded(a, {m1}), \
                 joint_sfs(a, b), joint_sfs_folded(a, b), project_joint_sfs(a, b, {m1}, {m2}), \
                 project_joint_sfs_folded(a, b, {m1}, {m2}) FROM t"
            ),
        )
        .await;
        let single = |least| sites.called(0).filter(|&n| n >= least).count();
        let joint = |least1, least2| {
            let both = sites.called(0).zip(sites.called(1));
            both.filter(|&(one, two)| one >= least1 && two >= least2)
                .count()
        };
        let (complete, enough) = (single(n1), single(m1));
        let (joint_complete, joint_enough) = (joint(n1, n2), joint(m1, m2));
        assert!(0 < joint_complete && joint_complete < complete && complete < 150);
        let expected = [
            complete,
            complete,
            enough,
            enough,
            joint_complete,
            joint_complete,
            joint_enough,
            joint_enough,
        ];
        for (at, (value, expected)) in found.iter().zip(expected).enumerate() {
            let about = format!("seed {seed}, column {at}");
            assert_close(&[floats(value).iter().sum()], &[expected as f64], &about);
        }

        // Each bin, counted another way.
        let bins = rows(
            &ctx,
            &format!("SELECT derived_count(a) AS d, count(*) FROM t WHERE allele_number(a) = {n1} GROUP BY d"),
        )
        .await;
        let mut expected = vec![0.0; n1 as usize + 1];
        for bin in bins {
            expected[floats(&bin[0])[0] as usize] = floats(&bin[1])[0];
        }
        assert_eq!(floats(&found[0]), expected, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn projecting_to_the_whole_size_changes_nothing() {
    for seed in 0..10 {
        for missing in [0.0, 0.4] {
            let mut random = Random::new(100 + seed);
            let sites = Sites::random(&mut random, 120, 3, missing);
            let [n1, n2] = sites.copies;
            let ctx = plain_session();
            sites.register(&ctx, "t", 2);
            let found = row(
                &ctx,
                &format!(
                    "SELECT sfs(a), project_sfs(a, {n1}), sfs_folded(b), project_sfs_folded(b, {n2}), \
                     joint_sfs(a, b), project_joint_sfs(a, b, {n1}, {n2}), \
                     joint_sfs_folded(a, b), project_joint_sfs_folded(a, b, {n1}, {n2}) FROM t"
                ),
            )
            .await;
            for pair in found.chunks(2) {
                assert_eq!(
                    floats(&pair[0]),
                    floats(&pair[1]),
                    "seed {seed}, missing {missing}"
                );
            }
            if missing == 0.0 {
                assert_eq!(floats(&found[0]).iter().sum::<f64>(), 120.0);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folding_commutes_with_swapping_alleles() {
    for seed in 0..10 {
        let mut random = Random::new(200 + seed);
        let sites = Sites::random(&mut random, 150, 2, 0.4);
        let ctx = plain_session();
        sites.register(&ctx, "t", 2);
        let found = row(
            &ctx,
            "SELECT sfs_folded(a), sfs_folded(sa), joint_sfs_folded(a, b), joint_sfs_folded(sa, sb), \
             array_reverse(sfs(a)), sfs(sa), sum(minor_count(b)), sum(minor_count(sb)), \
             diversity(a), diversity(sa), fst_hudson(a, b), fst_hudson(sa, sb), \
             project_sfs_folded(a, 4), project_sfs_folded(sa, 4), \
             project_joint_sfs_folded(a, b, 4, 3), project_joint_sfs_folded(sa, sb, 4, 3) FROM t",
        )
        .await;
        for (at, pair) in found.chunks(2).enumerate() {
            let (one, other) = (floats(&pair[0]), floats(&pair[1]));
            match at < 6 {
                true => assert_eq!(one, other, "seed {seed}, pair {at}"),
                false => assert_close(&one, &other, &format!("seed {seed}, pair {at}")),
            }
        }
        let unfolded = row(&ctx, "SELECT sfs(a), sfs(sa) FROM t").await;
        assert_ne!(unfolded[0], unfolded[1], "seed {seed}");
    }

    // In a store, through polarize.
    let ctx = plain_session();
    with_store(&ctx, "sim").await;
    let swapped =
        "polarize(allele_counts(call_genotype, 'first'), variant_allele, variant_allele[2])";
    let found = row(
        &ctx,
        &format!(
            "SELECT sfs_folded(call_genotype, 'first'), sfs_folded({swapped}), \
             array_reverse(sfs(call_genotype, 'first')), sfs({swapped}) FROM sim WHERE is_biallelic(variant_allele)"
        ),
    )
    .await;
    assert_eq!(floats(&found[0]), floats(&found[1]));
    assert_eq!(floats(&found[2]), floats(&found[3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn margins_of_joint_spectra_are_spectra() {
    for seed in 0..10 {
        let mut random = Random::new(300 + seed);
        let sites = Sites::random(&mut random, 150, 3, 0.4);
        let [n1, n2] = sites.copies;
        let ctx = plain_session();
        sites.register(&ctx, "t", 2);
        let found = row(
            &ctx,
            &format!(
                "SELECT joint_sfs(a, b), joint_sfs(b, a), \
                 sfs(a) FILTER (WHERE allele_number(b) = {n2}), sfs(b) FILTER (WHERE allele_number(a) = {n1}), \
                 project_joint_sfs(a, b, 4, 3), project_joint_sfs(b, a, 3, 4), \
                 project_sfs(a, 4) FILTER (WHERE allele_number(b) >= 3), \
                 project_sfs(b, 3) FILTER (WHERE allele_number(a) >= 4) FROM t"
            ),
        )
        .await;
        let found: Vec<Vec<f64>> = found.iter().map(floats).collect();
        for (part, columns) in [(&found[..4], n2 as usize + 1), (&found[4..], 4)] {
            let about = format!("seed {seed}, {columns} columns");
            let grid: Vec<&[f64]> = part[0].chunks(columns).collect();
            let by_row: Vec<f64> = grid.iter().map(|row| row.iter().sum()).collect();
            let by_column: Vec<f64> = (0..columns)
                .map(|j| grid.iter().map(|row| row[j]).sum())
                .collect();
            assert!(by_row.iter().sum::<f64>() > 10.0);
            assert_close(&by_row, &part[2], &about);
            assert_close(&by_column, &part[3], &about);
            let transposed: Vec<f64> = (0..columns)
                .flat_map(|j| grid.iter().map(move |row| row[j]))
                .collect();
            assert_close(&transposed, &part[1], &about);
        }
    }
}

/// `diversity`, `theta_w` and `segregating_sites`, from a spectrum.
fn from_spectrum(spectrum: &[f64]) -> [f64; 3] {
    let n = spectrum.len() - 1;
    let pairs = (n * (n - 1)) as f64;
    let diversity = spectrum
        .iter()
        .enumerate()
        .map(|(d, sites)| sites * (2 * d * (n - d)) as f64 / pairs);
    let segregating: f64 = spectrum[1..n].iter().sum();
    let harmonic: f64 = (1..n).map(|i| 1.0 / i as f64).sum();
    [diversity.sum(), segregating / harmonic, segregating]
}

/// `divergence`, from a joint spectrum whose rows have `columns` cells.
fn divergence_from_joint(joint: &[f64], columns: usize) -> f64 {
    let (n1, n2) = (joint.len() / columns - 1, columns - 1);
    let cell = |(at, sites): (usize, &f64)| {
        let (i, j) = (at / columns, at % columns);
        sites * (i * (n2 - j) + (n1 - i) * j) as f64 / (n1 * n2) as f64
    };
    joint.iter().enumerate().map(cell).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn spectra_of_complete_biallelic_data_hold_the_statistics() {
    let check = |found: Vec<ScalarValue>, about: &str| {
        let found: Vec<Vec<f64>> = found.iter().map(floats).collect();
        let columns = found[1].len();
        let statistics: Vec<f64> = found[3..11].iter().map(|value| value[0]).collect();
        let (first, second) = (from_spectrum(&found[0]), from_spectrum(&found[1]));
        let between = divergence_from_joint(&found[2], columns);
        let fst = 1.0 - (first[0] + second[0]) / 2.0 / between;
        let expected = [&first[..], &second[..], &[between, fst]].concat();
        assert_close(&statistics, &expected, about);
    };
    let statistics = |one: &str, two: &str| {
        format!(
            "SELECT sfs({one}), sfs({two}), joint_sfs({one}, {two}), \
             diversity({one}), theta_w({one}), segregating_sites({one}), \
             diversity({two}), theta_w({two}), segregating_sites({two}), \
             divergence({one}, {two}), fst_hudson({one}, {two})"
        )
    };
    for seed in 0..10 {
        let mut random = Random::new(400 + seed);
        let sites = Sites::random(&mut random, 200, 2, 0.0);
        let ctx = plain_session();
        sites.register(&ctx, "t", 2);
        check(
            row(&ctx, &(statistics("a", "b") + " FROM t")).await,
            &format!("seed {seed}"),
        );
    }
    let ctx = plain_session();
    with_store(&ctx, "sim").await;
    let [one, two] =
        ["first", "second"].map(|name| format!("allele_counts(call_genotype, '{name}')"));
    let sql = statistics(&one, &two) + " FROM sim WHERE is_biallelic(variant_allele)";
    check(row(&ctx, &sql).await, "sim");
}

/// Estimators and tests of a spectrum, each as the aggregate over counts `x` and as the function of their spectrum `s`.
const OF_A_SPECTRUM: [(&str, &str); 14] = [
    ("theta_h({x})", "spectrum_theta({s}, 'h')"),
    ("theta_l({x})", "spectrum_theta({s}, 'l')"),
    (
        "fay_wu_h({x})",
        "spectrum_theta({s}, 'pi') - spectrum_theta({s}, 'h')",
    ),
    ("singletons({x})", "spectrum_theta({s}, 'singletons')"),
    (
        "diversity([{x}[1], derived_count({x})])",
        "spectrum_theta({s}, 'pi')",
    ),
    (
        "theta_w([{x}[1], derived_count({x})])",
        "spectrum_theta({s}, 'w')",
    ),
    ("fay_wu_h_norm({x})", "spectrum_test({s}, 'pi', 'h')"),
    ("zeng_e({x})", "spectrum_test({s}, 'l', 'w')"),
    ("fu_li_d({x})", "spectrum_test({s}, 'w', 'singletons')"),
    ("fu_li_f({x})", "spectrum_test({s}, 'pi', 'singletons')"),
    (
        "fu_li_d_star({x})",
        "spectrum_test({s}, 'w', 'singletons_folded')",
    ),
    (
        "fu_li_f_star({x})",
        "spectrum_test({s}, 'pi', 'singletons_folded')",
    ),
    (
        "tajimas_d([{x}[1], derived_count({x})])",
        "spectrum_test({s}, 'pi', 'w')",
    ),
    // Bins 1 and N − 1, which are one bin nowhere here.
    (
        "singletons_folded({x})",
        "spectrum_theta({s}, 'singletons_folded') * (cardinality({s}) - 1) / (cardinality({s}) - 2.0)",
    ),
];

/// Complete data: what is linear in the spectrum is the same of the sites and of their spectrum, with any number of alleles.
#[tokio::test(flavor = "multi_thread")]
async fn spectra_of_complete_data_hold_the_estimators() {
    let [of_sites, of_spectrum] = [0, 1].map(|form| {
        let calls: Vec<String> = OF_A_SPECTRUM
            .iter()
            .map(|pair| {
                let call = if form == 0 { pair.0 } else { pair.1 };
                call.replace("{x}", "x").replace("{s}", "s")
            })
            .collect();
        calls.join(", ")
    });
    let check = async |ctx: &SessionContext, from: &str, about: &str| {
        let sites = row(ctx, &format!("SELECT {of_sites} FROM {from}")).await;
        let spectrum = row(
            ctx,
            &format!("SELECT {of_spectrum} FROM (SELECT sfs(x) AS s FROM {from})"),
        )
        .await;
        for (at, (call, _)) in OF_A_SPECTRUM.iter().enumerate() {
            let about = format!("{about}: {call}");
            assert_close(&floats(&sites[at]), &floats(&spectrum[at]), &about);
        }
    };
    for seed in 0..20 {
        let sites = Sites::random(
            &mut Random::new(700 + seed),
            120,
            2 + seed as usize % 3,
            0.0,
        );
        let ctx = plain_session();
        sites.register(&ctx, "t", 2);
        for column in ["a", "b", "sa"] {
            let from = format!("(SELECT {column} AS x FROM t)");
            check(&ctx, &from, &format!("seed {seed}, {column}")).await;
        }
    }
    let ctx = plain_session();
    with_store(&ctx, "sim").await;
    for population in ["first", "second"] {
        let from = format!("(SELECT allele_counts(call_genotype, '{population}') AS x FROM sim)");
        check(&ctx, &from, population).await;
    }
}

/// With missing calls, too, all ALT alleles are one.
#[tokio::test(flavor = "multi_thread")]
async fn estimators_pool_alleles() {
    for seed in 0..10 {
        let sites = Sites::random(&mut Random::new(800 + seed), 150, 4, 0.5);
        let ctx = plain_session();
        sites.register(&ctx, "t", 2);
        let calls: Vec<&str> = OF_A_SPECTRUM.iter().map(|(call, _)| *call).collect();
        let calls = calls.join(", ").replace("{x}", "x");
        let found = row(
            &ctx,
            &format!("SELECT {calls} FROM (SELECT a AS x FROM t WHERE a IS NOT NULL)"),
        )
        .await;
        let pooled = "[allele_number(a) - derived_count(a), derived_count(a)]";
        let pooled = row(
            &ctx,
            &format!("SELECT {calls} FROM (SELECT {pooled} AS x FROM t WHERE a IS NOT NULL)"),
        )
        .await;
        assert_eq!(found, pooled, "seed {seed}");
    }
}

/// Frames, and the rows of `o` that are in the frame of a row of `t`.
const FRAMES: [(&str, &str); 4] = [
    (
        "ORDER BY site ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
        "o.site BETWEEN t.site - 3 AND t.site",
    ),
    (
        "ORDER BY site ROWS BETWEEN 12 PRECEDING AND 2 FOLLOWING",
        "o.site BETWEEN t.site - 12 AND t.site + 2",
    ),
    (
        "ORDER BY position RANGE BETWEEN 30 PRECEDING AND CURRENT ROW",
        "o.position BETWEEN t.position - 30 AND t.position",
    ),
    (
        "ORDER BY position RANGE BETWEEN 14 PRECEDING AND 4 PRECEDING",
        "o.position BETWEEN t.position - 14 AND t.position - 4",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn sliding_frames_are_recomputation() {
    for seed in 0..3 {
        let mut random = Random::new(500 + seed);
        let sites = Sites::random(&mut random, 160, 3, 0.5);
        for (partitions, batch_size) in [(1, 8192), (4, 16)] {
            let ctx = session(partitions, batch_size);
            sites.register(&ctx, "t", partitions);
            for (frame, within) in FRAMES {
                let over = on_counts("a", "b", " OVER w");
                let sliding = rows(
                    &ctx,
                    &format!("SELECT {over} FROM t WINDOW w AS (PARTITION BY contig {frame}) ORDER BY site"),
                )
                .await;
                let again = on_frames("", ["o.a", "o.b"], "o.site");
                let joined = rows(
                    &ctx,
                    &format!(
                        "SELECT {again} FROM t LEFT JOIN t AS o ON o.contig = t.contig AND {within} \
                         GROUP BY t.site ORDER BY t.site"
                    ),
                )
                .await;
                assert_eq!(sliding.len(), 160);
                for (at, (sliding, joined)) in sliding.iter().zip(&joined).enumerate() {
                    assert_eq!(
                        sliding, joined,
                        "seed {seed}, {partitions} partitions, {frame}, row {at}"
                    );
                }
                let some = |column: usize| sliding.iter().any(|row| !row[column].is_null());
                assert!(
                    (0..AGGREGATES.len()).all(some),
                    "seed {seed}, {frame}: a column of NULL only"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sliding_frames_over_stores_are_recomputation() {
    for (partitions, batch_size) in [(1, 8192), (16, 32)] {
        let ctx = session(partitions, batch_size);
        with_store(&ctx, "missing").await;
        for (frame, low, high) in [
            ("500 PRECEDING AND CURRENT ROW", 500, 0),
            ("150 PRECEDING AND 60 PRECEDING", 150, 60),
        ] {
            let over = on_genotypes("call_genotype", "'first'", "'second'", " OVER w");
            let sliding = rows(
                &ctx,
                &format!(
                    "SELECT {over} FROM missing WINDOW w AS (PARTITION BY variant_contig \
                     ORDER BY variant_position RANGE BETWEEN {frame}) ORDER BY variant_contig, variant_position"
                ),
            )
            .await;
            let again = on_frames(
                "o.call_genotype, ",
                ["'first'", "'second'"],
                "o.variant_position",
            );
            let joined = rows(
                &ctx,
                &format!(
                    "SELECT {again} FROM missing AS t LEFT JOIN missing AS o ON o.variant_contig = t.variant_contig \
                     AND o.variant_position BETWEEN t.variant_position - {low} AND t.variant_position - {high} \
                     GROUP BY t.variant_contig, t.variant_position ORDER BY t.variant_contig, t.variant_position"
                ),
            )
            .await;
            assert_eq!(sliding.len(), 571);
            for (at, (sliding, joined)) in sliding.iter().zip(&joined).enumerate() {
                assert_eq!(
                    sliding, joined,
                    "{partitions} partitions, {frame}, row {at}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rows() {
    let ctx = plain_session();
    let sites = Sites::random(&mut Random::new(600), 90, 3, 0.3);
    sites.register(&ctx, "t", 1);
    let columns = on_counts("a", "b", "");
    let none = [
        format!("SELECT {columns} FROM t WHERE false"),
        format!(
            "SELECT {} FROM t",
            on_counts("a", "b", " FILTER (WHERE site < 0)")
        ),
        // Rows, but none that has counts.
        format!("SELECT {columns} FROM t WHERE a IS NULL AND b IS NULL"),
    ];
    for sql in none {
        let found = row(&ctx, &sql).await;
        for ((name, ..), value) in AGGREGATES.iter().zip(&found) {
            match NULL_OF_NOTHING.contains(name) {
                true => assert!(value.is_null(), "{name}: {sql}"),
                false => assert!(floats(value).iter().all(|&bin| bin == 0.0), "{name}: {sql}"),
            }
        }
        assert_eq!(floats(&found[0]).len() as u64, sites.copies[0] + 1);
        assert_eq!(
            floats(&found[4]).len() as u64,
            (sites.copies[0] + 1) * (sites.copies[1] + 1)
        );
    }

    // The first row of each contig has an empty frame.
    let frames = rows(
        &ctx,
        &format!(
            "SELECT {} FROM t WINDOW w AS (PARTITION BY contig ORDER BY site ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) \
             ORDER BY site",
            on_counts("a", "b", " OVER w")
        ),
    )
    .await;
    for at in [0, 30] {
        for ((name, ..), value) in AGGREGATES.iter().zip(&frames[at]) {
            match name.contains("sfs") || NULL_OF_NOTHING.contains(name) {
                true => assert!(value.is_null(), "{name}, row {at}: {value}"),
                false => {
                    let zeros = floats(value).iter().all(|&number| number == 0.0);
                    assert!(zeros, "{name}, row {at}: {value}");
                }
            }
        }
    }
    assert!(!frames[1][0].is_null() && !frames[31][0].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn filter_is_where() {
    let ctx = session(4, 64);
    with_store(&ctx, "missing").await;
    for filter in [
        "variant_position > 6000",
        "variant_contig = 'X'",
        "is_snp(variant_allele) AND is_pass(variant_filter)",
        "allele_number(allele_counts(call_genotype, 'first')) > 20",
        "genotype_counts(call_genotype, 'second')['het'] < 4",
    ] {
        let columns = on_genotypes(
            "call_genotype",
            "'first'",
            "'second'",
            &format!(" FILTER (WHERE {filter})"),
        );
        let filtered = row(&ctx, &format!("SELECT {columns} FROM missing")).await;
        let columns = on_genotypes("call_genotype", "'first'", "'second'", "");
        let within = row(
            &ctx,
            &format!("SELECT {columns} FROM missing WHERE {filter}"),
        )
        .await;
        assert_eq!(filtered, within, "{filter}");
        let all = row(&ctx, &format!("SELECT {columns} FROM missing")).await;
        assert_ne!(filtered, all, "{filter} keeps everything");
    }
}

/// However a cohort is written, and whatever order its samples come in, the statistics are the same bits.
#[tokio::test(flavor = "multi_thread")]
async fn cohorts_are_sets_of_samples() {
    // `third` of chunks7 is not in store order and shares samples with `first`.
    for (store, one, two) in [
        ("chunks7", "third", "second"),
        ("missing", "first", "second"),
        ("tetraploid", "second", "first"),
    ] {
        let ctx = session(2, 128);
        with_store(&ctx, store).await;
        let samples = members(store, one);
        assert!(samples.len() > 3);
        let list = |samples: &[String]| format!("['{}']", samples.join("', '"));
        let mut permuted = samples.clone();
        permuted.rotate_left(2);
        permuted.swap(0, 1);
        permuted.push(samples[0].clone());

        let file = work_dir().join(format!("cohort.{store}.csv"));
        let mut table = String::from("sample_id,country\n");
        for sample in &permuted {
            table += &format!("{sample},here\n");
        }
        table += &format!("{},there\n", members(store, two)[0]);
        std::fs::write(&file, table).unwrap();
        run(
            &ctx,
            &format!(
                "CREATE EXTERNAL TABLE cohort STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
                file.display()
            ),
        )
        .await;
        let values = permuted
            .iter()
            .map(|sample| format!("('{sample}')"))
            .collect::<Vec<_>>()
            .join(", ");

        let two = format!("'{two}'");
        let columns = on_genotypes("call_genotype", &format!("'{one}'"), &two, "");
        let expected = row(&ctx, &format!("SELECT {columns} FROM {store}")).await;
        for ((name, ..), value) in AGGREGATES.iter().zip(&expected) {
            let nothing = store == "tetraploid" && OF_ZYGOSITY.contains(name);
            assert_eq!(value.is_null(), nothing, "{store}: {name}");
        }
        let same_counts = |one: &str, two: &str| on_counts(one, two, "");
        let cohorts = [
            list(&samples),
            list(&permuted),
            "(SELECT array_agg(sample_id) FROM cohort WHERE country = 'here')".to_string(),
            format!("(SELECT array_agg(v.column1) FROM (VALUES {values}) AS v)"),
            format!(
                "(SELECT sample_ids FROM vcz_populations('{store}') WHERE population = '{one}')"
            ),
        ];
        let mut ways = vec![same_counts(
            &format!("allele_counts(call_genotype, '{one}')"),
            &format!("allele_counts(call_genotype, {two})"),
        )];
        for cohort in &cohorts {
            let counts = [
                format!("allele_counts(call_genotype, {cohort})"),
                format!("allele_counts(call_genotype, {two})"),
            ];
            ways.push(on_genotypes("call_genotype", cohort, &two, ""));
            ways.push(same_counts(&counts[0], &counts[1]));
        }
        for selected in [format!("'{one}'"), list(&permuted)] {
            ways.push(same_counts(
                &format!("allele_counts(select_samples(call_genotype, {selected}))"),
                &format!("allele_counts(call_genotype, {two})"),
            ));
        }
        for columns in ways {
            let sql = format!("SELECT {columns} FROM {store}");
            assert_eq!(row(&ctx, &sql).await, expected, "{sql}");
        }
    }
}

/// Samples named in another order, everywhere at once: half of the store against the other half.
#[tokio::test(flavor = "multi_thread")]
async fn permuting_samples_changes_nothing() {
    let ctx = plain_session();
    with_store(&ctx, "chunks7").await;
    let mut samples: Vec<String> = (0..33).map(|at| format!("s{at:02}")).collect();
    let whole = row(
        &ctx,
        "SELECT sfs(call_genotype), diversity(call_genotype) FROM chunks7",
    )
    .await;
    let halves = |samples: &[String]| {
        let list = |samples: &[String]| format!("['{}']", samples.join("', '"));
        on_genotypes(
            "call_genotype",
            &list(&samples[..15]),
            &list(&samples[15..]),
            "",
        )
    };
    let expected = row(&ctx, &format!("SELECT {} FROM chunks7", halves(&samples))).await;
    let mut random = Random::new(700);
    for _ in 0..4 {
        for half in [0..15, 15..33] {
            for at in half.clone().skip(1) {
                let other = half.start + random.below((at - half.start + 1) as u64) as usize;
                samples.swap(at, other);
            }
        }
        let found = row(&ctx, &format!("SELECT {} FROM chunks7", halves(&samples))).await;
        assert_eq!(found, expected, "{samples:?}");
        let list = format!("['{}']", samples.join("', '"));
        let sql = format!(
            "SELECT sfs(call_genotype, {list}), diversity(call_genotype, {list}) FROM chunks7"
        );
        assert_eq!(row(&ctx, &sql).await, whole, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grouping_pairs_of_populations_is_asking_for_each() {
    for (store, pairs) in [("chunks7", 3), ("missing", 1)] {
        let ctx = session(4, 64);
        with_store(&ctx, store).await;
        let unnested =
            format!("SELECT unnest(population_pair_counts(call_genotype)) AS p FROM {store}");
        let columns = without_copies("p['ac1']", "p['ac2']");
        let grouped = rows(
            &ctx,
            &format!(
                "SELECT p['population1'], p['population2'], min(p['copies1']), max(p['copies2']), {columns} \
                 FROM ({unnested}) GROUP BY 1, 2"
            ),
        )
        .await;
        assert_eq!(grouped.len(), pairs);
        for found in grouped {
            let [one, two] = [&found[0], &found[1]].map(|name| name.to_string());
            let counts = [&one, &two].map(|name| format!("allele_counts(call_genotype, '{name}')"));
            let copies = |name: &str| {
                format!(
                    "(SELECT CAST(copies AS BIGINT) FROM vcz_populations('{store}') WHERE population = '{name}')"
                )
            };
            let sql = format!(
                "SELECT {} AS copies1, {} AS copies2, {} FROM {store}",
                copies(&one),
                copies(&two),
                without_copies(&counts[0], &counts[1])
            );
            assert_eq!(found[2..], row(&ctx, &sql).await, "{store}, {one}, {two}");
        }
        // The scan computes it.
        let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {unnested}")).await;
        let plan: String = plan.iter().map(|line| line[1].to_string()).collect();
        assert!(plan.contains("population_pair_counts("), "{plan}");
        assert!(plan.contains("functions="), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grouping_population_counts_is_asking_for_each() {
    for store in ["chunks7", "missing"] {
        let ctx = session(4, 64);
        with_store(&ctx, store).await;
        let columns = without_copies("p['ac']", "p['ac']");
        let grouped = rows(
            &ctx,
            &format!(
                "SELECT p['population'] AS population, {columns} \
                 FROM (SELECT unnest(population_counts(call_genotype)) AS p FROM {store}) GROUP BY population"
            ),
        )
        .await;
        let histogram = rows(
            &ctx,
            &format!(
                "SELECT p['population'] AS population, derived_count(p['ac']) AS d, count(*) \
                 FROM (SELECT unnest(population_counts(call_genotype)) AS p FROM {store}) \
                 WHERE allele_number(p['ac']) = p['copies'] GROUP BY population, d"
            ),
        )
        .await;
        assert_eq!(grouped.len(), if store == "chunks7" { 3 } else { 2 });
        for found in grouped {
            let population = found[0].to_string();
            let one = format!("allele_counts(call_genotype, '{population}')");
            let sql = format!(
                "SELECT {}, sfs({one}) FROM {store}",
                without_copies(&one, &one)
            );
            let mut expected = row(&ctx, &sql).await;
            let spectrum = floats(&expected.pop().unwrap());
            assert_eq!(found[1..], expected, "{store}, {population}");
            let mut bins = vec![0.0; spectrum.len()];
            for bin in histogram.iter().filter(|bin| bin[0] == found[0]) {
                bins[floats(&bin[1])[0] as usize] = floats(&bin[2])[0];
            }
            assert_eq!(bins, spectrum, "{store}, {population}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_in_parquet_give_the_same() {
    for (store, partitions) in [("missing", 1), ("chunks7", 16)] {
        let ctx = session(partitions, 100);
        with_store(&ctx, store).await;
        let file = work_dir().join(format!("laws.{store}.parquet"));
        run(
            &ctx,
            &format!(
                "COPY (SELECT variant_contig, variant_position, allele_counts(call_genotype, 'first') AS a, \
                 allele_counts(call_genotype, 'second') AS b, zygosity_counts(call_genotype, 'first') AS za, \
                 zygosity_counts(call_genotype, 'second') AS zb FROM {store}) TO '{}' STORED AS PARQUET",
                file.display()
            ),
        )
        .await;
        // A session that has never seen the store.
        let other = session(partitions, 64);
        run(
            &other,
            &format!(
                "CREATE EXTERNAL TABLE counts STORED AS PARQUET LOCATION '{}'",
                file.display()
            ),
        )
        .await;
        let over = " OVER (PARTITION BY variant_contig ORDER BY variant_position ROWS BETWEEN 5 PRECEDING AND CURRENT ROW)";
        for (over, rest) in [
            ("", ""),
            (
                "",
                "GROUP BY variant_contig, genome_bin(variant_position, 2500) ORDER BY variant_contig, genome_bin(variant_position, 2500)",
            ),
            (over, "ORDER BY variant_contig, variant_position"),
        ] {
            let columns = on_genotypes("call_genotype", "'first'", "'second'", over);
            let expected = rows(&ctx, &format!("SELECT {columns} FROM {store} {rest}")).await;
            let columns = on_counts("a", "b", over);
            let found = rows(&other, &format!("SELECT {columns} FROM counts {rest}")).await;
            assert!(!expected.is_empty());
            assert_eq!(found, expected, "{store}: {over} {rest}");
        }
    }
}

/// What the scan cannot take is evaluated above it, with the same result.
#[tokio::test(flavor = "multi_thread")]
async fn evaluation_above_the_scan_gives_the_same() {
    for (store, partitions) in [("missing", 1), ("chunks7", 4)] {
        let ctx = session(partitions, 100);
        with_store(&ctx, store).await;
        let columns = on_genotypes("call_genotype", "'first'", "'second'", "");
        let expected = row(&ctx, &format!("SELECT {columns} FROM {store}")).await;

        let barrier = format!(
            "SELECT DISTINCT variant_contig, variant_position, call_genotype AS g FROM {store}"
        );
        let barriers = on_genotypes("g", "'first'", "'second'", "");
        let sql = format!("SELECT {barriers} FROM ({barrier})");
        assert_eq!(row(&ctx, &sql).await, expected, "{sql}");
        // This one does read the genotypes, so the others cannot all be the same plan.
        let plan = rows(&ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
        let plan: String = plan.iter().map(|line| line[1].to_string()).collect();
        let scan = plan
            .lines()
            .find(|line| line.contains("VczSource"))
            .unwrap();
        assert!(
            scan.contains("call_genotype") && !scan.contains("functions="),
            "{plan}"
        );

        let limited = format!(
            "SELECT call_genotype AS g FROM {store} ORDER BY variant_position DESC LIMIT 100000"
        );
        let halves = format!(
            "SELECT call_genotype AS g FROM {store} WHERE variant_position <= 9000 \
             UNION ALL SELECT call_genotype FROM {store} WHERE variant_position > 9000"
        );
        for inner in [limited, halves] {
            let sql = format!("SELECT {barriers} FROM ({inner})");
            assert_eq!(row(&ctx, &sql).await, expected, "{sql}");
        }
        let right = on_genotypes("o.call_genotype", "'first'", "'second'", "");
        let same_site =
            "t.variant_contig = o.variant_contig AND t.variant_position = o.variant_position";
        for join in [
            format!("{store} AS t JOIN {store} AS o ON {same_site}"),
            format!("{store} AS t LEFT JOIN {store} AS o ON {same_site}"),
            format!(
                "(SELECT * FROM {store} WHERE variant_position < 3000) AS t RIGHT JOIN {store} AS o ON {same_site}"
            ),
        ] {
            let sql = format!("SELECT {right} FROM {join}");
            assert_eq!(row(&ctx, &sql).await, expected, "{sql}");
        }

        // A CASE may not keep the number of copies, but the counts are the counts.
        let case = |name: &str| {
            format!(
                "CASE WHEN variant_position % 2 = 0 THEN allele_counts(call_genotype, '{name}') \
                 ELSE add_counts(allele_counts(call_genotype, '{name}'), [0]) END"
            )
        };
        let sql = format!(
            "SELECT {} FROM (SELECT {} AS a, {} AS b FROM {store})",
            without_copies("a", "b"),
            case("first"),
            case("second")
        );
        let found = row(&ctx, &sql).await;
        let sql = format!(
            "SELECT {} FROM {store}",
            without_copies(
                "allele_counts(call_genotype, 'first')",
                "allele_counts(call_genotype, 'second')"
            )
        );
        assert_eq!(found, row(&ctx, &sql).await, "{store}");
        assert!(found.len() > 8);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_forms_are_the_counts_forms() {
    let ctx = session(4, 64);
    with_store(&ctx, "missing").await;
    let names = ["'first'", "'second'"];
    let counts = names.map(|name| format!("allele_counts(call_genotype, {name})"));
    let frame = " OVER (PARTITION BY variant_contig ORDER BY variant_position ROWS BETWEEN 9 PRECEDING AND 1 FOLLOWING)";
    for (over, rest) in [
        ("", ""),
        (
            "",
            "WHERE variant_position > 5000 GROUP BY variant_contig ORDER BY variant_contig",
        ),
        (frame, "ORDER BY variant_contig, variant_position"),
    ] {
        let short = on_genotypes("call_genotype", names[0], names[1], over);
        let short = rows(&ctx, &format!("SELECT {short} FROM missing {rest}")).await;
        let plain = on_counts(&counts[0], &counts[1], over);
        let plain = rows(&ctx, &format!("SELECT {plain} FROM missing {rest}")).await;
        assert_eq!(short, plain, "{over} {rest}");
    }
    // Without a population: everyone.
    let found = row(
        &ctx,
        "SELECT sfs(call_genotype), sfs(allele_counts(call_genotype)), tajimas_d(call_genotype), \
         tajimas_d(allele_counts(call_genotype)), project_sfs(call_genotype, 6), \
         project_sfs(allele_counts(call_genotype), 6) FROM missing",
    )
    .await;
    for pair in found.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_add_up() {
    // Integer spectra and exact sums: statistics of parts add up to those of the whole.
    let ctx = session(4, 64);
    with_store(&ctx, "sim").await;
    let columns = "sfs(call_genotype, 'first'), segregating_sites(call_genotype, 'first'), diversity(call_genotype, 'first'), \
                   theta_w(call_genotype, 'first'), divergence(call_genotype, 'first', 'second')";
    let whole = row(&ctx, &format!("SELECT {columns} FROM sim")).await;
    let parts = rows(
        &ctx,
        &format!(
            "SELECT {columns} FROM sim GROUP BY variant_contig, genome_bin(variant_position, 7000)"
        ),
    )
    .await;
    assert!(parts.len() > 50);
    let mut sums: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for part in &parts {
        for (column, value) in part.iter().enumerate() {
            let value = floats(value);
            let sum = sums.entry(column).or_insert_with(|| vec![0.0; value.len()]);
            sum.iter_mut()
                .zip(value)
                .for_each(|(sum, value)| *sum += value);
        }
    }
    for (column, sum) in sums {
        assert_close(&sum, &floats(&whole[column]), &format!("column {column}"));
    }
}
