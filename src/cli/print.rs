//! Prints the rows of a statement to standard output. CSV, TSV and JSON are written batch by batch; a table is laid out once it is whole, or
//! has as many rows as are shown. Lists in CSV and TSV are JSON text, and JSON has `null` where a value is NULL.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

use arrow::array::RecordBatch;
use arrow::csv;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited};
use arrow::json::{Writer as JsonWriter, WriterBuilder as JsonWriterBuilder};
use datafusion::common::instant::Instant;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::prelude::SessionContext;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreMode;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use futures::StreamExt;

use super::cells;
use crate::functions::json_text::{is_json, with_json_text};

/// Prints `rows` and then, unless `options` are quiet, their number and the time since `start`; in CSV, TSV and JSON these go to standard
/// error. Returns false if standard output was
/// closed, which is not an error: `vcz sql … | head`.
///
/// # Errors
/// An error of the query or of writing.
pub async fn results(
    ctx: &SessionContext,
    options: &PrintOptions,
    rows: SendableRecordBatchStream,
    start: Instant,
) -> Result<bool> {
    let mut out = Out {
        stdout: BufWriter::new(io::stdout()),
        reader_is_gone: false,
    };
    let printed = match options.format {
        PrintFormat::Table | PrintFormat::Automatic => table(ctx, options, rows, &mut out).await,
        PrintFormat::Csv => separated(b',', rows, &mut out).await,
        PrintFormat::Tsv => separated(b'\t', rows, &mut out).await,
        PrintFormat::Json => json::<JsonArray>(rows, &mut out, "\n").await,
        PrintFormat::NdJson => json::<LineDelimited>(rows, &mut out, "").await,
    };
    let printed = printed.and_then(|count| {
        out.flush()?;
        Ok(count)
    });
    let count = match printed {
        Err(_) if out.reader_is_gone => return Ok(false),
        printed => printed?,
    };
    let is_data = matches!(
        options.format,
        PrintFormat::Csv | PrintFormat::Tsv | PrintFormat::Json | PrintFormat::NdJson
    );
    let profile = options.instrumented_registry.instrument_mode();
    if !options.quiet && is_data && profile == InstrumentedObjectStoreMode::Disabled {
        // Not on standard output, where another program reads the rows.
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("{count} row(s) fetched.\nElapsed {seconds:.3} seconds.");
    } else if !options.quiet {
        // The CLI crate prints the number of rows and the time, and the requests to object stores if they are enabled.
        let lines = PrintOptions {
            format: match options.format {
                PrintFormat::Table | PrintFormat::Automatic => PrintFormat::Table,
                other => other,
            },
            ..options.clone()
        };
        let nothing = SchemaRef::new(Schema::empty());
        let format = ctx.copied_config().options().format.clone();
        match lines.print_batches(nothing, &[], start, count, &format) {
            Err(error) if is_broken_pipe(&error) => return Ok(false),
            printed => printed?,
        }
    }
    Ok(true)
}

/// Whether `error` says that the reader of standard output has closed it.
fn is_broken_pipe(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::IoError(error) if error.kind() == ErrorKind::BrokenPipe)
}

/// Standard output that records whether its reader has closed it, because writers of formats turn that error into text.
struct Out {
    stdout: BufWriter<Stdout>,
    reader_is_gone: bool,
}

impl Out {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.reader_is_gone |= error.kind() == ErrorKind::BrokenPipe;
        }
        result
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stdout.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        self.note(flushed)
    }
}

/// A table of at most `maxrows` rows. Returns the number of all rows.
async fn table(
    ctx: &SessionContext,
    options: &PrintOptions,
    mut rows: SendableRecordBatchStream,
    out: &mut Out,
) -> Result<usize> {
    let most = match options.maxrows {
        MaxRows::Unlimited => usize::MAX,
        MaxRows::Limited(most) => most,
    };
    let schema = rows.schema();
    let memory =
        MemoryConsumer::new("vcz sql: the rows of a table").register(ctx.task_ctx().memory_pool());
    let (mut shown, mut kept, mut count) = (vec![], 0, 0);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        count += batch.num_rows();
        let wanted = batch.num_rows().min(most - kept);
        if wanted > 0 {
            memory.try_grow(get_record_batch_memory_size(&batch))?;
            shown.push(batch.slice(0, wanted));
            kept += wanted;
        }
    }
    if schema.fields().is_empty() || most == 0 {
        return Ok(count);
    }
    if shown.is_empty() {
        shown.push(RecordBatch::new_empty(schema));
    }
    let format = ctx.copied_config().options().format.clone();
    let text = cells::table(&shown, &format, cells::terminal_width())?;
    write!(out, "{}", with_dots(&text, count > kept))?;
    Ok(count)
}

/// The lines of a table, with dots for rows that are left out.
fn with_dots(table: &str, rows_are_left_out: bool) -> String {
    let mut lines: Vec<&str> = table.lines().collect();
    let last = lines.last().copied().unwrap_or_default();
    let dots = format!("| .{}|", " ".repeat(last.len().saturating_sub(4)));
    if rows_are_left_out {
        lines.pop();
        lines.extend([dots.as_str(), dots.as_str(), dots.as_str(), last]);
    }
    lines.join("\n") + "\n"
}

/// A header line and lines of values, separated by `delimiter`. Returns the number of rows.
async fn separated(
    delimiter: u8,
    mut rows: SendableRecordBatchStream,
    out: &mut Out,
) -> Result<usize> {
    let schema = rows.schema();
    let mut count = 0;
    let mut writer = csv::WriterBuilder::new()
        .with_delimiter(delimiter)
        .build(out);
    if !schema.fields().is_empty() {
        // The header is written before the first row, and also if there are no rows.
        writer.write(&RecordBatch::new_empty(flat(&schema)))?;
    }
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        count += batch.num_rows();
        if batch.num_columns() > 0 {
            writer.write(&with_json_text(&batch)?)?;
        }
    }
    Ok(count)
}

/// The schema of [`with_json_text`].
fn flat(schema: &SchemaRef) -> SchemaRef {
    let fields = schema
        .fields()
        .iter()
        .map(|field| match is_json(field.data_type()) {
            true => Field::new(field.name(), DataType::Utf8, true),
            false => field.as_ref().clone(),
        });
    SchemaRef::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// JSON, an object per row, and then `end`. Returns the number of rows.
async fn json<F: JsonFormat>(
    mut rows: SendableRecordBatchStream,
    out: &mut Out,
    end: &str,
) -> Result<usize> {
    let is_statement = rows.schema().fields().is_empty();
    let mut count = 0;
    let mut writer: JsonWriter<_, F> = JsonWriterBuilder::new()
        .with_explicit_nulls(true)
        .build(&mut *out);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        count += batch.num_rows();
        writer.write(&batch)?;
    }
    if is_statement {
        return Ok(count);
    }
    writer.finish()?;
    drop(writer);
    write!(out, "{end}")?;
    Ok(count)
}
