//! [`Target`]: where a store is written: a folder, an archive, or the objects below a path.

use std::path::PathBuf;
use std::sync::Arc;

use super::archive::ArchiveTarget;
use super::blocking::blocking_work;
use super::folder::FolderTarget;
use super::objects::ObjectsTarget;
use super::place::Place;
use crate::error::Result;

/// A store, or arrays of one, while they are written. Dropping it before [`Target::publish`] removes what was written.
#[derive(Debug)]
pub enum Target {
    /// A folder.
    Folder(Arc<FolderTarget>),
    /// A zip archive.
    Archive(Arc<ArchiveTarget>),
    /// Objects below a path.
    Objects(Box<ObjectsTarget>),
}

impl Target {
    /// A new store at `place`. An archive that goes to an object store is first written to the file `scratch`.
    ///
    /// # Errors
    /// If something is there already and `overwrite` is not set, or the place cannot be written to.
    pub async fn create(
        place: Place,
        is_archive: bool,
        overwrite: bool,
        scratch: Option<PathBuf>,
    ) -> Result<Self> {
        Ok(match (is_archive, place.local.clone()) {
            (true, local) => {
                let target = ArchiveTarget::create(place, local, overwrite, scratch).await?;
                Self::Archive(Arc::new(target))
            }
            (false, Some(path)) => {
                let made =
                    blocking_work(move || FolderTarget::create(place.location, path, overwrite));
                Self::Folder(Arc::new(made.await?))
            }
            (false, None) => {
                Self::Objects(Box::new(ObjectsTarget::create(place, overwrite).await?))
            }
        })
    }

    /// New arrays of the store at `place`, which is a folder or objects below a path.
    ///
    /// # Errors
    /// If an array is there already and `overwrite` is not set, or the place cannot be written to.
    pub async fn add(place: Place, arrays: Vec<String>, overwrite: bool) -> Result<Self> {
        Ok(match place.local.clone() {
            Some(path) => {
                let made = blocking_work(move || {
                    FolderTarget::add(place.location, path, arrays, overwrite)
                });
                Self::Folder(Arc::new(made.await?))
            }
            None => Self::Objects(Box::new(
                ObjectsTarget::add(place, arrays, overwrite).await?,
            )),
        })
    }

    /// Writes a chunk.
    ///
    /// # Errors
    /// Of the file system or object store.
    pub async fn put(&self, key: String, bytes: Vec<u8>) -> Result<()> {
        match self {
            Self::Folder(folder) => {
                let folder = Arc::clone(folder);
                blocking_work(move || folder.put(&key, &bytes)).await
            }
            Self::Archive(archive) => {
                let archive = Arc::clone(archive);
                blocking_work(move || archive.put(&key, &bytes)).await
            }
            Self::Objects(objects) => objects.put(&key, bytes).await,
        }
    }

    /// The most files that should be written at once. Each that is on this machine takes a thread while it is written, and threads take memory.
    pub fn most_writers(&self) -> usize {
        match self {
            Self::Folder(_) => 8,
            Self::Archive(_) => 1,
            Self::Objects(_) => usize::MAX,
        }
    }

    /// Writes the documents, in this order, and makes everything visible.
    ///
    /// # Errors
    /// Of the file system or object store; or if another statement has written there meanwhile. Then nothing is visible.
    pub async fn publish(&self, documents: Vec<(String, String)>) -> Result<()> {
        match self {
            Self::Folder(folder) => {
                let folder = Arc::clone(folder);
                blocking_work(move || folder.publish(documents)).await
            }
            Self::Archive(archive) => archive.publish(documents).await,
            Self::Objects(objects) => objects.publish(documents).await,
        }
    }

    /// Removes what was written, after an error. Files are removed when the target is dropped.
    pub async fn abort(&self) {
        match self {
            Self::Objects(objects) => objects.abort().await,
            Self::Archive(archive) => archive.abort().await,
            Self::Folder(_) => {}
        }
    }
}
