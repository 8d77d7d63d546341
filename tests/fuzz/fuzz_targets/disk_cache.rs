//! See `../checks/disk_cache.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| vcz_layers::checks::disk_cache::check(data));
