//! The VCZ table: a store's arrays as Arrow columns, predicates pruned to chunks, calls on genotypes computed where the
//! genotypes are decoded. Above `store`, `codec` and `counts`; below `functions`.
//!
//! ```text
//! VczTable::scan ── filters → zones → row ranges → partitions ──► VczSource (plan) ──► stream (batches)
//!                                                                  │ absorbs projections:
//!                                                                  │ allele_counts(call_genotype, …) becomes an input
//!                                                                  ▼
//!                                    columns: arrays → Arrow       genotypes: chunks → counts, one decode for all calls
//! ```
//!
//! * `plan`: what is read. `calls`: functions on genotypes. `chunks`: reading chunks ahead. `read`: batches.
//!   `remote`: object stores configured by a table's options.
//! * [`VczTable`] is the `TableProvider`, [`VczSource`] the `DataSource`.
//! * [`Dataset`] is an opened store. [`Stores`] are those of a table, one or several, with the map of the table's rows and columns to
//!   theirs; `merge` and `unify` make one table of several. [`GenotypeContext`] has the samples and populations of a genotype column.
//! * `locate`, `locations`, `open`: from locations to tables; `made_arrays`: arrays that stores of other programs lack.
//! * `origin`: how another process opens a table's stores.
//! * `query_memory`: memory of what functions return.
//! * `blocking`: work that waits for the file system; `own_threads`: threads of one statement.
//! * `write`: rows written as a VCZ store; `codes`: VCZ's missing and fill values; `bits`: booleans as bytes and as bits.
//! * [`GenotypeUdf`] makes the SQL functions that scans compute; [`FilterCalls`] filters genotype calls.

mod bits;
mod blocking;
mod calls;
mod chunks;
mod codes;
mod dataset;
mod durations;
mod error;
mod locate;
mod locations;
mod made_arrays;
mod merge;
pub mod notices;
mod open;
mod options;
mod origin;
mod own_threads;
mod plan;
pub mod progress;
mod query_memory;
mod read;
mod remote;
pub mod report;
mod schema;
mod side_query;
mod sites;
mod statement_options;
mod stores;
mod table;
mod table_options;
mod unify;
mod value_error;
pub mod write;

pub use blocking::blocking;
pub use calls::bound::BoundCall;
pub use calls::call::{FilteredCall, GenotypeCall};
pub use calls::call_value::CallValue;
pub use calls::context::{
    ALLELES_KEY, ContextParts, GENOTYPE_KEYS, GenotypeContext, POPULATIONS_KEY, PopulationArg,
    SAMPLES_DEFERRED, SAMPLES_KEY, STORE_KEY, genotype_shape,
};
pub use calls::copies;
pub use calls::filter_calls::FilterCalls;
pub use calls::filters::{CallFilters, FieldCondition};
pub use calls::function::GenotypeFunction;
pub use calls::genotype_udf::{
    GenotypeUdf, found_type, is_genotype_type, is_population_type, population_of,
};
pub use calls::planes::{genotype_planes_type, is_planes_type};
pub use calls::select_calls::{SelectCalls, is_format_field};
pub use calls::without_metadata::{without_metadata, without_metadata_udf};
pub(crate) use chunks::gpu::{count_pairs, pair_device, site_device};
pub use dataset::Dataset;
pub use durations::parse_duration;
pub use locate::{Location, RegisteredOnly, locate, locate_by};
pub use locations::is_pattern;
pub use open::{open_stores, open_table, read_file};
pub use options::{Backend, Distribute, VczSettings, parse_bytes};
pub use origin::TableOrigin;
pub use plan::backend::warm_up;
pub use plan::contig_names::contigs_in_common;
pub use plan::population_columns::{NamedCopies, PopulationColumns, population_columns};
pub use plan::portable::{PortableInput, PortableScan};
pub use plan::resident::{ResidentPartitions, may_keep_rows};
pub use plan::source::VczSource;
pub use plan::zones::{Zone, Zones};
pub use query_memory::{QueryMemory, holding};
pub use remote::location::shown as shown_location;
pub use remote::options::RemoteOptions;
pub use remote::service::Service;
pub use schema::{ColumnKind, ColumnSpec, FIELD_KEY};
pub use side_query::is_query;
pub use stores::{Member, Piece, StoreColumn, Stores};
pub use table::VczTable;
pub use table_options::{DeniedChunks, RegionIndexMode, TableOptions};
