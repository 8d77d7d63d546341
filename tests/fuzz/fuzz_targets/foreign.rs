//! See `../checks/foreign.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    // A panic of another crate is an error of a chunk and no finding; one that is not caught still ends the run.
    init: std::panic::set_hook(Box::new(|_| {})),
    |data: &[u8]| vcz_layers::checks::foreign::check(data)
);
