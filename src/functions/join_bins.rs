//! The bins for equijoins of positions with intervals. Planning inserts calls of these functions; they are not meant for queries.
//!
//! Both functions use the same monotone map from positions to bins, which also accepts values outside of any genome. So if
//! `start <= position <= stop`, the position's bin is one of the interval's bins. The join's own filter removes all other pairs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, Int64Builder, ListBuilder};
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

fn bin(position: i64) -> i64 {
    position.clamp(0, END) / SIZE
}

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct JoinBins {
    name: &'static str,
    of_interval: bool,
    signature: Signature,
}

/// `vcz_join_bin(position)` → Int64: the bin of a position.
pub fn join_bin() -> ScalarUDF {
    ScalarUDF::new_from_impl(JoinBins {
        name: "vcz_join_bin",
        of_interval: false,
        signature: Signature::exact(vec![DataType::Int64], Volatility::Immutable),
    })
}

/// `vcz_join_bins(start, stop)` → List(Int64): the bins that overlap an interval; none if it is empty or a bound is NULL.
pub fn join_bins() -> ScalarUDF {
    ScalarUDF::new_from_impl(JoinBins {
        name: "vcz_join_bins",
        of_interval: true,
        signature: Signature::exact(vec![DataType::Int64; 2], Volatility::Immutable),
    })
}

impl ScalarUDFImpl for JoinBins {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.of_interval {
            true => DataType::new_list(DataType::Int64, true),
            false => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let array: ArrayRef = match arrays.as_slice() {
            [positions] if !self.of_interval => {
                let positions = positions.as_primitive::<Int64Type>();
                Arc::new(positions.unary::<_, Int64Type>(bin))
            }
            [starts, stops] if self.of_interval => {
                intervals(starts.as_primitive(), stops.as_primitive())?
            }
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

    proptest! {
        #[test]
        fn a_position_inside_shares_a_bin(start in any::<i64>(), length in 0i64..1_000_000, at in 0i64..1_000_000) {
            let stop = start.saturating_add(length);
            let position = start.saturating_add(at).min(stop);
            prop_assert!(bins_of(Some(start), Some(stop)).contains(&bin(position)));
        }
    }
}
