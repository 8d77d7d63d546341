//! What a scan declares to the optimizer: the order of its rows, constants, and statistics, each only if it holds.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr,
};

use super::ranges::rows_in;
use super::source::{ScanInput, VczSource};
use super::zones::{ZoneOrder, Zones, order_of};

impl VczSource {
    /// Order and constants of the output.
    pub(in crate::scan) fn properties(&self) -> EquivalenceProperties {
        let mut properties = EquivalenceProperties::new(Arc::clone(&self.input_schema));
        let order = self.order();
        let sorted_by = |at: usize| {
            let column: Arc<dyn PhysicalExpr> =
                Arc::new(Column::new(self.input_schema.field(at).name(), at));
            PhysicalSortExpr::new(
                column,
                SortOptions {
                    descending: false,
                    nulls_first: false,
                },
            )
        };
        let (contig, position) = (
            self.input_of("variant_contig"),
            self.input_of("variant_position"),
        );
        match (order, contig, position) {
            (ZoneOrder::OneContig, contig, position) => {
                if let Some(position) = position {
                    properties.add_ordering([sorted_by(position)]);
                }
                if let Some(contig) = contig {
                    let column = Arc::new(Column::new("variant_contig", contig));
                    let constant = ConstExpr::new(column, AcrossPartitions::Uniform(None));
                    // A constant only helps planning; without it the plan is correct but may have an additional sort.
                    let _ = properties.add_constants([constant]);
                }
            }
            (ZoneOrder::ContigThenPosition, Some(contig), Some(position)) => {
                properties.add_ordering([sorted_by(contig), sorted_by(position)]);
            }
            (ZoneOrder::ContigThenPosition, Some(contig), None) => {
                properties.add_ordering([sorted_by(contig)])
            }
            _ => {}
        }
        match self.projection.projection_mapping(&self.input_schema) {
            Ok(mapping) => properties.project(&mapping, Arc::clone(&self.schema)),
            Err(_) => EquivalenceProperties::new(Arc::clone(&self.schema)),
        }
    }

    fn order(&self) -> ZoneOrder {
        let Some(zones) = &self.zones else {
            return ZoneOrder::None;
        };
        let contigs = self.table.stores.contigs();
        order_of(self.kept_zones(zones), contigs)
    }

    fn kept_zones<'a>(&'a self, zones: &'a Zones) -> impl Iterator<Item = &'a super::zones::Zone> {
        let mut at = 0;
        zones.zones.iter().filter(move |zone| {
            while at < self.kept.len() && self.kept[at].end <= zone.rows.start {
                at += 1;
            }
            self.kept
                .get(at)
                .is_some_and(|range| range.start < zone.rows.end)
        })
    }

    fn input_of(&self, name: &str) -> Option<usize> {
        let column = self.table.stores.column_index(name)?;
        self.inputs
            .iter()
            .position(|input| *input == ScanInput::Array(column))
    }

    /// Statistics of the inputs of all partitions, or of one.
    pub(in crate::scan) fn input_statistics(&self, partition: Option<usize>) -> Statistics {
        let ranges = match partition {
            Some(partition) => self
                .partitions
                .get(partition)
                .map_or(&[][..], Vec::as_slice),
            None => &self.kept,
        };
        let exact = self.filters.is_empty();
        let rows = rows_in(ranges) as usize;
        let precise = |n: usize| {
            if exact {
                Precision::Exact(n)
            } else {
                Precision::Inexact(n)
            }
        };
        let mut columns = vec![ColumnStatistics::new_unknown(); self.inputs.len()];
        for name in ["variant_contig", "variant_position"] {
            if let Some(at) = self.input_of(name) {
                columns[at].null_count = precise(0);
            }
        }
        // Minima and maxima are those of whole zones, so they are exact only where whole zones are kept.
        if let Some(zones) = self
            .zones
            .as_ref()
            .filter(|_| partition.is_none() && rows > 0)
        {
            let bound = |value: ScalarValue| {
                if exact {
                    Precision::Exact(value)
                } else {
                    Precision::Inexact(value)
                }
            };
            if let Some(at) = self.input_of("variant_position") {
                let wide =
                    self.input_schema.field(at).data_type() == &arrow::datatypes::DataType::Int64;
                let scalar = |value: i64| match i32::try_from(value) {
                    Ok(narrow) if !wide => ScalarValue::Int32(Some(narrow)),
                    _ => ScalarValue::Int64(Some(value)),
                };
                let min = self.kept_zones(zones).map(|zone| zone.min).min();
                let max = self.kept_zones(zones).map(|zone| zone.max).max();
                if let (Some(min), Some(max)) = (min, max) {
                    columns[at].min_value = bound(scalar(min));
                    columns[at].max_value = bound(scalar(max));
                }
            }
            if let Some(at) = self.input_of("variant_contig") {
                let contigs = self.table.stores.contigs();
                let names = || {
                    self.kept_zones(zones)
                        .filter_map(|zone| contigs.get(zone.contig))
                };
                if let (Some(min), Some(max)) = (names().min(), names().max()) {
                    columns[at].min_value = bound(ScalarValue::Utf8View(Some(min.clone())));
                    columns[at].max_value = bound(ScalarValue::Utf8View(Some(max.clone())));
                }
            }
        }
        let bytes = rows.saturating_mul(self.output_row_bytes());
        Statistics {
            num_rows: precise(rows),
            total_byte_size: Precision::Inexact(bytes),
            column_statistics: columns,
        }
    }
}
