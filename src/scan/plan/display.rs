//! A scan as EXPLAIN shows it: store, columns, functions, variants and chunks kept of all, filters, backend and its reason.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::DisplayFormatType;

use super::ranges::{chunks_in, rows_in};
use super::source::{Input, VczSource};
use crate::scan::calls::call::DisplayCall;

impl VczSource {
    /// The scan as EXPLAIN shows it.
    pub(in crate::scan) fn display(&self, t: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        let dataset = &self.table.dataset;
        let mut columns = Vec::new();
        let mut calls = Vec::new();
        for input in &self.inputs {
            match input {
                Input::Array(column) => columns.push(dataset.columns()[*column].array.name.clone()),
                Input::Call(call) => calls.push(DisplayCall(call, &self.table.context).to_string()),
            }
        }
        let per_chunk = self.heavy_chunk_rows();
        let all = std::iter::once(0..dataset.n_variants()).collect::<Vec<_>>();
        let mut parts = vec![
            ("store", dataset.store().location().to_string()),
            ("columns", format!("[{}]", columns.join(", "))),
        ];
        if !calls.is_empty() {
            parts.push(("functions", format!("[{}]", calls.join(", "))));
        }
        parts.push((
            "variants",
            format!("{} of {}", rows_in(&self.kept), dataset.n_variants()),
        ));
        parts.push((
            "chunks",
            format!(
                "{} of {}",
                chunks_in(&self.kept, per_chunk),
                chunks_in(&all, per_chunk)
            ),
        ));
        if !self.filters.is_empty() {
            parts.push(("filter", joined(&self.filters)));
        }
        if !self.dynamic.is_empty() {
            parts.push(("dynamic_filter", joined(&self.dynamic)));
        }
        if let Some(limit) = self.limit {
            parts.push(("limit", limit.to_string()));
        }
        if self.projects() {
            parts.push(("projection", self.projection.to_string()));
        }
        parts.push(("partitions", self.partitions.len().to_string()));
        parts.push(("backend", self.shown_choice().describe()));
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let shown: Vec<String> = parts
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                write!(f, "VczSource: {}", shown.join(", "))
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "format=vcz")?;
                parts
                    .iter()
                    .try_for_each(|(key, value)| writeln!(f, "{key}={value}"))
            }
        }
    }
}

fn joined(filters: &[Arc<dyn PhysicalExpr>]) -> String {
    filters
        .iter()
        .map(|filter| filter.to_string())
        .collect::<Vec<_>>()
        .join(" AND ")
}
