//! [`WrittenFormat`]: formats of files that COPY writes and no table reads as files, such as VCZ stores and spectra. [`WriteOnly`] makes
//! DataFusion's `FileFormat` of them.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::{
    CsvSource, FileScanConfig, FileSinkConfig, FileSource,
};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};

/// A format that COPY writes.
#[async_trait]
pub trait WrittenFormat: fmt::Debug + Send + Sync + 'static {
    /// The ending of its files.
    fn extension(&self) -> &'static str;

    /// The error of reading it as a file.
    fn not_read(&self) -> DataFusionError;

    /// The error of compressing a file as a whole.
    fn not_compressed(&self) -> DataFusionError;

    /// The error of appending to a file, and of PARTITIONED BY.
    fn not_in_parts(&self) -> DataFusionError;

    /// What writes the rows of `input`.
    ///
    /// # Errors
    /// If the rows cannot be written so.
    async fn sink(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
    ) -> Result<Arc<dyn DataSink>>;
}

/// A [`WrittenFormat`] for DataFusion.
#[derive(Debug)]
pub struct WriteOnly<F>(pub F);

#[async_trait]
impl<F: WrittenFormat> FileFormat for WriteOnly<F> {
    fn get_ext(&self) -> String {
        self.0.extension().to_string()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        match compression.is_compressed() {
            false => Ok(self.get_ext()),
            true => Err(self.0.not_compressed()),
        }
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        _objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        Err(self.0.not_read())
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        _table_schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        Err(self.0.not_read())
    }

    async fn create_physical_plan(
        &self,
        _state: &dyn Session,
        _conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(self.0.not_read())
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if conf.insert_op != InsertOp::Append || !conf.table_partition_cols.is_empty() {
            return Err(self.0.not_in_parts());
        }
        let sink = self.0.sink(&input, state, conf).await?;
        Ok(Arc::new(DataSinkExec::new(input, sink, order_requirements)))
    }

    /// Never asked for, because [`infer_schema`](Self::infer_schema) fails before.
    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(CsvSource::new(table_schema))
    }
}
