//! [`CountError`]: why genotypes cannot be counted.

use crate::codec::CodecError;

/// Why the genotypes of a chunk cannot be counted. The caller adds the store, the array and the chunk, see
/// [`VczError`](crate::error::VczError).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// The request contradicts itself: what was expected and what was found.
    #[error("{0}")]
    Request(String),
    /// The array, a chunk or the counts to add to do not match the request: what was expected and what was found.
    #[error("{0}")]
    Mismatch(String),
    /// Counts or masks that do not fit in memory.
    #[error("{0} do not fit in memory")]
    TooLarge(String),
    /// A genotype code without an allele in `variant_allele`.
    #[error(
        "row {row} of the chunk, sample {sample}: expected genotype codes below {alleles} (the width of variant_allele; where a store has none, the table option 'vcz.alleles'), found {code}"
    )]
    Code {
        /// Row in the chunk.
        row: usize,
        /// Index of the sample in the store.
        sample: usize,
        /// The code.
        code: i64,
        /// K, the width of `variant_allele`.
        alleles: usize,
    },
    /// [`CountError::Code`] in a chunk that is absent.
    #[error("the chunk is absent, so its codes are the array's fill value: {0}")]
    AbsentChunk(Box<CountError>),
    /// A device that counts pairs failed: which one, and how.
    #[error("{0}")]
    Device(String),
    /// Nobody waits for the counts any more.
    #[error("the query was stopped")]
    Stopped,
    /// The chunk does not decode.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

impl CountError {
    /// This error, where row 0 of what was counted is row `first` of the chunk.
    pub fn in_rows_from(mut self, first: usize) -> Self {
        if let Self::Code { row, .. } = &mut self {
            *row = row.saturating_add(first);
        }
        self
    }
}

impl From<CountError> for String {
    fn from(error: CountError) -> Self {
        error.to_string()
    }
}
