//! `hwe_exact` and `hwe_exact_midp`: the exact test of Hardy–Weinberg proportions of one site.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::diploids::{Argument, ZYGOSITY, leading};
use super::support::{Inputs, document, function_struct, numbers};
use crate::functions::interrupt;
use crate::functions::numeric::hardy_weinberg::{HardyWeinberg, hardy_weinberg};
use crate::functions::numeric::zygosity::Diploids;

function_struct! {
    /// `hwe_exact(zc [, k])`, `hwe_exact(hom1, het, hom2)` → Float64: the two-sided p-value of the exact test of Hardy–Weinberg
    /// proportions (Wigginton, Cutler and Abecasis 2005), of allele k against all others (1 if left out, the first ALT); NULL without
    /// individuals.
    HweExact
}

function_struct! {
    /// `hwe_exact_midp(zc [, k])`, `hwe_exact_midp(hom1, het, hom2)` → Float64: the mid p-value of [`HweExact`], which is less by half the
    /// probability of the observed table and of those equally probable; NULL without individuals.
    HweExactMidp
}

/// The syntax of a call of function `name`.
fn syntax(name: &str) -> String {
    format!(
        "{name}(zc [, k]), {name}(call_genotype [, population] [, k]) or {name}(hom1, het, hom2)"
    )
}

fn documentation_of(name: &str, what: &str) -> Documentation {
    document(
        &format!(
            "Exact test of Hardy-Weinberg proportions (Wigginton, Cutler and Abecasis 2005) of one site, of one allele against all others: {what} Of complete diploids only. NULL where there are none."
        ),
        &syntax(name),
        &format!("SELECT variant_position, {name}(call_genotype, 'YRI') AS p FROM chr22;"),
        &[
            ZYGOSITY,
            (
                "k",
                "The allele's code, 0 for the reference; 1, the first ALT allele, when left out.",
            ),
            ("hom1", "Individuals homozygous for the allele."),
            ("het", "Heterozygous individuals."),
            ("hom2", "Individuals without the allele."),
        ],
    )
}

/// The arguments' types.
fn coerce(name: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    let is_number = |data_type: &DataType| data_type.is_integer() || data_type.is_null();
    if types.len() == 3 && types.iter().all(is_number) {
        return Ok(vec![DataType::Int64; 3]);
    }
    let syntax = syntax(name);
    let given = leading(name, &syntax, types, 1..=1)?;
    let mut coerced = types[..given].to_vec();
    match &types[given..] {
        [] => {}
        [k] if is_number(k) => coerced.push(DataType::Int64),
        [k] => {
            return plan_err!(
                "{name}: the allele k must be a whole number, found {k}: write {syntax}"
            );
        }
        [_, other, ..] => {
            return plan_err!(
                "{name}: unexpected argument {} ({other}): write {syntax}",
                given + 2
            );
        }
    }
    Ok(coerced)
}

/// The time of a test grows with the square root of their number.
const MOST_INDIVIDUALS: u64 = 1 << 26;

/// Individuals homozygous for allele `k`, heterozygous with it, and without it.
fn table(name: &str, site: Diploids<'_>, k: i64) -> Result<(u64, u64, u64)> {
    let Ok(k) = usize::try_from(k) else {
        return exec_err!("{name}: the allele k must be 0 or more, found {k}");
    };
    let of = |row: &[i32]| {
        row.get(k)
            .copied()
            .map_or(0, |count| u64::from(count.max(0) as u32))
    };
    let (copies, het, individuals) = (of(site.ac), of(site.het), site.individuals());
    let hom = copies.checked_sub(het).map(|copies| copies / 2);
    match hom.and_then(|hom| Some((hom, individuals.checked_sub(hom + het)?))) {
        Some((hom, others)) => Ok((hom, het, others)),
        None => exec_err!(
            "{name}: {het} heterozygous carriers and {copies} copies of allele {k} in {individuals} individuals contradict each other"
        ),
    }
}

/// A p-value of each row.
fn invoke(
    name: &str,
    args: &ScalarFunctionArgs,
    value: impl Fn(HardyWeinberg) -> f64,
) -> Result<ColumnarValue> {
    let inputs = Inputs::new(name, args)?;
    // Many sites have the same table.
    let mut known = HashMap::new();
    let mut test = |(hom1, het, hom2): (u64, u64, u64)| {
        let individuals = hom1 + het + hom2;
        if individuals > MOST_INDIVIDUALS {
            return exec_err!(
                "{name}: expected at most {MOST_INDIVIDUALS} individuals, found {individuals}"
            );
        }
        let found = match known.entry((hom1, het, hom2)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => {
                interrupt::check()?;
                *unknown.insert(hardy_weinberg(hom1, het, hom2))
            }
        };
        Ok(found.map(&value))
    };
    if inputs.len() == 3 {
        let counts = [
            inputs.integers(0)?,
            inputs.integers(1)?,
            inputs.integers(2)?,
        ];
        return inputs.finish(numbers::<Float64Type>(inputs.rows, |row| {
            let [Some(hom1), Some(het), Some(hom2)] =
                [0, 1, 2].map(|at: usize| counts[at].get(row))
            else {
                return Ok(None);
            };
            let individuals = |count: i64| match u32::try_from(count) {
                Ok(count) => Ok(u64::from(count)),
                Err(_) => exec_err!(
                    "{name}: expected a number of individuals, at most {MOST_INDIVIDUALS}, found {count}"
                ),
            };
            test((individuals(hom1)?, individuals(het)?, individuals(hom2)?))
        })?);
    }
    let diploids = Argument::try_new(&inputs, 0)?;
    let allele = match inputs.len() {
        1 => None,
        _ => Some(inputs.integers(1)?),
    };
    inputs.finish(numbers::<Float64Type>(inputs.rows, |row| {
        let k = allele.as_ref().map_or(Some(1), |allele| allele.get(row));
        match (diploids.get(row), k) {
            (Some(site), Some(k)) => test(table(name, site, k)?),
            _ => Ok(None),
        }
    })?)
}

/// The trait's methods that are the same in both functions.
macro_rules! test_function {
    ($function:ident, $name:literal, $what:literal, $value:expr) => {
        impl ScalarUDFImpl for $function {
            fn name(&self) -> &str {
                $name
            }

            fn signature(&self) -> &datafusion::logical_expr::Signature {
                &self.signature
            }

            fn is_strict(&self) -> bool {
                true
            }

            fn documentation(&self) -> Option<&Documentation> {
                static DOCUMENTATION: std::sync::LazyLock<Documentation> =
                    std::sync::LazyLock::new(|| documentation_of($name, $what));
                Some(&DOCUMENTATION)
            }

            fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
                coerce(self.name(), types)
            }

            fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
                Ok(DataType::Float64)
            }

            fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
                invoke(self.name(), &args, $value)
            }
        }
    };
}

test_function!(HweExact, "hwe_exact", "its two-sided p-value.", |test| test
    .p);
test_function!(
    HweExactMidp,
    "hwe_exact_midp",
    "its mid p-value, less by half the probability of the observed table.",
    |test| test.mid_p
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, floats, ints, show};

    #[test]
    fn counts_of_genotypes() {
        // Wigginton et al. 2005, table 1: 100 individuals with 21 copies of the rarer allele.
        let (hom1, het, hom2) = (
            ints(&[Some(0), Some(3), None]),
            ints(&[Some(21), Some(15), Some(1)]),
            ints(&[Some(79), Some(82), Some(1)]),
        );
        let found = call(HweExact::new(), &[hom1, het, hom2]).unwrap();
        let found = show(&found);
        assert!(
            found[0].starts_with("0.593645") && found[1].starts_with("0.069576"),
            "{found:?}"
        );
        assert_eq!(found[2], "NULL");
        let none = call(
            HweExactMidp::new(),
            &[ints(&[Some(0)]), ints(&[Some(0)]), ints(&[Some(0)])],
        )
        .unwrap();
        assert_eq!(none, floats(&[None]));
        let negative = [ints(&[Some(-1)]), ints(&[Some(0)]), ints(&[Some(0)])];
        assert!(call(HweExact::new(), &negative).is_err());
    }
}
