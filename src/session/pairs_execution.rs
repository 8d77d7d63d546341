//! [`Execution`]: one execution of [`PairsExec`](super::pairs::PairsExec), whose partitions add their rows to one state. Directly above a scan of many rows, rows stay on
//! the GPU that decodes them, and are counted there.
//!
//! A matrix of all pairs is in one state, to which all partitions add. Without one each partition has a state of its own for rows that GPUs do
//! not count, so that it adds them beside the others.
//!
//! Invariants: a partition that ends while others run leaves the common state to them, and the last one to end returns it, so no
//! partition waits for another to begin or to end. Each row is in exactly one state that is returned.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;
use parking_lot::Mutex;

use super::pairs_state::{NAME, OwnState, arguments, saved, size_of, update};
use crate::counts::ResidentPlanes;
use crate::counts::pairs::KeepsRows;
use crate::functions::{
    PairFeed, device_bytes, device_for, is_on_device, keeps_matrix, use_pair_device,
};
use crate::scan::{ResidentPartitions, VczSettings, is_planes_type, may_keep_rows};

/// For each call, what sends rows to GPUs that count its pairs.
type Feeds = Arc<[Option<Arc<dyn PairFeed>>]>;

/// One execution of the operator.
#[derive(Debug)]
pub(super) struct Execution {
    context: Arc<TaskContext>,
    aggregate: Arc<AggregateExec>,
    on_gpu: Arc<Mutex<Option<bool>>>,
    /// Those of the accumulators that there are.
    feeds: Mutex<Feeds>,
    /// Rows that stay on GPUs, or whether they may not, once that is known of these accumulators.
    resident: tokio::sync::Mutex<Option<Option<Arc<Resident>>>>,
    /// The partitions that have begun.
    partitions: Mutex<HashSet<usize>>,
    /// How many partitions have begun and not ended.
    running: Mutex<usize>,
    state: tokio::sync::Mutex<State>,
}

/// Rows that stay on the GPUs that decode them.
#[derive(Debug)]
struct Resident {
    partitions: Arc<ResidentPartitions>,
    /// That in which the scan is executed.
    context: Arc<TaskContext>,
    /// Memory for the rows, until the end of the execution.
    _memory: Box<dyn KeepsRows>,
}

/// The rows of all partitions since a state was returned.
#[derive(Debug)]
struct State {
    /// Those of the calls; none before the first row.
    accumulators: Vec<Box<dyn Accumulator>>,
    /// Of the accumulators, until the partitions are dropped.
    memory: MemoryReservation,
    /// Whether a partition failed while it added rows, after which the accumulators must not be used.
    has_failed: bool,
}

impl Execution {
    fn new(
        aggregate: &Arc<AggregateExec>,
        on_gpu: &Arc<Mutex<Option<bool>>>,
        context: &Arc<TaskContext>,
        partitions: impl IntoIterator<Item = usize>,
    ) -> Self {
        let memory = MemoryConsumer::new(NAME);
        Self {
            context: Arc::clone(context),
            aggregate: Arc::clone(aggregate),
            on_gpu: Arc::clone(on_gpu),
            feeds: Mutex::default(),
            resident: tokio::sync::Mutex::default(),
            partitions: Mutex::new(partitions.into_iter().collect()),
            running: Mutex::new(0),
            state: tokio::sync::Mutex::new(State {
                accumulators: vec![],
                memory: memory.register(context.memory_pool()),
                has_failed: false,
            }),
        }
    }

    /// Whether all partitions add their rows to one state.
    fn has_one_state(&self) -> bool {
        has_one_state(&self.aggregate)
    }

    /// The calls.
    pub(super) fn calls(&self) -> &[Arc<AggregateFunctionExpr>] {
        self.aggregate.aggr_expr()
    }

    fn accumulators(&self) -> Result<Vec<Box<dyn Accumulator>>> {
        let calls = self.aggregate.aggr_expr().iter();
        calls.map(|call| call.create_accumulator()).collect()
    }

    /// Those that count pairs on a GPU, if there is one and they have enough pairs.
    async fn accumulators_on_device(&self) -> Result<Vec<Box<dyn Accumulator>>> {
        let mut accumulators = self.accumulators()?;
        let settings = VczSettings::of(self.context.session_config().options());
        let calls = self.aggregate.aggr_expr().iter();
        let mut feeds = vec![None; accumulators.len()];
        // Rows stay on the devices of the first call, so the others count on the same ones, whatever other sessions set meanwhile.
        let mut devices = None;
        for ((call, accumulator), feed) in calls.zip(&mut accumulators).zip(&mut feeds) {
            if !is_on_device(call.fun()) {
                continue;
            }
            if let Some(found) = device_for(&settings, device_bytes(call)).await? {
                let device = devices.get_or_insert(found);
                *feed = use_pair_device(accumulator.as_mut(), device);
            }
        }
        *self.on_gpu.lock() = Some(feeds.iter().any(Option::is_some));
        *self.feeds.lock() = feeds.into();
        Ok(accumulators)
    }

    /// Executes a partition of the input; also returns where its rows are found that stay on GPUs.
    async fn input(
        &self,
        partition: usize,
    ) -> Result<(SendableRecordBatchStream, Option<Arc<Resident>>)> {
        let resident = {
            let mut known = self.resident.lock().await;
            match &*known {
                Some(resident) => resident.clone(),
                None => known.insert(self.keep_rows().await?.map(Arc::new)).clone(),
            }
        };
        let context = match &resident {
            Some(resident) => &resident.context,
            None => &self.context,
        };
        let input = self
            .aggregate
            .input()
            .execute(partition, Arc::clone(context))?;
        Ok((input, resident))
    }

    /// Lets rows stay on the GPUs that decode them, if GPUs count all pairs and the input is a scan of many rows.
    async fn keep_rows(&self) -> Result<Option<Resident>> {
        let input = self.aggregate.input();
        let settings = VczSettings::of(self.context.session_config().options());
        if !may_keep_rows(input, settings.backend) {
            return Ok(None);
        }
        let mut state = self.state.lock().await;
        let state = &mut *state;
        if state.accumulators.is_empty() {
            state.accumulators = self.accumulators_on_device().await?;
            state.memory.try_resize(size_of(&state.accumulators))?;
        }
        let feeds = Arc::clone(&self.feeds.lock());
        for (call, feed) in self.aggregate.aggr_expr().iter().zip(feeds.iter()) {
            let types = call.expressions().into_iter();
            let types = types.map(|expr| expr.data_type(&input.schema()));
            let types = types.collect::<Result<Vec<_>>>()?;
            let counts = match feed {
                // Marks of rows are for the first argument of these.
                Some(feed) if !types.iter().skip(1).any(is_planes_type) => {
                    feed.counts_resident()?
                }
                _ => !types.iter().any(is_planes_type),
            };
            if !counts {
                return Ok(None);
            }
        }
        let Some(memory) = feeds.iter().flatten().find_map(|feed| feed.keep_rows()) else {
            return Ok(None);
        };
        feeds.iter().flatten().for_each(|feed| feed.open());
        let partitions = ResidentPartitions::of_scan(input, &*memory);
        Ok(partitions.map(|partitions| Resident {
            context: partitions.within(&self.context),
            partitions,
            _memory: memory,
        }))
    }

    /// Sends rows to GPUs, some of which may have stayed there; returns the arguments of those that they do not count, or nothing if they count
    /// all rows of all calls.
    fn send(
        &self,
        mut arguments: Vec<Vec<ArrayRef>>,
        resident: Option<&ResidentPlanes>,
        metrics: &BaselineMetrics,
    ) -> Result<Option<Vec<Vec<ArrayRef>>>> {
        let _timer = metrics.elapsed_compute().timer();
        let feeds = Arc::clone(&self.feeds.lock());
        let mut are_sent = !feeds.is_empty();
        for (feed, arguments) in feeds.iter().zip(&mut arguments) {
            match feed {
                Some(feed) => {
                    *arguments = feed.send(std::mem::take(arguments), resident)?;
                    are_sent &= arguments.iter().all(|array| array.is_empty());
                }
                None => are_sent = false,
            }
        }
        if let Some(resident) = resident {
            resident.release();
        }
        Ok((!are_sent).then_some(arguments))
    }

    /// Adds the arguments of all calls for some rows, to `own` if partitions have states of their own; `false` if another partition has
    /// failed, whose error is that of the query.
    async fn add(
        &self,
        arguments: Vec<Vec<ArrayRef>>,
        resident: Option<&ResidentPlanes>,
        own: &mut Option<OwnState>,
        metrics: &BaselineMetrics,
    ) -> Result<bool> {
        let arguments = match self.send(arguments, resident, metrics) {
            Ok(Some(arguments)) => arguments,
            Ok(None) => return Ok(true),
            Err(error) => {
                self.state.lock().await.has_failed = true;
                return Err(error);
            }
        };
        if let Some(own) = own {
            let added = {
                let _timer = metrics.elapsed_compute().timer();
                own.add(&arguments)
            };
            let mut state = self.state.lock().await;
            state.has_failed |= added.is_err();
            return added.map(|()| !state.has_failed);
        }
        let mut state = self.state.lock().await;
        let _timer = metrics.elapsed_compute().timer();
        if state.has_failed {
            return Ok(false);
        }
        let state = &mut *state;
        if state.accumulators.is_empty() {
            state.accumulators = self.accumulators_on_device().await?;
        }
        state.has_failed = true;
        update(&mut state.accumulators, &arguments, &mut state.memory)?;
        state.has_failed = false;
        Ok(true)
    }
}

/// Whether all partitions add the rows of an aggregate to one state.
pub(super) fn has_one_state(aggregate: &AggregateExec) -> bool {
    let mut calls = aggregate.aggr_expr().iter();
    calls.any(|call| keeps_matrix(call.fun()))
}

/// A partition of an execution that has begun. Dropped before its end, it ends without a state: nobody reads the result then.
#[derive(Debug)]
pub(super) struct Part {
    execution: Arc<Execution>,
    has_ended: bool,
}

impl Part {
    /// Adds a partition to the last execution, if it is of that, or begins a new one. `on_gpu` gets whether GPUs count its pairs.
    ///
    /// # Errors
    /// If the partition has begun before, while others run.
    pub(super) fn begin(
        last: &Mutex<Weak<Execution>>,
        aggregate: &Arc<AggregateExec>,
        on_gpu: &Arc<Mutex<Option<bool>>>,
        context: &Arc<TaskContext>,
        partition: usize,
    ) -> Result<Self> {
        let mut last = last.lock();
        // The partitions of one execution have the same context.
        let same = |execution: &Arc<Execution>| Arc::ptr_eq(&execution.context, context);
        let execution = match last.upgrade().filter(same) {
            Some(execution) if execution.partitions.lock().insert(partition) => execution,
            Some(execution) if *execution.running.lock() > 0 => {
                return internal_err!(
                    "partition {partition} of {NAME} begins again while others run"
                );
            }
            _ => {
                let execution = Execution::new(aggregate, on_gpu, context, [partition]);
                let execution = Arc::new(execution);
                *last = Arc::downgrade(&execution);
                execution
            }
        };
        *execution.running.lock() += 1;
        Ok(Self {
            execution,
            has_ended: false,
        })
    }

    /// The parts of an execution that has all of so many partitions, and no others: these are complete together.
    pub(super) fn all(
        aggregate: &Arc<AggregateExec>,
        on_gpu: &Arc<Mutex<Option<bool>>>,
        context: &Arc<TaskContext>,
        partitions: usize,
    ) -> Vec<Self> {
        let execution = Execution::new(aggregate, on_gpu, context, 0..partitions);
        *execution.running.lock() = partitions;
        let execution = Arc::new(execution);
        let part = |_| Self {
            execution: Arc::clone(&execution),
            has_ended: false,
        };
        (0..partitions).map(part).collect()
    }

    /// The execution.
    pub(super) fn execution(&self) -> &Arc<Execution> {
        &self.execution
    }

    /// Ends the partition: what `finish` makes of the accumulators of the common state and its memory, if no other one runs.
    pub(super) async fn end<T>(
        mut self,
        finish: impl FnOnce(&mut [Box<dyn Accumulator>], &mut MemoryReservation) -> Result<T>,
    ) -> Result<Option<T>> {
        let execution = Arc::clone(&self.execution);
        // In the order in which a partition that begins takes both.
        let mut resident = execution.resident.lock().await;
        let mut state = execution.state.lock().await;
        self.has_ended = true;
        let is_last = {
            let mut running = execution.running.lock();
            *running = running.saturating_sub(1);
            if *running == 0 {
                // Before another partition can begin, which has accumulators of its own.
                *execution.feeds.lock() = Feeds::default();
                *resident = None;
            }
            *running == 0
        };
        drop(resident);
        if !is_last || state.has_failed {
            return Ok(None);
        }
        let mut accumulators = std::mem::take(&mut state.accumulators);
        if accumulators.is_empty() {
            accumulators = execution.accumulators()?;
        }
        finish(&mut accumulators, &mut state.memory).map(Some)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut running = self.execution.running.lock();
            *running = running.saturating_sub(1);
        }
    }
}

/// Adds all rows of a partition; returns its own state, if it has one.
pub(super) async fn add_rows(
    partition: usize,
    execution: &Execution,
    metrics: &BaselineMetrics,
) -> Result<Option<OwnState>> {
    let (mut input, resident) = execution.input(partition).await?;
    let resident = resident.as_ref();
    let resident = resident.and_then(|resident| resident.partitions.partition(partition));
    let planes = resident.map(AsRef::as_ref);
    let mut own = match execution.has_one_state() {
        true => None,
        false => Some(OwnState::new(execution.accumulators()?, &execution.context)),
    };
    while let Some(batch) = input.next().await.transpose()? {
        let timer = metrics.elapsed_compute().timer();
        let arguments = arguments(&execution.aggregate, &batch)?;
        timer.done();
        if !execution.add(arguments, planes, &mut own, metrics).await? {
            break;
        }
        if planes.is_some() {
            // Rows that stay on GPUs take little time each, so the tasks that read the next chunks would wait for all that there are.
            tokio::task::yield_now().await;
        }
    }
    drop(input);
    if let Some(planes) = planes {
        planes.clear();
    }
    Ok(own)
}

/// Adds all rows of a partition, and returns its state, if it has one, and the common one, if it ends last.
pub(super) async fn states(
    partition: usize,
    part: Part,
    metrics: BaselineMetrics,
) -> Result<Option<RecordBatch>> {
    let execution = Arc::clone(part.execution());
    let aggregate = &execution.aggregate;
    let own = add_rows(partition, &execution, &metrics).await?;
    let own = own.map(|mut own| saved(&mut own.accumulators, aggregate));
    let common = part.end(|accumulators, memory| {
        let states = saved(accumulators, aggregate)?;
        memory.try_resize(size_of(accumulators))?;
        Ok(states)
    });
    let common = common.await?;
    let states: Vec<_> = own.transpose()?.into_iter().chain(common).collect();
    let states = match states.as_slice() {
        [] => None,
        states => Some(concat_batches(&aggregate.schema(), states)?),
    };
    metrics.record_output(states.as_ref().map_or(0, RecordBatch::num_rows));
    metrics.done();
    Ok(states)
}
