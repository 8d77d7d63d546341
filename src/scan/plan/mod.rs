//! What a scan reads, decided before any batch is requested.
//!
//! * `source`: [`VczSource`](source::VczSource), the scan as DataFusion plans it; `pushdown`: projections, calls on genotypes, filters
//!   and limits that are pushed into it.
//! * `zones`: contigs and positions of each chunk, for pruning; `ranges`: the rows that are kept.
//! * `contig_names`: contigs that filters name and the store does not have.
//! * `properties`: orderings and statistics; `display`: EXPLAIN.
//! * `portable`: scans for other processes.
//! * `resident`: rows of bit-planes that stay on a GPU.
//! * `population_columns`: a column of counts for each population.
//! * `backend`, `choice`: host or GPU, with the reason; `execution`: the state that partitions share.

pub mod backend;
pub mod choice;
pub mod contig_names;
mod display;
pub mod execution;
pub mod population_columns;
pub mod portable;
mod properties;
mod pushdown;
pub mod ranges;
pub mod resident;
pub mod site_planes;
pub mod source;
pub mod zones;
