//! The CUDA implementation: contexts and memory, nvCOMP, the kernels, and the worker that runs batches.
//!
//! Libraries are loaded at run time, so the program also runs without them.

mod batch_description;
mod cufile;
mod device;
mod device_memory;
mod fetched;
mod filter_description;
mod kept_rows;
mod kernel_cache;
mod kernel_times;
mod kernels;
mod launches;
mod libraries;
mod memory;
mod nvcomp;
mod pair_counter;
mod pair_layout;
mod pair_rows;
mod pair_stream;
mod resident;
mod resident_rows;
mod result_blocks;
mod sample_counter;
mod site_layout;
mod site_sums;
mod sorted_rows;
mod tables;
mod weighted_pairs;
mod worker;
mod zstd;

pub use cufile::CuFileStorage;
pub use device::{CudaDevice, device_count};
pub use device_memory::{DeviceMemory, decode_scratch};
pub use libraries::{nvcomp_is_named, search_python_prefix};
pub use memory::Pinned;
pub use nvcomp::Nvcomp;
pub use pair_counter::PairCounter;
pub use pair_layout::{Layout, WeightedLayout};
pub use pair_stream::{Staging, of_device};
pub use resident::{ChunkOnDevice, ResidentPool};
pub use sample_counter::DeviceSamples;
pub use site_layout::SiteLayout;
pub use site_sums::SiteSums;
pub use weighted_pairs::WeightedPairs;
pub use worker::Worker;
