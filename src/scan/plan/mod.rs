//! What a scan reads, decided before any batch is asked for.
//!
//! * `source`: [`VczSource`](source::VczSource), the scan as DataFusion plans it; `pushdown`: projections, calls on genotypes, filters
//!   and limits that it takes over from operators above.
//! * `zones`: contigs and positions of each chunk, which predicates are compared with; `ranges`: the rows that are kept.
//! * `contig_names`: contigs that filters ask for and the store does not have.
//! * `properties`: orderings and statistics; `display`: EXPLAIN.
//! * `apart`: population counts in columns of their own. `backend`, `choice`: host or GPU, and why; `execution`: what partitions share.

pub mod apart;
pub mod backend;
pub mod choice;
pub mod contig_names;
mod display;
pub mod execution;
mod properties;
mod pushdown;
pub mod ranges;
pub mod source;
pub mod zones;
