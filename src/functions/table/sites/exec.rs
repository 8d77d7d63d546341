//! [`SiteExec`]: runs a function over the variants of each partition of a scan.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};

use super::partitions::Rows;
use super::site_scan::{Panel, Site, SiteFunction, SiteScan};
use crate::counts::gathered::PlanesRow;
use crate::counts::scans::Job;

/// The plan of a call.
#[derive(Debug)]
pub(super) struct SiteExec {
    call: String,
    function: Arc<dyn SiteFunction>,
    /// Contig, position and bit-planes of the rows of each partition.
    input: Arc<dyn ExecutionPlan>,
    rows: Vec<Rows>,
    panel: Panel,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SiteExec {
    /// Runs `function` over `input`, whose partitions are those of `rows`.
    pub(super) fn new(
        call: String,
        function: Arc<dyn SiteFunction>,
        input: Arc<dyn ExecutionPlan>,
        rows: Vec<Rows>,
        panel: Panel,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(function.schema()),
            Partitioning::UnknownPartitioning(rows.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            call,
            function,
            input,
            rows,
            panel,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for SiteExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => write!(f, "{}", self.call),
            _ => write!(f, "{}: {}", self.name(), self.call),
        }
    }
}

impl ExecutionPlan for SiteExec {
    fn name(&self) -> &str {
        "SiteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// The partitions of the input are those that this plan asked for.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("{} has one child", self.name());
        };
        let (function, rows) = (Arc::clone(&self.function), self.rows.clone());
        Ok(Arc::new(Self::new(
            self.call.clone(),
            function,
            input,
            rows,
            self.panel.clone(),
        )))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(rows) = self.rows.get(partition) else {
            return exec_err!(
                "{}: partition {partition} of {} was asked for",
                self.call,
                self.rows.len()
            );
        };
        // What the other partitions leave of the session's parallelism.
        let threads = context.session_config().target_partitions() / self.rows.len();
        let consumer = MemoryConsumer::new(format!("{}[{partition}]", self.call));
        let running = Running {
            name: self.function.name(),
            input: Some(self.input.execute(partition, Arc::clone(&context))?),
            scan: self
                .function
                .start(rows.own.clone(), &self.panel, threads.max(1)),
            batch: None,
            next_row: rows.read.start,
            copies: self.panel.shape.copies(),
            batch_rows: context.session_config().batch_size(),
            reservation: consumer.register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            turn: Instant::now(),
        };
        let batches = stream::try_unfold(running, |mut running| async move {
            let batch = running.next().await?;
            Ok(batch.map(|batch| (batch, running)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            Box::pin(batches),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// How long a partition computes before other tasks of the same threads have a turn. DataFusion gives turns by numbers of batches, and a
/// batch may take long.
const TURN: Duration = Duration::from_millis(5);

/// A batch of variants.
struct Variants {
    contigs: StringViewArray,
    positions: Int64Array,
    planes: RecordBatch,
    at: usize,
}

/// A partition that is running.
struct Running {
    name: &'static str,
    /// `None` once it has ended.
    input: Option<SendableRecordBatchStream>,
    scan: Box<dyn SiteScan>,
    batch: Option<Variants>,
    /// The row of the next variant of `batch`.
    next_row: u64,
    copies: usize,
    batch_rows: usize,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    /// When its turn began.
    turn: Instant,
}

impl Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.turn.elapsed() >= TURN {
                tokio::task::yield_now().await;
                self.turn = Instant::now();
            }
            let metrics = self.metrics.clone();
            {
                let _timer = metrics.elapsed_compute().timer();
                if let Some(batch) = self.scan.next_batch(self.batch_rows)? {
                    self.reservation.try_resize(self.scan.bytes())?;
                    metrics.record_output(batch.num_rows());
                    return Ok(Some(batch));
                }
                self.add()?;
            }
            self.reservation.try_resize(self.scan.bytes())?;
            self.run_jobs().await?;
            if self.scan.is_pending() {
                continue;
            }
            if self.scan.is_done() && self.input.take().is_some() {
                self.batch = None;
                self.scan.end()?;
                continue;
            }
            let Some(input) = &mut self.input else {
                let _timer = metrics.elapsed_compute().timer();
                let last = self.scan.next_batch(self.batch_rows)?;
                if let Some(batch) = &last {
                    metrics.record_output(batch.num_rows());
                }
                return Ok(last);
            };
            match input.next().await.transpose()? {
                Some(batch) => {
                    let [contig, position, _] = batch.columns() else {
                        return internal_err!("{}: a scan of three columns", self.name);
                    };
                    let contigs = cast(contig, &DataType::Utf8View)?;
                    let positions = cast(position, &DataType::Int64)?;
                    self.batch = Some(Variants {
                        contigs: contigs.as_string_view().clone(),
                        positions: positions.as_primitive::<Int64Type>().clone(),
                        planes: batch,
                        at: 0,
                    });
                }
                None => {
                    self.input = None;
                    self.scan.end()?;
                }
            }
        }
    }

    /// Has tasks do the scan's jobs. Those of a query that is cancelled are not begun.
    async fn run_jobs(&mut self) -> Result<()> {
        loop {
            let jobs = self.scan.jobs();
            if jobs.is_empty() {
                return Ok(());
            }
            let spawn = |job: Job| {
                let time = self.metrics.elapsed_compute().clone();
                SpawnedTask::spawn(async move {
                    let _timer = time.timer();
                    job();
                })
            };
            let tasks: Vec<_> = jobs.into_iter().map(spawn).collect();
            for task in tasks {
                let done = task.join().await;
                done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            }
            self.reservation.try_resize(self.scan.bytes())?;
        }
    }

    /// Adds variants of the batch until there is something to do with them.
    fn add(&mut self) -> Result<()> {
        let Some(batch) = &mut self.batch else {
            return Ok(());
        };
        let planes = batch.planes.column(2).as_list_opt::<i32>();
        let values = planes.and_then(|list| list.values().as_primitive_opt::<UInt64Type>());
        let (Some(planes), Some(values)) = (planes, values) else {
            return internal_err!("{}: the scan gives no bit-planes", self.name);
        };
        let offsets = planes.value_offsets();
        while batch.at < planes.len() && !self.scan.is_pending() && !self.scan.is_done() {
            let (at, row) = (batch.at, self.next_row);
            batch.at += 1;
            self.next_row += 1;
            if planes.is_null(at) || batch.positions.is_null(at) || batch.contigs.is_null(at) {
                continue;
            }
            let words = match offsets.get(at..at + 2) {
                // Offsets of lists are not negative and never decrease.
                Some(&[start, end]) => values.values().get(start as usize..end as usize),
                _ => None,
            };
            let Some(planes) = words.and_then(|words| PlanesRow::try_new(words, self.copies))
            else {
                return internal_err!("{}: bit-planes of other copies", self.name);
            };
            self.scan.add(Site {
                contig: batch.contigs.value(at),
                position: batch.positions.value(at),
                row,
                planes,
            })?;
        }
        if batch.at >= batch.planes.num_rows() {
            self.batch = None;
        }
        Ok(())
    }
}
