//! Any bytes as a chunk for a GPU, in every encoding that one decodes: no panic, plans stay inside their buffers, planning can be
//! undone, and what a device makes of a plan is what the host decodes.

use serde_json::{Value, json};

use super::device::{on_device, on_host};
use crate::codec::CodecChain;
use crate::gpu::plan::{ChunkPlan, ChunkPlanner, FrameCodec};
use crate::store::ArrayMeta;

/// What the first two bytes choose.
struct Kind {
    codec: usize,
    width: usize,
    endian: &'static str,
    checksum: bool,
    sharded: bool,
    rank_3: bool,
    /// Sizes and checksums are set right, or hardly any input would get further.
    repair: bool,
}

impl Kind {
    fn new([codec, bits]: [u8; 2]) -> Kind {
        Kind {
            codec: usize::from(codec) % 6,
            width: 1 << (bits & 3),
            endian: if bits & 4 != 0 { "big" } else { "little" },
            checksum: bits & 8 != 0,
            sharded: bits & 16 != 0,
            rank_3: bits & 32 != 0,
            repair: bits & 64 != 0,
        }
    }

    /// Shapes of the array and of an inner chunk.
    fn shapes(&self) -> (Value, Value) {
        if self.rank_3 {
            (json!([64, 12, 2]), json!([32, 6, 2]))
        } else {
            (json!([64, 24]), json!([32, 12]))
        }
    }

    /// Bytes of a tile, an inner chunk or the chunk.
    fn tile_len(&self) -> usize {
        64 * 24 * self.width / if self.sharded { 4 } else { 1 }
    }

    fn array(&self) -> ArrayMeta {
        let (shape, inner) = self.shapes();
        let mut codecs = vec![json!({"name": "bytes", "configuration": {"endian": self.endian}})];
        match self.codec {
            0 => codecs.push(json!({"name": "zstd"})),
            1 => codecs.push(json!({"name": "gzip"})),
            2 => codecs.push(json!({"name": "zlib"})),
            3 => codecs.push(json!({"name": "lz4"})),
            4 => {}
            // What the container says counts.
            _ => codecs.push(
                json!({"name": "blosc", "configuration": {"cname": "zstd", "shuffle": "bitshuffle"}}),
            ),
        }
        if self.checksum {
            codecs.push(json!({"name": "crc32c"}));
        }
        let mut codecs = Value::from(codecs);
        if self.sharded {
            let index = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
            codecs = json!([{"name": "sharding_indexed", "configuration": {
                "chunk_shape": inner, "codecs": codecs, "index_codecs": index}}]);
        }
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": shape, "fill_value": 0,
            "data_type": format!("int{}", 8 * self.width),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
            "chunk_key_encoding": {"name": "default"}, "attributes": {}, "codecs": codecs,
        });
        ArrayMeta::from_v3("a", &document).unwrap()
    }

    /// The encoded chunk that `bytes` stand for.
    fn encoded(&self, bytes: &[u8]) -> Vec<u8> {
        if !self.repair {
            return bytes.to_vec();
        }
        if !self.sharded {
            return self.tile(bytes);
        }
        // The first byte says which inner chunks there are, and the second how the rest is divided among them.
        let (present, rest) = bytes.split_first().unwrap_or((&0, &[]));
        let (cut, mut rest) = rest.split_first().unwrap_or((&0, &[]));
        let (mut out, mut index) = (Vec::new(), Vec::new());
        for i in 0..4 {
            let mut entry = [u64::MAX; 2];
            if present >> i & 1 != 0 {
                let n = match i {
                    3 => rest.len(),
                    _ => rest.len() * usize::from(*cut) / 256,
                };
                let (piece, tail) = rest.split_at(n);
                rest = tail;
                let piece = self.tile(piece);
                entry = [out.len() as u64, piece.len() as u64];
                out.extend(piece);
            }
            index.extend(entry.iter().flat_map(|number| number.to_le_bytes()));
        }
        [out, index].concat()
    }

    fn tile(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        match self.codec {
            1 | 2 => out = wrapped(bytes, self.codec == 1, self.tile_len()),
            3 => {
                out = (self.tile_len() as u32).to_le_bytes().to_vec();
                out.extend(bytes);
            }
            5 if out.len() >= 16 => {
                let len = out.len() as u32;
                out[0] = 2;
                out[1] = 1;
                out[4..8].copy_from_slice(&(self.tile_len() as u32).to_le_bytes());
                out[12..16].copy_from_slice(&len.to_le_bytes());
            }
            _ => {}
        }
        if self.checksum {
            let sum = ::crc32c::crc32c(&out);
            out.extend(sum.to_le_bytes());
        }
        out
    }
}

/// `stream` as raw DEFLATE, with header and trailer of what it decodes to.
fn wrapped(stream: &[u8], gzip: bool, len: usize) -> Vec<u8> {
    let mut content = vec![0; len];
    let mut context = flate2::Decompress::new(false);
    let _ = context.decompress(stream, &mut content, flate2::FlushDecompress::Finish);
    content.truncate(context.total_out() as usize);
    if gzip {
        let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
        let sum = crc32fast::hash(&content).to_le_bytes();
        let size = (content.len() as u32).to_le_bytes();
        [&header, stream, &sum, &size].concat()
    } else {
        let (mut a, mut b) = (1u32, 0u32);
        for byte in &content {
            a = (a + u32::from(*byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        [&[0x78, 0x9c], stream, &(b << 16 | a).to_be_bytes()].concat()
    }
}

/// The target's body.
pub fn check(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first_chunk::<2>() else {
        return;
    };
    let kind = Kind::new(*kind);
    let array = kind.array();
    let chain = CodecChain::try_new(&array).unwrap();
    let planner = ChunkPlanner::try_new(&array, &chain).unwrap();
    let mut encoded = kind.encoded(bytes);
    let before = encoded.clone();
    let mut plan = ChunkPlan::default();
    let mut found = Err("there is no plan".into());
    let mut deflate = false;
    if planner.plan(&mut encoded, &mut plan).is_ok() {
        plan.verify(encoded.len(), chain.elements(), planner.width())
            .unwrap();
        let row = if kind.rank_3 { (12, 2) } else { (24, 1) };
        found = on_device(&planner, &plan, &encoded, row);
        deflate = plan
            .frames
            .iter()
            .any(|frame| frame.codec == FrameCodec::Deflate);
        plan.restore(&mut encoded);
    } else {
        assert!(plan.tiles.is_empty() && plan.frames.is_empty() && plan.decoded_len == 0);
    }
    assert!(encoded == before);
    match (found, on_host(&chain, &encoded)) {
        (Ok(found), Ok(expected)) => assert!(found == expected, "a device finds other elements"),
        // The host also looks where a DEFLATE stream ends. Either way the checksum is right.
        (Ok(_), Err(error)) => assert!(deflate, "a device accepts: {error}"),
        (Err(_), _) => {}
    }
}
