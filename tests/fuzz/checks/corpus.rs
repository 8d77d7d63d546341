//! Runs the inputs that fuzzing kept through the target's check, without a sanitizer.

use std::path::Path;

/// Calls `check` with every file of a target's corpus.
pub fn replay(target: &str, check: fn(&[u8])) {
    // The crate itself, or a package below it that compiles the same sources.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root
        .ancestors()
        .map(|folder| folder.join("tests/fuzz/corpus").join(target))
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| panic!("no tests/fuzz/corpus/{target} in or above {root:?}"));
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{folder:?} is empty");
    for file in files {
        // Shown if the check panics.
        println!("{}", file.display());
        check(&std::fs::read(&file).unwrap());
    }
}
