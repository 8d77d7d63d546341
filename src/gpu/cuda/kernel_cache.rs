//! A cache of compiled kernels on disk: each image is a file that ends with its length and checksum.
//!
//! [`kernels`](super::kernels) chooses the file names. Invariant: only complete images are returned, even if other processes or
//! machines write the same file: the driver gets no length, so it would read beyond the end of an incomplete image.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes after an image: its length and its CRC-32C, both little-endian.
const TRAILER: usize = 8 + 4;

/// The cache folder: `VCZ_KERNEL_CACHE`, else `datafusion-vcz/kernels` in the user's cache folder.
pub fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("VCZ_KERNEL_CACHE") {
        return Some(folder.into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    Some(cache.join("datafusion-vcz").join("kernels"))
}

/// The image in a file; `None` if it is missing or damaged.
pub fn load(path: &Path) -> Option<Vec<u8>> {
    let mut image = fs::read(path).ok()?;
    let len = image.len().checked_sub(TRAILER)?;
    if len == 0 || image[len..] != trailer(&image[..len]) {
        log::debug!("'{}' is damaged and will be compiled again", path.display());
        return None;
    }
    image.truncate(len);
    Some(image)
}

/// Writes an image to a file that others may read or write at the same time.
///
/// # Errors
/// The error of the file system.
pub fn store(path: &Path, image: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // A process id would not be unique across machines and containers.
    let unique = RandomState::new().build_hasher().finish();
    let temporary = path.with_extension(format!("{unique:016x}.tmp"));
    let written = File::create_new(&temporary).and_then(|mut file| {
        file.write_all(image)?;
        file.write_all(&trailer(image))?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // Best effort: no other process uses this name.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn trailer(image: &[u8]) -> [u8; TRAILER] {
    let mut trailer = [0; TRAILER];
    trailer[..8].copy_from_slice(&(image.len() as u64).to_le_bytes());
    trailer[8..].copy_from_slice(&crc32c::crc32c(image).to_le_bytes());
    trailer
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn only_complete_images_are_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper").join("count.cu.sm_90.cubin");
        assert_eq!(load(&path), None);
        let image: Vec<u8> = (0..300u32).map(|at| (at * at) as u8).collect();
        store(&path, &image).unwrap();
        assert_eq!(load(&path).as_deref(), Some(image.as_slice()));
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(load(&path), None, "{len} bytes");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            assert_eq!(load(&path), None, "byte {at}");
        }
        // An image of an earlier version, without a trailer, and an empty image.
        for bytes in [&image[..], &trailer(&[])] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(load(&path), None);
        }
        store(&path, &image).unwrap();
        assert_eq!(load(&path), Some(image));
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "temporary files are left");
    }

    #[test]
    fn several_threads_may_write_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zstd.cu.sm_90.cubin");
        let image = vec![9; 1 << 20];
        store(&path, &image).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        store(&path, &image).unwrap();
                        assert_eq!(load(&path).map(|found| found == image), Some(true));
                    }
                });
            }
        });
    }

    #[test]
    fn a_failed_write_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gather.cu.cubin");
        fs::create_dir(&path).unwrap();
        store(&path, b"image").unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
