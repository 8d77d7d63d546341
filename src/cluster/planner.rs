//! [`distribute`]: a session whose queries run on workers where that pays. [`ClusterPlanner`] takes the finished plan of the session's own
//! planner, and either returns it or cuts it into stages.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err, plan_datafusion_err, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DistributedCodec, DistributedExec, DistributedExt, DistributedLeafExec, NetworkBoundaryExt,
    SessionStateBuilderExt,
};
use datafusion_proto::bytes::physical_plan_to_bytes_with_proto_converter;
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;

use super::exec::ClusterExec;
use super::explain::explained;
use super::portable::portable;
use super::split::{CountTasks, DivideScan, scan_of};
use super::wire::broken;
use super::wire::codec::VczCodec;
use super::workers::Workers;
use crate::scan::{Distribute, VczSettings};
use crate::session::message;

/// The work that is worth distributing: below it, the requests to workers take longer than they save.
const WORTH: Duration = Duration::from_millis(300);
/// The least work of a task.
const OF_TASK: Duration = Duration::from_millis(150);

/// The session `state` with its queries on `workers` where that pays, as `vcz.distribute` says.
pub fn distribute(state: SessionState, workers: Arc<Workers>) -> Result<SessionState> {
    let session_id = state.session_id().to_string();
    let mut builder = SessionStateBuilder::new_from_existing(state).with_session_id(session_id);
    let inner = builder.query_planner().take();
    let mut builder = builder
        .with_distributed_worker_resolver(ByWorkers(Arc::clone(&workers)))
        .with_distributed_channel_resolver(ByChannels(Arc::clone(&workers)))
        .with_distributed_user_codec(VczCodec::default())
        .with_distributed_desired_task_count_handler(CountTasks)
        .with_distributed_scale_up_leaf_node_handler(DivideScan(Arc::clone(&workers)))
        .with_distributed_planner();
    // The crate's planner is used for single plans only: see `cut`.
    builder.query_planner().take();
    // Populations are subqueries, which this crate's planner reads.
    let config = builder.config().get_or_insert_default();
    *subqueries_as_operators(config) = true;
    let planner = ClusterPlanner { inner, workers };
    Ok(builder.with_query_planner(Arc::new(planner)).build())
}

/// The setting that keeps scalar subqueries as operators, which cannot be sent to workers, instead of joins.
fn subqueries_as_operators(config: &mut SessionConfig) -> &mut bool {
    let options = config.options_mut();
    &mut options
        .optimizer
        .enable_physical_uncorrelated_scalar_subquery
}

/// The worker list that the crate asks.
struct ByWorkers(Arc<Workers>);

impl datafusion_distributed::WorkerResolver for ByWorkers {
    fn get_urls(&self) -> Result<Vec<url::Url>> {
        Ok(self.0.usable())
    }
}

/// The connections that the crate asks for.
struct ByChannels(Arc<Workers>);

#[async_trait]
impl datafusion_distributed::ChannelResolver for ByChannels {
    async fn get_worker_client_for_url(
        &self,
        url: &url::Url,
    ) -> Result<Box<dyn datafusion_distributed::WorkerChannel>> {
        self.0.channels().get_worker_client_for_url(url).await
    }
}

/// How many tasks the scans of a query are divided into.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// The number.
    pub tasks: usize,
}

/// How a query runs.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Here, for this reason.
    Local(String),
    /// On workers: the number of tasks of its scans, of all workers, and the estimated work.
    Distributed {
        /// Tasks.
        tasks: usize,
        /// Workers that can be used.
        workers: usize,
        /// Decoded bytes.
        bytes: u64,
    },
}

/// Plans queries, and distributes them where that pays.
#[derive(Debug)]
pub struct ClusterPlanner {
    inner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
    workers: Arc<Workers>,
}

#[async_trait]
impl QueryPlanner for ClusterPlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let LogicalPlan::Explain(explain) = logical {
            let shown = self.own(logical, session).await?;
            if VczSettings::of(session.config_options()).distribute == Distribute::Never {
                return Ok(shown);
            }
            let (plan, decision) = self.planned(&explain.plan, session).await?;
            return explained(shown, &plan, &decision);
        }
        self.planned(logical, session).await.map(|(plan, _)| plan)
    }
}

impl ClusterPlanner {
    /// The plan of the session's own planner.
    async fn own(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match &self.inner {
            Some(inner) => inner.create_physical_plan(logical, session).await,
            None => {
                let planner = DefaultPhysicalPlanner::default();
                planner.create_physical_plan(logical, session).await
            }
        }
    }

    /// The plan, distributed if that pays.
    async fn planned(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<(Arc<dyn ExecutionPlan>, Decision)> {
        let plan = self.own(logical, session).await?;
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a session of another kind");
        };
        let forced = match VczSettings::of(state.config_options()).distribute {
            Distribute::Never => {
                return Ok((
                    plan,
                    Decision::Local("vcz.distribute = 'never'".to_string()),
                ));
            }
            Distribute::Always => true,
            Distribute::Auto => false,
        };
        // One partition cannot be divided, because operators may rely on it.
        let single = state.config().target_partitions() == 1;
        let (plan, state) = match (forced && single, single) {
            (false, _) => (plan, state.clone()),
            (true, _) => {
                let config = state.config().clone().with_target_partitions(2);
                let state = with_config(state.clone(), config);
                (self.own(logical, &state).await?, state)
            }
        };
        match self.distributed(&plan, logical, state, forced).await {
            Ok(distributed) => Ok(distributed),
            Err(reason) => {
                let reason = message(&reason);
                log::debug!("a query runs on this machine alone: {reason}");
                Ok((plan, Decision::Local(reason)))
            }
        }
    }

    /// `plan` on workers.
    ///
    /// # Errors
    /// Why it is not distributed.
    async fn distributed(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        logical: &LogicalPlan,
        state: SessionState,
        forced: bool,
    ) -> Result<(Arc<dyn ExecutionPlan>, Decision)> {
        let workers = self.workers.usable().len();
        if workers == 0 {
            let (all, reasons) = self.workers.unusable();
            return plan_err!("none of {all} workers can be used ({})", reasons.join("; "));
        }
        let (plan, state) = self.without_subqueries(plan, logical, state).await?;
        let work = Work::of(&plan)?;
        let tasks = match forced {
            true => workers,
            false => work.tasks(workers)?,
        };
        let config = state
            .config()
            .clone()
            .with_extension(Arc::new(Goal { tasks }));
        let state = with_config(state, config);
        let portable = portable(plan, &state.task_ctx()).await?;
        let cut = cut(Arc::clone(&portable), logical, &state).await?;
        check_stages(&cut, &state)?;
        let decision = Decision::Distributed {
            tasks,
            workers,
            bytes: work.bytes,
        };
        if cut.is::<DistributedExec>() {
            let exec = ClusterExec::new(
                cut,
                portable,
                logical.clone(),
                state,
                Arc::clone(&self.workers),
            );
            return Ok((Arc::new(exec), decision));
        }
        Ok((cut, decision))
    }
}

impl ClusterPlanner {
    /// The plan with joins in place of scalar subqueries, and the session that has planned it.
    async fn without_subqueries(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        logical: &LogicalPlan,
        state: SessionState,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionState)> {
        if !plan.exists(|node| Ok(node.is::<ScalarSubqueryExec>()))? {
            return Ok((Arc::clone(plan), state));
        }
        let mut config = state.config().clone();
        *subqueries_as_operators(&mut config) = false;
        let state = with_config(state, config);
        let logical = state.optimize(logical)?;
        let plan = self.own(&logical, &state).await?;
        Ok((plan, state))
    }
}

/// The session with another configuration.
fn with_config(state: SessionState, config: SessionConfig) -> SessionState {
    let session_id = state.session_id().to_string();
    SessionStateBuilder::new_from_existing(state)
        .with_session_id(session_id)
        .with_config(config)
        .build()
}

/// The work of the scans of a plan.
struct Work {
    bytes: u64,
    time: Duration,
}

impl Work {
    /// Of the scans in `plan` that can be divided.
    ///
    /// # Errors
    /// If there are none.
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let mut work: Option<Self> = None;
        plan.apply(|node| {
            if let Some(scan) = scan_of(node.as_ref()).filter(|scan| scan.is_divisible()) {
                let work = work.get_or_insert(Self {
                    bytes: 0,
                    time: Duration::ZERO,
                });
                work.bytes = work.bytes.saturating_add(scan.decoded_bytes());
                work.time += scan.expected_time();
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        work.ok_or_else(|| plan_datafusion_err!("no scan of a VCZ table can be divided"))
    }

    /// The tasks that it is worth.
    ///
    /// # Errors
    /// If it is not worth more than one.
    fn tasks(&self, workers: usize) -> Result<usize> {
        if self.time < WORTH {
            return plan_err!(
                "about {:.0} ms of decoding, less than {} ms",
                self.time.as_secs_f64() * 1e3,
                WORTH.as_millis()
            );
        }
        let tasks = (self.time.as_secs_f64() / OF_TASK.as_secs_f64()).floor() as usize;
        Ok(tasks.clamp(1, workers))
    }
}

/// `plan`, which is portable, in stages.
///
/// # Errors
/// If nothing of it is divided.
pub async fn cut(
    plan: Arc<dyn ExecutionPlan>,
    logical: &LogicalPlan,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut builder = SessionStateBuilder::new()
        .with_query_planner(Arc::new(Given(plan)))
        .with_distributed_planner();
    let Some(planner) = builder.query_planner().take() else {
        return internal_err!("there is no planner of distributed plans");
    };
    let cut = planner.create_physical_plan(logical, state).await?;
    let analyzes = cut
        .children()
        .iter()
        .any(|input| input.is::<DistributedExec>());
    match cut.is::<DistributedExec>() || analyzes && !cut.is::<AnalyzeExec>() {
        true => Ok(cut),
        false => plan_err!("its scans cannot be divided among tasks"),
    }
}

/// A planner that has planned.
#[derive(Debug)]
struct Given(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Given {
    async fn create_physical_plan(
        &self,
        _logical: &LogicalPlan,
        _session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

/// Encodes each stage as it will be sent. The crate reports such errors late, as a time-out.
///
/// # Errors
/// If a stage cannot be sent.
fn check_stages(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<()> {
    let codec = DistributedCodec::new_combined_with_user(state.config());
    plan.apply(|node| {
        if !node.is_network_boundary() {
            return Ok(TreeNodeRecursion::Continue);
        }
        for stage in node.children() {
            let bare = Arc::clone(stage).transform_up(|node| {
                let leaf = node.downcast_ref::<DistributedLeafExec>();
                let first = leaf.and_then(|leaf| leaf.variants().first().cloned());
                Ok(match first {
                    Some(first) => Transformed::yes(first),
                    None => Transformed::no(node),
                })
            })?;
            let converter = DeduplicatingProtoConverter::default();
            let bytes = physical_plan_to_bytes_with_proto_converter(bare.data, &codec, &converter)?;
            // Messages may be nested too deeply to be read again.
            PhysicalPlanNode::decode(bytes).map_err(broken)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}
