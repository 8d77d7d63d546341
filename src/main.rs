//! The `vcz` program: see [`datafusion_vcz::cli`].

use std::process::ExitCode;

/// Queries allocate and free batches on many threads; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    datafusion_vcz::cli::main()
}
