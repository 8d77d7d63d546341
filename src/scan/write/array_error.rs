//! Errors of arrays that are written.

use datafusion::common::DataFusionError;

use crate::codec::CodecError;
use crate::error::VczError;
use crate::store::write::NewArray;

/// An error of an array.
pub fn of(array: &NewArray, reason: CodecError) -> DataFusionError {
    VczError::Invalid(format!("array '{}': {reason}", array.name)).into()
}
