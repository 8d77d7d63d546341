//! [`GrowingValue`]: `array_agg` and `string_agg` of DataFusion, whose values in OVER are accounted.
//!
//! A value of theirs has every row of its frame, so that `array_agg(x) OVER (ORDER BY y)` takes memory with the square of the rows.
//! DataFusion reserves none for the results of window operators. These reserve it themselves where
//! [`with_frame_memory`](super::with_frame_memory) runs the operator, and are DataFusion's own elsewhere. `session` registers them under
//! DataFusion's names.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{ArrowNativeType, DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    Signature,
};

use super::frame_memory::ValueMemory;
use crate::functions::interrupt;

/// The functions in place of those of DataFusion.
pub(super) fn in_place_of_stock() -> [AggregateUDF; 2] {
    [array_agg_udaf(), string_agg_udaf()].map(|function| accounted(&function))
}

fn accounted(function: &AggregateUDF) -> AggregateUDF {
    AggregateUDF::new_from_impl(GrowingValue(function.clone()))
}

/// A function of DataFusion whose value has every row of its frame. What the two functions override is delegated.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct GrowingValue(AggregateUDF);

impl GrowingValue {
    /// DataFusion's function.
    pub(super) fn stock(&self) -> &AggregateUDF {
        &self.0
    }
}

impl AggregateUDFImpl for GrowingValue {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let name = self.name().to_string();
        Ok(accounted_values(name, self.0.accumulator(arguments)?))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.create_groups_accumulator(arguments)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.0.clone().with_beneficial_ordering(is_ordered)?;
        Ok(inner.map(|inner| Arc::new(Self(inner)) as _))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.0.reverse_udf() {
            ReversedUDAF::Reversed(function) => {
                ReversedUDAF::Reversed(Arc::new(accounted(&function)))
            }
            other => other,
        }
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.0.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

/// `inner`, whose values are accounted where a window operator runs it.
pub(super) fn accounted_values(name: String, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
    match ValueMemory::current(name) {
        Some(memory) => Box::new(Accounted {
            inner,
            memory,
            rows: 0,
        }),
        None => inner,
    }
}

/// Reserves memory for every value.
#[derive(Debug)]
struct Accounted {
    inner: Box<dyn Accumulator>,
    memory: ValueMemory,
    /// Rows since the last value. A frame of a whole partition has one value, which is then copied for every row.
    rows: usize,
}

impl Accumulator for Accounted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows += values.first().map_or(0, |column| column.len());
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        interrupt::check()?;
        let value = self.inner.evaluate()?;
        let rows = std::mem::take(&mut self.rows).max(1);
        let bytes = value_bytes(value.to_array()?.as_ref());
        self.memory.grow(bytes, rows)?;
        Ok(value)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// Bytes of a column of values: the sum of those of its rows, but for less than a byte a row and nesting.
pub fn value_bytes(values: &dyn Array) -> usize {
    if let Some(lists) = values.as_list_opt::<i32>() {
        let ends = lists.offsets();
        let (first, last) = (ends[0].as_usize(), ends[lists.len()].as_usize());
        let items = lists.values().slice(first, last - first);
        let offsets = lists.len().saturating_mul(size_of::<i32>());
        return value_bytes(items.as_ref()).saturating_add(offsets);
    }
    // Fails for columns of more than `usize::MAX` bytes, which do not fit into memory.
    let bytes = values.to_data().get_slice_memory_size();
    bytes.unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ListArray, StringArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn a_column_has_the_bytes_of_its_rows() {
        let rows = [
            Some(vec![Some(1); 10]),
            None,
            Some(vec![]),
            Some(vec![Some(2); 30]),
        ];
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        let of_rows = |column: &dyn Array| -> usize {
            let rows = (0..column.len()).map(|row| column.slice(row, 1));
            rows.map(|row| value_bytes(row.as_ref())).sum()
        };
        assert_eq!(value_bytes(&lists), 4 * 40 + 4 * 4);
        assert_eq!(of_rows(&lists), value_bytes(&lists));
        assert_eq!(value_bytes(&lists.slice(1, 2)), 2 * 4);
        let nested = ListArray::new(
            Arc::new(arrow::datatypes::Field::new_list_field(
                lists.data_type().clone(),
                true,
            )),
            arrow::buffer::OffsetBuffer::from_lengths([3, 1]),
            Arc::new(lists),
            None,
        );
        assert_eq!(of_rows(&nested), value_bytes(&nested));
        let texts = StringArray::from(vec!["abc", "", "defgh"]);
        assert!(value_bytes(&texts) >= 8);
    }
}
