//! [`Compression`]: the codec of the chunks of new arrays, as an option names it and as metadata say it.

use serde_json::{Value, json};

use crate::store::element::{ElementType, ZarrFormat};
use crate::store::error::StoreError;

/// The codec of new chunks, with its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    codec: Codec,
    level: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    /// The Blosc container with this codec inside.
    Blosc(&'static str),
    Zstd,
    Gzip,
    None,
}

/// Names of codecs, their default levels and the highest ones.
const CODECS: [(&str, Codec, u8, u8); 7] = [
    ("blosc-zstd", Codec::Blosc("zstd"), 7, 9),
    ("blosc-lz4", Codec::Blosc("lz4"), 5, 9),
    ("blosc-lz4hc", Codec::Blosc("lz4hc"), 5, 9),
    ("blosc-zlib", Codec::Blosc("zlib"), 5, 9),
    ("zstd", Codec::Zstd, 3, 22),
    ("gzip", Codec::Gzip, 5, 9),
    ("none", Codec::None, 0, 0),
];

impl Default for Compression {
    /// That of bio2zarr: Blosc with zstd, level 7.
    fn default() -> Self {
        Self {
            codec: Codec::Blosc("zstd"),
            level: 7,
        }
    }
}

impl std::str::FromStr for Compression {
    type Err = StoreError;

    /// `blosc-zstd`, or with a level `zstd:3`.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let wrong = || {
            let known: Vec<&str> = CODECS.iter().map(|(name, ..)| *name).collect();
            StoreError::from(format!(
                "expected {}, perhaps with a level such as 'zstd:3', found '{text}'",
                known.join(", ")
            ))
        };
        let (name, level) = match text.trim().split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text.trim(), None),
        };
        let mut codecs = CODECS.iter();
        let found = codecs.find(|(known, ..)| known.eq_ignore_ascii_case(name));
        let &(_, codec, default, highest) = found.ok_or_else(wrong)?;
        let level = match level {
            None => default,
            Some(level) => {
                let level = level.trim().parse::<u8>().map_err(|_| wrong())?;
                if level > highest {
                    return Err(
                        format!("the levels of {name} are 0 to {highest}, found {level}").into(),
                    );
                }
                level
            }
        };
        Ok(Self { codec, level })
    }
}

impl Compression {
    /// The codec in metadata of `format`, for elements of this type; `None` for chunks that are not compressed. `by_bits` shuffles the
    /// bits of elements in Blosc, which suits genotypes and booleans; other numbers are shuffled by bytes, and text is not shuffled.
    pub(super) fn metadata(
        &self,
        format: ZarrFormat,
        element: &ElementType,
        by_bits: bool,
    ) -> Option<Value> {
        let level = self.level;
        let size = element.size().unwrap_or(1);
        let (shuffle, shuffle_name) = match element {
            ElementType::String => (0, "noshuffle"),
            _ if by_bits => (2, "bitshuffle"),
            _ => (1, "shuffle"),
        };
        Some(match (self.codec, format) {
            (Codec::None, _) => return None,
            (Codec::Blosc(name), ZarrFormat::V2) => {
                json!({"id": "blosc", "cname": name, "clevel": level, "shuffle": shuffle, "blocksize": 0})
            }
            (Codec::Blosc(name), ZarrFormat::V3) => json!({"name": "blosc", "configuration": {
                "cname": name, "clevel": level, "shuffle": shuffle_name, "typesize": size, "blocksize": 0,
            }}),
            (Codec::Zstd, ZarrFormat::V2) => json!({"id": "zstd", "level": level}),
            (Codec::Zstd, ZarrFormat::V3) => {
                json!({"name": "zstd", "configuration": {"level": level, "checksum": false}})
            }
            (Codec::Gzip, ZarrFormat::V2) => json!({"id": "gzip", "level": level}),
            (Codec::Gzip, ZarrFormat::V3) => {
                json!({"name": "gzip", "configuration": {"level": level}})
            }
        })
    }

    /// Most bytes of a chunk: Blosc's limit.
    pub(super) fn most_chunk_bytes(&self) -> u64 {
        match self.codec {
            Codec::Blosc(_) => i32::MAX as u64 - 16,
            Codec::Zstd | Codec::Gzip | Codec::None => super::super::MAX_CHUNK_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_have_names_and_levels() {
        let parse = |text: &str| text.parse::<Compression>();
        assert_eq!(parse("blosc-zstd").unwrap(), Compression::default());
        assert_eq!(parse(" ZSTD:12 ").unwrap().level, 12);
        for (text, part) in [
            ("zstd:23", "0 to 22"),
            ("lzma", "blosc-zstd"),
            ("zstd:", "with a level"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
