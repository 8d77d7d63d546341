//! A store inside a zip archive (`.vcz.zip`), local or remote: its entries are read like objects, by their names.
//!
//! The directory is read once, when the archive is opened, and with it the metadata of a remote store; after that an entry needs one
//! read, since its header and data are requested together, and entries that are near each other can share one. Invariants: nothing is inflated beyond the declared size, which must be possible for the stored bytes;
//! the checksum of an entry that is read whole is verified. Errors name the entry.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use futures::{StreamExt, stream};
use object_store::GetRange;
use parking_lot::Mutex;

use super::blob::Blob;
use super::files::{BLOCKING_BYTES, blocking};
use super::names::is_read_on_opening;
use super::read_error::{ReadError, resolve, within};
use super::zip_directory::{
    Directory, Entry, LOCAL_HEADER, MAX_TAIL, Tail, parse_tail, parse_zip64_end,
};
use super::zip_runs::{Run, runs};

/// Largest directory that is accepted: several million entries.
const MAX_DIRECTORY: u64 = 1 << 30;
/// Bytes by which the extra field before the data may exceed the directory's without a second read.
const EXTRA_SLACK: u64 = 64;
/// Reads of the archive at the same time, for chunks and for metadata documents.
pub(super) const CHUNK_READS: usize = 8;
const DOCUMENT_READS: usize = 64;
/// Longest metadata document, or chunk of names, that is read when the archive is opened, and most bytes of all of them.
const SMALL_DOCUMENT: u64 = 1 << 18;
const ALL_DOCUMENTS: u64 = 1 << 24;
/// Deflate makes at most 258 bytes of two bits; the slack is for the header of the first block.
const MAX_DEFLATE_RATIO: u64 = 1032;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// An open archive.
#[derive(Debug)]
pub(super) struct Zip {
    blob: Blob,
    directory: Directory,
    /// The folder that holds the store: empty, or a name and `/`.
    prefix: String,
    /// Small entries of a remote archive that were read when it was opened, until they are asked for: see [`is_read_on_opening`].
    documents: Mutex<HashMap<String, Bytes>>,
}

/// Entries that were read: the bytes of each, if there is such an entry, and the number of requests.
pub(super) struct Entries {
    pub(super) found: Vec<Option<Bytes>>,
    pub(super) requests: u64,
}

impl Zip {
    /// The objects of the store: the name below its folder, the size and the checksum of each.
    pub(super) fn contents(&self) -> impl Iterator<Item = (&[u8], u64, u32)> {
        let entries = self.directory.under(&self.prefix).iter();
        entries.map(|entry| {
            let name = self.directory.bytes_of_name(entry);
            let name = name.get(self.prefix.len()..).unwrap_or_default();
            (name, entry.size, entry.crc)
        })
    }

    /// Reads and checks the archive's directory.
    pub(super) async fn open(mut blob: Blob) -> Result<Self, ReadError> {
        let longest = MAX_TAIL.max(blob.tail_len());
        let tail_start = blob.len().saturating_sub(longest);
        let tail = blob.read(tail_start..blob.len()).await?;
        let end = match parse_tail(&tail, tail_start)? {
            Tail::End(end) => end,
            Tail::Zip64At { offset, records } => {
                let record = blob.read(offset..offset.saturating_add(56)).await?;
                parse_zip64_end(&record, offset, records)?
            }
        };
        let range = end.directory.clone();
        if range.end - range.start > MAX_DIRECTORY {
            let size = range.end - range.start;
            return Err(ReadError::Corrupt(format!(
                "its directory is {size} bytes; expected at most {MAX_DIRECTORY}"
            )));
        }
        // The tail is at least one end record long, and reaches beyond the directory.
        let bytes = match range.start.checked_sub(tail_start) {
            Some(start) => tail.slice(start as usize..(range.end - tail_start) as usize),
            // The rest of it.
            None => {
                let end = range.end.min(tail_start);
                let before = blob.read(range.start..end).await?;
                let inside = tail.slice(..(range.end - end) as usize);
                match inside.is_empty() {
                    true => before,
                    false => [before, inside].concat().into(),
                }
            }
        };
        let directory = Directory::parse(bytes, &end)?;
        let prefix = store_folder(&directory);
        blob.forget_tail();
        let zip = Self {
            blob,
            directory,
            prefix,
            documents: Mutex::default(),
        };
        if zip.blob.needs_requests() {
            zip.read_documents().await;
        }
        Ok(zip)
    }

    /// Reads the metadata documents of the store and its arrays, and the names of samples and contigs. What fails is read again when it is
    /// asked for.
    async fn read_documents(&self) {
        let mut bytes = 0u64;
        let mut keys = Vec::new();
        for entry in self.directory.under(&self.prefix) {
            let key = self.directory.name(entry).get(self.prefix.len()..);
            let Some(key) = key.filter(|key| is_read_on_opening(key)) else {
                continue;
            };
            bytes = bytes.saturating_add(entry.compressed.max(entry.size));
            if entry.size <= SMALL_DOCUMENT && bytes <= ALL_DOCUMENTS {
                keys.push(key.to_owned());
            }
        }
        if let Ok(read) = self.get_many(&keys, SMALL_DOCUMENT, DOCUMENT_READS).await {
            let read = keys.into_iter().zip(read.found);
            let read = read.filter_map(|(key, bytes)| Some((key, bytes?)));
            self.documents.lock().extend(read);
        }
    }

    pub(super) fn is_local(&self) -> bool {
        self.blob.is_local()
    }

    /// The names of the folders in a folder of the store; the empty name is its top level.
    pub(super) fn folders(&self, folder: &str) -> Vec<String> {
        match folder {
            "" => self.directory.folders(&self.prefix),
            folder => self.directory.folders(&format!("{}{folder}/", self.prefix)),
        }
    }

    /// Stored bytes of the entries below `folder` whose name below it satisfies `counts`.
    pub(super) fn stored_bytes(&self, folder: &str, counts: impl Fn(&str) -> bool) -> u64 {
        let prefix = format!("{}{folder}/", self.prefix);
        let entries = self.directory.under(&prefix).iter();
        let counted = entries.filter(|entry| {
            self.directory
                .name(entry)
                .get(prefix.len()..)
                .is_some_and(&counts)
        });
        counted.fold(0, |sum, entry| sum.saturating_add(entry.compressed))
    }

    /// The bytes of the entry named `key`, or a range of them; `None` if there is none. The checksum of a stored entry is verified
    /// only if all of it is read.
    pub(super) async fn get(
        &self,
        key: &str,
        range: Option<GetRange>,
        limit: u64,
    ) -> Result<Option<Bytes>, ReadError> {
        if range.is_none()
            && let Some(bytes) = self.documents.lock().remove(key)
        {
            within(bytes.len() as u64, limit)?;
            return Ok(Some(bytes));
        }
        let Some(entry) = self.directory.find(&self.prefix, key) else {
            return Ok(None);
        };
        let read = self.read(entry, range, limit).await;
        read.map(Some).map_err(|error| self.named(entry, error))
    }

    /// The bytes of the entries named `keys`. Those that are near each other in the archive share a read; `concurrent` reads are made at
    /// the same time.
    ///
    /// # Errors
    /// Of one of them, with its place in `keys`.
    pub(super) async fn get_many(
        &self,
        keys: &[String],
        limit: u64,
        concurrent: usize,
    ) -> Result<Entries, (usize, ReadError)> {
        let mut found = vec![None; keys.len()];
        let mut spans = Vec::with_capacity(keys.len());
        for (n, key) in keys.iter().enumerate() {
            if let Some(entry) = self.directory.find(&self.prefix, key) {
                let readable = Self::check_readable(entry, limit);
                readable.map_err(|error| (n, self.named(entry, error)))?;
                spans.push((n, self.span(entry), entry));
            }
        }
        let runs = runs(spans);
        let mut requests = runs.len() as u64;
        // Not by a closure in the stream, for which the compiler cannot tell that the future is Send.
        let reads: Vec<_> = runs
            .into_iter()
            .map(|run| self.read_run(run, limit))
            .collect();
        let mut reads = stream::iter(reads).buffer_unordered(concurrent);
        while let Some(read) = reads.next().await {
            let (entries, more) = read?;
            requests += more;
            for (n, bytes) in entries {
                if let Some(place) = found.get_mut(n) {
                    *place = Some(bytes);
                }
            }
        }
        Ok(Entries { found, requests })
    }

    /// Reads the entries of a run; also how many requests there were beside the first.
    async fn read_run(
        &self,
        run: Run<&Entry>,
        limit: u64,
    ) -> Result<(Vec<(usize, Bytes)>, u64), (usize, ReadError)> {
        let first = run.members.first().map_or(0, |(n, _, _)| *n);
        let read = self.blob.read(run.range.clone()).await;
        let bytes = read.map_err(|error| (first, error))?;
        let mut entries = Vec::with_capacity(run.members.len());
        let mut more = 0;
        let is_sparse = run.is_sparse();
        for (n, span, entry) in run.members {
            let start = (span.start - run.range.start) as usize;
            let own = bytes.slice(start..start + (span.end - span.start) as usize);
            // Copied, so that bytes between entries are not kept alive.
            let own = if is_sparse {
                Bytes::copy_from_slice(&own)
            } else {
                own
            };
            let decoded = async {
                let data = match self.data_in(entry, &span, &own)? {
                    Some(data) => data,
                    None => {
                        more += 1;
                        self.data(entry).await?
                    }
                };
                Self::decode(entry, data, limit).await
            };
            let decoded = decoded.await;
            entries.push((n, decoded.map_err(|error| (n, self.named(entry, error)))?));
        }
        Ok((entries, more))
    }

    fn named(&self, entry: &Entry, error: ReadError) -> ReadError {
        match error {
            ReadError::Corrupt(reason) => ReadError::Corrupt(format!(
                "zip entry '{}': {reason}",
                self.directory.name(entry)
            )),
            error => error,
        }
    }

    /// Bytes of the entry `key` as they are in the archive; `None` if there is none.
    pub(super) fn stored_len(&self, key: &str) -> Option<u64> {
        let entry = self.directory.find(&self.prefix, key);
        entry.map(|entry| entry.compressed)
    }

    async fn read(
        &self,
        entry: &Entry,
        range: Option<GetRange>,
        limit: u64,
    ) -> Result<Bytes, ReadError> {
        if entry.method == STORED
            && let Some(range) = range
        {
            Self::check_readable(entry, u64::MAX)?;
            let range = resolve(Some(range), entry.size)?;
            within(range.end - range.start, limit)?;
            let data_at = self.data_at(entry).await?;
            let bytes = self.blob.read(data_at + range.start..data_at + range.end);
            return bytes.await;
        }
        Self::check_readable(entry, limit)?;
        let range = resolve(range, entry.size)?;
        let data = self.data(entry).await?;
        let bytes = Self::decode(entry, data, limit).await?;
        Ok(bytes.slice(range.start as usize..range.end as usize))
    }

    /// Checks what the directory says of an entry that is read whole, before anything is read.
    fn check_readable(entry: &Entry, limit: u64) -> Result<(), ReadError> {
        let corrupt = |reason: String| Err(ReadError::Corrupt(reason));
        if entry.is_encrypted() {
            return corrupt("it is encrypted, which is not supported".to_owned());
        }
        let (size, compressed) = (entry.size, entry.compressed);
        match entry.method {
            STORED if size != compressed => corrupt(format!(
                "it is stored without compression, but has {compressed} stored and {size} decoded bytes"
            )),
            STORED => within(size, limit),
            DEFLATED => {
                within(size, limit)?;
                if size > compressed.saturating_mul(MAX_DEFLATE_RATIO) {
                    return corrupt(format!("{compressed} deflated bytes cannot become {size}"));
                }
                Ok(())
            }
            method => corrupt(format!(
                "compression method {method} is not supported; expected 0 (stored) or 8 (deflated). \
                 Make the archive again with 'zip -0'"
            )),
        }
    }

    /// The bytes of an entry, checked, from those in the archive.
    async fn decode(entry: &Entry, data: Bytes, limit: u64) -> Result<Bytes, ReadError> {
        Self::check_readable(entry, limit)?;
        let (size, crc, is_stored) = (entry.size, entry.crc, entry.method == STORED);
        let work = move || match is_stored {
            true => check(crc, &data).map(|()| data),
            false => inflate(&data, size, crc),
        };
        if size < BLOCKING_BYTES {
            return work();
        }
        blocking(work).await
    }

    /// The bytes of the archive that hold an entry: its data, and the header before it if that was not read yet.
    fn span(&self, entry: &Entry) -> Range<u64> {
        let known = entry.data_at.load(Relaxed);
        if known != 0 {
            return known..known + entry.compressed;
        }
        let likely_header =
            LOCAL_HEADER + entry.name_len() + u64::from(entry.extra_len) + EXTRA_SLACK;
        // The directory's parser has checked that this does not overflow, and that the data ends before the directory.
        let likely_end = (entry.header_at + entry.compressed)
            .saturating_add(likely_header)
            .min(self.directory.start());
        entry.header_at..likely_end
    }

    /// The data of an entry in the `bytes` of its span; `None` if its header is longer than was expected.
    fn data_in(
        &self,
        entry: &Entry,
        span: &Range<u64>,
        bytes: &Bytes,
    ) -> Result<Option<Bytes>, ReadError> {
        if span.start != entry.header_at {
            return Ok(Some(bytes.clone()));
        }
        let start = self.locate(entry, bytes)? - entry.header_at;
        let end = start + entry.compressed;
        let is_whole = end <= bytes.len() as u64;
        Ok(is_whole.then(|| bytes.slice(start as usize..end as usize)))
    }

    /// All bytes of an entry as they are in the archive.
    async fn data(&self, entry: &Entry) -> Result<Bytes, ReadError> {
        let span = self.span(entry);
        let bytes = self.blob.read(span.clone()).await?;
        match self.data_in(entry, &span, &bytes)? {
            Some(data) => Ok(data),
            None => self.blob.read(self.span(entry)).await,
        }
    }

    /// The offset of an entry's data, from the header before it; it is read once.
    async fn data_at(&self, entry: &Entry) -> Result<u64, ReadError> {
        let known = entry.data_at.load(Relaxed);
        if known != 0 {
            return Ok(known);
        }
        let end = entry.header_at + LOCAL_HEADER + entry.name_len();
        let bytes = self.blob.read(entry.header_at..end).await?;
        self.locate(entry, &bytes)
    }

    fn locate(&self, entry: &Entry, header: &[u8]) -> Result<u64, ReadError> {
        let length = self.directory.local_header(entry, header)?;
        let data_at = entry.header_at.checked_add(length);
        let inside = |data_at: &u64| {
            data_at
                .checked_add(entry.compressed)
                .is_some_and(|end| end <= self.directory.start())
        };
        let data_at = data_at.filter(inside).ok_or_else(|| {
            ReadError::Corrupt(format!(
                "its data overlaps the directory at byte {}",
                self.directory.start()
            ))
        })?;
        entry.data_at.store(data_at, Relaxed);
        Ok(data_at)
    }
}

/// The folder of the store in the archive: the top, or the only folder that holds the metadata of a group.
fn store_folder(directory: &Directory) -> String {
    let has_group = |prefix: &str| {
        ["zarr.json", ".zgroup", ".zmetadata"]
            .iter()
            .any(|key| directory.find(prefix, key).is_some())
    };
    if has_group("") {
        return String::new();
    }
    let mut candidates = directory
        .folders("")
        .into_iter()
        .map(|folder| format!("{folder}/"));
    let mut candidates = candidates.by_ref().filter(|prefix| has_group(prefix));
    match (candidates.next(), candidates.next()) {
        (Some(only), None) => only,
        _ => String::new(),
    }
}

fn check(crc: u32, bytes: &[u8]) -> Result<(), ReadError> {
    let found = crc32fast::hash(bytes);
    if found != crc {
        return Err(ReadError::Corrupt(format!(
            "its checksum is {found:08x}; the directory says {crc:08x}"
        )));
    }
    Ok(())
}

/// Inflates `data` to exactly `size` bytes.
fn inflate(data: &[u8], size: u64, crc: u32) -> Result<Bytes, ReadError> {
    let corrupt = |reason: String| ReadError::Corrupt(reason);
    let length =
        usize::try_from(size).map_err(|_| corrupt(format!("{size} bytes do not fit in memory")))?;
    let mut inflated = Vec::with_capacity(length);
    let mut stream = Decompress::new(false);
    // The buffer has exactly this size; the status shows whether there is more.
    let status = stream.decompress_vec(data, &mut inflated, FlushDecompress::Finish);
    let status = status.map_err(|error| corrupt(format!("it cannot be inflated: {error}")))?;
    if status != Status::StreamEnd
        || inflated.len() != length
        || stream.total_in() != data.len() as u64
    {
        return Err(corrupt(format!(
            "{} of its {} deflated bytes were inflated to {} bytes; expected all of them and exactly {size}",
            stream.total_in(),
            data.len(),
            stream.total_out()
        )));
    }
    check(crc, &inflated)?;
    Ok(inflated.into())
}

#[cfg(test)]
#[path = "zip_tests.rs"]
pub(super) mod tests;
