//! [`StoredScanExec`]: a scan on a worker, which opens its table when it is executed. Decoding a plan reads nothing.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use super::worker_stores::{StoredTable, WorkerStores};
use crate::scan::{PortableScan, VczSettings, VczSource};

/// Time after which a task lets others run. DataFusion's own limit is a number of batches, which may take seconds.
const TURN: Duration = Duration::from_millis(20);

/// `rows`, giving the thread up in time, so that a task of a query that was abandoned can be stopped.
fn yielding(mut rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let mut since = Instant::now();
    let rows = stream::poll_fn(move |context| {
        if since.elapsed() >= TURN {
            since = Instant::now();
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = rows.poll_next_unpin(context);
        if polled.is_pending() {
            since = Instant::now();
        }
        polled
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// A scan of a table that is opened when it is executed.
#[derive(Debug)]
pub struct StoredScanExec {
    table: StoredTable,
    scan: PortableScan,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The scan of the opened table, which all partitions share.
    opened: Arc<OnceCell<Arc<dyn ExecutionPlan>>>,
}

impl StoredScanExec {
    /// The scan `scan` of `table`, whose rows have these properties.
    pub fn new(table: StoredTable, scan: PortableScan, rows: EquivalenceProperties) -> Self {
        let partitions = Partitioning::UnknownPartitioning(scan.partitions.len());
        let properties = PlanProperties::new(
            rows,
            partitions,
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table,
            scan,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            opened: Arc::default(),
        }
    }
}

impl DisplayAs for StoredScanExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "StoredScanExec: partitions={}",
            self.scan.partitions.len()
        )
    }
}

impl ExecutionPlan for StoredScanExec {
    fn name(&self) -> &str {
        Self::static_name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let projected = self.scan.projection.iter().map(|projected| &projected.expr);
        for expr in self.scan.filters.iter().chain(projected) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("{} has no input", self.name()),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let config = context.session_config();
        let Some(stores) = config.get_extension::<WorkerStores>() else {
            return internal_err!("{} runs on workers only", self.name());
        };
        let settings = VczSettings::of(config.options());
        let (table, scan) = (self.table.clone(), self.scan.clone());
        let (metrics, opened) = (self.metrics.clone(), Arc::clone(&self.opened));
        let rows = async move {
            let open = || async {
                let table = stores.get(&table).await?;
                let source = VczSource::of_portable(&table, &scan, settings, metrics)?;
                let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(source);
                Ok::<_, DataFusionError>(scan)
            };
            let scan = opened.get_or_try_init(open).await?;
            Ok::<_, DataFusionError>(yielding(scan.execute(partition, context)?))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream::once(rows).try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        match self.opened.get() {
            Some(scan) => scan.metrics(),
            None => Some(self.metrics.clone_inner()),
        }
    }
}
