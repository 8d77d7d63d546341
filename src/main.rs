//! The `vcz` program: see [`datafusion_vcz::cli`].

use std::process::ExitCode;

use datafusion_vcz::allocations::Counted;

/// Queries allocate and free batches on many threads; the system's allocator is slow at that. Counted, so that a server bounds planning.
#[global_allocator]
static ALLOCATOR: Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let code = datafusion_vcz::cli::main();
    leave_cuda(code);
    code
}

/// Ends the process without exit handlers while a thread is inside of CUDA, whose handlers do not expect that: the GPU may still be
/// starting in the background, be working on a query that was dropped, or not answer.
#[cfg(all(unix, feature = "gpu"))]
fn leave_cuda(code: ExitCode) {
    if datafusion_vcz::gpu::is_starting() || datafusion_vcz::gpu::is_at_work() {
        datafusion_vcz::cli::end_process(i32::from(code != ExitCode::SUCCESS));
    }
}

#[cfg(not(all(unix, feature = "gpu")))]
fn leave_cuda(_code: ExitCode) {}
