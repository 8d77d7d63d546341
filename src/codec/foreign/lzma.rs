//! The `lzma` codec of numcodecs, which is Python's: `.xz` files, `.lzma` files, and raw streams whose filters are in the metadata.
//!
//! The window of the decoder grows with the decoded bytes, and dictionaries of more than [`MEMORY_KIB`] are refused.

use std::io::Read;

use lzma_rust2::filter::delta::DeltaReader;
use lzma_rust2::{Lzma2Reader, LzmaReader, XzReader};
use serde_json::{Map, Value};

use super::super::{CodecError, deflate};
use super::guard::guarded;

/// Most memory of a decoder: 256 MiB. The dictionary of preset 9 is 64 MiB.
const MEMORY_KIB: u32 = 256 << 10;
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
/// Most filters of a raw stream; the limit of liblzma.
const MAX_FILTERS: usize = 4;
const FILTER_DELTA: u64 = 0x03;
const FILTER_LZMA2: u64 = 0x21;
const FILTER_LZMA1: u64 = 0x4000_0000_0000_0001;

/// What the metadata say about the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lzma {
    /// `.xz` or `.lzma`, as the first bytes say.
    Auto,
    /// `.xz`.
    Xz,
    /// `.lzma`.
    Alone,
    /// Without header: the compressor, and the distances of delta filters before it, in encoding order.
    Raw {
        deltas: Vec<usize>,
        compressor: Compressor,
    },
}

/// The compressor of a raw stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compressor {
    /// LZMA, with its literal context, literal position and position bits.
    Lzma1 {
        dictionary: u32,
        lc: u32,
        lp: u32,
        pb: u32,
    },
    /// LZMA2.
    Lzma2 { dictionary: u32 },
}

impl Lzma {
    /// Reads the codec's configuration.
    pub(super) fn parse(configuration: &Map<String, Value>) -> Result<Lzma, CodecError> {
        match configuration.get("format").map_or(Some(1), Value::as_u64) {
            Some(0) => Ok(Lzma::Auto),
            Some(1) => Ok(Lzma::Xz),
            Some(2) => Ok(Lzma::Alone),
            Some(3) => raw(configuration.get("filters")),
            _ => Err(format!(
                "lzma: 'format' is {}; expected 0 (auto), 1 (xz), 2 (alone) or 3 (raw)",
                configuration.get("format").unwrap_or(&Value::Null)
            )
            .into()),
        }
    }

    /// Decompresses at most `limit` bytes.
    pub(super) fn growing(&self, src: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
        guarded("lzma", || match self {
            Lzma::Auto if src.starts_with(XZ_MAGIC) => xz(src, limit),
            Lzma::Xz => xz(src, limit),
            Lzma::Auto | Lzma::Alone => {
                let reader = LzmaReader::new_mem_limit(src, MEMORY_KIB, None);
                let reader = reader.map_err(|e| format!("lzma: {e}"))?;
                deflate::growing("lzma", reader, limit)
            }
            Lzma::Raw { deltas, compressor } => {
                let mut reader = compressor.reader(src)?;
                for distance in deltas.iter().rev() {
                    reader = Box::new(DeltaReader::new(reader, *distance));
                }
                deflate::growing("lzma", reader, limit)
            }
        })
    }
}

fn xz(src: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    deflate::growing(
        "lzma",
        XzReader::new_mem_limit(src, true, MEMORY_KIB),
        limit,
    )
}

impl Compressor {
    fn reader<'a>(&self, src: &'a [u8]) -> Result<Box<dyn Read + 'a>, CodecError> {
        let reader: Box<dyn Read> = match *self {
            Compressor::Lzma1 {
                dictionary,
                lc,
                lp,
                pb,
            } => {
                // The length is not known; the stream has a mark at its end.
                let reader = LzmaReader::new(src, u64::MAX, lc, lp, pb, dictionary, None);
                Box::new(reader.map_err(|e| format!("lzma: {e}"))?)
            }
            Compressor::Lzma2 { dictionary } => {
                let reader = Lzma2Reader::new_mem_limit(src, dictionary, MEMORY_KIB, None);
                Box::new(reader.map_err(|e| format!("lzma: {e}"))?)
            }
        };
        Ok(reader)
    }
}

/// The filters of a raw stream: delta filters, then a compressor.
fn raw(filters: Option<&Value>) -> Result<Lzma, CodecError> {
    let wrong = || {
        CodecError::from(format!(
            "lzma: 'filters' is {}; expected, for the raw format, a list of at most {MAX_FILTERS}: delta filters, and LZMA1 or \
             LZMA2 at its end, with dictionaries of at most {MEMORY_KIB} KiB",
            filters.unwrap_or(&Value::Null)
        ))
    };
    let list = filters.and_then(Value::as_array).ok_or_else(wrong)?;
    let (last, before) = list.split_last().ok_or_else(wrong)?;
    if list.len() > MAX_FILTERS {
        return Err(wrong());
    }
    let deltas = before
        .iter()
        .map(|filter| {
            let distance = number(filter, "dist", 1).filter(|n| (1..=256).contains(n));
            match (filter.get("id").and_then(Value::as_u64), distance) {
                (Some(FILTER_DELTA), Some(distance)) => Ok(distance as usize),
                _ => Err(wrong()),
            }
        })
        .collect::<Result<_, _>>()?;
    let preset = number(last, "preset", 6).ok_or_else(wrong)?;
    let dictionary = number(last, "dict_size", preset_dictionary(preset))
        .filter(|size| (4096..=MEMORY_KIB << 10).contains(size))
        .ok_or_else(wrong)?;
    let bits = |key: &str, default, most| number(last, key, default).filter(|bits| *bits <= most);
    let compressor = match last.get("id").and_then(Value::as_u64) {
        Some(FILTER_LZMA2) => Compressor::Lzma2 { dictionary },
        Some(FILTER_LZMA1) => Compressor::Lzma1 {
            dictionary,
            lc: bits("lc", 3, 8).ok_or_else(wrong)?,
            lp: bits("lp", 0, 4).ok_or_else(wrong)?,
            pb: bits("pb", 2, 4).ok_or_else(wrong)?,
        },
        _ => return Err(wrong()),
    };
    Ok(Lzma::Raw { deltas, compressor })
}

fn number(filter: &Value, key: &str, default: u32) -> Option<u32> {
    match filter.get(key) {
        None | Some(Value::Null) => Some(default),
        Some(value) => value.as_u64().and_then(|n| u32::try_from(n).ok()),
    }
}

/// The dictionary of a preset of liblzma, whose lowest bits are the level.
fn preset_dictionary(preset: u32) -> u32 {
    match preset & 0x1f {
        0 => 256 << 10,
        1 => 1 << 20,
        2 => 2 << 20,
        3 | 4 => 4 << 20,
        5 | 6 => 8 << 20,
        7 => 16 << 20,
        8 => 32 << 20,
        _ => 64 << 20,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(configuration: Value) -> Result<Lzma, CodecError> {
        Lzma::parse(configuration.as_object().unwrap())
    }

    /// `xz.compress(b"0|0 " * 8)` of Python's lzma, `CHECK_CRC32` and preset 0.
    const XZ: &[u8] = include_bytes!("testing/small.xz");

    #[test]
    fn xz_files() {
        let data = b"0|0 ".repeat(8);
        let decode = |src: &[u8], limit| Lzma::Xz.growing(src, limit);
        assert_eq!(decode(XZ, 32).unwrap(), data);
        assert_eq!(Lzma::Auto.growing(XZ, 32).unwrap(), data);
        assert!(decode(XZ, 31).unwrap_err().contains("more than 31"));
        let two = [XZ, XZ].concat();
        assert_eq!(decode(&two, 64).unwrap(), data.repeat(2));
        for end in 0..XZ.len() {
            assert!(decode(&XZ[..end], 32).is_err(), "{end}");
        }
        for at in 0..XZ.len() {
            let mut damaged = XZ.to_vec();
            damaged[at] ^= 0x10;
            if let Ok(decoded) = decode(&damaged, 32) {
                assert_eq!(decoded, data, "{at}");
            }
        }
        assert!(Lzma::Alone.growing(XZ, 32).is_err());
    }

    #[test]
    fn configurations() {
        assert_eq!(parse(json!({})), Ok(Lzma::Xz));
        assert_eq!(parse(json!({"format": 2, "preset": null})), Ok(Lzma::Alone));
        let lzma2 = json!({"id": 0x21, "preset": 1});
        let raw = json!({"format": 3, "filters": [{"id": 3, "dist": 4}, lzma2]});
        let Ok(Lzma::Raw { deltas, compressor }) = parse(raw) else {
            panic!("refused");
        };
        assert_eq!(deltas, [4]);
        assert_eq!(
            compressor,
            Compressor::Lzma2 {
                dictionary: 1 << 20
            }
        );
        for configuration in [
            json!({"format": 9}),
            json!({"format": "xz"}),
            json!({"format": 3}),
            json!({"format": 3, "filters": []}),
            json!({"format": 3, "filters": [{"id": 4}, {"id": 0x21}]}),
            json!({"format": 3, "filters": [{"id": 3, "dist": 0}, {"id": 0x21}]}),
            json!({"format": 3, "filters": [{"id": 0x21, "dict_size": u32::MAX}]}),
            json!({"format": 3, "filters": [{"id": FILTER_LZMA1, "lc": 9}]}),
            json!({"format": 3, "filters": vec![json!({"id": 3}); 9]}),
        ] {
            assert!(parse(configuration.clone()).is_err(), "{configuration}");
        }
    }
}
