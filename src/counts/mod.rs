//! Counts alleles and genotypes: sample sets, count requests, the reference implementation and the fast one on the host. `pairs`: counts
//! over pairs of haplotypes and of individuals. `sites`: over pairs of sites. `scans`: how far haplotypes are identical along a contig. `resident`:
//! rows of bit-planes that stay on a device.

mod by_copy;
mod bytes;
mod call_mask;
mod call_numbers;
mod call_range;
mod call_test;
mod columns;
mod computed;
mod count_width;
mod counter;
mod error;
mod gather;
pub mod gathered;
mod idle_threads;
mod lanes;
mod masks;
mod members;
mod near_names;
pub(crate) mod pairs;
mod planes;
mod populations;
mod populations_columns;
pub mod reference;
mod request;
mod resident;
mod rows;
mod sample_set;
pub(crate) mod scans;
pub(crate) mod sites;
mod tally;
mod unset;
mod workers;

pub use call_mask::{CallMask, CallValues};
pub use call_numbers::ValueOrder;
pub use call_range::CallRange;
pub use call_test::{CallTest, FloatBound};
pub use columns::CountColumns;
pub use computed::{ComputedCounts, ComputedLayout};
pub use count_width::CountWidth;
pub use counter::{CountScratch, Counter};
pub use error::CountError;
pub use gathered::FILL_CODE;
pub(crate) use lanes::{Job, Lanes, Level};
pub use near_names::{near_names, nearest_names};
pub use populations::{Populations, PopulationsFile, UnknownSamples};
pub use request::{
    ChunkCounts, ChunkShape, CountRequest, GENOTYPE_CLASSES, HAPLOID, HET, HOM_ALT, HOM_REF,
    MISSING,
};
pub use resident::{
    ChunkKey, ResidentChunk, ResidentPart, ResidentPlanes, ResidentReader, ResidentRow,
    ResidentRows, RowMark,
};
pub use sample_set::{SampleIndex, SampleSet};
pub(crate) use unset::{Setter, Unset};
pub(crate) use workers::Workers;

#[cfg(test)]
mod tests;
