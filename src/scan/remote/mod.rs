//! Object stores that are configured by a table's options: `OPTIONS ('aws.region' 'eu-west-1', …)`.
//!
//! * `service`: the service of a URL, and the names of the options.
//! * `options`: the options of one table, whose values are never shown.
//! * `build`: builds an object store from a URL and options; `sdk`: credentials that the AWS SDK finds.
//! * `redacted`: an object store whose errors show no credentials.
//! * `cached`: an object store with a cache on disk (`disk_cache`); `cache_ledger`: the bytes in it.
//! * `location`: a location without credentials, for display.

#[cfg(feature = "cloud")]
mod build;
mod cache_ledger;
pub mod cached;
pub mod disk_cache;
pub mod location;
pub mod options;
pub mod redacted;
#[cfg(feature = "cloud")]
mod sdk;
pub mod service;
#[cfg(not(feature = "cloud"))]
mod without_cloud;

#[cfg(feature = "cloud")]
pub use build::build;
#[cfg(not(feature = "cloud"))]
pub use without_cloud::build;
