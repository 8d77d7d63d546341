//! Reads bytes of a local file or of an object of an object store, whole or by range.
//!
//! Invariants: nothing is allocated for a read before its length has been compared with the length of the file and with the
//! caller's limit; a read returns all requested bytes or an error. Local files: see [`files`](super::files).

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt};

use super::document::DocumentId;
use super::files::{open_regular, read_file, without_blocking};
use super::read_error::{ReadError, within};

/// Bytes that are read at the end of an object: archives that are shorter are read whole, and most directories are in the tail.
const TAIL: u64 = 2 << 20;

/// One file or object of known length that is read by ranges.
#[derive(Debug)]
pub(super) enum Blob {
    File {
        file: Arc<File>,
        len: u64,
    },
    Object {
        objects: Arc<dyn ObjectStore>,
        path: Path,
        len: u64,
        /// Its last bytes, which were read with its length.
        tail: Bytes,
        /// Its entity tag when it was opened, if the server told one.
        e_tag: Option<String>,
    },
}

impl Blob {
    pub(super) async fn open_file(path: PathBuf) -> Result<Self, ReadError> {
        let opened = without_blocking(move |wait| open_regular(&path, wait)).await?;
        let (file, len) = opened.ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
        Ok(Self::File {
            file: Arc::new(file),
            len,
        })
    }

    /// Opens an object and keeps its last bytes: [`TAIL`] of them, or all. That is one request, and a second one where the server does
    /// not know how to read the end of an object of unknown length.
    pub(super) async fn open_object(
        objects: Arc<dyn ObjectStore>,
        path: Path,
    ) -> Result<Self, ReadError> {
        let options = |range| GetOptions {
            range: Some(range),
            ..GetOptions::default()
        };
        let end = objects.get_opts(&path, options(GetRange::Suffix(TAIL)));
        let result = match end.await {
            Err(error @ (Error::NotFound { .. } | Error::PermissionDenied { .. })) => {
                return Err(error.into());
            }
            // Azure does not support such ranges, and objects without bytes have none.
            Err(_) => {
                let len = objects.head(&path).await?.size;
                if len == 0 {
                    let tail = Bytes::new();
                    return Ok(Self::Object {
                        objects,
                        path,
                        len,
                        tail,
                        e_tag: None,
                    });
                }
                let range = GetRange::Bounded(len.saturating_sub(TAIL)..len);
                objects.get_opts(&path, options(range)).await?
            }
            Ok(result) => result,
        };
        let (len, range) = (result.meta.size, result.range.clone());
        let e_tag = result.meta.e_tag.clone();
        let length = range.end.saturating_sub(range.start);
        within(length, TAIL)?;
        let tail = body(result).await?;
        if range.end != len {
            return Err(ReadError::Corrupt(format!(
                "its last bytes of {len} were requested, bytes {} to {} returned",
                range.start, range.end
            )));
        }
        Ok(Self::Object {
            objects,
            path,
            len,
            tail,
            e_tag,
        })
    }

    /// Whether reading it takes requests: it is an object that is not whole in memory.
    pub(super) fn needs_requests(&self) -> bool {
        match self {
            Self::File { .. } => false,
            Self::Object { len, tail, .. } => (tail.len() as u64) < *len,
        }
    }

    /// The number of bytes at its end that can be read without a request.
    pub(super) fn tail_len(&self) -> u64 {
        match self {
            Self::File { .. } => 0,
            Self::Object { tail, .. } => tail.len() as u64,
        }
    }

    /// Forgets the last bytes, unless they are all.
    pub(super) fn forget_tail(&mut self) {
        if let Self::Object { tail, len, .. } = self
            && (tail.len() as u64) < *len
        {
            *tail = Bytes::new();
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } | Self::Object { len, .. } => *len,
        }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Exactly the bytes of `range`, which must lie inside the blob.
    pub(super) async fn read(&self, range: Range<u64>) -> Result<Bytes, ReadError> {
        let length = range.end.saturating_sub(range.start);
        if range.start > range.end || range.end > self.len() {
            return Err(ReadError::Corrupt(format!(
                "bytes {} to {} were requested, but there are only {}",
                range.start,
                range.end,
                self.len()
            )));
        }
        if length == 0 {
            return Ok(Bytes::new());
        }
        match self {
            Self::File { file, .. } => {
                let file = Arc::clone(file);
                without_blocking(move |wait| Ok(read_file(&file, range.start, length, wait)?)).await
            }
            Self::Object {
                objects,
                path,
                len,
                tail,
                e_tag,
            } => {
                if let Some(start) = range.start.checked_sub(*len - tail.len() as u64) {
                    // Inside the tail, which is in memory.
                    return Ok(tail.slice(start as usize..(start + length) as usize));
                }
                let bytes = get_unchanged(&**objects, path, range, e_tag.as_ref()).await?;
                if bytes.len() as u64 != length {
                    return Err(ReadError::Corrupt(format!(
                        "{length} bytes were requested, {} returned",
                        bytes.len()
                    )));
                }
                Ok(bytes)
            }
        }
    }
}

/// The bytes of `range` of an object, which must have the entity tag `known`, if that is known. Servers compare strong tags; those that
/// ignore the condition, and weak tags, are compared here.
async fn get_unchanged(
    objects: &dyn ObjectStore,
    path: &Path,
    range: Range<u64>,
    known: Option<&String>,
) -> Result<Bytes, ReadError> {
    let changed = || {
        ReadError::Corrupt(
            "the archive is not what it was when it was opened (its ETag has changed): it was written again or replaced. Open it again, by \
             creating the table again or in a new session"
                .to_owned(),
        )
    };
    let (start, length) = (range.start, range.end.saturating_sub(range.start));
    let options = GetOptions {
        range: Some(GetRange::Bounded(range)),
        if_match: known.filter(|e_tag| !e_tag.starts_with("W/")).cloned(),
        ..GetOptions::default()
    };
    let result = match objects.get_opts(path, options).await {
        Err(Error::Precondition { .. }) => return Err(changed()),
        result => result?,
    };
    if let (Some(known), Some(found)) = (known, &result.meta.e_tag)
        && known != found
    {
        return Err(changed());
    }
    within(result.range.end.saturating_sub(result.range.start), length)?;
    if result.range.start != start {
        return Err(ReadError::Corrupt(format!(
            "bytes from {start} on were requested, bytes from {} on returned",
            result.range.start
        )));
    }
    body(result).await
}

/// The bytes of an answer: as many as the server has announced. A connection that ends early need not be an error of the object store.
async fn body(result: GetResult) -> Result<Bytes, ReadError> {
    let length = result.range.end.saturating_sub(result.range.start);
    let bytes = result.bytes().await?;
    if bytes.len() as u64 != length {
        return Err(ReadError::Corrupt(format!(
            "the server announced {length} bytes and sent {}",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// The object's bytes, or a range of them; `None` if there is no such object.
pub(super) async fn get_object(
    objects: &dyn ObjectStore,
    path: &Path,
    range: Option<GetRange>,
    limit: u64,
) -> Result<Option<Bytes>, ReadError> {
    if let Some(GetRange::Bounded(range)) = &range
        && range.start == range.end
    {
        return Ok(Some(Bytes::new()));
    }
    match get(objects, path, range, limit).await? {
        Some(result) => body(result).await.map(Some),
        None => Ok(None),
    }
}

/// A metadata document, with its state; `None` if there is no such object.
pub(super) async fn get_document(
    objects: &dyn ObjectStore,
    path: &Path,
    limit: u64,
) -> Result<Option<(Bytes, DocumentId)>, ReadError> {
    let Some(result) = get(objects, path, None, limit).await? else {
        return Ok(None);
    };
    let (e_tag, modified) = (result.meta.e_tag.clone(), result.meta.last_modified);
    let bytes = body(result).await?;
    let id = DocumentId::new(&bytes, e_tag, Some(modified.into()));
    Ok(Some((bytes, id)))
}

/// The server's answer for an object, or a range of one; `None` if there is no such object.
async fn get(
    objects: &dyn ObjectStore,
    path: &Path,
    range: Option<GetRange>,
    limit: u64,
) -> Result<Option<GetResult>, ReadError> {
    if let Some(GetRange::Bounded(range)) = &range {
        within(range.end.saturating_sub(range.start), limit)?;
    }
    let options = GetOptions {
        range: range.clone(),
        ..GetOptions::default()
    };
    let result = match (objects.get_opts(path, options).await, range) {
        // Azure does not support suffix ranges.
        (Err(object_store::Error::NotSupported { .. }), Some(GetRange::Suffix(length))) => {
            let size = match objects.head(path).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                head => head?.size,
            };
            let range = Some(GetRange::Bounded(size.saturating_sub(length)..size));
            objects
                .get_opts(
                    path,
                    GetOptions {
                        range,
                        ..GetOptions::default()
                    },
                )
                .await
        }
        (result, _) => result,
    };
    match result {
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(result) => {
            within(result.range.end.saturating_sub(result.range.start), limit)?;
            Ok(Some(result))
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn an_archive_that_was_written_again_is_an_error() {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("x.vcz.zip");
        let bytes = Bytes::from(vec![7u8; 3 << 20]);
        objects.put(&path, bytes.clone().into()).await.unwrap();
        let blob = Blob::open_object(Arc::clone(&objects), path.clone()).await;
        let blob = blob.unwrap();
        assert_eq!(blob.read(5..9).await.unwrap(), bytes[5..9]);
        // The same bytes: only the entity tag tells.
        objects.put(&path, bytes.clone().into()).await.unwrap();
        match blob.read(5..9).await {
            Err(ReadError::Corrupt(reason)) => assert!(reason.contains("ETag"), "{reason}"),
            other => panic!("{other:?}"),
        }
        // What is in memory was read when it was opened.
        let end = (3 << 20) - 1;
        assert_eq!(blob.read(end..end + 1).await.unwrap(), bytes[..1]);
    }
}
