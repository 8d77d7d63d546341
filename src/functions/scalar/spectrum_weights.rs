//! Shared by the functions of a spectrum: reading the spectrum, and its weights, which are a name or a list.
//!
//! A spectrum has the N + 1 bins 0 to N; weights are for bins 1 to N − 1.

use arrow::array::{Array, AsArray, Float64Array, ListArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::strings::Strings;
use super::support::{Inputs, coerce_string};
use crate::functions::numeric::spectrum::Theta;

/// The documentation of an argument that is a spectrum.
pub(super) const SPECTRUM: (&str, &str) = (
    "spectrum",
    "An unfolded site frequency spectrum, as `sfs` and `project_sfs` give it: N + 1 bins, of which bins 0 and N are ignored.",
);

/// The documentation of an argument that is weights.
pub(super) const WEIGHTS: &str = "The weights w of bins 1 to N - 1: a list of N - 1 numbers, or a name: 'pi', 'w' (Watterson), \
     'h' (Fay and Wu), 'l' (Zeng et al.), 'singletons', 'singletons_folded', 'no_singletons', 'no_singletons_folded'.";

/// The type that lists of numbers are read as.
fn number_list() -> DataType {
    DataType::new_list(DataType::Float64, true)
}

fn is_number_list(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_numeric() || item.data_type().is_null()
        }
        _ => false,
    }
}

/// The type to read argument `position` as, if it is a spectrum.
pub(super) fn coerce_spectrum(
    function: &str,
    position: usize,
    data_type: &DataType,
) -> Result<DataType> {
    if is_number_list(data_type) || data_type.is_null() {
        return Ok(number_list());
    }
    plan_err!(
        "{function}: argument {} (spectrum) must be a list of numbers, as sfs and project_sfs give it, found {data_type}",
        position + 1
    )
}

/// The type to read argument `position` as, if it is weights.
pub(super) fn coerce_weights(
    function: &str,
    position: usize,
    data_type: &DataType,
) -> Result<DataType> {
    if is_number_list(data_type) {
        return Ok(number_list());
    }
    coerce_string(function, position, "weights", data_type).or_else(|_| {
        plan_err!(
            "{function}: argument {} must be weights, a list of numbers or one of {}, found {data_type}",
            position + 1,
            names()
        )
    })
}

fn names() -> String {
    let quoted = Theta::NAMED.map(|(name, _)| format!("'{name}'"));
    quoted.join(", ")
}

fn named(function: &str, name: &str) -> Result<Theta> {
    match Theta::NAMED.iter().find(|(known, _)| *known == name) {
        Some((_, theta)) => Ok(*theta),
        None => exec_err!(
            "{function}: there are no weights named '{name}'; give one of {}, or a list of numbers",
            names()
        ),
    }
}

/// Returns a planning error if argument `position` is a constant string that names no weights.
pub(super) fn check_name(function: &str, args: &ReturnFieldArgs, position: usize) -> Result<()> {
    match args.scalar_arguments.get(position) {
        Some(Some(constant)) => match constant.try_as_str() {
            Some(Some(name)) => named(function, name).map(|_| ()),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// An argument of lists of numbers.
struct Numbers<'a> {
    lists: &'a ListArray,
    values: &'a Float64Array,
    constant: bool,
}

impl<'a> Numbers<'a> {
    fn try_new(inputs: &'a Inputs, position: usize) -> Result<Self> {
        let (array, constant) = inputs.array(position)?;
        let lists = array.as_list_opt::<i32>();
        let values = lists.and_then(|lists| lists.values().as_primitive_opt::<Float64Type>());
        match (lists, values) {
            (Some(lists), Some(values)) => Ok(Self {
                lists,
                values,
                constant,
            }),
            _ => internal_err!("expected lists of numbers, found {}", array.data_type()),
        }
    }

    /// The numbers at `row`, if they are not NULL; an error where `is_valid` does not hold for one of them.
    fn get(
        &self,
        function: &str,
        row: usize,
        expected: &str,
        is_valid: impl Fn(f64) -> bool,
    ) -> Result<Option<&'a [f64]>> {
        let row = if self.constant { 0 } else { row };
        if self.lists.is_null(row) {
            return Ok(None);
        }
        let offsets = self.lists.value_offsets();
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        let numbers = &self.values.values()[range.clone()];
        for (at, &number) in range.zip(numbers) {
            if self.values.is_null(at) || !is_valid(number) {
                let found = ScalarValue::try_from_array(self.values, at)?;
                return exec_err!("{function}: {expected}, found {found}");
            }
        }
        Ok(Some(numbers))
    }
}

/// A spectrum.
pub(super) struct Spectrum<'a> {
    /// N.
    pub(super) copies: u64,
    /// ξ_1 to ξ_{N−1}.
    pub(super) sites: &'a [f64],
}

/// An argument of spectra.
pub(super) struct Spectra<'a>(Numbers<'a>);

impl<'a> Spectra<'a> {
    /// Argument `position`.
    pub(super) fn try_new(inputs: &'a Inputs, position: usize) -> Result<Self> {
        Ok(Self(Numbers::try_new(inputs, position)?))
    }

    /// The spectrum at `row`; `None` where it is NULL.
    ///
    /// # Errors
    /// If a bin is NULL, negative, infinite or NaN.
    pub(super) fn get(&self, function: &str, row: usize) -> Result<Option<Spectrum<'a>>> {
        let expected = "the bins of a spectrum must be numbers of sites, not negative";
        let is_valid = |bin: f64| bin.is_finite() && bin >= 0.0;
        let bins = self.0.get(function, row, expected, is_valid)?;
        Ok(bins.map(|bins| Spectrum {
            copies: bins.len().saturating_sub(1) as u64,
            sites: bins.get(1..bins.len().saturating_sub(1)).unwrap_or(&[]),
        }))
    }
}

/// An argument of weights.
pub(super) enum Weights<'a> {
    /// By name.
    Names(Strings<'a>),
    /// Lists.
    Lists(NumberLists<'a>),
}

/// An argument of lists of weights.
pub(super) struct NumberLists<'a>(Numbers<'a>);

impl<'a> Weights<'a> {
    /// Argument `position`.
    pub(super) fn try_new(inputs: &'a Inputs, position: usize) -> Result<Self> {
        let (array, _) = inputs.array(position)?;
        Ok(match array.data_type() {
            DataType::List(_) => Self::Lists(NumberLists(Numbers::try_new(inputs, position)?)),
            _ => Self::Names(Strings::try_new(inputs, position)?),
        })
    }

    /// The weights at `row`, for a spectrum of `copies` = N; `None` where they are NULL.
    ///
    /// # Errors
    /// If no weights have this name, the list does not have N − 1 numbers, or one of them is NULL, infinite or NaN.
    pub(super) fn get(
        &self,
        function: &str,
        row: usize,
        copies: u64,
    ) -> Result<Option<Weight<'a>>> {
        let list = match self {
            Self::Names(names) => {
                let name = names.get(row).map(|name| named(function, name));
                return Ok(name.transpose()?.map(Weight::Named));
            }
            Self::Lists(lists) => lists,
        };
        let list = list
            .0
            .get(function, row, "weights must be numbers", f64::is_finite)?;
        match list {
            Some(list) if list.len() as u64 != copies.saturating_sub(1) => exec_err!(
                "{function}: a spectrum of {} bins needs {} weights, one for each bin but the first and the last, found {}",
                copies + 1,
                copies.saturating_sub(1),
                list.len()
            ),
            list => Ok(list.map(Weight::Listed)),
        }
    }
}

/// The weights of one estimator.
#[derive(Clone, Copy)]
pub(super) enum Weight<'a> {
    /// Those of a named estimator.
    Named(Theta),
    /// w_1 to w_{N−1}.
    Listed(&'a [f64]),
}

impl Weight<'_> {
    /// The smallest N that they are defined for.
    pub(super) fn smallest(self) -> u64 {
        match self {
            Self::Named(theta) => theta.smallest(),
            Self::Listed(_) => 2,
        }
    }

    /// w_i for N = `copies`, 0 < `i` < N.
    pub(super) fn at(self, copies: u64, i: u64) -> f64 {
        match self {
            Self::Named(theta) => theta.weight(copies as f64, i as f64),
            // Of length N − 1, see `Weights::get`.
            Self::Listed(list) => list.get(i as usize - 1).copied().unwrap_or(0.0),
        }
    }
}

/// Σ w_i ξ_i, with w_i = `weight(i)`.
///
/// # Errors
/// If the sum is too large for a double.
pub(super) fn weighted(
    function: &str,
    spectrum: &Spectrum<'_>,
    weight: impl Fn(u64) -> f64,
) -> Result<f64> {
    let terms = (1..)
        .zip(spectrum.sites)
        .map(|(i, sites)| weight(i) * sites);
    let sum: f64 = terms.sum();
    if sum.is_finite() {
        return Ok(sum);
    }
    exec_err!(
        "{function}: the weighted sum of the spectrum is too large for Float64; give smaller weights"
    )
}
