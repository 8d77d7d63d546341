//! Zones: runs of variants of one contig inside one chunk, with their lowest and highest position. They come from the
//! store's region index, or from the positions themselves. Pruning and declared orderings are based on them.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringViewArray, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::scan::read::arrow_column::ContigRun;
use crate::scan::value_error::ValueError;
use crate::store::RegionIndex;

/// A run of variants of one contig inside one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Global variant rows.
    pub rows: Range<u64>,
    /// Index into `contig_id`.
    pub contig: usize,
    /// Lowest position.
    pub min: i64,
    /// Highest position.
    pub max: i64,
    /// Whether positions never decrease inside the zone.
    pub sorted: bool,
}

/// All zones of a store in row order, and where they come from.
#[derive(Debug, Clone)]
pub struct Zones {
    /// The zones; they cover every variant.
    pub zones: Vec<Zone>,
    /// Whether they come from the region index. Then every chunk of positions that is read is checked against them.
    pub from_index: bool,
}

impl Zones {
    /// The zones of a structurally valid region index.
    pub fn from_index(index: &RegionIndex) -> Self {
        let zones = index
            .rows()
            .iter()
            .map(|row| Zone {
                rows: row.rows.clone(),
                contig: row.contig as usize,
                min: row.start,
                max: row.end,
                sorted: true,
            })
            .collect();
        Self {
            zones,
            from_index: true,
        }
    }

    /// The zones of one chunk of contig codes and positions, starting at variant `first`.
    pub fn of_rows(first: u64, contigs: &[i64], positions: &[i64]) -> Vec<Zone> {
        let mut zones: Vec<Zone> = Vec::new();
        let mut previous = None;
        for ((row, &contig), &position) in (first..).zip(contigs).zip(positions) {
            match zones.last_mut() {
                Some(zone) if previous.is_some_and(|(last, _)| last == contig) => {
                    zone.rows.end = row + 1;
                    zone.sorted &= previous.is_some_and(|(_, last)| last <= position);
                    zone.min = zone.min.min(position);
                    zone.max = zone.max.max(position);
                }
                _ => zones.push(Zone {
                    rows: row..row + 1,
                    contig: usize::try_from(contig).unwrap_or(usize::MAX),
                    min: position,
                    max: position,
                    sorted: true,
                }),
            }
            previous = Some((contig, position));
        }
        zones
    }

    /// The zones that overlap `variants`, each with the variants that it contains.
    fn parts(&self, variants: Range<u64>) -> impl Iterator<Item = (&Zone, Range<u64>)> {
        let at = self
            .zones
            .partition_point(|zone| zone.rows.end <= variants.start);
        self.zones[at..]
            .iter()
            .take_while(move |zone| zone.rows.start < variants.end)
            .map(move |zone| {
                let rows = zone.rows.start.max(variants.start)..zone.rows.end.min(variants.end);
                (zone, rows)
            })
    }

    /// Checks the positions of the variants from `first` on against the zones: they must not decrease, and must be from `min` to `max`.
    ///
    /// # Errors
    /// The reason, which names a variant that does not agree.
    pub fn check_positions<T: Copy + PartialOrd + Display + Into<i64>>(
        &self,
        first: u64,
        positions: &[T],
    ) -> std::result::Result<(), ValueError> {
        for (zone, variants) in self.parts(first..first.saturating_add(positions.len() as u64)) {
            let start = variants.start;
            let part = &positions[(start - first) as usize..(variants.end - first) as usize];
            // Usually no position is out of order, which this loop finds with vector instructions.
            let falls = |pair: &[T]| pair[1] < pair[0];
            let any = part.windows(2).fold(false, |any, pair| any | falls(pair));
            if any && let Some(at) = part.windows(2).position(falls) {
                let variant = start + at as u64 + 1;
                return Err(format!(
                    "variant {variant} is at position {}, before the one ahead of it at {}, but region_index needs \
                     sorted positions",
                    part[at + 1],
                    part[at]
                )
                .into());
            }
            let (Some(&low), Some(&high)) = (part.first(), part.last()) else {
                continue;
            };
            let (low, high): (i64, i64) = (low.into(), high.into());
            let end = variants.end;
            // Statistics use the bounds of whole zones as exact.
            let low_fits = if start == zone.rows.start {
                low == zone.min
            } else {
                low >= zone.min
            };
            let high_fits = if end == zone.rows.end {
                high == zone.max
            } else {
                high <= zone.max
            };
            if !low_fits || !high_fits {
                return Err(format!(
                    "variants {start} to {} are at positions {low} to {high}, but region_index says {} to {}",
                    end - 1,
                    zone.min,
                    zone.max
                )
                .into());
            }
        }
        Ok(())
    }

    /// Checks the contig indices of the variants from `first` on against the zones.
    ///
    /// # Errors
    /// The reason, which names a variant that is otherwise.
    pub fn check_contigs(
        &self,
        first: u64,
        runs: &[ContigRun],
    ) -> std::result::Result<(), ValueError> {
        let mut start = first;
        for &(contig, len) in runs {
            let end = start.saturating_add(len as u64);
            let differs = |zone: &Zone| i64::try_from(zone.contig) != Ok(contig);
            let mut parts = self.parts(start..end);
            if let Some((zone, variants)) = parts.find(|(zone, _)| differs(zone)) {
                return Err(format!(
                    "variant {} is on contig {contig}, but region_index says {}",
                    variants.start, zone.contig
                )
                .into());
            }
            start = end;
        }
        Ok(())
    }

    /// Which zones a predicate over the table's columns may match.
    pub fn prune(
        &self,
        predicate: &Arc<dyn PhysicalExpr>,
        schema: &SchemaRef,
        contigs: &[String],
    ) -> Result<Vec<bool>> {
        let built = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(schema))
            .try_build(Arc::clone(predicate));
        // A predicate that cannot be rewritten over minima and maxima prunes nothing.
        let Ok(pruning) = built else {
            return Ok(vec![true; self.zones.len()]);
        };
        if pruning.always_true() {
            return Ok(vec![true; self.zones.len()]);
        }
        pruning.prune(&ZoneStatistics {
            zones: &self.zones,
            contigs,
            schema,
        })
    }
}

/// The ordering that can be declared for some zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneOrder {
    /// Nothing.
    None,
    /// One contig only, positions never decrease.
    OneContig,
    /// Contig names ascend (byte order), and positions never decrease within each.
    ContigThenPosition,
}

/// The order of the variants in `zones`, which must be in row order.
pub fn order_of<'a>(zones: impl Iterator<Item = &'a Zone>, contigs: &[String]) -> ZoneOrder {
    let mut last: Option<&Zone> = None;
    let mut one = true;
    for zone in zones {
        if !zone.sorted {
            return ZoneOrder::None;
        }
        if let Some(before) = last {
            if before.contig == zone.contig {
                if zone.min < before.max {
                    return ZoneOrder::None;
                }
            } else {
                one = false;
                match (contigs.get(before.contig), contigs.get(zone.contig)) {
                    (Some(a), Some(b)) if a < b => {}
                    _ => return ZoneOrder::None,
                }
            }
        }
        last = Some(zone);
    }
    match (last, one) {
        (None, _) => ZoneOrder::None,
        (_, true) => ZoneOrder::OneContig,
        _ => ZoneOrder::ContigThenPosition,
    }
}

struct ZoneStatistics<'a> {
    zones: &'a [Zone],
    contigs: &'a [String],
    schema: &'a SchemaRef,
}

impl ZoneStatistics<'_> {
    fn contig(&self, zone: &Zone) -> Option<&str> {
        self.contigs.get(zone.contig).map(String::as_str)
    }

    fn bounds(&self, column: &Column, bound: impl Fn(&Zone) -> i64) -> Option<ArrayRef> {
        match column.name.as_str() {
            "variant_contig" => Some(Arc::new(StringViewArray::from_iter(
                self.zones.iter().map(|zone| self.contig(zone)),
            ))),
            "variant_position" => match self
                .schema
                .field_with_name("variant_position")
                .ok()?
                .data_type()
            {
                DataType::Int32 => Some(Arc::new(Int32Array::from_iter(
                    self.zones
                        .iter()
                        .map(|zone| i32::try_from(bound(zone)).ok()),
                ))),
                _ => Some(Arc::new(Int64Array::from_iter_values(
                    self.zones.iter().map(bound),
                ))),
            },
            _ => None,
        }
    }
}

impl PruningStatistics for ZoneStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |zone| zone.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |zone| zone.max)
    }

    fn num_containers(&self) -> usize {
        self.zones.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        matches!(column.name.as_str(), "variant_contig" | "variant_position")
            .then(|| Arc::new(UInt64Array::from_value(0, self.zones.len())) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from_iter_values(
            self.zones
                .iter()
                .map(|zone| zone.rows.end - zone.rows.start),
        )))
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        if column.name != "variant_contig" {
            return None;
        }
        let names: HashSet<&str> = values
            .iter()
            .filter_map(|value| value.try_as_str().flatten())
            .collect();
        let mut known = HashMap::new();
        let matches = self.zones.iter().map(|zone| {
            Some(
                *known
                    .entry(zone.contig)
                    .or_insert_with(|| self.contig(zone).is_some_and(|name| names.contains(name))),
            )
        });
        Some(BooleanArray::from_iter(matches))
    }
}

#[cfg(test)]
#[path = "zones_tests.rs"]
mod tests;
