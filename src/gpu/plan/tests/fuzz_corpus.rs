//! The inputs that fuzzing kept, through the check of the fuzz target; see `tests/fuzz/README.md`.

use super::fuzz_check;
use crate::codec::fuzz_corpus::corpus::replay;

#[test]
fn gpu_plan_corpus() {
    replay("gpu_plan", fuzz_check::check);
}
