//! The layers of datafusion-vcz that read untrusted bytes, without DataFusion, and what fuzzing checks of them.
//!
//! The modules are the crate's own files, at the same paths, so `use crate::…` in them means the same here. Nothing is written
//! for this crate: a change of the sources that does not fit it shows in `tests/fuzz/check.sh`, which CI runs.
#![allow(
    dead_code,
    reason = "some of it is for the layers above, which are not here"
)]

#[path = "../../../src/codec/mod.rs"]
pub mod codec;
#[path = "../../../src/error.rs"]
pub mod error;
#[path = "../../../src/store/mod.rs"]
pub mod store;

/// Of the counts layer, only its error.
#[path = "../../../src/counts"]
pub mod counts {
    mod error;

    pub use error::CountError;
}

/// Of the GPU layer, only what a device is told about a chunk.
#[path = "../../../src/gpu"]
pub mod gpu {
    #[cfg(not(test))]
    #[path = "plan/tests/device.rs"]
    mod device;
    mod error;
    #[cfg(not(test))]
    #[path = "../../tests/fuzz/checks/gpu_plan.rs"]
    pub mod fuzz_check;
    pub mod plan;
}

/// Of the scan layer, only the files of the cache on disk.
#[path = "../../../src/scan"]
pub mod scan {
    pub mod remote {
        mod cache_ledger;
        pub mod disk_cache;
    }
}

/// One check per fuzz target of the codec layer and of the cache. The layers' own tests have them, too.
#[cfg(not(test))]
#[path = "../checks"]
pub mod checks {
    pub mod blosc;
    #[path = "../../../src/codec/c_blosc.rs"]
    mod c_blosc;
    pub mod disk_cache;
    pub mod foreign;
    pub mod shard;
    pub mod vlen_utf8;
    pub mod zstd_decode;
    pub mod zstd_frame;
}
