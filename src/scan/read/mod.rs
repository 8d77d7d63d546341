//! From chunks to record batches.
//!
//! * `stream`: the batches of a partition; `segments`: its rows, cut up for reading; `site_filter`: predicates evaluated before
//!   anything else is read.
//! * `columns`: an array as a column; `dense`: its chunks put together, `dense_reader`: one after the other; `arrow_column`: as an Arrow
//!   array; `fit`: as that of a table of several stores. `store_reader`: all that is read of one store.
//! * `genotypes`: calls on genotypes; `filtered`: those whose genotypes are filtered by FORMAT fields; `select`: the genotypes of selected samples.
//! * `memory`, `metrics`: what is accounted and measured.

pub mod arrow_column;
pub mod columns;
pub mod dense;
mod dense_reader;
mod filtered;
mod fit;
pub mod genotypes;
pub mod memory;
pub mod metrics;
mod segments;
mod select;
mod site_filter;
mod store_reader;
pub mod stream;
