//! [`Store`]: an open VCZ store.
//!
//! Metadata is read once, when the store is opened; after that every call reads one chunk. Invariant: in every kind of location
//! (directory, zip archive, object store), an absent chunk is `None` and any other failure is an error that names the
//! store, the array and the chunk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{GetRange, ObjectStore};
use serde_json::{Map, Value};

use super::array::{ArrayMeta, shown};
use super::discover::{Contents, discover};
use super::element::ZarrFormat;
use super::error::StoreError;
use super::local::{ChunkPlace, OpenChunk};
use super::names::{check_name, unlikely_arrays};
use super::other_writers::{OtherWriter, adapt};
use super::read_error::ReadError;
use super::source::StoreSource;
use crate::error::{Result, VczError};

/// The attribute of a group that says that it is VCF Zarr, and of which version.
const VERSION: &str = "vcf_zarr_version";
/// The newest version of the VCF Zarr specification that is known.
const NEWEST_VERSION: (u64, u64) = (0, 5);
/// Largest encoded chunk, or range of one, that is read.
const MAX_ENCODED_CHUNK: u64 = 1 << 33;
/// Bytes that an encoding may add to those of the decoded chunk, whatever its size.
const ENCODING_OVERHEAD: u64 = 1 << 26;
/// Most decoded bytes of a chunk that is cached in memory in encoded form.
const THIN_CHUNK: usize = 256 << 10;

/// Makes the chunks of an array from other arrays of a store.
pub trait MadeArray: std::fmt::Debug + Send + Sync {
    /// The chunk at `index`, in the encoding that [`Store::with_made`] says.
    ///
    /// # Errors
    /// Of reading and decoding what it is made of.
    fn chunk<'a>(&'a self, store: &'a Store, index: &'a [u64]) -> BoxFuture<'a, Result<Bytes>>;
}

/// A VCZ store whose metadata was read.
#[derive(Debug)]
pub struct Store {
    pub(super) location: String,
    pub(super) source: StoreSource,
    pub(super) contents: Contents,
    is_denied_absent: bool,
    version: String,
    warnings: Vec<String>,
    /// What is special about a group that does not say that it is VCF Zarr.
    pub(super) other_writer: Option<OtherWriter>,
    pub(super) made: BTreeMap<String, Arc<dyn MadeArray>>,
    pub(super) contig: Option<String>,
    pub(super) alleles: Option<usize>,
}

impl Store {
    /// Opens the store at `path` of `objects` and reads its metadata; no chunk is read and no chunk folder listed.
    ///
    /// `location` is what the user wrote, for messages; where it begins with `http://` or `https://` no listing is tried.
    /// With `local_path` the store is read from the file system instead of through `objects`. A path that ends in
    /// `.zip`, or is a file, is a zip archive of a store.
    ///
    /// # Errors
    /// [`VczError::NotAStore`] if there is no Zarr group, or it has neither `vcf_zarr_version` nor positions; [`VczError::Metadata`] if its
    /// metadata, or the archive, is malformed; [`VczError::Io`] if reading fails. An array that cannot be understood is
    /// no error, see [`Store::unreadable`].
    pub async fn open(
        objects: Arc<dyn ObjectStore>,
        path: Path,
        location: String,
        local_path: Option<PathBuf>,
    ) -> Result<Store> {
        Self::open_with_arrays(objects, path, location, local_path, &[]).await
    }

    /// [`Store::open`], with names of arrays that are looked for where they cannot be listed, and where consolidated metadata lacks them.
    ///
    /// # Errors
    /// As [`Store::open`]; [`VczError::Metadata`] if one of these arrays is absent, or its name is not valid.
    pub async fn open_with_arrays(
        objects: Arc<dyn ObjectStore>,
        path: Path,
        location: String,
        local_path: Option<PathBuf>,
        arrays: &[String],
    ) -> Result<Store> {
        for name in arrays {
            check_name(name).map_err(|reason| VczError::Metadata {
                store: location.clone(),
                what: "option 'vcz.arrays'".to_owned(),
                reason: reason.into(),
            })?;
        }
        let key = path.to_string();
        let is_local = local_path.is_some();
        let fallback = (!is_local).then(|| (Arc::clone(&objects), path.clone()));
        let source = StoreSource::open(objects, path, &location, local_path).await;
        let source = source.map_err(|error| open_error(&location, &key, error))?;
        let (source, mut contents) = match (discover(&source, &location, arrays).await, fallback) {
            (Err(error @ VczError::NotAStore { .. }), Some((objects, path))) => {
                // The path may be an archive without the suffix `.zip`.
                let archive = StoreSource::open_archive(objects, path)
                    .await
                    .map_err(|_| error)?;
                let contents = discover(&archive, &location, arrays).await?;
                (archive, contents)
            }
            (contents, _) => (source, contents?),
        };
        let other_writer = match contents.attributes.contains_key(VERSION) {
            true => None,
            false => Some(adapt(&source, &location, &mut contents).await?),
        };
        let version = match &other_writer {
            Some(other) => Ok(("none".to_owned(), Some(other.warning.clone()))),
            None => version(&contents.attributes),
        };
        let (version, warning) = match version {
            Ok(version) => version,
            Err(reason) => {
                return Err(VczError::NotAStore {
                    store: location,
                    reason: reason.into(),
                });
            }
        };
        let guessed = contents
            .guessed
            .then(|| missing_arrays(&contents.attributes));
        Ok(Store {
            location,
            source,
            contents,
            is_denied_absent: false,
            version,
            warnings: warning.into_iter().chain(guessed).collect(),
            other_writer,
            made: BTreeMap::new(),
            contig: None,
            alleles: None,
        })
    }

    /// With `is_absent`, chunks to which access is denied (HTTP 403) are taken to be absent: so S3 answers for absent objects where
    /// listing is not allowed. Otherwise they are errors.
    pub fn with_denied_chunks(self, is_absent: bool) -> Self {
        Self {
            is_denied_absent: is_absent,
            ..self
        }
    }

    /// The store's location, as the user wrote it.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The Zarr format of its metadata.
    pub fn format(&self) -> ZarrFormat {
        self.contents.format
    }

    /// The attributes of the root group.
    pub fn attributes(&self) -> &Map<String, Value> {
        &self.contents.attributes
    }

    /// Version of the VCF Zarr specification that the store follows, e.g. `0.4`; `none` if it does not say so.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Problems that do not prevent reading the store.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Which arrays may be missing because the location could not be listed, and what to do; `None` if none are.
    pub fn missing_arrays(&self) -> Option<String> {
        let contents = &self.contents;
        contents
            .guessed
            .then(|| missing_arrays(&contents.attributes))
    }

    /// The arrays, sorted by name.
    pub fn arrays(&self) -> impl Iterator<Item = &Arc<ArrayMeta>> {
        self.contents.arrays.values()
    }

    /// The array of this name, if there is one with supported metadata.
    pub fn array(&self, name: &str) -> Option<&Arc<ArrayMeta>> {
        self.contents.arrays.get(name)
    }

    /// The array of this name.
    ///
    /// # Errors
    /// [`VczError::Metadata`] with the reason if there is none, or if its metadata is not supported.
    pub fn require_array(&self, name: &str) -> Result<&Arc<ArrayMeta>> {
        self.array(name).ok_or_else(|| VczError::Metadata {
            store: self.location.clone(),
            what: format!("array '{name}'"),
            reason: match self.unreadable().get(name) {
                Some(reason) => reason.to_string(),
                None => "the store has no such array".to_owned(),
            },
        })
    }

    /// The arrays whose metadata is not supported, by name, and the reasons.
    pub fn unreadable(&self) -> &BTreeMap<String, StoreError> {
        &self.contents.unreadable
    }

    /// The contigs' names where they are an attribute of the group, as in version 0.1; later they are the array
    /// `contig_id`.
    pub fn contigs_attribute(&self) -> Option<Vec<String>> {
        self.names_attribute("contigs")
    }

    /// The filters' names where they are an attribute of the group, as in version 0.1; later they are the array
    /// `filter_id`.
    pub fn filters_attribute(&self) -> Option<Vec<String>> {
        self.names_attribute("filters")
    }

    fn names_attribute(&self, key: &str) -> Option<Vec<String>> {
        let names = self.attributes().get(key)?.as_array()?;
        names
            .iter()
            .map(|name| name.as_str().map(str::to_owned))
            .collect()
    }

    /// Whether chunks are read from local files.
    pub fn is_local(&self) -> bool {
        self.source.is_local()
    }

    /// All encoded bytes of the chunk at `index`; `None` if it is absent, which means that it holds fill values only.
    ///
    /// # Errors
    /// [`VczError::Io`] if reading fails; [`VczError::Chunk`] if `index` is outside the grid, or if the stored data is inconsistent
    /// (a zip entry with another size or checksum) or larger than any encoding of such a chunk.
    pub async fn chunk(&self, array: &ArrayMeta, index: &[u64]) -> Result<Option<Bytes>> {
        if let Some(made) = self.made.get(&array.name) {
            self.check_index(array, index)?;
            return made.chunk(self, index).await.map(Some);
        }
        if !is_thin(array) {
            return self.get(array, index, None).await;
        }
        let (key, limit) = self.object(array, index)?;
        let got = self.unless_denied(self.source.get_small(&key, limit).await);
        got.map_err(|error| self.read_error(array, index, key, error))
    }

    /// A range of the encoded bytes of the chunk at `index`, clipped at its end; `None` if it is absent. For shards, whose
    /// index says which ranges are of interest.
    ///
    /// # Errors
    /// As [`Store::chunk`]; also if the range begins beyond the end.
    pub async fn chunk_range(
        &self,
        array: &ArrayMeta,
        index: &[u64],
        range: GetRange,
    ) -> Result<Option<Bytes>> {
        self.get(array, index, Some(range)).await
    }

    /// The location of the encoded bytes of the chunk at `index`.
    ///
    /// # Errors
    /// [`VczError::Io`] if the file system returns an error; [`VczError::Chunk`] if `index` is outside the grid.
    pub async fn chunk_place(&self, array: &ArrayMeta, index: &[u64]) -> Result<ChunkPlace> {
        if self.is_made(array) {
            return Ok(ChunkPlace::Store);
        }
        let (key, _) = self.object(array, index)?;
        let place = self.source.place(&key).await;
        place.map_err(|error| self.read_error(array, index, key, error))
    }

    /// Opens the chunk at `index`, to be read into the caller's memory; `None` if it is absent. Short files are opened and not read.
    ///
    /// # Errors
    /// As [`Store::chunk`].
    pub async fn open_chunk(&self, array: &ArrayMeta, index: &[u64]) -> Result<Option<OpenChunk>> {
        if self.is_made(array) {
            return Ok(self.chunk(array, index).await?.map(OpenChunk::Bytes));
        }
        let (key, limit) = self.object(array, index)?;
        let opened = self.unless_denied(self.source.open_object(&key, limit).await);
        opened.map_err(|error| self.read_error(array, index, key, error))
    }

    /// What was read of a chunk, where a denial may mean that there is none.
    fn unless_denied<T>(&self, got: Result<Option<T>, ReadError>) -> Result<Option<T>, ReadError> {
        match got {
            Err(error) if self.is_denied_absent && error.is_denied() => Ok(None),
            got => got,
        }
    }

    pub(super) fn chunk_error(
        &self,
        array: &ArrayMeta,
        index: &[u64],
        reason: impl Into<String>,
    ) -> VczError {
        VczError::Chunk {
            store: self.location.clone(),
            array: array.name.clone(),
            chunk: array.chunk_label(index),
            reason: reason.into(),
        }
    }

    fn check_index(&self, array: &ArrayMeta, index: &[u64]) -> Result<()> {
        if array.contains_chunk(index) {
            return Ok(());
        }
        let reason = format!("it is outside the grid of {:?} chunks", array.grid_shape());
        Err(self.chunk_error(array, index, reason))
    }

    async fn get(
        &self,
        array: &ArrayMeta,
        index: &[u64],
        range: Option<GetRange>,
    ) -> Result<Option<Bytes>> {
        let (key, limit) = self.object(array, index)?;
        let got = self.unless_denied(self.source.get(&key, range, limit).await);
        got.map_err(|error| self.read_error(array, index, key, error))
    }

    /// The key of a chunk, and the most bytes that it may have.
    pub(super) fn object(&self, array: &ArrayMeta, index: &[u64]) -> Result<(String, u64)> {
        self.check_index(array, index)?;
        let limit = match array.chunk_bytes() {
            Some(bytes) => (bytes as u64)
                .saturating_mul(4)
                .saturating_add(ENCODING_OVERHEAD)
                .min(MAX_ENCODED_CHUNK),
            None => MAX_ENCODED_CHUNK,
        };
        let key = format!("{}/{}", self.folder(array), array.chunk_key(index));
        Ok((key, limit))
    }

    pub(super) fn read_error(
        &self,
        array: &ArrayMeta,
        index: &[u64],
        key: String,
        error: ReadError,
    ) -> VczError {
        // Whoever may read an archive's directory may read its chunks: a refusal there says nothing about absent chunks.
        let is_denied = error.is_denied() && !self.source.is_archive();
        match error {
            ReadError::Io(source) => VczError::Io {
                store: self.location.clone(),
                key,
                source: match is_denied {
                    true => Box::new(DeniedChunk(source)),
                    false => source,
                },
            },
            ReadError::Corrupt(reason) => self.chunk_error(array, index, reason),
        }
    }

    /// Sum of the stored bytes of an array's chunks; `None` if the location cannot be listed. Outside zip archives this lists the
    /// array's objects, so it is for metadata commands only.
    ///
    /// # Errors
    /// [`VczError::Io`] if a local directory cannot be read.
    pub async fn stored_bytes(&self, array: &ArrayMeta) -> Result<Option<u64>> {
        if self.is_made(array) {
            return Ok(None);
        }
        self.source
            .stored_bytes(self.folder(array))
            .await
            .map_err(|error| open_error(&self.location, &array.name, error))
    }
}

fn missing_arrays(attributes: &Map<String, Value>) -> String {
    format!(
        "this location cannot be listed and the store has no consolidated metadata, so only arrays with likely names were looked for. \
         There may be more: {}. Name them by the table option 'vcz.arrays', such as 'call_AD,variant_MQ', or have the store's owner \
         write consolidated metadata (vcz inspect STORE --consolidate)",
        unlikely_arrays(attributes)
    )
}

/// Access to a chunk was denied.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}. Access to this chunk is denied; if that is how this server says that a chunk is absent, as S3 does where listing is not \
     allowed, set the table option 'vcz.denied_chunks' to 'absent'"
)]
struct DeniedChunk(#[source] Box<dyn std::error::Error + Send + Sync>);

/// The version of the specification, and a warning if it is not one that is known.
fn version(attributes: &Map<String, Value>) -> Result<(String, Option<String>), StoreError> {
    let version = match attributes.get(VERSION) {
        Some(Value::String(version)) => version.clone(),
        Some(Value::Number(version)) => version.to_string(),
        other => {
            return Err(format!(
                "it is a Zarr group, but its attribute 'vcf_zarr_version' is {}; expected a version such as \"0.4\"",
                shown(other)
            )
            .into());
        }
    };
    let mut parts = version.split('.').map(str::parse::<u64>);
    let number = match (parts.next(), parts.next()) {
        (Some(Ok(major)), None) => Some((major, 0)),
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    };
    let (major, minor) = NEWEST_VERSION;
    let warning = match number {
        Some(number) if number <= NEWEST_VERSION => None,
        Some(_) => Some(format!(
            "it follows VCF Zarr version {version}, newer than {major}.{minor}, the newest one known: \
             new kinds of values may be misread"
        )),
        None => Some(format!(
            "its VCF Zarr version {version:?} is not of the form \"{major}.{minor}\""
        )),
    };
    Ok((version, warning))
}

fn open_error(location: &str, key: &str, error: ReadError) -> VczError {
    let store = location.to_owned();
    match error {
        ReadError::Io(source) if is_absent(&*source) => VczError::NotAStore {
            store,
            reason: "there is nothing at this location".to_owned(),
        },
        ReadError::Io(source) => VczError::Io {
            store,
            key: key.to_owned(),
            source,
        },
        ReadError::Corrupt(reason) => VczError::NotAStore {
            store,
            reason: if ends_in(location, &VCF) {
                "a VCF or BCF is converted by bio2zarr: vcf2zarr convert IN.vcf.gz OUT.vcz"
                    .to_owned()
            } else if ends_in(location, &TABLES) {
                format!("a file of another format is read by its name: SELECT … FROM '{location}'")
            } else {
                format!("as a zip archive: {reason}")
            },
        },
    }
}

const VCF: [&str; 4] = [".vcf", ".vcf.gz", ".vcf.bgz", ".bcf"];
/// Endings of other files that queries read.
const TABLES: [&str; 6] = [".csv", ".tsv", ".parquet", ".gff3", ".gtf", ".bed"];

fn ends_in(location: &str, endings: &[&str]) -> bool {
    let name = location.to_ascii_lowercase();
    endings.iter().any(|end| name.ends_with(end))
}

fn is_absent(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let io = error
        .downcast_ref::<std::io::Error>()
        .map(|error| error.kind() == std::io::ErrorKind::NotFound);
    let object = error
        .downcast_ref()
        .map(|error| matches!(error, object_store::Error::NotFound { .. }));
    io.or(object).unwrap_or(false)
}

/// Whether chunks of the array are small enough to cache: one number for each variant, such as positions and contigs.
fn is_thin(array: &ArrayMeta) -> bool {
    array.rank() == 1 && array.chunk_bytes().is_some_and(|bytes| bytes <= THIN_CHUNK)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
