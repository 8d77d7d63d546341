//! Partial aggregation of sorted sites. Neighbouring sites mostly belong to the same window, so a group is looked up once for each
//! run of rows with equal keys, not once for each row.
//!
//! [`AggregateRunsExec`] does what DataFusion's `AggregateExec` does in the mode `Partial`: it returns states of groups, and a group may
//! be returned more than once, for the `AggregateExec` above it to merge. [`runs_rule`](super::runs_rule) decides where it is used. The
//! table of groups ([`runs_table`](super::runs_table)) stays small, because it is emitted whenever it is full or memory is short.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraints, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};

use super::left_out;
use super::runs_table::GroupTable;

/// Partial aggregation by runs of rows.
#[derive(Debug)]
pub struct AggregateRunsExec {
    /// The keys, calls, filters and input, and the schema of the states.
    aggregate: Arc<AggregateExec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AggregateRunsExec {
    /// Computes what `aggregate` does, an aggregation of the mode `Partial`.
    ///
    /// # Errors
    /// If it is of another mode, in which a group may be returned only once.
    pub fn try_new(aggregate: Arc<AggregateExec>) -> Result<Self> {
        if *aggregate.mode() != AggregateMode::Partial {
            return internal_err!(
                "{} is for partial aggregation, not {:?}",
                Self::static_name(),
                aggregate.mode()
            );
        }
        let mut properties = PlanProperties::clone(aggregate.properties())
            .with_emission_type(EmissionType::Incremental);
        // Groups keep the order of their first rows, but no longer need to be unique.
        properties.eq_properties = properties
            .eq_properties
            .with_constraints(Constraints::default());
        Ok(Self {
            aggregate,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The aggregate that it computes.
    pub(super) fn aggregate(&self) -> &AggregateExec {
        &self.aggregate
    }
}

/// The keys and calls of an aggregate as EXPLAIN shows them.
pub(super) fn shown(aggregate: &AggregateExec) -> (String, String) {
    let group_by = aggregate.group_expr().expr().iter();
    let group_by: Vec<String> = group_by
        .map(|(key, alias)| match key.to_string() {
            key if key == *alias => key,
            key => format!("{key} as {alias}"),
        })
        .collect();
    let calls = aggregate.aggr_expr().iter();
    let calls: Vec<String> = calls
        .map(
            |call| match (call.human_display(), call.human_display_alias()) {
                (Some(shown), Some(alias)) => format!("{shown} as {alias}"),
                (Some(shown), None) => shown.to_string(),
                (None, _) => call.name().to_string(),
            },
        )
        .collect();
    (group_by.join(", "), calls.join(", "))
}

impl DisplayAs for AggregateRunsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let (group_by, calls) = shown(&self.aggregate);
        match format {
            DisplayFormatType::TreeRender => {
                write!(f, "mode=Partial\ngroup_by={group_by}\naggr={calls}")
            }
            _ => write!(
                f,
                "{}: mode=Partial, gby=[{group_by}], aggr=[{calls}]",
                self.name()
            ),
        }
    }
}

impl ExecutionPlan for AggregateRunsExec {
    fn name(&self) -> &str {
        "AggregateRunsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.aggregate.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.aggregate.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.aggregate.input()]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::clone(&self.aggregate).replace_children(children, options)?;
        match replaced.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Ok(Arc::new(Self::try_new(Arc::new(aggregate.clone()))?)),
            None => internal_err!("an aggregate with other children is {}", replaced.name()),
        }
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.aggregate.apply_expressions(f)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self
            .aggregate
            .input()
            .execute(partition, Arc::clone(&context))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let table = GroupTable::new(Arc::clone(&self.aggregate), partition, &context)?;
        let batches = stream::try_unfold(
            (table, Some(input), metrics),
            |(mut table, mut input, metrics)| async move {
                while let Some(rows) = &mut input {
                    let batch = rows.next().await.transpose()?;
                    let _timer = metrics.elapsed_compute().timer();
                    let emitted = match batch {
                        Some(batch) => table.add(&batch)?,
                        None => {
                            input = None;
                            table.emit()?
                        }
                    };
                    if let Some(groups) = emitted {
                        metrics.record_output(groups.num_rows());
                        drop(_timer);
                        return Ok(Some((groups, (table, input, metrics))));
                    }
                }
                Ok(None)
            },
        );
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        left_out::add_to(&mut metrics, self.aggregate.aggr_expr());
        Some(metrics)
    }
}
