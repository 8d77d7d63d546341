//! SQL for population genetics: VCF Zarr (VCZ) stores as Apache DataFusion tables.
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(feature = "cli")]
pub mod cli;
pub mod codec;
pub mod counts;
pub mod error;
pub mod functions;
pub mod scan;
pub mod session;
pub mod store;
