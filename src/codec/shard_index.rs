//! The index of a shard: the byte range of each inner chunk in the shard's object.
//!
//! Zarr v3, `sharding_indexed`: for each inner chunk in row-major order an offset and a length of eight bytes each, both
//! 2^64 − 1 for a chunk that is not stored; then, usually, a CRC-32C. It is at the end or the start of the object.

use std::ops::Range;

use serde_json::{Map, Value};

use super::CodecError;
use super::{checksum, endian};
use crate::store::{ElementType, Endianness};

/// Bytes of an entry.
const ENTRY: usize = 16;

/// Which end of the object holds the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexLocation {
    /// The first bytes.
    Start,
    /// The last bytes.
    End,
}

/// The encoding of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexLayout {
    pub(super) location: IndexLocation,
    endianness: Endianness,
    /// Number of CRC-32C checksums after the entries.
    checksums: usize,
    n: usize,
}

/// The byte ranges of the inner chunks of one shard in its object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardIndex {
    entries: Vec<Option<Range<u64>>>,
}

impl IndexLayout {
    /// Reads `index_location` and `index_codecs` of the codec's configuration, for `n` inner chunks.
    pub(super) fn parse(
        configuration: &Map<String, Value>,
        n: usize,
    ) -> Result<IndexLayout, CodecError> {
        let location = match configuration.get("index_location").map(Value::as_str) {
            None | Some(Some("end")) => IndexLocation::End,
            Some(Some("start")) => IndexLocation::Start,
            Some(_) => {
                return Err(
                    "sharding_indexed: 'index_location' must be \"start\" or \"end\"".into(),
                );
            }
        };
        let codecs = configuration.get("index_codecs").and_then(Value::as_array);
        let Some(codecs) = codecs else {
            return Err("sharding_indexed: 'index_codecs' is missing".into());
        };
        let mut endianness = None;
        let mut checksums = 0;
        for codec in codecs {
            let empty = Map::new();
            let name = codec
                .get("name")
                .and_then(Value::as_str)
                .or(codec.as_str())
                .unwrap_or_default();
            let configuration = codec
                .get("configuration")
                .and_then(Value::as_object)
                .unwrap_or(&empty);
            match (name, endianness) {
                ("bytes", None) => {
                    endianness = Some(endian::parse(configuration, &ElementType::UInt64)?)
                }
                ("crc32c", Some(_)) if checksums < 8 => checksums += 1,
                _ => {
                    return Err(format!(
                        "sharding_indexed: the index codec {codec} is not supported here; supported are bytes, then crc32c"
                    ).into());
                }
            }
        }
        let Some(endianness) = endianness else {
            return Err("sharding_indexed: 'index_codecs' has no 'bytes' codec".into());
        };
        let layout = IndexLayout {
            location,
            endianness,
            checksums,
            n,
        };
        layout
            .checked_len()
            .ok_or_else(|| format!("sharding_indexed: {n} inner chunks are too many"))?;
        Ok(layout)
    }

    fn checked_len(&self) -> Option<usize> {
        self.n
            .checked_mul(ENTRY)?
            .checked_add(self.checksums * checksum::LEN)
    }

    /// Bytes of the encoded index.
    pub(super) fn len(&self) -> usize {
        // Checked when it was parsed.
        self.checked_len().unwrap_or(usize::MAX)
    }

    /// The index's bytes within a whole shard.
    pub(super) fn of_shard<'a>(&self, shard: &'a [u8]) -> Result<&'a [u8], CodecError> {
        let len = self.len();
        let index = match self.location {
            IndexLocation::Start => shard.get(..len),
            IndexLocation::End => shard
                .len()
                .checked_sub(len)
                .and_then(|start| shard.get(start..)),
        };
        index.ok_or_else(|| {
            format!(
                "sharding_indexed: {} bytes cannot hold an index of {len}",
                shard.len()
            )
            .into()
        })
    }

    /// Decodes the index; see [`Sharding::parse_index`](super::Sharding::parse_index).
    pub(super) fn decode(
        &self,
        index: &[u8],
        shard_len: Option<u64>,
    ) -> Result<ShardIndex, CodecError> {
        let mut out = ShardIndex::default();
        self.decode_into(index, shard_len, &mut out)?;
        Ok(out)
    }

    /// Like [`decode`](Self::decode), into an index whose memory is reused. After an error its contents are undefined.
    pub(super) fn decode_into(
        &self,
        index: &[u8],
        shard_len: Option<u64>,
        out: &mut ShardIndex,
    ) -> Result<(), CodecError> {
        if index.len() != self.len() {
            return Err(format!(
                "sharding_indexed: an index of {} bytes, expected {}",
                index.len(),
                self.len()
            )
            .into());
        }
        let mut bytes = index;
        for _ in 0..self.checksums {
            bytes = checksum::strip(bytes, false)
                .map_err(|e| format!("sharding_indexed: index: {e}"))?;
        }
        let number = |bytes: [u8; 8]| match self.endianness {
            Endianness::Little => u64::from_le_bytes(bytes),
            Endianness::Big => u64::from_be_bytes(bytes),
        };
        let len = self.len() as u64;
        let (low, high) = match (self.location, shard_len) {
            (IndexLocation::Start, shard_len) => (len, shard_len.unwrap_or(u64::MAX)),
            (IndexLocation::End, Some(shard_len)) => (0, shard_len.saturating_sub(len)),
            (IndexLocation::End, None) => (0, u64::MAX),
        };
        let entries = &mut out.entries;
        entries.clear();
        entries.reserve(self.n);
        for (i, entry) in bytes
            .as_chunks::<8>()
            .0
            .as_chunks::<2>()
            .0
            .iter()
            .enumerate()
        {
            let (offset, length) = (number(entry[0]), number(entry[1]));
            if offset == u64::MAX && length == u64::MAX {
                entries.push(None);
                continue;
            }
            let end = offset
                .checked_add(length)
                .filter(|end| offset >= low && *end <= high);
            let end = end.ok_or_else(|| {
                format!(
                    "sharding_indexed: inner chunk {i} has {length} bytes at {offset}, outside {low} to {high}"
                )
            })?;
            entries.push(Some(offset..end));
        }
        Ok(())
    }
}

impl ShardIndex {
    /// Number of inner chunks, stored or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the shard has no inner chunks.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The range of inner chunk `i` (row-major) in the object; `None` if it is not stored or there is no such chunk.
    pub fn range(&self, i: usize) -> Option<Range<u64>> {
        self.entries.get(i).cloned().flatten()
    }

    /// The ranges of all inner chunks, in row-major order.
    pub fn ranges(&self) -> &[Option<Range<u64>>] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn layout(location: &str, codecs: Value, n: usize) -> Result<IndexLayout, CodecError> {
        let configuration = json!({"index_location": location, "index_codecs": codecs});
        IndexLayout::parse(configuration.as_object().unwrap(), n)
    }

    fn entries(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn offsets_are_checked() {
        let codecs = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
        let end = layout("end", codecs.clone(), 2).unwrap();
        assert_eq!(end.len(), 32);
        let index = end
            .decode(&entries(&[5, 7, u64::MAX, u64::MAX]), Some(44))
            .unwrap();
        assert_eq!(index.ranges(), [Some(5..12), None]);
        assert!(
            end.decode(&entries(&[5, 8, u64::MAX, u64::MAX]), Some(44))
                .is_err()
        );
        assert!(end.decode(&entries(&[5, u64::MAX, 0, 0]), None).is_err());
        assert!(end.decode(&entries(&[u64::MAX, 1, 0, 0]), None).is_err());
        assert!(
            end.decode(&entries(&[0, 1]), None)
                .unwrap_err()
                .contains("16 bytes, expected 32")
        );
        let start = layout("start", codecs, 1).unwrap();
        assert_eq!(
            start.decode(&entries(&[16, 4]), Some(20)).unwrap().range(0),
            Some(16..20)
        );
        assert!(start.decode(&entries(&[15, 4]), Some(20)).is_err());
        assert!(start.decode(&entries(&[16, 5]), Some(20)).is_err());
    }

    #[test]
    fn codecs() {
        let big =
            json!([{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c"}]);
        let layout_big = layout("end", big, 1).unwrap();
        let mut index: Vec<u8> = [3u64, 4].iter().flat_map(|x| x.to_be_bytes()).collect();
        index.extend(::crc32c::crc32c(&index).to_le_bytes());
        assert_eq!(
            layout_big.decode(&index, Some(100)).unwrap().range(0),
            Some(3..7)
        );
        index[3] ^= 1;
        assert!(
            layout_big
                .decode(&index, Some(100))
                .unwrap_err()
                .contains("damaged")
        );
        for codecs in [
            json!([]),
            json!([{"name": "crc32c"}]),
            json!([{"name": "bytes"}]),
            json!([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}]),
            json!([3]),
            json!(null),
        ] {
            assert!(layout("end", codecs.clone(), 1).is_err(), "{codecs}");
        }
        let bytes = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
        assert!(layout("middle", bytes.clone(), 1).is_err());
        assert!(layout("end", bytes, usize::MAX / 2).is_err());
    }
}
