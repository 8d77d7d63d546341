#!/usr/bin/env bash
# That the fuzz targets compile: no fuzzing, no sanitizer, no DataFusion. What they found is replayed by the crate's own tests.
set -euo pipefail
cd "$(dirname "$0")"
# Beside the build outputs of the crate, whose features are others.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}/fuzz"
cargo fmt --all -- --check
cargo check --quiet --locked --bins
