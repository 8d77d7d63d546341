//! Checks that a store is still the one that was opened. Writers leave out chunks that hold fill values only; in a store that was
//! deleted, unmounted or replaced all chunks look like that.
//!
//! `scan` calls this where a chunk is absent. Invariants: an array is checked by its own metadata document, which consolidated
//! metadata repeats, and consolidated metadata by the document that has it; a document that is gone, cannot be read or has
//! changed is an error that names the array and the chunk. Consolidated metadata may change in what they say of other arrays. Archives need no check: their directory was read when they were
//! opened, and chunks that are read from an archive that has changed since fail their checksums.

use std::time::Duration;

use bytes::Bytes;

use super::array::ArrayMeta;
use super::consolidated::has_arrays;
use super::discover::MAX_DOCUMENT;
use super::document::DocumentId;
use super::element::ZarrFormat;
use super::error::StoreError;
use super::read_error::ReadError;
use super::vcz_store::Store;
use crate::error::{Result, VczError};

/// How much the clock of a server may be behind.
const CLOCKS: Duration = Duration::from_secs(2);

/// A chunk that was found to be absent.
#[derive(Debug, Clone, Copy)]
pub struct AbsentChunk<'a> {
    /// Its array.
    pub array: &'a ArrayMeta,
    /// Its index in the array's grid.
    pub index: &'a [u64],
    /// The state of the array's own document, as [`Store::check_array`] gave it.
    pub document: Option<&'a DocumentId>,
}

impl Store {
    /// Checks an array's metadata document after the chunk at `index` was found absent. It must equal what was read at opening or,
    /// failing that, at the earlier check `since`. Returns its state; `None` for archives.
    ///
    /// # Errors
    /// [`VczError::Chunk`] if the document is gone, cannot be read or has changed.
    pub async fn check_array(
        &self,
        array: &ArrayMeta,
        index: &[u64],
        since: Option<&DocumentId>,
    ) -> Result<Option<DocumentId>> {
        if self.source.is_archive() {
            return Ok(None);
        }
        let document = match array.format {
            ZarrFormat::V2 => ".zarray",
            ZarrFormat::V3 => "zarr.json",
        };
        let key = format!("{}/{document}", self.folder(array));
        let known = since.or_else(|| self.contents.documents.get(&array.name));
        let found = self.unchanged(&key, known).await;
        let found = found.map_err(|reason| self.absent_error(array, index, &reason.to_string()))?;
        Ok(Some(found))
    }

    /// Checks that the chunk at `index`, which was found to be absent, may be taken for fill values: [`Store::check_array`] and
    /// [`Store::check_consolidated`].
    ///
    /// # Errors
    /// [`VczError::Chunk`] if a document is gone, cannot be read or has changed.
    pub async fn check_absent(&self, array: &ArrayMeta, index: &[u64]) -> Result<()> {
        let document = self.check_array(array, index, None).await?;
        let absent = AbsentChunk {
            array,
            index,
            document: document.as_ref(),
        };
        self.check_consolidated(&[absent]).await
    }

    /// Checks the document with the consolidated metadata that the store was opened from, if it was, after the chunks `absent` were found
    /// to be absent. It may have been written again since then, as when arrays are added to the store, if it says the same of these
    /// arrays and their own documents are older.
    ///
    /// # Errors
    /// [`VczError::Chunk`] if the document is gone, cannot be read or has changed otherwise.
    pub async fn check_consolidated(&self, absent: &[AbsentChunk<'_>]) -> Result<()> {
        let (true, Some((key, known)), [first, ..]) =
            (self.contents.is_consolidated, &self.contents.root, absent)
        else {
            return Ok(());
        };
        let error = |chunk: &AbsentChunk<'_>, reason: &StoreError| {
            self.absent_error(chunk.array, chunk.index, &reason.to_string())
        };
        let found = self.present(key).await;
        let (text, found) = found.map_err(|reason| error(first, &reason))?;
        let Some(difference) = known.difference(&found) else {
            return Ok(());
        };
        // Another file of the same name is older, and clocks differ a little. What says the same of all arrays is another store's.
        let opened = self.contents.opened;
        let before = opened.checked_sub(CLOCKS).unwrap_or(opened);
        let is_written_again =
            known.content() != found.content() && found.is_after(before) == Some(true);
        for chunk in absent {
            let is_old = chunk
                .document
                .is_some_and(|document| document.is_after(opened) == Some(false));
            let is_same =
                is_written_again && is_old && has_arrays(self.format(), &text, &[chunk.array]);
            if !is_same {
                return Err(error(chunk, &other_than_opened(key, difference)));
            }
        }
        Ok(())
    }

    /// Checks the root group's document if anything that was looked for when the store was opened was not found: a server that
    /// stopped answering would look the same.
    ///
    /// # Errors
    /// [`VczError::Metadata`] if the document is gone, cannot be read or has changed.
    pub async fn check_opened(&self) -> Result<()> {
        if !self.contents.is_incomplete {
            return Ok(());
        }
        let checked = self.check_root().await;
        checked.map_err(|reason| VczError::Metadata {
            store: self.location.clone(),
            what: "while it was opened".to_owned(),
            reason: reason.into(),
        })
    }

    /// Whether the store is still the one that was opened, as far as the root group's document tells. An archive is: the file that was
    /// opened stays, and chunks of another one fail their checksums.
    pub async fn is_current(&self) -> bool {
        self.source.is_archive() || self.check_root().await.is_ok()
    }

    async fn check_root(&self) -> Result<(), StoreError> {
        let Some((key, known)) = &self.contents.root else {
            return Ok(());
        };
        self.unchanged(key, Some(known)).await.map(drop)
    }

    /// The state of the document `key`, which must not differ from the `known` one; else the reason.
    async fn unchanged(
        &self,
        key: &str,
        known: Option<&DocumentId>,
    ) -> Result<DocumentId, StoreError> {
        let (_, found) = self.present(key).await?;
        match known.and_then(|known| known.difference(&found)) {
            None => Ok(found),
            Some(difference) => Err(other_than_opened(key, difference)),
        }
    }

    /// The document `key` and its state; the reason if it is absent or cannot be read.
    async fn present(&self, key: &str) -> Result<(Bytes, DocumentId), StoreError> {
        match self.source.get_document(key, MAX_DOCUMENT).await {
            Ok(Some((text, Some(found)))) => Ok((text, found)),
            Ok(_) => Err(format!(
                "'{key}' is absent, too: the store was deleted, moved or unmounted, or its server does not know it any more. \
                 See that it is there, then run the query again"
            )
            .into()),
            Err(error) => {
                let reason = match error {
                    ReadError::Io(error) => error.to_string(),
                    ReadError::Corrupt(reason) => reason,
                };
                Err(format!(
                    "'{key}' cannot be read, so it is not known whether the store is still there: {reason}"
                )
                .into())
            }
        }
    }

    fn absent_error(&self, array: &ArrayMeta, index: &[u64], reason: &str) -> VczError {
        let reason = format!("it is absent, which is not taken for fill values, since {reason}");
        self.chunk_error(array, index, reason)
    }
}

fn other_than_opened(key: &str, difference: &str) -> StoreError {
    format!(
        "'{key}' is not what it was when the store was opened ({difference}): the store was written again or replaced. Open it again, by \
         creating the table again or in a new session"
    )
    .into()
}
