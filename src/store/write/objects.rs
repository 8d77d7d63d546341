//! [`ObjectsTarget`]: a store below a path of an object store. Chunks come first and metadata last, so that the store cannot be opened
//! before it is complete.
//!
//! Object stores have no rename, so a statement marks the path with an object of its own, which it makes only if there is none, and
//! checks before the metadata that the mark is still its own: of two statements at once, one fails. Where something is replaced, the new
//! chunks are written below a path of their own, and copied by the object store when all are there: what is replaced stays as it is if the
//! statement fails before. It cannot be opened while they are copied.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use parking_lot::Mutex;

use super::mark::Mark;
use super::place::Place;
use super::write_error::{exists, failed, not_a_store};
use crate::error::{Result, VczError};
use crate::store::names::is_document;
use crate::store::source::below;

/// The object that marks a path while it is written.
const MARK: &str = ".vcz-writing";
/// Chunks that are to replace others are written below this and the text of the mark.
const STAGED: &str = ".vcz-staged";
/// What the names of a store's arrays, and of what a killed statement leaves, begin with.
const ARRAYS: [&str; 7] = [
    "variant_",
    "call_",
    "sample_",
    "contig_",
    "filter_",
    "region_index",
    STAGED,
];
/// How often objects of a statement that failed are tried to be removed.
const CLEANING_TRIES: usize = 3;
/// Objects that are copied at once.
const CONCURRENT_COPIES: usize = 32;

/// A store, or arrays of one, that is written to an object store.
#[derive(Debug)]
pub struct ObjectsTarget {
    place: Place,
    mark: Mark,
    /// Keys that were there and are to be replaced or removed.
    old: BTreeSet<Path>,
    /// Where chunks are written first, if something is replaced.
    staged: Option<Path>,
    /// Keys of chunks that are written there, and all paths that were written.
    chunks: Mutex<Vec<String>>,
    written: Mutex<BTreeSet<Path>>,
    state: Mutex<UploadState>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum UploadState {
    Writing,
    Done,
}

impl ObjectsTarget {
    /// A new store at `place`.
    ///
    /// # Errors
    /// If there are objects and `overwrite` is not set, or another statement writes there.
    pub async fn create(place: Place, overwrite: bool) -> Result<Self> {
        if place.path.as_ref().is_empty() {
            return Err(VczError::Invalid(format!(
                "'{}' is a whole bucket; give the store a name in it, such as 'x.vcz'",
                place.location
            )));
        }
        let prefix = place.path.clone();
        let what = format!("'{}'", place.location);
        let target = Self::start(place, vec![(prefix, what)], overwrite).await?;
        let has_document = target.old.iter().any(|path| target.is_document(path));
        // Without documents they are what a statement left that was killed.
        let is_of_store = has_document || target.old.iter().all(|path| target.is_of_array(path));
        if !is_of_store {
            let location = target.place.location.clone();
            target.abort().await;
            return Err(not_a_store(&location));
        }
        Ok(target)
    }

    /// Whether an object may be a chunk of a VCZ store.
    fn is_of_array(&self, path: &Path) -> bool {
        let array = path
            .prefix_match(&self.place.path)
            .and_then(|mut parts| parts.next());
        array.is_some_and(|array| ARRAYS.iter().any(|begin| array.as_ref().starts_with(begin)))
    }

    fn is_document(&self, path: &Path) -> bool {
        let key = path.prefix_match(&self.place.path);
        key.is_some_and(|parts| {
            let key: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            is_document(&key.join("/"))
        })
    }

    /// Whether an object is a document of the group itself.
    fn is_of_group(&self, path: &Path) -> bool {
        let key = path.prefix_match(&self.place.path);
        key.is_some_and(|parts| parts.count() == 1)
    }

    /// New arrays of the store at `place`.
    ///
    /// # Errors
    /// If an array exists and `overwrite` is not set, or another statement writes there.
    pub async fn add(place: Place, arrays: Vec<String>, overwrite: bool) -> Result<Self> {
        let mut prefixes = vec![];
        for array in arrays {
            let what = format!("array '{array}' of store '{}'", place.location);
            prefixes.push((path_of(&place, &array)?, what));
        }
        Self::start(place, prefixes, overwrite).await
    }

    async fn start(place: Place, prefixes: Vec<(Path, String)>, overwrite: bool) -> Result<Self> {
        let mark_path = path_of(&place, MARK)?;
        if !overwrite {
            listed(&place, &prefixes, &mark_path, overwrite).await?;
        }
        let shown = format!("{}/{MARK}", place.location.trim_end_matches('/'));
        let objects = Arc::clone(&place.objects);
        let mark = Mark::make(objects, mark_path.clone(), &place.location, &shown).await?;
        // Another statement may have ended before the mark was made.
        let old = match listed(&place, &prefixes, &mark_path, overwrite).await {
            Ok(old) => old,
            Err(error) => {
                clean(place, mark, BTreeSet::new()).await;
                return Err(error);
            }
        };
        let staged = match old.is_empty() {
            true => None,
            false => Some(path_of(&place, &format!("{STAGED}/{}", mark.text()))?),
        };
        Ok(Self {
            place,
            mark,
            old,
            staged,
            chunks: Mutex::default(),
            written: Mutex::default(),
            state: Mutex::new(UploadState::Writing),
        })
    }

    /// Writes the chunk `key`.
    ///
    /// # Errors
    /// Of the object store.
    pub async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let path = match &self.staged {
            None => path_of(&self.place, key)?,
            Some(staged) => {
                self.chunks.lock().push(key.to_owned());
                below_of(&self.place, staged, key)?
            }
        };
        self.put_at(key, path, bytes).await
    }

    async fn put_at(&self, key: &str, path: Path, bytes: Vec<u8>) -> Result<()> {
        // Noted before, as a failed request may have written it.
        self.written.lock().insert(path.clone());
        let put = self.place.objects.put(&path, PutPayload::from(bytes));
        put.await
            .map(drop)
            .map_err(|error| failed(&self.place.location, key, error))
    }

    /// Puts the new chunks in the place of what is replaced, then writes the documents.
    ///
    /// # Errors
    /// Of the object store; or if another statement has begun to write there.
    pub async fn publish(&self, documents: Vec<(String, String)>) -> Result<()> {
        let location = &self.place.location;
        let is_ours = self.mark.is_ours().await;
        if !is_ours.map_err(|error| failed(location, MARK, error))? {
            // What is there belongs to the other statement, but for what is staged.
            *self.state.lock() = UploadState::Done;
            self.warn(self.remove_staged().await);
            return Err(VczError::Invalid(format!(
                "another statement writes to '{location}' at the same time; let it end, or write to another name"
            )));
        }
        let published = self.put_in_place(documents).await;
        if self.old.is_empty() {
            published?;
        } else if let Err(error) = published {
            return Err(VczError::Invalid(format!(
                "{error}. What was to be replaced in '{location}' is gone, at least in part: write it again"
            )));
        }
        *self.state.lock() = UploadState::Done;
        self.warn(self.remove_staged().await);
        // The store is complete with the mark, too.
        self.warn(self.mark.remove().await);
        Ok(())
    }

    async fn put_in_place(&self, documents: Vec<(String, String)>) -> Result<()> {
        if let Some(staged) = &self.staged {
            // Without those of the group it cannot be opened, so that nobody sees a part of its arrays while the others are removed.
            let old = self.old.iter().filter(|path| self.is_document(path));
            let (group, arrays) = old.cloned().partition(|path| self.is_of_group(path));
            self.remove(group).await?;
            self.remove(arrays).await?;
            let chunks = self.chunks.lock().clone();
            let copies = chunks.iter().map(|key| self.copy(staged, key));
            let copies: Vec<_> = copies.collect();
            stream::iter(copies)
                .buffer_unordered(CONCURRENT_COPIES)
                .try_collect::<()>()
                .await?;
            let written = self.written.lock().clone();
            let stale = self.old.iter().filter(|path| !written.contains(path));
            self.remove(stale.cloned().collect()).await?;
        }
        for (key, text) in documents {
            let path = path_of(&self.place, &key)?;
            self.put_at(&key, path, text.into_bytes()).await?;
        }
        Ok(())
    }

    /// Copies a chunk to its place.
    async fn copy(&self, staged: &Path, key: &str) -> Result<()> {
        let from = below_of(&self.place, staged, key)?;
        let to = path_of(&self.place, key)?;
        self.written.lock().insert(to.clone());
        let objects = &self.place.objects;
        let copied = match objects.copy(&from, &to).await {
            // object_store 0.13 copies in Google Cloud Storage only where nothing is there.
            Err(object_store::Error::AlreadyExists { .. }) => {
                async {
                    objects.delete(&to).await?;
                    objects.copy(&from, &to).await
                }
                .await
            }
            Err(object_store::Error::NotImplemented { .. }) => {
                let bytes = async { objects.get(&from).await?.bytes().await };
                match bytes.await {
                    Ok(bytes) => objects.put(&to, bytes.into()).await.map(drop),
                    Err(error) => Err(error),
                }
            }
            copied => copied,
        };
        copied.map_err(|error| failed(&self.place.location, key, error))
    }

    /// Removes what was written.
    pub async fn abort(&self) {
        if std::mem::replace(&mut *self.state.lock(), UploadState::Done) == UploadState::Done {
            return;
        }
        let paths = std::mem::take(&mut *self.written.lock());
        clean(self.place.clone(), self.mark.clone(), paths).await;
    }

    async fn remove_staged(&self) -> Option<object_store::Error> {
        let staged = self.staged.as_ref()?;
        let chunks = std::mem::take(&mut *self.chunks.lock());
        let paths = chunks.iter().filter_map(|key| below(staged, key).ok());
        remove_all(&self.place, paths.collect()).await
    }

    async fn remove(&self, paths: BTreeSet<Path>) -> Result<()> {
        match remove_all(&self.place, paths).await {
            None => Ok(()),
            Some(error) => Err(failed(
                &self.place.location,
                "what is to be replaced",
                error,
            )),
        }
    }

    fn warn(&self, failure: Option<object_store::Error>) {
        if let Some(error) = failure {
            log::warn!(
                "store '{}': objects that the statement needed cannot be removed: {error}",
                self.place.location
            );
        }
    }
}

impl Drop for ObjectsTarget {
    fn drop(&mut self) {
        if *self.state.get_mut() == UploadState::Done {
            return;
        }
        let paths = std::mem::take(self.written.get_mut());
        // A statement that was cancelled: the objects are removed in the background.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(clean(self.place.clone(), self.mark.clone(), paths));
        }
    }
}

/// The objects below these prefixes, but for the mark.
///
/// # Errors
/// Of the object store; or if there are some and `overwrite` is not set.
async fn listed(
    place: &Place,
    prefixes: &[(Path, String)],
    mark: &Path,
    overwrite: bool,
) -> Result<BTreeSet<Path>> {
    let mut all = BTreeSet::new();
    for (prefix, what) in prefixes {
        let found: Vec<Path> = place
            .objects
            .list(Some(prefix))
            .map_ok(|object| object.location)
            .try_filter(|path| std::future::ready(path != mark))
            .try_collect()
            .await
            .map_err(|error| failed(&place.location, "", error))?;
        if !found.is_empty() && !overwrite {
            return Err(exists(what));
        }
        all.extend(found);
    }
    Ok(all)
}

/// Removes objects after an error or a cancelled statement, and then the mark, if it is the statement's own.
async fn clean(place: Place, mark: Mark, paths: BTreeSet<Path>) {
    if !mark.is_surely_ours().await {
        return;
    }
    // The mark last, so that nobody writes there before.
    let mut failure = remove_all(&place, paths).await;
    if failure.is_none() {
        failure = mark.remove().await;
    }
    if let Some(error) = failure {
        log::warn!(
            "store '{}': cannot remove the objects of a statement that failed: {error}",
            place.location
        );
    }
}

/// Removes objects, and tries again where that fails. Returns the last error of those that are left.
async fn remove_all(place: &Place, mut paths: BTreeSet<Path>) -> Option<object_store::Error> {
    let mut failure = None;
    for _ in 0..CLEANING_TRIES {
        failure = None;
        let all = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
        let mut deleted = place.objects.delete_stream(all);
        while let Some(deleted) = deleted.next().await {
            match deleted {
                Ok(path) => drop(paths.remove(&path)),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => failure = Some(error),
            }
        }
        if failure.is_none() {
            break;
        }
    }
    failure
}

fn path_of(place: &Place, key: &str) -> Result<Path> {
    below_of(place, &place.path, key)
}

fn below_of(place: &Place, root: &Path, key: &str) -> Result<Path> {
    below(root, key).map_err(|_| {
        VczError::Invalid(format!(
            "'{key}' is not a valid key of an object in '{}'",
            place.location
        ))
    })
}
