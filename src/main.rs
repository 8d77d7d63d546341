//! The `vcz` program: see [`datafusion_vcz::cli`].

use std::process::ExitCode;

/// Queries allocate and free batches on many threads; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let code = datafusion_vcz::cli::main();
    leave_if_starting(code);
    code
}

/// Ends the process without exit handlers while the GPU is still being started in the background: CUDA's do not expect that.
#[cfg(all(unix, feature = "gpu"))]
fn leave_if_starting(code: ExitCode) {
    use std::io::Write;
    unsafe extern "C" {
        fn _exit(status: i32) -> !;
    }
    if datafusion_vcz::gpu::is_starting() {
        // Whoever reads may be gone, and there is nobody left to tell.
        let _ = (std::io::stdout().flush(), std::io::stderr().flush());
        // SAFETY: ends the process; nothing of it is used any more.
        unsafe { _exit(i32::from(code != ExitCode::SUCCESS)) }
    }
}

#[cfg(not(all(unix, feature = "gpu")))]
fn leave_if_starting(_code: ExitCode) {}
