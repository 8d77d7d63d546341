//! Writes consolidated metadata: one document that repeats those of all arrays, so that a store is opened in one round of requests,
//! by servers that cannot list, too.
//!
//! Invariants: documents are read again and copied as they are written; the one that is written replaces the one before at once, or
//! not at all (`replaced_document`); archives are not changed. Of those who write at the same time, the last one has seen what all have
//! added: it begins again if the document has changed since it began to read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use futures::{StreamExt, TryStreamExt, stream};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::discover::{CONCURRENT_READS, MAX_DOCUMENT};
use super::element::ZarrFormat;
use super::error::StoreError;
use super::read_error::ReadError;
use super::vcz_store::Store;
use crate::error::{Result, VczError};

/// How often writing is tried when others write at the same time.
const TRIES: usize = 20;

/// The consolidated metadata that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consolidated {
    /// The document that has it.
    pub document: &'static str,
    /// How many arrays it has.
    pub arrays: usize,
}

/// A document of a store: its key, and its text.
pub type Document = (String, String);

impl Store {
    /// Writes consolidated metadata of all arrays: `.zmetadata` in Zarr v2, a part of the group's `zarr.json` in Zarr v3, as
    /// zarr-python does. What was consolidated before is replaced.
    ///
    /// # Errors
    /// [`VczError::Invalid`] for archives, and where arrays cannot be listed; [`VczError::Metadata`] if a document is not JSON, or is
    /// of a group below the store's; [`VczError::Io`] if reading or writing fails.
    pub async fn consolidate(&self) -> Result<Consolidated> {
        self.consolidate_but(&BTreeSet::new()).await
    }

    /// Takes arrays out of consolidated metadata, if there are any, before these documents replace theirs: whoever reads the store in
    /// between would take the new chunks for what the old documents say. Arrays whose documents stay the same are left in, unless `all` is
    /// set. Returns whether there was one; they are listed again by [`Store::consolidate`].
    ///
    /// # Errors
    /// As those of [`Store::consolidate`].
    pub async fn unlist(&self, documents: &[Document], all: bool) -> Result<bool> {
        let mut replaced = BTreeSet::new();
        for (key, text) in documents {
            let Some((array, _)) = key.split_once('/') else {
                continue;
            };
            let Some((_, there)) = self.document(key.clone()).await? else {
                continue;
            };
            let value = |text: &str| serde_json::from_str::<Value>(text).ok();
            if all || value(&there) != value(text) {
                replaced.insert(array.to_owned());
            }
        }
        if replaced.is_empty() || !self.has_consolidated().await? {
            return Ok(false);
        }
        self.consolidate_but(&replaced).await.map(|_| true)
    }

    /// [`Store::consolidate`] without these arrays.
    async fn consolidate_but(&self, left_out: &BTreeSet<String>) -> Result<Consolidated> {
        // Whoever writes consolidated metadata in the meantime may not have seen all arrays, nor have we.
        for _ in 0..TRIES {
            if let Some(done) = self.try_consolidate(left_out).await? {
                return Ok(done);
            }
        }
        Err(VczError::Invalid(format!(
            "the consolidated metadata of '{}' were changed by others again and again while they were written; its arrays are complete. \
             Write them later: vcz inspect '{0}' --consolidate",
            self.location()
        )))
    }

    /// [`Store::consolidate_but`]; `None` if the metadata were changed meanwhile.
    async fn try_consolidate(&self, left_out: &BTreeSet<String>) -> Result<Option<Consolidated>> {
        let location = self.location();
        let before = self.version_of(self.consolidated_key()).await?;
        if self.source.is_archive() {
            return Err(VczError::Invalid(format!(
                "'{location}' is a zip archive, which is not changed. It needs no consolidated metadata to be opened, since its directory \
                 lists its contents; for other programs consolidate the folder that it was made of, and make it again"
            )));
        }
        let names = self.source.top_level().await;
        let names = names.map_err(|error| self.io_error("", error))?;
        let Some(names) = names.filter(|names| !names.is_empty()) else {
            return Err(VczError::Invalid(format!(
                "'{location}' cannot be listed, so its arrays are not known: consolidate it where it can be, such as the folder that was \
                 uploaded, and upload the document that this writes"
            )));
        };
        let suffixes: &[&str] = match self.format() {
            ZarrFormat::V2 => &[".zarray", ".zattrs", ".zgroup"],
            ZarrFormat::V3 => &["zarr.json"],
        };
        let kept = names.iter().filter(|name| !left_out.contains(*name));
        let below = kept.flat_map(|name| {
            suffixes
                .iter()
                .map(move |suffix| format!("{name}/{suffix}"))
        });
        let roots = suffixes.iter().filter(|suffix| **suffix != ".zarray");
        let keys: Vec<String> = roots
            .map(|suffix| suffix.to_string())
            .chain(below)
            .collect();
        let reads: Vec<_> = keys.into_iter().map(|key| self.document(key)).collect();
        let documents: Vec<Option<Document>> = stream::iter(reads)
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await?;
        let documents: Vec<Document> = documents.into_iter().flatten().collect();
        let wrong = |(key, reason): (String, StoreError)| VczError::Metadata {
            store: location.to_owned(),
            what: format!("'{key}'"),
            reason: reason.into(),
        };
        let (key, text, arrays) = match self.format() {
            ZarrFormat::V2 => consolidated_v2(&documents).map_err(wrong)?,
            ZarrFormat::V3 => consolidated_v3(documents).map_err(wrong)?,
        };
        let is_written = self.write_over(key, text, before).await?;
        Ok(is_written.then_some(Consolidated {
            document: key,
            arrays,
        }))
    }

    /// The document that has consolidated metadata.
    fn consolidated_key(&self) -> &'static str {
        match self.format() {
            ZarrFormat::V2 => ".zmetadata",
            ZarrFormat::V3 => "zarr.json",
        }
    }

    /// Whether the store has consolidated metadata.
    ///
    /// # Errors
    /// [`VczError::Io`] if reading fails; [`VczError::Metadata`] if the group's document is not JSON.
    pub async fn has_consolidated(&self) -> Result<bool> {
        Ok(match self.format() {
            ZarrFormat::V2 => self.document(".zmetadata".to_owned()).await?.is_some(),
            ZarrFormat::V3 => {
                let group = self.document("zarr.json".to_owned()).await?;
                let group = group.and_then(|(_, text)| serde_json::from_str::<Value>(&text).ok());
                group.is_some_and(|group| {
                    group
                        .get("consolidated_metadata")
                        .is_some_and(Value::is_object)
                })
            }
        })
    }

    /// Whether the store is a zip archive.
    pub fn is_archive(&self) -> bool {
        self.source.is_archive()
    }

    async fn document(&self, key: String) -> Result<Option<Document>> {
        let got = self.source.get_document(&key, MAX_DOCUMENT).await;
        let Some((bytes, _)) = got.map_err(|error| self.io_error(&key, error))? else {
            return Ok(None);
        };
        let text = serde_json::from_slice::<IgnoredAny>(&bytes)
            .map_err(|error| error.to_string())
            .and_then(|_| String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string()));
        match text {
            Ok(text) => Ok(Some((key, text))),
            Err(reason) => Err(VczError::Metadata {
                store: self.location().to_owned(),
                what: format!("'{key}'"),
                reason: format!("it is not JSON, so it is not consolidated: {reason}"),
            }),
        }
    }

    pub(super) fn io_error(&self, key: &str, error: ReadError) -> VczError {
        VczError::Io {
            store: self.location().to_owned(),
            key: key.to_owned(),
            source: match error {
                ReadError::Io(source) => source,
                ReadError::Corrupt(reason) => reason.into(),
            },
        }
    }
}

/// What is written, and how many arrays it has; or the document at fault, and the reason.
pub(super) type Written = Result<(&'static str, String, usize), (String, StoreError)>;

pub(super) fn consolidated_v2(documents: &[Document]) -> Written {
    let is = |key: &str, name: &str| key.rsplit('/').next() == Some(name);
    let group = documents
        .iter()
        .find(|(key, _)| is(key, ".zgroup") && key.contains('/'));
    if let Some((key, _)) = group {
        return Err((key.clone(), nested()));
    }
    if !documents.iter().any(|(key, _)| key == ".zgroup") {
        return Err((".zgroup".to_owned(), "it is absent".into()));
    }
    // Attributes of a folder that is no array are of no use.
    let arrays: BTreeSet<&str> = documents
        .iter()
        .filter_map(|(key, _)| key.strip_suffix("/.zarray"))
        .collect();
    let is_wanted = |key: &str| match key.rsplit_once('/') {
        Some((folder, _)) => arrays.contains(folder),
        None => true,
    };
    let wanted = documents.iter().filter(|(key, _)| is_wanted(key));
    let metadata = object(wanted.map(|(key, text)| (key.as_str(), text.as_str())));
    let text = format!("{{\"metadata\": {metadata}, \"zarr_consolidated_format\": 1}}\n");
    Ok((".zmetadata", text, arrays.len()))
}

pub(super) fn consolidated_v3(mut documents: Vec<Document>) -> Written {
    const ROOT: &str = "zarr.json";
    let at = documents.iter().position(|(key, _)| key == ROOT);
    let Some((_, root)) = at.map(|at| documents.remove(at)) else {
        return Err((ROOT.to_owned(), "it is absent".into()));
    };
    let failed = |error: serde_json::Error| (ROOT.to_owned(), StoreError::from(error.to_string()));
    let mut fields: Map<String, Value> = serde_json::from_str(&root).map_err(failed)?;
    let mut arrays = Vec::with_capacity(documents.len());
    for (key, text) in &documents {
        let document: Value = serde_json::from_str(text)
            .map_err(|error| (key.clone(), StoreError::from(error.to_string())))?;
        match document.get("node_type").and_then(Value::as_str) {
            Some("array") => {
                arrays.push((key.strip_suffix("/zarr.json").unwrap_or(key), text.as_str()))
            }
            Some("group") => return Err((key.clone(), nested())),
            _ => {
                return Err((
                    key.clone(),
                    "it is neither of an array nor of a group".into(),
                ));
            }
        }
    }
    // The group's own fields are kept as they are written, unless consolidated metadata has to be taken out of them.
    let own = match fields.remove("consolidated_metadata") {
        Some(_) => serde_json::to_string(&fields).map_err(failed)?,
        None => root,
    };
    let open = own.trim_end().strip_suffix('}').unwrap_or_default();
    let text = format!(
        "{}, \"consolidated_metadata\": {{\"kind\": \"inline\", \"must_understand\": false, \"metadata\": {}}}}}\n",
        open.trim_end(),
        object(arrays.iter().copied())
    );
    Ok((ROOT, text, arrays.len()))
}

fn nested() -> StoreError {
    "it is of a group below the store's, which VCZ stores do not have: consolidate such stores with zarr-python".into()
}

/// A JSON object of values that are JSON texts.
fn object<'a>(values: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::from("{");
    for (n, (key, value)) in values.enumerate() {
        let comma = if n > 0 { ", " } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{}: {}", Value::from(key), value.trim());
    }
    text + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(documents: &[(&str, &str)]) -> Vec<Document> {
        let owned = documents
            .iter()
            .map(|(key, text)| (key.to_string(), text.to_string()));
        owned.collect()
    }

    #[test]
    fn v2_repeats_documents_as_they_are() {
        let store = [
            (".zattrs", "{\"vcf_zarr_version\": \"0.4\"}\n"),
            (".zgroup", "{\"zarr_format\": 2}"),
            ("a/.zarray", "{\"shape\": [1e400]}"),
            ("a/.zattrs", "{}"),
            ("junk/.zattrs", "{}"),
        ];
        let store = &store[..];
        // `1e400` is JSON, but no number of Rust's.
        let (key, text, arrays) = consolidated_v2(&documents(store)).unwrap();
        assert_eq!((key, arrays), (".zmetadata", 1));
        assert!(text.contains("\"a/.zarray\": {\"shape\": [1e400]}") && !text.contains("junk"));
        let nested = [store, &[("g/.zgroup", "{}")]].concat();
        assert!(consolidated_v2(&documents(&nested)).is_err());
        assert!(consolidated_v2(&documents(&store[..1])).is_err());
    }

    #[test]
    fn v3_replaces_what_was_consolidated() {
        let array = (
            "a/zarr.json",
            "{\"node_type\": \"array\", \"fill_value\": 1e-7}",
        );
        let root = "{\"zarr_format\": 3,\n \"node_type\": \"group\", \"attributes\": {}\n}\n";
        let (key, text, arrays) =
            consolidated_v3(documents(&[("zarr.json", root), array])).unwrap();
        assert_eq!((key, arrays), ("zarr.json", 1));
        assert!(
            text.starts_with(root.trim_end().trim_end_matches(['}', '\n'])),
            "{text}"
        );
        let parsed: Value = serde_json::from_str(&text).unwrap();
        let inline = &parsed["consolidated_metadata"];
        assert_eq!(
            (&inline["kind"], &inline["must_understand"]),
            (&"inline".into(), &false.into())
        );
        assert_eq!(inline["metadata"]["a"]["fill_value"], 1e-7);
        let again = consolidated_v3(documents(&[("zarr.json", &text), array]))
            .unwrap()
            .1;
        assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), parsed);
        let group = ("g/zarr.json", "{\"node_type\": \"group\"}");
        assert!(consolidated_v3(documents(&[("zarr.json", root), group])).is_err());
        assert!(consolidated_v3(documents(&[array])).is_err());
    }
}
