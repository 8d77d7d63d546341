//! Any bytes as a chunk of chains that the host alone decodes: decoding gives as many elements as the metadata say, or an error, and
//! never takes much more memory than both together.

use serde_json::{Value, json};

use crate::codec::{ChunkData, CodecChain, Scratch};
use crate::store::ArrayMeta;

const N: usize = 96;

/// The target's body. The first byte chooses the chain.
pub fn check(data: &[u8]) {
    let Some((kind, chunk)) = data.split_first() else {
        return;
    };
    let (data_type, codecs) = chain_of(*kind);
    // The same elements, so that a squeeze has something to leave out.
    let shape = match *kind & 0x1f {
        29.. => json!([1, 8, 1, 12]),
        _ => json!([N]),
    };
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "fill_value": null, "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {}, "codecs": codecs,
    });
    let array = ArrayMeta::from_v3("a", &document).unwrap();
    let chain = CodecChain::try_new(&array).unwrap();
    match chain.decode(chunk, &mut Scratch::default()) {
        Ok(ChunkData::Fixed(elements)) => {
            assert_eq!(elements.len(), chain.fixed_len().unwrap());
            // Again into memory that is not aligned, with the buffers of other chunks.
            let mut again = vec![1; elements.len() + 1];
            let decoded = chain.decode_into(chunk, &mut again[1..], &mut Scratch::default());
            assert!(decoded.is_ok() && again[1..] == *elements.as_slice());
        }
        Ok(ChunkData::Strings(strings)) => {
            assert_eq!(strings.len(), N);
            assert!(std::str::from_utf8(&strings.data).is_ok());
        }
        Err(error) => assert!(!error.is_empty()),
    }
}

/// The type of the elements, and the codecs.
fn chain_of(kind: u8) -> (&'static str, Value) {
    let named =
        |name: &str, configuration: Value| json!({"name": name, "configuration": configuration});
    let bytes = named(
        "bytes",
        json!({"endian": if kind & 0x80 == 0 { "little" } else { "big" }}),
    );
    let delta = |dtype: &str| named("numcodecs.delta", json!({"dtype": "<i4", "astype": dtype}));
    let raw = |id: u64| json!({"format": 3, "filters": [{"id": 3, "dist": 2}, {"id": id, "dict_size": 65536}]});
    let [bz2, lzma, pcodec] =
        ["bz2", "lzma", "pcodec"].map(|name| json!({"name": format!("numcodecs.{name}")}));
    let [zstd, gzip, text] = ["zstd", "gzip", "vlen-utf8"].map(|name| json!({"name": name}));
    match kind & 0x1f {
        0 => ("int32", json!([bytes, bz2])),
        1 => ("int32", json!([bytes, lzma])),
        2 => (
            "int32",
            json!([bytes, named("numcodecs.lzma", json!({"format": 0}))]),
        ),
        3 => ("int32", json!([bytes, named("numcodecs.lzma", raw(0x21))])),
        4 => (
            "int32",
            json!([bytes, named("numcodecs.lzma", raw(0x4000_0000_0000_0001))]),
        ),
        5 => ("int16", json!([pcodec])),
        6 => ("int32", json!([pcodec])),
        7 => ("float64", json!([pcodec])),
        8 => ("uint64", json!([pcodec])),
        9 => ("float16", json!([pcodec])),
        10 => ("int32", json!([delta("<i2"), bytes])),
        11 => ("int32", json!([delta("<f8"), bytes, zstd])),
        12 => ("int32", json!([delta("<i4"), pcodec, zstd])),
        13 => ("bool", json!([{"name": "numcodecs.packbits"}, bytes, bz2])),
        14 => ("bool", json!([{"name": "packbits"}])),
        15 => (
            "int16",
            json!([named(
                "packbits",
                json!({"first_bit": 3, "last_bit": 9, "padding_encoding": "last_byte"})
            )]),
        ),
        16 => (
            "int32",
            json!([
                bytes,
                named("numcodecs.shuffle", json!({"elementsize": 4})),
                gzip
            ]),
        ),
        17 => ("int8", json!([bytes, {"name": "numcodecs.fletcher32"}])),
        18 => (
            "int8",
            json!([bytes, {"name": "numcodecs.adler32"}, {"name": "numcodecs.crc32"}]),
        ),
        19 => ("string", json!([text, bz2])),
        20 => ("string", json!([text, lzma])),
        21 => (
            "float32",
            json!([
                named(
                    "numcodecs.fixedscaleoffset",
                    json!({"scale": 10, "offset": 0.1, "dtype": "<f4", "astype": "<i2"})
                ),
                bytes,
                bz2
            ]),
        ),
        22 => ("int32", json!([bytes, bz2, zstd, lzma])),
        23 => (
            "int32",
            json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": [24],
            "codecs": [delta("<i2"), bytes, bz2], "index_codecs": [bytes]}}]),
        ),
        24 => (
            "int32",
            json!([delta("<i4"), {"name": "sharding_indexed", "configuration": {"chunk_shape": [24],
            "codecs": [bytes], "index_codecs": [bytes]}}, bz2]),
        ),
        25 => (
            "uint8",
            json!([
                named(
                    "numcodecs.astype",
                    json!({"encode_dtype": "<f8", "decode_dtype": "|u1"})
                ),
                bytes
            ]),
        ),
        26 => (
            "float16",
            json!([
                named(
                    "numcodecs.quantize",
                    json!({"dtype": "<f2", "astype": "<f4"})
                ),
                bytes,
                lzma
            ]),
        ),
        28 => (
            "int32",
            json!([
                named("reshape", json!({"shape": [8, -1]})),
                named("transpose", json!({"order": [1, 0]})),
                bytes,
                bz2
            ]),
        ),
        29 => (
            "int32",
            json!([{"name": "squeeze"}, named("transpose", json!({"order": [1, 0]})), delta("<i2"),
            named("reshape", json!({"shape": [[0, 1]]})), bytes, zstd]),
        ),
        30 => (
            "variable_length_bytes",
            json!([{"name": "vlen-bytes"}, bz2]),
        ),
        31 => (
            "int16",
            json!([{"name": "squeeze"}, named("reshape", json!({"shape": [[0, 1], 1]})), {"name": "sharding_indexed",
            "configuration": {"chunk_shape": [24, 1], "codecs": [{"name": "squeeze"}, pcodec, gzip], "index_codecs": [bytes]}}, lzma]),
        ),
        _ => (
            "float32",
            json!([named("numcodecs.bitround", json!({"keepbits": 3})), bytes, bz2, {"name": "crc32c"}]),
        ),
    }
}
