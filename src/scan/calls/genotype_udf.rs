//! [`GenotypeUdf`]: the scalar functions over `call_genotype`, as DataFusion sees them. The scan recognises and computes
//! them. Evaluated outside a scan, a function counts on its argument, a genotype column, with the same result.
//!
//! SQL names the unbound function; planning replaces it by one that is bound to the samples of its column.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::bound::BoundCall;
use super::call::GenotypeCall;
use super::context::{GenotypeContext, PopulationArg};
use super::copies::with_copies;
use super::function::GenotypeFunction;
use super::results::selected_type;
use super::select_calls::{is_format_field, is_of_calls, unbound_field};

/// A scalar function over a genotype column: as SQL names it, or bound to the samples of one column.
#[derive(Debug)]
pub struct GenotypeUdf {
    function: GenotypeFunction,
    bound: Option<Arc<BoundCall>>,
    signature: Signature,
    documentation: Arc<Documentation>,
}

impl PartialEq for GenotypeUdf {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function && self.bound == other.bound
    }
}
impl Eq for GenotypeUdf {}
impl Hash for GenotypeUdf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
        self.bound.hash(state);
    }
}

impl GenotypeUdf {
    /// The function with its documentation.
    pub fn udf(function: GenotypeFunction, documentation: Documentation) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            function,
            bound: None,
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: Arc::new(documentation),
        })
    }

    /// This function as `call`.
    pub fn bind(&self, call: Arc<BoundCall>) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            function: self.function,
            bound: Some(call),
            signature: self.signature.clone(),
            documentation: Arc::clone(&self.documentation),
        })
    }

    /// Which function this is.
    pub fn function(&self) -> GenotypeFunction {
        self.function
    }

    /// The call it is bound to.
    pub fn bound(&self) -> Option<&Arc<BoundCall>> {
        self.bound.as_ref()
    }

    /// The field of a call on a FORMAT field, which only `select_samples` takes, until it is bound.
    fn unbound_calls(&self, calls: &Field, population: Population) -> Result<Field> {
        let name = self.name();
        match (self.function, population) {
            (
                GenotypeFunction::SelectSamples,
                Population::Constant(PopulationArg::Samples(ids)),
            ) => {
                let distinct: HashSet<&String> = ids.iter().collect();
                unbound_field(name, calls, Some(distinct.len()))
            }
            (GenotypeFunction::SelectSamples, _) => unbound_field(name, calls, None),
            _ => plan_err!(
                "{name}: '{}' has the values of a FORMAT field, not genotypes; write {name}(call_genotype …)",
                calls.name()
            ),
        }
    }

    /// The field of a call that is not bound, from `genotypes` alone. Binding replaces what is provisional: N of a population, and the
    /// number of samples that a population selects.
    fn unbound_field(&self, genotypes: &Field, population: Population) -> Result<Field> {
        let name = self.name();
        let context = detached(name, genotypes)?;
        let everyone = context.resolve(&PopulationArg::Everyone)?;
        match (self.function, population) {
            (
                GenotypeFunction::SelectSamples,
                Population::Constant(PopulationArg::Samples(ids)),
            ) => {
                let distinct: HashSet<&String> = ids.iter().collect();
                let data_type = selected_type(genotypes.data_type(), distinct.len())?;
                let field = Field::new(name, data_type, genotypes.is_nullable());
                Ok(context.deferred_subset(distinct.len()).mark(field))
            }
            (GenotypeFunction::SelectSamples, _) => {
                let field =
                    Field::new(name, genotypes.data_type().clone(), genotypes.is_nullable());
                Ok(context.deferred_subset(everyone.len()).mark(field))
            }
            (GenotypeFunction::AlleleCounts, Population::Everyone) if !context.is_deferred() => {
                GenotypeCall::AlleleCounts(everyone).field(name, genotypes, &context)
            }
            (GenotypeFunction::AlleleCounts, _) => {
                let field =
                    GenotypeCall::AlleleCounts(everyone).field(name, genotypes, &context)?;
                Ok(with_copies(field, None))
            }
            (GenotypeFunction::GenotypeCounts, _) => {
                GenotypeCall::GenotypeCounts(everyone).field(name, genotypes, &context)
            }
            (GenotypeFunction::ZygosityCounts, _) => {
                GenotypeCall::ZygosityCounts(everyone).field(name, genotypes, &context)
            }
            (GenotypeFunction::GenotypePlanes, population) => {
                let field =
                    GenotypeCall::GenotypePlanes(everyone).field(name, genotypes, &context)?;
                Ok(match population {
                    Population::Everyone if !context.is_deferred() => context.mark(field),
                    _ => context
                        .deferred_subset(context.n_samples())
                        .mark(with_copies(field, None)),
                })
            }
            (GenotypeFunction::PopulationCounts, _) => {
                GenotypeCall::PopulationCounts(Arc::default()).field(name, genotypes, &context)
            }
            (GenotypeFunction::PopulationPairCounts, _) => {
                GenotypeCall::PopulationPairCounts(Arc::default()).field(name, genotypes, &context)
            }
        }
    }
}

/// The population argument of a call while planning.
enum Population {
    /// There is none.
    Everyone,
    /// A constant.
    Constant(PopulationArg),
    /// Not a constant yet: a subquery or a parameter.
    Pending,
}

/// Whether `data_type` is that of genotypes: a fixed-size list (samples) of fixed-size lists (copies) of integers.
pub fn is_genotype_type(data_type: &DataType) -> bool {
    matches!(data_type, DataType::FixedSizeList(copies, _)
        if matches!(copies.data_type(), DataType::FixedSizeList(code, _) if code.data_type().is_integer()))
}

/// A type that was found instead of genotypes or counts, for messages. In a UNION, genotypes of stores with different numbers of samples
/// become lists of calls, and those of different ploidy lists of lists.
pub fn found_type(data_type: &DataType) -> String {
    // Lists of lists of other values, such as joint spectra, have wider numbers.
    let is_code = |code: &Field| {
        matches!(
            code.data_type(),
            DataType::Int8 | DataType::Int16 | DataType::Int32
        ) && !code.is_nullable()
    };
    let differ_in_copies = matches!(data_type, DataType::List(calls) | DataType::FixedSizeList(calls, _)
        if matches!(calls.data_type(), DataType::List(code) if is_code(code)));
    if differ_in_copies {
        return "genotypes of a UNION of stores of different ploidy: calls of one branch have more copies than those of another (count them \
                in each branch of the UNION)"
            .to_string();
    }
    let is_union = matches!(data_type, DataType::List(copies)
        if matches!(copies.data_type(), DataType::FixedSizeList(code, _) if code.data_type().is_integer()));
    let is_genotypes = matches!(data_type, DataType::FixedSizeList(calls, _)
        if matches!(calls.data_type(), DataType::FixedSizeList(code, _) if code.data_type().is_integer()));
    match (is_union, is_genotypes) {
        (true, _) => "genotypes of a UNION of stores with different numbers of samples (count them in each branch of the UNION)".to_string(),
        (false, true) => "a list of calls, such as call_genotype".to_string(),
        (false, false) => data_type.to_string(),
    }
}

/// Whether a population can have this type: a string, a list of strings, or an untyped NULL (rejected later with a better message).
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

/// The population given by a constant argument of `function`; NULL and empty lists are errors, never all samples.
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

/// The context of a genotype column from its field alone.
fn detached(function: &str, field: &Field) -> Result<Arc<GenotypeContext>> {
    match GenotypeContext::detached(field) {
        Some(context) => Ok(context),
        None => plan_err!(
            "{function}: expected genotypes such as call_genotype, found '{}' of type {}",
            field.name(),
            field.data_type()
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
        let selects = self.function == GenotypeFunction::SelectSamples;
        if !(is_genotype_type(&arg_types[0]) || selects && is_of_calls(&arg_types[0])) {
            let or_field = if selects { ", or a FORMAT field" } else { "" };
            return plan_err!(
                "{name}: the first argument must be genotypes such as call_genotype{or_field}, found {}",
                found_type(&arg_types[0])
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
        let genotypes = &args.arg_fields[0];
        let field = match &self.bound {
            Some(call) => call.field(self.name(), genotypes)?,
            None => {
                let population = match args.scalar_arguments.get(1) {
                    None => Population::Everyone,
                    Some(Some(value)) => Population::Constant(population_of(self.name(), value)?),
                    Some(None) => Population::Pending,
                };
                if is_format_field(genotypes) {
                    return self.unbound_calls(genotypes, population).map(Arc::new);
                }
                self.unbound_field(genotypes, population)?
            }
        };
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = self.name();
        let genotypes = args.args[0].to_array(args.number_rows)?;
        if let Some(call) = &self.bound {
            return Ok(ColumnarValue::Array(call.evaluate(&genotypes)?));
        }
        match args.args.get(1) {
            None => {
                let context = detached(name, &args.arg_fields[0])?;
                let call = BoundCall::try_new(self.function, &PopulationArg::Everyone, context)?;
                Ok(ColumnarValue::Array(call.evaluate(&genotypes)?))
            }
            Some(ColumnarValue::Scalar(_)) => exec_err!(
                "{name}: the population was not looked up: this session lacks the planning rules of datafusion-vcz \
                 (datafusion_vcz::session::register)"
            ),
            Some(ColumnarValue::Array(_)) => exec_err!(
                "{name}: the population must be constant: a name, a list of sample ids, or an uncorrelated scalar subquery"
            ),
        }
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
        Some(self.documentation.as_ref())
    }
}
