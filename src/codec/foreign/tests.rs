//! Arrays that zarr-python wrote with these codecs, and chains that lie.

use std::path::PathBuf;
use std::sync::Arc;

use futures::executor::block_on;
use object_store::memory::InMemory;
use serde_json::{Value, json};

use super::super::testing::one_chunk;
use super::super::{ChunkData, CodecChain, CodecError, Scratch, Serializer};
use crate::store::{ArrayMeta, Store};

/// A fixture of `tests/fixtures/host_codecs.py`. The crate itself, or a package below it, compiles this.
fn fixture(name: &str) -> Store {
    let file = format!("tests/fixtures/codecs/{name}.vcz.zip");
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.ancestors().map(|folder| folder.join(&file));
    let path = path.into_iter().find(|path| path.is_file()).unwrap();
    let objects = Arc::new(InMemory::new());
    let location = path.display().to_string();
    block_on(Store::open(objects, "".into(), location, Some(path))).unwrap()
}

fn chunks(store: &Store, array: &ArrayMeta) -> Vec<ChunkData> {
    let chain = CodecChain::try_new(array).unwrap_or_else(|e| panic!("{}: {e}", array.name));
    let mut scratch = Scratch::default();
    (0..array.grid_shape()[0])
        .map(|row| {
            let mut index = vec![0; array.rank()];
            index[0] = row;
            match block_on(store.chunk(array, &index)).unwrap() {
                None => chain.fill_chunk().unwrap(),
                Some(encoded) => {
                    chain.check_plausible(&encoded).unwrap();
                    let decoded = chain.decode(&encoded, &mut scratch);
                    decoded.unwrap_or_else(|e| panic!("{}: {e}", array.name))
                }
            }
        })
        .collect()
}

#[test]
fn what_zarr_python_wrote() {
    for (name, n) in [("v2", 38), ("v3", 22)] {
        let store = fixture(name);
        let mut cases = 0;
        for array in store.arrays() {
            let Some((case, of)) = array.name.split_once("_of_") else {
                continue;
            };
            let chain = CodecChain::try_new(array).unwrap();
            let summary = chain.summary();
            assert!(!summary.ends_with("uncompressed"), "{case}: {summary}");
            assert!(chain.as_plain_blosc().is_none());
            let plain = store.require_array(&format!("variant_{of}")).unwrap();
            // Padding of the last chunk is whatever the writer left there.
            let rows = array.shape[0] as usize;
            let (found, expected) = (chunks(&store, array), chunks(&store, plain));
            assert_eq!(
                values(array, &found, rows),
                values(plain, &expected, rows),
                "{name} {case}"
            );
            cases += 1;
        }
        assert!(cases >= n, "{name}: {cases}");
    }
}

/// The elements of the rows of the array, as text.
fn values(array: &ArrayMeta, chunks: &[ChunkData], rows: usize) -> Vec<String> {
    let row: usize = array.chunks[1..].iter().product::<u64>() as usize;
    let elements = chunks.iter().flat_map(|chunk| match chunk {
        ChunkData::Strings(strings) => strings.iter().map(str::to_owned).collect::<Vec<_>>(),
        ChunkData::Fixed(bytes) => {
            let size = array.element.size().unwrap();
            bytes
                .chunks(size)
                .map(|element| format!("{element:?}"))
                .collect()
        }
    });
    elements.take(rows * row).collect()
}

#[test]
fn whole_tables() {
    let stores = ["lzma_v2", "delta_v2", "delta_v3"].map(fixture);
    let calls = stores.iter().map(|store| {
        let array = store.require_array("call_genotype").unwrap();
        let chain = CodecChain::try_new(array).unwrap();
        assert!(matches!(chain.serializer(), Serializer::Foreign(_)));
        values(array, &chunks(store, array), 100)
    });
    let calls: Vec<_> = calls.collect();
    assert_eq!(calls[0].len(), 100 * 8 * 2);
    assert!(calls[0] == calls[1] && calls[1] == calls[2]);
}

fn chain(data_type: &str, shape: &[usize], codecs: Value) -> Result<CodecChain, CodecError> {
    CodecChain::try_new(&one_chunk(&json!(data_type), Value::Null, shape, &codecs))
}

#[test]
fn summaries() {
    let delta = json!({"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}});
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    for (codecs, summary) in [
        (json!([delta, bytes, {"name": "zstd"}]), "delta, zstd"),
        (
            json!([transpose, bytes, {"name": "numcodecs.bz2"}]),
            "transpose, bz2",
        ),
        (json!([transpose, delta, bytes]), "transpose, delta"),
        (json!([delta, transpose, bytes]), "delta, transpose"),
        (
            json!([{"name": "numcodecs.pcodec"}, {"name": "crc32c"}]),
            "pcodec, crc32c",
        ),
    ] {
        let chain = chain("int32", &[4, 6], codecs).unwrap();
        assert_eq!(chain.summary(), summary);
        assert!(!chain.is_sharded() && chain.compressors().is_empty());
    }
}

#[test]
fn the_packbits_of_zarr() {
    let chain = chain(
        "bool",
        &[11],
        json!([{"name": "packbits"}, {"name": "numcodecs.lzma"}]),
    );
    assert_eq!(chain.unwrap().summary(), "packbits, lzma");
    let configuration = json!({"padding_encoding": "first_byte"});
    let codecs = json!([{"name": "packbits", "configuration": configuration}]);
    let bits =
        super::super::CodecChain::try_new(&one_chunk(&json!("bool"), Value::Null, &[11], &codecs));
    let bits = bits.unwrap();
    // From the lowest bit up, and five unused bits.
    let decoded = bits.decode(&[5, 0b1000_0101, 0b0000_0110], &mut Scratch::default());
    let expected = [1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1];
    assert!(matches!(decoded, Ok(ChunkData::Fixed(flags)) if flags.as_slice() == expected));
    for wrong in [&[4, 1, 1][..], &[5, 1], &[], &[5, 1, 1, 1]] {
        assert!(bits.decode(wrong, &mut Scratch::default()).is_err());
    }
}

#[test]
fn refusals() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let named =
        |name: &str, configuration: Value| json!({"name": name, "configuration": configuration});
    let delta = named("numcodecs.delta", json!({"dtype": "<i4"}));
    for (data_type, codecs, part) in [
        (
            "int32",
            json!([delta, bytes, {"name": "nonsense"}]),
            "'nonsense' is not supported",
        ),
        (
            "int32",
            json!([delta, {"name": "nonsense"}, bytes]),
            "'nonsense' is not supported",
        ),
        (
            "int32",
            json!([delta]),
            "no codec turns elements into bytes",
        ),
        ("int64", json!([delta, bytes]), "delta"),
        ("string", json!([delta, {"name": "vlen-utf8"}]), "delta"),
        (
            "int8",
            json!([{"name": "numcodecs.packbits"}, bytes]),
            "expected bool",
        ),
        (
            "int8",
            json!([{"name": "numcodecs.pcodec"}]),
            "two, four or eight",
        ),
        (
            "int32",
            json!([bytes, named("numcodecs.shuffle", json!({"elementsize": 0}))]),
            "elementsize",
        ),
        (
            "int32",
            json!([bytes, named("numcodecs.lzma", json!({"format": 7}))]),
            "lzma",
        ),
        (
            "bool",
            json!([named("packbits", json!({"first_bit": 1}))]),
            "first_bit",
        ),
        (
            "int32",
            json!([named("packbits", json!({"last_bit": 64}))]),
            "last_bit",
        ),
        (
            "int32",
            json!([named("packbits", json!({"first_bit": 9, "last_bit": 3}))]),
            "last_bit",
        ),
        ("int32", json!(vec![delta.clone(); 17]), "at most 16"),
        ("int32", json!([delta, {"name": "vlen-utf8"}]), "vlen-utf8"),
    ] {
        let error = chain(data_type, &[4], codecs.clone()).unwrap_err();
        assert!(error.contains(part), "{codecs}: {error}");
    }
    let filled = json!([delta, {"name": "sharding_indexed", "configuration": {
        "chunk_shape": [2], "codecs": [bytes], "index_codecs": [bytes]}}]);
    let array = one_chunk(&json!("int32"), json!(3), &[4], &filled);
    assert!(
        CodecChain::try_new(&array)
            .unwrap_err()
            .contains("fill value")
    );
    let array = one_chunk(&json!("int32"), json!(0), &[4], &filled);
    assert!(CodecChain::try_new(&array).is_ok());
}

#[test]
fn lying_sizes() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let mut scratch = Scratch::default();
    let decode = |codecs: Value, encoded: &[u8], scratch: &mut Scratch| {
        let chain = chain("int32", &[1 << 18], codecs).unwrap();
        chain.decode(encoded, scratch).unwrap_err()
    };
    // Too few bytes for any compression.
    for name in [
        "numcodecs.bz2",
        "numcodecs.lzma",
        "numcodecs.fletcher32",
        "numcodecs.shuffle",
    ] {
        let src: &[u8] = if name == "numcodecs.bz2" { &[] } else { &[0] };
        let error = decode(json!([bytes, {"name": name}]), src, &mut scratch);
        assert!(error.contains("cannot hold"), "{name}: {error}");
    }
    // A frame of zstd that says 2^46 bytes, beneath bzip2.
    let frame = [
        0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 64, 0, 0, 1, 0, 0,
    ];
    let bomb = zip_bz2(&frame);
    let codecs = json!([bytes, {"name": "zstd"}, {"name": "numcodecs.bz2"}]);
    decode(codecs, &bomb, &mut scratch);
    // 8 MiB of zeros where 1 MiB belongs, at each of two steps.
    let zeros = vec![0; 8 << 20];
    let (once, twice) = (zip_bz2(&zeros), zip_bz2(&zip_bz2(&zeros)));
    let bz2 = json!({"name": "numcodecs.bz2"});
    let error = decode(json!([bytes, bz2]), &once, &mut scratch);
    assert!(error.contains("more than 1048576 bytes"), "{error}");
    let error = decode(json!([bytes, bz2, bz2]), &twice, &mut scratch);
    assert!(error.contains("more than 1048576 bytes"), "{error}");
    let lies = json!([{"name": "vlen-utf8"}, bz2]);
    let strings = CodecChain::try_new(&one_chunk(&json!("string"), Value::Null, &[3], &lies));
    let claimed = zip_bz2(&[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, b'A']);
    assert!(strings.unwrap().decode(&claimed, &mut scratch).is_err());
}

#[test]
fn reshaped_and_squeezed() {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let mut scratch = Scratch::default();
    let mut decode = |shape: &[usize], codecs: Value, encoded: &[u8]| {
        let array = one_chunk(&json!("int8"), json!(0), shape, &codecs);
        let chain = CodecChain::try_new(&array)?;
        match chain.decode(encoded, &mut scratch)? {
            ChunkData::Fixed(buffer) => Ok::<_, CodecError>(buffer.to_vec()),
            ChunkData::Strings(_) => panic!("text"),
        }
    };
    let reshape = |shape: Value| json!({"name": "reshape", "configuration": {"shape": shape}});
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    let encoded: Vec<u8> = (0..6).collect();
    // The elements stay where they are.
    let flat = json!([reshape(json!([[0, 1]])), bytes]);
    assert_eq!(decode(&[2, 3], flat, &encoded).unwrap(), encoded);
    let squeeze = json!([{"name": "squeeze"}, {"name": "crc32c"}]);
    assert!(decode(&[6, 1], squeeze, &encoded).is_err(), "no serializer");
    // Six elements as 3 × 2, encoded column by column.
    let columns = [0, 2, 4, 1, 3, 5];
    let codecs = json!([reshape(json!([3, -1])), transpose, bytes]);
    assert_eq!(decode(&[6], codecs, &columns).unwrap(), encoded);
    // A transpose before: 2 × 3 turned to 3 × 2, then flat.
    let codecs = json!([transpose, reshape(json!([[0, 1]])), bytes]);
    assert_eq!(
        decode(&[2, 3], codecs, &[0, 3, 1, 4, 2, 5]).unwrap(),
        encoded
    );
    // Without dimensions of one element, in shards of three.
    let inner = json!({"chunk_shape": [3], "codecs": [bytes], "index_codecs": [bytes], "index_location": "end"});
    let codecs = json!([{"name": "squeeze"}, {"name": "sharding_indexed", "configuration": inner}]);
    let mut shard = encoded.clone();
    for (at, length) in [(0u64, 3u64), (3, 3)] {
        shard.extend(at.to_le_bytes());
        shard.extend(length.to_le_bytes());
    }
    assert_eq!(decode(&[6, 1], codecs, &shard).unwrap(), encoded);
    for (shape, part) in [
        (json!([7]), "as many elements"),
        (json!([-1, 4]), "as many elements"),
        (json!([u64::MAX, u64::MAX]), "as many elements"),
        (json!(-1), "expected a list"),
    ] {
        let error = decode(&[6], json!([reshape(shape), bytes]), &encoded).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let text = json!([transpose, {"name": "squeeze"}, {"name": "vlen-utf8"}]);
    let text = one_chunk(&json!("string"), json!(""), &[2, 1], &text);
    let error = CodecChain::try_new(&text).unwrap_err();
    assert!(error.contains("not supported"), "{error}");
}

fn zip_bz2(data: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(1));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}
