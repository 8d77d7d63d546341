//! Encoders for tests: c-blosc itself, the codecs' own crates, and straightforward loops.

use std::ffi::c_int;
use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::{Value, json};

use crate::store::ArrayMeta;

#[path = "c_blosc.rs"]
mod c_blosc;

pub(crate) use c_blosc::{Form, c_compress, c_decompress};

/// Bytes of a xorshift generator.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Genotypes of one byte, of which 5 in 100 are missing; few sites, of 3000 copies, have a third allele.
pub(crate) fn with_missing(len: usize, seed: u64) -> Vec<u8> {
    let noise = noise(2 * len, seed);
    let pairs = noise.as_chunks::<2>().0.iter().enumerate();
    pairs
        .map(|(i, random)| match u16::from_le_bytes(*random) % 1000 {
            0..50 => 0xff,
            50..80 => 1,
            80..100 if i / 3000 % 20 == 3 => 2,
            _ => 0,
        })
        .collect()
}

/// The metadata of an array that is one chunk, with these v3 codecs.
pub(crate) fn one_chunk(
    data_type: &Value,
    fill: Value,
    shape: &[usize],
    codecs: &Value,
) -> ArrayMeta {
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": fill, "codecs": codecs, "attributes": {},
    });
    ArrayMeta::from_v3("a", &document).unwrap()
}

/// Encodes with one bytes → bytes codec.
pub(crate) fn encode_bytes(codec: &Value, bytes: &[u8]) -> Vec<u8> {
    let name = codec["name"].as_str().unwrap();
    match name.strip_prefix("numcodecs.").unwrap_or(name) {
        "blosc" => {
            let text = |key: &str| codec["configuration"][key].as_str().unwrap().to_string();
            let form = Form {
                compressor: Box::leak(text("cname").into_boxed_str()),
                shuffle: ["noshuffle", "shuffle", "bitshuffle"]
                    .iter()
                    .position(|name| *name == text("shuffle"))
                    .unwrap() as c_int,
                level: 5,
                typesize: codec["configuration"]["typesize"].as_u64().unwrap() as usize,
                blocksize: 256,
            };
            c_compress(bytes, &form)
        }
        "zstd" => ::zstd::bulk::compress(bytes, 3).unwrap(),
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "zlib" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "lz4" => {
            let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
            out.extend(lz4_flex::block::compress(bytes));
            out
        }
        "crc32c" => [bytes, &::crc32c::crc32c(bytes).to_le_bytes()].concat(),
        name => panic!("{name}"),
    }
}

/// Items in row-major order of `shape`, put into row-major order of the transposed shape; that shape too.
pub(crate) fn transposed<T: Clone>(
    shape: &[usize],
    order: &[usize],
    items: &[T],
) -> (Vec<usize>, Vec<T>) {
    let encoded: Vec<usize> = order.iter().map(|axis| shape[*axis]).collect();
    let mut out = Vec::new();
    for k in 0..items.len() {
        let (mut rest, mut index) = (k, vec![0; shape.len()]);
        for i in (0..shape.len()).rev() {
            index[order[i]] = rest % encoded[i];
            rest /= encoded[i];
        }
        out.push(items[index.iter().zip(shape).fold(0, |at, (i, len)| at * len + i)].clone());
    }
    (encoded, out)
}

/// The `vlen-utf8` form of strings.
pub(crate) fn encode_vlen<T: AsRef<[u8]>>(strings: &[T]) -> Vec<u8> {
    let mut out = (strings.len() as u32).to_le_bytes().to_vec();
    for text in strings {
        out.extend((text.as_ref().len() as u32).to_le_bytes());
        out.extend_from_slice(text.as_ref());
    }
    out
}

/// A shard of items in row-major order of `shape`. `piece` encodes the items of an inner chunk; `None` leaves it out.
pub(crate) fn shard<T: Clone>(
    shape: &[usize],
    inner: &[usize],
    items: &[T],
    at_start: bool,
    checksum: bool,
    mut piece: impl FnMut(usize, &[T]) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let grid: Vec<usize> = shape
        .iter()
        .zip(inner)
        .map(|(len, inner)| len / inner)
        .collect();
    let n: usize = grid.iter().product();
    let mut pieces = vec![Vec::new(); n];
    for (k, item) in items.iter().enumerate() {
        let (mut rest, mut chunk, mut weight) = (k, 0, 1);
        for axis in (0..shape.len()).rev() {
            chunk += rest % shape[axis] / inner[axis] * weight;
            weight *= grid[axis];
            rest /= shape[axis];
        }
        // Row-major order of the whole visits each inner chunk in row-major order too.
        pieces[chunk].push(item.clone());
    }
    let index_len = 16 * n + if checksum { 4 } else { 0 };
    let mut data = Vec::new();
    let mut entries = vec![[u64::MAX; 2]; n];
    // Stored in some other order, with gaps: both are allowed.
    for i in (0..n).rev() {
        if let Some(encoded) = piece(i, &pieces[i]) {
            data.push(0xee);
            let start = data.len() + if at_start { index_len } else { 0 };
            entries[i] = [start as u64, encoded.len() as u64];
            data.extend(encoded);
        }
    }
    let mut index: Vec<u8> = entries
        .iter()
        .flatten()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    if checksum {
        index.extend(::crc32c::crc32c(&index).to_le_bytes());
    }
    if at_start {
        [index, data].concat()
    } else {
        [data, index].concat()
    }
}
