//! `vcz_sample_pairs('t' [, population [, min_kinship]])`: pairs of samples, of as many samples as one likes.
//!
//! The aggregate `sample_pairs` has the counts of all pairs in memory, and its value too. This function counts the pairs of some first samples with all
//! samples after them, as many as fit into memory, gives those pairs in batches, and reads the table again for the next ones.
//!
//! * `function`: arguments, documentation, and the table of a call, which is a `call`. `columns`: columns of the result.
//! * `exec`: the plan; `strip`: the pairs of some first samples; `running`: one execution.

mod call;
mod columns;
mod exec;
mod function;
mod running;
mod strip;

pub use exec::SamplePairsExec;
pub use function::SamplePairs;
pub(super) use function::SamplePairsTable;
