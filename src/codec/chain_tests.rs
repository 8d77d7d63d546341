//! Tests of whole chains, with and without shards.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::testing::{encode_bytes, encode_vlen, noise, one_chunk, shard, transposed};
use super::super::{ChunkData, CodecChain, Scratch, StringChunk};
use crate::store::ArrayMeta;

fn strings(chunk: ChunkData) -> Vec<String> {
    match chunk {
        ChunkData::Strings(strings) => strings.iter().map(str::to_string).collect(),
        ChunkData::Fixed(_) => panic!("not strings"),
    }
}

fn fixed(chunk: ChunkData) -> Vec<u8> {
    match chunk {
        ChunkData::Fixed(buffer) => buffer.to_vec(),
        ChunkData::Strings(_) => panic!("strings"),
    }
}

fn permutation(rank: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..rank).collect::<Vec<_>>()).prop_shuffle()
}

/// Any bytes → bytes codecs, up to three in a row.
fn compressors(typesize: usize) -> impl Strategy<Value = Vec<Value>> {
    let blosc = (
        prop::sample::select(vec!["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"]),
        prop::sample::select(vec!["noshuffle", "shuffle", "bitshuffle"]),
    )
        .prop_map(move |(cname, shuffle)| {
            json!({"name": "blosc", "configuration": {"cname": cname, "shuffle": shuffle, "clevel": 5,
                "typesize": typesize, "blocksize": 256}})
        });
    let others = vec![
        "zstd",
        "gzip",
        "numcodecs.zlib",
        "numcodecs.lz4",
        "crc32c",
        "zlib",
        "lz4",
    ];
    let other = prop::sample::select(others).prop_map(|name| json!({"name": name}));
    prop::collection::vec(prop_oneof![blosc, other], 0..3)
}

fn encode_all(codecs: &[Value], bytes: Vec<u8>) -> Vec<u8> {
    codecs
        .iter()
        .fold(bytes, |bytes, codec| encode_bytes(codec, &bytes))
}

fn element() -> impl Strategy<Value = (Value, usize)> {
    prop::sample::select(vec![
        (json!("int8"), 1),
        (json!("bool"), 1),
        (json!("int16"), 2),
        (json!("float16"), 2),
        (json!("uint32"), 4),
        (json!("float64"), 8),
    ])
}

/// Elements as big-endian bytes where asked for; the test data are little-endian.
fn with_endian(bytes: &[u8], size: usize, big: bool) -> Vec<u8> {
    bytes
        .chunks_exact(size)
        .flat_map(|x| {
            if big {
                x.iter().rev().copied().collect::<Vec<_>>()
            } else {
                x.to_vec()
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn fixed_size_elements(
        ((data_type, size), codecs) in element().prop_flat_map(|e| (Just(e.clone()), compressors(e.1))),
        (shape, order) in (0usize..4).prop_flat_map(|rank| (prop::collection::vec(1usize..20, rank), permutation(rank))),
        big: bool, seed: u64,
    ) {
        let n: usize = shape.iter().product();
        let data: Vec<u8> = noise(n * size, seed).iter().map(|b| b & 3).collect();
        let items: Vec<Vec<u8>> = data.chunks_exact(size).map(<[u8]>::to_vec).collect();
        let (_, items) = transposed(&shape, &order, &items);
        let encoded = encode_all(&codecs, with_endian(&items.concat(), size, big));
        let mut all = vec![
            json!({"name": "transpose", "configuration": {"order": order}}),
            json!({"name": "bytes", "configuration": {"endian": if big { "big" } else { "little" }}}),
        ];
        all.extend(codecs);
        let chain = CodecChain::try_new(&one_chunk(&data_type, json!(null), &shape, &json!(all))).unwrap();
        let mut scratch = Scratch::default();
        let mut into = vec![0xaa; data.len()];
        chain.decode_into(&encoded, &mut into, &mut scratch).unwrap();
        prop_assert_eq!(&into, &data);
        prop_assert_eq!(fixed(chain.decode(&encoded, &mut scratch).unwrap()), data);
        prop_assert!(!chain.summary().is_empty());
    }

    #[test]
    fn text(
        (shape, order) in (0usize..4).prop_flat_map(|rank| (prop::collection::vec(1usize..6, rank), permutation(rank))),
        codecs in compressors(1), texts in prop::collection::vec("[^\0]{0,4}", 125), kind in 0..3, big: bool,
    ) {
        let n: usize = shape.iter().product();
        let (_, items) = transposed(&shape, &order, &texts[..n]);
        let utf32 = |text: &String| -> Vec<u8> {
            let units = text.chars().map(u32::from).chain([0; 4]).take(4);
            units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
        };
        let (data_type, serializer, bytes) = match kind {
            0 => (json!("string"), json!({"name": "vlen-utf8"}), encode_vlen(&items)),
            1 => (
                json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}}),
                json!({"name": "bytes", "configuration": {"endian": if big { "big" } else { "little" }}}),
                items.iter().flat_map(utf32).collect(),
            ),
            _ => (
                json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 16}}),
                json!({"name": "bytes"}),
                items.iter().flat_map(|t| t.bytes().chain([0; 16]).take(16).collect::<Vec<_>>()).collect(),
            ),
        };
        let mut all = vec![json!({"name": "transpose", "configuration": {"order": order}}), serializer];
        let encoded = encode_all(&codecs, bytes);
        all.extend(codecs);
        // Metadata have the fill value of bytes in base64.
        let fill = json!(if kind == 2 { "Lg==" } else { "." });
        let chain = CodecChain::try_new(&one_chunk(&data_type, fill, &shape, &json!(all))).unwrap();
        prop_assert_eq!(strings(chain.decode(&encoded, &mut Scratch::default()).unwrap()), &texts[..n]);
        prop_assert_eq!(strings(chain.fill_chunk().unwrap()), vec!["."; n]);
    }

    /// Shards of numbers and of strings, with some inner chunks missing, whole and by rows.
    #[test]
    fn shards(
        (inner, grid) in (0usize..4).prop_flat_map(|rank| {
            (prop::collection::vec(1usize..5, rank), prop::collection::vec(1usize..4, rank))
        }),
        codecs in compressors(2), outer in prop_oneof![Just(vec![]), compressors(1)],
        missing: u64, at_start: bool, checksum: bool, text: bool, seed: u64,
        rows in prop::collection::vec((0u64..16, 0u64..16), 0..3),
    ) {
        let shape: Vec<usize> = inner.iter().zip(&grid).map(|(a, b)| a * b).collect();
        let n: usize = shape.iter().product();
        let (fill, items): (Value, Vec<String>) = if text {
            (json!("??"), noise(n, seed).iter().map(|b| "ACGT"[..(b % 5) as usize].to_string()).collect())
        } else {
            (json!(7), noise(n, seed).iter().map(|b| (b % 9).to_string()).collect())
        };
        let number = |text: &String| text.parse::<i16>().unwrap().to_le_bytes();
        let is_missing = |i: usize| missing >> (i % 64) & missing >> (i / 2 % 64) & 1 == 1;
        let stored = shard(&shape, &inner, &items, at_start, checksum, |i, items| {
            let bytes = if text { encode_vlen(items) } else { items.iter().flat_map(number).collect() };
            (!is_missing(i)).then(|| encode_all(&codecs, bytes))
        });
        // What should come out: the items, with the fill value where an inner chunk is missing.
        let mut chunk_of = Vec::new();
        for k in 0..n {
            let (mut rest, mut chunk, mut weight) = (k, 0, 1);
            for axis in (0..shape.len()).rev() {
                chunk += rest % shape[axis] / inner[axis] * weight;
                weight *= grid[axis];
                rest /= shape[axis];
            }
            chunk_of.push(chunk);
        }
        let fill_text = if text { "??" } else { "7" };
        let expected: Vec<String> =
            items.iter().zip(&chunk_of).map(|(item, i)| if is_missing(*i) { fill_text.into() } else { item.clone() }).collect();
        let read = |chunk: ChunkData| -> Vec<String> {
            if text {
                strings(chunk)
            } else {
                fixed(chunk).chunks_exact(2).map(|x| i16::from_le_bytes([x[0], x[1]]).to_string()).collect()
            }
        };

        let serializer = if text { json!({"name": "vlen-utf8"}) } else { json!({"name": "bytes", "configuration": {"endian": "little"}}) };
        let mut index_codecs = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
        if checksum {
            index_codecs.push(json!({"name": "crc32c"}));
        }
        let inner_codecs: Vec<Value> = std::iter::once(serializer).chain(codecs.clone()).collect();
        let mut all = vec![json!({"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner, "codecs": inner_codecs, "index_codecs": index_codecs,
            "index_location": if at_start { "start" } else { "end" },
        }})];
        all.extend(outer.clone());
        let data_type = if text { json!("string") } else { json!("int16") };
        let chain = CodecChain::try_new(&one_chunk(&data_type, fill, &shape, &json!(all))).unwrap();
        let mut scratch = Scratch::default();
        let encoded = encode_all(&outer, stored.clone());
        prop_assert_eq!(read(chain.decode(&encoded, &mut scratch).unwrap()), expected.clone());

        prop_assert_eq!(chain.sharding().is_some(), outer.is_empty());
        if let Some(sharding) = chain.sharding() {
            let rows: Vec<_> = rows.iter().map(|(start, len)| *start..start + len).collect();
            let row_len: usize = shape.iter().skip(1).product();
            let bands = sharding.decode_rows(&stored, &rows, &mut scratch).unwrap();
            let mut covered = Vec::new();
            for (band_rows, chunk) in bands {
                let (start, end) = (band_rows.start as usize * row_len, band_rows.end as usize * row_len);
                prop_assert_eq!(read(chunk), &expected[start..end]);
                prop_assert!(rows.iter().any(|r| r.start < band_rows.end && band_rows.start < r.end));
                covered.extend(band_rows);
            }
            let height = shape.first().copied().unwrap_or(1) as u64;
            for row in rows.into_iter().flatten().filter(|row| *row < height) {
                prop_assert!(covered.contains(&row));
            }
        }
    }

    /// Damaged shards are refused or decode to something of the right size; nothing panics.
    #[test]
    fn damaged_shards(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u32..8), 0..4), cut in 0usize..40, text: bool,
        checksum: bool, at_start: bool, seed: u64,
    ) {
        let codecs = [json!({"name": "zstd"})];
        let items: Vec<u8> = noise(96, seed);
        let mut stored = shard(&[8, 12], &[4, 3], &items, at_start, checksum, |i, items| {
            let bytes = if text { encode_vlen(&items.iter().map(|_| "ACG").collect::<Vec<_>>()) } else { items.to_vec() };
            (i != 3).then(|| encode_all(&codecs, bytes))
        });
        for (at, bit) in flips {
            let len = stored.len();
            stored[at.index(len)] ^= 1 << bit;
        }
        stored.truncate(stored.len() - cut / 4);
        let mut index_codecs = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
        if checksum {
            index_codecs.push(json!({"name": "crc32c"}));
        }
        let serializer = if text { "vlen-utf8" } else { "bytes" };
        let all = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [4, 3], "codecs": [{"name": serializer}, {"name": "zstd"}], "index_codecs": index_codecs,
            "index_location": if at_start { "start" } else { "end" },
        }}]);
        let data_type = if text { json!("string") } else { json!("uint8") };
        let chain = CodecChain::try_new(&one_chunk(&data_type, json!(null), &[8, 12], &all)).unwrap();
        match chain.decode(&stored, &mut Scratch::default()) {
            Ok(ChunkData::Fixed(buffer)) => prop_assert_eq!(buffer.len(), 96),
            Ok(ChunkData::Strings(strings)) => prop_assert_eq!(strings.len(), 96),
            Err(_) => {}
        }
    }
}

#[test]
fn shards_in_shards() {
    let items: Vec<u8> = (0..64).collect();
    let index =
        json!([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]);
    let sharding = |shape: [usize; 2], codecs: Value| json!({"name": "sharding_indexed", "configuration": {"chunk_shape": shape, "codecs": codecs, "index_codecs": index}});
    let encoded = shard(&[8, 8], &[4, 4], &items, false, true, |_, items| {
        Some(shard(&[4, 4], &[2, 4], items, false, true, |_, items| {
            Some(encode_bytes(&json!({"name": "gzip"}), items))
        }))
    });
    let codecs = json!([sharding(
        [4, 4],
        json!([sharding(
            [2, 4],
            json!([{"name": "bytes"}, {"name": "gzip"}])
        )])
    )]);
    let chain =
        CodecChain::try_new(&one_chunk(&json!("int8"), json!(0), &[8, 8], &codecs)).unwrap();
    assert_eq!(
        fixed(chain.decode(&encoded, &mut Scratch::default()).unwrap()),
        items
    );
    assert_eq!(chain.summary(), "sharding(4x4: sharding(2x4: gzip))");

    // Too deep.
    let mut codecs = json!([{"name": "bytes"}]);
    for _ in 0..6 {
        codecs = json!([sharding([8, 8], codecs)]);
    }
    let error =
        CodecChain::try_new(&one_chunk(&json!("int8"), json!(0), &[8, 8], &codecs)).unwrap_err();
    assert!(error.contains("nested"), "{error}");
}

#[test]
fn shard_metadata() {
    let parse = |shape: &[usize], configuration: Value| {
        let codecs = json!([{"name": "sharding_indexed", "configuration": configuration}]);
        CodecChain::try_new(&one_chunk(&json!("int8"), json!(0), shape, &codecs)).map(|_| ())
    };
    let good = json!({"chunk_shape": [2, 2], "codecs": [{"name": "bytes"}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]});
    parse(&[4, 6], good.clone()).unwrap();
    assert!(
        parse(&[4, 5], good.clone())
            .unwrap_err()
            .contains("do not divide")
    );
    assert!(parse(&[4], good.clone()).is_err());
    for (key, value, reason) in [
        ("chunk_shape", json!([0, 2]), "do not divide"),
        ("chunk_shape", json!(["2", 2]), "chunk_shape"),
        (
            "codecs",
            json!([{"name": "bytes"}, {"name": "pcodec"}]),
            "'pcodec'",
        ),
        ("codecs", json!([]), "no codec"),
        ("codecs", json!([{}]), "no name"),
        ("index_codecs", json!([{"name": "zstd"}]), "index codec"),
    ] {
        let mut configuration = good.clone();
        configuration[key] = value;
        let error = parse(&[4, 6], configuration).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn unsupported_codecs_are_named() {
    let parse = |data_type: &str, codecs: Value| {
        CodecChain::try_new(&one_chunk(&json!(data_type), json!(null), &[4], &codecs)).map(|_| ())
    };
    for (data_type, codecs, reason) in [
        (
            "int8",
            json!([{"name": "bytes"}, {"name": "zfpy"}]),
            "'zfpy'",
        ),
        (
            "int8",
            json!([{"name": "categorize"}, {"name": "bytes"}]),
            "'categorize'",
        ),
        (
            "int8",
            json!([{"name": "vlen-utf8"}]),
            "'vlen-utf8' is not supported on elements of type int8",
        ),
        (
            "string",
            json!([{"name": "bytes"}]),
            "'bytes' is not supported on elements of type string",
        ),
        (
            "int8",
            json!([{"name": "bytes"}, {"name": "bytes"}]),
            "'bytes'",
        ),
        (
            "int8",
            json!([{"name": "transpose", "configuration": {"order": [0]}}]),
            "no codec turns",
        ),
        (
            "int8",
            json!([{"name": "bytes"}, {"name": "blosc", "configuration": {"cname": "lizard"}}]),
            "'lizard'",
        ),
        (
            "int8",
            json!([{"name": "bytes"}, {"name": "blosc", "configuration": {"shuffle": 3}}]),
            "'shuffle' is 3",
        ),
        ("int16", json!([{"name": "bytes"}]), "'endian' is missing"),
    ] {
        let error = parse(data_type, codecs).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
    let error = parse("int8", json!([{"name": "bytes"}, {"name": "zfpy"}])).unwrap_err();
    for name in [
        "blosc",
        "zstd",
        "gzip",
        "zlib",
        "lz4",
        "crc32c",
        "transpose",
        "vlen-utf8",
        "sharding_indexed",
        "lzma",
        "delta",
    ] {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn v2_metadata() {
    let parse = |changes: Value| {
        let mut zarray = json!({
            "zarr_format": 2, "shape": [10, 4, 2], "chunks": [5, 4, 2], "dtype": "|i1", "fill_value": null, "order": "C",
            "filters": null, "compressor": {"id": "blosc", "cname": "zstd", "clevel": 7, "shuffle": 2, "blocksize": 0},
        });
        for (key, value) in changes.as_object().unwrap() {
            zarray[key] = value.clone();
        }
        CodecChain::try_new(&ArrayMeta::from_v2("a", &zarray, None).unwrap()).unwrap()
    };
    let chain = parse(json!({}));
    assert_eq!(chain.summary(), "blosc(zstd, bitshuffle)");
    assert!(chain.as_plain_blosc().is_some());
    assert_eq!(fixed(chain.fill_chunk().unwrap()), [0; 40]);
    assert!(parse(json!({"order": "F"})).as_plain_blosc().is_none());
    assert!(parse(json!({"dtype": "<i2"})).as_plain_blosc().is_none());
    assert!(parse(json!({"dtype": "|S1"})).as_plain_blosc().is_none());
    assert_eq!(
        parse(json!({"order": "F", "dtype": ">i4"})).summary(),
        "transpose, big-endian, blosc(zstd, bitshuffle)"
    );
    let auto = json!({"compressor": {"id": "blosc", "cname": "lz4hc", "shuffle": -1}});
    assert_eq!(parse(auto).summary(), "blosc(lz4hc, bitshuffle)");
    let text = json!({"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": null});
    assert_eq!(parse(text).summary(), "vlen-utf8, uncompressed");
    let chain = parse(json!({"compressor": null, "fill_value": -1}));
    assert_eq!(chain.summary(), "uncompressed");
    assert_eq!(fixed(chain.fill_chunk().unwrap()), [255; 40]);
    assert!(!chain.is_sharded());
    // Sizes are the metadata's.
    let mut scratch = Scratch::default();
    assert!(
        chain
            .decode(&[0; 39], &mut scratch)
            .unwrap_err()
            .contains("39")
    );
    assert!(
        chain
            .decode(&[0; 41], &mut scratch)
            .unwrap_err()
            .contains("41 bytes, expected 40")
    );
    assert!(
        chain
            .decode_into(&[0; 40], &mut [0; 39], &mut scratch)
            .is_err()
    );
}

#[test]
fn tiny_bytes_do_not_allocate_huge_chunks() {
    let codecs = json!([{"name": "bytes"}, {"name": "zstd"}]);
    let chain =
        CodecChain::try_new(&one_chunk(&json!("int8"), json!(0), &[1 << 31], &codecs)).unwrap();
    let error = chain
        .decode(&[0; 60_000], &mut Scratch::default())
        .unwrap_err();
    assert!(error.contains("cannot hold"), "{error}");
}

#[test]
fn strings_need_their_own_type() {
    let chain = CodecChain::try_new(&one_chunk(
        &json!("string"),
        json!(""),
        &[2],
        &json!([{"name": "vlen-utf8"}]),
    ))
    .unwrap();
    assert!(
        chain
            .decode_into(&[], &mut [], &mut Scratch::default())
            .is_err()
    );
    assert!(chain.fixed_len().is_err());
    let chunk = chain.fill_chunk().unwrap();
    assert_eq!(
        chunk,
        ChunkData::Strings(StringChunk {
            offsets: vec![0, 0, 0],
            data: vec![]
        })
    );
}
