//! `COPY (SELECT …) TO 'x.vcz' STORED AS VCZ`: rows of a query as a new VCZ store, or as new arrays of a store.
//!
//! The statement's plan is [`VczSink`] over the query's plan; `scan::write` does the work, and `store_order` lets the rows keep their order.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::file_options::file_type::FileType;
use datafusion::common::{DataFusionError, GetExt, Result, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::row_order::{is_ordered, is_whole_table, keeps_order};
use super::written_format::{WriteOnly, WrittenFormat};
use crate::scan::write::{Addition, Creation, PlanTables, WriteMode, WriteOptions, add, create};
use crate::scan::{locate_by, shown_location};
use crate::store::write::Place;

/// Endings of files that are written as VCZ without STORED AS.
pub const EXTENSIONS: [&str; 2] = ["vcz", "zip"];

/// Whether a COPY to files of this type writes a VCZ store.
pub fn is_vcz(file_type: &dyn FileType) -> bool {
    EXTENSIONS.contains(&file_type.get_ext().as_str())
}

/// Creates the format of VCZ stores, for names with one of the [`EXTENSIONS`].
#[derive(Debug)]
pub struct VczFormatFactory(pub &'static str);

impl GetExt for VczFormatFactory {
    fn get_ext(&self) -> String {
        self.0.to_string()
    }
}

impl FileFormatFactory for VczFormatFactory {
    fn create(
        &self,
        _state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(WriteOnly(VczFormat {
            extension: self.0,
            options: WriteOptions::try_from_map(format_options)?,
        })))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(WriteOnly(VczFormat {
            extension: self.0,
            options: WriteOptions::default(),
        }))
    }
}

/// VCZ stores as files that are written, with the options of a statement.
#[derive(Debug)]
struct VczFormat {
    extension: &'static str,
    options: WriteOptions,
}

#[async_trait]
impl WrittenFormat for VczFormat {
    fn extension(&self) -> &'static str {
        self.extension
    }

    fn not_read(&self) -> DataFusionError {
        plan_datafusion_err!(
            "a VCZ store is not read as a file: write CREATE EXTERNAL TABLE … STORED AS VCZ LOCATION …, or SELECT … FROM 'x.vcz'"
        )
    }

    fn not_compressed(&self) -> DataFusionError {
        plan_datafusion_err!("the chunks of a VCZ store are compressed; set 'vcz.codec'")
    }

    fn not_in_parts(&self) -> DataFusionError {
        plan_datafusion_err!("a VCZ store has no partitions; write each part to a store of its own")
    }

    async fn sink(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
    ) -> Result<Arc<dyn DataSink>> {
        let target = &conf.original_url;
        if self.extension == "zip" && !target.to_ascii_lowercase().ends_with(".vcz.zip") {
            return plan_err!(
                "'{}' has no ending that says its format; write STORED AS VCZ for a VCZ store in a zip archive, or STORED AS CSV and the like",
                shown_location(target)
            );
        }
        let options = self.options.clone();
        let located = locate_by(state, target, &options.remote).await?;
        let place = Place {
            location: shown_location(target),
            objects: located.objects,
            path: located.path,
            local: located.local,
        };
        let tables = PlanTables::of(input)?;
        let schema = input.schema();
        let statement = match options.mode {
            WriteMode::Create => Statement::Create(Creation::try_new(
                place,
                options,
                tables,
                Arc::clone(&schema),
                keeps_order(input) || is_ordered(input),
            )?),
            WriteMode::Add => Statement::Add(
                Addition::try_new(
                    place,
                    options,
                    tables,
                    Arc::clone(&schema),
                    is_whole_table(input),
                )
                .await?,
            ),
        };
        Ok(Arc::new(VczSink {
            statement,
            schema,
            target: shown_location(target),
        }))
    }
}

#[derive(Debug)]
enum Statement {
    Create(Creation),
    Add(Addition),
}

/// Writes rows as a VCZ store, or as arrays of one.
pub struct VczSink {
    statement: Statement,
    schema: SchemaRef,
    target: String,
}

impl fmt::Debug for VczSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VczSink")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for VczSink {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        let what = match self.statement {
            Statement::Create(_) => "store",
            Statement::Add(_) => "arrays of",
        };
        match kind {
            DisplayFormatType::TreeRender => writeln!(f, "format: VCZ\n{what}={target}"),
            _ => write!(f, "VczSink({what}={target})"),
        }
    }
}

#[async_trait]
impl DataSink for VczSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        match &self.statement {
            Statement::Create(creation) => create(creation, data, context).await,
            Statement::Add(addition) => add(addition, data, context).await,
        }
    }
}
