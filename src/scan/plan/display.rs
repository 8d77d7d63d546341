//! The display of a scan in EXPLAIN: store, columns, functions, variants and chunks kept of all, filters, backend and its reason.

use std::collections::BTreeSet;
use std::fmt::{self, Formatter};
use std::ops::Range;
use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_plan::DisplayFormatType;

use super::ranges::{chunks_in, rows_in};
use super::source::{ScanInput, VczSource};
use crate::scan::calls::call::DisplayCall;

impl VczSource {
    /// The scan as EXPLAIN shows it.
    pub(in crate::scan) fn display(&self, t: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        let stores = &self.table.stores;
        let mut columns = Vec::new();
        let mut calls = Vec::new();
        for input in &self.inputs {
            match input {
                ScanInput::Array(column) => {
                    columns.push(stores.columns()[*column].array.name.clone())
                }
                ScanInput::Call(call) => {
                    calls.push(DisplayCall(call, &self.table.context).to_string())
                }
            }
        }
        let all = std::iter::once(0..stores.n_variants()).collect::<Vec<_>>();
        let mut parts = vec![("store", stores.location().to_string())];
        if stores.members().len() > 1 {
            parts.push(("stores", self.stores_kept()));
        }
        parts.push(("columns", format!("[{}]", columns.join(", "))));
        if !calls.is_empty() {
            parts.push(("functions", format!("[{}]", calls.join(", "))));
        }
        parts.push((
            "variants",
            format!("{} of {}", rows_in(&self.kept), stores.n_variants()),
        ));
        parts.push((
            "chunks",
            format!(
                "{} of {}",
                self.heavy_chunks(&self.kept),
                self.heavy_chunks(&all)
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

impl VczSource {
    /// How many of the stores have rows that are kept.
    fn stores_kept(&self) -> String {
        let stores = &self.table.stores;
        let parts = stores.by_piece(&self.kept);
        let kept: BTreeSet<usize> = parts.iter().map(|(piece, _)| piece.store).collect();
        format!("{} of {}", kept.len(), stores.members().len())
    }

    /// Number of chunks that overlap `rows`, of the column that is most expensive to decode.
    fn heavy_chunks(&self, rows: &[Range<u64>]) -> u64 {
        let parts = self.table.stores.by_piece(rows).into_iter();
        parts
            .map(|(piece, rows)| chunks_in(&rows, self.heavy_chunk_rows(piece.store).max(1)))
            .sum()
    }
}

/// All filters, of which each must be true.
fn joined(filters: &[Arc<dyn PhysicalExpr>]) -> String {
    let shown = filters.iter().map(|filter| {
        let is_or = |binary: &BinaryExpr| *binary.op() == Operator::Or;
        match filter.downcast_ref::<BinaryExpr>().is_some_and(is_or) && filters.len() > 1 {
            true => format!("({filter})"),
            false => filter.to_string(),
        }
    });
    shown.collect::<Vec<_>>().join(" AND ")
}
