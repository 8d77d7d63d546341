//! The Python module `vcz._vcz`, below the Python code in `src/python/vcz`, and the top layer: sessions are those of the command line, and
//! results leave as Arrow C streams.
//!
//! * `session`: tables and statements, with `shared`, what its queries share. `query`: a statement's result, run when it is read, as `running`
//!   says. `stream`: its batches, from the first that is asked for. `batches`: a result in memory; `columns`: its columns as numpy arrays; `objects`: as Python objects.
//! * `runtime`: one runtime for the process; waits so that Ctrl-C, progress and other threads go on. `progress`: calls of a progress bar.
//! * `errors`: `vcz.Error`. `spectrum`: files of spectra.
//!
//! Invariants: no panic leaves a stream, because C functions cannot unwind; the interpreter is never held while a query runs.
//!
//! This is a crate of its own, so that it links the library as the program does, with the same features: nothing is compiled twice.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::todo,
    clippy::dbg_macro
)]

mod batches;
mod columns;
mod errors;
mod objects;
mod progress;
mod query;
mod running;
mod runtime;
mod session;
mod shared;
mod spectrum;
mod stream;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use datafusion_vcz::allocations::Counted;
use datafusion_vcz::{cli, gpu};

/// As that of the program: see `main.rs`.
#[global_allocator]
static ALLOCATOR: Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc);

/// How long Python's exit waits for the GPU.
const GPU_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command line with these arguments, of which the first is the program's name; returns the exit code.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| cli::run(arguments))
}

/// Waits until no thread is inside of CUDA, whose exit handlers do not expect that; at most ten seconds.
#[pyfunction]
fn settle(py: Python<'_>) {
    py.detach(|| {
        let start = Instant::now();
        while (gpu::is_starting() || gpu::is_at_work()) && start.elapsed() < GPU_PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

/// Has CUDA's libraries looked for in this Python environment, too.
#[pyfunction]
fn search_prefix(prefix: PathBuf) {
    gpu::search_python_prefix(prefix);
}

#[pymodule(gil_used = false)]
fn _vcz(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<errors::Error>())?;
    module.add_class::<session::Session>()?;
    module.add_class::<query::Query>()?;
    module.add_class::<batches::Batches>()?;
    module.add_class::<columns::Buffer>()?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(settle, module)?)?;
    module.add_function(wrap_pyfunction!(search_prefix, module)?)?;
    module.add_function(wrap_pyfunction!(spectrum::write_spectrum, module)?)?;
    Ok(())
}
