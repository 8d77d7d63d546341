//! Replays the corpora of the fuzz targets of this layer through their checks; see `tests/fuzz/README.md`.

use super::testing as c_blosc;

#[path = "../../tests/fuzz/checks/blosc.rs"]
mod blosc;
#[path = "../../tests/fuzz/checks/corpus.rs"]
pub(crate) mod corpus;
#[path = "../../tests/fuzz/checks/foreign.rs"]
mod foreign;
#[path = "../../tests/fuzz/checks/shard.rs"]
mod shard;
#[path = "../../tests/fuzz/checks/vlen_utf8.rs"]
mod vlen_utf8;
#[path = "../../tests/fuzz/checks/zstd_decode.rs"]
pub(crate) mod zstd_decode;
#[path = "../../tests/fuzz/checks/zstd_frame.rs"]
mod zstd_frame;

use corpus::replay;

#[test]
fn blosc_corpus() {
    replay("blosc", blosc::check);
}

#[test]
fn foreign_corpus() {
    replay("foreign", foreign::check);
}

#[test]
fn shard_corpus() {
    replay("shard", shard::check);
}

#[test]
fn vlen_utf8_corpus() {
    replay("vlen_utf8", vlen_utf8::check);
}

#[test]
fn zstd_decode_corpus() {
    replay("zstd_decode", zstd_decode::check);
}

#[test]
fn zstd_frame_corpus() {
    replay("zstd_frame", zstd_frame::check);
}
