//! [`ObjectsTarget`]: a store below a path of an object store. Chunks come first and metadata last, so that the store cannot be opened
//! before it is complete.
//!
//! Object stores have no rename, so a statement marks the path with an object of its own, which it makes only if there is none, and
//! checks before the metadata that the mark is still its own: of two statements at once, one fails. What is to be replaced can no longer
//! be opened from the first chunk on.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::place::Place;
use super::write_error::{exists, failed, not_a_store};
use crate::error::{Result, VczError};
use crate::store::names::is_document;
use crate::store::source::below;

/// The object that marks a path while it is written.
const MARK: &str = ".vcz-writing";
/// What the names of a store's arrays begin with.
const ARRAYS: [&str; 6] = [
    "variant_",
    "call_",
    "sample_",
    "contig_",
    "filter_",
    "region_index",
];
/// How often objects of a statement that failed are tried to be removed.
const CLEANING_TRIES: usize = 3;

/// A store, or arrays of one, that is written to an object store.
#[derive(Debug)]
pub struct ObjectsTarget {
    place: Place,
    mark: String,
    /// Keys that were there and are to be replaced or removed.
    old: BTreeSet<Path>,
    written: Mutex<BTreeSet<Path>>,
    /// Set once the documents of what is replaced are removed.
    is_cleared: OnceCell<()>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
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
        let wrong = |error| failed(&place.location, "", error);
        let mark_path = path_of(&place, MARK)?;
        let mut old = BTreeSet::new();
        for (prefix, what) in prefixes {
            let listed = place.objects.list(Some(&prefix));
            let found: Vec<Path> = listed
                .map_ok(|object| object.location)
                .try_collect()
                .await
                .map_err(wrong)?;
            let found: Vec<Path> = found
                .into_iter()
                .filter(|path| *path != mark_path)
                .collect();
            if !found.is_empty() && !overwrite {
                return Err(exists(&what));
            }
            old.extend(found);
        }
        let mut random = [0; 16];
        getrandom::getrandom(&mut random).map_err(|error| failed(&place.location, "", error))?;
        let mark = format!("{:032x}", u128::from_le_bytes(random));
        let made = put_mark(&place.objects, &mark_path, &mark).await;
        match made {
            Ok(()) => {}
            Err(object_store::Error::AlreadyExists { .. }) => {
                return Err(VczError::Invalid(format!(
                    "'{0}' is being written by another statement, or one was killed while it wrote: the object '{MARK}' is there. If none is \
                     running, remove '{0}/{MARK}' and try again",
                    place.location.trim_end_matches('/')
                )));
            }
            Err(error) => return Err(wrong(error)),
        }
        Ok(Self {
            place,
            mark,
            old,
            written: Mutex::default(),
            is_cleared: OnceCell::new(),
            state: Mutex::new(State::Writing),
        })
    }

    /// Removes the documents of what is replaced, once.
    async fn clear(&self) -> Result<()> {
        let clear = self.is_cleared.get_or_try_init(|| {
            let documents = self.old.iter().filter(|path| self.is_document(path));
            self.remove(documents.cloned().collect())
        });
        clear.await.map(drop)
    }

    /// Writes the object `key`.
    ///
    /// # Errors
    /// Of the object store.
    pub async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let path = path_of(&self.place, key)?;
        self.clear().await?;
        // Noted before, as a failed request may have written it.
        self.written.lock().insert(path.clone());
        let put = self.place.objects.put(&path, PutPayload::from(bytes));
        put.await
            .map(drop)
            .map_err(|error| failed(&self.place.location, key, error))
    }

    /// Removes what is not of the new store, then writes the documents.
    ///
    /// # Errors
    /// Of the object store; or if another statement has begun to write there.
    pub async fn publish(&self, documents: Vec<(String, String)>) -> Result<()> {
        let location = &self.place.location;
        let mark = path_of(&self.place, MARK)?;
        let found = async { self.place.objects.get(&mark).await?.bytes().await };
        let is_ours = match found.await {
            Ok(found) => found == self.mark.as_bytes(),
            Err(object_store::Error::NotFound { .. }) => false,
            Err(error) => return Err(failed(location, MARK, error)),
        };
        if !is_ours {
            // What is there belongs to the other statement.
            *self.state.lock() = State::Done;
            return Err(VczError::Invalid(format!(
                "another statement writes to '{location}' at the same time; let it end, or write to another name"
            )));
        }
        let stale: Vec<Path> = {
            let written = self.written.lock();
            let stale = self.old.iter().filter(|path| !written.contains(path));
            stale.cloned().collect()
        };
        self.remove(stale).await?;
        for (key, text) in documents {
            self.put(&key, text.into_bytes()).await?;
        }
        *self.state.lock() = State::Done;
        // The store is complete with the mark, too.
        if let Err(error) = self.place.objects.delete(&mark).await {
            log::warn!("store '{location}': cannot remove '{MARK}': {error}");
        }
        Ok(())
    }

    /// Removes what was written.
    pub async fn abort(&self) {
        if std::mem::replace(&mut *self.state.lock(), State::Done) == State::Done {
            return;
        }
        let paths = std::mem::take(&mut *self.written.lock());
        clean(self.place.clone(), self.mark.clone(), paths).await;
    }

    async fn remove(&self, paths: Vec<Path>) -> Result<()> {
        let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
        let deleted = self.place.objects.delete_stream(paths);
        let left = deleted.filter_map(|deleted| async {
            match deleted {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => None,
                Err(error) => Some(error),
            }
        });
        let errors: Vec<object_store::Error> = left.collect().await;
        match errors.into_iter().next() {
            None => Ok(()),
            Some(error) => Err(failed(
                &self.place.location,
                "what is to be replaced",
                error,
            )),
        }
    }
}

impl Drop for ObjectsTarget {
    fn drop(&mut self) {
        if *self.state.get_mut() == State::Done {
            return;
        }
        let paths = std::mem::take(self.written.get_mut());
        // A statement that was cancelled: the objects are removed in the background.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(clean(self.place.clone(), self.mark.clone(), paths));
        }
    }
}

/// Removes objects after an error or a cancelled statement, and then the mark, if it is the statement's own.
async fn clean(place: Place, mark: String, paths: BTreeSet<Path>) {
    let Ok(mark_path) = path_of(&place, MARK) else {
        return;
    };
    let mut is_ours = None;
    for _ in 0..CLEANING_TRIES {
        let found = async { place.objects.get(&mark_path).await?.bytes().await };
        is_ours = match found.await {
            Ok(found) => Some(found == mark.as_bytes()),
            Err(object_store::Error::NotFound { .. }) => Some(false),
            Err(_) => None,
        };
        if is_ours.is_some() {
            break;
        }
    }
    if is_ours != Some(true) {
        return;
    }
    // The mark last, so that nobody writes there before.
    let mut failure = remove_all(&place, paths).await;
    if failure.is_none() {
        failure = remove_all(&place, BTreeSet::from([mark_path])).await;
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

/// Makes the mark if there is none. Where an object store cannot do both at once, it is looked for first.
async fn put_mark(
    objects: &Arc<dyn ObjectStore>,
    path: &Path,
    mark: &str,
) -> object_store::Result<()> {
    let payload = || PutPayload::from(mark.as_bytes().to_vec());
    match objects
        .put_opts(path, payload(), PutMode::Create.into())
        .await
    {
        Err(object_store::Error::NotImplemented { .. }) => {}
        // It is our own if the answer to the first try was lost.
        Err(error @ object_store::Error::AlreadyExists { .. }) => {
            let found = async { objects.get(path).await?.bytes().await };
            return match found.await {
                Ok(found) if found == mark.as_bytes() => Ok(()),
                _ => Err(error),
            };
        }
        done => return done.map(drop),
    }
    match objects.head(path).await {
        Ok(_) => Err(object_store::Error::AlreadyExists {
            path: path.to_string(),
            source: "the object is there".into(),
        }),
        Err(object_store::Error::NotFound { .. }) => objects.put(path, payload()).await.map(drop),
        Err(error) => Err(error),
    }
}

fn path_of(place: &Place, key: &str) -> Result<Path> {
    below(&place.path, key).map_err(|_| {
        VczError::Invalid(format!(
            "'{key}' is not a valid key of an object in '{}'",
            place.location
        ))
    })
}
