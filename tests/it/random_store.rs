//! A store with random genotypes of any type, shape, encoding and pattern of missing calls, and a field of their calls, the rest of it as
//! in a fixture.

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

    pub fn below(&mut self, end: usize) -> usize {
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
    let inner = [10 + random.below(90), 3 + random.below(40)];
    let inner = match grid {
        [1, 1] => [10 + random.below(2 * variants), inner[1]],
        _ => inner,
    };
    let layout = Layout {
        inner: vec![inner[0], inner[1], copies],
        grid,
        big,
        encoding,
    };
    array["shape"] = json!([variants, samples, ploidy]);
    array["data_type"] = json!(data_type);
    array["fill_value"] = json!(0);

    // What codes there are: alleles, rare ones, missing and fill.
    let (rare, missing, fill) = (random.below(2) == 0, random.below(60), random.below(40));
    let code = |random: &mut Random| {
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
        code.to_le_bytes()[..width].to_vec()
    };
    // Absent chunks are all reference.
    layout.write(&store.join("call_genotype"), &mut array, random, code);
    array.to_string()
}

/// The chunks of an array over samples.
struct Layout {
    /// The shape of chunks, or of the inner chunks of shards.
    inner: Vec<usize>,
    /// Inner chunks of a shard along variants and samples; one by one for no shards.
    grid: [usize; 2],
    big: bool,
    encoding: Encoding,
}

impl Layout {
    /// Writes an array of these chunks, some of them absent, with elements that are given little-endian; completes its metadata.
    fn write(
        &self,
        folder: &Path,
        array: &mut Value,
        random: &mut Random,
        element: impl Fn(&mut Random) -> Vec<u8>,
    ) {
        let (inner, grid) = (&self.inner, self.grid);
        let is_sharded = grid != [1, 1];
        let mut chunk = inner.clone();
        (chunk[0], chunk[1]) = (inner[0] * grid[0], inner[1] * grid[1]);
        let mut codecs = vec![
            json!({"name": "bytes", "configuration": {"endian": if self.big { "big" } else { "little" }}}),
        ];
        codecs.extend(self.encoding.codecs());
        if is_sharded {
            codecs = vec![json!({"name": "sharding_indexed", "configuration": {
                "chunk_shape": inner, "codecs": codecs, "index_location": "end",
                "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}})];
        }
        array["chunk_grid"]["configuration"]["chunk_shape"] = json!(chunk);
        array["chunk_key_encoding"] =
            json!({"name": "default", "configuration": {"separator": "/"}});
        array["codecs"] = json!(codecs);

        let inner_chunk = |random: &mut Random| -> Vec<u8> {
            let mut bytes = Vec::new();
            for _ in 0..inner.iter().product::<usize>() {
                let mut element = element(random);
                if self.big {
                    element.reverse();
                }
                bytes.extend(element);
            }
            self.encoding.encode(&bytes)
        };
        if folder.exists() {
            fs::remove_dir_all(folder).unwrap();
        }
        fs::create_dir_all(folder).unwrap();
        let length = |axis: usize| array["shape"][axis].as_u64().unwrap() as usize;
        let third = if inner.len() > 2 { "/0" } else { "" };
        for row in 0..length(0).div_ceil(chunk[0]) {
            for sample in 0..length(1).div_ceil(chunk[1]) {
                if random.below(8) == 0 {
                    continue;
                }
                let path = folder.join(format!("c/{row}/{sample}{third}"));
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
        fs::write(folder.join("zarr.json"), array.to_string()).unwrap();
    }
}

/// Puts a random field of calls into a store, `call_X`, after [`put_genotypes`]: usually in the chunks of the genotypes, with one value
/// for each call or several. Gives the array's metadata.
pub fn put_field(store: &Path, random: &mut Random) -> String {
    let genotypes = fs::read(store.join("call_genotype/zarr.json")).unwrap();
    let mut array: Value = serde_json::from_slice(&genotypes).unwrap();
    let lengths = |shape: &Value| -> Vec<usize> {
        let lengths = shape.as_array().unwrap().iter();
        lengths.map(|n| n.as_u64().unwrap() as usize).collect()
    };
    let chunk = lengths(&array["chunk_grid"]["configuration"]["chunk_shape"]);
    let mut inner = match array["codecs"][0]["name"].as_str() {
        Some("sharding_indexed") => lengths(&array["codecs"][0]["configuration"]["chunk_shape"]),
        _ => chunk.clone(),
    };
    let grid = [chunk[0] / inner[0], chunk[1] / inner[1]];
    if random.below(8) == 0 {
        inner[0] += 1;
    }
    let (width, data_type) = random.one(&[
        (1, "int8"),
        (1, "int8"),
        (1, "uint8"),
        (1, "bool"),
        (2, "int16"),
        (4, "int32"),
        (8, "int64"),
        (4, "uint32"),
        (4, "float32"),
        (8, "float64"),
    ]);
    let (mut shape, values) = (lengths(&array["shape"]), random.below(4));
    shape.truncate(2);
    inner.truncate(2);
    let mut names = vec!["variants", "samples"];
    if values > 0 {
        shape.push(values);
        inner.push(values + random.one(&[0, 0, 2]));
        names.push("values");
    }
    array["shape"] = json!(shape);
    array["data_type"] = json!(data_type);
    array["dimension_names"] = json!(names);
    array["fill_value"] = match data_type {
        "bool" => json!(false),
        _ => json!(0),
    };
    let layout = Layout {
        inner,
        grid,
        big: width > 1 && random.below(3) == 0,
        encoding: Encoding::random(random, width),
    };
    let is_float = data_type.starts_with("float");
    let value = |random: &mut Random| -> Vec<u8> {
        let number = random.below(9) as i64 - 3;
        // The codes of missing and fill, and another NaN.
        let special = random.below(6);
        let bits: u64 = match (is_float, width) {
            (true, 4) if special < 3 => [0x7F80_0001, 0x7F80_0002, 0x7FC0_0000][special],
            (true, _) if special < 3 => [
                0x7FF0_0000_0000_0001,
                0x7FF0_0000_0000_0002,
                0x7FF8_0000_0000_0000,
            ][special],
            (true, 4) => (number as f32 / 2.0).to_bits().into(),
            (true, _) => (number as f64 / 2.0).to_bits(),
            (false, _) if data_type == "bool" => (number as u64) & 1,
            (false, _) => number as u64,
        };
        bits.to_le_bytes()[..width].to_vec()
    };
    layout.write(&store.join("call_X"), &mut array, random, value);
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
