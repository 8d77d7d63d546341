//! SQL for population genetics: VCF Zarr (VCZ) stores as Apache DataFusion tables, with site frequency spectra, joint spectra
//! and windowed diversity as aggregates.
//!
//! Two entry points: [`session::register`] adds everything to a `SessionContext` that is there, [`session::context`] makes one.
//!
//! ```
//! use datafusion::common::Result;
//! use datafusion::prelude::SessionContext;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! let ctx = SessionContext::new();
//! datafusion_vcz::session::register(&ctx)?;
//! ctx.sql(
//!     "CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip' \
//!      OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv')",
//! )
//! .await?
//! .collect()
//! .await?;
//! let spectrum = ctx.sql("SELECT sfs(call_genotype, 'first') FROM sim").await?.collect().await?;
//! assert_eq!(spectrum[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! Each imports only those above it in this list; a test holds it.
//!
//! * [`store`]: a store's metadata and the encoded bytes of its chunks.
//! * [`codec`]: codec chains as data, decoding on the host.
//! * [`counts`]: genotypes to allele and genotype counts, on bit-planes where the layout allows.
//! * `gpu`: decoding and counting on NVIDIA GPUs (feature `gpu`).
//! * [`scan`]: the table: columns, pruning, and the calls on genotypes that a scan computes.
//! * [`functions`]: the SQL functions, one file each.
//! * [`session`]: everything registered on a `SessionContext`, and the planning rules.
//! * [`flight`]: Arrow Flight SQL over registered tables (feature `flight`).
//! * [`cli`]: the program `vcz` (feature `cli`).
#![warn(missing_docs)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::todo,
    clippy::dbg_macro,
    clippy::undocumented_unsafe_blocks
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(feature = "cli")]
pub mod cli;
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
