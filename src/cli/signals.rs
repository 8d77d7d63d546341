//! Signals that end the program. Spill files and unfinished stores are removed first; the default action would leave them.

use std::sync::Arc;

use datafusion::execution::disk_manager::DiskManager;

use crate::store::write::remove_temporaries;

/// Removes the folders that queries spill into. Queries that still run fail at their next spill.
pub fn remove_spill_files(disk: &DiskManager) {
    for folder in disk.temp_dir_paths() {
        // Repeated, because a query may create a file while the folder is being removed. Then the folder is left.
        for _ in 0..3 {
            if std::fs::remove_dir_all(&folder).is_ok() {
                break;
            }
        }
    }
}

/// Ends the process with 128 and the signal's number on SIGTERM and, unless `prompt` handles it to cancel a query, on SIGINT.
///
/// # Errors
/// A message, if the signals cannot be listened to.
#[cfg(unix)]
pub fn end_process_on_signals(disk: Arc<DiskManager>, prompt: bool) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error: std::io::Error| format!("cannot listen to signals: {error}");
    // A separate thread, because queries may keep all other threads busy.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let (mut terminate, mut interrupt) = {
        let _inside = runtime.enter();
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let interrupt = match prompt {
            true => None,
            false => Some(signal(SignalKind::interrupt()).map_err(failed)?),
        };
        (terminate, interrupt)
    };
    let wait = async move {
        let interrupted = async {
            match &mut interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        let signal = tokio::select! {
            _ = terminate.recv() => SignalKind::terminate(),
            _ = interrupted => SignalKind::interrupt(),
        };
        remove_spill_files(&disk);
        remove_temporaries();
        end_process(128 + signal.as_raw_value());
    };
    std::thread::Builder::new()
        .name("vcz-signals".to_string())
        .spawn(move || runtime.block_on(wait))
        .map(drop)
        .map_err(failed)
}

/// Only Unix has these signals.
#[cfg(not(unix))]
pub fn end_process_on_signals(_disk: Arc<DiskManager>, _prompt: bool) -> Result<(), String> {
    Ok(())
}

/// Ends the process at once, without exit handlers, because those of CUDA may fail while other threads are running.
#[cfg(unix)]
pub fn end_process(status: i32) -> ! {
    use std::io::Write;
    unsafe extern "C" {
        fn _exit(status: i32) -> !;
    }
    // The reader may have closed these, and an error could not be reported.
    let _ = (std::io::stdout().flush(), std::io::stderr().flush());
    // SAFETY: `_exit` takes any status and does not return; nothing of the process is used after it.
    unsafe { _exit(status) }
}
