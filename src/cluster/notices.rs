//! Notices of workers: the sites that statistics left out are sent to the coordinator as metrics with labels.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, Label, Metric, MetricValue, MetricsSet};

use crate::scan::notices::{Notices, Statistic};

/// Metric: the sites that a statistic left out on a worker.
const LEFT_OUT: &str = "vcz_sites_left_out";
/// Metric: the sites that it has seen there.
const SEEN: &str = "vcz_sites_seen";
/// Labels of these metrics: the function, its call, and why it leaves sites out.
const LABELS: [&str; 3] = ["function", "call", "reason"];

/// Adds the sites that were left out to `metrics`.
pub fn add_to(metrics: &mut MetricsSet, notices: &Notices) {
    for (statistic, left_out, seen) in notices.left_out() {
        let texts = [
            statistic.function.into_owned(),
            statistic.call,
            statistic.reason.into_owned(),
        ];
        let labels: Vec<Label> = LABELS
            .into_iter()
            .zip(texts)
            .map(|(name, text)| Label::new(name, text))
            .collect();
        for (name, sites) in [(LEFT_OUT, left_out), (SEEN, seen)] {
            let count = Count::new();
            count.add(usize::try_from(sites).unwrap_or(usize::MAX));
            let value = MetricValue::Count {
                name: name.into(),
                count,
            };
            metrics.push(Arc::new(Metric::new_with_labels(
                value,
                None,
                labels.clone(),
            )));
        }
    }
}

/// Adds the sites that workers left out, which are among the metrics of `plan`, to `notices`.
///
/// # Errors
/// If the plan cannot be walked.
pub fn collect(plan: &Arc<dyn ExecutionPlan>, notices: &Notices) -> Result<()> {
    plan.apply(|node| {
        for metric in node.metrics().iter().flat_map(|metrics| metrics.iter()) {
            let MetricValue::Count { name, count } = metric.value() else {
                continue;
            };
            let label = |name: &str| {
                let mut labels = metric.labels().iter();
                let found = labels.find(|label| label.name() == name);
                found.map(|label| label.value().to_string())
            };
            let [function, call, reason] = LABELS.map(label);
            let (Some(function), Some(call), Some(reason)) = (function, call, reason) else {
                continue;
            };
            let statistic = Statistic {
                function: function.into(),
                call,
                reason: reason.into(),
            };
            match name.as_ref() {
                LEFT_OUT => notices.leave_out(&statistic, count.value() as u64, 0),
                SEEN => notices.leave_out(&statistic, 0, count.value() as u64),
                _ => {}
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}
