//! Codec chains that have a codec which the fast path does not know.
//!
//! Used with `chain` and `decode`: where `parse` finds such a codec, [`ForeignChain`] becomes the serializer of the chain, on the
//! host only. Each step is run on its own, by our decoder where there is one, else by a crate or by the codec of zarrs. Invariants:
//! no step may make more bytes than the metadata allow (`limits`), sizes are compared after each step, and a panic of another
//! crate is an error.
//!
//! * `names`: the codecs, by name.
//! * `parse`: the list of codecs of an array, of Zarr v2 or v3, as steps.
//! * `chain`: the steps as data, and decoding through them.
//! * `limits`: how many bytes each step may make.
//! * `bytes_step`: bytes → bytes steps. `bz2`, `lzma`, `checksums`: their decoders.
//! * `packing`: array → bytes steps. `packbits`, `pcodec`: their decoders.
//! * `filter`: array → array steps. `numbers`: types of numbers and conversions between them.
//! * `zarrs_codec`: codecs that zarrs decodes.
//! * `guard`: panics as errors.

mod bytes_step;
mod bz2;
mod chain;
mod checksums;
mod filter;
mod guard;
mod limits;
mod lzma;
mod names;
mod numbers;
mod packbits;
mod packing;
mod parse;
mod pcodec;
mod reshape;
#[cfg(test)]
mod tests;
mod zarrs_codec;

pub use chain::ForeignChain;
pub(super) use names::{SUPPORTED, is_foreign};
