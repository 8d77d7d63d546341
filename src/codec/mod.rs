//! Codec chains as data, and decoding chunks on the host: bytes of a chunk's object in, elements out.
//!
//! Sits between `store`, which fetches encoded bytes, and `counts` and `scan`, which read elements or bit-planes.
//! Nothing here does I/O. Input is hostile: every size and offset is checked, and the output's size always comes from
//! the array's metadata, never from the encoded bytes.

pub mod blosc;
mod blosclz;
mod scratch;
mod unshuffle;
pub mod zstd_frame;

pub use scratch::Scratch;
