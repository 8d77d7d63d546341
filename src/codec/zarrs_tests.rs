//! Every chunk of the fixtures, as the crate zarrs decodes it: what its own codecs and ours give must be the same bits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::ToByteSlice;
use futures::executor::block_on;
use object_store::memory::InMemory;
use zarrs::array::{Array, ArrayBytes};

use super::{ChunkData, CodecChain, Scratch};
use crate::store::{ArrayMeta, Store};

/// The archives of `tests/fixtures` and of its folders of layouts and codecs.
fn archives() -> Vec<PathBuf> {
    // The crate itself, or a package below it, compiles this.
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut fixtures = root.ancestors().map(|root| root.join("tests/fixtures"));
    let fixtures = fixtures.find(|path| path.is_dir()).unwrap();
    let mut archives = vec![];
    for folder in ["", "layouts", "codecs"] {
        let entries = std::fs::read_dir(fixtures.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        archives.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "zip")));
    }
    archives.sort();
    archives
}

fn open(path: &Path) -> Arc<Store> {
    let objects = Arc::new(InMemory::new());
    let location = path.display().to_string();
    let store = Store::open(objects, "".into(), location, Some(path.to_path_buf()));
    Arc::new(block_on(store).unwrap())
}

/// All indices of a grid.
fn indices(grid: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![vec![]];
    for &n in grid {
        all = all
            .iter()
            .flat_map(|index| (0..n).map(move |at| [index.as_slice(), &[at]].concat()))
            .collect();
    }
    all
}

/// Compares the chunks of an array. Returns whether they are the same, or why zarrs does not read it.
fn compare(store: &Arc<Store>, meta: &ArrayMeta) -> Result<bool, String> {
    let path = format!("/{}", meta.name);
    let opened = block_on(Array::async_open(Arc::clone(store), &path));
    let array = opened.map_err(|error| error.to_string())?;
    let chain = CodecChain::try_new(meta).unwrap();
    let mut scratch = Scratch::default();
    for index in &indices(&meta.grid_shape()) {
        let ours = match block_on(store.chunk(meta, index)).unwrap() {
            None => chain.fill_chunk().unwrap(),
            Some(encoded) => chain.decode(&encoded, &mut scratch).unwrap(),
        };
        match &ours {
            ChunkData::Fixed(bytes) => {
                let theirs = block_on(array.async_retrieve_chunk::<ArrayBytes>(index));
                let theirs = theirs.map_err(|error| error.to_string())?;
                let theirs = theirs.into_fixed().unwrap();
                if bytes.to_byte_slice() != &theirs[..] {
                    return Ok(false);
                }
            }
            ChunkData::Strings(strings) => {
                let theirs = block_on(array.async_retrieve_chunk::<Vec<String>>(index));
                let theirs = theirs.map_err(|error| error.to_string())?;
                if !strings.iter().eq(theirs.iter()) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

#[test]
fn zarrs_decodes_the_same() {
    let mut same = 0;
    let mut others = vec![];
    let mut refused = BTreeMap::<String, Vec<String>>::new();
    for path in archives() {
        let store = open(&path);
        for meta in store.arrays() {
            let name = path.file_name().unwrap().to_string_lossy();
            let array = format!("{name}/{}", meta.name);
            match compare(&store, meta) {
                Ok(true) => same += 1,
                Ok(false) => others.push(array),
                Err(reason) => refused.entry(reason).or_default().push(array),
            }
        }
    }
    for (reason, arrays) in &refused {
        println!("zarrs does not read {}: {reason}: {arrays:?}", arrays.len());
    }
    println!("{same} arrays are the same");
    assert!(same >= 1100, "{same}");
    // zarrs 0.23 keeps the scale and the offset of `fixedscaleoffset` as f32; zarr-python, which wrote the arrays, and this crate as f64.
    let known = ["v2", "v3"].map(|name| format!("{name}.vcz.zip/variant_scale_of_scale"));
    assert_eq!(others, known);
}
