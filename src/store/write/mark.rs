//! [`Mark`]: an object that marks a path of an object store while a statement writes there, as these stores have neither locks nor renames.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload, Result};

use super::write_error::failed;
use crate::error::VczError;

/// How often removing a mark is tried.
const TRIES: usize = 3;

/// The mark of a statement.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    objects: Arc<dyn ObjectStore>,
    path: Path,
    /// Its text, which no other statement's mark has.
    text: String,
}

impl Mark {
    /// Makes the mark `path`, which is shown as `shown`, of the store at `location`.
    ///
    /// # Errors
    /// If it is there, so that another statement writes or was killed, or it cannot be made.
    pub(super) async fn make(
        objects: Arc<dyn ObjectStore>,
        path: Path,
        location: &str,
        shown: &str,
    ) -> Result<Self, VczError> {
        let mut random = [0; 16];
        getrandom::getrandom(&mut random).map_err(|error| failed(location, "", error))?;
        let text = format!("{:032x}", u128::from_le_bytes(random));
        let mark = Self {
            objects,
            path,
            text,
        };
        match mark.put().await {
            Ok(()) => Ok(mark),
            Err(object_store::Error::AlreadyExists { .. }) => Err(VczError::Invalid(format!(
                "'{location}' is being written by another statement, or one was killed while it wrote: the object '{shown}' is there. If no \
                 statement is running, remove that object and try again"
            ))),
            Err(error) => Err(failed(location, "", error)),
        }
    }

    /// A text that no other statement has.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the mark that is there is the statement's own.
    ///
    /// # Errors
    /// Of the object store.
    pub(super) async fn is_ours(&self) -> Result<bool> {
        let found = async { self.objects.get(&self.path).await?.bytes().await };
        match found.await {
            Ok(found) => Ok(found == self.text.as_bytes()),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// [`is_ours`](Self::is_ours), tried again after errors; `false` if it cannot be known.
    pub(super) async fn is_surely_ours(&self) -> bool {
        for _ in 0..TRIES {
            if let Ok(is_ours) = self.is_ours().await {
                return is_ours;
            }
        }
        false
    }

    /// Removes the mark. The last error if that fails.
    pub(super) async fn remove(&self) -> Option<object_store::Error> {
        let mut failure = None;
        for _ in 0..TRIES {
            match self.objects.delete(&self.path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => return None,
                Err(error) => failure = Some(error),
            }
        }
        failure
    }

    /// Makes the mark if there is none. Where an object store cannot do both at once, it is looked for first.
    async fn put(&self) -> Result<()> {
        let (objects, path) = (&self.objects, &self.path);
        let payload = || PutPayload::from(self.text.clone().into_bytes());
        let created = objects.put_opts(path, payload(), PutMode::Create.into());
        match created.await {
            Err(object_store::Error::NotImplemented { .. }) => {}
            Err(error @ object_store::Error::AlreadyExists { .. }) => {
                // It is our own if the answer to the first try was lost.
                return match self.is_ours().await {
                    Ok(true) => Ok(()),
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
            Err(object_store::Error::NotFound { .. }) => {
                objects.put(path, payload()).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn one_statement_has_the_mark() {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let make = || {
            let path = Path::from("a/mark");
            Mark::make(Arc::clone(&objects), path, "memory:///a", "a/mark")
        };
        let mark = make().await.unwrap();
        assert!(mark.is_ours().await.unwrap());
        let error = make().await.unwrap_err().to_string();
        assert!(error.contains("another statement"), "{error}");
        assert!(mark.is_surely_ours().await);
        assert!(mark.remove().await.is_none());
        assert!(!mark.is_surely_ours().await);
        let other = make().await.unwrap();
        assert!(!mark.is_ours().await.unwrap() && other.is_ours().await.unwrap());
    }
}
