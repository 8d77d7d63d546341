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
use super::remote;
use super::remote::location::shown;
use super::remote::options::RemoteOptions;
use super::remote::redacted::{RedactedStore, Secrets};
use super::table::VczTable;
use crate::error::VczError;
use crate::store::Store;

/// Populations and mask files larger than this are refused.
const MAX_SIDE_FILE: u64 = 1 << 30;

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

/// Finds the object store and path of a location: a URL, or a path on this machine.
///
/// # Errors
/// If the location is invalid, the session has no object store for it, or has [`RegisteredOnly`].
pub fn locate(state: &dyn Session, location: &str) -> Result<Location> {
    let url = parse(state, location)?;
    if url.scheme() == "file" {
        return local(state, &url, location);
    }
    let location = shown(location);
    #[cfg(not(feature = "azure"))]
    if remote::service::Service::of(url.scheme()) == Some(remote::service::Service::Azure) {
        let reason = remote::service::WITHOUT_AZURE;
        return plan_err!("'{location}' is in Azure, and {reason}");
    }
    let base = ObjectStoreUrl::parse(base_of(&url))?;
    let Ok(objects) = state.runtime_env().object_store(&base) else {
        return plan_err!(
            "no object store is registered for '{}', so '{location}' cannot be read; register one with \
             RuntimeEnv::register_object_store (vcz sql does so for s3, gs and http), or say in the options of the table how it is reached",
            shown(base.as_str())
        );
    };
    remote_at(&url, objects, Secrets::default())
}

/// [`locate`], with an object store of the table's own if there are options for it.
async fn locate_by(
    state: &dyn Session,
    location: &str,
    options: &RemoteOptions,
) -> Result<Location> {
    if options.is_empty() {
        return locate(state, location);
    }
    let url = parse(state, location)?;
    if url.scheme() == "file" {
        options.check_service(None, location)?;
    }
    let objects = remote::build(&url, &shown(location), options).await?;
    remote_at(&url, objects, options.secrets())
}

/// A location as a URL. The one way to them, so that a session with [`RegisteredOnly`] is closed here.
fn parse(state: &dyn Session, location: &str) -> Result<Url> {
    if location.is_empty() {
        return plan_err!("the location is empty; give a path or URL");
    }
    if state.config().get_extension::<RegisteredOnly>().is_some() {
        return plan_err!(
            "there is no registered table '{}', and this session opens no paths or URLs",
            shown(location)
        );
    }
    match Url::parse(location) {
        // One letter is a drive, not a scheme.
        Ok(url) if url.scheme().len() > 1 && location.contains("://") => Ok(url),
        _ => file_url(Path::new(location)),
    }
}

fn local(state: &dyn Session, url: &Url, location: &str) -> Result<Location> {
    let Ok(local) = url.to_file_path() else {
        return plan_err!("'{location}' is not a path on this machine");
    };
    let path =
        object_store::path::Path::from_absolute_path(&local).map_err(DataFusionError::from)?;
    let objects = state
        .runtime_env()
        .object_store(ObjectStoreUrl::local_filesystem())?;
    Ok(Location {
        objects,
        path,
        local: Some(local),
    })
}

/// The place of `url` in an object store whose errors will show no credentials.
fn remote_at(url: &Url, objects: Arc<dyn ObjectStore>, secrets: Secrets) -> Result<Location> {
    let path =
        object_store::path::Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
    Ok(Location {
        objects: Arc::new(RedactedStore::new(objects, secrets.and_of(url))),
        path,
        local: None,
    })
}

/// The part of a URL that object stores are registered by.
fn base_of(url: &Url) -> &str {
    &url[url::Position::BeforeScheme..url::Position::AfterPort]
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
    read_place(locate(state, location)?, &shown(location)).await
}

/// Reads the populations file of a store. Where it is in the same bucket, or on the same server, it is read by the same options.
async fn read_populations(
    state: &dyn Session,
    file: &str,
    store: &str,
    options: &RemoteOptions,
) -> Result<Bytes> {
    let (file_url, store_url) = (parse(state, file)?, parse(state, store)?);
    if options.is_empty() || base_of(&file_url) != base_of(&store_url) {
        return read_file(state, file).await;
    }
    read_place(locate_by(state, file, options).await?, &shown(file)).await
}

async fn read_place(place: Location, location: &str) -> Result<Bytes> {
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
    let place = locate_by(state, location, &options.remote).await?;
    let shown_location = shown(location);
    let opened = Store::open_with_arrays(
        place.objects,
        place.path,
        shown_location.clone(),
        place.local,
        &options.arrays,
    );
    let store = opened
        .await?
        .with_denied_chunks(options.denied_chunks == DeniedChunks::Absent);
    for warning in store.warnings() {
        log::warn!("store '{shown_location}': {warning}");
    }
    for (array, reason) in store.unreadable() {
        log::warn!("store '{shown_location}': array '{array}' is left out: {reason}");
    }
    let populations = match &options.populations {
        Some(file) => Some((
            shown(file),
            read_populations(state, file, location, &options.remote).await?,
        )),
        None => None,
    };
    let populations = populations
        .as_ref()
        .map(|(name, text)| (name.as_str(), text.as_ref()));
    Ok(VczTable::open(store, populations, options.region_index).await?)
}
