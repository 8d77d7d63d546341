//! `passes_rows_on`: the methods of an operator with one input whose rows it passes on as they are. Used by the operators that `session` and
//! `flight` add to plans.

/// The methods of [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan), except `execute`, of a node that passes on the rows of its field
/// `input`. After the bar is a new node from the node itself and another input: `passes_rows_on!(|node, input| Self::new(input))`.
macro_rules! passes_rows_on {
    (|$node:ident, $input:ident| $new:expr) => {
        fn name(&self) -> &str {
            Self::static_name()
        }

        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            self.input.properties()
        }

        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn ExecutionPlan>> {
            vec![&self.input]
        }

        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_plan::PhysicalExpr>,
            ) -> datafusion::common::Result<
                datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            mut children: Vec<std::sync::Arc<dyn ExecutionPlan>>,
        ) -> datafusion::common::Result<std::sync::Arc<dyn ExecutionPlan>> {
            match (children.pop(), children.is_empty()) {
                (Some($input), true) => {
                    let $node = self;
                    Ok(std::sync::Arc::new($new))
                }
                _ => datafusion::common::internal_err!("{} has one input", self.name()),
            }
        }
    };
}

pub(crate) use passes_rows_on;
