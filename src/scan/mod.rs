//! The VCZ table: a store's arrays as Arrow columns, predicates pruned to chunks, calls on genotypes computed where the
//! genotypes are decoded. Above `store`, `codec` and `counts`; below `functions`.
//!
//! ```text
//! VczTable::scan ── filters → zones → row ranges → partitions ──► VczSource (plan) ──► stream (batches)
//!                                                                  │ absorbs projections:
//!                                                                  │ allele_counts(call_genotype, …) becomes an input
//!                                                                  ▼
//!                                    reader: arrays → Arrow        genotypes: chunks → counts, one decode for all calls
//! ```
//!
//! * [`VczTable`] is the `TableProvider`, [`VczSource`] the `DataSource`.
//! * [`Dataset`] is the opened store; [`GenotypeContext`] what its genotype column means.
//! * [`GenotypeUdf`] makes the SQL functions that scans compute.

mod arrow_column;
mod backend;
mod call;
mod context;
pub mod copies;
mod dataset;
mod dense;
mod display;
mod error;
mod fetch;
mod genotype_source;
mod genotype_udf;
mod genotypes;
#[cfg(feature = "gpu")]
mod gpu;
#[cfg(feature = "gpu")]
mod gpu_request;
mod memory;
mod metrics;
mod open;
mod options;
pub mod progress;
mod properties;
mod ranges;
mod reader;
pub mod report;
mod schema;
mod site_filter;
mod sites;
mod source;
mod stream;
mod table;
mod zones;

pub use backend::warm_up;
pub use context::{GENOTYPES_KEY, GenotypeContext, PopulationArg};
pub use dataset::Dataset;
pub use genotype_udf::{
    GenotypeFunction, GenotypeUdf, is_genotype_type, is_population_type, population_of,
};
pub use open::{Location, RegisteredOnly, locate, open_table, read_file};
pub use options::{Backend, RegionIndexMode, TableOptions, VczSettings, parse_bytes};
pub use schema::{ColumnKind, ColumnSpec};
pub use source::VczSource;
pub use table::VczTable;
pub use zones::{Zone, Zones};
