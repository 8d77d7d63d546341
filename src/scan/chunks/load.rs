//! [`ArrayLoad`]: the work of a scan on an array over samples, from which a backend is chosen.

use crate::codec::CodecChain;
use crate::scan::schema::ColumnSpec;

/// The work of a scan on one array over samples.
#[cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "there is nothing to choose from")
)]
pub struct ArrayLoad<'a> {
    /// The array.
    pub spec: &'a ColumnSpec,
    /// How it is decoded.
    pub chain: &'a CodecChain,
    /// Whether only calls on its genotypes are needed, not the elements themselves.
    pub only_calls: bool,
    /// Whether genotypes of selected samples are needed.
    pub selects: bool,
    /// Number of chunks.
    pub chunks: usize,
    /// Bytes of all results.
    pub output: usize,
    /// Threads that the host would use.
    pub threads: usize,
}
