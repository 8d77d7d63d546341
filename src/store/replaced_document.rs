//! Replaces a document of a store at once: readers see the one before, or all of the new one. In an object store it is replaced only if it
//! has not changed since its version was asked for, where the store can do that.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path as FilePath, PathBuf};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};

use super::files::blocking;
use super::read_error::ReadError;
use super::source::{StoreSource, below};
use super::vcz_store::Store;
use crate::error::{Result, VczError};

/// The version of a document.
#[derive(Debug, Clone)]
pub(super) enum Version {
    /// Nothing is known that could be compared.
    Unknown,
    /// There is no document.
    Absent,
    /// What the object store calls this version.
    Of(UpdateVersion),
}

impl Store {
    /// The version of the document `key`. In a folder it is not known: statements lock the folder.
    ///
    /// # Errors
    /// [`VczError::Io`] of the object store.
    pub(super) async fn version_of(&self, key: &str) -> Result<Version> {
        let StoreSource::Objects { objects, root, .. } = &self.source else {
            return Ok(Version::Unknown);
        };
        let path = below(root, key).map_err(|error| self.io_error(key, error))?;
        match objects.head(&path).await {
            Ok(found) if found.e_tag.is_some() => Ok(Version::Of(UpdateVersion {
                e_tag: found.e_tag,
                version: found.version,
            })),
            Ok(_) => Ok(Version::Unknown),
            Err(Error::NotFound { .. }) => Ok(Version::Absent),
            Err(error) => Err(self.io_error(key, ReadError::from(error))),
        }
    }

    /// Writes the document `key` over this version. Returns whether that was done; it is not if the document has changed since.
    ///
    /// # Errors
    /// [`VczError::Write`] of the file system or object store.
    pub(super) async fn write_over(
        &self,
        key: &str,
        text: String,
        before: Version,
    ) -> Result<bool> {
        let written = match &self.source {
            StoreSource::Directory { root, .. } => {
                let path = root.join(key);
                blocking(move || Ok(replace(&path, text.as_bytes())?))
                    .await
                    .map(|()| true)
            }
            StoreSource::Objects { objects, root, .. } => match below(root, key) {
                Ok(path) => put_over(&**objects, &path, text, before).await,
                Err(error) => Err(error),
            },
            StoreSource::Zip(_) => Err(ReadError::Corrupt("archives are not changed".to_owned())),
        };
        written.map_err(|error| match self.io_error(key, error) {
            VczError::Io { store, key, source } => VczError::Write { store, key, source },
            other => other,
        })
    }
}

/// Writes an object over this version. Returns whether that was done.
async fn put_over(
    objects: &dyn ObjectStore,
    path: &Path,
    text: String,
    before: Version,
) -> Result<bool, ReadError> {
    let text = Bytes::from(text);
    let payload = || PutPayload::from(text.clone());
    let mode = match before {
        Version::Unknown => PutMode::Overwrite,
        Version::Absent => PutMode::Create,
        Version::Of(version) => PutMode::Update(version),
    };
    let error = match objects.put_opts(path, payload(), mode.into()).await {
        Ok(_) => return Ok(true),
        Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
            objects.put(path, payload()).await?;
            return Ok(true);
        }
        Err(error) => error,
    };
    // It is our own if the answer was lost.
    let found = async { objects.get(path).await?.bytes().await };
    match error {
        _ if found.await.is_ok_and(|found| found == text) => Ok(true),
        Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. } => {
            Ok(false)
        }
        error => Err(error.into()),
    }
}

/// Replaces the file at `path`: readers see the one before, or all of the new one.
fn replace(path: &FilePath, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(FilePath::new("."));
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = write_new(&temporary, path, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // It may not have been made.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_folder(folder.to_owned())
}

fn write_new(temporary: &FilePath, path: &FilePath, bytes: &[u8]) -> io::Result<()> {
    // A run that was killed may have left one.
    if let Err(error) = fs::remove_file(temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = File::create_new(temporary)?;
    if let Ok(before) = fs::metadata(path) {
        file.set_permissions(before.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(unix)]
fn sync_folder(folder: PathBuf) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_folder: PathBuf) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".zmetadata");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(replace(&folder.path().join("absent/x"), b"").is_err());
    }
}
