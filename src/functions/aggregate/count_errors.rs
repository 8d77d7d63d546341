//! Errors of counting, as DataFusion has them.

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use crate::counts::CountError;
use crate::functions::interrupt;

/// What the function of this name counted.
///
/// # Errors
/// That of counting.
pub(crate) fn counted<T>(name: &str, result: std::result::Result<T, CountError>) -> Result<T> {
    result.map_err(|error| match error {
        CountError::Stopped => interrupt::stopped(),
        CountError::Device(reason) => exec_datafusion_err!("{name}: {reason}"),
        error => DataFusionError::ResourcesExhausted(format!("{name}: {error}")),
    })
}
