//! The names of the codecs of this module.

/// Codecs that the fast path does not know, without the prefix `numcodecs.`.
const FOREIGN: [&str; 15] = [
    "adler32",
    "astype",
    "bitround",
    "bz2",
    "crc32",
    "delta",
    "fixedscaleoffset",
    "fletcher32",
    "lzma",
    "packbits",
    "pcodec",
    "quantize",
    "reshape",
    "shuffle",
    "squeeze",
];

/// The names, for messages.
pub(in super::super) const SUPPORTED: &str = "adler32, astype, bitround, bz2, crc32, delta, fixedscaleoffset, fletcher32, lzma, \
     packbits, pcodec, quantize, reshape, shuffle, squeeze";

/// The name of a codec without the prefix of zarr-python's codecs of numcodecs.
pub(super) fn plain(name: &str) -> &str {
    name.strip_prefix("numcodecs.").unwrap_or(name)
}

/// Whether this module has the codec of this name.
pub(in super::super) fn is_foreign(name: &str) -> bool {
    FOREIGN.contains(&plain(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_all() {
        assert_eq!(SUPPORTED, FOREIGN.join(", "));
        assert!(is_foreign("numcodecs.delta") && is_foreign("lzma") && !is_foreign("zstd"));
    }
}
