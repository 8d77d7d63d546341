//! Files of spectra from Python; what they hold is in `functions::spectrum_file`.

use pyo3::prelude::*;

use super::errors::{error, of_query};
use datafusion_vcz::functions::spectrum_file::{Cells, FileOptions, Spectrum, SpectrumFormat};

/// Cells of a spectrum, as Python has them.
#[derive(FromPyObject)]
pub enum Given {
    /// Of whole numbers.
    Whole(Vec<i64>),
    /// Of other numbers.
    Real(Vec<f64>),
}

/// Writes a spectrum to `path` in the format of that name; options are those of COPY without their prefix.
#[pyfunction]
pub fn write_spectrum(
    py: Python<'_>,
    path: std::path::PathBuf,
    format: &str,
    cells: Given,
    shape: Vec<usize>,
    options: Vec<(String, String)>,
) -> PyResult<()> {
    let format = SpectrumFormat::named(format).map_err(|failed| of_query(&failed))?;
    let mut found = FileOptions::default();
    for (name, value) in &options {
        found.set(name, value).map_err(|failed| of_query(&failed))?;
    }
    let cells = match cells {
        Given::Whole(cells) => Cells::Whole(cells),
        Given::Real(cells) => Cells::Real(cells),
    };
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    py.detach(|| {
        let spectrum = Spectrum::new(cells, shape)?;
        format.bytes(spectrum, &found, &name.unwrap_or_default())
    })
    .map_err(|failed| of_query(&failed))
    .and_then(|bytes| {
        std::fs::write(&path, bytes)
            .map_err(|failed| error(format!("cannot write '{}': {failed}", path.display())))
    })
}
