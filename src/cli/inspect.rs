//! `vcz inspect`: the contents of a store, as tables or JSON, from [`scan::report`](crate::scan::report).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::error::ArrowError;
use arrow::util::pretty::pretty_format_batches;
use clap::{Args, ValueEnum};
use datafusion::common::human_readable_size;

use super::cells::terminal_width;
use super::environment::{Environment, SessionArgs};
use super::fit::{Columns, fit};
use super::stores;
use crate::functions::table::resolve::vcz_table;
use crate::scan::report::{ArrayReport, ContigReport, StoreReport};
use crate::session::message;

/// The maximum number of contigs and of samples that tables show.
const SHOWN: usize = 20;
const SHOWN_SAMPLES: usize = 6;

/// The arguments of `vcz inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The stores: folders, zip archives or URLs; a pattern, or a folder of stores, is several that are one table
    #[arg(value_name = "STORE", required = true)]
    pub stores: Vec<String>,

    /// Populations of the samples: a TSV or CSV with the columns sample_id and population, or FILE:SAMPLE,POPULATION with the names of its columns
    #[arg(long, value_name = "FILE")]
    pub populations: Option<String>,

    /// An option of these stores, as in CREATE EXTERNAL TABLE … OPTIONS, such as aws.region=eu-west-1; may be given several times.
    /// Others on this machine can see it: put keys into environment variables such as AWS_SECRET_ACCESS_KEY
    #[arg(short = 'o', long, value_name = "KEY=VALUE", value_parser = stores::option)]
    pub option: Vec<(String, String)>,

    /// Write consolidated metadata into the store first, so that it is opened in fewer requests, and by servers that cannot list
    #[arg(long)]
    pub consolidate: bool,

    /// How the facts are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// How the facts are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people; long lists are cut
    Table,
    /// One JSON object with everything; of several stores, a list of them
    Json,
}

/// Runs `vcz inspect`.
///
/// # Errors
/// A message, if the store or the populations file cannot be read.
pub async fn run(args: InspectArgs) -> Result<(), String> {
    let environment = Environment::new(&SessionArgs::defaults(), false)
        .await
        .map_err(|error| message(&error))?;
    let mut reports = Vec::with_capacity(args.stores.len());
    for (at, store) in args.stores.iter().enumerate() {
        reports.push(report(&environment, &format!("store{at}"), store, &args).await?);
    }
    let text = match (args.format, reports.as_slice()) {
        (Format::Json, [report]) => serde_json::to_string_pretty(report),
        (Format::Json, reports) => serde_json::to_string_pretty(reports),
        (Format::Table, reports) => {
            let texts: Result<Vec<_>, _> = reports.iter().map(tables).collect();
            let texts = texts.map_err(|error| error.to_string())?;
            Ok(texts.join("\n"))
        }
    };
    let text = text.map_err(|error| error.to_string())?;
    match writeln!(io::stdout(), "{}", text.trim_end()) {
        // The reader, such as a pager, was closed.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot print: {error}"))
        }
        _ => Ok(()),
    }
}

/// The contents of the store at `location`, opened as `table`.
async fn report(
    environment: &Environment,
    table: &str,
    location: &str,
    args: &InspectArgs,
) -> Result<StoreReport, String> {
    let options = stores::options(args.populations.as_deref(), &args.option);
    let store = stores::StoreTable::new(table, location);
    stores::register(environment, &store, &options).await?;
    let table = vcz_table(&environment.ctx.state(), table)
        .await
        .map_err(|error| message(&error))?;
    if args.consolidate {
        for member in table.stores().members() {
            let consolidated = member.dataset.store().consolidate().await;
            let consolidated = consolidated.map_err(|error| error.to_string())?;
            eprintln!(
                "wrote the metadata of {} arrays to '{}'",
                consolidated.arrays, consolidated.document
            );
        }
    }
    Ok(StoreReport::of(&table).await)
}

/// The report as tables.
fn tables(report: &StoreReport) -> Result<String, ArrowError> {
    let mut text = summary(report)?;
    // Only the arrays of the first store, because those of the others are usually the same.
    let first = report.stores.first().map(|store| &store.location);
    let shown = report
        .arrays
        .partition_point(|array| Some(&array.store) == first);
    let arrays_title = match first {
        Some(first) if report.stores.len() > 1 => format!("Arrays of {first}"),
        _ => "Arrays".to_string(),
    };
    for (title, table) in [
        ("Contigs", contigs(&report.contigs)?),
        ("Populations", populations(report)?),
        (arrays_title.as_str(), arrays(&report.arrays[..shown])?),
    ] {
        if let Some(table) = table {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{title}\n{table}");
        }
    }
    for ((backend, reason), names) in backends(&report.arrays) {
        let _ = match backend {
            "none" => writeln!(text, "Not readable: {}: {reason}", names.join(", ")),
            _ => writeln!(
                text,
                "Decoded by {backend}: {} arrays, because {reason}",
                names.len()
            ),
        };
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "Warning: {warning}");
    }
    Ok(text)
}

fn summary(report: &StoreReport) -> Result<String, ArrowError> {
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_string());
    let samples = match some(&report.sample_ids, SHOWN_SAMPLES) {
        shown if shown.is_empty() => report.samples.to_string(),
        shown => format!("{}: {shown}", report.samples),
    };
    let facts = [
        (
            "store",
            match report.stores.len() {
                0 | 1 => report.location.clone(),
                several => format!("{}: {several} stores", report.location),
            },
        ),
        ("Zarr format", report.zarr_format.to_string()),
        ("VCF Zarr version", report.vcf_zarr_version.clone()),
        ("written by", known(report.source.clone())),
        ("variants", report.variants.to_string()),
        ("samples", samples),
        (
            "ploidy",
            report
                .ploidy
                .map_or("no genotypes".to_string(), |ploidy| ploidy.to_string()),
        ),
        (
            "alleles",
            known(report.alleles.map(|alleles| format!("at most {alleles}"))),
        ),
    ];
    let (names, values): (Vec<_>, Vec<_>) = facts
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .unzip();
    grid([("", names), (" ", values)])
}

/// The contigs that have variants, or all of them where that is unknown.
fn contigs(contigs: &[ContigReport]) -> Result<Option<String>, ArrowError> {
    let used: Vec<&ContigReport> = contigs
        .iter()
        .filter(|contig| contig.variants != Some(0))
        .collect();
    if contigs.is_empty() {
        return Ok(None);
    }
    let shown = used.get(..SHOWN).unwrap_or(&used);
    let number = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_string());
    let mut text = grid([
        (
            "contig",
            shown.iter().map(|contig| contig.name.clone()).collect(),
        ),
        (
            "length",
            shown
                .iter()
                .map(|contig| number(contig.length.map(|n| n.to_string())))
                .collect(),
        ),
        (
            "variants",
            shown
                .iter()
                .map(|contig| number(contig.variants.map(|n| n.to_string())))
                .collect(),
        ),
    ])?;
    let (more, empty) = (used.len() - shown.len(), contigs.len() - used.len());
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    if empty > 0 {
        let _ = writeln!(text, "and {empty} without variants");
    }
    Ok(Some(text))
}

fn populations(report: &StoreReport) -> Result<Option<String>, ArrowError> {
    let all = &report.populations;
    if all.is_empty() {
        return Ok(None);
    }
    grid([
        (
            "population",
            all.iter()
                .map(|population| population.name.clone())
                .collect(),
        ),
        (
            "samples",
            all.iter()
                .map(|population| population.samples.to_string())
                .collect(),
        ),
        (
            "copies",
            all.iter()
                .map(|population| population.copies.to_string())
                .collect(),
        ),
        (
            "sample ids",
            all.iter()
                .map(|population| some(&population.sample_ids, SHOWN_SAMPLES))
                .collect(),
        ),
    ])
    .map(Some)
}

fn arrays(arrays: &[ArrayReport]) -> Result<Option<String>, ArrowError> {
    let size = |bytes: Option<u64>| match bytes.map(usize::try_from) {
        // Bytes are whole.
        Some(Ok(bytes)) => human_readable_size(bytes).replace(".0 B", " B"),
        _ => "unknown".to_string(),
    };
    let by = |lengths: &Option<Vec<u64>>| match lengths {
        Some(lengths) => lengths
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(" × "),
        None => "unknown".to_string(),
    };
    let listed = |items: &Option<Vec<String>>, separator: &str| match items {
        Some(items) => items.join(separator),
        None => "unknown".to_string(),
    };
    grid_without(
        [
            (
                "array",
                arrays.iter().map(|array| array.name.clone()).collect(),
            ),
            (
                "dimensions",
                arrays
                    .iter()
                    .map(|array| listed(&array.dimensions, " × "))
                    .collect(),
            ),
            (
                "shape",
                arrays.iter().map(|array| by(&array.shape)).collect(),
            ),
            (
                "chunks",
                arrays.iter().map(|array| by(&array.chunks)).collect(),
            ),
            (
                "type",
                arrays
                    .iter()
                    .map(|array| array.dtype.clone().unwrap_or("unknown".to_string()))
                    .collect(),
            ),
            (
                "codecs",
                arrays
                    .iter()
                    .map(|array| listed(&array.codecs, " → "))
                    .collect(),
            ),
            (
                "stored",
                arrays
                    .iter()
                    .map(|array| size(array.stored_bytes))
                    .collect(),
            ),
            (
                "decoded",
                arrays
                    .iter()
                    .map(|array| size(array.decoded_bytes))
                    .collect(),
            ),
            (
                "backend",
                arrays.iter().map(|array| array.backend.clone()).collect(),
            ),
        ],
        &["backend", "decoded", "dimensions", "stored"],
    )
    .map(Some)
}

/// The arrays grouped by backend and reason.
fn backends(arrays: &[ArrayReport]) -> BTreeMap<(&str, &str), Vec<&str>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for array in arrays {
        groups
            .entry((&array.backend, &array.reason))
            .or_default()
            .push(&array.name);
    }
    groups
}

/// The first `most` items on one line.
fn some(items: &[String], most: usize) -> String {
    let mut text = items.get(..most).unwrap_or(items).join(", ");
    if items.len() > most {
        text += ", …";
    }
    text
}

/// Columns of text in Arrow's table format, within the terminal's width if there is one.
fn grid<const N: usize>(columns: [(&str, Vec<String>); N]) -> Result<String, ArrowError> {
    grid_without(columns, &[])
}

/// [`grid`], where columns of `optional` may be left out for the width, in that order.
fn grid_without<const N: usize>(
    columns: [(&str, Vec<String>); N],
    optional: &[&str],
) -> Result<String, ArrowError> {
    let mut columns: Columns = columns
        .map(|(name, cells)| (name.to_string(), cells))
        .into();
    let left_out = match terminal_width() {
        Some(width) => fit(&mut columns, width, optional),
        None => vec![],
    };
    let column = |(name, values): (String, Vec<String>)| {
        (name, Arc::new(StringArray::from(values)) as ArrayRef)
    };
    let batch = RecordBatch::try_from_iter(columns.into_iter().map(column))?;
    let table = pretty_format_batches(&[batch])?;
    Ok(match left_out.as_slice() {
        [] => format!("{table}\n"),
        names => format!(
            "{table}\nLeft out for the terminal's width: {}; a wider one shows them, and --format json\n",
            names.join(", ")
        ),
    })
}
