//! What plans of well-known chunks look like.

use serde_json::{Value, json};

use super::{on_device, on_host};
use crate::codec::CodecChain;
use crate::codec::blosc::Shuffle;
use crate::codec::testing::{
    Form, c_compress, encode_bytes, noise, one_chunk, shard, with_missing,
};
use crate::gpu::plan::{BlockLocation, ChunkPlan, ChunkPlanner, FrameCodec, PlannedSegment};

fn planner(data_type: &str, shape: &[usize], codecs: &Value) -> (CodecChain, ChunkPlanner) {
    let array = one_chunk(&json!(data_type), json!(0), shape, codecs);
    let chain = CodecChain::try_new(&array).unwrap();
    let planner = ChunkPlanner::try_new(&array, &chain).unwrap();
    (chain, planner)
}

fn blosc(cname: &str, shuffle: &str) -> Value {
    json!([{"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "blosc", "configuration": {"cname": cname, "shuffle": shuffle, "clevel": 7, "blocksize": 0, "typesize": 1}}])
}

/// The default of a VCZ store: blocks of 512 KiB whose frames are cut after the planes that have bits.
#[test]
fn a_default_genotype_chunk() {
    let data: Vec<u8> = (0..1_200_000u32)
        .map(|i| u8::from(i.wrapping_mul(2_654_435_761) >> 28 == 0))
        .collect();
    let form = Form {
        compressor: "zstd",
        shuffle: 2,
        level: 7,
        typesize: 1,
        blocksize: 0,
    };
    let (chain, planner) = planner("int8", &[1000, 600, 2], &blosc("zstd", "bitshuffle"));
    assert_eq!(planner.summary(), "blosc(zstd, bitshuffle)");
    assert_eq!((planner.width(), planner.big_endian()), (1, false));
    assert_eq!(planner.estimate().frames, 3);
    let mut encoded = c_compress(&data, &form);
    let whole = encoded.clone();
    let mut plan = ChunkPlan::default();
    planner.plan(&mut encoded, &mut plan).unwrap();
    plan.verify(encoded.len(), data.len(), 1).unwrap();
    assert_eq!((plan.frames.len(), plan.blocks.len()), (3, 3));
    let elements: Vec<u32> = plan.blocks.iter().map(|block| block.elements).collect();
    assert_eq!(elements, [524_288, 524_288, 151_424]);
    for (frame, block) in plan.frames.iter().zip(&plan.blocks) {
        assert_eq!(frame.codec, FrameCodec::Zstd);
        assert_eq!(
            (block.location, frame.dst % 16),
            (BlockLocation::Decoded(frame.dst), 0)
        );
        assert_eq!(block.shuffle, Shuffle::Bit);
        assert!((1..8).contains(&block.planes), "{block:?}");
        let stored = ChunkPlan::block_bytes(block, 1);
        assert!(frame.len <= stored && stored - frame.len < block.elements as usize / 8);
    }
    assert_eq!(plan.blocks[0].planes, 2);
    assert!(plan.decoded_len < data.len() / 3, "{}", plan.decoded_len);
    let [tile] = &plan.tiles[..] else {
        panic!("{:?}", plan.tiles);
    };
    assert_eq!((tile.blocks.clone(), tile.block_elements), (0..3, 524_288));
    assert_eq!((tile.row0, tile.rows, tile.row_elements), (0, 1000, 1200));
    assert_eq!((tile.sample0, tile.samples, tile.copies), (0, 600, 2));
    assert!(!plan.shared_rows);
    assert!(on_device(&planner, &plan, &encoded, (600, 2)).unwrap() == data);
    // The host cannot decode what was cut, so it is given back.
    assert!(on_host(&chain, &encoded).is_err());
    plan.restore(&mut encoded);
    assert!(encoded == whole);
    assert!(on_host(&chain, &encoded).unwrap() == data);
}

/// Where the frame ends inside a plane, zeros fill that plane.
#[test]
fn zeros_fill_the_last_plane() {
    // Planes of 98 KiB: the compressed block of 128 KiB ends inside the second.
    let n = 98 * 1024 * 8;
    let data: Vec<u8> = noise(n, 5).iter().map(|byte| byte & 1).collect();
    let form = Form {
        compressor: "zstd",
        shuffle: 2,
        level: 7,
        typesize: 1,
        blocksize: n,
    };
    let mut encoded = c_compress(&data, &form);
    let (_, planner) = planner("int8", &[n], &blosc("zstd", "bitshuffle"));
    let mut plan = ChunkPlan::default();
    planner.plan(&mut encoded, &mut plan).unwrap();
    let (len, planes) = (plan.frames[0].len, plan.blocks[0].planes as usize);
    assert_eq!(len, 128 * 1024);
    assert_eq!(planes, 2);
    let zeros = PlannedSegment {
        src: None,
        dst: len,
        len: 2 * 98 * 1024 - len,
    };
    assert_eq!(plan.segments, [zeros]);
    assert!(on_device(&planner, &plan, &encoded, (1, 1)).unwrap() == data);
}

/// Missing calls: planes 2 to 7 are equal, so the frames are cut before the copies, and a device compares the literals that the
/// tails of the frames have.
#[test]
fn planes_that_repeat() {
    let data = with_missing(1_200_000, 11);
    for blocksize in [0, 98 * 1024 * 8] {
        let form = Form {
            compressor: "zstd",
            shuffle: 2,
            level: 7,
            typesize: 1,
            blocksize,
        };
        let (chain, planner) = planner("int8", &[1000, 600, 2], &blosc("zstd", "bitshuffle"));
        let mut encoded = c_compress(&data, &form);
        let whole = encoded.clone();
        let mut plan = ChunkPlan::default();
        planner.plan(&mut encoded, &mut plan).unwrap();
        plan.verify(encoded.len(), data.len(), 1).unwrap();
        let block = &plan.blocks[0];
        assert!(block.repeats && block.planes < 8, "{block:?}");
        assert!(plan.frames[0].len < block.elements as usize);
        assert!(!plan.known_bytes.is_empty());
        assert!(on_device(&planner, &plan, &encoded, (600, 2)).unwrap() == data);
        // A byte that is not what the tail says.
        plan.known_bytes[0].byte ^= 1;
        assert!(on_device(&planner, &plan, &encoded, (600, 2)).is_err());
        plan.restore(&mut encoded);
        assert!(encoded == whole);
        assert!(on_host(&chain, &encoded).unwrap() == data);
    }
}

#[test]
fn stored_blocks_stay_where_they_are() {
    let data = noise(4096, 3);
    let (_, planner) = planner("int8", &[4096], &blosc("lz4", "bitshuffle"));
    let mut plan = ChunkPlan::default();
    for (level, blocksize, elements) in [(0, 0, 4096), (5, 1024, 1024)] {
        let form = Form {
            compressor: "lz4",
            shuffle: 2,
            level,
            typesize: 1,
            blocksize,
        };
        let mut encoded = c_compress(&data, &form);
        planner.plan(&mut encoded, &mut plan).unwrap();
        plan.verify(encoded.len(), 4096, 1).unwrap();
        assert!(plan.frames.is_empty() && plan.segments.is_empty());
        assert_eq!(plan.decoded_len, 0);
        assert!(
            plan.blocks
                .iter()
                .all(|block| matches!(block.location, BlockLocation::Encoded(_))
                    && block.elements % elements == 0)
        );
        assert!(on_device(&planner, &plan, &encoded, (1, 1)).unwrap() == data);
    }
}

/// Splits that are stored among others that are not are copied.
#[test]
fn some_splits_are_stored() {
    let mut data = Vec::new();
    for byte in noise(8192, 9) {
        data.extend([byte, 0]);
    }
    let form = Form {
        compressor: "lz4",
        shuffle: 1,
        level: 5,
        typesize: 2,
        blocksize: 8192,
    };
    let mut encoded = c_compress(&data, &form);
    let (_, planner) = planner("int16", &[8192], &blosc("lz4", "shuffle"));
    let mut plan = ChunkPlan::default();
    planner.plan(&mut encoded, &mut plan).unwrap();
    plan.verify(encoded.len(), 8192, 2).unwrap();
    assert!(!plan.frames.is_empty() && !plan.segments.is_empty());
    assert!(plan.segments.iter().all(|segment| segment.src.is_some()));
    assert!(on_device(&planner, &plan, &encoded, (1, 1)).unwrap() == data);
}

#[test]
fn tiles_of_a_shard() {
    let index = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    let codecs = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [2, 3, 2], "codecs": [{"name": "bytes"}, {"name": "zstd"}], "index_codecs": index}}]);
    let items: Vec<u8> = (0..4 * 9 * 2).collect();
    let mut encoded = shard(&[4, 9, 2], &[2, 3, 2], &items, false, false, |i, items| {
        (i != 4).then(|| encode_bytes(&json!({"name": "zstd"}), items))
    });
    let (chain, planner) = planner("int8", &[4, 9, 2], &codecs);
    let mut plan = ChunkPlan::default();
    planner.plan(&mut encoded, &mut plan).unwrap();
    plan.verify(encoded.len(), items.len(), 1).unwrap();
    assert!(plan.shared_rows);
    let origins: Vec<_> = plan.tiles.iter().map(|t| (t.row0, t.sample0)).collect();
    assert_eq!(origins, [(0, 0), (0, 3), (0, 6), (2, 0), (2, 3), (2, 6)]);
    assert_eq!(plan.blocks[4].location, BlockLocation::Zero);
    assert_eq!((plan.blocks[4].planes, plan.frames.len()), (0, 5));
    let found = on_device(&planner, &plan, &encoded, (9, 2)).unwrap();
    assert_eq!(found, on_host(&chain, &encoded).unwrap());
    // A second chunk takes no memory that the first did not.
    let before = (
        plan.frames.capacity(),
        plan.blocks.capacity(),
        plan.tiles.capacity(),
    );
    planner.plan(&mut encoded, &mut plan).unwrap();
    let after = (
        plan.frames.capacity(),
        plan.blocks.capacity(),
        plan.tiles.capacity(),
    );
    assert_eq!(before, after);
}
