//! Runs functions that may compute for long, so that they stop when their query is cancelled: aggregates that compare pairs, those with
//! large values, those of this crate in OVER, where one batch may have many frames, and slow scalar functions.
//!
//! The operators that call them are polled in tasks of their own. When the stream of one is dropped, its
//! [`Interrupt`] is requested, which the function polls while it computes. The partitions of an operator share as many threads as the
//! session has partitions: where only one of them has much to compute, it has them all. The nodes are added after planning, so that EXPLAIN shows
//! the plan as it is without them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::pairs::PairsExec;
use super::pairs_memory::check_memory;
use super::pass_through::passes_rows_on;
use super::runs::AggregateRunsExec;
use super::window_calls::{aggregate_of, window_calls};
use super::window_memory::ReserveWindowMemoryExec;
use crate::functions::interrupt::{Interrupt, Threads, long};
use crate::functions::scalar::is_slow as is_slow_scalar;
use crate::functions::table::SamplePairsExec;
use crate::functions::{compares_pairs, compares_sites, device_for_sites, is_slow, value_size};
use crate::scan::VczSettings;

/// Batches that the task may be ahead of its reader.
const AHEAD: usize = 1;
/// Values of this many bytes may take long: that of each group is computed from all of its cells.
const LARGE_VALUE: usize = 64 << 10;

/// `plan` with an [`InterruptibleExec`] above each operator that may compute for long.
///
/// # Errors
/// If an operator does not take its new input, or `pool` cannot hold what they need.
pub fn interruptible(
    plan: Arc<dyn ExecutionPlan>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<Arc<dyn ExecutionPlan>> {
    check_memory(&plan, pool)?;
    plan.transform_up(|node| {
        if !may_compute_for_long(&node) {
            return Ok(Transformed::no(node));
        }
        // A window operator runs in the task of the node above it.
        let inner = node.children().into_iter().find_map(|child| {
            let child = child.downcast_ref::<InterruptibleExec>()?;
            (child.runs_window && node.is::<ReserveWindowMemoryExec>())
                .then(|| Arc::clone(&child.input))
        });
        let node = match inner {
            Some(inner) => node.replace_children(
                vec![inner],
                ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep),
            )?,
            None => node,
        };
        Ok(Transformed::yes(Arc::new(InterruptibleExec::new(node)) as _))
    })
    .map(|transformed| transformed.data)
}

fn may_compute_for_long(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return of_aggregate(aggregate);
    }
    if let Some(runs) = node.downcast_ref::<AggregateRunsExec>() {
        return of_aggregate(runs.aggregate());
    }
    if node.is::<SamplePairsExec>() || node.is::<PairsExec>() {
        return true;
    }
    // It runs the window operator below it in its own scope, so both belong into one task.
    if node.is::<ReserveWindowMemoryExec>() {
        return true;
    }
    calls_of_window(node).any(|call| is_slow(call.fun().name())) || calls_slow_scalar(node)
}

/// Whether an expression of the operator calls a scalar function that may take long for a row.
fn calls_slow_scalar(node: &Arc<dyn ExecutionPlan>) -> bool {
    let mut found = false;
    // The closures return no errors.
    let _ = node.apply_expressions(&mut |expr| {
        expr.apply(|expr| {
            let call = expr.downcast_ref::<ScalarFunctionExpr>();
            found |= call.is_some_and(|call| is_slow_scalar(call.name()));
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found
}

fn of_aggregate(aggregate: &AggregateExec) -> bool {
    let mut calls = aggregate.aggr_expr().iter();
    calls.any(|call| {
        compares_pairs(call.fun()) || is_slow(call.fun().name()) || has_large_value(call)
    })
}

/// Whether an operator evaluates an aggregate over pairs of sites, which devices can.
fn sums_over_sites(node: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    let aggregate =
        aggregate.filter(|aggregate| aggregate.mode().output_mode() == AggregateOutputMode::Final);
    let pairs = node.downcast_ref::<PairsExec>();
    let pairs = pairs.filter(|pairs| pairs.computes_values());
    let aggregate = aggregate.or_else(|| pairs.map(PairsExec::aggregate));
    aggregate.is_some_and(|aggregate| {
        let mut calls = aggregate.aggr_expr().iter();
        calls.any(|call| compares_sites(call.fun()))
    })
}

fn has_large_value(call: &AggregateFunctionExpr) -> bool {
    // If there is no size, running the plan returns the error.
    value_size(call).is_ok_and(|bytes| bytes >= LARGE_VALUE)
}

/// The aggregates that a node calls in OVER.
fn calls_of_window(node: &Arc<dyn ExecutionPlan>) -> impl Iterator<Item = &AggregateFunctionExpr> {
    window_calls(node)
        .iter()
        .filter_map(|call| aggregate_of(call.as_ref()))
}

/// Runs its input in a task of its own, which stops when the stream is dropped.
#[derive(Debug)]
pub struct InterruptibleExec {
    input: Arc<dyn ExecutionPlan>,
    /// As many as the session has partitions, for all partitions together.
    threads: OnceLock<Threads>,
    /// Whether it computes frames.
    runs_window: bool,
    /// Whether a poll may take long although each of its computations is short.
    polls_long: bool,
    /// Whether it sums over pairs of sites, which devices can.
    compares_sites: bool,
}

impl InterruptibleExec {
    /// Runs `input` in a task.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let runs_window =
            input.is::<ReserveWindowMemoryExec>() || calls_of_window(&input).next().is_some();
        let polls_long = runs_window || calls_slow_scalar(&input);
        let compares_sites = sums_over_sites(&input);
        Self {
            input,
            threads: OnceLock::new(),
            runs_window,
            polls_long,
            compares_sites,
        }
    }
}

/// Requests an interrupt when it is dropped.
struct Stops(Interrupt);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.request();
    }
}

impl DisplayAs for InterruptibleExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => write!(f, "{}", self.name()),
        }
    }
}

impl ExecutionPlan for InterruptibleExec {
    passes_rows_on!(|_node, input| Self::new(input));

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = context.session_config().target_partitions();
        let settings = VczSettings::of(context.session_config().options());
        let threads = self.threads.get_or_init(|| Threads::new(partitions));
        let input = self.input.execute(partition, context)?;
        let schema = self.schema();
        let steps = if self.polls_long { usize::MAX } else { 0 };
        let interrupt = Interrupt::new(threads);
        let stops = Stops(interrupt.clone());
        let settings = self.compares_sites.then_some(settings);
        // The task starts when the first batch is wanted, as the input would.
        let batches = stream::once(async move {
            let device = match settings {
                Some(settings) => device_for_sites(&settings).await?,
                None => None,
            };
            Ok::<_, DataFusionError>(in_own_task(
                input,
                interrupt.with_site_device(device),
                steps,
            ))
        });
        let batches = batches.try_flatten().boxed();
        let held = stream::try_unfold((batches, stops), |(mut batches, stops)| async move {
            let batch = batches.try_next().await?;
            Ok(batch.map(|batch| (batch, (batches, stops))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, held)))
    }
}

/// The batches of `input`, polled by a new task within `interrupt`; each poll takes about `steps` nanoseconds.
fn in_own_task(
    mut input: SendableRecordBatchStream,
    interrupt: Interrupt,
    steps: usize,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStream::builder(input.schema(), AHEAD);
    let sender = builder.tx();
    builder.spawn(async move {
        let mut batches =
            stream::poll_fn(|cx| interrupt.within(|| long(steps, || input.poll_next_unpin(cx))));
        while let Some(batch) = batches.try_next().await? {
            // The reader is gone if the query has ended.
            if sender.send(Ok(batch)).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    builder.build()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use datafusion::physical_plan::displayable;
    use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
    use datafusion::prelude::SessionConfig;

    use super::*;
    use crate::functions::interrupt::{check, long};
    use crate::session::context;

    /// One batch, and then a computation that ends only if it is stopped.
    #[derive(Debug)]
    struct Endless {
        schema: SchemaRef,
        stopped: Arc<AtomicBool>,
    }

    impl PartitionStream for Endless {
        fn schema(&self) -> &SchemaRef {
            &self.schema
        }

        fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
            let one = Arc::new(Int64Array::from(vec![1]));
            let first = RecordBatch::try_new(Arc::clone(&self.schema), vec![one]);
            let first = stream::iter([first.map_err(DataFusionError::from)]);
            let stopped = Arc::clone(&self.stopped);
            let endless = stream::once(async move {
                let ended = long(usize::MAX, || -> Result<RecordBatch> {
                    loop {
                        check()?;
                    }
                });
                stopped.store(true, Ordering::Relaxed);
                ended
            });
            let schema = Arc::clone(&self.schema);
            Box::pin(RecordBatchStreamAdapter::new(schema, first.chain(endless)))
        }
    }

    // One thread, which computes: the timer goes on only because the computation gives the thread up.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_computation_stops_when_its_stream_is_dropped() {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
        let stopped = Arc::new(AtomicBool::new(false));
        let endless = Arc::new(Endless {
            schema: Arc::clone(&schema),
            stopped: Arc::clone(&stopped),
        });
        let input =
            StreamingTableExec::try_new(schema, vec![endless], None, vec![], false, None).unwrap();
        let plan = InterruptibleExec::new(Arc::new(input));
        let query = async move {
            let mut batches = plan.execute(0, Arc::default()).unwrap();
            assert_eq!(batches.next().await.unwrap().unwrap().num_rows(), 1);
            let more = tokio::time::timeout(Duration::from_millis(50), batches.next()).await;
            assert!(more.is_err());
        };
        tokio::spawn(query).await.unwrap();
        for _ in 0..1000 {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the computation goes on");
    }

    #[tokio::test]
    async fn operators_that_compute_for_long_are_interruptible() {
        let ctx = context(SessionConfig::new(), Arc::default()).unwrap();
        let store = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sim.vcz.zip");
        let create = format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{store}'");
        ctx.sql(&create).await.unwrap().collect().await.unwrap();
        let number = async |sql: &str| {
            let plan = ctx.sql(sql).await.unwrap();
            let plan = plan.create_physical_plan().await.unwrap();
            let plan = displayable(plan.as_ref()).indent(false).to_string();
            plan.matches("InterruptibleExec").count()
        };
        for sql in [
            "SELECT mean_r2(call_genotype) FROM t",
            "SELECT variant_contig, ld_decay(call_genotype, variant_position, [0, 10]) FROM t GROUP BY 1",
            "SELECT pca(call_genotype, 1) FROM t",
            "SELECT garud_h(call_genotype) OVER (ROWS 10 PRECEDING) FROM t",
            "SELECT zeng_e(call_genotype) OVER (ROWS 10 PRECEDING) FROM t",
            "SELECT zeng_e(call_genotype) FROM t",
            "SELECT project_sfs([variant_position, 1], 10000) FROM t",
            "SELECT hwe_exact(variant_position, variant_position, 1000) FROM t",
            "SELECT max(hwe_exact_midp(call_genotype)) FROM t WHERE hwe_exact(call_genotype) < 0.5",
            "SELECT sample_pairs(call_genotype) OVER (ROWS 10 PRECEDING) FROM t",
            "SELECT w, grm(call_genotype) FROM (SELECT *, unnest(genome_bins(variant_position, 1000, 500)) AS w FROM t) GROUP BY w",
        ] {
            assert!(number(sql).await > 0, "{sql}");
            if sql.contains("OVER") {
                assert_eq!(number(sql).await, 1, "{sql}");
            }
            let explained = ctx.sql(&format!("EXPLAIN {sql}")).await.unwrap();
            let explained = explained.to_string().await.unwrap();
            assert!(!explained.contains("InterruptibleExec"), "{explained}");
        }
        assert_eq!(number("SELECT sfs(call_genotype) FROM t").await, 0);
    }

    /// The related pairs are those of all pairs, in their order, whatever the threads, the batches and the memory.
    #[tokio::test(flavor = "multi_thread")]
    async fn related_pairs_are_some_of_all_pairs() {
        let mut related = 0;
        for (name, threads, rows) in [("sim", 4, 3), ("missing", 1, 8192), ("missing", 3, 7)] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
            let create =
                format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{folder}/{name}.vcz.zip'");
            let config = SessionConfig::new().with_batch_size(rows);
            let ctx = context(
                config.clone().with_target_partitions(threads),
                Arc::default(),
            );
            // A filter on one thread keeps the order.
            let alone = context(config.with_target_partitions(1), Arc::default());
            let (ctx, alone) = (ctx.unwrap(), alone.unwrap());
            for of in [&ctx, &alone] {
                of.sql(&create).await.unwrap().collect().await.unwrap();
            }
            let text = |batches: &[RecordBatch]| {
                arrow::util::pretty::pretty_format_batches(batches)
                    .unwrap()
                    .to_string()
            };
            for least in ["-0.5", "0.0", "0.1"] {
                let wanted = format!(
                    "SELECT * FROM vcz_sample_pairs('t') WHERE nullif(kinship, 7) >= {least}"
                );
                let wanted = alone.sql(&wanted).await.unwrap().collect().await.unwrap();
                let wanted: Vec<_> = wanted.into_iter().filter(|of| of.num_rows() > 0).collect();
                related += wanted.iter().map(RecordBatch::num_rows).sum::<usize>();
                let sql = format!("SELECT * FROM vcz_sample_pairs('t', {least})");
                let plan = ctx.sql(&sql).await.unwrap();
                let plan = plan.create_physical_plan().await.unwrap();
                let node = plan.children()[0]
                    .downcast_ref::<SamplePairsExec>()
                    .unwrap();
                for bytes in [1 << 20, 4_000] {
                    let limited = Arc::new(node.with_budget(bytes).unwrap());
                    let interruptible = InterruptibleExec::new(limited as _);
                    let found = interruptible.execute(0, ctx.task_ctx()).unwrap();
                    let found: Vec<RecordBatch> = found.try_collect().await.unwrap();
                    assert_eq!(text(&found), text(&wanted), "{name}, {least}, {bytes}");
                    assert!(found.iter().all(|batch| batch.num_rows() <= rows));
                }
            }
        }
        assert!(related > 1000, "{related}");
    }

    /// With less memory the table is read more often, and the pairs are the same.
    #[tokio::test(flavor = "multi_thread")]
    async fn pairs_of_samples_are_counted_in_passes() {
        for name in ["sim", "missing", "tetraploid"] {
            let ctx = context(SessionConfig::new(), Arc::default()).unwrap();
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
            let create =
                format!("CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION '{folder}/{name}.vcz.zip'");
            ctx.sql(&create).await.unwrap().collect().await.unwrap();
            let plan = ctx
                .sql("SELECT * FROM vcz_sample_pairs('t')")
                .await
                .unwrap();
            let plan = plan.create_physical_plan().await.unwrap();
            let node = plan.children()[0]
                .downcast_ref::<SamplePairsExec>()
                .unwrap();
            let mut rows: Vec<(String, usize)> = vec![];
            for bytes in [1 << 20, 2_000, 300, 0] {
                let limited = Arc::new(node.with_budget(bytes).unwrap());
                let interruptible = InterruptibleExec::new(Arc::clone(&limited) as _);
                let batches = interruptible.execute(0, ctx.task_ctx()).unwrap();
                let batches: Vec<RecordBatch> = batches.try_collect().await.unwrap();
                let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap();
                let passes = limited.metrics().unwrap().sum_by_name("passes").unwrap();
                rows.push((text.to_string(), passes.as_usize()));
            }
            assert!(rows.iter().all(|(text, _)| *text == rows[0].0), "{name}");
            let passes: Vec<usize> = rows.iter().map(|(_, passes)| *passes).collect();
            assert_eq!(passes[0], 1, "{name}");
            assert!(
                passes[1..].iter().all(|passes| *passes > 1),
                "{name}: {passes:?}"
            );
        }
    }
}
