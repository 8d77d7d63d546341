//! From a location to a table: local paths and URLs of any object store the session knows, and the small files beside
//! stores (populations, masks).

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::object_store::ObjectStoreUrl;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use super::options::{DeniedChunks, TableOptions};
use super::side_query::{self, MAX_SIDE_FILE};
use super::table::VczTable;
use crate::counts::PopulationsFile;
use crate::error::VczError;
use crate::store::Store;

/// Marks a session, as an extension of its configuration, that reads registered tables and nothing else: [`locate`] refuses
/// every path and URL in it, so neither a table, a populations file nor a mask can be opened by its location.
#[derive(Debug, Clone, Copy)]
pub struct RegisteredOnly;

/// A place in an object store.
pub struct Location {
    /// The object store.
    pub objects: Arc<dyn ObjectStore>,
    /// The path inside it.
    pub path: object_store::path::Path,
    /// The path on this machine, for local files.
    pub local: Option<PathBuf>,
}

/// Finds the object store and path of a location: a URL, or a path on this machine. The one way to them, so that a session
/// with [`RegisteredOnly`] is closed here.
pub fn locate(state: &dyn Session, location: &str) -> Result<Location> {
    if location.is_empty() {
        return plan_err!("the location is empty; give a path or URL");
    }
    if state.config().get_extension::<RegisteredOnly>().is_some() {
        return plan_err!(
            "there is no registered table '{location}', and this session opens no paths or URLs"
        );
    }
    let url = match Url::parse(location) {
        // One letter is a drive, not a scheme.
        Ok(url) if url.scheme().len() > 1 && location.contains("://") => url,
        _ => file_url(Path::new(location))?,
    };
    if url.scheme() == "file" {
        let Ok(local) = url.to_file_path() else {
            return plan_err!("'{location}' is not a path on this machine");
        };
        let path =
            object_store::path::Path::from_absolute_path(&local).map_err(DataFusionError::from)?;
        let objects = state
            .runtime_env()
            .object_store(ObjectStoreUrl::local_filesystem())?;
        return Ok(Location {
            objects,
            path,
            local: Some(local),
        });
    }
    let base = ObjectStoreUrl::parse(&url[url::Position::BeforeScheme..url::Position::AfterPort])?;
    let Ok(objects) = state.runtime_env().object_store(&base) else {
        return plan_err!(
            "no object store is registered for '{}', so '{location}' cannot be read; register one with \
             RuntimeEnv::register_object_store (vcz sql does so for s3, gs and http)",
            base.as_str()
        );
    };
    let path =
        object_store::path::Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
    Ok(Location {
        objects,
        path,
        local: None,
    })
}

fn file_url(path: &Path) -> Result<Url> {
    // What is not there is reported by whoever opens it, so only its dots are taken out here.
    let absolute = match std::fs::canonicalize(path) {
        Ok(found) => found,
        Err(_) => without_dots(&std::path::absolute(path)?),
    };
    match Url::from_file_path(&absolute) {
        Ok(url) => Ok(url),
        Err(()) => plan_err!("'{}' is not a path that can be opened", path.display()),
    }
}

/// An absolute path without `..`, by its text alone.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// Reads a small file beside a store.
pub async fn read_file(state: &dyn Session, location: &str) -> Result<Bytes> {
    let place = locate(state, location)?;
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| VczError::Io {
        store: location.to_string(),
        key: place.path.to_string(),
        source,
    };
    let result = match place.objects.get(&place.path).await {
        Err(object_store::Error::NotFound { .. }) => {
            return plan_err!("there is no file '{location}'");
        }
        other => other.map_err(|e| failed(Box::new(e)))?,
    };
    if result.meta.size > MAX_SIDE_FILE {
        return plan_err!(
            "'{location}' has {} bytes, more than the {MAX_SIDE_FILE} allowed",
            result.meta.size
        );
    }
    Ok(result.bytes().await.map_err(|e| failed(Box::new(e)))?)
}

/// Opens the store at `location` as a table.
pub async fn open_table(
    state: &dyn Session,
    location: &str,
    options: &TableOptions,
) -> Result<VczTable> {
    let place = locate(state, location)?;
    let store = Store::open(place.objects, place.path, location.to_string(), place.local)
        .await?
        .with_denied_chunks(options.denied_chunks == DeniedChunks::Absent);
    for warning in store.warnings() {
        log::warn!("store '{location}': {warning}");
    }
    for (array, reason) in store.unreadable() {
        log::warn!("store '{location}': array '{array}' is left out: {reason}");
    }
    let text = match &options.populations {
        Some(query) if side_query::is_query(query) => Some(side_query::csv(state, query).await?),
        Some(file) => Some(read_file(state, file).await?),
        None => None,
    };
    let populations = options.populations.as_deref().zip(text.as_ref());
    let populations = populations.map(|(name, text)| PopulationsFile {
        name,
        text,
        columns: options.population_columns(),
    });
    Ok(VczTable::open(store, populations, options.region_index).await?)
}
