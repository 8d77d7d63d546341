//! `spectrum_theta(spectrum, weights)`: an estimate of θ from a spectrum.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
};

use super::spectrum_weights::{
    SPECTRUM, Spectra, WEIGHTS, Weights, check_name, coerce_spectrum, coerce_weights, weighted,
};
use super::support::{Inputs, check_arity, document, function_identity, function_struct, numbers};

const SYNTAX: &str = "spectrum_theta(spectrum, weights)";

function_struct! {
    /// `spectrum_theta(spectrum, weights)` → Float64: Σ w_i ξ_i over the bins i = 1, …, N − 1 of an unfolded spectrum (Achaz
    /// 2009).
    ///
    /// NULL where N is below 2, or below what the weights need: 3 for `no_singletons`, 4 for `no_singletons_folded`. An error if the
    /// weights' name is unknown or their length is wrong, or if a bin is NULL, negative or not finite.
    SpectrumTheta
}

fn documentation() -> Documentation {
    document(
        "An estimate of theta from an unfolded site frequency spectrum: the sum of w_i times the number of sites in bin i, \
         for i = 1 to N - 1 (Achaz 2009). Over complete data 'pi' gives diversity, 'w' theta_w, 'h' theta_h, 'l' theta_l, all \
         with ALT alleles pooled. 'singletons' is the number of sites in bin 1, 'singletons_folded' (N - 1) / N times that of \
         bins 1 and N - 1 together, and the last two are Watterson's estimator without these bins (Achaz 2008). NULL if N < 2, \
         for 'no_singletons' if N < 3, for 'no_singletons_folded' if N < 4.",
        SYNTAX,
        "SELECT spectrum_theta(project_sfs(call_genotype, 20), 'no_singletons') FROM t;",
        &[SPECTRUM, ("weights", WEIGHTS)],
    )
}

impl ScalarUDFImpl for SpectrumTheta {
    function_identity!("spectrum_theta");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 2, 2)?;
        Ok(vec![
            coerce_spectrum(self.name(), 0, &types[0])?,
            coerce_weights(self.name(), 1, &types[1])?,
        ])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        check_name(self.name(), &args, 1)?;
        Ok(Arc::new(Field::new(self.name(), DataType::Float64, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let (spectra, weights) = (Spectra::try_new(&inputs, 0)?, Weights::try_new(&inputs, 1)?);
        let array = numbers::<Float64Type>(inputs.rows, |row| {
            let Some(spectrum) = spectra.get(self.name(), row)? else {
                return Ok(None);
            };
            let copies = spectrum.copies;
            match weights.get(self.name(), row, copies)? {
                Some(weight) if copies >= weight.smallest() => {
                    weighted(self.name(), &spectrum, |i| weight.at(copies, i)).map(Some)
                }
                _ => Ok(None),
            }
        })?;
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::functions::scalar::testing::{
        call, counts, float_lists, floats, null, show, string, strings,
    };

    #[test]
    fn by_hand() {
        // 2, 1 and 1 sites with 1, 2 and 3 of four copies.
        let spectrum = || counts(&[Some(&[7, 2, 1, 1, 9])]);
        for (name, expected) in [
            ("pi", 2.0 * 0.5 + 2.0 / 3.0 + 0.5),
            ("w", 4.0 * 6.0 / 11.0),
            ("h", 2.0 / 6.0 + 2.0 / 3.0 + 1.5),
            ("l", 2.0 / 3.0 + 2.0 / 3.0 + 1.0),
            ("singletons", 2.0),
            ("singletons_folded", 3.0 * 0.75),
            ("no_singletons", 2.0 / (11.0 / 6.0 - 1.0)),
            ("no_singletons_folded", 2.0),
        ] {
            let found = call(SpectrumTheta::new(), &[spectrum(), string(name)]).unwrap();
            let found: f64 = show(&found)[0].parse().unwrap();
            assert!((found - expected).abs() < 1e-14, "{name}: {found}");
        }
        let list = float_lists(&[Some(&[Some(0.5), Some(-1.0), Some(10.0)])]);
        let found = call(SpectrumTheta::new(), &[spectrum(), list]).unwrap();
        assert_eq!(found, floats(&[Some(10.0)]));
    }

    #[test]
    fn small_samples() {
        let spectra = counts(&[
            None,
            Some(&[]),
            Some(&[4]),
            Some(&[4, 3]),
            Some(&[4, 3, 2]),
            Some(&[4, 3, 2, 1]),
            Some(&[4, 3, 2, 1, 0]),
        ]);
        let value = |name: &str| {
            let found = call(SpectrumTheta::new(), &[spectra.clone(), string(name)]).unwrap();
            show(&found).join(" ")
        };
        assert_eq!(value("singletons"), "NULL NULL NULL NULL 3.0 3.0 3.0");
        assert_eq!(
            value("singletons_folded")[..24],
            *"NULL NULL NULL NULL 1.5 "
        );
        assert_eq!(
            value("no_singletons")[..28],
            *"NULL NULL NULL NULL NULL 4.0"
        );
        assert_eq!(
            value("no_singletons_folded")[..25],
            *"NULL NULL NULL NULL NULL "
        );
        assert!(value("no_singletons_folded").starts_with("NULL NULL NULL NULL NULL NULL "));
        let lists = float_lists(&[
            Some(&[]),
            Some(&[]),
            Some(&[]),
            Some(&[]),
            Some(&[Some(2.0)]),
            Some(&[Some(2.0), Some(1.0)]),
            None,
        ]);
        let found = call(SpectrumTheta::new(), &[spectra, lists]).unwrap();
        assert_eq!(show(&found).join(" "), "NULL NULL NULL NULL 6.0 8.0 NULL");
        let found = call(SpectrumTheta::new(), &[null(), null()]).unwrap();
        assert_eq!(show(&found), ["NULL"]);
    }

    #[test]
    fn wrong_arguments() {
        let spectrum = || counts(&[Some(&[7, 2, 1, 1, 9])]);
        let list = |numbers: &[Option<f64>]| float_lists(&[Some(numbers)]);
        for (arguments, expected) in [
            (
                [spectrum(), string("theta")],
                "'theta'; give one of 'pi', 'w', 'h'",
            ),
            ([spectrum(), strings(&[Some("PI")])], "'PI'; give one of"),
            (
                [spectrum(), list(&[Some(1.0)])],
                "of 5 bins needs 3 weights",
            ),
            (
                [spectrum(), list(&[Some(1.0), None, Some(1.0)])],
                "must be numbers, found NULL",
            ),
            (
                [spectrum(), list(&[Some(1.0), Some(f64::NAN), Some(1.0)])],
                "found NaN",
            ),
            ([spectrum(), list(&[Some(f64::MAX); 3])], "too large"),
            (
                [counts(&[Some(&[1, -1, 2])]), string("w")],
                "not negative, found -1",
            ),
            (
                [list(&[Some(1.0), None, Some(1.0)]), string("w")],
                "found NULL",
            ),
            (
                [string("w"), string("w")],
                "(spectrum) must be a list of numbers",
            ),
            (
                [spectrum(), floats(&[Some(1.0)])],
                "must be weights, a list of numbers or one of 'pi'",
            ),
        ] {
            let error = call(SpectrumTheta::new(), &arguments)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Every name of weights.
    const NAMES: [&str; 8] = [
        "pi",
        "w",
        "h",
        "l",
        "singletons",
        "singletons_folded",
        "no_singletons",
        "no_singletons_folded",
    ];

    /// Two spectra of as many copies, and weights for them.
    fn two_spectra() -> impl Strategy<Value = (Vec<[i32; 2]>, Vec<f64>)> {
        (1..40usize).prop_flat_map(|copies| {
            let bins = vec([0..1000i32, 0..1000i32], copies + 1);
            (bins, vec(-4.0..4.0f64, copies - 1))
        })
    }

    proptest! {
        #[test]
        fn estimates_are_linear_in_the_spectrum((bins, weights) in two_spectra()) {
            let part = |at: usize| bins.iter().map(|bin| bin[at]).collect::<Vec<i32>>();
            let (one, other) = (part(0), part(1));
            let sum: Vec<i32> = one.iter().zip(&other).map(|(one, other)| one + other).collect();
            let list: Vec<Option<f64>> = weights.into_iter().map(Some).collect();
            let list = float_lists(&[Some(&list[..]); 3]);
            for weights in NAMES.map(string).into_iter().chain([list]) {
                let spectra = counts(&[Some(&one[..]), Some(&other[..]), Some(&sum[..])]);
                let found = call(SpectrumTheta::new(), &[spectra, weights]).unwrap();
                let found = show(&found);
                let [one, other, sum] = [0, 1, 2].map(|row| found[row].parse::<f64>().ok());
                prop_assert_eq!(one.is_some(), sum.is_some(), "{:?}", found);
                prop_assert_eq!(other.is_some(), sum.is_some(), "{:?}", found);
                let (Some(one), Some(other), Some(sum)) = (one, other, sum) else { continue };
                let scale = one.abs().max(other.abs()).max(1e5);
                prop_assert!((one + other - sum).abs() <= 1e-12 * scale, "{:?}", found);
            }
        }
    }
}
