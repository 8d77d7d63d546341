//! Reads zips without the library, so that its own reading of them is not what it is tested with.

use std::path::{Path, PathBuf};

/// Unpacks the store `zip` into a directory `NAME.vcz` under `folder` and gives its path.
pub fn unpack(zip: &Path, folder: &Path) -> PathBuf {
    let name = zip
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .trim_end_matches(".zip");
    let target = folder.join(name);
    let bytes = std::fs::read(zip).unwrap();
    for (key, data) in entries(&bytes) {
        let path = target.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    target
}

/// Entries of a plain zip of stored or deflated entries, read from its central directory.
pub fn entries(zip: &[u8]) -> Vec<(String, Vec<u8>)> {
    use std::io::Read;
    let u16_at = |at: usize| u16::from_le_bytes(zip[at..at + 2].try_into().unwrap()) as usize;
    let u32_at = |at: usize| u32::from_le_bytes(zip[at..at + 4].try_into().unwrap()) as usize;
    let end = zip
        .windows(4)
        .rposition(|window| window == b"PK\x05\x06")
        .expect("a zip");
    let (count, mut at) = (u16_at(end + 10), u32_at(end + 16));
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let (method, stored) = (u16_at(at + 10), u32_at(at + 20));
        let (name, extra, comment) = (u16_at(at + 28), u16_at(at + 30), u16_at(at + 32));
        let local = u32_at(at + 42);
        let key = String::from_utf8(zip[at + 46..at + 46 + name].to_vec()).unwrap();
        let data = local + 30 + u16_at(local + 26) + u16_at(local + 28);
        let bytes = &zip[data..data + stored];
        if !key.ends_with('/') {
            let data = if method == 0 {
                bytes.to_vec()
            } else {
                let mut inflated = Vec::new();
                flate2::read::DeflateDecoder::new(bytes)
                    .read_to_end(&mut inflated)
                    .unwrap();
                inflated
            };
            all.push((key, data));
        }
        at += 46 + name + extra + comment;
    }
    all
}
