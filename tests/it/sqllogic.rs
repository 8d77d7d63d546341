//! Runs the `.slt` files below `tests/sqllogictest`: everything that SQL shows, plans included; in `functions`, one file for each SQL
//! function. Set `SLT_COMPLETE=1` to write the results found into the files instead (and then read the diff), and
//! `SLT_FILE=sfs` to run only the files whose path contains that.

use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

/// A session that answers sqllogictest.
struct Session(SessionContext);

impl Session {
    fn new() -> Self {
        // Plans are pinned for two partitions, whatever the machine.
        let config = SessionConfig::new()
            .with_target_partitions(2)
            .with_information_schema(true)
            .set_str("datafusion.explain.format", "indent")
            .set_bool("datafusion.explain.physical_plan_only", true);
        Self(crate::common::session_of(config))
    }
}

fn column_type(data_type: &DataType) -> DefaultColumnType {
    match data_type {
        data_type if data_type.is_integer() => DefaultColumnType::Integer,
        data_type if data_type.is_floating() => DefaultColumnType::FloatingPoint,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DefaultColumnType::Text,
        _ => DefaultColumnType::Any,
    }
}

fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, DataFusionError> {
    let options = FormatOptions::default().with_null("NULL");
    let mut all = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            all.push(
                columns
                    .iter()
                    .map(|column| shown(column.value(row).try_to_string()))
                    .collect::<Result<_, _>>()?,
            );
        }
    }
    Ok(all)
}

/// An empty string would vanish from the file, so it is written out; plans have one line each.
fn shown(value: Result<String, arrow::error::ArrowError>) -> Result<String, DataFusionError> {
    let value = value?;
    Ok(if value.is_empty() {
        "(empty)".to_string()
    } else {
        value
    })
}

#[async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DataFusionError> {
        // Plans and settings are those of one machine, also where the tests run on workers.
        if crate::common::on_given_workers() {
            let distribute = if sql.trim_start().starts_with("EXPLAIN") {
                "never"
            } else if sql.contains("df_settings") {
                "auto"
            } else {
                "always"
            };
            let set = format!("SET vcz.distribute = '{distribute}'");
            self.0.sql(&set).await?.collect().await?;
        }
        let frame = self.0.sql(sql).await?;
        let types: Vec<_> = frame
            .schema()
            .fields()
            .iter()
            .map(|field| column_type(field.data_type()))
            .collect();
        let explain = frame
            .schema()
            .fields()
            .first()
            .is_some_and(|field| field.name() == "plan_type");
        let batches = frame.collect().await?;
        if types.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let mut rows = rows(&batches)?;
        if explain {
            let plan = rows
                .into_iter()
                .filter_map(|row| row.into_iter().nth(1))
                .collect::<Vec<_>>()
                .join("\n");
            // Leading blanks would be folded away; the depth of a node is kept as dashes.
            rows = plan.lines().map(|line| vec![dashes(line)]).collect();
            return Ok(DBOutput::Rows {
                types: vec![DefaultColumnType::Text],
                rows,
            });
        }
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "datafusion-vcz"
    }
}

fn dashes(line: &str) -> String {
    let text = line.trim_start();
    format!(
        "{}{}",
        "-".repeat((line.len() - text.len()) / 2 * 2),
        text.trim_end()
    )
}

fn files() -> Vec<PathBuf> {
    let top = crate::common::top().join("tests/sqllogictest");
    let only = std::env::var("SLT_FILE").unwrap_or_default();
    let mut files: Vec<PathBuf> = [top.clone(), top.join("functions")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .slt files");
    files
}

#[test]
fn every_function_has_a_file() {
    use datafusion_vcz::functions;
    let folder = crate::common::top().join("tests/sqllogictest/functions");
    let scalar = functions::scalar_functions();
    let aggregates = functions::aggregate_functions();
    let tables = functions::table_functions();
    let mut expected: Vec<String> = scalar
        .iter()
        .map(|udf| udf.name())
        .chain(aggregates.iter().map(|udaf| udaf.name()))
        .chain(tables.iter().map(|(name, _)| *name))
        .map(|name| format!("{name}.slt"))
        .collect();
    expected.sort();
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_files() {
    let complete = std::env::var_os("SLT_COMPLETE").is_some();
    let mut failed = Vec::new();
    for file in files() {
        let mut runner = Runner::new(|| async { Ok(Session::new()) });
        let done = if complete {
            let validator = sqllogictest::default_validator;
            let normalizer = sqllogictest::default_normalizer;
            let columns = sqllogictest::default_column_validator;
            runner
                .update_test_file(&file, " ", validator, normalizer, columns)
                .await
                .map_err(|e| e.to_string())
        } else {
            runner
                .run_file_async(&file)
                .await
                .map_err(|e| e.to_string())
        };
        if let Err(error) = done {
            failed.push(format!("{}: {error}", file.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
