//! Every number of `expected.json`, of the fixtures and of the real stores where those are present, through SQL.
//!
//! Each store is read twice: its zip with statistics of `call_genotype`, and unpacked, in another session with small batches
//! and several partitions, with statistics of allele counts. Counts are compared exactly, floats to 1e-12.

use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use serde_json::{Map, Value, json};

use crate::common;

/// How far a float may be from the expected one, relative, and absolute where that is near 0.
const TOLERANCE: f64 = 1e-12;

/// The JSON document at `path`.
pub fn read_json(path: &Path) -> Value {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

// ---------------------------------------------------------------------------------------------- comparing

/// A value of a result as JSON. Integers stay integers, so that a count that comes as a float is a difference.
fn to_json(value: &ScalarValue) -> Value {
    if value.is_null() {
        return Value::Null;
    }
    let elements = |list: ArrayRef| -> Value {
        (0..list.len())
            .map(|at| to_json(&ScalarValue::try_from_array(&list, at).unwrap()))
            .collect()
    };
    match value {
        ScalarValue::List(list) => elements(list.value(0)),
        ScalarValue::FixedSizeList(list) => elements(list.value(0)),
        ScalarValue::Int64(Some(number)) => json!(number),
        ScalarValue::Int8(Some(number)) => json!(number),
        ScalarValue::Int32(Some(number)) => json!(number),
        ScalarValue::UInt64(Some(number)) => json!(number),
        // What DataFusion makes of a sum of unsigned integers.
        ScalarValue::Decimal128(Some(number), _, 0) => json!(i64::try_from(*number).unwrap()),
        ScalarValue::Float64(Some(number)) => {
            assert!(number.is_finite(), "{number}");
            json!(number)
        }
        ScalarValue::Boolean(Some(is)) => json!(is),
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => json!(text),
        other => panic!("a result of type {}", other.data_type()),
    }
}

/// The rows of a result as objects.
pub fn objects(batches: &[RecordBatch]) -> Vec<Map<String, Value>> {
    let mut rows = Vec::new();
    for batch in batches {
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let cell =
                |column: &ArrayRef| to_json(&ScalarValue::try_from_array(column, row).unwrap());
            let names = schema.fields().iter().map(|field| field.name().clone());
            rows.push(names.zip(batch.columns().iter().map(cell)).collect());
        }
    }
    rows
}

async fn query(ctx: &SessionContext, sql: &str) -> Vec<Map<String, Value>> {
    objects(&common::run(ctx, sql).await)
}

/// The only row of a result.
async fn one_row(ctx: &SessionContext, sql: &str) -> Map<String, Value> {
    let mut rows = query(ctx, sql).await;
    assert_eq!(rows.len(), 1, "expected one row from: {sql}");
    rows.remove(0)
}

fn near(found: f64, wanted: f64, tolerance: f64) -> bool {
    (found - wanted).abs() <= tolerance * wanted.abs().max(1e-3)
        || (wanted == 0.0 && found.abs() <= tolerance)
}

/// Asserts that `found` is `wanted`: integers and text exactly, floats as `near` has it, null only where null is expected.
pub fn assert_near(found: &Value, wanted: &Value, near: &impl Fn(f64, f64) -> bool, place: &str) {
    match (found, wanted) {
        (Value::Array(found), Value::Array(wanted)) => {
            assert_eq!(found.len(), wanted.len(), "{place}: number of entries");
            for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                assert_near(found, wanted, near, &format!("{place}[{at}]"));
            }
        }
        (Value::Number(found), Value::Number(wanted)) if wanted.is_f64() => {
            assert!(found.is_f64(), "{place}: {found} is not a float");
            let (found, wanted) = (found.as_f64().unwrap(), wanted.as_f64().unwrap());
            assert!(
                near(found, wanted),
                "{place}: {found:?}, expected {wanted:?}"
            );
        }
        _ => assert_eq!(found, wanted, "{place}"),
    }
}

/// [`assert_near`] with floats within `tolerance`.
fn assert_same(found: &Value, wanted: &Value, tolerance: f64, place: &str) {
    let near = |found, wanted| near(found, wanted, tolerance);
    assert_near(found, wanted, &near, place);
}

/// Compares each of `keys` of a row with the expected object.
fn assert_keys(row: &Map<String, Value>, wanted: &Value, keys: &[&str], place: &str) {
    for key in keys {
        let (found, wanted) = (row.get(*key), wanted.get(*key));
        let (Some(found), Some(wanted)) = (found, wanted) else {
            panic!("{place}: {key} is not there")
        };
        assert_same(found, wanted, TOLERANCE, &format!("{place}: {key}"));
    }
}

/// The keys of an expected object.
fn keys(object: &Value) -> Vec<&str> {
    let entries = object.as_object().unwrap();
    entries.keys().map(String::as_str).collect()
}

/// Compares rows with expected objects, in order: every expected key must be a column.
fn assert_rows(rows: &[Map<String, Value>], wanted: &Value, place: &str) {
    let wanted = wanted.as_array().unwrap();
    assert_eq!(rows.len(), wanted.len(), "{place}: number of rows");
    for (at, (row, wanted)) in rows.iter().zip(wanted).enumerate() {
        assert_keys(row, wanted, &keys(wanted), &format!("{place}, row {at}"));
    }
}

// ---------------------------------------------------------------------------------------------- one store

/// Whether statistics are asked of the genotypes or of their counts. The plans below the output name are the same.
#[derive(Clone, Copy, Debug)]
enum Form {
    Genotypes,
    Counts,
}

/// A store that is registered as the table `t`.
struct Store<'a> {
    ctx: &'a SessionContext,
    name: String,
    expected: &'a Value,
    form: Form,
    /// The populations by name when there is no file of them: the first half of the samples and the rest.
    halves: Option<[Vec<String>; 2]>,
}

impl<'a> Store<'a> {
    async fn open(
        ctx: &'a SessionContext,
        path: &Path,
        populations: &Path,
        expected: &'a Value,
        form: Form,
    ) -> Store<'a> {
        let name = format!("{} ({form:?})", path.display());
        let file = populations.exists().then_some(populations);
        common::run(ctx, "DROP TABLE IF EXISTS t").await;
        common::create(ctx, "t", path, file).await;
        let halves = if file.is_none() {
            let rows = query(
                ctx,
                "SELECT sample_id FROM vcz_samples('t') ORDER BY sample_index",
            )
            .await;
            let mut first: Vec<String> = rows
                .iter()
                .map(|row| row["sample_id"].as_str().unwrap().to_string())
                .collect();
            let second = first.split_off(first.len().div_ceil(2));
            Some([first, second])
        } else {
            None
        };
        Store {
            ctx,
            name,
            expected,
            form,
            halves,
        }
    }

    /// The argument that selects a population, with the comma before it, or nothing for all samples.
    fn argument(&self, population: &str) -> String {
        match (population, &self.halves) {
            ("all", _) => String::new(),
            (name, None) => format!(", '{name}'"),
            (name, Some(halves)) => {
                let ids: Vec<String> = halves[usize::from(name == "second")]
                    .iter()
                    .map(|id| format!("'{}'", id.replace('\'', "''")))
                    .collect();
                format!(", [{}]", ids.join(", "))
            }
        }
    }

    fn copies(&self, population: &str) -> u64 {
        self.expected[population]["copies"].as_u64().unwrap()
    }

    async fn check(&self) {
        self.check_sites().await;
        if self.expected.get("all").is_some() {
            self.check_genotypes().await;
            let entries = self.expected.as_object().unwrap();
            let mut pairs = 0;
            for (key, values) in entries {
                if values.get("copies").is_some() {
                    self.check_population(key, values).await;
                } else if values.get("joint_sfs_cells").is_some() {
                    self.check_pair(key, values).await;
                    pairs += 1;
                }
            }
            assert!(pairs >= 1, "{}: no pair of populations", self.name);
        }
        if let Some(columns) = self.expected.get("columns") {
            for (name, summary) in columns.as_object().unwrap() {
                self.check_column(name, summary).await;
            }
        }
    }

    /// Number of variants, in all and by contig, and their positions, and what the metadata functions say.
    async fn check_sites(&self) {
        let sql =
            "SELECT count(*) AS variants, CAST(min(variant_position) AS BIGINT) AS position_min,
                          CAST(max(variant_position) AS BIGINT) AS position_max FROM t";
        let row = one_row(self.ctx, sql).await;
        assert_keys(
            &row,
            self.expected,
            &["variants", "position_min", "position_max"],
            &self.name,
        );

        let rows = query(
            self.ctx,
            "SELECT variant_contig, count(*) AS n FROM t GROUP BY variant_contig",
        )
        .await;
        let contigs: Map<String, Value> = rows
            .iter()
            .map(|row| {
                (
                    row["variant_contig"].as_str().unwrap().to_string(),
                    row["n"].clone(),
                )
            })
            .collect();
        assert_eq!(
            Value::Object(contigs),
            self.expected["contigs"],
            "{}: contigs",
            self.name
        );

        let samples = one_row(self.ctx, "SELECT count(*) AS samples FROM vcz_samples('t')").await;
        assert_keys(&samples, self.expected, &["samples"], &self.name);
        if self.expected.get("arrays").is_some() {
            let arrays = one_row(self.ctx, "SELECT count(*) AS arrays FROM vcz_arrays('t')").await;
            assert_keys(&arrays, self.expected, &["arrays"], &self.name);
        }
    }

    /// The shape of the genotypes and the classes of individuals.
    async fn check_genotypes(&self) {
        let row = one_row(
            self.ctx,
            "SELECT shape, chunks FROM vcz_arrays('t') WHERE name = 'call_genotype'",
        )
        .await;
        let of = |key: &str| self.expected[key].clone();
        assert_eq!(
            row["shape"],
            json!([of("variants"), of("samples"), of("ploidy")]),
            "{}: shape",
            self.name
        );
        if self.expected.get("chunks").is_some() {
            assert_keys(&row, self.expected, &["chunks"], &self.name);
        }
        let classes = ["hom_ref", "het", "hom_alt", "haploid", "missing"];
        let sums: Vec<String> = classes
            .iter()
            .map(|class| match self.form {
                Form::Genotypes => {
                    format!("sum(genotype_counts(call_genotype)['{class}']) AS {class}")
                }
                Form::Counts => format!("sum(g['{class}']) AS {class}"),
            })
            .collect();
        let from = match self.form {
            Form::Genotypes => "t",
            Form::Counts => "(SELECT genotype_counts(call_genotype) AS g FROM t)",
        };
        let row = one_row(self.ctx, &format!("SELECT {} FROM {from}", sums.join(", "))).await;
        assert_keys(
            &row,
            &self.expected["genotype_counts"],
            &classes,
            &format!("{}: genotype counts", self.name),
        );
    }

    /// Everything about one population in one query.
    async fn check_population(&self, population: &str, wanted: &Value) {
        let place = format!("{}, {population}", self.name);
        if self.copies(population) == 0 {
            // A store of one sample: the second half is nobody, which is an error, and never everybody.
            assert_eq!(wanted["allele_number"], json!(0), "{place}");
            let error = common::fails(self.ctx, "SELECT sfs(call_genotype, []) FROM t").await;
            assert!(
                error.contains("the population is an empty list"),
                "{place}: {error}"
            );
            return;
        }
        let argument = self.argument(population);
        let (x, ac, from) = match self.form {
            Form::Genotypes => (
                format!("call_genotype{argument}"),
                format!("allele_counts(call_genotype{argument})"),
                "t".to_string(),
            ),
            Form::Counts => (
                "ac".to_string(),
                "ac".to_string(),
                format!("(SELECT allele_counts(call_genotype{argument}) AS ac FROM t)"),
            ),
        };
        let alleles = self.expected["n_alleles"].as_u64().unwrap();
        let sums: Vec<String> = (1..=alleles)
            .map(|allele| format!("sum({ac}[{allele}])"))
            .collect();
        let m = wanted["project_m"].as_u64().unwrap();
        let sql = format!(
            "SELECT count(*) FILTER (WHERE allele_number({ac}) > 0) AS sites_with_data,
                    sum(allele_number({ac})) AS allele_number,
                    make_array({sums}) AS allele_count_sums,
                    CAST(cardinality(sfs({x})) AS BIGINT) - 1 AS copies,
                    diversity({x}) AS diversity, segregating_sites({x}) AS segregating_sites,
                    theta_w({x}) AS theta_w, tajimas_d({x}) AS tajimas_d,
                    sfs({x}) AS sfs, sfs_folded({x}) AS sfs_folded,
                    project_sfs({x}, {m}) AS project_sfs, project_sfs_folded({x}, {m}) AS project_sfs_folded
             FROM {from}",
            sums = sums.join(", ")
        );
        let row = one_row(self.ctx, &sql).await;
        let keys = [
            "sites_with_data",
            "allele_number",
            "allele_count_sums",
            "copies",
            "diversity",
            "segregating_sites",
            "theta_w",
            "tajimas_d",
            "sfs",
            "sfs_folded",
            "project_sfs",
            "project_sfs_folded",
        ];
        assert_keys(&row, wanted, &keys, &place);
        self.check_estimators(&x, &from, wanted, &place).await;
        if self.halves.is_none() && population != "all" {
            let sql = format!(
                "SELECT copies FROM vcz_populations('t') WHERE population = '{population}'"
            );
            assert_keys(&one_row(self.ctx, &sql).await, wanted, &["copies"], &place);
        }
    }

    /// The estimators of θ that are linear in the spectrum, and tests of them: of the sites and of their spectrum.
    /// The values of the fixtures have them; those of the real stores are in the catalogue, which has tests of its own.
    async fn check_estimators(&self, x: &str, from: &str, wanted: &Value, place: &str) {
        let (Some(sites), Some(spectrum)) = (wanted.get("estimators"), wanted.get("of_spectrum"))
        else {
            return;
        };
        let of_sites = keys(sites)
            .into_iter()
            .map(|name| format!("{name}({x}) AS {name}"));
        let of_sites: Vec<String> = of_sites.collect();
        let sql = format!("SELECT {} FROM {from}", of_sites.join(", "));
        assert_keys(&one_row(self.ctx, &sql).await, sites, &keys(sites), place);
        let of_spectrum = keys(spectrum).into_iter().map(|name| match name {
            "test_pi_w" => format!("spectrum_test(s, 'pi', 'w') AS {name}"),
            "test_h_no_singletons" => format!("spectrum_test(s, 'h', 'no_singletons') AS {name}"),
            _ => format!("spectrum_theta(s, '{name}') AS {name}"),
        });
        let of_spectrum: Vec<String> = of_spectrum.collect();
        let sql = format!(
            "SELECT {} FROM (SELECT sfs({x}) AS s FROM {from})",
            of_spectrum.join(", ")
        );
        assert_keys(
            &one_row(self.ctx, &sql).await,
            spectrum,
            &keys(spectrum),
            place,
        );
    }

    /// Everything about two populations in one query. The joint spectrum is summarised here, as the expected values are.
    async fn check_pair(&self, pair: &str, wanted: &Value) {
        let place = format!("{}, {pair}", self.name);
        let (first, second) = pair.split_once('_').unwrap();
        if self.copies(first) == 0 || self.copies(second) == 0 {
            return; // checked for the population
        }
        let (a, b) = (self.argument(first), self.argument(second));
        let (x, from) = match self.form {
            Form::Genotypes => (format!("call_genotype{a}{b}"), "t".to_string()),
            Form::Counts => (
                "a, b".to_string(),
                format!(
                    "(SELECT allele_counts(call_genotype{a}) AS a, allele_counts(call_genotype{b}) AS b FROM t)"
                ),
            ),
        };
        let (m1, m2) = (&wanted["project_m"][0], &wanted["project_m"][1]);
        let sql = format!(
            "SELECT divergence({x}) AS divergence, fst_hudson({x}) AS fst_hudson,
                    joint_sfs({x}) AS joint_sfs, joint_sfs_folded({x}) AS joint_sfs_folded,
                    project_joint_sfs({x}, {m1}, {m2}) AS project_joint_sfs,
                    project_joint_sfs_folded({x}, {m1}, {m2}) AS project_joint_sfs_folded
             FROM {from}"
        );
        let mut row = one_row(self.ctx, &sql).await;
        let shape = [
            self.copies(first) as usize + 1,
            self.copies(second) as usize + 1,
        ];
        let cells = cells(&row["joint_sfs"], shape, &place);
        assert!(
            row["joint_sfs"][0][0].is_i64(),
            "{place}: sites are counted in integers"
        );
        let folded = self::cells(&row["joint_sfs_folded"], shape, &place);
        let checksum = |cells: &[(usize, usize, f64)]| -> f64 {
            cells
                .iter()
                .map(|&(i, j, sites)| sites * (31 * i + 17 * j + 1) as f64)
                .sum()
        };
        let total: f64 = cells.iter().map(|cell| cell.2).sum();
        row.insert("joint_sfs_cells".into(), json!(cells.len()));
        row.insert("joint_sfs_total".into(), json!(total as i64));
        row.insert("joint_sfs_checksum".into(), json!(checksum(&cells) as i64));
        row.insert("joint_sfs_folded_checksum".into(), json!(checksum(&folded)));
        assert_eq!(
            folded.iter().map(|cell| cell.2).sum::<f64>(),
            total,
            "{place}: folding keeps the sites"
        );
        let keys = [
            "divergence",
            "fst_hudson",
            "joint_sfs_cells",
            "joint_sfs_total",
            "joint_sfs_checksum",
            "joint_sfs_folded_checksum",
            "project_joint_sfs",
            "project_joint_sfs_folded",
        ];
        assert_keys(&row, wanted, &keys, &place);
    }

    /// A column's values: how many are missing, fill and neither, and the sum of the last.
    async fn check_column(&self, name: &str, wanted: &Value) {
        let place = format!("{}, column {name}", self.name);
        let number = |key: &str| wanted[key].as_i64().unwrap();
        let shape = wanted["shape"].as_array().unwrap();
        let sum = match wanted["dtype"].as_str().unwrap() {
            "string" => "coalesce(sum(character_length(v)), 0)",
            "bool" if name != "variant_filter" => "count(*) FILTER (WHERE v)",
            "bool" => "count(v)",
            float if float.starts_with("float") => "exact_sum(v)",
            _ => "coalesce(sum(v), 0)",
        };
        let empty = match wanted["dtype"].as_str().unwrap() {
            "string" => "count(*) FILTER (WHERE v = '')",
            _ => "0",
        };
        let from = match shape.len() {
            1 => format!("SELECT \"{name}\" AS v FROM t"),
            2 => format!("SELECT unnest(\"{name}\") AS v FROM t"),
            _ => format!("SELECT unnest(u) AS v FROM (SELECT unnest(\"{name}\") AS u FROM t)"),
        };
        let sql = format!(
            "SELECT count(*) AS n, count(v) AS valid, {empty} AS empty, {sum} AS sum FROM ({from})"
        );
        let row = one_row(self.ctx, &sql).await;
        let (n, valid, empty) = (
            row["n"].as_i64().unwrap(),
            row["valid"].as_i64().unwrap(),
            row["empty"].as_i64().unwrap(),
        );
        assert_same(&row["sum"], &wanted["sum"], TOLERANCE, &place);
        let all: i64 = shape
            .iter()
            .map(|length| length.as_i64().unwrap())
            .product();
        if name == "variant_filter" {
            // One name for each filter that applies.
            assert_eq!([n, valid], [number("sum"); 2], "{place}");
        } else if shape.len() == 1 {
            // An empty string stays one; of numbers there is no fill in one dimension.
            assert_eq!(
                [n, n - valid, empty],
                [all, number("missing"), number("fill")],
                "{place}"
            );
        } else if name.starts_with("variant_") {
            // Lists end where fill begins; missing entries are NULL.
            assert_eq!(
                [n, valid, empty],
                [number("missing") + number("values"), number("values"), 0],
                "{place}"
            );
        } else {
            // One entry for each sample, and number; missing and fill are both NULL.
            assert_eq!([n, valid, empty], [all, number("values"), 0], "{place}");
        }
    }
}

/// The cells of a joint spectrum that are not 0, with their place, after checking the grid's shape.
fn cells(grid: &Value, shape: [usize; 2], place: &str) -> Vec<(usize, usize, f64)> {
    let rows = grid.as_array().unwrap();
    assert_eq!(rows.len(), shape[0], "{place}: rows");
    let mut cells = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let row = row.as_array().unwrap();
        assert_eq!(row.len(), shape[1], "{place}: columns");
        let values = row.iter().map(|value| value.as_f64().unwrap()).enumerate();
        cells.extend(
            values
                .filter(|(_, sites)| *sites != 0.0)
                .map(|(j, sites)| (i, j, sites)),
        );
    }
    cells
}

/// Both forms of a store: the zip, and the unpacked directory.
async fn check_zip_and_directory(zip: &Path, populations: &Path, expected: &Value) {
    assert!(zip.exists(), "{} is not there", zip.display());
    Store::open(
        &common::plain_session(),
        zip,
        populations,
        expected,
        Form::Genotypes,
    )
    .await
    .check()
    .await;
    let folder = tempfile::tempdir().unwrap();
    let directory = common::unpack(zip, folder.path());
    Store::open(
        &common::session(3, 500),
        &directory,
        populations,
        expected,
        Form::Counts,
    )
    .await
    .check()
    .await;
}

/// The stores of a folder with an `expected.json`, in the order of their names, with their populations files.
fn stores(folder: &Path) -> Vec<(PathBuf, PathBuf, Value)> {
    let Value::Object(all) = read_json(&folder.join("expected.json")) else {
        panic!("an object")
    };
    let stores: Vec<_> = all
        .into_iter()
        .map(|(name, expected)| {
            let base = name.trim_end_matches(".vcz").trim_end_matches(".v3");
            (
                folder.join(format!("{name}.zip")),
                folder.join(format!("{base}.populations.tsv")),
                expected,
            )
        })
        .collect();
    assert!(!stores.is_empty());
    stores
}

// ---------------------------------------------------------------------------------------------- the tests

#[tokio::test(flavor = "multi_thread")]
async fn fixtures() {
    let stores = stores(&common::fixtures());
    assert!(stores.len() >= 22, "{} stores", stores.len());
    for (zip, populations, expected) in &stores {
        check_zip_and_directory(zip, populations, expected).await;
    }
}

/// One table in every layout: all values are the same.
#[tokio::test(flavor = "multi_thread")]
async fn layouts() {
    let folder = common::fixtures().join("layouts");
    let all = read_json(&folder.join("expected.json"));
    let (names, expected) = (all["stores"].as_object().unwrap(), &all["expected"]);
    assert!(names.len() >= 80, "{} layouts", names.len());
    assert!(expected["all"]["estimators"].is_object());
    let populations = folder.join("populations.tsv");
    let (plain, small) = (common::plain_session(), common::session(3, 64));
    let unpacked = tempfile::tempdir().unwrap();
    for name in names.keys() {
        let zip = folder.join(format!("{name}.vcz.zip"));
        Store::open(&plain, &zip, &populations, expected, Form::Genotypes)
            .await
            .check()
            .await;
        // What is special about these is the zip.
        if !name.starts_with("zip-") {
            let directory = common::unpack(&zip, unpacked.path());
            Store::open(&small, &directory, &populations, expected, Form::Counts)
                .await
                .check()
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_stores() {
    let Some(folder) = common::shared_data() else {
        return;
    };
    let stores = stores(&folder);
    assert!(stores.len() >= 27, "{} stores", stores.len());
    for (zip, populations, expected) in &stores {
        check_zip_and_directory(zip, populations, expected).await;
    }
}

fn fixture(name: &str) -> String {
    common::fixtures().join(name).display().to_string()
}

/// `sim` as a table of that name, and what is expected of it.
async fn sim(ctx: &SessionContext) -> Value {
    let path = common::fixtures().join("sim.vcz.zip");
    common::create(
        ctx,
        "sim",
        &path,
        Some(&common::fixtures().join("sim.populations.tsv")),
    )
    .await;
    read_json(&common::fixtures().join("expected.json"))["sim.vcz"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn polarized_spectra() {
    let ctx = common::session(2, 8192);
    let expected = sim(&ctx).await;
    for (population, wanted) in expected["polarized"].as_object().unwrap() {
        let argument = if population == "all" {
            String::new()
        } else {
            format!(", '{population}'")
        };
        let sql = format!(
            "SELECT count(p) AS sites, sfs(p) AS sfs, sfs_folded(p) AS sfs_folded FROM (
               SELECT polarize(allele_counts(call_genotype{argument}), variant_allele, variant_AA) AS p FROM sim)"
        );
        assert_keys(
            &one_row(&ctx, &sql).await,
            wanted,
            &["sites", "sfs", "sfs_folded"],
            population,
        );
    }
}

/// The statistics of windows and genes, of counts `a` (first) and `b` (second) that are NULL where there is no variant.
const INTERVAL: &str = "count(a) AS variants, segregating_sites(a) AS segregating_first,
    diversity(a) AS diversity_first, diversity(b) AS diversity_second, theta_w(a) AS theta_w_first,
    divergence(a, b) AS divergence, fst_hudson(a, b) AS fst_hudson,
    tajimas_d(a) AS tajimas_d_first, tajimas_d(b) AS tajimas_d_second";

#[tokio::test(flavor = "multi_thread")]
async fn windows() {
    let ctx = common::session(2, 1000);
    let expected = sim(&ctx).await;
    let all = expected["windows"].as_object().unwrap();
    assert_eq!(all.len(), 3);
    for (name, wanted) in all {
        let (size, step) = (&wanted["size"], &wanted["step"]);
        let mask = wanted["mask"].as_str().map(fixture);
        let filter = mask.as_ref().map_or(String::new(), |mask| {
            format!("WHERE is_accessible(variant_contig, variant_position, '{mask}')")
        });
        let mask = mask.map_or(String::new(), |mask| format!(", '{mask}'"));
        // Every way to assign variants to windows that fits gives the same.
        let mut assignments = vec![format!(
            "unnest(genome_bins(variant_position, {size}, {step}))"
        )];
        if size == step {
            assignments.push(format!("genome_bin(variant_position, {size})"));
        }
        for bins in assignments {
            // Windows are aggregated before the join with the grid of windows, whose empty ones stay.
            let sql = format!(
                "WITH w AS (
                   SELECT variant_contig, start, {INTERVAL} FROM (
                     SELECT variant_contig, {bins} AS start,
                            allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b
                     FROM sim {filter})
                   GROUP BY variant_contig, start)
                 SELECT g.contig, g.window_start, g.window_stop, g.accessible_bases, coalesce(w.variants, 0) AS variants,
                        coalesce(w.segregating_first, 0) AS segregating_first,
                        coalesce(w.diversity_first, 0.0) AS diversity_first,
                        coalesce(w.diversity_second, 0.0) AS diversity_second,
                        coalesce(w.theta_w_first, 0.0) AS theta_w_first, coalesce(w.divergence, 0.0) AS divergence,
                        w.fst_hudson, w.tajimas_d_first, w.tajimas_d_second
                 FROM genome_windows('sim', {size}, {step}{mask}) g
                 LEFT JOIN w ON w.variant_contig = g.contig AND w.start = g.window_start
                 ORDER BY g.contig, g.window_start"
            );
            let rows = query(&ctx, &sql).await;
            assert_rows(&rows, &wanted["rows"], &format!("{name}, {bins}"));
        }
        // The same with the join below the aggregate, where empty windows have NULL counts: sums over no sites are 0.
        let sql = format!(
            "SELECT contig, window_start, window_stop, accessible_bases, {INTERVAL}
             FROM genome_windows('sim', {size}, {step}{mask}) g
             LEFT JOIN (SELECT variant_contig, unnest(genome_bins(variant_position, {size}, {step})) AS start,
                               allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b
                        FROM sim {filter}) v
             ON v.variant_contig = g.contig AND v.start = g.window_start
             GROUP BY contig, window_start, window_stop, accessible_bases ORDER BY contig, window_start"
        );
        assert_rows(
            &query(&ctx, &sql).await,
            &wanted["rows"],
            &format!("{name}, joined first"),
        );
    }
}

/// Genes that overlap each other: an equality join of the bins that an interval touches, then the exact bounds.
#[tokio::test(flavor = "multi_thread")]
async fn genes() {
    let ctx = common::session(2, 1000);
    let expected = sim(&ctx).await;
    let (table, mask) = (fixture("sim.genes.tsv"), fixture("sim.accessible.bed"));
    common::run(
        &ctx,
        &format!(
            "CREATE EXTERNAL TABLE genes STORED AS CSV LOCATION '{table}'
             OPTIONS ('format.delimiter' '\t', 'format.has_header' 'true')"
        ),
    )
    .await;
    let sql = format!(
        "SELECT g.gene, g.contig, g.start, g.stop, accessible_bases(g.contig, g.start, g.stop, '{mask}') AS accessible_bases,
                {INTERVAL}
         FROM (SELECT gene, contig, start, stop, unnest(interval_bins(start, stop, 5000)) AS bin FROM genes) g
         LEFT JOIN (SELECT variant_contig, variant_position, genome_bin(variant_position, 5000) AS bin,
                           allele_counts(call_genotype, 'first') AS a, allele_counts(call_genotype, 'second') AS b
                    FROM sim WHERE is_accessible(variant_contig, variant_position, '{mask}')) v
         ON v.variant_contig = g.contig AND v.bin = g.bin AND v.variant_position BETWEEN g.start AND g.stop
         GROUP BY g.gene, g.contig, g.start, g.stop ORDER BY g.contig, g.start, g.stop"
    );
    let rows = query(&ctx, &sql).await;
    let mut wanted = expected["genes"].as_array().unwrap().clone();
    wanted.sort_by_key(|gene| {
        (
            gene["contig"].as_str().unwrap().to_string(),
            gene["start"].as_i64(),
            gene["stop"].as_i64(),
        )
    });
    assert_rows(&rows, &Value::Array(wanted), "genes");
}

/// gambX through scikit-allel. Its per-base values are divided by the bases of each window, and those of the whole by the
/// bases from the first position to the last.
#[tokio::test(flavor = "multi_thread")]
async fn scikit_allel() {
    const TOLERANCE: f64 = 1e-9;
    let Some(folder) = common::shared_data() else {
        return;
    };
    let ctx = common::plain_session();
    common::create(
        &ctx,
        "gambX",
        &folder.join("gambX.vcz.zip"),
        Some(&folder.join("gambX.populations.tsv")),
    )
    .await;
    let allel = read_json(&folder.join("gambX.scikit-allel.json"));

    // Both ends of a window are inclusive; the site at 8,000,000 lies before the first one.
    let sql = "SELECT genome_bin(variant_position, 100000) AS start, genome_bin(variant_position, 100000) + 99999 AS \"end\",
                      count(*) AS n,
                      diversity(call_genotype) / 100000 AS pi, theta_w(call_genotype) / 100000 AS tw,
                      tajimas_d(call_genotype) AS td,
                      fst_hudson(call_genotype, 'first', 'second') AS fst,
                      divergence(call_genotype, 'first', 'second') / 100000 AS dxy
               FROM gambX WHERE variant_position > 8000000 GROUP BY 1, 2 ORDER BY 1";
    let rows = query(&ctx, sql).await;
    let windows = allel["win100k"].as_array().unwrap();
    assert_eq!((rows.len(), windows.len()), (40, 40));
    for (row, window) in rows.iter().zip(windows) {
        for (key, wanted) in window.as_object().unwrap() {
            assert_same(
                &row[key],
                wanted,
                TOLERANCE,
                &format!("window {}: {key}", window["start"]),
            );
        }
    }

    let sql = "SELECT count(*) AS n_variants, segregating_sites(call_genotype) AS seg, diversity(call_genotype) AS sum_mpd,
                      diversity(call_genotype) / 3999990 AS pi_first_last,
                      theta_w(call_genotype) / 3999990 AS theta_w_first_last,
                      tajimas_d(call_genotype) AS tajima_d, sfs(call_genotype) AS sfs,
                      sfs_folded(call_genotype) AS sfs_folded,
                      sfs(call_genotype)[1] AS mono_ref, sfs(call_genotype)[2] AS singletons_alt,
                      sfs(call_genotype)[201] AS fixed_alt,
                      divergence(call_genotype, 'first', 'second') / 3999990 AS dxy_first_last,
                      fst_hudson(call_genotype, 'first', 'second') AS hudson,
                      joint_sfs(call_genotype, 'first', 'second') AS joint
               FROM gambX";
    let row = one_row(&ctx, sql).await;
    for (key, found) in row.iter().filter(|(key, _)| *key != "joint") {
        assert_same(found, &allel[key], TOLERANCE, key);
    }
    let joint = &row["joint"];
    let cells = cells(joint, [101, 101], "joint");
    for (cell, wanted) in allel["jsfs_checks"].as_object().unwrap() {
        let found = match cell.split_once(',') {
            Some((i, j)) => joint[i.parse::<usize>().unwrap()][j.parse::<usize>().unwrap()].clone(),
            None if cell == "sum" => json!(cells.iter().map(|cell| cell.2).sum::<f64>() as i64),
            None if cell == "trace" => {
                json!(
                    cells
                        .iter()
                        .filter(|cell| cell.0 == cell.1)
                        .map(|cell| cell.2)
                        .sum::<f64>() as i64
                )
            }
            None => panic!("{cell}"),
        };
        assert_eq!(&found, wanted, "joint spectrum: {cell}");
    }

    let sql = "SELECT exact_sum(f['num']) AS hudson_num, exact_sum(f['den']) AS hudson_den FROM (
                 SELECT site_fst_hudson(allele_counts(call_genotype, 'first'), allele_counts(call_genotype, 'second')) AS f
                 FROM gambX)";
    for (key, found) in &one_row(&ctx, sql).await {
        assert_same(found, &allel[key], TOLERANCE, key);
    }
}
