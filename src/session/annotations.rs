//! Tables of annotation files: `CREATE EXTERNAL TABLE genes STORED AS GFF3 LOCATION 'genes.gff3.gz'`, also GTF and BED; or by location,
//! `SELECT … FROM 'genes.gtf'`. Every scan reads the file, batch by batch.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::CreateExternalTable;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::functions::annotations::AnnotationFormat;
use crate::scan::locate;

/// Creates tables from annotation files of one format.
#[derive(Debug)]
pub struct AnnotationTableFactory(pub AnnotationFormat);

#[async_trait]
impl TableProviderFactory for AnnotationTableFactory {
    async fn create(
        &self,
        state: &dyn Session,
        cmd: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let format = self.0.name();
        let [location] = cmd.locations.as_slice() else {
            return plan_err!(
                "a {format} table has one LOCATION, found {}",
                cmd.locations.len()
            );
        };
        if !cmd.schema.fields().is_empty() {
            return plan_err!("a {format} table has its own columns; leave the column list out");
        }
        if !cmd.table_partition_cols.is_empty() || !cmd.order_exprs.is_empty() {
            return plan_err!(
                "a {format} table has no partitions and no order; leave PARTITIONED BY and WITH ORDER out"
            );
        }
        open(state, location, self.0).await
    }
}

/// The table of the file at `location`.
///
/// # Errors
/// If there is no such file.
pub async fn open(
    state: &dyn Session,
    location: &str,
    format: AnnotationFormat,
) -> Result<Arc<dyn TableProvider>> {
    let place = locate(state, location)?;
    match place.objects.head(&place.path).await {
        Err(object_store::Error::NotFound { .. }) => {
            return plan_err!("there is no file '{location}'");
        }
        found => found.map_err(DataFusionError::from)?,
    };
    let schema = format.schema();
    let file = AnnotationFile {
        name: location.to_string(),
        objects: place.objects,
        path: place.path,
        format,
        schema: Arc::clone(&schema),
    };
    Ok(Arc::new(StreamingTable::try_new(
        schema,
        vec![Arc::new(file)],
    )?))
}

/// An annotation file, scanned as one partition.
struct AnnotationFile {
    name: String,
    objects: Arc<dyn ObjectStore>,
    path: object_store::path::Path,
    format: AnnotationFormat,
    schema: SchemaRef,
}

impl fmt::Debug for AnnotationFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnnotationFile")
            .field("name", &self.name)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl PartitionStream for AnnotationFile {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batch_rows = ctx.session_config().batch_size();
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let (name, format) = (self.name.clone(), self.format);
        let (objects, path) = (Arc::clone(&self.objects), self.path.clone());
        let send = builder.tx();
        let (fetched, wanted) = tokio::sync::oneshot::channel();
        builder.spawn(async move {
            let file = objects.get(&path).await.map_err(DataFusionError::from)?;
            let bytes = file.bytes().await.map_err(DataFusionError::from)?;
            // The receiver is gone if the query has ended.
            let _ = fetched.send(bytes);
            Ok(())
        });
        builder.spawn_blocking(move || {
            // If the channel is closed without bytes, the other task returns the error.
            let Ok(bytes) = wanted.blocking_recv() else {
                return Ok(());
            };
            let emit = |batch| send.blocking_send(Ok(batch)).is_ok();
            format.read(&name, &bytes, batch_rows, emit)
        });
        builder.build()
    }
}
