//! Resolves a location given by a user to a path in an object store: local paths, and URLs of object stores that are registered with the
//! session or configured by a table's options.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::object_store::ObjectStoreUrl;
use object_store::ObjectStore;
use url::Url;

use super::blocking::blocking;
use super::remote;
use super::remote::location::shown;
use super::remote::options::RemoteOptions;
use super::remote::redacted::{RedactedStore, Secrets};

/// An extension of a session's configuration: the session reads only registered tables. [`locate`] then returns an error for
/// every path and URL, so neither a table, a populations file nor a mask can be opened by its location.
#[derive(Debug, Clone, Copy)]
pub struct RegisteredOnly;

/// A place in an object store.
#[derive(Debug, Clone)]
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
pub async fn locate(state: &dyn Session, location: &str) -> Result<Location> {
    let url = parse(state, location).await?;
    if url.scheme() == "file" {
        return local(state, &url, location);
    }
    let location = shown(location);
    let base = ObjectStoreUrl::parse(base_of(&url))?;
    let Ok(objects) = state.runtime_env().object_store(&base) else {
        return plan_err!(
            "no object store is registered for '{}', so '{location}' cannot be read; register one with \
             RuntimeEnv::register_object_store (vcz sql does so for s3, gs, az and http), or say in the options of the table how it is reached",
            shown(base.as_str())
        );
    };
    remote_at(&url, objects, Secrets::default())
}

/// Like [`locate`], but with the table's own object store if there are options for it.
///
/// # Errors
/// As [`locate`], and if the options are invalid.
pub async fn locate_by(
    state: &dyn Session,
    location: &str,
    options: &RemoteOptions,
) -> Result<Location> {
    if options.is_empty() {
        return locate(state, location).await;
    }
    let url = parse(state, location).await?;
    if url.scheme() == "file" {
        options.check_service(None, location)?;
    }
    let objects = remote::build(&url, &shown(location), options).await?;
    remote_at(&url, objects, options.secrets())
}

/// A location as a URL. All locations are parsed here, so this is where sessions with [`RegisteredOnly`] are restricted.
pub async fn parse(state: &dyn Session, location: &str) -> Result<Url> {
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
        // A single letter is a Windows drive, not a scheme.
        Ok(url) if url.scheme().len() > 1 && location.contains("://") => Ok(url),
        _ => file_url(Path::new(location)).await,
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

/// The location of `url` in an object store whose errors show no credentials.
fn remote_at(url: &Url, objects: Arc<dyn ObjectStore>, secrets: Secrets) -> Result<Location> {
    let path =
        object_store::path::Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
    Ok(Location {
        objects: Arc::new(RedactedStore::new(objects, secrets.and_of(url))),
        path,
        local: None,
    })
}

/// The part of a URL under which object stores are registered.
pub fn base_of(url: &Url) -> &str {
    &url[url::Position::BeforeScheme..url::Position::AfterPort]
}

/// The URL of a path on this machine. The path is resolved on a blocking thread of the runtime, since its file system may be slow.
async fn file_url(path: &Path) -> Result<Url> {
    let owned = path.to_owned();
    let absolute = blocking(move || absolute(&owned)).await??;
    match Url::from_file_path(&absolute) {
        Ok(url) => Ok(url),
        Err(()) => plan_err!("'{}' is not a path that can be opened", path.display()),
    }
}

/// The path without symbolic links and dots. If it does not exist, opening it will report that; then only its dots are removed.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Ok(found) => Ok(found),
        Err(_) => Ok(without_dots(&std::path::absolute(path)?)),
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
