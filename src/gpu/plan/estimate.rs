//! Estimates of chunks, before any byte of them is read.

use serde_json::{Map, Value};

use super::chunk_plan::FrameCodec;
use crate::codec::blosc::Compressor;
use crate::codec::{BytesCodec, CodecChain, Serializer};
use crate::store::ArrayMeta;

/// What one chunk is expected to contain, from metadata alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Decoded bytes of a chunk; exact.
    pub decoded_bytes: usize,
    /// Frames of a chunk that decode independently of each other; 0 where nothing is compressed. For Blosc, whose metadata need
    /// not have the block size, a guess: the size that c-blosc 1.21 chooses.
    pub frames: usize,
    /// The frames' codec; `None` where nothing is compressed.
    pub codec: Option<FrameCodec>,
}

impl Estimate {
    /// A guess at the encoded bytes of a chunk: compressed genotypes are an eighth of the decoded ones or less.
    pub fn encoded_bytes(&self) -> usize {
        match self.codec {
            Some(_) => self.decoded_bytes / 8,
            None => self.decoded_bytes,
        }
    }
}

/// The estimate for chunks of `chain`, of `decoded_bytes`.
pub(super) fn of(array: &ArrayMeta, chain: &CodecChain, decoded_bytes: usize) -> Estimate {
    let (inner, tiles) = match chain.serializer() {
        Serializer::Sharding(sharding) => (sharding.inner(), sharding.n_inner().max(1)),
        _ => (chain, 1),
    };
    let tile_bytes = decoded_bytes / tiles;
    let (codec, frames) = match inner.compressors().first() {
        Some(BytesCodec::Blosc {
            compressor,
            high_compression,
            ..
        }) => {
            let width = chain.element().size().unwrap_or(1).max(1);
            let frames = blosc_frames(
                &blosc_configuration(array),
                *compressor,
                *high_compression,
                width,
                tile_bytes,
            );
            let codec = match compressor {
                Compressor::Zstd => Some(FrameCodec::Zstd),
                Compressor::Lz4 => Some(FrameCodec::Lz4),
                Compressor::Zlib => Some(FrameCodec::Deflate),
                Compressor::Blosclz | Compressor::Snappy => None,
            };
            (codec, frames)
        }
        Some(BytesCodec::Zstd) => (Some(FrameCodec::Zstd), 1),
        Some(BytesCodec::Lz4) => (Some(FrameCodec::Lz4), 1),
        Some(BytesCodec::Gzip | BytesCodec::Zlib) => (Some(FrameCodec::Deflate), 1),
        Some(BytesCodec::Crc32c { .. }) | None => (None, 1),
    };
    Estimate {
        decoded_bytes,
        frames: codec.map_or(0, |_| frames.saturating_mul(tiles)),
        codec,
    }
}

/// The configuration of the array's Blosc codec, or of the inner chunks' Blosc codec in shards; empty where there is none.
fn blosc_configuration(array: &ArrayMeta) -> Map<String, Value> {
    let is_blosc = |name: &str| matches!(name, "blosc" | "numcodecs.blosc");
    let inner = |shards: &Map<String, Value>| -> Option<Map<String, Value>> {
        let codecs = shards.get("codecs")?.as_array()?;
        let blosc = codecs.iter().find(|codec| {
            codec
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(is_blosc)
        });
        blosc?.get("configuration")?.as_object().cloned()
    };
    array
        .codecs
        .iter()
        .find_map(|codec| match codec.name.as_str() {
            name if is_blosc(name) => Some(codec.configuration.clone()),
            "sharding_indexed" => inner(&codec.configuration),
            _ => None,
        })
        .unwrap_or_default()
}

/// Number of splits in a container of `len` bytes, in elements of `width` (not 0) bytes: follows `compute_blocksize` and
/// `split_block` of c-blosc 1.21 in its default mode.
fn blosc_frames(
    configuration: &Map<String, Value>,
    compressor: Compressor,
    high_compression: bool,
    width: usize,
    len: usize,
) -> usize {
    const L1: usize = 32 << 10;
    const MIN_BUFFER: usize = 128;
    let number = |key: &str| {
        let value = configuration.get(key).and_then(Value::as_u64);
        value.and_then(|value| usize::try_from(value).ok())
    };
    let level = number("clevel").unwrap_or(5);
    let forced = number("blocksize").filter(|size| *size > 0);
    let large = matches!(compressor, Compressor::Zstd | Compressor::Zlib) || high_compression;
    let mut block = match forced {
        Some(size) => size.max(MIN_BUFFER),
        None if len < L1 => len,
        None => {
            let base = if large { 2 * L1 } else { L1 };
            match level {
                0 => base / 4,
                1 => base / 2,
                2 => base,
                3 => base * 2,
                4 | 5 => base * 4,
                6..=8 => base * 8,
                _ if large => base * 16,
                _ => base * 8,
            }
        }
    };
    let splits =
        |block: usize| compressor != Compressor::Zstd && width <= 16 && block / width >= MIN_BUFFER;
    if level > 0 && splits(block) {
        block = block.min(1 << 18).saturating_mul(width);
        block = block.clamp(1 << 16, 1 << 20);
    }
    block = block.min(len);
    if block > width {
        block -= block % width;
    }
    let block = block.max(1);
    let (whole, rest) = (len / block, usize::from(!len.is_multiple_of(block)));
    // A block that is shorter than the others is not split.
    let per_block = if splits(block) { width } else { 1 };
    whole * per_block + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::blosc::BloscHeader;
    use crate::codec::testing::{Form, c_compress, one_chunk};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_default_store() {
        let zarray = json!({
            "zarr_format": 2, "shape": [10_000, 20_000, 2], "chunks": [1000, 10_000, 2], "dtype": "|i1", "fill_value": null,
            "order": "C", "filters": null,
            "compressor": {"id": "blosc", "cname": "zstd", "clevel": 7, "shuffle": 2, "blocksize": 0},
        });
        let array = ArrayMeta::from_v2("a", &zarray, None).unwrap();
        let chain = CodecChain::try_new(&array).unwrap();
        let expected = Estimate {
            decoded_bytes: 20_000_000,
            frames: 39,
            codec: Some(FrameCodec::Zstd),
        };
        assert_eq!(of(&array, &chain, 20_000_000), expected);
    }

    #[test]
    fn shards_and_plain_codecs() {
        let index = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
        let estimate = |inner: Value| {
            let codecs = json!([{"name": "sharding_indexed", "configuration": {
                "chunk_shape": [2, 4], "codecs": inner, "index_codecs": index}}]);
            let array = one_chunk(&json!("int8"), json!(0), &[4, 8], &codecs);
            let chain = CodecChain::try_new(&array).unwrap();
            let Estimate {
                frames,
                codec,
                decoded_bytes,
            } = of(&array, &chain, 32);
            assert_eq!(decoded_bytes, 32);
            (frames, codec)
        };
        assert_eq!(estimate(json!([{"name": "bytes"}])), (0, None));
        assert_eq!(
            estimate(json!([{"name": "bytes"}, {"name": "gzip"}])),
            (4, Some(FrameCodec::Deflate))
        );
        let blosc =
            json!({"name": "blosc", "configuration": {"cname": "lz4", "shuffle": "noshuffle"}});
        assert_eq!(
            estimate(json!([{"name": "bytes"}, blosc])),
            (4, Some(FrameCodec::Lz4))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        /// The guess is what c-blosc does.
        #[test]
        fn frames_are_those_of_c_blosc(
            compressor in prop::sample::select(vec!["lz4", "lz4hc", "zlib", "zstd"]), level in 1..=9,
            width in prop::sample::select(vec![1usize, 2, 4, 8]), n in 16usize..60_000,
            blocksize in prop::sample::select(vec![0usize, 0, 300, 5000, 100_000]),
        ) {
            let len = n * width;
            let data: Vec<u8> = (0..len).map(|i| (i / 100) as u8).collect();
            let form = Form { compressor, shuffle: 0, level, typesize: width, blocksize };
            let src = c_compress(&data, &form);
            let header = BloscHeader::parse(&src).unwrap();
            prop_assume!(!header.memcpyed());
            let frames: usize = (0..header.n_blocks()).map(|i| header.n_splits(i)).sum();
            let kind = match compressor {
                "zstd" => Compressor::Zstd,
                "zlib" => Compressor::Zlib,
                _ => Compressor::Lz4,
            };
            let configuration = json!({"clevel": level, "blocksize": blocksize});
            let guess = blosc_frames(configuration.as_object().unwrap(), kind, compressor == "lz4hc", width, len);
            prop_assert_eq!(guess, frames);
        }
    }
}
