//! The bins for equijoins of positions with intervals. Planning inserts calls of these functions; they are not meant for queries.
//!
//! Two pairs of functions: `vcz_join_bin` and `vcz_join_bins`, where a position has one bin and an interval the bins that it overlaps; and
//! `vcz_join_level` and `vcz_join_levels`, where an interval has one bin, the smallest of several sizes that it is inside of (as in the
//! indices of BAM, Li et al. 2009), and a position one of each size. All use monotone maps from positions to bins, which also
//! accept values outside of any genome. So if `start <= position <= stop`, both have exactly one bin in common. The join's own filter
//! removes all other pairs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, Int64Builder, ListArray, ListBuilder};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, internal_err, resources_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Bases of a bin: most genes touch a few.
const SIZE: i64 = 1 << 13;
/// Everything below 0 is in the first bin, everything from here on in the last: an interval has at most 2^20 + 1 bins.
const END: i64 = 1 << 33;
/// Limit on the bins of all intervals of a batch (128 MiB), because a server's clients can send intervals of any length.
const MAX_BINS: i64 = 1 << 24;

/// The sizes of the bins that an interval has one of, as powers of two; the last is larger than [`END`].
const LEVELS: [u32; 7] = [13, 16, 19, 22, 25, 28, 34];
/// Numbers of bins of different sizes differ by their remainder.
const NUMBERS: i64 = 8;

fn bin(position: i64) -> i64 {
    position.clamp(0, END) / SIZE
}

/// The bin of each size that a position is in.
fn levels(position: i64) -> [i64; LEVELS.len()] {
    let position = position.clamp(0, END);
    let mut number = -1;
    LEVELS.map(|shift| {
        number += 1;
        (position >> shift) * NUMBERS + number
    })
}

/// The smallest bin that has both positions.
fn level(start: i64, stop: i64) -> i64 {
    let (starts, stops) = (levels(start), levels(stop));
    let smallest = starts
        .iter()
        .zip(&stops)
        .find(|(start, stop)| start == stop);
    // The largest bin has every position.
    smallest.map_or(starts[LEVELS.len() - 1], |(bin, _)| *bin)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    BinOfPosition,
    BinsOfInterval,
    LevelOfInterval,
    LevelsOfPosition,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct JoinBins {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl JoinBins {
    fn udf(name: &'static str, kind: Kind) -> ScalarUDF {
        let arguments = match kind {
            Kind::BinOfPosition | Kind::LevelsOfPosition => 1,
            Kind::BinsOfInterval | Kind::LevelOfInterval => 2,
        };
        ScalarUDF::new_from_impl(Self {
            name,
            kind,
            signature: Signature::exact(vec![DataType::Int64; arguments], Volatility::Immutable),
        })
    }
}

/// `vcz_join_bin(position)` → Int64: the bin of a position.
pub fn join_bin() -> ScalarUDF {
    JoinBins::udf("vcz_join_bin", Kind::BinOfPosition)
}

/// `vcz_join_bins(start, stop)` → List(Int64): the bins that overlap an interval; none if it is empty or a bound is NULL.
pub fn join_bins() -> ScalarUDF {
    JoinBins::udf("vcz_join_bins", Kind::BinsOfInterval)
}

/// `vcz_join_level(start, stop)` → Int64: the smallest bin that an interval is inside of; NULL if it is empty or a bound is NULL.
pub fn join_level() -> ScalarUDF {
    JoinBins::udf("vcz_join_level", Kind::LevelOfInterval)
}

/// `vcz_join_levels(position)` → List(Int64): the bins of every size that a position is in; NULL if it is NULL.
pub fn join_levels() -> ScalarUDF {
    JoinBins::udf("vcz_join_levels", Kind::LevelsOfPosition)
}

impl ScalarUDFImpl for JoinBins {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::BinsOfInterval | Kind::LevelsOfPosition => {
                DataType::new_list(DataType::Int64, true)
            }
            Kind::BinOfPosition | Kind::LevelOfInterval => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let array: ArrayRef = match (self.kind, arrays.as_slice()) {
            (Kind::BinOfPosition, [positions]) => {
                let positions = positions.as_primitive::<Int64Type>();
                Arc::new(positions.unary::<_, Int64Type>(bin))
            }
            (Kind::BinsOfInterval, [starts, stops]) => {
                intervals(starts.as_primitive(), stops.as_primitive())?
            }
            (Kind::LevelOfInterval, [starts, stops]) => {
                levels_of_intervals(starts.as_primitive(), stops.as_primitive())
            }
            (Kind::LevelsOfPosition, [positions]) => levels_of_positions(positions.as_primitive()),
            _ => return internal_err!("{} of {} arguments", self.name, arrays.len()),
        };
        Ok(ColumnarValue::Array(array))
    }
}

fn intervals(starts: &Int64Array, stops: &Int64Array) -> Result<ArrayRef> {
    let mut bins = ListBuilder::new(Int64Builder::new());
    let mut total = 0;
    for row in 0..starts.len().min(stops.len()) {
        if starts.is_valid(row) && stops.is_valid(row) && starts.value(row) <= stops.value(row) {
            let (first, last) = (bin(starts.value(row)), bin(stops.value(row)));
            // One interval has at most 2^20 + 1 bins, so the sum cannot overflow.
            total += last - first + 1;
            if total > MAX_BINS {
                return resources_err!(
                    "a join with intervals: those of one batch cover more than {MAX_BINS} bins of {SIZE} bases; \
                     set a smaller datafusion.execution.batch_size"
                );
            }
            for bin in first..=last {
                bins.values().append_value(bin);
            }
        }
        bins.append(true);
    }
    Ok(Arc::new(bins.finish()))
}

fn levels_of_intervals(starts: &Int64Array, stops: &Int64Array) -> ArrayRef {
    let bins = starts
        .iter()
        .zip(stops)
        .map(|(start, stop)| match (start, stop) {
            (Some(start), Some(stop)) if start <= stop => Some(level(start, stop)),
            _ => None,
        });
    Arc::new(bins.collect::<Int64Array>())
}

fn levels_of_positions(positions: &Int64Array) -> ArrayRef {
    let bins = positions
        .iter()
        .map(|position| Some(levels(position?).map(Some)));
    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(bins))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bins_of(start: Option<i64>, stop: Option<i64>) -> Vec<i64> {
        let lists = intervals(
            &Int64Array::from(vec![start]),
            &Int64Array::from(vec![stop]),
        )
        .unwrap();
        let list = lists.as_list::<i32>().value(0);
        list.as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn the_bins_of_a_batch_are_bounded() {
        let wide = |rows| intervals(&vec![0; rows].into(), &vec![i64::MAX; rows].into());
        assert!(wide(15).is_ok());
        assert!(wide(17).unwrap_err().to_string().contains("bins of 8192"));
    }

    #[test]
    fn empty_intervals_have_none() {
        assert!(bins_of(Some(5), Some(4)).is_empty());
        assert!(bins_of(None, Some(4)).is_empty());
        assert!(bins_of(Some(5), None).is_empty());
        assert_eq!(bins_of(Some(i64::MIN), Some(i64::MAX)).len(), (1 << 20) + 1);
    }

    #[test]
    fn the_smallest_bin() {
        let size = |start, stop| LEVELS[(level(start, stop) % NUMBERS) as usize];
        assert_eq!(size(0, 8191), 13);
        assert_eq!(size(8191, 8192), 16);
        assert_eq!(size(i64::MIN, i64::MAX), 34);
        // A bin of one size is none of another.
        let all: Vec<i64> = [0, 8192, END].into_iter().flat_map(levels).collect();
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        // All are in the largest, and the first two in all but the smallest.
        assert_eq!(distinct.len(), 3 * LEVELS.len() - 2 - (LEVELS.len() - 2));
        let of = |start, stop| levels_of_intervals(&vec![start].into(), &vec![stop].into());
        assert!(of(Some(5), Some(4)).is_null(0) && of(None, Some(4)).is_null(0));
        assert!(of(Some(5), Some(5)).is_valid(0));
        assert!(levels_of_positions(&vec![None].into()).is_null(0));
    }

    proptest! {
        #[test]
        fn a_position_shares_one_level(start in any::<i64>(), length in 0i64..100_000_000, at in 0i64..100_000_000) {
            let stop = start.saturating_add(length);
            let position = start.saturating_add(at).min(stop);
            let bin = level(start, stop);
            prop_assert_eq!(levels(position).iter().filter(|level| **level == bin).count(), 1);
        }

        #[test]
        fn a_position_inside_shares_a_bin(start in any::<i64>(), length in 0i64..1_000_000, at in 0i64..1_000_000) {
            let stop = start.saturating_add(length);
            let position = start.saturating_add(at).min(stop);
            prop_assert!(bins_of(Some(start), Some(stop)).contains(&bin(position)));
        }
    }
}
