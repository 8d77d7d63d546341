//! Tables of annotation files: `CREATE EXTERNAL TABLE genes STORED AS GFF3 LOCATION 'genes.gff3.gz'`, also GTF and BED; or by location,
//! `SELECT … FROM 'genes.gtf'`. Every scan reads the file, batch by batch.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{CreateExternalTable, Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::future::BoxFuture;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::functions::annotations::AnnotationFormat;
use crate::scan::{VczSettings, contigs_in_common, locate};

/// Creates tables from annotation files of one format.
#[derive(Debug)]
pub struct AnnotationTableFactory(pub AnnotationFormat);

impl AnnotationTableFactory {
    /// The table of a statement.
    fn created<'a>(
        &'a self,
        state: &'a dyn Session,
        cmd: &'a CreateExternalTable,
    ) -> BoxFuture<'a, Result<Arc<dyn TableProvider>>> {
        Box::pin(async move {
            let format = self.0.name();
            let [location] = cmd.locations.as_slice() else {
                return plan_err!(
                    "a {format} table has one LOCATION, found {}",
                    cmd.locations.len()
                );
            };
            if !cmd.schema.fields().is_empty() {
                return plan_err!(
                    "a {format} table has its own columns; leave the column list out"
                );
            }
            if !cmd.table_partition_cols.is_empty() || !cmd.order_exprs.is_empty() {
                return plan_err!(
                    "a {format} table has no partitions and no order; leave PARTITIONED BY and WITH ORDER out"
                );
            }
            open(state, location, self.0).await
        })
    }
}

impl TableProviderFactory for AnnotationTableFactory {
    boxed_methods! {
        fn create<'a, 's, 'c>(
            &'a self,
            state: &'s dyn Session,
            cmd: &'c CreateExternalTable,
        ) -> Result<Arc<dyn TableProvider>> = Self::created;
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
    let place = locate(state, location).await?;
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
        schema,
        joined: vec![],
    };
    Ok(Arc::new(AnnotationTable(file)))
}

/// The contigs of a VCZ table that an annotation table is joined with.
#[derive(Debug, Clone)]
pub struct JoinedContigs {
    /// The annotation table's name.
    pub annotations: String,
    /// The VCZ table's name.
    pub store: String,
    /// Those that have variants.
    pub contigs: Vec<String>,
}

/// The table of an annotation file.
#[derive(Debug, Clone)]
pub struct AnnotationTable(AnnotationFile);

impl AnnotationTable {
    /// The file's location as it was given.
    pub fn location(&self) -> &str {
        &self.0.name
    }

    /// The table for a query that joins it with a VCZ table: if none of its rows is on a contig of that table, the session's notices say so.
    pub fn joined_with(&self, contigs: JoinedContigs) -> Self {
        let mut file = self.0.clone();
        file.joined.push(contigs);
        Self(file)
    }

    /// The plan of a scan.
    fn scanned<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            let file: Arc<dyn PartitionStream> = Arc::new(self.0.clone());
            let table = StreamingTable::try_new(self.schema(), vec![file])?;
            table.scan(state, projection, filters, limit).await
        })
    }
}

impl TableProvider for AnnotationTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    boxed_methods! {
        fn scan<'a, 's, 'p, 'f>(
            &'a self,
            state: &'s dyn Session,
            projection: Option<&'p Vec<usize>>,
            filters: &'f [Expr],
            limit: Option<usize>,
        ) -> Result<Arc<dyn ExecutionPlan>> = Self::scanned;
    }
}

/// An annotation file, scanned as one partition.
#[derive(Clone)]
struct AnnotationFile {
    name: String,
    objects: Arc<dyn ObjectStore>,
    path: object_store::path::Path,
    format: AnnotationFormat,
    schema: SchemaRef,
    joined: Vec<JoinedContigs>,
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
        let joined = self.joined.clone();
        let notices = VczSettings::of(ctx.session_config().options()).notices;
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
            let mut contigs = BTreeSet::new();
            let mut is_whole = true;
            let emit = |batch| {
                if !joined.is_empty() {
                    add_contigs(&mut contigs, &batch);
                }
                is_whole = send.blocking_send(Ok(batch)).is_ok();
                is_whole
            };
            format.read(&name, &bytes, batch_rows, emit)?;
            let contigs: Vec<String> = contigs.into_iter().collect();
            // A reader that stopped early has not seen all contigs.
            for table in joined.iter().filter(|_| is_whole) {
                let (annotations, store) = (table.annotations.as_str(), table.store.as_str());
                let notice = contigs_in_common((store, &table.contigs), (annotations, &contigs));
                notice.into_iter().for_each(|notice| notices.add(notice));
            }
            Ok(())
        });
        builder.build()
    }
}

/// Adds the contigs of a batch's rows, its first column.
fn add_contigs(contigs: &mut BTreeSet<String>, batch: &RecordBatch) {
    let names = batch.column(0).as_string::<i32>();
    let mut last = None;
    for name in names.iter().flatten() {
        if last != Some(name) && !contigs.contains(name) {
            contigs.insert(name.to_string());
        }
        last = Some(name);
    }
}
