//! [`SelectCalls`]: `select_samples(field, population)` of a FORMAT field, the values of some samples.
//!
//! Planning makes it of [`SelectSamples`](super::function::GenotypeFunction::SelectSamples) where the column is not of genotypes, with the
//! samples looked up. It is evaluated on the column that the scan reads.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::context::{GenotypeContext, SAMPLES_DEFERRED, SAMPLES_KEY, genotype_shape};
use super::evaluate::select_samples;
use super::format_field::{one_per_call, several_per_call};
use super::function::GenotypeFunction;
use super::results::selected_type;
use crate::counts::SampleSet;
use crate::scan::schema::FIELD_KEY;

/// The function, for some samples.
#[derive(Debug)]
pub struct SelectCalls {
    samples: Arc<SampleSet>,
    /// Of the result.
    selected: Arc<GenotypeContext>,
    /// Number of samples of the column.
    n_samples: usize,
    signature: Signature,
}

impl PartialEq for SelectCalls {
    fn eq(&self, other: &Self) -> bool {
        self.samples == other.samples
            && self.n_samples == other.n_samples
            && self.selected == other.selected
    }
}

impl Eq for SelectCalls {}

impl std::hash::Hash for SelectCalls {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.selected.hash(state);
    }
}

/// Whether `field` has the values of calls, not genotypes. Lists of integers are told from genotypes by their metadata.
pub fn is_format_field(field: &Field) -> bool {
    let vcf = field.metadata().get(FIELD_KEY);
    let data_type = field.data_type();
    match vcf {
        Some(vcf) => vcf.starts_with("FORMAT/") && is_of_calls(data_type),
        None => is_of_calls(data_type) && genotype_shape(data_type).is_none(),
    }
}

/// Whether a column of this type has one or several values for each call.
pub fn is_of_calls(data_type: &DataType) -> bool {
    one_per_call(data_type).is_some() || several_per_call(data_type).is_some()
}

impl SelectCalls {
    /// The function for `samples` of the samples of `context`.
    pub fn udf(samples: Arc<SampleSet>, context: &Arc<GenotypeContext>) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            selected: context.subset(&samples),
            n_samples: context.n_samples(),
            samples,
            signature: Signature::any(1, Volatility::Immutable),
        })
    }
}

impl SelectCalls {
    /// The function for `samples` of the `n_samples` of a column; `selected` is their context.
    pub fn of_parts(
        samples: Arc<SampleSet>,
        selected: Arc<GenotypeContext>,
        n_samples: usize,
    ) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            samples,
            selected,
            n_samples,
            signature: Signature::any(1, Volatility::Immutable),
        })
    }

    /// The samples that are selected.
    pub fn samples(&self) -> &Arc<SampleSet> {
        &self.samples
    }

    /// Number of samples of the column.
    pub fn n_samples(&self) -> usize {
        self.n_samples
    }

    /// The context of the samples that are selected.
    pub fn selected(&self) -> &Arc<GenotypeContext> {
        &self.selected
    }
}

impl ScalarUDFImpl for SelectCalls {
    fn name(&self) -> &str {
        GenotypeFunction::SelectSamples.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [calls] => selected_type(calls, self.samples.len()),
            _ => exec_err!("{}: expected one column of calls", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [calls] = args.arg_fields else {
            return exec_err!("{}: expected one column of calls", self.name());
        };
        let data_type = selected_type(calls.data_type(), self.samples.len())?;
        let field = Field::new(self.name(), data_type, calls.is_nullable());
        let field = field.with_metadata(calls.metadata().clone());
        Ok(Arc::new(self.selected.mark_calls(field)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [calls] = args.args.as_slice() else {
            return exec_err!("{}: expected one column of calls", self.name());
        };
        let calls: ArrayRef = calls.to_array(args.number_rows)?;
        match calls.as_fixed_size_list_opt() {
            Some(calls) if calls.value_length() as usize == self.n_samples => Ok(
                ColumnarValue::Array(Arc::new(select_samples(calls, &self.samples)?)),
            ),
            _ => exec_err!(
                "{}: expected the values of {} samples, found {}",
                self.name(),
                self.n_samples,
                calls.data_type()
            ),
        }
    }
}

/// The field of `select_samples` of the FORMAT field `calls` while its samples are not known: `samples` of them.
///
/// # Errors
/// If `calls` is not a list of the calls of samples.
pub fn unbound_field(name: &str, calls: &Field, samples: Option<usize>) -> Result<Field> {
    let data_type = match samples {
        Some(samples) => selected_type(calls.data_type(), samples)?,
        None => calls.data_type().clone(),
    };
    let mut metadata = calls.metadata().clone();
    metadata.insert(SAMPLES_KEY.to_string(), SAMPLES_DEFERRED.to_string());
    Ok(Field::new(name, data_type, calls.is_nullable()).with_metadata(metadata))
}
