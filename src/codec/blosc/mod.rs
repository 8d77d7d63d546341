//! The Blosc-1 container: its header, its blocks and their splits, and their decompression.
//!
//! A container is a 16-byte header, one offset per block, and blocks of `blocksize` decoded bytes (the last may be
//! shorter). A block is one split, or one per byte of the element; a split is a length and that many bytes, stored as
//! they are when the length is the decoded one. Each block is shuffled on its own. A container may instead hold all
//! bytes as they are ("memcpyed"). `blosc.c` of c-blosc 1.21 defines all this.

mod decode;
mod header;
#[cfg(test)]
mod tests;

pub use decode::{
    PlaneBlock, decompress, decompress_block, decompress_block_planes, decompress_block_raw,
};
pub use header::{BloscHeader, Compressor, HEADER_LEN, Shuffle, Split, Splits};
