//! The `vcz` program: see [`datafusion_vcz::cli`].

use std::process::ExitCode;

/// Queries allocate and free batches on many threads; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let code = datafusion_vcz::cli::main();
    leave_cuda(code);
    code
}

/// Ends the process without exit handlers while a thread is inside of CUDA, as it is while the GPU is still being started in the
/// background, is at work on what nobody waits for any more, or does not answer: CUDA's handlers do not expect that.
#[cfg(all(unix, feature = "gpu"))]
fn leave_cuda(code: ExitCode) {
    use std::io::Write;
    unsafe extern "C" {
        fn _exit(status: i32) -> !;
    }
    if datafusion_vcz::gpu::is_starting() || datafusion_vcz::gpu::is_at_work() {
        // Whoever reads may be gone, and there is nobody left to tell.
        let _ = (std::io::stdout().flush(), std::io::stderr().flush());
        // SAFETY: ends the process; nothing of it is used any more.
        unsafe { _exit(i32::from(code != ExitCode::SUCCESS)) }
    }
}

#[cfg(not(all(unix, feature = "gpu")))]
fn leave_cuda(_code: ExitCode) {}
