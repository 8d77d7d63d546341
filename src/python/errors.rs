//! `vcz.Error`, with the message that the command line prints.

use datafusion::common::DataFusionError;
use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyFileNotFoundError};

use datafusion_vcz::session::message;

pyo3::create_exception!(
    vcz,
    Error,
    PyException,
    "What went wrong in a store, an option or a statement."
);

/// An error with this message.
pub fn error(message: impl Into<String>) -> PyErr {
    Error::new_err(message.into())
}

/// An error of DataFusion.
pub fn of_query(failed: &DataFusionError) -> PyErr {
    error(message(failed))
}

/// An error of opening a store: `FileNotFoundError` where that is the reason.
pub fn of_store(message: String) -> PyErr {
    if message.starts_with("there is no store '")
        || message.starts_with("there is no populations file '")
    {
        return PyFileNotFoundError::new_err(message);
    }
    error(message)
}
