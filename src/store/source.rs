//! [`StoreSource`]: reads a store's objects from a local directory, a zip archive, or a prefix of an object store.
//!
//! Invariants: keys are made of checked names and numbers, so they are paths inside the store; an absent object is `None`,
//! any other failure is an error.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{GetRange, ObjectStore};

use super::blob::{Blob, get_document, get_object};
use super::document::DocumentId;
use super::files::{blocking, get_file, get_file_and_time};
use super::local::{ChunkPlace, LocalFile, OpenChunk};
use super::names::may_be_array;
use super::read_error::ReadError;
use super::small_files::SmallFiles;
use super::zip::Zip;

/// The location of a store's objects.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a store has one, which is not moved about"
)]
pub(super) enum StoreSource {
    Directory {
        root: PathBuf,
        small: Box<SmallFiles>,
    },
    Zip(Zip),
    Objects {
        objects: Arc<dyn ObjectStore>,
        root: Path,
        /// False where listing is known not to work, or to be refused only after many retries.
        listable: bool,
    },
}

impl StoreSource {
    /// The source at `path` of an object store, or at `local_path` of the file system. Files and paths that end in `.zip` are
    /// archives.
    pub(super) async fn open(
        objects: Arc<dyn ObjectStore>,
        path: Path,
        location: &str,
        local_path: Option<PathBuf>,
    ) -> Result<Self, ReadError> {
        if let Some(local) = local_path {
            let path = local.clone();
            return match blocking(move || Ok(fs::metadata(path)?.is_dir())).await? {
                true => Ok(Self::Directory {
                    root: local,
                    small: Box::default(),
                }),
                false => Ok(Self::Zip(Zip::open(Blob::open_file(local).await?).await?)),
            };
        }
        if path.as_ref().to_ascii_lowercase().ends_with(".zip") {
            return Self::open_archive(objects, path).await;
        }
        let location = location.to_ascii_lowercase();
        let listable = !location.starts_with("http://") && !location.starts_with("https://");
        Ok(Self::Objects {
            objects,
            root: path,
            listable,
        })
    }

    /// The object at `path` as an archive, whatever its name.
    pub(super) async fn open_archive(
        objects: Arc<dyn ObjectStore>,
        path: Path,
    ) -> Result<Self, ReadError> {
        Ok(Self::Zip(
            Zip::open(Blob::open_object(objects, path).await?).await?,
        ))
    }

    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Directory { .. } => true,
            Self::Zip(zip) => zip.is_local(),
            Self::Objects { .. } => false,
        }
    }

    /// Whether it is an archive, whose directory says what is absent.
    pub(super) fn is_archive(&self) -> bool {
        matches!(self, Self::Zip(_))
    }

    /// The bytes of the object `key`, or a range of them; `None` if it is absent. More than `limit` bytes are an error.
    pub(super) async fn get(
        &self,
        key: &str,
        range: Option<GetRange>,
        limit: u64,
    ) -> Result<Option<Bytes>, ReadError> {
        match self {
            Self::Directory { root, .. } => get_file(root.join(key), range, limit).await,
            Self::Zip(zip) => zip.get(key, range, limit).await,
            Self::Objects { objects, root, .. } => {
                get_object(&**objects, &below(root, key)?, range, limit).await
            }
        }
    }

    /// A metadata document, with its state; `None` if it is absent. In an archive it has none, since archives are not read again.
    pub(super) async fn get_document(
        &self,
        key: &str,
        limit: u64,
    ) -> Result<Option<(Bytes, Option<DocumentId>)>, ReadError> {
        match self {
            Self::Directory { root, .. } => {
                let got = get_file_and_time(root.join(key), None, limit).await?;
                Ok(got.map(|(bytes, modified)| {
                    let id = DocumentId::new(&bytes, None, modified);
                    (bytes, Some(id))
                }))
            }
            Self::Zip(zip) => {
                let got = zip.get(key, None, limit).await?;
                Ok(got.map(|bytes| (bytes, None)))
            }
            Self::Objects { objects, root, .. } => {
                let got = get_document(&**objects, &below(root, key)?, limit).await?;
                Ok(got.map(|(bytes, id)| (bytes, Some(id))))
            }
        }
    }

    /// The bytes of the small object `key`, which is cached for repeated reads; `None` if it is absent. More than `limit` bytes are
    /// an error.
    pub(super) async fn get_small(
        &self,
        key: &str,
        limit: u64,
    ) -> Result<Option<Bytes>, ReadError> {
        match self {
            Self::Directory { root, small } => small.get(key, root.join(key), limit).await,
            Self::Zip(_) | Self::Objects { .. } => self.get(key, None, limit).await,
        }
    }

    /// Opens the object `key`, to be read into the caller's memory; `None` if it is absent. More than `limit` bytes are an error.
    pub(super) async fn open_object(
        &self,
        key: &str,
        limit: u64,
    ) -> Result<Option<OpenChunk>, ReadError> {
        if let Self::Directory { root, .. } = self {
            return OpenChunk::open(root.join(key), limit).await;
        }
        let bytes = self.get(key, None, limit).await?;
        Ok(bytes.map(OpenChunk::Bytes))
    }

    /// The location of the object `key`.
    pub(super) async fn place(&self, key: &str) -> Result<ChunkPlace, ReadError> {
        match self {
            Self::Directory { root, .. } => {
                let found = LocalFile::find(root.join(key)).await?;
                Ok(found.map_or(ChunkPlace::Absent, ChunkPlace::File))
            }
            Self::Zip(_) | Self::Objects { .. } => Ok(ChunkPlace::Store),
        }
    }

    /// The names at the top level that may be arrays; `None` if the location cannot be listed. Their contents are not listed.
    pub(super) async fn top_level(&self) -> Result<Option<BTreeSet<String>>, ReadError> {
        self.folders("").await
    }

    /// [`StoreSource::top_level`] of a folder of the store; none where there is no such folder. The empty name is the top level.
    pub(super) async fn folders(
        &self,
        folder: &str,
    ) -> Result<Option<BTreeSet<String>>, ReadError> {
        let mut names = BTreeSet::new();
        match self {
            Self::Directory { root, .. } => {
                let path = root.join(folder);
                let may_be_absent = !folder.is_empty();
                names = blocking(move || match path.is_dir() || !may_be_absent {
                    true => folders_in(&path),
                    false => Ok(BTreeSet::new()),
                })
                .await?;
            }
            Self::Zip(zip) => names.extend(zip.folders(folder)),
            Self::Objects {
                listable: false, ..
            } => return Ok(None),
            Self::Objects { objects, root, .. } => {
                let path = match folder {
                    "" => root.clone(),
                    folder => below(root, folder)?,
                };
                match objects.list_with_delimiter(Some(&path)).await {
                    Ok(listing) => {
                        names.extend(
                            listing
                                .common_prefixes
                                .iter()
                                .filter_map(|p| p.filename())
                                .map(str::to_owned),
                        );
                    }
                    // Often reading is allowed but listing is not, or is not supported.
                    Err(_) => return Ok(None),
                }
            }
        }
        names.retain(|name| may_be_array(name));
        Ok(Some(names))
    }

    /// Stored bytes of the chunks of an array; `None` if the location cannot be listed.
    pub(super) async fn stored_bytes(&self, array: &str) -> Result<Option<u64>, ReadError> {
        match self {
            Self::Directory { root, .. } => {
                let folder = root.join(array);
                blocking(move || directory_bytes(folder)).await.map(Some)
            }
            Self::Zip(zip) => Ok(Some(zip.stored_bytes(array, |key| !is_metadata(key)))),
            Self::Objects {
                listable: false, ..
            } => Ok(None),
            Self::Objects { objects, root, .. } => {
                let listing = objects.list(Some(&below(root, array)?));
                let sum = listing.try_fold(0u64, |sum, object| async move {
                    let counts = !object.location.filename().is_some_and(is_metadata);
                    Ok(if counts {
                        sum.saturating_add(object.size)
                    } else {
                        sum
                    })
                });
                Ok(sum.await.ok())
            }
        }
    }
}

/// Whether a key below an array is that of metadata.
pub(super) fn is_metadata(key: &str) -> bool {
    matches!(key, "zarr.json" | ".zarray" | ".zattrs")
}

/// The path of `key` below `root`.
pub(super) fn below(root: &Path, key: &str) -> Result<Path, ReadError> {
    let path = if root.as_ref().is_empty() {
        key.to_owned()
    } else {
        format!("{root}/{key}")
    };
    Path::parse(path).map_err(|error| ReadError::Io(Box::new(error)))
}

/// The names of what may be folders in `folder`. A link may be to a folder.
fn folders_in(folder: &FilePath) -> Result<BTreeSet<String>, ReadError> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    Ok(names)
}

/// Bytes of the files below `folder`. Links are not followed, which could be circular.
fn directory_bytes(folder: PathBuf) -> Result<u64, ReadError> {
    let mut sum = 0u64;
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && !entry.file_name().to_str().is_some_and(is_metadata) {
                sum = sum.saturating_add(entry.metadata()?.len());
            }
        }
    }
    Ok(sum)
}
