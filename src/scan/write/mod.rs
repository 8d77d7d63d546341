//! Writing the rows of a query as a VCZ store: what `COPY … STORED AS VCZ` does. Above `store::write`, which has the places and the
//! metadata, and `codec`, which encodes; `session` makes the statement of it.
//!
//! ```text
//! batches ──► rows by chunks (batch_column, chunk_rows) ──► elements (values, chunk_part), encoded, in parallel (chunk_tasks) ──► target
//!        │                                        └──► rows that do not fit into memory (row_spill, spilled_part) ──► the same
//!        └──► lists, whose longest is known at the end (list_spool) ──► the same
//!        └──► contigs and positions: order and region index (sites, regions), or comparison with a store's (added_sites)
//! ```
//! * `options`: of the statement. `plan_tables`: the VCZ tables of the query, which say samples, contigs and filters.
//! * `columns`: which array a column becomes. `other_arrays`: arrays that are not over variants, from the table's store.
//! * `create`: a new store. `add`: new arrays in a store, over variants or, by `added_samples`, over samples.

mod add;
mod added_samples;
mod added_sites;
mod array_error;
mod batch_column;
mod chunk_part;
mod chunk_rows;
mod chunk_tasks;
mod columns;
mod create;
mod list_spool;
mod names;
mod options;
mod other_arrays;
mod plan_tables;
mod regions;
mod row_spill;
mod rows;
mod sites;
mod spilled_part;
mod values;

pub use add::{Addition, add};
pub use create::{Creation, create};
pub use options::{WRITE_OPTIONS, WriteMode, WriteOptions};
pub use plan_tables::PlanTables;
