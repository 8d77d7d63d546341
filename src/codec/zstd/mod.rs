//! The `zstd` codec (RFC 8878): parsing frames, cutting them before a tail that need not be decoded, and decoding them.

mod bits;
pub mod cut;
pub mod decode;
mod execute;
pub mod frame;
mod fse;
mod huffman;
mod isa;
mod sequences;
pub mod tail;
mod whole;

pub(super) use whole::{exact, growing};
