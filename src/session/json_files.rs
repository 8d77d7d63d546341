//! Files of JSON with `null`: DataFusion's writer leaves out the keys of NULL, so that a column without values is not in the file at all.
//!
//! [`KeepNulls`] replaces DataFusion's sink of `COPY … TO 'file.json'` and `INSERT INTO` a table of such files.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::json::writer::LineDelimited;
use arrow::json::{Writer, WriterBuilder};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::file_options::json_writer::JsonWriterOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::file_format::json::JsonSink;
use datafusion::datasource::file_format::write::BatchSerializer;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::orchestration::spawn_writer_tasks_and_join;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use object_store::ObjectStore;

/// The rule.
#[derive(Debug)]
pub struct KeepNulls;

impl PhysicalOptimizerRule for KeepNulls {
    fn name(&self) -> &str {
        "vcz_keep_nulls"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(exec) = node.downcast_ref::<DataSinkExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some(sink) = exec.sink().downcast_ref::<JsonSink>() else {
                return Ok(Transformed::no(node));
            };
            let sink = JsonWithNulls {
                config: sink.config().clone(),
                options: sink.writer_options().clone(),
            };
            let exec = DataSinkExec::new(
                Arc::clone(exec.input()),
                Arc::new(sink),
                exec.sort_order().clone(),
            );
            Ok(Transformed::yes(Arc::new(exec) as _))
        })
        .map(|transformed| transformed.data)
    }
}

/// DataFusion's [`JsonSink`] with another serializer.
#[derive(Debug)]
struct JsonWithNulls {
    config: FileSinkConfig,
    options: JsonWriterOptions,
}

impl DisplayAs for JsonWithNulls {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        JsonSink::new(self.config.clone(), self.options.clone()).fmt_as(kind, f)
    }
}

#[async_trait]
impl FileSink for JsonWithNulls {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        file_stream_rx: DemuxedStreamReceiver,
        object_store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        spawn_writer_tasks_and_join(
            context,
            Arc::new(SerializerWithNulls),
            self.options.compression.into(),
            self.options.compression_level,
            object_store,
            demux_task,
            file_stream_rx,
        )
        .await
    }
}

#[async_trait]
impl DataSink for JsonWithNulls {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

/// An object for each row, on a line of its own.
struct SerializerWithNulls;

impl BatchSerializer for SerializerWithNulls {
    fn serialize(&self, batch: RecordBatch, _initial: bool) -> Result<Bytes> {
        let mut lines = Vec::with_capacity(4096);
        let mut writer: Writer<_, LineDelimited> = WriterBuilder::new()
            .with_explicit_nulls(true)
            .build(&mut lines);
        writer.write(&batch)?;
        drop(writer);
        Ok(Bytes::from(lines))
    }
}
