//! What is left to the host, and the words for it.

use serde_json::{Value, json};

use crate::codec::CodecChain;
use crate::codec::testing::{Form, c_compress, encode_bytes, one_chunk};
use crate::gpu::error::GpuError;
use crate::gpu::plan::{ChunkPlan, ChunkPlanner};
use crate::store::ArrayMeta;

fn of(array: &ArrayMeta) -> Result<ChunkPlanner, GpuError> {
    ChunkPlanner::try_new(array, &CodecChain::try_new(array).unwrap())
}

#[test]
fn arrays() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let blosc = |cname: &str| json!({"name": "blosc", "configuration": {"cname": cname, "shuffle": "shuffle"}});
    let shards = |inner: Value| {
        json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": [2, 2, 1], "codecs": inner, "index_codecs": [bytes]}})
    };
    let one = |name: &str| json!({"name": name});
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0, 2]}});
    for (data_type, fill, codecs, reason) in [
        ("string", json!(""), json!([one("vlen-utf8")]), "text"),
        ("int8", json!(-1), json!([bytes]), "fill value"),
        ("float32", json!("NaN"), json!([bytes]), "fill value"),
        ("int8", json!(0), json!([transpose, bytes]), "transposed"),
        (
            "int8",
            json!(0),
            json!([shards(json!([transpose, bytes]))]),
            "transposed",
        ),
        (
            "int8",
            json!(0),
            json!([bytes, blosc("snappy")]),
            "the codec snappy inside blosc has no decoder on the GPU",
        ),
        (
            "int8",
            json!(0),
            json!([shards(json!([bytes, blosc("blosclz")]))]),
            "blosclz",
        ),
        (
            "int8",
            json!(0),
            json!([bytes, one("crc32c"), one("zstd")]),
            "crc32c inside a compressor",
        ),
        (
            "int8",
            json!(0),
            json!([bytes, one("zstd"), one("crc32c"), one("gzip")]),
            "crc32c inside a compressor",
        ),
        (
            "int8",
            json!(0),
            json!([bytes, one("gzip"), blosc("zstd")]),
            "gzip, then blosc(zstd, shuffle)",
        ),
        (
            "int8",
            json!(0),
            json!([shards(json!([bytes])), one("zstd")]),
            "compressed again (zstd)",
        ),
        (
            "int8",
            json!(0),
            json!([shards(json!([shards(json!([bytes]))]))]),
            "shards in shards",
        ),
    ] {
        let array = one_chunk(&json!(data_type), fill, &[4, 4, 1], &codecs);
        let error = of(&array).unwrap_err();
        assert!(error.contains(reason), "{codecs}: {error}");
    }
    let rank = |shape: &[usize]| of(&one_chunk(&json!("int8"), json!(0), shape, &json!([bytes])));
    assert!(rank(&[]).unwrap_err().contains("0 dimensions"));
    assert!(rank(&[2, 2, 2, 2]).unwrap_err().contains("4 dimensions"));
    assert!(rank(&[2, 2, 2]).is_ok());
}

#[test]
fn chunks_that_cut_calls() {
    let array = |copies: u64, chunk: u64| {
        let zarray = json!({
            "zarr_format": 2, "shape": [10, 4, copies], "chunks": [5, 4, chunk], "dtype": "|i1", "fill_value": null,
            "order": "C", "filters": null, "compressor": null,
        });
        ArrayMeta::from_v2("a", &zarray, None).unwrap()
    };
    assert!(of(&array(2, 2)).is_ok());
    assert!(of(&array(2, 3)).is_ok());
    let error = of(&array(3, 2)).unwrap_err();
    assert!(error.contains("2 of the 3 values"), "{error}");
    let codecs = json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 4, 1],
        "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]);
    let error = of(&one_chunk(&json!("int8"), json!(0), &[5, 4, 2], &codecs)).unwrap_err();
    assert!(error.contains("1 of the 2 values"), "{error}");
}

fn refused(codec: &Value, width: usize, chunk: &[u8]) -> String {
    let data_type = if width == 1 { "int8" } else { "int16" };
    let codecs = json!([{"name": "bytes", "configuration": {"endian": "little"}}, codec]);
    let array = one_chunk(&json!(data_type), json!(0), &[10, 100], &codecs);
    let mut encoded = chunk.to_vec();
    let mut plan = ChunkPlan::default();
    let error = of(&array)
        .unwrap()
        .plan(&mut encoded, &mut plan)
        .unwrap_err();
    assert_eq!(encoded, chunk);
    error.into()
}

#[test]
fn chunks() {
    let data: Vec<u8> = (0..1000u32).map(|i| (i / 50) as u8).collect();
    let (first, second) = data.split_at(400);
    let codec = |name: &str| json!({"name": name});
    let of_parts = |name: &str| {
        [
            encode_bytes(&codec(name), first),
            encode_bytes(&codec(name), second),
        ]
        .concat()
    };
    assert!(refused(&codec("zstd"), 1, &of_parts("zstd")).contains("content size of Some(400)"));
    assert!(refused(&codec("gzip"), 1, &of_parts("gzip")).contains("600 bytes, expected 1000"));
    let unknown = ::zstd::stream::encode_all(&data[..], 3).unwrap();
    assert!(refused(&codec("zstd"), 1, &unknown).contains("content size of None"));
    let mut trailing = encode_bytes(&codec("zstd"), &data);
    trailing.push(0);
    assert!(refused(&codec("zstd"), 1, &trailing).contains("of which a frame takes"));
    let mut compressor = ::zstd::bulk::Compressor::new(3).unwrap();
    compressor
        .set_parameter(::zstd::zstd_safe::CParameter::ChecksumFlag(true))
        .unwrap();
    let checked = compressor.compress(&data).unwrap();
    assert!(refused(&codec("zstd"), 1, &checked).contains("checksum"));
    for name in ["zstd", "gzip", "lz4"] {
        let longer = encode_bytes(&codec(name), &data.repeat(2));
        assert!(
            refused(&codec(name), 1, &longer).contains("expected 1000"),
            "{name}"
        );
    }

    let blosc = json!({"name": "blosc", "configuration": {"cname": "zstd", "shuffle": "shuffle", "clevel": 5}});
    let form = |compressor: &'static str, typesize: usize| Form {
        compressor,
        shuffle: 1,
        level: 5,
        typesize,
        blocksize: 0,
    };
    // What the container says counts, not what the metadata do.
    let other = c_compress(&data, &form("blosclz", 1));
    assert!(refused(&blosc, 1, &other).contains("blosclz inside blosc"));
    let wide = c_compress(&data.repeat(2), &form("zstd", 4));
    assert!(refused(&blosc, 2, &wide).contains("elements of 4 bytes, expected 2"));
    let short = c_compress(&data[1..], &form("zstd", 1));
    assert!(refused(&blosc, 1, &short).contains("999 bytes, expected 1000"));
}

/// Two blocks at one place, of which one would be cut: an encoder never does this.
#[test]
fn overlapping_blocks() {
    let data = vec![7u8; 2048];
    let form = Form {
        compressor: "zstd",
        shuffle: 0,
        level: 5,
        typesize: 1,
        blocksize: 1024,
    };
    let mut encoded = c_compress(&data, &form);
    let first: Vec<u8> = encoded[16..20].to_vec();
    encoded[20..24].copy_from_slice(&first);
    let codecs = json!([{"name": "bytes"}, {"name": "blosc", "configuration": {"cname": "zstd"}}]);
    let array = one_chunk(&json!("int8"), json!(0), &[2048], &codecs);
    let error = of(&array)
        .unwrap()
        .plan(&mut encoded, &mut ChunkPlan::default())
        .unwrap_err();
    assert!(error.contains("overlap"), "{error}");
}
