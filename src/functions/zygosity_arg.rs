//! Reads arguments that are zygosity, for all functions: the struct that `zygosity_counts` returns.

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::counts_arg::{CountsView, is_counts_type};
use super::numeric::zygosity::Diploids;

/// Whether `data_type` is that of zygosity: a struct with lists of integers `ac` and `het`.
pub fn is_zygosity_type(data_type: &DataType) -> bool {
    let DataType::Struct(fields) = data_type else {
        return data_type.is_null();
    };
    let has = |name: &str| {
        let field = fields.find(name);
        field.is_some_and(|(_, field)| is_counts_type(field.data_type()))
    };
    has("ac") && has("het")
}

/// The diploids of a batch.
pub struct DiploidsView<'a> {
    ac: CountsView<'a>,
    het: CountsView<'a>,
    of: &'a StructArray,
}

impl<'a> DiploidsView<'a> {
    /// Views `array`, structs of zygosity.
    ///
    /// # Errors
    /// If it is of another type, or a count is NULL or negative.
    pub fn try_new(array: &'a ArrayRef) -> Result<Self> {
        let Some((of, [ac, het])) = lists(array) else {
            return exec_err!(
                "expected what zygosity_counts(call_genotype [, population]) gives, found {}",
                array.data_type()
            );
        };
        Ok(Self {
            ac: CountsView::try_new(ac)?,
            het: CountsView::try_new(het)?,
            of,
        })
    }

    /// The diploids at `row`; `None` where they are NULL.
    pub fn get(&self, row: usize) -> Option<Diploids<'_>> {
        let is_null = self.of.is_null(row) || self.ac.is_null(row) || self.het.is_null(row);
        (!is_null).then(|| Diploids {
            ac: self.ac.row(row),
            het: self.het.row(row),
        })
    }
}

/// The lists `ac` and `het` of structs of zygosity; `None` where `array` is of another type.
pub fn lists(array: &ArrayRef) -> Option<(&StructArray, [&ArrayRef; 2])> {
    let of = array.as_struct_opt()?;
    Some((of, [of.column_by_name("ac")?, of.column_by_name("het")?]))
}
