//! `bar(x, min, max [, width])`: a bar of block characters, a plot in any client.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringBuilder};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl};

use super::support::{Inputs, check_arity, document, function_identity, function_struct};

const SYNTAX: &str = "bar(x, min, max [, width])";
/// The width if it is left out, and the greatest.
const DEFAULT_WIDTH: f64 = 80.0;
const MOST_WIDTH: f64 = 1000.0;
/// Blocks of one to eight eighths of a character.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

function_struct! {
    /// `bar(x, min, max [, width])` → Utf8: a bar whose length is proportional to x − min, in eighths of a character: none where x is at
    /// most min, `width` characters (default 80, at most 1000) where it is at least max. NULL if x, min or max is not a number.
    Bar
}

fn documentation() -> Documentation {
    document(
        "A bar of block characters whose length is proportional to x − min, to plot a column in any client: empty where x is at most min, \
         width characters long where x is at least max.",
        SYNTAX,
        "SELECT r['bin'] AS bin, bar(r['sites'], 0, 2000, 40) AS sites FROM (SELECT unnest(spectrum_rows(sfs(call_genotype, 'first'))) AS r FROM sim);",
        &[
            ("x", "A number."),
            ("min", "The number whose bar is empty."),
            ("max", "The number whose bar is width characters long."),
            (
                "width",
                "Characters of the longest bar, from 1 to 1000. If left out, 80.",
            ),
        ],
    )
}

/// The bar of `x`, appended to `text`.
fn draw(text: &mut String, x: f64, [min, max]: [f64; 2], width: f64) {
    // Not (x − min) / (max − min) · width for all: if max is not above min, a bar is empty or full.
    let length = if x <= min {
        0.0
    } else if x >= max {
        width
    } else {
        (x - min) / (max - min) * width
    };
    // At most 8000, and infinite limits give 0 or NaN, which is 0 here.
    let eighths = (length * 8.0) as usize;
    text.extend(std::iter::repeat_n('█', eighths / 8));
    if let Some(part) = (eighths % 8).checked_sub(1) {
        text.push(EIGHTHS[part]);
    }
}

impl ScalarUDFImpl for Bar {
    function_identity!("bar");

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        check_arity(SYNTAX, types, 3, 4)?;
        let names = ["x", "min", "max", "width"];
        for (at, (data_type, name)) in types.iter().zip(names).enumerate() {
            if !data_type.is_numeric() && !data_type.is_null() {
                return plan_err!(
                    "bar: argument {} ({name}) must be a number, found {data_type}",
                    at + 1
                );
            }
        }
        Ok(vec![DataType::Float64; types.len()])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let inputs = Inputs::new(self.name(), &args)?;
        let number = |position: usize, row: usize| -> Result<Option<f64>> {
            let (array, constant) = inputs.array(position)?;
            let Some(array) = array.as_primitive_opt::<Float64Type>() else {
                return internal_err!("bar: argument {} is not Float64", position + 1);
            };
            let row = if constant { 0 } else { row };
            Ok((!array.is_null(row)).then(|| array.value(row)))
        };
        let mut bars = StringBuilder::with_capacity(inputs.rows, inputs.rows.saturating_mul(24));
        let mut text = String::new();
        for row in 0..inputs.rows {
            let width = match inputs.len() {
                4 => number(3, row)?,
                _ => Some(DEFAULT_WIDTH),
            };
            let numbers = (number(0, row)?, number(1, row)?, number(2, row)?, width);
            let (Some(x), Some(min), Some(max), Some(width)) = numbers else {
                bars.append_null();
                continue;
            };
            if !(1.0..=MOST_WIDTH).contains(&width) {
                return exec_err!("bar: width must be from 1 to {MOST_WIDTH}, found {width}");
            }
            if x.is_nan() || min.is_nan() || max.is_nan() {
                bars.append_null();
                continue;
            }
            text.clear();
            draw(&mut text, x, [min, max], width);
            bars.append_value(&text);
        }
        inputs.finish(Arc::new(bars.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let bar = |x: f64, min: f64, max: f64, width: f64| {
            let mut text = String::new();
            draw(&mut text, x, [min, max], width);
            text
        };
        assert_eq!(bar(5.0, 0.0, 20.0, 8.0), "██");
        assert_eq!(bar(1.0, 0.0, 16.0, 10.0), "▋");
        assert_eq!(bar(-1.0, 0.0, 16.0, 10.0), "");
        assert_eq!(bar(16.0, 0.0, 16.0, 4.0), "████");
        assert_eq!(bar(1e300, 0.0, 16.0, 4.0), "████");
        assert_eq!(bar(1.0, 3.0, 3.0, 4.0), "");
        assert_eq!(bar(4.0, 3.0, 3.0, 4.0), "████");
        assert_eq!(bar(0.0, f64::NEG_INFINITY, f64::INFINITY, 4.0), "");
    }
}
