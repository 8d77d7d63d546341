//! `accessible_bases(contig, start, stop, mask)`: the number of accessible bases in an interval.

use std::sync::Arc;

use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::masked::{Bound, MASK};
use super::strings::Strings;
use super::support::{
    Inputs, check_arity, coerce_integer, coerce_string, document, function_identity, numbers,
};
use crate::functions::mask::Mask;

const SYNTAX: &str = "accessible_bases(contig, start, stop, mask)";

/// `accessible_bases(contig, start, stop, mask)` → Int64: accessible bases in the 1-based inclusive interval; 0 where
/// `stop` is below `start` and on contigs that the mask does not name.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct AccessibleBases {
    signature: Signature,
    mask: Bound,
}

impl Default for AccessibleBases {
    fn default() -> Self {
        Self::new()
    }
}

impl AccessibleBases {
    /// Whether a mask is bound.
    pub fn is_bound(&self) -> bool {
        self.mask.mask().is_some()
    }

    /// The mask that is bound.
    pub fn mask(&self) -> Option<&Arc<Mask>> {
        self.mask.mask()
    }

    /// The function to register. It can be planned, but fails when run without a bound mask.
    pub fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            mask: Bound::default(),
        }
    }
}

/// The function with `mask` bound. Name and arguments stay the same; the last argument, the mask's name, is ignored.
pub fn bound(mask: Arc<Mask>) -> ScalarUDF {
    ScalarUDF::new_from_impl(AccessibleBases {
        mask: Bound::new(mask),
        ..AccessibleBases::new()
    })
}

fn documentation() -> Documentation {
    document(
        "Number of accessible bases in an interval, the denominator of rates per base. The interval is 1-based and \
         inclusive; it holds no base where stop is below start.",
        SYNTAX,
        "SELECT accessible_bases('2L', 1, 100000, 'accessible.bed');",
        &[
            ("contig", "The contig's name."),
            ("start", "First base, 1-based."),
            ("stop", "Last base, 1-based."),
            MASK,
        ],
    )
}

impl ScalarUDFImpl for AccessibleBases {
    function_identity!("accessible_bases");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 4, 4)?;
        Ok(vec![
            coerce_string(self.name(), 0, "contig", &types[0])?,
            coerce_integer(self.name(), 1, "start", &types[1])?,
            coerce_integer(self.name(), 2, "stop", &types[2])?,
            coerce_string(self.name(), 3, "mask", &types[3])?,
        ])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mask = self.mask.get(self.name())?;
        let inputs = Inputs::new(self.name(), &args)?;
        let contigs = Strings::try_new(&inputs, 0)?;
        let (starts, stops) = (inputs.integers(1)?, inputs.integers(2)?);
        // Rows are mostly sorted, so a contig is checked only where it changes.
        let mut last = None;
        let array = numbers::<Int64Type>(inputs.rows, |row| {
            let (Some(contig), Some(start), Some(stop)) =
                (contigs.get(row), starts.get(row), stops.get(row))
            else {
                return Ok(None);
            };
            if last != Some(contig) {
                mask.check_spelling(contig)?;
                last = Some(contig);
            }
            Ok(Some(mask.accessible_bases(contig, start, stop)))
        })?;
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{call, call_udf, int, ints, string, strings};

    #[test]
    fn counts_inclusive_intervals() {
        let mask = Arc::new(Mask::from_rows("m.bed", [("1", 4, 6), ("1", 10, 20)]).unwrap());
        let misspelt = [
            strings(&[Some("1"), Some("chr1")]),
            int(1),
            int(9),
            string("m.bed"),
        ];
        let error = call_udf(&bound(Arc::clone(&mask)), &misspelt).unwrap_err();
        assert!(error.to_string().contains("did you mean '1'?"), "{error}");
        let contigs = strings(&[Some("1"), Some("1"), Some("2"), None, Some("1")]);
        let starts = ints(&[Some(1), Some(6), Some(1), Some(1), Some(9)]);
        let stops = ints(&[Some(100), Some(11), Some(9), Some(9), Some(8)]);
        let expected = ints(&[Some(12), Some(2), Some(0), None, Some(0)]);
        assert_eq!(
            call_udf(&bound(mask), &[contigs, starts, stops, string("m.bed")]).unwrap(),
            expected
        );
    }

    #[test]
    fn must_be_bound_to_run() {
        let error = call(
            AccessibleBases::new(),
            &[string("1"), int(1), int(5), string("m.bed")],
        );
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("accessible_bases: the mask must be a constant")
        );
    }
}
