//! Any bytes as a shard, of numbers and of strings, with the index at either end, with and without checksum.
#![no_main]

use datafusion_vcz::codec::{ChunkData, CodecChain, Scratch};
use datafusion_vcz::store::ArrayMeta;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| {
    let Some((kind, shard)) = data.split_first() else {
        return;
    };
    let (text, at_start, checksum) = (kind & 1 != 0, kind & 2 != 0, kind & 4 != 0);
    let mut index_codecs = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
    if checksum {
        index_codecs.push(json!({"name": "crc32c"}));
    }
    let serializer = if text { "vlen-utf8" } else { "bytes" };
    let inner = match kind >> 3 & 3 {
        0 => json!([{"name": serializer}]),
        1 => json!([{"name": serializer}, {"name": "zstd"}]),
        2 => json!([{"name": serializer}, {"name": "gzip"}]),
        _ => json!([{"name": serializer}, {"name": "lz4"}]),
    };
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [8, 12], "fill_value": null,
        "data_type": if text { "string" } else { "uint8" },
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 12]}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {},
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [4, 3], "codecs": inner, "index_codecs": index_codecs,
            "index_location": if at_start { "start" } else { "end" },
        }}],
    });
    let array = ArrayMeta::from_v3("a", &document).unwrap();
    let chain = CodecChain::try_new(&array).unwrap();
    let mut scratch = Scratch::default();
    let whole = chain.decode(shard, &mut scratch);
    match &whole {
        Ok(ChunkData::Fixed(elements)) => assert_eq!(elements.len(), 96),
        Ok(ChunkData::Strings(strings)) => {
            assert_eq!(strings.len(), 96);
            assert!(std::str::from_utf8(&strings.data).is_ok());
        }
        Err(_) => {}
    }
    let bands = chain
        .sharding()
        .unwrap()
        .decode_rows(shard, &[0..8], &mut scratch);
    assert_eq!(bands.is_ok(), whole.is_ok());
});
