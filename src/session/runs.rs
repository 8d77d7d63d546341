//! Aggregates over windows by runs: sites come sorted by position, so neighbours are mostly of the same window, and a group is
//! looked up once for each run of rows instead of once for each row.
//!
//! Takes the place of DataFusion's `AggregateExec` where its groups are merged later: in the first step of overlapping windows
//! ([`windows`](super::windows)), and where rows are grouped by what is made of their contig and position, as `genome_bin` does; see
//! [`runs_rule`](super::runs_rule). A group may be given out more than once: the table of groups ([`runs_table`](super::runs_table)) is
//! small, and is given out whenever it is full or memory is short.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraints, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};

use super::runs_table::Table;

/// An aggregation of rows that come in runs.
#[derive(Debug)]
pub struct AggregateRunsExec {
    /// What is computed.
    aggregate: Arc<AggregateExec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AggregateRunsExec {
    /// What takes the place of `aggregate`.
    pub fn new(aggregate: Arc<AggregateExec>) -> Self {
        let mut properties = PlanProperties::clone(aggregate.properties());
        // Groups come in the order of their first rows, as before, but maybe more than once.
        properties.eq_properties = properties
            .eq_properties
            .with_constraints(Constraints::default());
        Self {
            aggregate,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for AggregateRunsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        struct Inner<'a>(&'a AggregateExec, DisplayFormatType);
        impl fmt::Display for Inner<'_> {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                self.0.fmt_as(self.1, f)
            }
        }
        let inner = Inner(&self.aggregate, t).to_string();
        match inner.strip_prefix("AggregateExec") {
            Some(rest) => write!(f, "{}{rest}", self.name()),
            None => f.write_str(&inner),
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
            Some(aggregate) => Ok(Arc::new(Self::new(Arc::new(aggregate.clone())))),
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
        let table = Table::new(Arc::clone(&self.aggregate), partition, &context)?;
        let batches = stream::try_unfold(
            (table, Some(input), metrics),
            |(mut table, mut input, metrics)| async move {
                while let Some(rows) = &mut input {
                    let batch = rows.next().await.transpose()?;
                    let _timer = metrics.elapsed_compute().timer();
                    let given_out = match batch {
                        Some(batch) => table.add(&batch)?,
                        None => {
                            input = None;
                            table.give_out()?
                        }
                    };
                    if let Some(groups) = given_out {
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
        Some(self.metrics.clone_inner())
    }
}
