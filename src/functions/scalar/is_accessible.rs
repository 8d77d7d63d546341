//! `is_accessible(variant_contig, variant_position, mask)`: whether a site lies inside an accessibility mask.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::masked::{Bound, MASK};
use super::strings::Strings;
use super::support::{
    Inputs, booleans, check_arity, coerce_integer, coerce_string, document, function_identity,
};
use crate::functions::mask::{ContigMask, Mask};

const SYNTAX: &str = "is_accessible(variant_contig, variant_position, mask)";

/// `is_accessible(variant_contig, variant_position, mask)` → Boolean; false on contigs that the mask does not name.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IsAccessible {
    signature: Signature,
    mask: Bound,
}

impl Default for IsAccessible {
    fn default() -> Self {
        Self::new()
    }
}

impl IsAccessible {
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
    ScalarUDF::new_from_impl(IsAccessible {
        mask: Bound::new(mask),
        ..IsAccessible::new()
    })
}

fn documentation() -> Documentation {
    document(
        "Whether a site lies inside a mask of accessible bases. A mask that shares no contig name with the store is an \
         error; on a contig that only the mask lacks, nothing is accessible.",
        SYNTAX,
        "SELECT count(*) FROM t WHERE is_accessible(variant_contig, variant_position, 'accessible.bed');",
        &[
            ("variant_contig", "The contig's name."),
            ("variant_position", "The 1-based position."),
            MASK,
        ],
    )
}

impl ScalarUDFImpl for IsAccessible {
    function_identity!("is_accessible");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 3, 3)?;
        Ok(vec![
            coerce_string(self.name(), 0, "variant_contig", &types[0])?,
            coerce_integer(self.name(), 1, "variant_position", &types[1])?,
            coerce_string(self.name(), 2, "mask", &types[2])?,
        ])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mask = self.mask.get(self.name())?;
        let inputs = Inputs::new(self.name(), &args)?;
        let (contigs, positions) = (Strings::try_new(&inputs, 0)?, inputs.integers(1)?);
        // Rows are mostly sorted, so the contig is looked up only where it changes.
        let mut last: Option<(&str, ContigMask<'_>)> = None;
        let mut spelling = Ok(());
        let array = booleans(inputs.rows, |row| {
            let (contig, position) = (contigs.get(row)?, positions.get(row)?);
            let (_, intervals) = match &mut last {
                Some(known) if known.0 == contig => known,
                _ => {
                    if spelling.is_ok() {
                        spelling = mask.check_spelling(contig);
                    }
                    last.insert((contig, mask.contig(contig)))
                }
            };
            Some(intervals.contains_next(position))
        });
        spelling?;
        inputs.finish(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::scalar::testing::{bools, call, call_udf, int, ints, string, strings};

    #[test]
    fn inside_and_outside() {
        let mask = Arc::new(Mask::from_rows("m.bed", [("1", 4, 6), ("2", 0, 2)]).unwrap());
        let contigs = strings(&[
            Some("1"),
            Some("1"),
            Some("2"),
            Some("1"),
            Some("3"),
            None,
            Some("1"),
            Some("1"),
        ]);
        let positions = ints(&[
            Some(4),
            Some(5),
            Some(1),
            Some(6),
            Some(5),
            Some(5),
            None,
            Some(7),
        ]);
        let expected = bools(&[
            Some(false),
            Some(true),
            Some(true),
            Some(true),
            Some(false),
            None,
            None,
            Some(false),
        ]);
        let udf = bound(Arc::clone(&mask));
        assert_eq!(
            call_udf(&udf, &[contigs, positions.clone(), string("m.bed")]).unwrap(),
            expected
        );
        let expected = bools(&[
            Some(false),
            Some(true),
            Some(false),
            Some(true),
            Some(true),
            Some(true),
            None,
            Some(false),
        ]);
        assert_eq!(
            call_udf(&udf, &[string("1"), positions, string("m.bed")]).unwrap(),
            expected
        );
    }

    #[test]
    fn must_be_bound_to_run() {
        let error = call(IsAccessible::new(), &[string("1"), int(5), string("m.bed")])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the path of a BED file or the name of a registered table"),
            "{error}"
        );
        let mask = Arc::new(Mask::from_rows("m.bed", [("1", 4, 6)]).unwrap());
        assert_ne!(bound(mask), ScalarUDF::new_from_impl(IsAccessible::new()));
    }
}
