//! [`Decision`]: whether a query runs on workers; [`Goal`]: into how many tasks its scans are divided.

/// How many tasks the scans of a query are divided into.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// The number.
    pub tasks: usize,
}

/// How a query runs.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Here, for this reason.
    Local(String),
    /// On workers: the number of tasks of its scans, of all workers, and the estimated work.
    Distributed {
        /// Tasks.
        tasks: usize,
        /// Workers that can be used.
        workers: usize,
        /// Decoded bytes.
        bytes: u64,
    },
}
