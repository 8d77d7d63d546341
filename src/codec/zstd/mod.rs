//! The `zstd` codec (RFC 8878): frames are parsed, cut before a tail that need not be decoded, and decoded.
//!
//! * `frame`: headers of frames and blocks.
//! * `cut`, `prefix`: leaving out a tail of zeros.
//! * `sequences`, `fse`, `tail`: reading the sequences of short blocks, to find a tail that repeats a plane.
//! * `decode`, `execute`, `huffman`, `bits`, `isa`: a decoder for frames of many short matches.
//! * `context`, `whole`: decoding, with that decoder or libzstd.

mod bits;
mod context;
pub mod cut;
pub mod decode;
mod execute;
pub mod frame;
mod fse;
mod huffman;
mod isa;
pub mod prefix;
mod sequences;
pub mod tail;
#[cfg(test)]
mod testing;
mod whole;

pub use context::ZstdContext;
pub(super) use whole::{exact, growing};
