//! [`Choice`]: a backend and the reason for it.

use std::sync::Arc;

use parking_lot::Mutex;

/// The backend of the latest execution of a scan; `None` before the first.
pub type LatestChoice = Arc<Mutex<Option<Choice>>>;

/// A backend and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Whether it is the GPU, and not the host.
    pub is_gpu: bool,
    /// Whether the GPU also filters calls by FORMAT fields, if they are filtered.
    pub filters_calls: bool,
    /// The reason.
    pub reason: String,
}

impl Choice {
    /// The host.
    pub fn host(reason: impl Into<String>) -> Self {
        Self {
            is_gpu: false,
            filters_calls: false,
            reason: reason.into(),
        }
    }

    /// The GPU.
    pub fn gpu(reason: impl Into<String>) -> Self {
        Self {
            is_gpu: true,
            filters_calls: true,
            reason: reason.into(),
        }
    }

    /// The same backend for decoding, with filters of calls on the host, for this reason.
    pub fn filtering_on_host(self, reason: &str) -> Self {
        Self {
            filters_calls: false,
            reason: format!("{}; the host filters calls: {reason}", self.reason),
            ..self
        }
    }

    /// The text in EXPLAIN: `host (reason)`.
    pub fn describe(&self) -> String {
        let backend = if self.is_gpu { "gpu" } else { "host" };
        format!("{backend} ({})", self.reason)
    }
}
