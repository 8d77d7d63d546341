//! Checks where COPY writes to, before its query runs: object_store would replace a pipe or a device by a file, tries for ever where a file
//! cannot be made although its folder is there (`/proc`), and DataFusion does not say why a text file was not written.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::logical_expr::LogicalPlan;

use super::vcz_format::EXTENSIONS;

/// Checks the target of a COPY to local files; does nothing for other statements, and for VCZ stores, whose writer looks itself.
///
/// # Errors
/// If the target is there and no regular file or folder, or nothing can be written to its folder.
pub async fn check(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Copy(copy) = plan else {
        return Ok(());
    };
    let Some(path) = local(&copy.output_url) else {
        return Ok(());
    };
    if EXTENSIONS.contains(&copy.file_type.get_ext().as_str()) {
        return Ok(());
    }
    let checked = tokio::task::spawn_blocking(move || check_path(&path)).await;
    checked.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

/// The path of a local location.
fn local(location: &str) -> Option<PathBuf> {
    match location.split_once("://") {
        Some(("file", _)) => url::Url::parse(location).ok()?.to_file_path().ok(),
        Some(_) => None,
        None => Some(PathBuf::from(location)),
    }
}

fn check_path(path: &Path) -> Result<()> {
    let shown = path.display();
    if let Ok(found) = fs::metadata(path)
        && !found.is_file()
        && !found.is_dir()
    {
        return exec_err!(
            "'{shown}' is not a regular file, and COPY replaces what is there; write to a file, or the rows to standard output: \
             vcz sql --format csv"
        );
    }
    let there = path.ancestors().find_map(|folder| {
        // The first of a relative path is empty.
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        let found = fs::metadata(folder).ok()?;
        // A file that is replaced.
        (folder != path || found.is_dir()).then_some(folder)
    });
    let tried = there.map_or(Ok(()), try_writing);
    tried.map_err(|error| exec_datafusion_err!("'{shown}' cannot be written: {error}"))
}

/// Makes a file in a folder, and removes it.
fn try_writing(folder: &Path) -> io::Result<()> {
    static TRIED: AtomicU64 = AtomicU64::new(0);
    let number = TRIED.fetch_add(1, Ordering::Relaxed);
    let file = folder.join(format!(".vcz-copy-{}-{number}", std::process::id()));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&file)?;
    fs::remove_file(&file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_can_be_targets() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.csv");
        for target in [folder.path(), &file, &folder.path().join("new/deep/x.csv")] {
            check_path(target).unwrap();
        }
        fs::write(&file, "a").unwrap();
        check_path(&file).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = check_path(&file.join("y.csv")).unwrap_err().to_string();
        assert!(error.contains("y.csv' cannot be written"), "{error}");
        assert_eq!(local("s3://box/x.csv"), None);
        assert_eq!(local("file:///a/x.csv"), Some(PathBuf::from("/a/x.csv")));
        assert_eq!(local("x.csv"), Some(PathBuf::from("x.csv")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_not_replaced() {
        let error = check_path(Path::new("/dev/full")).unwrap_err().to_string();
        assert!(
            error.contains("'/dev/full' is not a regular file"),
            "{error}"
        );
        // Nothing can be made there, whoever tries.
        let error = check_path(Path::new("/proc/x.csv"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("'/proc/x.csv' cannot be written"), "{error}");
    }
}
