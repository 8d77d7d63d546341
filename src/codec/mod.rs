//! Codec chains as data, and decoding chunks on the host: bytes of a chunk's object in, elements out.
//!
//! Sits between `store`, which fetches encoded bytes, and `counts` and `scan`, which read elements or bit-planes.
//! Nothing here does I/O. Input is hostile: every size and offset is checked, and the output's size always comes from
//! the array's metadata, never from the encoded bytes.

pub mod blosc;
mod blosclz;
mod bytes_codec;
mod chain;
pub(crate) mod checksum;
mod chunk_data;
mod decode;
mod deflate;
mod encode;
mod endian;
mod error;
mod fill;
mod fixed_text;
mod foreign;
#[cfg(test)]
pub(crate) mod fuzz_corpus;
mod lz4;
mod parse;
mod scratch;
mod shard_index;
mod sharding;
#[cfg(test)]
pub(crate) mod testing;
mod transpose;
mod unshuffle;
#[cfg(target_arch = "x86_64")]
mod unshuffle_avx2;
mod vlen_utf8;
#[cfg(test)]
mod zarrs_tests;
pub mod zstd;

pub use bytes_codec::BytesCodec;
pub use chain::{CodecChain, Serializer, Sharding};
pub use chunk_data::{ChunkData, StringChunk};
pub use encode::ChunkEncoder;
pub use error::CodecError;
pub use foreign::ForeignChain;
pub use scratch::Scratch;
pub use shard_index::{IndexLocation, ShardIndex};
pub use transpose::Transpose;
