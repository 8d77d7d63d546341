//! `spectrum_test(spectrum, weights1, weights2)`: a test of neutrality of a spectrum.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
};

use super::spectrum_weights::{
    SPECTRUM, Spectra, WEIGHTS, Weight, Weights, check_name, coerce_spectrum, coerce_weights,
    weighted,
};
use super::support::{Inputs, check_arity, document, function_identity, function_struct, numbers};
use crate::functions::numeric::spectrum_variance::SpectrumVariance;

const SYNTAX: &str = "spectrum_test(spectrum, weights1, weights2)";

/// With a smaller N, or fewer sites, the test is NULL.
const SMALLEST: u64 = 4;
const FEWEST_SITES: f64 = 3.0;

function_struct! {
    /// `spectrum_test(spectrum, weights1, weights2)` → Float64: the difference of two estimates of θ, as `spectrum_theta` gives
    /// them, over its standard deviation under the neutral model (Achaz 2009).
    ///
    /// NULL where N < 4, the spectrum has fewer than 3 sites in bins 1 to N − 1, or the variance is not positive. It has the errors of
    /// `spectrum_theta`.
    SpectrumTest
}

fn documentation() -> Documentation {
    document(
        "A test of neutrality of an unfolded site frequency spectrum: the difference of two estimates of theta, as \
         spectrum_theta gives them, over the square root of its variance under the neutral model (Achaz 2009, with the \
         covariances of Fu 1995). ('pi', 'w') is Tajima's D, ('pi', 'h') the normalised H of Fay and Wu, ('l', 'w') E of Zeng \
         et al., and with ('w', 'singletons'), ('pi', 'singletons'), ('w', 'singletons_folded'), ('pi', 'singletons_folded') \
         they are D, F, D* and F* of Fu and Li; ('pi', 'no_singletons') is Achaz's Y. NULL if N < 4, there are fewer than 3 \
         sites in bins 1 to N - 1, or the variance is not positive.",
        SYNTAX,
        "SELECT spectrum_test(project_sfs(call_genotype, 20), 'pi', 'no_singletons') FROM t;",
        &[
            SPECTRUM,
            ("weights1", WEIGHTS),
            (
                "weights2",
                "The weights of the estimate that is subtracted.",
            ),
        ],
    )
}

/// Variances of tests. The last one is cached, because all rows usually have the same N and the same weights.
struct Variances {
    /// Whether all rows have the same weights.
    constant: bool,
    last: Option<(u64, SpectrumVariance)>,
}

impl Variances {
    fn get(
        &mut self,
        function: &str,
        copies: u64,
        [first, second]: [Weight<'_>; 2],
    ) -> Result<SpectrumVariance> {
        match self.last {
            Some((last, variance)) if self.constant && last == copies => return Ok(variance),
            _ => {}
        }
        let difference = |i| first.at(copies, i) - second.at(copies, i);
        match SpectrumVariance::new(copies, difference) {
            Some(variance) => {
                self.last = Some((copies, variance));
                Ok(variance)
            }
            None => exec_err!(
                "{function}: the variance is computed for spectra of at most {} copies, found {copies}; project the \
                 spectrum with project_sfs",
                SpectrumVariance::MOST_COPIES
            ),
        }
    }
}

impl ScalarUDFImpl for SpectrumTest {
    function_identity!("spectrum_test");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 3, 3)?;
        Ok(vec![
            coerce_spectrum(self.name(), 0, &types[0])?,
            coerce_weights(self.name(), 1, &types[1])?,
            coerce_weights(self.name(), 2, &types[2])?,
        ])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        check_name(self.name(), &args, 1)?;
        check_name(self.name(), &args, 2)?;
        Ok(Arc::new(Field::new(self.name(), DataType::Float64, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let function = self.name();
        let inputs = Inputs::new(function, &args)?;
        let spectra = Spectra::try_new(&inputs, 0)?;
        let (first, second) = (Weights::try_new(&inputs, 1)?, Weights::try_new(&inputs, 2)?);
        let mut variances = Variances {
            constant: inputs.array(1)?.1 && inputs.array(2)?.1,
            last: None,
        };
        let array = numbers::<Float64Type>(inputs.rows, |row| {
            let Some(spectrum) = spectra.get(function, row)? else {
                return Ok(None);
            };
            let copies = spectrum.copies;
            let (Some(first), Some(second)) = (
                first.get(function, row, copies)?,
                second.get(function, row, copies)?,
            ) else {
                return Ok(None);
            };
            let sites: f64 = spectrum.sites.iter().sum();
            if copies < SMALLEST || sites < FEWEST_SITES {
                return Ok(None);
            }
            let variance = variances.get(function, copies, [first, second])?;
            let difference = weighted(function, &spectrum, |i| {
                first.at(copies, i) - second.at(copies, i)
            })?;
            Ok(variance.standardise(difference, sites))
        })?;
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{
        Value, call, counts, float_lists, null, show, string, strings,
    };

    fn number(value: &Value) -> f64 {
        show(value)[0].parse().unwrap()
    }

    fn spectrum() -> Value {
        counts(&[Some(&[7, 2, 1, 1, 9])])
    }

    #[test]
    fn by_hand() {
        // Four copies: a = 11/6, a² + b = 85/18; the difference, α and β of θ_W − η_e.
        let variance: f64 =
            5.0 / 11.0 * 4.0 * 6.0 / 11.0 + 199.0 / 1089.0 * 4.0 * 3.0 * 18.0 / 85.0;
        let expected = 2.0 / 11.0 / variance.sqrt();
        let names = [spectrum(), string("w"), string("singletons")];
        let found = number(&call(SpectrumTest::new(), &names).unwrap());
        assert!((found - expected).abs() < 1e-13, "{found}, {expected}");
        let w = Some(6.0 / 11.0);
        let lists = [
            spectrum(),
            float_lists(&[Some(&[w, w, w])]),
            float_lists(&[Some(&[Some(1.0), Some(0.0), Some(0.0)])]),
        ];
        let found = number(&call(SpectrumTest::new(), &lists).unwrap());
        assert!((found - expected).abs() < 1e-13, "{found}, {expected}");
        // Halving both estimates does not change the test.
        let h = call(
            SpectrumTest::new(),
            &[spectrum(), string("pi"), string("h")],
        )
        .unwrap();
        let l = call(
            SpectrumTest::new(),
            &[spectrum(), string("pi"), string("l")],
        )
        .unwrap();
        assert!((number(&h) - number(&l)).abs() < 1e-14);
    }

    #[test]
    fn too_little_is_null() {
        let test = |spectrum: &[i32], first: &str, second: &str| {
            let arguments = [counts(&[Some(spectrum)]), string(first), string(second)];
            show(&call(SpectrumTest::new(), &arguments).unwrap())[0].clone()
        };
        for spectrum in [
            &[][..],
            &[5],
            &[5, 5],
            &[5, 5, 5],
            &[5, 5, 5, 5],
            &[5, 1, 1, 0, 5],
        ] {
            assert_eq!(test(spectrum, "pi", "w"), "NULL", "{spectrum:?}");
        }
        assert_ne!(test(&[5, 1, 1, 1, 5], "pi", "w"), "NULL");
        // The variance of a difference that is always 0 is not positive.
        assert_eq!(test(&[5, 1, 1, 1, 5], "pi", "pi"), "NULL");
        let found = call(SpectrumTest::new(), &[spectrum(), null(), string("w")]).unwrap();
        assert_eq!(show(&found), ["NULL"]);
    }

    #[test]
    fn rows_of_different_samples_and_weights() {
        let rows: [(&[i32], &str); 4] = [
            (&[0, 3, 2, 1, 0], "pi"),
            (&[0, 3, 2, 1, 0], "l"),
            (&[0, 4, 3, 2, 1, 0], "l"),
            (&[0, 3, 2, 1, 0], "pi"),
        ];
        let spectra = counts(&rows.map(|(spectrum, _)| Some(spectrum)));
        let names = strings(&rows.map(|(_, name)| Some(name)));
        let found =
            show(&call(SpectrumTest::new(), &[spectra.clone(), names, string("w")]).unwrap());
        let constant =
            show(&call(SpectrumTest::new(), &[spectra, string("l"), string("w")]).unwrap());
        for (row, (spectrum, name)) in rows.into_iter().enumerate() {
            let alone = |name: &str| {
                let arguments = [counts(&[Some(spectrum)]), string(name), string("w")];
                show(&call(SpectrumTest::new(), &arguments).unwrap())[0].clone()
            };
            assert_eq!(found[row], alone(name));
            assert_eq!(constant[row], alone("l"));
        }
    }

    #[test]
    fn wrong_arguments() {
        let arguments = [spectrum(), string("pi"), string("watterson")];
        let error = call(SpectrumTest::new(), &arguments)
            .unwrap_err()
            .to_string();
        assert!(error.contains("'watterson'; give one of"), "{error}");
        let lists = float_lists(&[Some(&[Some(1.0); 5])]);
        let error = call(SpectrumTest::new(), &[spectrum(), string("pi"), lists])
            .unwrap_err()
            .to_string();
        assert!(error.contains("found 5"), "{error}");
    }
}
