//! [`CallValue`]: `call_value(field, n)`, the n-th value of each call of a FORMAT field that has several, such as `call_AD`.
//!
//! A separate function, because a subscript of the column, `call_AD[2]`, is a sample. A scan computes it as part of `filter_calls`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::format_field::{CALL_VALUE, several_per_call};

/// The function.
#[derive(Debug)]
pub struct CallValue {
    signature: Signature,
    documentation: Arc<Documentation>,
}

impl PartialEq for CallValue {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for CallValue {}
impl std::hash::Hash for CallValue {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        CALL_VALUE.hash(state);
    }
}

impl CallValue {
    /// The function with its documentation.
    pub fn udf(documentation: Documentation) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: Arc::new(documentation),
        })
    }
}

/// The 0-based index of value `number`, counted from 1, among the `values` of a call of the field `name`.
pub fn place_of(name: &str, values: usize, number: &ScalarValue) -> Result<usize> {
    let place = match number.data_type().is_integer() {
        true => match number.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(Some(number)) => usize::try_from(number.saturating_sub(1)).ok(),
            _ => None,
        },
        false => None,
    };
    match place.filter(|place| *place < values) {
        Some(place) => Ok(place),
        None => plan_err!(
            "{CALL_VALUE}: calls of '{name}' have {values} values, numbered from 1 as subscripts are; found {number}"
        ),
    }
}

impl ScalarUDFImpl for CallValue {
    fn name(&self) -> &str {
        CALL_VALUE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types.len() {
            2 => Ok(arg_types.to_vec()),
            found => plan_err!(
                "{CALL_VALUE} takes a FORMAT field and the number of a value, found {found} arguments"
            ),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.first() {
            Some(field) => chosen_type("its argument", field),
            None => plan_err!("{CALL_VALUE}: there is no FORMAT field"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [field, _] = args.arg_fields else {
            return plan_err!("{CALL_VALUE} takes a FORMAT field and the number of a value");
        };
        let data_type = chosen_type(field.name(), field.data_type())?;
        if let (Some((values, _)), Some(Some(number))) = (
            several_per_call(field.data_type()),
            args.scalar_arguments.get(1),
        ) {
            place_of(field.name(), values, number)?;
        }
        let chosen = Field::new(CALL_VALUE, data_type, field.is_nullable());
        Ok(Arc::new(chosen.with_metadata(field.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [field, ColumnarValue::Scalar(number)] = args.args.as_slice() else {
            return exec_err!("{CALL_VALUE}: the number of the value must be a constant");
        };
        let field = field.to_array(args.number_rows)?;
        let Some((values, _)) = several_per_call(field.data_type()) else {
            return exec_err!(
                "{CALL_VALUE}: expected several values for each call, found {}",
                field.data_type()
            );
        };
        let place = place_of(args.arg_fields[0].name(), values, number)?;
        Ok(ColumnarValue::Array(chosen(&field, values, place)?))
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        match args {
            [
                ExpressionPlacement::Column | ExpressionPlacement::MoveTowardsLeafNodes,
                ExpressionPlacement::Literal,
            ] => ExpressionPlacement::MoveTowardsLeafNodes,
            _ => ExpressionPlacement::KeepInPlace,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(self.documentation.as_ref())
    }
}

/// The type of one value of each call of the field `name`.
fn chosen_type(name: &str, data_type: &DataType) -> Result<DataType> {
    match (several_per_call(data_type), data_type) {
        (Some((_, value)), DataType::FixedSizeList(_, samples)) => {
            let value = Field::new_list_field(value.data_type().clone(), true);
            Ok(DataType::FixedSizeList(Arc::new(value), *samples))
        }
        _ => plan_err!(
            "{CALL_VALUE}: expected a FORMAT field with several values for each call, such as call_AD, found '{name}' of type \
             {data_type}"
        ),
    }
}

fn chosen(field: &ArrayRef, values: usize, place: usize) -> Result<ArrayRef> {
    let calls = field.as_fixed_size_list();
    let lists = calls.values().as_fixed_size_list();
    let indices: UInt64Array = (0..lists.len())
        .map(|call| {
            let is_there = lists.is_valid(call);
            is_there.then_some((call * values + place) as u64)
        })
        .collect();
    let taken = arrow::compute::take(lists.values(), &indices, None)?;
    let item = Arc::new(Field::new_list_field(taken.data_type().clone(), true));
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(
        item,
        calls.value_length(),
        taken,
        field.nulls().cloned(),
        field.len(),
    )?))
}
