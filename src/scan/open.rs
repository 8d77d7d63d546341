//! Opens tables by location, and reads small files (populations, masks).

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, config_err, plan_err};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;

use super::dataset::Dataset;
use super::locate::{Location, base_of, locate, locate_by, parse};
use super::locations::{Named, all_stores, groups_below, stores_below};
use super::notices::NoticeSink;
use super::options::VczSettings;
use super::origin::TableOrigin;
use super::plan::backend::warm_up;
use super::remote::cached::CachedStore;
use super::remote::disk_cache::DiskCache;
use super::remote::location::shown;
use super::remote::options::RemoteOptions;
use super::side_query::{self, MAX_SIDE_FILE};
use super::table::VczTable;
use super::table_options::{CACHE_SIZE, DeniedChunks, TableOptions};
use crate::counts::PopulationsFile;
use crate::error::VczError;
use crate::store::Store;

/// Stores of a table that are opened at the same time.
const CONCURRENT_STORES: usize = 32;
/// Variables of the environment that say where a bucket is.
const ENDPOINTS: [&str; 4] = [
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "GOOGLE_BASE_URL",
];
/// The maximum number of locations in a table's name for messages.
const MOST_NAMED: usize = 3;

/// Reads a small file, such as a populations file or a mask.
pub async fn read_file(state: &dyn Session, location: &str) -> Result<Bytes> {
    read_place(locate(state, location).await?, &shown(location)).await
}

/// Reads the populations file of a store, with the store's options if it is in the same bucket or on the same server.
async fn read_populations(
    state: &dyn Session,
    file: &str,
    store: &str,
    options: &RemoteOptions,
) -> Result<Bytes> {
    let (file_url, store_url) = (parse(state, file).await?, parse(state, store).await?);
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

/// Opens the store at `location` as a table, or all stores of a pattern or a folder: see [`open_stores`].
///
/// # Errors
/// Those of [`open_stores`].
pub async fn open_table(
    state: &dyn Session,
    location: &str,
    options: &TableOptions,
) -> Result<VczTable> {
    open_stores(state, &[location.to_string()], options).await
}

/// Opens the stores at `locations` as one table. A location is a path or URL of a store, a pattern such as `data/chr*.vcz.zip`, or a
/// folder of stores (`.vcz`, `.vcz.zip`). The stores of patterns and folders are in the order of their names, with numbers by value.
///
/// # Errors
/// If there is no store at a location, a store cannot be opened, the stores do not fit together
/// ([`VczTable::merge`]), or the populations file is invalid.
pub async fn open_stores(
    state: &dyn Session,
    locations: &[String],
    options: &TableOptions,
) -> Result<VczTable> {
    let settings = VczSettings::of(state.config_options());
    // The GPU is started now, so that it is ready when a query needs it.
    warm_up(&settings);
    let notices = settings.notices;
    let mut found = all_stores(state, locations, &options.remote).await?;
    let cache = cache_of(options)?;
    let keep = |store: &mut Named| with_cache(store, options, cache.as_ref());
    found.iter_mut().for_each(keep);
    let origin = TableOrigin::of(&found, options);
    let only = match found.as_slice() {
        [only] => match open(only.clone(), options, &notices).await {
            Ok(store) => Some(store),
            // It may be a folder of stores, or a group of chromosomes' groups.
            Err(error @ VczError::NotAStore { .. }) => {
                let mut below = stores_below(only).await;
                if below.is_empty() {
                    below = groups_below(only).await;
                }
                if below.is_empty() {
                    return Err(error.into());
                }
                found = below;
                None
            }
            Err(error) => return Err(error.into()),
        },
        _ => None,
    };
    let text = match (&options.populations, locations.first()) {
        (Some(query), _) if side_query::is_query(query) => {
            let are_named = options.population_columns().is_some();
            Some(side_query::csv(state, query, are_named).await?)
        }
        (Some(file), Some(store)) => {
            Some(read_populations(state, file, store, &options.remote).await?)
        }
        _ => None,
    };
    let name = options.populations.as_deref().map(shown);
    let populations = name.as_deref().zip(text.as_ref());
    let populations = populations.map(|(name, text)| PopulationsFile {
        name,
        text,
        columns: options.population_columns(),
        unknown_samples: options.unknown_samples,
    });
    if let Some(only) = only {
        let table = VczTable::open(only, populations, options.region_index).await?;
        return Ok(table.with_origin(origin));
    }
    let opened = stream::iter(found).map(|store| {
        let (options, notices) = (options.clone(), notices.clone());
        // Names and indexes of one store are decoded while those of others are read.
        let task = SpawnedTask::spawn(async move { open_dataset(store, &options, &notices).await });
        async move {
            let joined = task.join().await;
            let dataset =
                joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            Ok::<_, DataFusionError>(Arc::new(dataset?))
        }
    });
    let stores: Vec<Arc<Dataset>> = opened.buffered(CONCURRENT_STORES).try_collect().await?;
    let table = VczTable::merge(name_of(locations), stores, populations).await?;
    Ok(table.with_origin(origin))
}

/// The cache that the options ask for.
fn cache_of(options: &TableOptions) -> Result<Option<Arc<DiskCache>>> {
    let Some(folder) = &options.cache_dir else {
        if options.cache_size.is_some() {
            return config_err!(
                "option 'vcz.cache_size' is the size of a cache: set 'vcz.cache_dir', too"
            );
        }
        return Ok(None);
    };
    let size = options.cache_size.unwrap_or(CACHE_SIZE);
    match DiskCache::open(Path::new(folder), size) {
        Ok(cache) => Ok(Some(Arc::new(cache))),
        Err(error) => config_err!(
            "option 'vcz.cache_dir': '{folder}' is not a folder and cannot be made one: {error}"
        ),
    }
}

/// Keeps what is read from a store in `cache`, if it is in an object store.
fn with_cache(store: &mut Named, options: &TableOptions, cache: Option<&Arc<DiskCache>>) {
    if let Some(cache) = cache
        && store.place.local.is_none()
    {
        let endpoints = ENDPOINTS
            .iter()
            .filter_map(|name| Some(format!("{name}={}\n", std::env::var(name).ok()?)));
        let identity = endpoints.collect::<String>() + &options.remote.public() + &store.name;
        let objects = Arc::clone(&store.place.objects);
        store.place.objects = Arc::new(CachedStore::new(objects, Arc::clone(cache), identity));
    }
}

async fn open(
    store: Named,
    options: &TableOptions,
    notices: &NoticeSink,
) -> Result<Store, VczError> {
    let Named {
        name,
        place,
        contig,
    } = store;
    let opened = Store::open_with_arrays(
        place.objects,
        place.path,
        name,
        place.local,
        &options.arrays,
    );
    let store = opened
        .await?
        .with_denied_chunks(options.denied_chunks == DeniedChunks::Absent)
        .with_contig(options.contig.clone().or(contig))
        .with_alleles(options.alleles);
    let location = store.location();
    for warning in store.warnings() {
        notices.add(format!("store '{location}': {warning}"));
    }
    for (array, reason) in store.unreadable() {
        log::warn!("store '{location}': array '{array}' is left out: {reason}");
    }
    Ok(store)
}

/// Opens one of several stores with its zones, which are needed to order the stores.
async fn open_dataset(
    store: Named,
    options: &TableOptions,
    notices: &NoticeSink,
) -> Result<Dataset, VczError> {
    let store = open(store, options, notices).await?;
    let dataset = Dataset::open(store, options.region_index).await?;
    dataset.zones().await?;
    Ok(dataset)
}

/// The name of all locations together, for messages.
fn name_of(locations: &[String]) -> String {
    match locations {
        [first, .., _] if locations.len() > MOST_NAMED => {
            format!("{} and {} more", shown(first), locations.len() - 1)
        }
        _ => {
            let shown: Vec<String> = locations.iter().map(|place| shown(place)).collect();
            shown.join(", ")
        }
    }
}
