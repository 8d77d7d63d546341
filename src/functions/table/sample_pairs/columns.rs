//! The columns of the result.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::counts::pairs::IndividualPair;

/// A pair of the result.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Places in the population.
    pub(super) samples: [usize; 2],
    pub(super) counts: IndividualPair,
    pub(super) kinship: Option<f64>,
}

/// How a column is made of pairs.
#[derive(Clone, Copy)]
enum Column {
    Sample(usize),
    Whole(fn(&IndividualPair) -> i64),
    Number(fn(&Found) -> Option<f64>),
}

/// Names of columns, and whether they may be NULL.
const COLUMNS: [(&str, Column, bool); 13] = [
    ("sample1", Column::Sample(0), false),
    ("sample2", Column::Sample(1), false),
    ("sites", Column::Whole(|pair| pair.sites), false),
    ("ibs0", Column::Whole(|pair| pair.ibs[0]), false),
    ("ibs1", Column::Whole(|pair| pair.ibs[1]), false),
    ("ibs2", Column::Whole(|pair| pair.ibs[2]), false),
    ("het_het", Column::Whole(|pair| pair.het_het), false),
    ("opposite", Column::Whole(|pair| pair.opposite), false),
    ("het1", Column::Whole(|pair| pair.het[0]), false),
    ("het2", Column::Whole(|pair| pair.het[1]), false),
    (
        "distance_sites",
        Column::Whole(|pair| pair.distance_sites),
        false,
    ),
    (
        "distance",
        Column::Number(|found| Some(found.counts.distance)),
        false,
    ),
    ("kinship", Column::Number(|found| found.kinship), true),
];

/// The columns.
pub(super) fn schema() -> SchemaRef {
    let field = |(name, column, nullable): &(&str, Column, bool)| {
        let data_type = match column {
            Column::Sample(_) => DataType::Utf8View,
            Column::Whole(_) => DataType::Int64,
            Column::Number(_) => DataType::Float64,
        };
        Field::new(*name, data_type, *nullable)
    };
    Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()))
}

/// Column `at` of these pairs of samples with these ids.
pub(super) fn array(at: usize, found: &[Found], ids: &[String]) -> ArrayRef {
    let found = found.iter();
    match COLUMNS[at].1 {
        Column::Sample(of) => {
            let id = |found: &Found| ids.get(found.samples[of]).map_or("", String::as_str);
            Arc::new(StringViewArray::from_iter_values(found.map(id)))
        }
        Column::Whole(of) => {
            let values = found.map(|found| of(&found.counts));
            Arc::new(Int64Array::from_iter_values(values))
        }
        Column::Number(of) => Arc::new(found.map(of).collect::<Float64Array>()),
    }
}
