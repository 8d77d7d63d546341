//! A VCZ store as data: its attributes, its arrays' metadata and chunk grids, and the encoded bytes of its chunks.
//!
//! The lowest layer: above it `codec` turns the bytes of a chunk into values, and `scan` decides which chunks to read.
//! It uses neither Arrow nor DataFusion, and knows codecs only by their names and configurations. Everything that it reads is
//! checked before it is used. An array whose metadata is not supported does not make a store unreadable.

mod array;
mod array_v2;
mod array_v3;
mod blob;
mod chunks;
mod consolidate;
mod consolidated;
mod derived;
mod discover;
mod document;
mod element;
mod error;
mod files;
mod fill_value;
mod fingerprint;
mod local;
mod names;
mod other_writers;
mod parts;
mod read_error;
mod region_index;
mod replaced_document;
mod small_files;
mod source;
mod time;
mod unchanged;
mod vcz_store;
pub mod write;
mod zarrs_storage;
mod zip;
mod zip_directory;
mod zip_runs;

pub use array::{ArrayMeta, CodecSpec, MAX_CHUNK_BYTES};
pub use chunks::ChunksRead;
pub use consolidate::Consolidated;
pub use document::DocumentId;
pub use element::{ElementType, Endianness, ZarrFormat};
pub use error::StoreError;
pub use fill_value::FillValue;
pub use local::{ChunkPlace, LocalFile, OpenChunk};
pub use region_index::{RegionIndex, RegionRow};
pub use time::{TickUnit, TimeType};
pub use unchanged::AbsentChunk;
pub use vcz_store::{MadeArray, Store};
