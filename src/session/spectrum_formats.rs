//! `COPY (SELECT joint_sfs(…) …) TO 'joint.fs'`: spectra as files of dadi and moments (FS), fastsimcoal2 (OBS), ANGSD (SFS) and numpy
//! (NPY). A file holds one spectrum, so the query has one row of one column. These files are written, not read.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{
    DataFusionError, GetExt, Result, exec_err, plan_datafusion_err, plan_err,
};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use object_store::{ObjectStoreExt, PutPayload};

use super::written_format::{WriteOnly, WrittenFormat};
use crate::functions::spectrum_file::{FileOptions, KEYS, PREFIX, Spectrum, SpectrumFormat};
use crate::scan::shown_location;

/// Creates the formats of spectra.
#[derive(Debug)]
pub struct SpectrumFormatFactory(pub SpectrumFormat);

impl GetExt for SpectrumFormatFactory {
    fn get_ext(&self) -> String {
        self.0.extension().to_string()
    }
}

impl FileFormatFactory for SpectrumFormatFactory {
    fn create(
        &self,
        _state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(WriteOnly(SpectrumFile {
            format: self.0,
            options: FileOptions::from_map(format_options)?,
        })))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(WriteOnly(SpectrumFile {
            format: self.0,
            options: FileOptions::default(),
        }))
    }
}

/// A format of spectra with the options of a file.
#[derive(Debug)]
struct SpectrumFile {
    format: SpectrumFormat,
    options: FileOptions,
}

#[async_trait]
impl WrittenFormat for SpectrumFile {
    fn extension(&self) -> &'static str {
        self.format.extension()
    }

    fn not_read(&self) -> DataFusionError {
        plan_datafusion_err!(
            "{} files of spectra are written, by COPY, and not read",
            self.format.name()
        )
    }

    fn not_compressed(&self) -> DataFusionError {
        plan_datafusion_err!("{} files are not compressed", self.format.name())
    }

    fn not_in_parts(&self) -> DataFusionError {
        plan_datafusion_err!(
            "a {} file holds one spectrum: it is not appended to, and has no partitions",
            self.format.name()
        )
    }

    async fn sink(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        _state: &dyn Session,
        conf: FileSinkConfig,
    ) -> Result<Arc<dyn DataSink>> {
        let name = self.format.name();
        let schema = input.schema();
        match schema.fields().iter().as_slice() {
            [only] if Spectrum::is_spectrum(only.data_type()) => {}
            [only] => {
                return plan_err!(
                    "a {name} file holds one spectrum, a list of numbers or a list of such lists; the column '{}' is {}",
                    only.name(),
                    only.data_type()
                );
            }
            columns => {
                return plan_err!(
                    "a {name} file holds one spectrum: the query must have one column, found {}",
                    columns.len()
                );
            }
        }
        Ok(Arc::new(SpectrumSink {
            format: self.format,
            options: self.options.clone(),
            conf,
        }))
    }
}

/// Writes the spectrum of the only row.
struct SpectrumSink {
    format: SpectrumFormat,
    options: FileOptions,
    conf: FileSinkConfig,
}

impl fmt::Debug for SpectrumSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpectrumSink")
            .field("format", &self.format)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for SpectrumSink {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, file) = (self.format.name(), shown_location(&self.conf.original_url));
        match kind {
            DisplayFormatType::TreeRender => writeln!(f, "format: {name}\nfile={file}"),
            _ => write!(f, "SpectrumSink(format={name}, file={file})"),
        }
    }
}

#[async_trait]
impl DataSink for SpectrumSink {
    fn schema(&self) -> &SchemaRef {
        self.conf.output_schema()
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let file = shown_location(&self.conf.original_url);
        let failed = |error: DataFusionError| error.context(format!("'{file}'"));
        let mut found = None;
        while let Some(batch) = data.next().await {
            let batch = batch?;
            match (batch.num_rows(), &found) {
                (0, _) => {}
                (1, None) => {
                    found = Some(Spectrum::of_row(batch.column(0), 0).map_err(failed)?);
                }
                _ => {
                    return exec_err!(
                        "'{file}': a {} file holds one spectrum, and the query has several rows; select one of them, or write each to \
                         a file of its own",
                        self.format.name()
                    );
                }
            }
        }
        let Some(spectrum) = found else {
            return exec_err!("'{file}': the query has no row, so there is no spectrum to write");
        };
        let Some(target) = self.conf.table_paths.first() else {
            return exec_err!("'{file}' is not a location of a file");
        };
        let path = target.prefix();
        let name = path.filename().unwrap_or_default();
        let bytes = self.format.bytes(spectrum, &self.options, name);
        let bytes = bytes.map_err(failed)?;
        let objects = context
            .runtime_env()
            .object_store(&self.conf.object_store_url)?;
        objects.put(path, PutPayload::from(bytes)).await?;
        Ok(1)
    }
}

/// The options of these files, so that a session accepts them in COPY.
#[derive(Debug, Clone, Default)]
pub struct SpectrumOptions {
    set: FileOptions,
}

impl ExtensionOptions for SpectrumOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        // The command line sets options of COPY in the session's table options, whose extensions get whole keys; others get what follows the
        // prefix.
        let name = key
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_prefix('.'));
        self.set.set(name.unwrap_or(key), value)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entries = KEYS.iter().map(|(name, description)| ConfigEntry {
            key: format!("{PREFIX}.{name}"),
            value: None,
            description,
        });
        entries.collect()
    }
}

impl ConfigExtension for SpectrumOptions {
    const PREFIX: &'static str = PREFIX;
}
