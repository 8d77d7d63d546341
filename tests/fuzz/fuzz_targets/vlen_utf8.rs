//! See `../checks/vlen_utf8.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| vcz_layers::checks::vlen_utf8::check(data));
