//! [`FolderTarget`]: a store in a folder, written below a temporary name beside it and renamed at the end.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::temporaries;
use super::write_error::{exists, failed, not_a_store};
use crate::error::Result;

/// A store, or arrays of one, that is written to a folder.
#[derive(Debug)]
pub struct FolderTarget {
    location: String,
    path: PathBuf,
    temporary: PathBuf,
    /// Names of the arrays that are added to the store; `None` if the whole store is written.
    arrays: Option<Vec<String>>,
    overwrite: bool,
    /// Folders that were made.
    folders: Mutex<HashSet<PathBuf>>,
}

impl FolderTarget {
    /// A new store at `path`.
    ///
    /// # Errors
    /// If `path` exists and `overwrite` is not set, or it is no store; or nothing can be written beside it.
    pub fn create(location: String, path: PathBuf, overwrite: bool) -> Result<Self> {
        check_target(&location, &path, overwrite)?;
        let temporary = temporary_beside(&path).map_err(|error| failed(&location, "", error))?;
        let made = fs::create_dir_all(&temporary);
        made.map_err(|error| failed(&location, &shown(&temporary), error))?;
        temporaries::note(&temporary);
        Ok(Self {
            location,
            path,
            temporary,
            arrays: None,
            overwrite,
            folders: Mutex::default(),
        })
    }

    /// New arrays of the store at `path`.
    ///
    /// # Errors
    /// If an array exists and `overwrite` is not set, or nothing can be written in the store's folder.
    pub fn add(
        location: String,
        path: PathBuf,
        arrays: Vec<String>,
        overwrite: bool,
    ) -> Result<Self> {
        for array in &arrays {
            if !overwrite && path.join(array).symlink_metadata().is_ok() {
                return Err(exists(&format!("array '{array}' of store '{location}'")));
            }
        }
        let inside = path.join(arrays.first().map_or("arrays", String::as_str));
        let temporary = temporary_beside(&inside).map_err(|error| failed(&location, "", error))?;
        let made = fs::create_dir(&temporary);
        made.map_err(|error| failed(&location, &shown(&temporary), error))?;
        temporaries::note(&temporary);
        Ok(Self {
            location,
            path,
            temporary,
            arrays: Some(arrays),
            overwrite,
            folders: Mutex::default(),
        })
    }

    /// Writes the file `key`.
    ///
    /// # Errors
    /// Of the file system.
    pub fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let path = self.temporary.join(key);
        let written = self
            .make_folder_of(&path)
            .and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| failed(&self.location, key, error))
    }

    fn make_folder_of(&self, path: &Path) -> io::Result<()> {
        let Some(folder) = path.parent() else {
            return Ok(());
        };
        if self.folders.lock().contains(folder) {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        self.folders.lock().insert(folder.to_path_buf());
        Ok(())
    }

    /// Writes the documents and gives the folder, or the arrays' folders, their names.
    ///
    /// # Errors
    /// Of the file system; or if something has got the name meanwhile.
    pub fn publish(&self, documents: Vec<(String, String)>) -> Result<()> {
        for (key, text) in &documents {
            self.put(key, text.as_bytes())?;
        }
        self.name_all()?;
        remove_temporary(&self.temporary);
        Ok(())
    }

    fn name_all(&self) -> Result<()> {
        match &self.arrays {
            None => self.name(&self.temporary, &self.path, &format!("'{}'", self.location)),
            Some(arrays) => {
                for (at, array) in arrays.iter().enumerate() {
                    let what = format!("array '{array}' of store '{}'", self.location);
                    let named =
                        self.name(&self.temporary.join(array), &self.path.join(array), &what);
                    if named.is_err() && !self.overwrite {
                        // All arrays or none: those that were named get their temporary names again.
                        for array in &arrays[..at] {
                            let _ = fs::rename(self.path.join(array), self.temporary.join(array));
                        }
                    }
                    named?;
                }
                Ok(())
            }
        }
    }

    /// Renames `from` to `to`, in the place of what is there if that may be replaced.
    fn name(&self, from: &Path, to: &Path, what: &str) -> Result<()> {
        match put_in_place(from, to, self.overwrite) {
            Ok(()) => Ok(()),
            Err(error) if !self.overwrite && is_there(&error) => Err(exists(what)),
            Err(error) => Err(failed(&self.location, &shown(to), error)),
        }
    }
}

impl Drop for FolderTarget {
    fn drop(&mut self) {
        remove_temporary(&self.temporary);
    }
}

/// Returns an error if something is at `path` that is not to be replaced: anything without `overwrite`, else what is neither a store nor an
/// empty folder.
pub(super) fn check_target(location: &str, path: &Path, overwrite: bool) -> Result<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    if !overwrite {
        return Err(exists(&format!("'{location}'")));
    }
    let is_store = match fs::read_dir(path) {
        Ok(mut entries) => {
            let mut documents = [".zgroup", ".zmetadata", "zarr.json"].iter();
            documents.any(|document| path.join(document).is_file()) || entries.next().is_none()
        }
        Err(_) => {
            let mut begin = [0; 2];
            let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
            read.is_ok() && begin == *b"PK"
        }
    };
    match is_store {
        true => Ok(()),
        false => Err(not_a_store(location)),
    }
}

/// A name beside `path` that no other statement uses: `.NAME.tmp-…`.
///
/// # Errors
/// If `path` has no name.
pub(super) fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path has no name of a file or folder",
        )
    })?;
    let mut random = [0; 8];
    getrandom::getrandom(&mut random).map_err(io::Error::other)?;
    let random = u64::from_le_bytes(random);
    Ok(path.with_file_name(format!(".{}.tmp-{random:016x}", name.to_string_lossy())))
}

/// Removes a temporary file or folder once, if it is there: either what was not published, or what a published store has replaced.
pub(super) fn remove_temporary(path: &Path) {
    if !temporaries::forget(path) {
        return;
    }
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        log::warn!(
            "cannot remove '{}', which is not needed any more: {error}",
            shown(path)
        );
    }
}

/// Renames `from` to `to`. With `overwrite` what was there gets the name `from`, for the caller to remove; `to` is never absent in between
/// where the file system can exchange two names.
pub(super) fn put_in_place(from: &Path, to: &Path, overwrite: bool) -> io::Result<()> {
    match rename_unless_there(from, to) {
        Err(error) if overwrite && is_there(&error) => {}
        done => return done,
    }
    exchange(from, to)
}

fn is_there(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
    )
}

#[cfg(target_os = "linux")]
fn rename_unless_there(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system knows these flags.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => checked_rename(from, to),
        done => Ok(done?),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_unless_there(from: &Path, to: &Path) -> io::Result<()> {
    checked_rename(from, to)
}

fn checked_rename(from: &Path, to: &Path) -> io::Result<()> {
    if to.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => exchange_in_steps(one, other),
        done => Ok(done?),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    exchange_in_steps(one, other)
}

fn exchange_in_steps(one: &Path, other: &Path) -> io::Result<()> {
    let aside = temporary_beside(other)?;
    fs::rename(other, &aside)?;
    let renamed = fs::rename(one, other);
    // On failure what was there gets its name again.
    fs::rename(&aside, if renamed.is_ok() { one } else { other })?;
    renamed
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_store_gets_its_name_at_the_end_or_leaves_nothing() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("x.vcz");
        let create = |overwrite| FolderTarget::create("x.vcz".into(), path.clone(), overwrite);
        let target = create(false).unwrap();
        target.put("a/0/0", b"chunk").unwrap();
        assert!(!path.exists() && names(work.path())[0].starts_with(".x.vcz.tmp-"));
        drop(target);
        assert!(names(work.path()).is_empty());

        let (one, other) = (create(false).unwrap(), create(false).unwrap());
        one.put("a/0", b"1").unwrap();
        other.put("b/0", b"2").unwrap();
        one.publish(vec![(".zgroup".into(), "{}".into())]).unwrap();
        let error = other.publish(vec![]).unwrap_err().to_string();
        assert!(error.contains("'vcz.overwrite'"), "{error}");
        drop((one, other));
        assert_eq!(names(work.path()), ["x.vcz"]);
        assert_eq!(names(&path), [".zgroup", "a"]);
        assert!(create(false).is_err());

        let target = create(true).unwrap();
        target.put("c/0", b"3").unwrap();
        target.publish(vec![]).unwrap();
        drop(target);
        assert_eq!(names(&path), ["c"]);
        let error = create(true).unwrap_err().to_string();
        assert!(error.contains("is not a VCZ store"), "{error}");
        assert_eq!(names(work.path()), ["x.vcz"]);
    }

    #[test]
    fn arrays_are_added_to_a_store() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().to_path_buf();
        let add = |overwrite| {
            FolderTarget::add(
                "s".into(),
                path.clone(),
                vec!["variant_m".into()],
                overwrite,
            )
        };
        let target = add(false).unwrap();
        target.put("variant_m/0", b"1").unwrap();
        target
            .publish(vec![("variant_m/.zarray".into(), "{}".into())])
            .unwrap();
        drop(target);
        assert_eq!(names(&path), ["variant_m"]);
        assert!(add(false).unwrap_err().to_string().contains("'variant_m'"));
        let target = add(true).unwrap();
        target.put("variant_m/7", b"1").unwrap();
        target.publish(vec![]).unwrap();
        drop(target);
        assert_eq!(names(&path.join("variant_m")), ["7"]);
    }
}
