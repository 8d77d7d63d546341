//! Any bytes as a shard, of numbers and of strings, with the index at either end, with and without checksum: the whole, its bands
//! and the inner chunks one by one agree.

use std::slice::from_ref;

use serde_json::json;

use crate::codec::{ChunkData, CodecChain, Scratch};
use crate::store::ArrayMeta;

const SHAPE: [usize; 2] = [8, 12];
const INNER: [usize; 2] = [4, 3];
const N_INNER: usize = 8;

/// The target's body. The first byte chooses how the shard is encoded.
pub fn check(data: &[u8]) {
    let Some((kind, shard)) = data.split_first() else {
        return;
    };
    let mut shard = shard.to_vec();
    let (text, at_start, checksum) = (kind & 1 != 0, kind & 2 != 0, kind & 4 != 0);
    let endian = if kind & 0x40 != 0 { "big" } else { "little" };
    let mut index_codecs = vec![json!({"name": "bytes", "configuration": {"endian": endian}})];
    if checksum {
        index_codecs.push(json!({"name": "crc32c"}));
        if kind & 0x80 != 0 {
            set_checksum(&mut shard, at_start);
        }
    }
    let serializer = json!({"name": if text { "vlen-utf8" } else { "bytes" }});
    let inner = match kind >> 3 & 7 {
        0 => json!([serializer]),
        1 => json!([serializer, {"name": "zstd"}]),
        2 => json!([serializer, {"name": "gzip"}]),
        3 => json!([serializer, {"name": "lz4"}]),
        4 => {
            json!([serializer, {"name": "blosc", "configuration": {"cname": "lz4", "shuffle": "shuffle"}}])
        }
        5 => json!([serializer, {"name": "zlib"}]),
        6 => json!([serializer, {"name": "crc32c"}]),
        _ => json!([{"name": "transpose", "configuration": {"order": [1, 0]}}, serializer]),
    };
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": SHAPE, "fill_value": null,
        "data_type": if text { "string" } else { "uint8" },
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": SHAPE}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {},
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": INNER, "codecs": inner, "index_codecs": index_codecs,
            "index_location": if at_start { "start" } else { "end" },
        }}],
    });
    let array = ArrayMeta::from_v3("a", &document).unwrap();
    let chain = CodecChain::try_new(&array).unwrap();
    let mut scratch = Scratch::default();
    let whole = chain.decode(&shard, &mut scratch).map(|data| items(&data));
    let parts = inner_by_inner(&chain, &shard, at_start);
    assert_eq!(whole.is_ok(), parts.is_some());
    let sharding = chain.sharding().unwrap();
    let bands = sharding.decode_rows(&shard, from_ref(&(0..8)), &mut scratch);
    assert_eq!(bands.is_ok(), whole.is_ok());
    let (Ok(whole), Some(parts), Ok(bands)) = (whole, parts, bands) else {
        return;
    };
    assert!(whole == parts);
    let all: Vec<Vec<u8>> = bands.iter().flat_map(|(_, data)| items(data)).collect();
    assert!(all == whole);
    // The second band alone.
    let lower = sharding
        .decode_rows(&shard, from_ref(&(5..6)), &mut scratch)
        .unwrap();
    assert_eq!(lower.len(), 1);
    assert_eq!(lower[0].0, 4..8);
    assert!(items(&lower[0].1) == whole[48..]);
}

/// The elements, as bytes.
fn items(data: &ChunkData) -> Vec<Vec<u8>> {
    match data {
        ChunkData::Fixed(elements) => elements.iter().map(|byte| vec![*byte]).collect(),
        ChunkData::Strings(strings) => {
            assert!(std::str::from_utf8(&strings.data).is_ok());
            strings
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect()
        }
    }
}

/// The shard's elements with each inner chunk decoded on its own; `None` if one cannot be, or lies outside.
fn inner_by_inner(chain: &CodecChain, shard: &[u8], at_start: bool) -> Option<Vec<Vec<u8>>> {
    let sharding = chain.sharding().unwrap();
    let index_len = sharding.index_len();
    let data_len = shard.len().checked_sub(index_len)?;
    let (index, room) = if at_start {
        (&shard[..index_len], index_len..shard.len())
    } else {
        (&shard[data_len..], 0..data_len)
    };
    let index = sharding.parse_index(index, None).ok()?;
    let mut out = vec![Vec::new(); SHAPE[0] * SHAPE[1]];
    for i in 0..N_INNER {
        let data = match index.range(i) {
            None => sharding.inner().fill_chunk().unwrap(),
            Some(range) => {
                let start = usize::try_from(range.start).ok()?;
                let end = usize::try_from(range.end).ok()?;
                if start < room.start || end > room.end {
                    return None;
                }
                let piece = shard.get(start..end)?;
                sharding
                    .inner()
                    .decode(piece, &mut Scratch::default())
                    .ok()?
            }
        };
        let columns = SHAPE[1] / INNER[1];
        let (row, column) = (i / columns * INNER[0], i % columns * INNER[1]);
        for (k, item) in items(&data).into_iter().enumerate() {
            out[(row + k / INNER[1]) * SHAPE[1] + column + k % INNER[1]] = item;
        }
    }
    Some(out)
}

/// Makes the checksum of the index right.
fn set_checksum(shard: &mut [u8], at_start: bool) {
    let len = 16 * N_INNER + 4;
    let index = match shard.len().checked_sub(len) {
        None => return,
        Some(_) if at_start => &mut shard[..len],
        Some(start) => &mut shard[start..],
    };
    let (entries, sum) = index.split_at_mut(len - 4);
    sum.copy_from_slice(&::crc32c::crc32c(entries).to_le_bytes());
}
