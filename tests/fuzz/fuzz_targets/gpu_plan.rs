//! Any bytes as a chunk for a GPU, in every encoding that one decodes: no panic, plans stay inside their buffers, and planning
//! can be undone.
#![no_main]

use datafusion_vcz::codec::{CodecChain, Scratch};
use datafusion_vcz::gpu::plan::{ChunkPlan, ChunkPlanner};
use datafusion_vcz::store::ArrayMeta;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| {
    let Some((kind, chunk)) = data.split_first() else {
        return;
    };
    let (wide, sharded) = (kind & 8 != 0, kind & 16 != 0);
    let codec = match kind & 7 {
        0 => json!({"name": "zstd"}),
        1 => json!({"name": "gzip"}),
        2 => json!({"name": "zlib"}),
        3 => json!({"name": "lz4"}),
        // What the container says counts.
        _ => json!({"name": "blosc", "configuration": {"cname": "zstd", "shuffle": "bitshuffle"}}),
    };
    let codecs = json!([{"name": "bytes", "configuration": {"endian": "little"}}, codec]);
    let shape = [64, 24];
    let (inner, codecs) = if sharded {
        let index = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
        let sharding = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [32, 12], "codecs": codecs, "index_codecs": index}}]);
        (4 * 16, sharding)
    } else {
        (0, codecs)
    };
    let mut encoded = chunk.to_vec();
    // The version and the encoded size of a container are set right, or hardly any input would pass the header.
    let len = encoded.len().saturating_sub(inner);
    if kind & 4 != 0 && len >= 16 {
        encoded[0] = 2;
        encoded[1] = 1;
        encoded[12..16].copy_from_slice(&(len as u32).to_le_bytes());
        if sharded {
            // The first inner chunk is all that comes before the index.
            encoded[len..len + 16].fill(0);
            encoded[len + 8..len + 16].copy_from_slice(&(len as u64).to_le_bytes());
        }
    }
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "fill_value": 0,
        "data_type": if wide { "int32" } else { "int8" },
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {}, "codecs": codecs,
    });
    let array = ArrayMeta::from_v3("a", &document).unwrap();
    let chain = CodecChain::try_new(&array).unwrap();
    let planner = ChunkPlanner::try_new(&array, &chain).unwrap();
    let before = encoded.clone();
    let mut plan = ChunkPlan::default();
    if planner.plan(&mut encoded, &mut plan).is_ok() {
        plan.verify(encoded.len(), chain.elements(), planner.width())
            .unwrap();
        plan.restore(&mut encoded);
    }
    assert_eq!(encoded, before);
    let _ = chain.decode(&encoded, &mut Scratch::default());
});
