//! The FORMAT field of `filter_calls`: checks that it belongs to the genotypes, and makes a test from the bounds.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err, plan_err};

use super::context::{SAMPLES_DEFERRED, SAMPLES_KEY, STORE_KEY, genotype_shape};
use crate::counts::{CallTest, FloatBound};

/// SQL name of the filter.
pub const FILTER_CALLS: &str = "filter_calls";
/// SQL name of the function that chooses a value of each call.
pub const CALL_VALUE: &str = "call_value";

/// Number of samples and the type of a value, if `data_type` is that of a FORMAT field with one value per call.
pub fn one_per_call(data_type: &DataType) -> Option<(usize, &DataType)> {
    match data_type {
        DataType::FixedSizeList(value, samples) if is_value(value.data_type()) => {
            Some((usize::try_from(*samples).ok()?, value.data_type()))
        }
        _ => None,
    }
}

/// Number of values per call and their list's field, if `data_type` is that of a FORMAT field with several values per call.
pub fn several_per_call(data_type: &DataType) -> Option<(usize, &Field)> {
    match data_type {
        DataType::FixedSizeList(call, _) => match call.data_type() {
            DataType::FixedSizeList(value, values) if is_value(value.data_type()) => {
                Some((usize::try_from(*values).ok()?, value.as_ref()))
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_value(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_floating()
        || data_type.is_string()
        || *data_type == DataType::Boolean
}

/// Returns an error if `field` does not have one value for each call of `genotypes`, or is known to be of other samples or another
/// store.
pub fn check_field(genotypes: &Field, field: &Field) -> Result<()> {
    let (name, data_type) = (field.name(), field.data_type());
    let Some((n_samples, _)) = genotype_shape(genotypes.data_type()) else {
        return plan_err!(
            "{FILTER_CALLS}: the first argument must be genotypes such as call_genotype, found '{}' of type {}",
            genotypes.name(),
            genotypes.data_type()
        );
    };
    let Some((samples, _)) = one_per_call(data_type) else {
        if let Some((values, _)) = several_per_call(data_type) {
            return plan_err!(
                "{FILTER_CALLS}: '{name}' has {values} values for each call; choose one of them: \
                 {CALL_VALUE}({name}, 1) is the first"
            );
        }
        return plan_err!(
            "{FILTER_CALLS}: expected a FORMAT field with one value for each call, such as call_GQ, found '{name}' of type \
             {data_type}"
        );
    };
    let key = |field: &Field, key: &str| field.metadata().get(key).cloned();
    let wanted = key(genotypes, SAMPLES_KEY);
    if wanted.as_deref() == Some(SAMPLES_DEFERRED) {
        // Planning does not know the samples yet.
        return Ok(());
    }
    let store = |field| key(field, STORE_KEY).unwrap_or("unknown".to_string());
    if samples != n_samples && key(field, STORE_KEY).is_none() {
        return plan_err!(
            "{FILTER_CALLS}: expected a FORMAT field with a value for each of {n_samples} samples, found '{name}' with {samples} values; of a \
             field with several values for each call, such as call_AD, choose one with call_value(call_AD, 2)"
        );
    }
    if samples != n_samples {
        return plan_err!(
            "{FILTER_CALLS}: '{name}' has values of {samples} samples (store '{}'), but the genotypes are of {n_samples} (store \
             '{}'); filter the calls first, then select samples: select_samples({FILTER_CALLS}(…), …)",
            store(field),
            store(genotypes)
        );
    }
    let found = key(field, SAMPLES_KEY);
    if wanted.is_some() && found.is_none() {
        return plan_err!(
            "{FILTER_CALLS}: the samples of '{name}' are unknown, because its field lacks the metadata '{SAMPLES_KEY}'; expected a \
             FORMAT field of the genotypes' own table, such as call_GQ"
        );
    }
    let stores = (key(genotypes, STORE_KEY), key(field, STORE_KEY));
    let differ = matches!(&stores, (Some(one), Some(other)) if one != other);
    if differ || (found.is_some() && found != wanted) {
        return plan_err!(
            "{FILTER_CALLS}: '{name}' is of store '{}', but the genotypes are of store '{}'; a field filters the calls of its own \
             store",
            store(field),
            store(genotypes)
        );
    }
    Ok(())
}

/// The test that the arguments after the field give for values of type `data_type` of the field `name`.
///
/// # Errors
/// If a bound is of another kind than the values, or there are too many bounds, or no value lies between them.
pub fn call_test(name: &str, data_type: &DataType, bounds: &[&ScalarValue]) -> Result<CallTest> {
    let given = |at: usize| bounds.get(at).copied().filter(|bound| !bound.is_null());
    let (min, max) = (given(0), given(1));
    let wrong = |bound: &ScalarValue, expected: &str| {
        plan_datafusion_err!(
            "{FILTER_CALLS}: '{name}' has values of type {data_type}, so it is compared with {expected}; found {bound} of type {}",
            bound.data_type()
        )
    };
    let only_one = |expected: &str| match max {
        Some(max) => plan_err!(
            "{FILTER_CALLS}: '{name}' has values of type {data_type}, which are compared for equality with one {expected}; found a \
             second, {max}"
        ),
        None => Ok(()),
    };
    if min.is_none() && max.is_none() {
        return Ok(CallTest::Present);
    }
    if data_type.is_string() {
        only_one("string")?;
        return match min.map(|bound| (bound, bound.try_as_str().flatten())) {
            Some((_, Some(text))) => Ok(CallTest::Text(text.to_string())),
            Some((bound, None)) => Err(wrong(bound, "a string")),
            None => Ok(CallTest::Present),
        };
    }
    if *data_type == DataType::Boolean {
        only_one("flag")?;
        return match min {
            Some(ScalarValue::Boolean(Some(flag))) => Ok(CallTest::Flag(*flag)),
            Some(bound) => Err(wrong(bound, "true or false")),
            None => Ok(CallTest::Present),
        };
    }
    let numbers = "numbers";
    for bound in [min, max].into_iter().flatten() {
        if !bound.data_type().is_numeric() {
            return Err(wrong(bound, numbers));
        }
    }
    let test = if data_type.is_integer() {
        let bound = |bound: Option<&ScalarValue>, up: bool| match bound {
            None => Ok(None),
            Some(bound) => match whole(bound, up)? {
                Some(whole) => Ok(Some(whole)),
                None => Err(wrong(bound, numbers)),
            },
        };
        CallTest::Integers {
            min: bound(min, true)?,
            max: bound(max, false)?,
        }
    } else {
        let bound = |bound: Option<&ScalarValue>| match bound {
            None => Ok(None),
            Some(bound) => match real(bound)?.and_then(FloatBound::new) {
                Some(real) => Ok(Some(real)),
                None => Err(wrong(bound, numbers)),
            },
        };
        CallTest::Floats {
            min: bound(min)?,
            max: bound(max)?,
        }
    };
    if let (Some(min), Some(max)) = (min, max)
        && let (Some(low), Some(high)) = (real(min)?, real(max)?)
        && low > high
    {
        return plan_err!(
            "{FILTER_CALLS}: no value of '{name}' is at least {min} and at most {max}; the smallest value comes first"
        );
    }
    Ok(test)
}

/// A bound rounded to an integer, up (`up`) or down; `None` for NaN.
fn whole(bound: &ScalarValue, up: bool) -> Result<Option<i128>> {
    if bound.data_type().is_integer() {
        return match bound.cast_to(&DataType::Decimal128(38, 0))? {
            ScalarValue::Decimal128(value, ..) => Ok(value),
            _ => Ok(None),
        };
    }
    Ok(real(bound)?.filter(|real| !real.is_nan()).map(|real| {
        // The conversion saturates beyond 2^127, which is outside the range of every value.
        (if up { real.ceil() } else { real.floor() }) as i128
    }))
}

/// A bound as a 64-bit floating-point number.
fn real(bound: &ScalarValue) -> Result<Option<f64>> {
    match bound.cast_to(&DataType::Float64)? {
        ScalarValue::Float64(value) => Ok(value),
        _ => Ok(None),
    }
}

#[cfg(test)]
#[path = "format_field_tests.rs"]
mod tests;
