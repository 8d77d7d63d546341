//! How far the scans of this process are: rows done of rows to do, for a progress bar. Streams report to it, the command
//! line draws it; nothing else depends on it.
//!
//! Starting and ending a scan takes a lock, which happens once a partition; advancing is one atomic addition a segment.
//! Invariant: the sums cover all scans since the process was last idle, so that they never go down while one runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

static RUNNING: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// Orders starts and ends, so that the sums are reset only when nothing runs.
static TURN: Mutex<()> = Mutex::new(());
static ON_IDLE: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// All scans that run in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Scan partitions that are being read; 0 if the process is idle.
    pub running: u64,
    /// Rows that were read or skipped since the process was last idle.
    pub done: u64,
    /// Rows of the scans that were started since then.
    pub total: u64,
    /// Grows by one whenever the process stops being idle: another epoch is another query, or another part of one.
    pub epoch: u64,
}

/// What runs now. The numbers are read one after the other, so they may be apart by a segment of rows.
pub fn now() -> Progress {
    Progress {
        running: RUNNING.load(Ordering::Acquire),
        done: DONE.load(Ordering::Relaxed),
        total: TOTAL.load(Ordering::Relaxed),
        epoch: EPOCH.load(Ordering::Relaxed),
    }
}

/// Calls `callback` whenever the last running scan ends, on the thread that ended it and before its stream is gone. Only the
/// first callback of a process counts; gives whether this was it.
pub fn on_idle(callback: impl Fn() + Send + Sync + 'static) -> bool {
    ON_IDLE.set(Box::new(callback)).is_ok()
}

/// One scan partition while it is being read. Ends when it is dropped, whether or not all rows were read.
#[derive(Debug)]
pub struct ScanProgress {
    left: u64,
}

impl ScanProgress {
    /// Begins a partition of `rows` rows.
    pub fn start(rows: u64) -> Self {
        let _turn = TURN.lock();
        if RUNNING.fetch_add(1, Ordering::AcqRel) == 0 {
            DONE.store(0, Ordering::Relaxed);
            TOTAL.store(0, Ordering::Relaxed);
            EPOCH.fetch_add(1, Ordering::Relaxed);
        }
        TOTAL.fetch_add(rows, Ordering::Relaxed);
        Self { left: rows }
    }

    /// Rows that are left.
    #[cfg(test)]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Says that `rows` more rows were read or skipped.
    pub fn advance(&mut self, rows: u64) {
        let rows = rows.min(self.left);
        self.left -= rows;
        DONE.fetch_add(rows, Ordering::Relaxed);
    }
}

impl Drop for ScanProgress {
    fn drop(&mut self) {
        // What a LIMIT or an error left unread is done, too.
        self.advance(self.left);
        let idle = {
            let _turn = TURN.lock();
            RUNNING.fetch_sub(1, Ordering::AcqRel) == 1
        };
        // Outside the lock: the callback may look at the progress.
        if idle && let Some(callback) = ON_IDLE.get() {
            callback();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_grow_until_idle() {
        // Other tests scan in this process at the same time: only what this scan adds is sure.
        let before = now();
        let mut scan = ScanProgress::start(100);
        assert!(now().running >= 1 && now().total >= 100 && now().epoch >= before.epoch);
        scan.advance(30);
        assert_eq!(scan.left, 70);
        scan.advance(1_000);
        assert_eq!(scan.left, 0);
        let second = ScanProgress::start(5);
        drop(scan);
        assert!(now().running >= 1);
        drop(second);
    }
}
