//! Metrics of a server in the OpenMetrics text format. Counters and histograms are kept here; [`ops`](super::ops) passes the gauges
//! when the metrics are read.

use std::fmt::Write as _;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tonic::Code;

/// How a query ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All rows were sent.
    Done,
    /// An error of the statement or the data.
    Failed,
    /// It exceeded its memory limit.
    OutOfMemory,
    /// It exceeded its time limit.
    TimedOut,
    /// Its client cancelled it.
    Cancelled,
    /// Its client disconnected.
    ClientLeft,
    /// It panicked, or the server stopped.
    Stopped,
}

impl Outcome {
    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::OutOfMemory => "out_of_memory",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::ClientLeft => "client_left",
            Self::Stopped => "stopped",
        }
    }

    /// The outcome of a query that failed with `code`.
    pub fn of(code: Code) -> Self {
        match code {
            Code::Cancelled => Self::Cancelled,
            Code::DeadlineExceeded => Self::TimedOut,
            Code::ResourceExhausted => Self::OutOfMemory,
            _ => Self::Failed,
        }
    }
}

type Labels = Vec<(&'static str, String)>;

/// The counters and histograms.
pub struct Metrics {
    queries: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    logins: Family<Labels, Counter>,
    seconds: Histogram,
    rows: Counter,
    bytes_sent: Counter,
    bytes_decoded: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            queries: Family::default(),
            refused: Family::default(),
            logins: Family::default(),
            // From a millisecond to about two hours.
            seconds: Histogram::new(exponential_buckets(0.001, 4.0, 12)),
            rows: Counter::default(),
            bytes_sent: Counter::default(),
            bytes_decoded: Counter::default(),
        }
    }
}

impl Metrics {
    /// Counts a query that has ended.
    pub fn ended(
        &self,
        outcome: Outcome,
        seconds: f64,
        rows: u64,
        bytes_sent: u64,
        bytes_decoded: u64,
    ) {
        let labels = vec![("outcome", outcome.name().to_string())];
        self.queries.get_or_create(&labels).inc();
        self.seconds.observe(seconds);
        self.rows.inc_by(rows);
        self.bytes_sent.inc_by(bytes_sent);
        self.bytes_decoded.inc_by(bytes_decoded);
    }

    /// Counts a statement that was not planned.
    pub fn refused(&self, code: Code) {
        let labels = vec![("code", format!("{code:?}"))];
        self.refused.get_or_create(&labels).inc();
    }

    /// Counts an attempt to log in.
    pub fn login(&self, succeeded: bool) {
        let result = if succeeded { "accepted" } else { "refused" };
        let labels = vec![("result", result.to_string())];
        self.logins.get_or_create(&labels).inc();
    }

    /// All metrics as text, with the gauges `now`: name, help and value.
    pub fn text(&self, now: &[(&str, &str, usize)]) -> String {
        let mut all = Registry::with_prefix("vcz");
        all.register("queries", "Queries that ended", self.queries.clone());
        all.register(
            "statements_refused",
            "Statements that were not planned",
            self.refused.clone(),
        );
        all.register("logins", "Attempts to log in", self.logins.clone());
        all.register("query_seconds", "Time of queries", self.seconds.clone());
        all.register("rows", "Rows sent", self.rows.clone());
        all.register(
            "sent_bytes",
            "Bytes of record batches sent",
            self.bytes_sent.clone(),
        );
        all.register(
            "decoded_bytes",
            "Bytes decoded by scans",
            self.bytes_decoded.clone(),
        );
        for &(name, help, value) in now {
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            all.register(name, help, gauge);
        }
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &all) {
            // Writing to a String cannot fail.
            let _ = write!(text, "# {error}");
        }
        text
    }
}

/// Resident memory of this process, in bytes; 0 if the system does not report it.
pub fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kilobytes.map_or(0, |kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_counts() {
        let metrics = Metrics::default();
        metrics.ended(Outcome::Done, 0.1, 3, 100, 7);
        metrics.ended(Outcome::of(Code::DeadlineExceeded), 0.1, 0, 0, 0);
        assert_eq!(metrics.rows.get(), 3);
        let labels = vec![("outcome", "timed_out".to_string())];
        assert_eq!(metrics.queries.get_or_create(&labels).get(), 1);
        assert_eq!(Outcome::of(Code::ResourceExhausted), Outcome::OutOfMemory);
        if cfg!(target_os = "linux") {
            assert!(resident_bytes() > 1 << 20);
        }
    }
}
