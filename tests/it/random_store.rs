//! A store with random genotypes of any type, shape, encoding and pattern of missing calls, the rest of it as in a fixture.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Numbers of a xorshift generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// How chunks, or inner chunks of shards, are encoded.
struct Encoding {
    name: &'static str,
    shuffle: usize,
    level: usize,
    blocksize: usize,
    width: usize,
    checksum: bool,
}

const SHUFFLES: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];

impl Encoding {
    fn random(random: &mut Random, width: usize) -> Self {
        let names = [
            "none",
            "zstd",
            "gzip",
            "zlib",
            "lz4",
            "blosc zstd",
            "blosc zstd",
            "blosc lz4",
            "blosc lz4hc",
            "blosc zlib",
        ];
        Self {
            name: random.one(&names),
            shuffle: random.below(3),
            level: random.below(10),
            blocksize: random.one(&[0, 0, 256, 1000, 16_384]),
            width,
            checksum: random.below(4) == 0,
        }
    }

    fn codecs(&self) -> Vec<Value> {
        let mut codecs = match self.name {
            "none" => vec![],
            "zstd" => {
                vec![json!({"name": "zstd", "configuration": {"level": 3, "checksum": false}})]
            }
            "gzip" => vec![json!({"name": "gzip", "configuration": {"level": 3}})],
            "zlib" => vec![json!({"name": "numcodecs.zlib", "configuration": {"level": 3}})],
            "lz4" => vec![json!({"name": "numcodecs.lz4", "configuration": {"acceleration": 1}})],
            blosc => vec![json!({"name": "blosc", "configuration": {
                "cname": blosc.strip_prefix("blosc ").unwrap(), "clevel": self.level, "shuffle": SHUFFLES[self.shuffle],
                "typesize": self.width, "blocksize": self.blocksize}})],
        };
        codecs.extend(self.checksum.then(|| json!({"name": "crc32c"})));
        codecs
    }

    fn encode(&self, bytes: &[u8]) -> Vec<u8> {
        let deflated = |window: u8| {
            let mut out = Vec::new();
            match window {
                0 => flate2::write::GzEncoder::new(&mut out, flate2::Compression::fast())
                    .write_all(bytes),
                _ => flate2::write::ZlibEncoder::new(&mut out, flate2::Compression::fast())
                    .write_all(bytes),
            }
            .unwrap();
            out
        };
        let mut out = match self.name {
            "none" => bytes.to_vec(),
            "zstd" => zstd::bulk::compress(bytes, 3).unwrap(),
            "gzip" => deflated(0),
            "zlib" => deflated(1),
            "lz4" => {
                let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
                out.extend(lz4_flex::block::compress(bytes));
                out
            }
            blosc => self.blosc(blosc.strip_prefix("blosc ").unwrap(), bytes),
        };
        if self.checksum {
            out.extend(crc32c::crc32c(&out).to_le_bytes());
        }
        out
    }

    fn blosc(&self, compressor: &str, bytes: &[u8]) -> Vec<u8> {
        let name = std::ffi::CString::new(compressor).unwrap();
        let mut out = vec![0u8; bytes.len() + 16];
        // SAFETY: both buffers are valid for the lengths given, and the name ends in a zero byte.
        let written = unsafe {
            blosc_src::blosc_compress_ctx(
                self.level as i32,
                self.shuffle as i32,
                self.width,
                bytes.len(),
                bytes.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                out.len(),
                name.as_ptr(),
                self.blocksize,
                1,
            )
        };
        assert!(written > 0, "blosc does not compress");
        out.truncate(written as usize);
        out
    }
}

/// Puts random genotypes into a store, with a random encoding. Gives the array's metadata, to show where something is wrong.
pub fn put_genotypes(store: &Path, random: &mut Random) -> String {
    let read = |key: &str| -> Value {
        serde_json::from_slice(&fs::read(store.join(key)).unwrap()).unwrap()
    };
    let mut array = read("call_genotype/zarr.json");
    let length = |array: &Value, axis: usize| array["shape"][axis].as_u64().unwrap() as usize;
    let n_alleles = length(&read("variant_allele/zarr.json"), 1);
    let (variants, samples) = (length(&array, 0), length(&array, 1));
    let ploidy = 1 + random.below(4);
    // More copies than the array has: padding.
    let copies = ploidy + random.one(&[0, 0, 1, 3]);
    let (width, data_type) = random.one(&[
        (1, "int8"),
        (1, "int8"),
        (1, "int8"),
        (2, "int16"),
        (4, "int32"),
        (8, "int64"),
    ]);
    let big = width > 1 && random.below(3) == 0;
    let encoding = Encoding::random(random, width);
    // Chunks of a few rows and samples, of everything, or something in between.
    let grid: [usize; 2] = match random.below(3) {
        0 => [1, 1],
        1 => [1, 1 + random.below(3)],
        _ => [1 + random.below(3), 1 + random.below(3)],
    };
    let is_sharded = grid != [1, 1];
    let inner = [10 + random.below(90), 3 + random.below(40), copies];
    let inner = if is_sharded {
        inner
    } else {
        [10 + random.below(2 * variants), inner[1], copies]
    };
    let chunk = [inner[0] * grid[0], inner[1] * grid[1], copies];

    let mut codecs = vec![
        json!({"name": "bytes", "configuration": {"endian": if big { "big" } else { "little" }}}),
    ];
    codecs.extend(encoding.codecs());
    if is_sharded {
        codecs = vec![json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner, "codecs": codecs, "index_location": "end",
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}})];
    }
    array["shape"] = json!([variants, samples, ploidy]);
    array["data_type"] = json!(data_type);
    array["chunk_grid"]["configuration"]["chunk_shape"] = json!(chunk);
    array["chunk_key_encoding"] = json!({"name": "default", "configuration": {"separator": "/"}});
    array["fill_value"] = json!(0);
    array["codecs"] = json!(codecs);

    // What codes there are: alleles, rare ones, missing and fill.
    let (rare, missing, fill) = (random.below(2) == 0, random.below(60), random.below(40));
    let inner_chunk = |random: &mut Random| -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..inner[0] * inner[1] * copies {
            let dice = random.below(256);
            let code = if dice < missing {
                -1
            } else if dice < missing + fill {
                -2
            } else if rare && dice < 245 {
                0
            } else {
                random.below(n_alleles) as i64
            };
            let start = bytes.len();
            bytes.extend_from_slice(&code.to_le_bytes()[..width]);
            if big {
                bytes[start..].reverse();
            }
        }
        encoding.encode(&bytes)
    };
    let folder = store.join("call_genotype");
    fs::remove_dir_all(&folder).unwrap();
    for row in 0..variants.div_ceil(chunk[0]) {
        for sample in 0..samples.div_ceil(chunk[1]) {
            // Absent chunks are all reference.
            if random.below(8) == 0 {
                continue;
            }
            let path = folder.join(format!("c/{row}/{sample}/0"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let bytes = if is_sharded {
                let (mut shard, mut index) = (Vec::new(), Vec::new());
                for _ in 0..grid[0] * grid[1] {
                    let entry = if random.below(6) == 0 {
                        [u64::MAX; 2]
                    } else {
                        let encoded = inner_chunk(random);
                        let start = shard.len() as u64;
                        shard.extend_from_slice(&encoded);
                        [start, encoded.len() as u64]
                    };
                    index.extend(entry.iter().flat_map(|number| number.to_le_bytes()));
                }
                index.extend(crc32c::crc32c(&index).to_le_bytes());
                [shard, index].concat()
            } else {
                inner_chunk(random)
            };
            fs::write(path, bytes).unwrap();
        }
    }
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("zarr.json"), array.to_string()).unwrap();
    array.to_string()
}

/// A store in `folder` for [`put_genotypes`]: the fixture `chunks7.v3`, unpacked by `unpack`.
pub fn prepare(unpack: fn(&Path, &Path) -> PathBuf, fixtures: &Path, folder: &Path) -> PathBuf {
    let store = unpack(&fixtures.join("chunks7.v3.vcz.zip"), folder);
    // The other arrays over samples would disagree about the ploidy, and the root may repeat the metadata of all.
    for name in ["call_genotype_mask", "call_genotype_phased"] {
        fs::remove_dir_all(store.join(name)).unwrap();
    }
    let root = store.join("zarr.json");
    let mut metadata: Value = serde_json::from_slice(&fs::read(&root).unwrap()).unwrap();
    metadata
        .as_object_mut()
        .unwrap()
        .remove("consolidated_metadata");
    fs::write(&root, metadata.to_string()).unwrap();
    store
}
