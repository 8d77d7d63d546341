//! Random arrays of one chunk, in every encoding that a device decodes.

use std::ops::RangeInclusive;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::codec::CodecChain;
use crate::codec::testing::{Form, c_compress, encode_bytes, noise, one_chunk, shard};
use crate::store::ArrayMeta;

/// How bytes become bytes.
#[derive(Debug, Clone)]
pub(in crate::gpu) struct Compression {
    name: &'static str,
    shuffle: usize,
    level: i32,
    blocksize: usize,
    /// CRC-32Cs outside of it; whether before the bytes.
    checksums: Vec<bool>,
}

/// One chunk of an array.
#[derive(Debug, Clone)]
pub(in crate::gpu) struct Case {
    data_type: &'static str,
    pub width: usize,
    pub shape: Vec<usize>,
    compression: Compression,
    pub big: bool,
    shards: Option<Shards>,
    kind: u32,
    seed: u64,
}

#[derive(Debug, Clone)]
struct Shards {
    grid: Vec<usize>,
    missing: u64,
    at_start: bool,
    checksum: bool,
    outer: Vec<bool>,
}

const SHUFFLES: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];

impl Compression {
    fn codecs(&self, width: usize) -> Vec<Value> {
        let mut codecs = Vec::new();
        match self.name {
            "none" => {}
            "zstd" | "gzip" | "zlib" | "lz4" => codecs.push(json!({"name": self.name})),
            blosc => codecs.push(json!({"name": "blosc", "configuration": {
                "cname": blosc.strip_prefix("blosc-").unwrap(), "shuffle": SHUFFLES[self.shuffle], "clevel": self.level,
                "typesize": width, "blocksize": self.blocksize}})),
        }
        codecs.extend(checksum_codecs(&self.checksums));
        codecs
    }

    fn encode(&self, bytes: &[u8], width: usize) -> Vec<u8> {
        let encoded = match self.name {
            "none" => bytes.to_vec(),
            "zstd" | "gzip" | "zlib" | "lz4" => encode_bytes(&json!({"name": self.name}), bytes),
            blosc => c_compress(
                bytes,
                &Form {
                    compressor: blosc.strip_prefix("blosc-").unwrap(),
                    shuffle: self.shuffle as i32,
                    level: self.level,
                    typesize: width,
                    blocksize: self.blocksize,
                },
            ),
        };
        add_checksums(&self.checksums, encoded)
    }
}

fn checksum_codecs(checksums: &[bool]) -> impl Iterator<Item = Value> {
    checksums.iter().map(|at_start| {
        let location = if *at_start { "start" } else { "end" };
        json!({"name": "numcodecs.crc32c", "configuration": {"location": location}})
    })
}

fn add_checksums(checksums: &[bool], bytes: Vec<u8>) -> Vec<u8> {
    checksums.iter().fold(bytes, |mut bytes, at_start| {
        let sum = ::crc32c::crc32c(&bytes).to_le_bytes();
        let at = if *at_start { 0 } else { bytes.len() };
        bytes.splice(at..at, sum);
        bytes
    })
}

impl Case {
    /// Its metadata, its chain and its encoded chunk.
    pub fn make(&self) -> (ArrayMeta, CodecChain, Vec<u8>) {
        let (array, chain) = self.array();
        (array, chain, self.encode(&self.data()))
    }

    /// Its metadata and its chain.
    pub fn array(&self) -> (ArrayMeta, CodecChain) {
        let mut codecs = vec![json!({"name": "bytes",
            "configuration": {"endian": if self.big { "big" } else { "little" }}})];
        codecs.extend(self.compression.codecs(self.width));
        if let Some(shards) = &self.shards {
            let mut index = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
            index.extend(shards.checksum.then(|| json!({"name": "crc32c"})));
            codecs = vec![json!({"name": "sharding_indexed", "configuration": {
                "chunk_shape": self.inner(shards), "codecs": codecs, "index_codecs": index,
                "index_location": if shards.at_start { "start" } else { "end" }}})];
            codecs.extend(checksum_codecs(&shards.outer));
        }
        let fill = if self.data_type == "bool" {
            json!(false)
        } else {
            json!(0)
        };
        let array = one_chunk(&json!(self.data_type), fill, &self.shape, &json!(codecs));
        let chain = CodecChain::try_new(&array).unwrap();
        (array, chain)
    }

    /// The shape of inner chunks.
    fn inner(&self, shards: &Shards) -> Vec<usize> {
        let lengths = self.shape.iter().zip(&shards.grid);
        lengths.map(|(len, n)| len / n).collect()
    }

    /// A chunk of these serialized elements. Inner chunks that are left out become zeros.
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        match &self.shards {
            None => self.compression.encode(data, self.width),
            Some(shards) => {
                let inner = self.inner(shards);
                let items: Vec<&[u8]> = data.chunks_exact(self.width).collect();
                let stored = shard(
                    &self.shape,
                    &inner,
                    &items,
                    shards.at_start,
                    shards.checksum,
                    |i, items| {
                        let is_missing = shards.missing >> (i % 64) & 1 == 1;
                        (!is_missing).then(|| self.compression.encode(&items.concat(), self.width))
                    },
                );
                add_checksums(&shards.outer, stored)
            }
        }
    }

    /// A field of the calls of these genotypes, encoded as `other` is: in the same chunks and inner chunks, with `per_call` values of
    /// a call.
    pub fn field(&self, other: &Case, per_call: Option<usize>) -> Case {
        let shape = self.shape[..2].iter().copied().chain(per_call);
        let shards = self.shards.clone().map(|shards| Shards {
            grid: shards.grid[..2]
                .iter()
                .copied()
                .chain(per_call.map(|_| 1))
                .collect(),
            missing: other.seed & other.seed >> 7,
            ..shards
        });
        Case {
            shape: shape.collect(),
            shards,
            ..other.clone()
        }
    }

    /// Samples, and elements of a sample.
    pub fn row_shape(&self) -> (usize, usize) {
        let at = |axis: usize| self.shape.get(axis).copied().unwrap_or(1);
        (at(1), at(2))
    }

    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of all elements as they are serialized.
    fn data(&self) -> Vec<u8> {
        let len = self.elements() * self.width;
        let noise = noise(len, self.seed);
        let numbers = |f: &dyn Fn(u8) -> u8| -> Vec<u8> {
            let low = if self.big { self.width - 1 } else { 0 };
            let bytes = noise.iter().enumerate();
            bytes
                .map(|(i, byte)| if i % self.width == low { f(*byte) } else { 0 })
                .collect()
        };
        match self.kind {
            // Alleles; rare ones; with some missing; nothing; anything.
            0 => numbers(&|byte| byte & 1),
            1 => numbers(&|byte| u8::from(byte < 4)),
            2 => numbers(&|byte| if byte < 12 { 255 } else { byte & 3 }),
            3 => vec![0; len],
            _ => noise,
        }
    }
}

fn compression() -> impl Strategy<Value = Compression> {
    let names = vec![
        "none",
        "zstd",
        "gzip",
        "zlib",
        "lz4",
        "blosc-zstd",
        "blosc-zstd",
        "blosc-zstd",
        "blosc-lz4",
        "blosc-lz4hc",
        "blosc-zlib",
    ];
    let sizes = vec![0usize, 0, 0, 128, 256, 1000, 4096, 16_384, 65_536];
    (
        prop::sample::select(names),
        0usize..3,
        0i32..=9,
        prop::sample::select(sizes),
        prop_oneof![
            Just(vec![]),
            Just(vec![]),
            prop::collection::vec(any::<bool>(), 1..3)
        ],
    )
        .prop_map(|(name, shuffle, level, blocksize, checksums)| Compression {
            name,
            shuffle,
            level,
            blocksize,
            checksums,
        })
}

fn shards(rank: usize) -> impl Strategy<Value = Option<Shards>> {
    let one = (
        prop::collection::vec(1usize..4, rank),
        any::<u64>(),
        any::<u64>(),
        any::<bool>(),
        any::<bool>(),
        prop_oneof![
            Just(vec![]),
            Just(vec![]),
            prop::collection::vec(any::<bool>(), 1..3)
        ],
    )
        .prop_map(|(mut grid, a, b, at_start, checksum, outer)| {
            if let Some(n) = grid.get_mut(2) {
                *n = 1;
            }
            Shards {
                grid,
                missing: a & b,
                at_start,
                checksum,
                outer,
            }
        });
    prop_oneof![2 => Just(None), 1 => one.prop_map(Some)]
}

/// Chunks of up to some `rows * samples * copies` elements.
pub(in crate::gpu) fn cases(rows: usize, samples: usize) -> impl Strategy<Value = Case> {
    let types = vec![
        ("int8", 1),
        ("int8", 1),
        ("uint8", 1),
        ("bool", 1),
        ("int16", 2),
        ("float16", 2),
        ("uint32", 4),
        ("float32", 4),
        ("int64", 8),
        ("float64", 8),
    ];
    cases_of(types, 1..=3, (1..=rows, 1..=samples, 1..=3))
}

/// Chunks of genotypes of up to some `rows * samples` calls.
pub(in crate::gpu) fn genotypes(rows: usize, samples: usize) -> impl Strategy<Value = Case> {
    let types = vec![
        ("int8", 1),
        ("int8", 1),
        ("int8", 1),
        ("int16", 2),
        ("int32", 4),
        ("int64", 8),
    ];
    cases_of(types, 3..=3, (1..=rows, 1..=samples, 1..=5))
}

type Lengths = (
    RangeInclusive<usize>,
    RangeInclusive<usize>,
    RangeInclusive<usize>,
);

fn cases_of(
    types: Vec<(&'static str, usize)>,
    ranks: RangeInclusive<usize>,
    lengths: Lengths,
) -> impl Strategy<Value = Case> {
    let shaped = (ranks, lengths).prop_flat_map(|(rank, (rows, samples, copies))| {
        let shape: Vec<usize> = [rows, samples, copies][..rank].to_vec();
        (Just(shape), shards(rank))
    });
    (
        prop::sample::select(types),
        shaped,
        compression(),
        any::<bool>(),
        0u32..5,
        any::<u64>(),
    )
        .prop_map(
            |((data_type, width), (mut shape, shards), compression, big, kind, seed)| {
                if let Some(shards) = &shards {
                    // Shards hold a whole number of inner chunks.
                    for (len, n) in shape.iter_mut().zip(&shards.grid) {
                        *len = len.next_multiple_of(*n);
                    }
                }
                Case {
                    data_type,
                    width,
                    shape,
                    compression,
                    big,
                    shards,
                    kind,
                    seed,
                }
            },
        )
}
