//! [`GroupingSetsInputExec`], which hides from an aggregation over grouping sets what is known of its input, and the rule that adds it.
//!
//! CUBE, ROLLUP and GROUPING SETS replace keys by NULL. DataFusion 55's `AggregateExec` still takes from its input which keys are constant (`WHERE
//! variant_contig = '1'`), sorted, equal, or the same within a partition. Groups are then returned before all of their rows were read, and ORDER BY
//! leaves such a key out. This operator passes rows on without equivalences, order or partitioning. The rule runs before DataFusion's own, which
//! use these.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    Partitioning, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};

/// Passes on rows of which nothing is known.
#[derive(Debug)]
pub struct GroupingSetsInputExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl GroupingSetsInputExec {
    /// The rows of `input`.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let of_input = input.properties();
        let properties = properties
            .with_evaluation_type(of_input.evaluation_type)
            .with_scheduling_type(of_input.scheduling_type);
        Self {
            properties: Arc::new(properties),
            input,
        }
    }
}

impl DisplayAs for GroupingSetsInputExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str(self.name()),
        }
    }
}

impl ExecutionPlan for GroupingSetsInputExec {
    fn name(&self) -> &str {
        Self::static_name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(input))),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}

/// The rule.
#[derive(Debug)]
pub struct HideFromGroupingSets;

impl PhysicalOptimizerRule for HideFromGroupingSets {
    fn name(&self) -> &str {
        "vcz_hide_from_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            let Some(aggregate) = aggregate.filter(|of| of.group_expr().has_grouping_set()) else {
                return Ok(Transformed::no(node));
            };
            let input = aggregate.input();
            if input.is::<GroupingSetsInputExec>() {
                return Ok(Transformed::no(node));
            }
            let hidden = Arc::new(GroupingSetsInputExec::new(Arc::clone(input)));
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.replace_children(vec![hidden], options)
                .map(Transformed::yes)
        })
        .map(|transformed| transformed.data)
    }
}
