//! Discovers the contents of a store: its group's attributes and the metadata of its arrays, in Zarr v2 or v3.
//!
//! Called once by `Store::open`. Consolidated metadata is used if there is any; otherwise the top level is listed (never a
//! chunk folder), and where that is not possible, likely names are tried. Invariant: an array whose metadata is not
//! supported is reported with the reason, and the other arrays can be read. A document that is not JSON is an error: it was
//! damaged on its way or on the disk, and leaving its array out would change what `SELECT *` gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::future::{Either, ready, select};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::array::{ArrayMeta, shown};
use super::consolidated::{ArrayRead, entries, node_v3};
use super::document::DocumentId;
use super::element::ZarrFormat;
use super::error::StoreError;
use super::names::likely_names;
use super::read_error::ReadError;
use super::source::StoreSource;
use crate::error::{Result, VczError};

/// Longest metadata document that is accepted.
pub(super) const MAX_DOCUMENT: u64 = 1 << 28;
/// Arrays whose metadata documents are read concurrently: all of nearly every store, so that it is opened in one round.
pub(super) const CONCURRENT_READS: usize = 128;

/// The contents of a store.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) format: ZarrFormat,
    pub(super) attributes: Map<String, Value>,
    pub(super) arrays: BTreeMap<String, Arc<ArrayMeta>>,
    /// Arrays whose metadata is not supported, and why.
    pub(super) unreadable: BTreeMap<String, StoreError>,
    /// Whether the location could not be listed, so that only likely names were tried.
    pub(super) guessed: bool,
    /// Whether the arrays' metadata is that of one document, `root`.
    pub(super) is_consolidated: bool,
    /// Whether documents of arrays were looked for and not found.
    pub(super) is_incomplete: bool,
    /// The document of the root group with its state, from which the arrays' metadata was read if that is consolidated.
    pub(super) root: Option<(&'static str, DocumentId)>,
    /// The states of the arrays' own documents; empty if the metadata is consolidated.
    pub(super) documents: BTreeMap<String, DocumentId>,
    /// When reading them began.
    pub(super) opened: SystemTime,
}

/// The root group's own documents.
struct Root {
    format: ZarrFormat,
    attributes: Map<String, Value>,
    /// Consolidated metadata: v3 by name, v2 by `name/.zarray` and `name/.zattrs`.
    consolidated: Option<Map<String, Value>>,
    /// The document with the consolidated metadata, or the group's.
    document: Option<(&'static str, DocumentId)>,
}

/// The bytes of a document and its state.
type Document = (Bytes, Option<DocumentId>);

/// The documents of an array that were read.
#[derive(Default)]
struct ArrayDocuments {
    read: ArrayRead,
    /// The state of the one with the array's shape.
    id: Option<DocumentId>,
    /// Whether one of them is absent.
    is_incomplete: bool,
}

/// Reads the metadata of the store at `source`; `location` is for messages. The arrays `named` are looked for by their names, wherever
/// they are not listed.
pub(super) async fn discover(
    source: &StoreSource,
    location: &str,
    named: &[String],
) -> Result<Contents> {
    let opened = SystemTime::now();
    let documents = Documents { source, location };
    // Lists while the documents are read; cancelled if not needed.
    let (root, listing) = (documents.root().boxed(), source.top_level().boxed());
    let (root, listing) = match select(root, listing).await {
        Either::Left((root, listing)) => (root, Either::Left(listing)),
        Either::Right((listing, root)) => (root.await, Either::Right(ready(listing))),
    };
    let Root {
        format,
        attributes,
        consolidated,
        document: root,
    } = root?;
    let (mut guessed, mut is_incomplete) = (false, false);
    let is_consolidated = consolidated.is_some();
    let mut ids = BTreeMap::new();
    let named: BTreeSet<String> = named.iter().cloned().collect();
    let mut found: Vec<(String, ArrayRead)> = vec![];
    let names = match consolidated {
        Some(metadata) => {
            found = entries(format, metadata);
            let known: BTreeSet<&String> = found.iter().map(|(name, _)| name).collect();
            let more = named.iter().filter(|name| !known.contains(name));
            more.cloned().collect()
        }
        None => {
            let listed = listing.await.map_err(|error| documents.error("", error))?;
            // A listing without a folder is treated as not possible.
            let names = listed.filter(|names| !names.is_empty());
            guessed = names.is_none();
            let mut names = names.unwrap_or_else(|| likely_names(&attributes));
            names.extend(named.iter().cloned());
            names
        }
    };
    if !names.is_empty() {
        // Listed arrays exist; named ones may not.
        let may_be_absent = guessed || !named.is_empty();
        let arrays = documents.arrays(format, names, may_be_absent).await?;
        is_incomplete = guessed || arrays.iter().any(|(_, array)| array.is_incomplete);
        for (name, array) in arrays {
            ids.extend(array.id.map(|id| (name.clone(), id)));
            found.push((name, array.read));
        }
    }
    for name in &named {
        if !found
            .iter()
            .any(|(known, read)| known == name && read.is_some())
        {
            return Err(VczError::Metadata {
                store: location.to_owned(),
                what: "option 'vcz.arrays'".to_owned(),
                reason: format!("there is no array '{name}' in the store"),
            });
        }
    }
    let (mut arrays, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
    for (name, read) in found {
        match read {
            Some(Ok(array)) => drop(arrays.insert(name, Arc::new(array))),
            Some(Err(reason)) => drop(unreadable.insert(name, reason)),
            None => {}
        }
    }
    Ok(Contents {
        format,
        attributes,
        arrays,
        unreadable,
        guessed,
        is_consolidated,
        is_incomplete,
        root,
        documents: ids,
        opened,
    })
}

/// An array that was found at a path below the store's root.
pub(super) struct FoundArray {
    pub(super) path: String,
    /// Its metadata, or the reason why it is not supported.
    pub(super) read: Result<ArrayMeta, StoreError>,
    /// The state of its document.
    pub(super) id: Option<DocumentId>,
}

/// Reads the metadata of the arrays at `paths`, such as `variants/POS`; absent ones are left out.
pub(super) async fn arrays_at(
    source: &StoreSource,
    location: &str,
    format: ZarrFormat,
    paths: BTreeSet<String>,
) -> Result<Vec<FoundArray>> {
    let documents = Documents { source, location };
    let found = documents.arrays(format, paths, true).await?;
    let present = found.into_iter().filter_map(|(path, array)| {
        let (read, id) = (array.read?, array.id);
        Some(FoundArray { path, read, id })
    });
    Ok(present.collect())
}

struct Documents<'a> {
    source: &'a StoreSource,
    location: &'a str,
}

impl Documents<'_> {
    async fn root(&self) -> Result<Root> {
        let (v3, consolidated, group, attributes) = futures::join!(
            self.object("zarr.json"),
            self.object(".zmetadata"),
            self.object(".zgroup"),
            self.object(".zattrs"),
        );
        // Without permission to list, object stores answer "access denied" for absent objects.
        let mut denial = None;
        if let Some((document, id)) = unless_denied(v3, &mut denial)? {
            return self.root_v3(document, id);
        }
        let mut root = None;
        let metadata = match unless_denied(consolidated, &mut denial)? {
            None => None,
            Some((mut document, id)) => match document.remove("metadata") {
                Some(Value::Object(metadata)) => {
                    root = id.map(|id| (".zmetadata", id));
                    Some(metadata)
                }
                other => {
                    let reason = format!(
                        "'metadata' is {}; expected an object",
                        shown(other.as_ref())
                    );
                    return Err(self.metadata_error(".zmetadata", reason));
                }
            },
        };
        let consolidated_object = |key: &str| metadata.as_ref()?.get(key)?.as_object().cloned();
        let group = unless_denied(group, &mut denial)?.map(|(group, id)| {
            root = root.take().or(id.map(|id| (".zgroup", id)));
            group
        });
        let Some(group) = group.or_else(|| consolidated_object(".zgroup")) else {
            let reason = "neither 'zarr.json' (Zarr v3) nor '.zgroup' or '.zmetadata' (Zarr v2) \
                          was found in it";
            return Err(denial.unwrap_or_else(|| self.not_a_store(reason)));
        };
        let version = group.get("zarr_format");
        if version.and_then(Value::as_u64) != Some(2) {
            return Err(self.metadata_error(
                ".zgroup",
                format!("'zarr_format' is {}; expected 2", shown(version)),
            ));
        }
        let attributes = unless_denied(attributes, &mut denial)?
            .map(|(attributes, _)| attributes)
            .or_else(|| consolidated_object(".zattrs"))
            .unwrap_or_default();
        Ok(Root {
            format: ZarrFormat::V2,
            attributes,
            consolidated: metadata,
            document: root,
        })
    }

    fn root_v3(&self, mut document: Map<String, Value>, id: Option<DocumentId>) -> Result<Root> {
        let version = document.get("zarr_format");
        if version.and_then(Value::as_u64) != Some(3) {
            return Err(self.metadata_error(
                "zarr.json",
                format!("'zarr_format' is {}; expected 3", shown(version)),
            ));
        }
        let kind = document.get("node_type");
        if kind.and_then(Value::as_str) != Some("group") {
            let reason = format!(
                "its 'zarr.json' has the 'node_type' {}; expected \"group\"",
                shown(kind)
            );
            return Err(self.not_a_store(reason));
        }
        let attributes = match document.remove("attributes") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(attributes)) => attributes,
            other => {
                let reason = format!(
                    "'attributes' is {}; expected an object",
                    shown(other.as_ref())
                );
                return Err(self.metadata_error("zarr.json", reason));
            }
        };
        let mut consolidated = match document.remove("consolidated_metadata") {
            // Only the inline kind is defined; otherwise the documents are read one by one.
            Some(Value::Object(consolidated))
                if consolidated.get("kind").is_none_or(|k| k == "inline") =>
            {
                consolidated
            }
            _ => Map::new(),
        };
        let consolidated = match consolidated.remove("metadata") {
            Some(Value::Object(metadata)) => Some(metadata),
            _ => None,
        };
        Ok(Root {
            format: ZarrFormat::V3,
            attributes,
            consolidated,
            document: id.map(|id| ("zarr.json", id)),
        })
    }

    async fn arrays(
        &self,
        format: ZarrFormat,
        names: BTreeSet<String>,
        guessed: bool,
    ) -> Result<Vec<(String, ArrayDocuments)>> {
        let reads = names.into_iter().map(|name| async move {
            let read = match format {
                ZarrFormat::V2 => self.array_v2(&name, guessed).await?,
                ZarrFormat::V3 => self.array_v3(&name, guessed).await?,
            };
            Ok((name, read))
        });
        stream::iter(reads)
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await
    }

    async fn array_v2(&self, name: &str, guessed: bool) -> Result<ArrayDocuments> {
        let [array_key, attributes_key] = [".zarray", ".zattrs"].map(|key| format!("{name}/{key}"));
        let (array, attributes) = futures::join!(
            self.bytes_of_array(&array_key, guessed),
            self.bytes_of_array(&attributes_key, guessed),
        );
        let attributes = attributes?;
        let Some((array, id)) = array? else {
            return Ok(ArrayDocuments {
                is_incomplete: true,
                ..ArrayDocuments::default()
            });
        };
        let is_incomplete = attributes.is_none();
        self.check_is_json(&array_key, &array)?;
        if let Some((attributes, _)) = &attributes {
            self.check_is_json(&attributes_key, attributes)?;
        }
        let read = || {
            let array = parse(&array, ".zarray")?;
            let attributes = attributes
                .map(|(attributes, _)| parse(&attributes, ".zattrs"))
                .transpose()?;
            ArrayMeta::from_v2(name, &array, attributes)
        };
        Ok(ArrayDocuments {
            read: Some(read()),
            id,
            is_incomplete,
        })
    }

    async fn array_v3(&self, name: &str, guessed: bool) -> Result<ArrayDocuments> {
        let key = format!("{name}/zarr.json");
        let Some((document, id)) = self.bytes_of_array(&key, guessed).await? else {
            return Ok(ArrayDocuments {
                is_incomplete: true,
                ..ArrayDocuments::default()
            });
        };
        self.check_is_json(&key, &document)?;
        let read = match parse(&document, "zarr.json") {
            Ok(document) => node_v3(name, &document),
            Err(reason) => Some(Err(reason)),
        };
        Ok(ArrayDocuments {
            read,
            id,
            is_incomplete: false,
        })
    }

    /// A document of the root group.
    async fn object(&self, key: &str) -> Result<Option<(Map<String, Value>, Option<DocumentId>)>> {
        let Some((bytes, id)) = self.bytes(key).await? else {
            return Ok(None);
        };
        match parse(&bytes, key).map_err(|reason| self.metadata_error(key, reason))? {
            Value::Object(object) => Ok(Some((object, id))),
            other => Err(self.metadata_error(
                key,
                format!("it is {}; expected an object", shown(Some(&other))),
            )),
        }
    }

    /// That the document `key` of an array is JSON, but for NaN and Infinity, which Python's json writes.
    fn check_is_json(&self, key: &str, document: &[u8]) -> Result<()> {
        let has = |word: &[u8]| document.windows(word.len()).any(|part| part == word);
        match serde_json::from_slice::<IgnoredAny>(document) {
            Err(error) if error.is_eof() || !(has(b"NaN") || has(b"Infinity")) => {
                let reason = format!("it is damaged, since its bytes are not JSON: {error}");
                Err(self.metadata_error(key, reason))
            }
            _ => Ok(()),
        }
    }

    /// A document of an array; if its name was `guessed`, "access denied" means that it is absent.
    async fn bytes_of_array(&self, key: &str, guessed: bool) -> Result<Option<Document>> {
        let bytes = self.bytes(key).await;
        if guessed {
            unless_denied(bytes, &mut None)
        } else {
            bytes
        }
    }

    async fn bytes(&self, key: &str) -> Result<Option<Document>> {
        self.source
            .get_document(key, MAX_DOCUMENT)
            .await
            .map_err(|error| self.error(key, error))
    }

    fn error(&self, key: &str, error: ReadError) -> VczError {
        match error {
            ReadError::Io(source) => VczError::Io {
                store: self.location.to_owned(),
                key: key.to_owned(),
                source,
            },
            ReadError::Corrupt(reason) => self.metadata_error(key, reason),
        }
    }

    fn metadata_error(&self, what: &str, reason: impl Into<String>) -> VczError {
        VczError::Metadata {
            store: self.location.to_owned(),
            what: format!("'{what}'"),
            reason: reason.into(),
        }
    }

    fn not_a_store(&self, reason: impl Into<String>) -> VczError {
        VczError::NotAStore {
            store: self.location.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Treats "access denied" as absence, and keeps the error in `denial` for the case that nothing is found.
fn unless_denied<T>(result: Result<Option<T>>, denial: &mut Option<VczError>) -> Result<Option<T>> {
    match result {
        Err(VczError::Io { store, key, source })
            if matches!(
                source.downcast_ref(),
                Some(
                    object_store::Error::PermissionDenied { .. }
                        | object_store::Error::Unauthenticated { .. }
                )
            ) =>
        {
            *denial = Some(VczError::Io { store, key, source });
            Ok(None)
        }
        other => other,
    }
}

fn parse(bytes: &[u8], key: &str) -> Result<Value, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| format!("'{key}' is not JSON: {error}").into())
}
