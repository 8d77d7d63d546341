//! The `vcz` program: see [`datafusion_vcz::cli`].

use std::process::ExitCode;

/// Queries allocate and free batches on many threads; the system's allocator is slow at that. Counted, so that a server bounds planning.
/// With the Python module, the library has one.
#[cfg(not(feature = "python"))]
#[global_allocator]
static ALLOCATOR: datafusion_vcz::allocations::Counted<mimalloc::MiMalloc> =
    datafusion_vcz::allocations::Counted(mimalloc::MiMalloc);

fn main() -> ExitCode {
    datafusion_vcz::cli::main()
}
