//! The number of copies N of a population (samples × ploidy), in the field metadata of counts columns.
//! Spectra read it while planning. Parquet files keep it if the session does not skip Parquet metadata.

use arrow::datatypes::Field;
use datafusion::common::{Result, plan_err};

/// Field-metadata key of N in a counts column.
pub const COPIES_KEY: &str = "vcz.copies";
/// Field-metadata key of counts inside a struct: the name of the struct's field that holds N of each row's population. Counts of
/// `population_counts` and `population_pair_counts` have it, because their populations differ in N.
pub const COPIES_BESIDE_KEY: &str = "vcz.copies_field";
/// Value of [`COPIES_KEY`] while the population is not known yet (a subquery that planning still has to run).
pub const COPIES_DEFERRED: &str = "deferred";

/// The number of copies N in the metadata of a counts field, if any.
///
/// `Ok(None)` if the field has none; `Ok(Some(None))` while it is deferred.
pub fn copies_of(field: &Field) -> Result<Option<Option<u64>>> {
    match field.metadata().get(COPIES_KEY).map(String::as_str) {
        None => Ok(None),
        Some(COPIES_DEFERRED) => Ok(Some(None)),
        Some(text) => match text.parse() {
            Ok(n) => Ok(Some(Some(n))),
            Err(_) => plan_err!(
                "field '{}': metadata {COPIES_KEY} must be a number, found '{text}'",
                field.name()
            ),
        },
    }
}

/// `field` with its number of copies recorded; `None` records "deferred".
pub fn with_copies(field: Field, copies: Option<u64>) -> Field {
    let value = copies.map_or_else(|| COPIES_DEFERRED.to_string(), |n| n.to_string());
    let mut metadata = field.metadata().clone();
    metadata.insert(COPIES_KEY.to_string(), value);
    field.with_metadata(metadata)
}
