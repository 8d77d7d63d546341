//! Integration tests, in one binary because each one links DataFusion.

mod archive;
#[cfg(feature = "gpu")]
mod backends;
mod bad_input;
mod binding;
mod cache;
mod catalogue;
mod catalogue_data;
mod catalogue_ld;
mod catalogue_pairs;
mod catalogue_relatedness;
mod catalogue_samples;
mod catalogue_scans;
mod catalogue_zygosity;
mod circles;
#[cfg(feature = "flight")]
mod cluster;
mod common;
mod conventions;
mod extend;
mod filter_calls;
mod golden;
#[cfg(feature = "gpu")]
mod gpu;
mod host_codecs;
#[cfg(feature = "cloud")]
mod http;
mod individuals;
mod interval_join;
#[cfg(feature = "cloud")]
mod latency;
mod laws;
mod layers;
mod many_stores;
mod memory;
mod missing_data;
mod notices;
mod opening;
mod other_writers;
#[cfg(feature = "gpu")]
mod pair_definitions;
#[cfg(feature = "gpu")]
mod pairs;
mod partitions;
mod populations;
mod queries;
mod random_plans;
#[cfg(feature = "gpu")]
mod random_store;
mod rare_store;
#[cfg(feature = "cloud")]
mod remote;
mod runs;
mod server;
#[cfg(feature = "cloud")]
mod services;
mod spectrum_files;
mod sqllogic;
mod store_writer;
mod unlisted;
mod unzip;
mod vanished;
mod windows;
mod written;
mod written_limits;
#[cfg(feature = "cloud")]
mod zarrs_storage;
