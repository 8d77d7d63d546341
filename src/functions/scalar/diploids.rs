//! Shared by functions of zygosity: their arguments, which are results of `zygosity_counts`, or `call_genotype` and populations, which an
//! analyzer rule rewrites into the first form.

use std::ops::RangeInclusive;

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};

use super::support::Inputs;
use crate::functions::numeric::zygosity::Diploids;
use crate::functions::zygosity_arg::{DiploidsView, is_zygosity_type};
use crate::scan::{is_genotype_type, is_population_type};

/// The documentation of an argument of zygosity.
pub(super) const ZYGOSITY: (&str, &str) = (
    "zc",
    "Complete diploids, as `zygosity_counts(call_genotype, 'POP')` gives them; or `call_genotype` and then, if not every sample is meant, a population.",
);

/// The number of leading arguments that are zygosity, or genotypes and their populations; an error unless the number of populations is
/// in `populations`.
pub(super) fn leading(
    function: &str,
    syntax: &str,
    types: &[DataType],
    populations: RangeInclusive<usize>,
) -> Result<usize> {
    let (least, most) = populations.into_inner();
    let Some(first) = types.first() else {
        return plan_err!("{function} needs arguments: write {syntax}");
    };
    if is_genotype_type(first) {
        let named = types[1..].iter().take(most);
        let named = named.take_while(|other| is_population_type(other)).count();
        if least > 1 && named < least {
            return plan_err!(
                "{function}: call_genotype must be followed by {least} populations or more (each a name or a list of \
                 sample ids), found {named}: write {syntax}"
            );
        }
        return Ok(1 + named);
    }
    let given = types.iter().take(most);
    let given = given.take_while(|other| is_zygosity_type(other)).count();
    if given < least {
        return match types.get(given) {
            Some(other) => plan_err!(
                "{function}: argument {} must be what zygosity_counts(call_genotype [, population]) gives, found {other}: \
                 write {syntax}",
                given + 1
            ),
            None => plan_err!(
                "{function}: argument {} is missing: write {syntax}",
                given + 1
            ),
        };
    }
    Ok(given)
}

/// The arguments' types, if all arguments are zygosity, one for each population, or genotypes and populations.
pub(super) fn coerce_zygosity(
    function: &str,
    syntax: &str,
    types: &[DataType],
    populations: RangeInclusive<usize>,
) -> Result<Vec<DataType>> {
    let given = leading(function, syntax, types, populations)?;
    match types.get(given) {
        None => Ok(types.to_vec()),
        Some(other) => plan_err!(
            "{function}: unexpected argument {} ({other}): write {syntax}",
            given + 1
        ),
    }
}

/// An argument of zygosity: a column or a constant.
pub(super) struct Argument<'a> {
    /// `None`: NULL in every row.
    view: Option<DiploidsView<'a>>,
    constant: bool,
}

impl Argument<'_> {
    /// Argument `position`.
    pub(super) fn try_new(inputs: &Inputs, position: usize) -> Result<Argument<'_>> {
        let (array, constant) = inputs.array(position)?;
        let view = match array.data_type() {
            DataType::Null => None,
            _ => Some(DiploidsView::try_new(array)?),
        };
        Ok(Argument { view, constant })
    }

    /// The diploids at `row`; `None` where they are NULL.
    pub(super) fn get(&self, row: usize) -> Option<Diploids<'_>> {
        let row = if self.constant { 0 } else { row };
        self.view.as_ref()?.get(row)
    }
}
