//! [`CachedStore`]: an object store whose answers are kept in a [`DiskCache`], and used again where the server says that they still hold.
//!
//! Each read is a request with `If-None-Match`: a server answers 304, without bytes, where the object has the entity tag of the answer that
//! is kept. So a changed object is read anew, and a client without permission is refused. Objects without a strong entity tag are not
//! kept. Invariant: what is returned is what the server would have returned.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};

use super::disk_cache::{DiskCache, Entry};

/// An object store with a cache.
pub struct CachedStore {
    inner: Arc<dyn ObjectStore>,
    cache: Arc<DiskCache>,
    /// What object store it is, in the keys of the cache.
    identity: String,
}

impl CachedStore {
    /// `inner` with a cache. Object stores with the same `identity` share what is kept.
    pub fn new(inner: Arc<dyn ObjectStore>, cache: Arc<DiskCache>, identity: String) -> Self {
        Self {
            inner,
            cache,
            identity,
        }
    }

    /// The key of a read; `None` if its answer depends on anything but the object and its range.
    fn key(&self, path: &Path, options: &GetOptions) -> Option<String> {
        let is_plain = !options.head
            && options.version.is_none()
            && options.if_none_match.is_none()
            && options.if_modified_since.is_none()
            && options.if_unmodified_since.is_none();
        let range = match &options.range {
            None => "all".to_string(),
            Some(GetRange::Bounded(range)) => format!("{}-{}", range.start, range.end),
            Some(GetRange::Offset(start)) => format!("{start}-"),
            Some(GetRange::Suffix(length)) => format!("-{length}"),
        };
        is_plain.then(|| format!("{}\n{path}\n{range}", self.identity))
    }

    /// The server's answer, which is kept if it can be recognised later.
    async fn keep(&self, key: String, result: GetResult) -> Result<GetResult> {
        let length = result.range.end.saturating_sub(result.range.start);
        let e_tag = result
            .meta
            .e_tag
            .clone()
            .filter(|e_tag| is_strong(e_tag) && self.cache.takes(length));
        let (GetResultPayload::Stream(_), Some(e_tag)) = (&result.payload, e_tag) else {
            return Ok(result);
        };
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let attributes = result.attributes.clone();
        let bytes = result.bytes().await?;
        // Readers check the length.
        if bytes.len() as u64 == length && range.end <= meta.size {
            let entry = Entry {
                e_tag,
                modified: meta.last_modified.into(),
                size: meta.size,
                range: range.clone(),
                bytes: bytes.clone(),
            };
            self.cache.put(key, entry).await;
        }
        Ok(GetResult {
            payload: payload(bytes),
            meta,
            range,
            attributes,
        })
    }
}

/// Whether equal entity tags mean equal bytes.
pub fn is_strong(e_tag: &str) -> bool {
    !e_tag.starts_with("W/")
}

fn payload(bytes: Bytes) -> GetResultPayload {
    GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed())
}

fn kept(entry: Entry, path: &Path) -> GetResult {
    GetResult {
        payload: payload(entry.bytes),
        meta: ObjectMeta {
            location: path.clone(),
            last_modified: entry.modified.into(),
            size: entry.size,
            e_tag: Some(entry.e_tag),
            version: None,
        },
        range: entry.range,
        attributes: Attributes::default(),
    }
}

impl fmt::Display for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl fmt::Debug for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}

#[async_trait]
impl ObjectStore for CachedStore {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let Some(key) = self.key(path, &options) else {
            return self.inner.get_opts(path, options).await;
        };
        let wanted = options.if_match.clone();
        let entry = self.cache.get(key.clone()).await;
        let entry = entry.filter(|entry| wanted.as_ref().is_none_or(|tag| *tag == entry.e_tag));
        let Some(entry) = entry else {
            let result = self.inner.get_opts(path, options).await?;
            return self.keep(key, result).await;
        };
        let asked = GetOptions {
            if_match: None,
            if_none_match: Some(entry.e_tag.clone()),
            ..options
        };
        match self.inner.get_opts(path, asked).await {
            Err(Error::NotModified { .. }) => Ok(kept(entry, path)),
            // The entity tag is another now.
            Ok(result) if wanted.is_some() && result.meta.e_tag != wanted => {
                Err(Error::Precondition {
                    path: path.to_string(),
                    source: "the object has changed".into(),
                })
            }
            Ok(result) => self.keep(key, result).await,
            Err(error) => Err(error),
        }
    }

    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
