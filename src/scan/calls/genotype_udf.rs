//! [`GenotypeUdf`]: the scalar functions over `call_genotype`, as DataFusion sees them. The scan recognises and computes
//! them; where one is evaluated outside a scan, it counts on the genotype column it is given, with the same result.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call::{
    GenotypeCall, allele_counts_array, genotype_counts_array, population_counts_array,
};
use super::context::{GenotypeContext, PopulationArg};
use super::copies::with_copies;
use crate::counts::{ChunkCounts, CountRequest, Counter, SampleSet};
use crate::error::VczError;
use crate::store::ElementType;

/// Which function over genotypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GenotypeFunction {
    /// `allele_counts(call_genotype [, population])`
    AlleleCounts,
    /// `population_counts(call_genotype)`
    PopulationCounts,
    /// `genotype_counts(call_genotype [, population])`
    GenotypeCounts,
    /// `select_samples(call_genotype, population)`
    SelectSamples,
}

impl GenotypeFunction {
    /// The function's SQL name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AlleleCounts => "allele_counts",
            Self::PopulationCounts => "population_counts",
            Self::GenotypeCounts => "genotype_counts",
            Self::SelectSamples => "select_samples",
        }
    }

    fn max_arguments(self) -> usize {
        if self == Self::PopulationCounts { 1 } else { 2 }
    }

    fn min_arguments(self) -> usize {
        if self == Self::SelectSamples { 2 } else { 1 }
    }

    /// The call on `context`'s genotypes for `population`.
    pub fn call(
        self,
        population: &PopulationArg,
        context: &GenotypeContext,
    ) -> Result<GenotypeCall> {
        let samples = context.resolve(population)?;
        Ok(match self {
            Self::AlleleCounts => GenotypeCall::AlleleCounts(samples),
            Self::PopulationCounts => GenotypeCall::PopulationCounts,
            Self::GenotypeCounts => GenotypeCall::GenotypeCounts(samples),
            Self::SelectSamples => GenotypeCall::SelectSamples(samples),
        })
    }
}

/// A scalar function over a genotype column.
#[derive(Debug)]
pub struct GenotypeUdf {
    function: GenotypeFunction,
    signature: Signature,
    documentation: Documentation,
}

impl PartialEq for GenotypeUdf {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}
impl Eq for GenotypeUdf {}
impl Hash for GenotypeUdf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

impl GenotypeUdf {
    /// The function with its documentation.
    pub fn udf(function: GenotypeFunction, documentation: Documentation) -> ScalarUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Self {
            function,
            signature,
            documentation,
        })
    }

    /// Which function this is.
    pub fn function(&self) -> GenotypeFunction {
        self.function
    }
}

/// Whether `data_type` is that of genotypes: a fixed-size list (samples) of fixed-size lists (copies) of integers.
pub fn is_genotype_type(data_type: &DataType) -> bool {
    matches!(data_type, DataType::FixedSizeList(copies, _)
        if matches!(copies.data_type(), DataType::FixedSizeList(code, _) if code.data_type().is_integer()))
}

/// Whether a value of this type can stand for a population: a string, a list of strings, or an untyped NULL (refused
/// later with a better message).
pub fn is_population_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => {
            item.data_type().is_string() || item.data_type().is_null()
        }
        DataType::Dictionary(_, value) => is_population_type(value),
        _ => false,
    }
}

/// The population that a constant argument of `function` stands for; NULL and empty lists are errors, never "everyone".
pub fn population_of(function: &str, value: &ScalarValue) -> Result<PopulationArg> {
    let refuse = |what: &str| {
        plan_err!(
            "{function}: the population is {what}; give a name from the populations file, a list of sample ids, \
             or leave the argument out for every sample"
        )
    };
    if value.is_null() {
        return refuse("NULL");
    }
    if let Some(Some(name)) = value.try_as_str() {
        return Ok(PopulationArg::Named(name.to_string()));
    }
    let list: ArrayRef = match value {
        ScalarValue::List(list) => list.value(0),
        ScalarValue::LargeList(list) => list.value(0),
        ScalarValue::FixedSizeList(list) => list.value(0),
        _ => return refuse(&format!("of type {}", value.data_type())),
    };
    if list.is_empty() {
        return refuse("an empty list");
    }
    if list.null_count() > 0 || list.data_type().is_null() {
        return refuse("a list that holds NULL");
    }
    let texts = arrow::compute::cast(&list, &DataType::Utf8)?;
    Ok(PopulationArg::Samples(
        texts
            .as_string::<i32>()
            .iter()
            .flatten()
            .map(str::to_string)
            .collect(),
    ))
}

fn context_of(function: &str, field: &Field) -> Result<Arc<GenotypeContext>> {
    match GenotypeContext::of(field) {
        Some(context) => Ok(context),
        None => plan_err!(
            "{function}: '{}' is not (or no longer) the call_genotype column of a VCZ table, so its samples are unknown; \
             call {function} on call_genotype in the query that reads the table",
            field.name()
        ),
    }
}

impl ScalarUDFImpl for GenotypeUdf {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let (least, most) = (self.function.min_arguments(), self.function.max_arguments());
        if arg_types.len() < least || arg_types.len() > most {
            return plan_err!(
                "{name} takes {least} to {most} arguments, found {}",
                arg_types.len()
            );
        }
        if !is_genotype_type(&arg_types[0]) {
            return plan_err!(
                "{name}: the first argument must be genotypes such as call_genotype, found {}",
                arg_types[0]
            );
        }
        if let Some(population) = arg_types.get(1)
            && !is_population_type(population)
        {
            return plan_err!(
                "{name}: a population is a name or a list of sample ids (strings), found {population}"
            );
        }
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        exec_err!(
            "{}: the type follows from the field, not from types alone",
            self.name()
        )
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = self.name();
        let genotypes = &args.arg_fields[0];
        let context = context_of(name, genotypes)?;
        let population = match args.scalar_arguments.get(1) {
            None => PopulationArg::Everyone,
            Some(Some(value)) => population_of(name, value)?,
            // Not a constant (yet): a subquery that planning runs later. Only `select_samples` has a type that depends on it.
            Some(None) => {
                let call = self.function.call(&PopulationArg::Everyone, &context)?;
                let field = call.field(name, genotypes, &context)?;
                let deferred = matches!(call, GenotypeCall::AlleleCounts(_));
                return Ok(Arc::new(if deferred {
                    with_copies(field, None)
                } else {
                    field
                }));
            }
        };
        let call = self.function.call(&population, &context)?;
        Ok(Arc::new(call.field(name, genotypes, &context)?))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = self.name();
        let genotypes = &args.arg_fields[0];
        let context = context_of(name, genotypes)?;
        let population = match args.args.get(1) {
            None => PopulationArg::Everyone,
            Some(ColumnarValue::Scalar(value)) => population_of(name, value)?,
            Some(ColumnarValue::Array(_)) => {
                return exec_err!(
                    "{name}: the population must be constant: a name, a list of sample ids, or an uncorrelated scalar subquery"
                );
            }
        };
        let call = self.function.call(&population, &context)?;
        let array = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(evaluate(&call, &array, &context)?))
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        let on_column = matches!(
            args.first(),
            Some(ExpressionPlacement::Column | ExpressionPlacement::MoveTowardsLeafNodes)
        );
        if on_column
            && args[1..]
                .iter()
                .all(|arg| *arg == ExpressionPlacement::Literal)
        {
            ExpressionPlacement::MoveTowardsLeafNodes
        } else {
            ExpressionPlacement::KeepInPlace
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// Evaluates a call on a materialised genotype column. NULL rows (from outer joins) give NULL.
pub fn evaluate(
    call: &GenotypeCall,
    genotypes: &ArrayRef,
    context: &GenotypeContext,
) -> Result<ArrayRef> {
    let Some(calls) = genotypes.as_fixed_size_list_opt() else {
        return exec_err!("expected genotypes, found {}", genotypes.data_type());
    };
    let Some(copies) = calls.values().as_fixed_size_list_opt() else {
        return exec_err!("expected genotypes, found {}", genotypes.data_type());
    };
    let rows = genotypes.len();
    let nulls = genotypes.nulls().cloned();
    if let GenotypeCall::SelectSamples(samples) = call {
        return select_samples(
            calls.value_length() as usize,
            calls.values(),
            samples,
            rows,
            nulls,
        );
    }
    let (element, codes) = codes_of(copies.values())?;
    let genotype_sets = match call {
        GenotypeCall::GenotypeCounts(samples) => vec![Arc::clone(samples)],
        _ => vec![],
    };
    let n_alleles = match call {
        GenotypeCall::GenotypeCounts(_) => context.n_alleles().unwrap_or(usize::from(u8::MAX)),
        _ => context.n_alleles()?,
    };
    let request = CountRequest {
        alleles: call.allele_sets(context),
        genotypes: genotype_sets,
        n_alleles,
        n_samples: calls.value_length() as usize,
        ploidy: copies.value_length() as usize,
    };
    let failed = |reason: String| VczError::Invalid(format!("call_genotype: {reason}"));
    let n_samples = request.n_samples;
    let counter = Counter::try_new(request, n_samples.max(1)).map_err(failed)?;
    let mut counts = ChunkCounts::default();
    counts.reset(counter.request(), rows).map_err(failed)?;
    counter
        .add_dense(codes, element, rows, &mut counts)
        .map_err(failed)?;
    match call {
        GenotypeCall::AlleleCounts(_) => allele_counts_array(&counts.alleles[0], n_alleles, nulls),
        GenotypeCall::GenotypeCounts(_) => genotype_counts_array(&counts.genotypes[0], nulls),
        _ => {
            let all: Vec<&[i32]> = counts.alleles.iter().map(Vec::as_slice).collect();
            population_counts_array(&all, rows, context, nulls)
        }
    }
}

fn codes_of(codes: &ArrayRef) -> Result<(ElementType, &[u8])> {
    Ok(match codes.data_type() {
        DataType::Int8 => (
            ElementType::Int8,
            bytemuck::cast_slice(codes.as_primitive::<Int8Type>().values()),
        ),
        DataType::Int16 => (
            ElementType::Int16,
            bytemuck::cast_slice(codes.as_primitive::<Int16Type>().values()),
        ),
        DataType::Int32 => (
            ElementType::Int32,
            bytemuck::cast_slice(codes.as_primitive::<Int32Type>().values()),
        ),
        DataType::Int64 => (
            ElementType::Int64,
            bytemuck::cast_slice(codes.as_primitive::<Int64Type>().values()),
        ),
        other => return exec_err!("genotype codes must be signed integers, found {other}"),
    })
}

fn select_samples(
    width: usize,
    calls: &ArrayRef,
    samples: &SampleSet,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let indices: Vec<u64> = (0..rows as u64)
        .flat_map(|row| {
            samples
                .iter()
                .map(move |sample| row * width as u64 + u64::from(sample))
        })
        .collect();
    let indices = arrow::array::UInt64Array::from(indices);
    let values = arrow::compute::take(calls, &indices, None)?;
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), false));
    let size = super::call::list_size(samples.len())?;
    Ok(Arc::new(arrow::array::FixedSizeListArray::try_new(
        item, size, values, nulls,
    )?))
}
