//! Every chunk of every array of the fixtures that a device decodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;
use object_store::memory::InMemory;

use super::{on_device, on_host};
use crate::codec::CodecChain;
use crate::gpu::plan::{ChunkPlan, ChunkPlanner};
use crate::store::{ArrayMeta, Store};

fn stores() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut paths = Vec::new();
    for folder in [folder.clone(), folder.join("layouts")] {
        let entries = std::fs::read_dir(folder).unwrap();
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    paths.retain(|path| path.to_str().unwrap().ends_with(".vcz.zip"));
    paths.sort();
    paths
}

fn chunks(array: &ArrayMeta) -> Vec<Vec<u64>> {
    array.grid_shape().iter().fold(vec![vec![]], |indices, n| {
        let longer = |index: &Vec<u64>, i: u64| [&index[..], &[i]].concat();
        indices
            .iter()
            .flat_map(|index| (0..*n).map(move |i| longer(index, i)))
            .collect()
    })
}

#[test]
fn all_chunks_of_all_arrays() {
    let mut plan = ChunkPlan::default();
    let (mut n_chunks, mut kinds, mut refusals) = (0, BTreeMap::new(), BTreeMap::new());
    for path in stores() {
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let open = Store::open(
            Arc::new(InMemory::new()),
            object_store::path::Path::default(),
            name.clone(),
            Some(path.clone()),
        );
        // One has no version and is not a store to us.
        let Ok(store) = block_on(open) else {
            continue;
        };
        for array in store.arrays() {
            let Ok(chain) = CodecChain::try_new(array) else {
                continue;
            };
            let planner = match ChunkPlanner::try_new(array, &chain) {
                Ok(planner) => planner,
                Err(reason) => {
                    refusals
                        .entry(reason.to_string())
                        .or_insert_with(|| name.clone());
                    continue;
                }
            };
            for index in chunks(array) {
                let Some(bytes) = block_on(store.chunk(array, &index)).unwrap() else {
                    continue;
                };
                let label = format!("{name}: {} {index:?}", array.name);
                let mut encoded = bytes.to_vec();
                if let Err(reason) = planner.plan(&mut encoded, &mut plan) {
                    let expected = name.contains("zstd-checksum") && reason.contains("checksum");
                    assert!(expected, "{label}: {reason}");
                    refusals
                        .entry(reason.to_string())
                        .or_insert_with(|| name.clone());
                    continue;
                }
                plan.verify(encoded.len(), chain.elements(), planner.width())
                    .unwrap();
                let at = |axis: usize| chain.shape().get(axis).copied().unwrap_or(1);
                let found = on_device(&planner, &plan, &encoded, (at(1), at(2))).unwrap();
                assert!(found == on_host(&chain, &bytes).unwrap(), "{label}");
                n_chunks += 1;
                *kinds.entry(planner.summary()).or_insert(0) += 1;
            }
        }
    }
    assert!(n_chunks > 2000, "only {n_chunks} chunks: {kinds:?}");
    for kind in [
        "blosc(zstd, bitshuffle)",
        "blosc(lz4, shuffle)",
        "blosc(zlib, noshuffle)",
        "zstd",
        "gzip",
        "zlib",
        "lz4",
        "uncompressed",
    ] {
        assert!(kinds.contains_key(kind), "no chunk of {kind}: {kinds:?}");
    }
    let is_sharded = |kind: &&String| kind.starts_with("sharding(");
    assert!(kinds.keys().filter(is_sharded).count() >= 4, "{kinds:?}");
    for reason in [
        "text",
        "transposed",
        "blosclz",
        "snappy",
        "fill value",
        "one compressor after another",
        "checksum",
    ] {
        assert!(
            refusals.keys().any(|found| found.contains(reason)),
            "{reason}: {refusals:?}"
        );
    }
}
