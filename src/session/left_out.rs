//! The sites that aggregates leave out, as metrics of the operators that compute them, for EXPLAIN ANALYZE.
//!
//! [`notices`](super::notices) makes the calls count. This crate's operators add the counts to their metrics by [`add_to`];
//! [`ShowLeftOut`] wraps DataFusion's `AggregateExec`, whose metrics cannot be added to. Other statements are not changed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::metrics::{
    Count, Metric, MetricCategory, MetricType, MetricValue, MetricsSet,
};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};

use crate::functions::site_totals;

/// Adds the sites that `calls` left out to `metrics`: `sfs_sites_left_out`, for a second call of `sfs` `sfs_sites_left_out_2`, and so on.
pub fn add_to(metrics: &mut MetricsSet, calls: &[Arc<AggregateFunctionExpr>]) {
    let mut of_function: HashMap<&str, usize> = HashMap::new();
    for (function, totals) in calls.iter().filter_map(|call| site_totals(call.fun())) {
        let nth = of_function.entry(function).or_default();
        *nth += 1;
        let name = match nth {
            1 => format!("{function}_sites_left_out"),
            nth => format!("{function}_sites_left_out_{nth}"),
        };
        let count = Count::new();
        count.add(usize::try_from(totals.left_out()).unwrap_or(usize::MAX));
        let value = MetricValue::Count {
            name: name.into(),
            count,
        };
        let metric = Metric::new(value, None)
            .with_type(MetricType::Summary)
            .with_category(MetricCategory::Rows);
        metrics.push(Arc::new(metric));
    }
}

/// The rule.
#[derive(Debug)]
pub struct ShowLeftOut;

impl PhysicalOptimizerRule for ShowLeftOut {
    fn name(&self) -> &str {
        "vcz_show_left_out"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let shown = plan.downcast_ref::<AggregateExec>().filter(|aggregate| {
                let mut calls = aggregate.aggr_expr().iter();
                // The steps that merge states see no sites.
                aggregate.mode().input_mode() == AggregateInputMode::Raw
                    && calls.any(|call| site_totals(call.fun()).is_some())
            });
            Ok(match shown {
                Some(aggregate) => {
                    let aggregate = Arc::new(aggregate.clone());
                    Transformed::yes(Arc::new(LeftOutExec::new(aggregate)) as _)
                }
                None => Transformed::no(plan),
            })
        })
        .map(|transformed| transformed.data)
    }
}

/// An aggregate with the sites that its calls left out among its metrics. Shown as the aggregate.
#[derive(Debug)]
pub struct LeftOutExec {
    aggregate: Arc<AggregateExec>,
}

impl LeftOutExec {
    /// Runs `aggregate`.
    pub fn new(aggregate: Arc<AggregateExec>) -> Self {
        Self { aggregate }
    }

    /// The aggregate.
    pub fn aggregate(&self) -> &Arc<AggregateExec> {
        &self.aggregate
    }
}

impl DisplayAs for LeftOutExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.aggregate.fmt_as(format, f)
    }
}

impl ExecutionPlan for LeftOutExec {
    fn name(&self) -> &str {
        self.aggregate.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.aggregate.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.aggregate.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.aggregate.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.aggregate.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::clone(&self.aggregate).replace_children(children, options)?;
        Ok(match replaced.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Arc::new(Self {
                aggregate: Arc::new(aggregate.clone()),
            }),
            None => replaced,
        })
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
        self.aggregate.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.aggregate.metrics().unwrap_or_default();
        add_to(&mut metrics, self.aggregate.aggr_expr());
        Some(metrics)
    }
}
