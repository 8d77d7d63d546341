//! A store inside a zip archive (`.vcz.zip`), local or remote: its entries are read like objects, by their names.
//!
//! The directory is read once, when the archive is opened; after that an entry needs one read, since its header and data are
//! requested together. Invariants: nothing is inflated beyond the declared size, which must be possible for the stored bytes;
//! the checksum of an entry that is read whole is verified. Errors name the entry.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use object_store::GetRange;

use super::blob::Blob;
use super::files::{BLOCKING_BYTES, blocking};
use super::read_error::{ReadError, resolve, within};
use super::zip_directory::{
    Directory, Entry, LOCAL_HEADER, MAX_TAIL, Tail, parse_tail, parse_zip64_end,
};

/// Largest directory that is accepted: several million entries.
const MAX_DIRECTORY: u64 = 1 << 30;
/// Bytes by which the extra field before the data may exceed the directory's without a second read.
const EXTRA_SLACK: u64 = 64;
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
}

impl Zip {
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
            None => blob.read(range).await?,
        };
        let directory = Directory::parse(bytes, &end)?;
        let prefix = store_folder(&directory);
        blob.forget_tail();
        Ok(Self {
            blob,
            directory,
            prefix,
        })
    }

    pub(super) fn is_local(&self) -> bool {
        self.blob.is_local()
    }

    /// The names of the folders at the top of the store.
    pub(super) fn folders(&self) -> Vec<String> {
        self.directory.folders(&self.prefix)
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
        let Some(entry) = self.directory.find(&self.prefix, key) else {
            return Ok(None);
        };
        match self.read(entry, range, limit).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ReadError::Corrupt(reason)) => Err(ReadError::Corrupt(format!(
                "zip entry '{}': {reason}",
                self.directory.name(entry)
            ))),
            Err(error) => Err(error),
        }
    }

    async fn read(
        &self,
        entry: &Entry,
        range: Option<GetRange>,
        limit: u64,
    ) -> Result<Bytes, ReadError> {
        let corrupt = |reason: String| Err(ReadError::Corrupt(reason));
        if entry.is_encrypted() {
            return corrupt("it is encrypted, which is not supported".to_owned());
        }
        let (size, compressed, crc) = (entry.size, entry.compressed, entry.crc);
        match entry.method {
            STORED if size != compressed => corrupt(format!(
                "it is stored without compression, but has {compressed} stored and {size} decoded bytes"
            )),
            STORED => match range {
                Some(_) => {
                    let range = resolve(range, size)?;
                    within(range.end - range.start, limit)?;
                    let data_at = self.data_at(entry).await?;
                    self.blob
                        .read(data_at + range.start..data_at + range.end)
                        .await
                }
                None => {
                    within(size, limit)?;
                    let bytes = self.data(entry).await?;
                    if size < BLOCKING_BYTES {
                        check(crc, &bytes)?;
                        return Ok(bytes);
                    }
                    blocking(move || check(crc, &bytes).map(|()| bytes)).await
                }
            },
            DEFLATED => {
                within(size, limit)?;
                if size > compressed.saturating_mul(MAX_DEFLATE_RATIO) {
                    return corrupt(format!("{compressed} deflated bytes cannot become {size}"));
                }
                let range = resolve(range, size)?;
                let data = self.data(entry).await?;
                let bytes = if size < BLOCKING_BYTES {
                    inflate(&data, size, crc)?
                } else {
                    blocking(move || inflate(&data, size, crc)).await?
                };
                Ok(bytes.slice(range.start as usize..range.end as usize))
            }
            method => corrupt(format!(
                "compression method {method} is not supported; expected 0 (stored) or 8 (deflated). \
                 Make the archive again with 'zip -0'"
            )),
        }
    }

    /// All bytes of an entry as they are in the archive.
    async fn data(&self, entry: &Entry) -> Result<Bytes, ReadError> {
        let known = entry.data_at.load(Relaxed);
        if known != 0 {
            return self.blob.read(known..known + entry.compressed).await;
        }
        let header_at = entry.header_at;
        let likely_header =
            LOCAL_HEADER + entry.name_len() + u64::from(entry.extra_len) + EXTRA_SLACK;
        // The directory's parser has checked that this does not overflow, and that the data ends before the directory.
        let likely_end = (header_at + entry.compressed)
            .saturating_add(likely_header)
            .min(self.directory.start());
        let bytes = self.blob.read(header_at..likely_end).await?;
        let data_at = self.locate(entry, &bytes)?;
        let start = data_at - header_at;
        let end = start + entry.compressed;
        if end <= bytes.len() as u64 {
            Ok(bytes.slice(start as usize..end as usize))
        } else {
            self.blob.read(data_at..data_at + entry.compressed).await
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
