//! See `../checks/gpu_plan.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| vcz_layers::gpu::fuzz_check::check(data));
