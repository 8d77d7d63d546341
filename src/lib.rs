//! SQL for population genetics: VCF Zarr (VCZ) stores as Apache DataFusion tables, with site frequency spectra, joint spectra
//! and windowed diversity as aggregates.
//!
//! There are two entry points: [`session::register`] adds everything to an existing `SessionContext`, [`session::context`] makes one.
//!
#![doc = include_str!("docs/pages/guide/rust.md")]
//!
//! [`functions::SumStatistic`] and [`functions::CellStatistic`] are how another crate adds a statistic.
//!
//! # Architecture
//!
//! Nearly every statistic here is a function of the allele counts of each site in each population. So there is one heavy
//! operator, the scan, which turns compressed chunks of genotypes into counts, and many light ones, which are SQL functions of
//! these counts. `allele_counts(call_genotype, 'p')` is a scalar function that DataFusion's pushdown of expressions moves into
//! the scan; the genotypes themselves are only decoded into columns if a query selects them. Statistics of individuals and of
//! haplotypes need more than counts: the scan hands them the bit-planes of a population, an eighth of the genotypes or less.
//!
//! ```text
//!   SELECT diversity(call_genotype, 'first') FROM t GROUP BY genome_bin(variant_position, 10000)
//!
//!   vcz sql ─ cli      vcz serve ─ flight, cluster      import vcz ─ python      your program
//!        └──────────────────┼────────────────────────────────┴───────────────────────┘
//!                        session      rewrites to diversity(allele_counts(call_genotype, 'first')); plans windows;
//!                           │         reads masks and subqueries that name samples while planning
//!                       functions     aggregates and scalar functions of counts, windows, masks
//!                           │ counts, positions: record batches
//!                         scan        TableProvider and DataSource: pruning, prefetching, batches
//!                           │ chunks
//!              ┌────────────┴───────────┐
//!            counts                    gpu        encoded chunks to counts: on the host with bit-planes and vector
//!              │                        │         instructions, or in batches on NVIDIA GPUs
//!              └────────── codec ───────┘         chains of codecs; Blosc, zstd, sharding, …
//!                            │ encoded chunks
//!                          store                  Zarr metadata, chunk grids, the region index; files, zip, object stores
//! ```
//!
//! Writing takes the same layers downwards. `COPY (SELECT …) TO 'x.vcz' STORED AS VCZ` is a sink that `session` plans; [`scan::write`] turns
//! rows into the elements of chunks, in bounded memory; `codec` encodes the chunks, several at once; and [`store::write`] puts them into a
//! folder, an archive or an object store, and makes them visible as a whole at the end. New arrays of a store that is there, such as masks,
//! are written in the same way.
//!
//! Each layer imports only the layers below it, which a test checks:
//!
//! * [`store`]: a store's metadata and the encoded bytes of its chunks, read and written. No Arrow, no DataFusion.
//! * [`codec`]: codec chains, decoding and encoding on the host.
//! * [`counts`]: genotypes to allele and genotype counts.
//! * `gpu`: decoding and counting on NVIDIA GPUs (feature `gpu`).
//! * [`scan`]: the table: columns, pruning, and the functions of genotypes that a scan computes; and how rows become a store.
//! * [`functions`]: the SQL functions, one file each.
//! * [`session`]: everything that is registered on a `SessionContext`, and the planning rules.
//! * [`flight`]: Arrow Flight SQL over registered tables (feature `flight`).
//! * [`cluster`]: queries on several machines (feature `flight`).
//! * [`cli`]: the program `vcz` (feature `cli`).
//! * `python`: the Python module `vcz`, a crate of its own (`src/python`).
//!
//! `CONTRIBUTING.md` in the repository shows how to add a statistic, a function of genotypes, or a codec.
// Statements of a server are planned and run by futures within futures, deeper than the default of 128 types.
#![recursion_limit = "256"]
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::todo,
    clippy::dbg_macro
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[macro_use]
mod boxed;

pub mod allocations;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "flight")]
pub mod cluster;
pub mod codec;
pub mod counts;
pub mod error;
#[cfg(feature = "flight")]
pub mod flight;
pub mod functions;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod scan;
pub mod session;
pub mod store;
