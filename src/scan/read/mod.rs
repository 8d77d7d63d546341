//! From chunks to record batches.
//!
//! * `stream`: the batches of a partition; `in_order`: several tasks read one whose rows are wanted in order; `segments`: its rows, in ranges that are read at a time; `site_filter`: predicates that are
//!   evaluated before anything else is read.
//! * `columns`: reads an array as a column; `dense`: assembles its chunks; `dense_reader`: reads them in order; `arrow_column`: converts
//!   them to Arrow; `fit`: casts them for a table of several stores. `store_reader`: all that is read of one store.
//! * `genotypes`: calls on genotypes; `filtered`: calls on genotypes that are filtered by FORMAT fields; `device_filtered`: the same with
//!   GPUs; `mask_chunk`: chunks whose calls these leave to the host; `select`: the genotypes of selected samples.
//! * `memory`, `metrics`: memory reservations and metrics.

pub mod arrow_column;
pub mod columns;
pub mod dense;
mod dense_reader;
mod device_filtered;
mod filtered;
mod fit;
pub mod genotypes;
mod in_order;
mod mask_chunk;
pub mod memory;
pub mod metrics;
mod segments;
mod select;
mod site_filter;
mod store_reader;
pub mod stream;
