//! [`distribute`]: a session whose queries run on workers where that pays. [`ClusterPlanner`] takes the finished plan of the session's own
//! planner, and either returns it or cuts it into stages.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err, plan_datafusion_err, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt};
use futures::future::BoxFuture;

use super::cut::{check_stages, cut};
use super::decision::{Decision, Goal};
use super::exec::ClusterExec;
use super::explain::explained;
use super::portable::portable;
use super::route::route_by_number;
use super::split::{CountTasks, DivideScan, scan_of};
use super::wire::codec::VczCodec;
use super::workers::Workers;
use crate::scan::{Distribute, VczSettings};

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
        .with_distributed_route_tasks_handler(route_by_number)
        .with_distributed_planner();
    // The crate's planner is used for single plans only: see `cut`.
    builder.query_planner().take();
    // Scalar subqueries stay until this crate's planner has read those that are populations.
    let config = builder.config().get_or_insert_default();
    *subqueries_as_operators(config) = true;
    let planner = ClusterPlanner { inner, workers };
    Ok(builder.with_query_planner(Arc::new(planner)).build())
}

/// The setting that plans scalar subqueries as operators. These cannot be sent to workers; joins, which they are otherwise, can.
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

/// Plans queries, and distributes them where that pays.
#[derive(Debug)]
pub struct ClusterPlanner {
    inner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
    workers: Arc<Workers>,
}

impl ClusterPlanner {
    /// The physical plan.
    fn physical<'a>(
        &'a self,
        logical: &'a LogicalPlan,
        session: &'a dyn Session,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            if let LogicalPlan::Explain(explain) = logical {
                let shown = self.own(logical, session).await?;
                if VczSettings::of(session.config_options()).distribute == Distribute::Never {
                    return Ok(shown);
                }
                let (plan, decision) = self.planned(&explain.plan, session).await?;
                return Ok(explained(shown, &plan, &decision));
            }
            self.planned(logical, session).await.map(|(plan, _)| plan)
        })
    }
}

impl QueryPlanner for ClusterPlanner {
    boxed_methods! {
        fn create_physical_plan<'a, 'l, 's>(
            &'a self,
            logical: &'l LogicalPlan,
            session: &'s dyn Session,
        ) -> Result<Arc<dyn ExecutionPlan>> = Self::physical;
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
        let own = self.own(logical, session).await?;
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a session of another kind");
        };
        let forced = match VczSettings::of(state.config_options()).distribute {
            Distribute::Never => {
                return Ok((own, Decision::Local("vcz.distribute = 'never'".to_string())));
            }
            Distribute::Always => true,
            Distribute::Auto => false,
        };
        // One partition cannot be divided, because operators may rely on it.
        let (plan, state) = match state.config().target_partitions() {
            1 => {
                let config = state.config().clone().with_target_partitions(2);
                let state = with_config(state.clone(), config);
                (self.own(logical, &state).await?, state)
            }
            _ => (Arc::clone(&own), state.clone()),
        };
        match self.distributed(&plan, logical, state, forced).await {
            Ok(distributed) => Ok(distributed),
            Err(reason) => {
                let reason = reason.message().into_owned();
                log::debug!("a query runs on this machine alone: {reason}");
                Ok((own, Decision::Local(reason)))
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
            let reason = format!("none of {all} workers can be used ({})", reasons.join("; "));
            if Work::of(plan)?.time >= WORTH {
                let notices = VczSettings::of(state.config_options()).notices;
                notices.add(format!(
                    "the query runs on this machine alone: none of {all} workers can be used"
                ));
            }
            return plan_err!("{reason}");
        }
        let (plan, state) = self.without_subqueries(plan, logical, state).await?;
        let work = Work::of(&plan)?;
        // One worker gets two tasks: a plan is cut where rows of several tasks meet.
        let most = workers.max(2);
        let tasks = match forced {
            true => most,
            false => work.tasks(most)?,
        };
        let config = state
            .config()
            .clone()
            .with_extension(Arc::new(Goal { tasks }))
            .with_distributed_max_tasks_per_stage(most)?;
        let state = with_config(state, config);
        let portable = portable(plan, &state.task_ctx()).await?;
        let cut = cut(Arc::clone(&portable), logical, &state).await?;
        check_stages(&cut, &state)?;
        let decision = Decision::Distributed {
            tasks,
            workers,
            bytes: work.bytes,
        };
        let workers = Arc::clone(&self.workers);
        let exec = ClusterExec::new(cut, portable, logical.clone(), state, workers)?;
        Ok((Arc::new(exec), decision))
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
        check_subqueries(logical)?;
        let mut config = state.config().clone();
        *subqueries_as_operators(&mut config) = false;
        let state = with_config(state, config);
        let logical = state.optimize(logical)?;
        let plan = self.own(&logical, &state).await?;
        Ok((plan, state))
    }
}

/// Returns an error for a scalar subquery that may give several rows. As an operator that is an error of the query; as a join it would not be.
fn check_subqueries(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| match expr {
                Expr::ScalarSubquery(query)
                    if query.subquery.max_rows().is_none_or(|most| most > 1) =>
                {
                    plan_err!("a scalar subquery that may give several rows")
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })
    .map(drop)
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

    /// The tasks that it is worth: at least two, at most `most`, which is two or more.
    ///
    /// # Errors
    /// If it is not worth more than one.
    fn tasks(&self, most: usize) -> Result<usize> {
        if self.time < WORTH {
            return plan_err!(
                "about {:.0} ms of decoding, less than {} ms",
                self.time.as_secs_f64() * 1e3,
                WORTH.as_millis()
            );
        }
        let tasks = (self.time.as_secs_f64() / OF_TASK.as_secs_f64()).floor() as usize;
        Ok(tasks.clamp(2, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_worth_at_least_two_tasks_or_none() {
        let tasks = |milliseconds, most| {
            let time = Duration::from_millis(milliseconds);
            Work { bytes: 0, time }.tasks(most).ok()
        };
        assert_eq!(tasks(299, 8), None);
        assert_eq!(tasks(300, 8), Some(2));
        assert_eq!(tasks(300, 2), Some(2));
        assert_eq!(tasks(60_000, 2), Some(2));
        assert_eq!(tasks(600, 8), Some(4));
        assert_eq!(tasks(60_000, 8), Some(8));
    }
}
