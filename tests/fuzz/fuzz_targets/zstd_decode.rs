//! See `../checks/zstd_decode.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| vcz_layers::checks::zstd_decode::check(data));
