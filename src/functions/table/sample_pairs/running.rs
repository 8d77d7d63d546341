//! One execution: pairs are counted strip by strip, and given in batches.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder,
};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::call::{Call, NAME};
use super::columns::{self, Found};
use super::strip::{PAIR_BYTES, Strip, TURN, Taken, firsts_within};
use crate::counts::gathered::PlanesRow;
use crate::counts::pairs::{
    IndividualPairs, KeepsRows, OnDevice, PairMatrix, Shape, SiteRows, pairs_of,
};
use crate::counts::{CountError, Level, ResidentPlanes, Workers};
use crate::functions::aggregate::{MarkedRows, of_rows};
use crate::functions::interrupt::{self, Interrupt};
use crate::functions::pair_device::device_for;
use crate::scan::{ResidentPartitions, VczSettings, may_keep_rows};

/// Rows that are counted at a time.
const ROWS: usize = 1 << 13;
/// Bytes of bits that are counted at a time, if that is fewer rows; or this part of the budget, if it is smaller. They are needed some four
/// times over.
const BYTES: usize = 1 << 26;
/// See [`BYTES`].
const PART: usize = 8;

/// An execution.
pub(super) struct Running {
    call: Arc<Call>,
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    context: Arc<TaskContext>,
    /// Bytes that the counts of pairs may take.
    budget: usize,
    /// How many of [`PAIR_BYTES`] the table is known to need.
    kind: usize,
    strip: Option<Strip>,
    /// The first sample of the next strip.
    next: usize,
    found: Vec<Found>,
    /// Where pairs are counted if all are counted at a time.
    device: Option<Arc<OnDevice>>,
    /// Memory for rows that stay there.
    kept: Option<Box<dyn KeepsRows>>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    passes: Count,
}

impl Running {
    pub(super) fn new(
        call: Arc<Call>,
        input: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        budget: usize,
        context: Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let consumer = MemoryConsumer::new(call.text.clone());
        Self {
            reservation: consumer.register(context.memory_pool()),
            metrics: BaselineMetrics::new(metrics, 0),
            passes: MetricBuilder::new(metrics).counter("passes", 0),
            call,
            input,
            schema,
            context,
            budget,
            kind: 0,
            strip: None,
            next: 0,
            found: vec![],
            device: None,
            kept: None,
        }
    }

    /// The next batch.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let rows = self.context.session_config().batch_size();
        let samples = self.call.shape.samples;
        loop {
            if let Some(mut strip) = self.strip.take() {
                let (least, mut found) = (self.call.least, std::mem::take(&mut self.found));
                let mut taken = Taken::Some;
                self.compute(TURN, |workers| {
                    taken = strip.take(least, rows, &mut found, workers)?;
                    Ok(())
                })?;
                self.found = found;
                if taken == Taken::Some {
                    self.strip = Some(strip);
                } else {
                    self.reservation.free();
                }
            } else if self.next + 1 < samples {
                self.count().await?;
                continue;
            }
            let is_last = self.strip.is_none() && self.next + 1 >= samples;
            if self.found.len() >= rows || is_last && !self.found.is_empty() {
                return self.batch().map(Some);
            }
            if is_last {
                return Ok(None);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The found pairs.
    fn batch(&mut self) -> Result<RecordBatch> {
        let (call, found) = (&self.call, &self.found);
        let arrays = call
            .columns
            .iter()
            .map(|at| columns::array(*at, found, &call.ids));
        let options = RecordBatchOptions::new().with_row_count(Some(found.len()));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, arrays.collect(), &options)?;
        self.metrics.record_output(batch.num_rows());
        self.found.clear();
        Ok(batch)
    }

    /// Counts the next strip of pairs.
    async fn count(&mut self) -> Result<()> {
        let shape = self.call.shape;
        loop {
            let most = self.budget / PAIR_BYTES[self.kind];
            let firsts = firsts_within(shape.samples, self.next, most);
            let pairs = IndividualPairs::of_firsts(shape, firsts.clone()).map_err(counted)?;
            self.passes.add(1);
            let settings = VczSettings::of(self.context.session_config().options());
            let device = match firsts == (0..shape.samples) {
                true => device_for(&settings, pairs.heap_bytes()).await?,
                false => None,
            };
            self.device = device.map(|device| Arc::new(OnDevice::new(device)));
            if let Some(pairs) = self.read(pairs, &firsts).await? {
                self.next = firsts.end;
                self.strip = Some(Strip::new(pairs, shape.samples, firsts));
                return Ok(());
            }
            // There are calls of another kind than before, whose counts are larger: fewer pairs at a time.
            self.kind += 1;
        }
    }

    /// Adds all rows of the table; `None` if the counts became larger than they may be, and fewer pairs would take less.
    async fn read(
        &mut self,
        mut pairs: IndividualPairs,
        firsts: &Range<usize>,
    ) -> Result<Option<IndividualPairs>> {
        let most_words = BYTES.min(self.budget / PART) / size_of::<u64>();
        let mut rows = SiteRows::default();
        self.reserve(&pairs, 0)?;
        let mut batches = self.batches()?;
        loop {
            let batch = batches.next().await.transpose()?;
            let ended = batch.is_none();
            if let Some(batch) = batch {
                for row in views(&batch, self.call.shape.copies(), None)?.0 {
                    rows.push_planes(row);
                }
            }
            let is_full = rows.len() >= ROWS || rows.words().len() >= most_words;
            if rows.len() > 0 && (ended || is_full) {
                self.fold(&mut pairs, &mut rows)?;
                if self.are_too_many(&pairs, firsts) {
                    // Ends the tasks that may use the device's memory.
                    drop(batches);
                    self.reservation.free();
                    self.kept = None;
                    return Ok(None);
                }
            }
            if ended {
                self.take_counts(&mut pairs)?;
                // Those of the device may be of another kind.
                if self.are_too_many(&pairs, firsts) {
                    self.reservation.free();
                    return Ok(None);
                }
                self.reserve(&pairs, 0)?;
                return Ok(Some(pairs));
            }
        }
    }

    /// Whether the counts are larger than they may be, and fewer pairs would take less.
    fn are_too_many(&self, pairs: &IndividualPairs, firsts: &Range<usize>) -> bool {
        // Two numbers of each sample are beside those of pairs.
        let most = self.budget + 8 * self.call.shape.samples;
        firsts.len() > 1 && self.kind + 1 < PAIR_BYTES.len() && pairs.heap_bytes() > most
    }

    fn fold(&mut self, pairs: &mut IndividualPairs, rows: &mut SiteRows) -> Result<()> {
        let copies = self.call.shape.copies();
        // Planes are transposed, and then are those of individuals.
        self.reserve(pairs, 3 * rows.heap_bytes())?;
        let steps = pairs_of(copies).saturating_mul(rows.len() / 256 + 1);
        self.compute(steps, |workers| {
            let mut parts = rows.parts(copies, ROWS);
            while let Some(part) = parts.next_part() {
                pairs.fold(&part, Level::detect(), workers)?;
            }
            Ok(())
        })?;
        rows.clear();
        Ok(())
    }

    /// The batches of all partitions, in any order; without the rows that the device counts.
    fn batches(&mut self) -> Result<SendableRecordBatchStream> {
        let Some(device) = &self.device.clone() else {
            let input = CoalescePartitionsExec::new(Arc::clone(&self.input));
            return input.execute(0, Arc::clone(&self.context));
        };
        let partitions = self.input.output_partitioning().partition_count();
        let resident = self.keep_rows(device)?;
        let context = match &resident {
            Some(resident) => resident.within(&self.context),
            None => Arc::clone(&self.context),
        };
        let mut all = RecordBatchReceiverStream::builder(self.input.schema(), partitions);
        for partition in 0..partitions {
            let mut input = self.input.execute(partition, Arc::clone(&context))?;
            let (device, others) = (Arc::clone(device), all.tx());
            let (shape, elapsed) = (self.call.shape, self.metrics.elapsed_compute().clone());
            let resident = resident.clone();
            let interrupt = Interrupt::current();
            all.spawn(async move {
                let resident = resident.as_ref();
                let resident = resident.and_then(|resident| resident.partition(partition));
                while let Some(batch) = input.next().await.transpose()? {
                    let timer = elapsed.timer();
                    let planes = resident.map(AsRef::as_ref);
                    let left = interrupt.within(|| send(&device, shape, batch, planes))?;
                    timer.done();
                    // Without a receiver nobody reads the pairs.
                    if left.num_rows() > 0 && others.send(Ok(left)).await.is_err() {
                        break;
                    }
                    if planes.is_some() {
                        // Let the tasks run that read the next chunks.
                        tokio::task::yield_now().await;
                    }
                }
                resident.iter().for_each(|planes| planes.clear());
                Ok(())
            });
        }
        Ok(all.build())
    }

    /// Lets rows stay on the devices that decode them, if these count them.
    fn keep_rows(&mut self, device: &OnDevice) -> Result<Option<Arc<ResidentPartitions>>> {
        let settings = VczSettings::of(self.context.session_config().options());
        if !may_keep_rows(&self.input, settings.backend) {
            return Ok(None);
        }
        let opens = || IndividualPairs::counts_resident(self.call.shape, (), device);
        if interrupt::long(usize::MAX, opens).map_err(counted)? {
            self.kept = device.keep_rows();
        }
        let kept = self.kept.as_ref();
        Ok(kept.and_then(|kept| ResidentPartitions::of_scan(&self.input, kept.as_ref())))
    }

    /// Adds the counts of the device.
    fn take_counts(&mut self, pairs: &mut IndividualPairs) -> Result<()> {
        let Some(device) = self.device.take() else {
            return Ok(());
        };
        // The device counts rows that are left.
        let added = self.compute(usize::MAX, |workers| pairs.add_counted(&device, workers));
        self.kept = None;
        added
    }

    /// Does `work` of so many nanoseconds with the operator's threads.
    fn compute(
        &mut self,
        steps: usize,
        work: impl FnOnce(&Workers<'_>) -> Result<(), CountError>,
    ) -> Result<()> {
        let _timer = self.metrics.elapsed_compute().timer();
        let done = interrupt::long(steps, || interrupt::with_workers(work));
        done.map_err(counted)
    }

    fn reserve(&mut self, pairs: &IndividualPairs, more: usize) -> Result<()> {
        let bytes = pairs.heap_bytes().saturating_add(more);
        self.reservation.try_resize(bytes).map_err(|error| {
            error.context(format!(
                "{NAME}: counts of pairs and genotypes of {} samples need {bytes} bytes at a time; raise the memory limit, or name a population \
                 of fewer samples",
                self.call.shape.samples
            ))
        })
    }
}

/// Sends the rows that `device` counts; returns the others.
fn send(
    device: &OnDevice,
    shape: Shape,
    batch: RecordBatch,
    resident: Option<&ResidentPlanes>,
) -> Result<RecordBatch> {
    let mut marked = resident.map(|planes| MarkedRows::new(NAME, planes, batch.num_rows()));
    let (rows, numbers) = views(&batch, shape.copies(), marked.as_mut())?;
    if let Some(marked) = marked
        && !marked.parts.is_empty()
    {
        let send = |workers: &Workers<'_>| {
            IndividualPairs::send_resident(shape, (), device, marked.parts, workers)
        };
        interrupt::alone(send).map_err(counted)?;
    }
    resident.iter().for_each(|resident| resident.release());
    let send = |workers: &Workers<'_>| IndividualPairs::send(shape, (), device, &rows, workers);
    let steps = if device.is_new() { usize::MAX } else { 0 };
    let others = interrupt::long(steps, || interrupt::alone(send)).map_err(counted)?;
    let others: Vec<_> = others
        .into_iter()
        .filter_map(|row| numbers.get(row).copied())
        .collect();
    let left = others.len();
    let columns = of_rows(batch.columns(), batch.num_rows(), others.into_iter())?;
    let options = RecordBatchOptions::new().with_row_count(Some(left));
    Ok(RecordBatch::try_new_with_options(
        batch.schema(),
        columns,
        &options,
    )?)
}

/// The rows of a batch that have genotypes, of so many copies, and their numbers; without those that `marked` takes.
fn views<'a>(
    batch: &'a RecordBatch,
    copies: usize,
    mut marked: Option<&mut MarkedRows<'_>>,
) -> Result<(Vec<PlanesRow<'a>>, Vec<usize>)> {
    let planes = batch.columns().first();
    let planes = planes.and_then(|planes| planes.as_list_opt::<i32>());
    let values = planes.and_then(|list| list.values().as_primitive_opt::<UInt64Type>());
    let (Some(planes), Some(values)) = (planes, values) else {
        return internal_err!("{NAME}: the scan gives no bit-planes");
    };
    let (offsets, words) = (planes.value_offsets(), values.values());
    let (mut views, mut numbers) = (vec![], vec![]);
    let bounds = offsets.windows(2).enumerate();
    for (row, bounds) in bounds.filter(|(row, _)| planes.is_valid(*row)) {
        // Offsets of lists are not negative and never decrease.
        let of_row = words.get(bounds[0] as usize..bounds[1] as usize);
        let of_row = of_row.unwrap_or_default();
        if let Some(marked) = &mut marked
            && marked.take(of_row)?
        {
            continue;
        }
        let Some(view) = PlanesRow::try_new(of_row, copies) else {
            return internal_err!("{NAME}: the scan gives bit-planes of other copies");
        };
        views.push(view);
        numbers.push(row);
    }
    Ok((views, numbers))
}

fn counted(error: CountError) -> DataFusionError {
    match error {
        CountError::Stopped => interrupt::stopped(),
        CountError::Device(reason) => exec_datafusion_err!("{NAME}: {reason}"),
        error => DataFusionError::ResourcesExhausted(format!("{NAME}: {error}")),
    }
}
