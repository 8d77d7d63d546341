//! Object stores that a table reaches by its own options: `OPTIONS ('aws.region' 'eu-west-1', …)`.
//!
//! * `service`: which service a URL is of, and the names of the options.
//! * `options`: the options of one table, none of whose values is ever shown.
//! * `build`: from a URL and options to an object store; `sdk`: credentials that the AWS SDK finds.
//! * `redacted`: an object store whose errors show no credentials.
//! * `location`: a location without credentials, to be shown.

#[cfg(feature = "cloud")]
mod build;
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
