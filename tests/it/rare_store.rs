//! A store of many individuals in which most alleles are rare, the rest of it as in a fixture.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::random_store::Random;

/// Puts genotypes of so many diploid individuals into a store that is [prepared](crate::random_store::prepare), and their ids. At most of the variants few copies have
/// the allele, or few have the reference.
pub fn put_rare_alleles(store: &Path, random: &mut Random, individuals: usize) {
    let put = |name: &str, shape: Value, chunk: Value, codecs: Vec<Value>| {
        let key = store.join(name).join("zarr.json");
        let mut array: Value = serde_json::from_slice(&fs::read(&key).unwrap()).unwrap();
        array["shape"] = shape;
        array["chunk_grid"]["configuration"]["chunk_shape"] = chunk;
        array["chunk_key_encoding"] =
            json!({"name": "default", "configuration": {"separator": "/"}});
        array["codecs"] = json!(codecs);
        fs::remove_dir_all(store.join(name)).unwrap();
        fs::create_dir_all(store.join(name)).unwrap();
        fs::write(key, array.to_string()).unwrap();
    };
    let put_chunk = |key: String, bytes: Vec<u8>| {
        let path = store.join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let ids = (0..individuals).map(|id| format!("individual {id}"));
    let mut bytes = (individuals as u32).to_le_bytes().to_vec();
    for id in ids {
        bytes.extend((id.len() as u32).to_le_bytes());
        bytes.extend(id.as_bytes());
    }
    let codecs = vec![json!({"name": "vlen-utf8"})];
    put(
        "sample_id",
        json!([individuals]),
        json!([individuals]),
        codecs,
    );
    put_chunk("sample_id/c/0".to_string(), bytes);

    let array: Value =
        serde_json::from_slice(&fs::read(store.join("call_genotype/zarr.json")).unwrap()).unwrap();
    let variants = array["shape"][0].as_u64().unwrap() as usize;
    let (copies, rows) = (2 * individuals, 10 + random.below(90));
    let codecs = vec![
        json!({"name": "bytes"}),
        json!({"name": "zstd", "configuration": {"level": 3, "checksum": false}}),
    ];
    put(
        "call_genotype",
        json!([variants, individuals, 2]),
        json!([rows, individuals, 2]),
        codecs,
    );
    for chunk in 0..variants.div_ceil(rows) {
        let mut calls = vec![0; rows * copies];
        for row in calls.chunks_exact_mut(copies) {
            let carriers = match random.below(8) {
                0 => random.below(copies),
                _ => random.below(12),
            };
            for _ in 0..carriers {
                let copy = random.below(copies);
                row[copy] = 1;
                row[copy ^ 1] |= u8::from(random.below(3) == 0);
            }
            // Then copies of the reference are few.
            if random.below(4) == 0 {
                row.iter_mut().for_each(|allele| *allele ^= 1);
            }
        }
        put_chunk(
            format!("call_genotype/c/{chunk}/0/0"),
            zstd::bulk::compress(&calls, 3).unwrap(),
        );
    }
}
