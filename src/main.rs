//! The `vcz` program: see [`datafusion_vcz::cli`].

use std::process::ExitCode;

/// Queries allocate and free batches on many threads; the system's allocator is slow at that. Counted, so that a server bounds planning.
#[global_allocator]
static ALLOCATOR: datafusion_vcz::allocations::Counted<mimalloc::MiMalloc> =
    datafusion_vcz::allocations::Counted(mimalloc::MiMalloc);

fn main() -> ExitCode {
    datafusion_vcz::cli::main()
}
