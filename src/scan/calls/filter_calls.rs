//! [`FilterCalls`]: `filter_calls(call_genotype, field [, min [, max]])`, genotypes in which calls whose value of a FORMAT field is NULL
//! or outside the bounds are set to missing.
//!
//! A scan computes it as [`CallFilters`](super::filters::CallFilters) of its calls; elsewhere it is evaluated on columns, with the same
//! result. Its result has the type and the metadata of the genotypes, so that every function of genotypes accepts it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::elements::{elements_of, genotypes_array};
use super::format_field::{FILTER_CALLS, call_test, check_field, one_per_call};
use crate::counts::{CallMask, CallTest, CallValues, CountError};
use crate::error::VczError;

/// The function.
#[derive(Debug)]
pub struct FilterCalls {
    signature: Signature,
    documentation: Arc<Documentation>,
}

impl PartialEq for FilterCalls {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for FilterCalls {}
impl std::hash::Hash for FilterCalls {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        FILTER_CALLS.hash(state);
    }
}

impl FilterCalls {
    /// The function with its documentation.
    pub fn udf(documentation: Documentation) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: Arc::new(documentation),
        })
    }
}

impl ScalarUDFImpl for FilterCalls {
    fn name(&self) -> &str {
        FILTER_CALLS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types.len() {
            2..=4 => Ok(arg_types.to_vec()),
            found => plan_err!(
                "{FILTER_CALLS} takes genotypes, a FORMAT field and at most two bounds, found {found} arguments"
            ),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types.first() {
            Some(genotypes) => Ok(genotypes.clone()),
            None => plan_err!("{FILTER_CALLS}: there are no genotypes"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [genotypes, field, bounds @ ..] = args.arg_fields else {
            return plan_err!("{FILTER_CALLS} takes genotypes and a FORMAT field");
        };
        check_field(genotypes, field)?;
        let constants: Option<Vec<&ScalarValue>> =
            args.scalar_arguments.iter().skip(2).copied().collect();
        if let (Some(constants), Some((_, value))) = (constants, one_per_call(field.data_type()))
            && constants.len() == bounds.len()
        {
            call_test(field.name(), value, &constants)?;
        }
        Ok(Arc::new(genotypes.as_ref().clone().with_name(FILTER_CALLS)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [genotypes, field, bounds @ ..] = args.args.as_slice() else {
            return exec_err!("{FILTER_CALLS} takes genotypes and a FORMAT field");
        };
        let bounds: Option<Vec<&ScalarValue>> = bounds
            .iter()
            .map(|bound| match bound {
                ColumnarValue::Scalar(bound) => Some(bound),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let Some(bounds) = bounds else {
            return exec_err!("{FILTER_CALLS}: bounds must be constants, the same for every row");
        };
        let genotypes = genotypes.to_array(args.number_rows)?;
        let values = field.to_array(args.number_rows)?;
        let Some((_, value)) = one_per_call(values.data_type()) else {
            return exec_err!(
                "{FILTER_CALLS}: expected a FORMAT field with one value for each call, found {}",
                values.data_type()
            );
        };
        let test = call_test(args.arg_fields[1].name(), value, &bounds)?;
        Ok(ColumnarValue::Array(filtered(&genotypes, &values, &test)?))
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        let is_near = |placement: &ExpressionPlacement| {
            matches!(
                placement,
                ExpressionPlacement::Column | ExpressionPlacement::MoveTowardsLeafNodes
            )
        };
        match args {
            [genotypes, field, bounds @ ..]
                if is_near(genotypes)
                    && is_near(field)
                    && bounds
                        .iter()
                        .all(|bound| *bound == ExpressionPlacement::Literal) =>
            {
                ExpressionPlacement::MoveTowardsLeafNodes
            }
            _ => ExpressionPlacement::KeepInPlace,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(self.documentation.as_ref())
    }
}

/// Genotypes in which calls that fail `test` are missing. NULL rows of genotypes stay NULL; in NULL rows of values no call passes.
fn filtered(genotypes: &ArrayRef, values: &ArrayRef, test: &CallTest) -> Result<ArrayRef> {
    let failed = |error: CountError| VczError::Invalid(format!("{FILTER_CALLS}: {error}"));
    let (calls, fields) = (genotypes.as_fixed_size_list(), values.as_fixed_size_list());
    let samples = calls.value_length();
    if fields.value_length() != samples || fields.len() != calls.len() {
        return exec_err!(
            "{FILTER_CALLS}: expected values of {samples} samples, found {}",
            values.data_type()
        );
    }
    let copies = calls.values().as_fixed_size_list();
    let Some((element, codes)) = elements_of(copies.values()) else {
        return exec_err!(
            "{FILTER_CALLS}: expected genotypes, found {}",
            genotypes.data_type()
        );
    };
    let items = fields.values();
    let mut mask = CallMask::default();
    mask.reset(items.len()).map_err(failed)?;
    match (test, elements_of(items)) {
        (CallTest::Present, _) => {}
        (CallTest::Text(text), _) => {
            let items = arrow::compute::cast(items, &DataType::Utf8View)?;
            let items = items.as_string_view();
            mask.retain(|at| items.value(at) == text);
        }
        (CallTest::Flag(flag), _) => {
            let items = items.as_boolean();
            mask.retain(|at| items.value(at) == *flag);
        }
        (_, Some((element, bytes))) => {
            let values = CallValues {
                bytes,
                element,
                per_call: 1,
                at: 0,
                coded: false,
            };
            mask.retain_values(values, test).map_err(failed)?;
        }
        (_, None) => {
            return exec_err!(
                "{FILTER_CALLS}: values of {} have no bounds",
                items.data_type()
            );
        }
    }
    if let Some(nulls) = items.nulls() {
        mask.retain(|at| nulls.is_valid(at));
    }
    if let Some(nulls) = values.nulls() {
        mask.retain(|at| nulls.is_valid(at / samples.max(1) as usize));
    }
    let mut masked = vec![];
    mask.apply(codes, element, copies.value_length() as usize, &mut masked)
        .map_err(failed)?;
    let masked = Buffer::from_vec(masked).slice_with_length(0, codes.len());
    genotypes_array(
        genotypes.data_type(),
        masked,
        genotypes.len(),
        genotypes.nulls().cloned(),
    )
}
