//! The directory of a zip archive, parsed from bytes: the end record, its zip64 form, the central directory and the
//! header before each entry's data (PKWARE APPNOTE 6.3.10, sections 4.3.7 to 4.3.16).
//!
//! `zip` reads the bytes. Invariants of a [`Directory`]: its entries are sorted by name, and names are unique; each entry's
//! header and data are before the directory.
use super::error::StoreError;

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};

/// The end record, its longest comment, and the zip64 records before them.
pub(super) const MAX_TAIL: u64 = 22 + 65_535 + 20 + 56;
pub(super) const LOCAL_HEADER: u64 = 30;
const END: [u8; 4] = *b"PK\x05\x06";
const ZIP64_LOCATOR: [u8; 4] = *b"PK\x06\x07";
const ZIP64_END: [u8; 4] = *b"PK\x06\x06";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL_HEADER: usize = 46;
const ZIP64_EXTRA: u16 = 0x0001;
/// Bits 0, 6 and 13: encrypted, strongly encrypted, encrypted headers.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// Bit 3: sizes and checksum follow the data, and the header before it has zeros.
const SIZES_FOLLOW: u16 = 1 << 3;

/// Where the central directory is.
#[derive(Debug, PartialEq)]
pub(super) struct End {
    pub(super) directory: Range<u64>,
    pub(super) entries: u64,
}

/// The result of parsing the end of an archive.
#[derive(Debug, PartialEq)]
pub(super) enum Tail {
    End(End),
    /// The zip64 end record is at this offset, in front of the tail that was read.
    Zip64At {
        offset: u64,
        records: u64,
    },
}

/// The entries of an archive. Names stay in the directory's bytes: stores have tens of thousands.
#[derive(Debug)]
pub(super) struct Directory {
    bytes: Bytes,
    entries: Vec<Entry>,
    /// The entries' indices, by the hashes of their names: names are long and similar, so comparing them is slower.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    start: u64,
}

/// One entry, as the central directory describes it.
#[derive(Debug)]
pub(super) struct Entry {
    name_start: usize,
    name_len: u16,
    pub(super) extra_len: u16,
    flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    /// Bytes in the archive.
    pub(super) compressed: u64,
    /// Bytes once inflated.
    pub(super) size: u64,
    /// Offset of the header before the data.
    pub(super) header_at: u64,
    /// Offset of the data, 0 until the header was read.
    pub(super) data_at: AtomicU64,
}

/// Finds the directory from the last bytes of an archive. `tail_start` is the offset of `tail` in the archive.
pub(super) fn parse_tail(tail: &[u8], tail_start: u64) -> Result<Tail, StoreError> {
    let is_end = |at: &usize| {
        let rest = tail.get(*at..).unwrap_or_default();
        rest.starts_with(&END)
            && u16_at(rest, 20).is_some_and(|comment| rest.len() == 22 + usize::from(comment))
    };
    let at = (0..tail.len().saturating_sub(21)).rev().find(is_end).ok_or(
        "no end-of-directory record was found at its end: it is not a zip archive, or it was cut off or appended to",
    )?;
    let end_at = tail_start.saturating_add(at as u64);
    let record = tail.get(at..).unwrap_or_default();
    let field16 = |offset| u16_at(record, offset).unwrap_or_default();
    let field32 = |offset| u32_at(record, offset).unwrap_or_default();

    if let Some(locator_at) = at.checked_sub(20) {
        let locator = tail.get(locator_at..at).unwrap_or_default();
        if locator.starts_with(&ZIP64_LOCATOR) {
            let offset = u64_at(locator, 8).unwrap_or_default();
            let records = tail_start.saturating_add(locator_at as u64);
            let Some(relative) = offset.checked_sub(tail_start) else {
                return Ok(Tail::Zip64At { offset, records });
            };
            let record = usize::try_from(relative)
                .ok()
                .and_then(|relative| tail.get(relative..locator_at));
            return parse_zip64_end(record.unwrap_or_default(), offset, records).map(Tail::End);
        }
    }
    if (field16(4), field16(6)) != (0, 0) || field16(8) != field16(10) {
        return Err("archives of several parts are not supported; expected one file".into());
    }
    checked_end(
        field32(16).into(),
        field32(12).into(),
        field16(10).into(),
        end_at,
    )
    .map(Tail::End)
}

/// Reads the zip64 end record at `offset`; `records` is where the records that follow the directory end.
pub(super) fn parse_zip64_end(record: &[u8], offset: u64, records: u64) -> Result<End, StoreError> {
    let wrong = || {
        StoreError::from(format!(
            "no zip64 end-of-directory record at byte {offset}, where the locator says it is"
        ))
    };
    if !record.starts_with(&ZIP64_END) || offset >= records {
        return Err(wrong());
    }
    let field32 = |at| u32_at(record, at).ok_or_else(wrong);
    let field64 = |at| u64_at(record, at).ok_or_else(wrong);
    if (field32(16)?, field32(20)?) != (0, 0) || field64(24)? != field64(32)? {
        return Err("archives of several parts are not supported; expected one file".into());
    }
    checked_end(field64(48)?, field64(40)?, field64(32)?, offset)
}

fn checked_end(start: u64, size: u64, entries: u64, end_at: u64) -> Result<End, StoreError> {
    let end = start.checked_add(size).filter(|&end| end <= end_at);
    let end = end.ok_or_else(|| {
        format!("the directory has {size} bytes from byte {start} on, but its end record is at byte {end_at}")
    })?;
    if entries
        .checked_mul(CENTRAL_HEADER as u64)
        .is_none_or(|least| least > size)
    {
        return Err(format!(
            "the directory has {entries} entries in {size} bytes, which is not possible"
        )
        .into());
    }
    Ok(End {
        directory: start..end,
        entries,
    })
}

impl Directory {
    /// Parses the central directory that `end` describes from its `bytes`.
    pub(super) fn parse(bytes: Bytes, end: &End) -> Result<Self, StoreError> {
        let cut_off = |n: usize| {
            StoreError::from(format!(
                "the directory ends within entry {n} of {}",
                end.entries
            ))
        };
        // `checked_end` has compared the number of entries with the directory's size.
        let mut entries = Vec::with_capacity(usize::try_from(end.entries).unwrap_or_default());
        let mut at = 0usize;
        for n in 0..end.entries {
            let n = n as usize;
            let record = bytes.get(at..).unwrap_or_default();
            if record.len() < CENTRAL_HEADER {
                return Err(cut_off(n));
            }
            if !record.starts_with(&CENTRAL) {
                return Err(format!("entry {n} of the directory has a wrong signature").into());
            }
            let field16 = |offset| u16_at(record, offset).unwrap_or_default();
            let field32 = |offset| u32_at(record, offset).unwrap_or_default();
            let (name_len, extra_len, comment_len) = (field16(28), field16(30), field16(32));
            let extra_start = CENTRAL_HEADER + usize::from(name_len);
            let comment_start = extra_start + usize::from(extra_len);
            let length = comment_start + usize::from(comment_len);
            if record.len() < length {
                return Err(cut_off(n));
            }
            let name = record.get(CENTRAL_HEADER..extra_start).unwrap_or_default();
            let named = || format!("'{}'", String::from_utf8_lossy(name));
            let extra = record.get(extra_start..comment_start).unwrap_or_default();
            let (size, compressed, header_at) =
                zip64_sizes(extra, field32(24), field32(20), field32(42))
                    .map_err(|e| format!("{}: {e}", named()))?;
            let data_end = header_at
                .checked_add(LOCAL_HEADER + u64::from(name_len))
                .and_then(|data_at| data_at.checked_add(compressed));
            if data_end.is_none_or(|data_end| data_end > end.directory.start) {
                return Err(format!(
                    "{}: {compressed} bytes from byte {header_at} on overlap the directory at byte {}",
                    named(),
                    end.directory.start
                )
                .into());
            }
            // Folders have no data; a name that is not UTF-8 is not a key of any store.
            if !name.ends_with(b"/") && std::str::from_utf8(name).is_ok() {
                entries.push(Entry {
                    name_start: at + CENTRAL_HEADER,
                    name_len,
                    extra_len,
                    flags: field16(8),
                    method: field16(10),
                    crc: field32(16),
                    compressed,
                    size,
                    header_at,
                    data_at: AtomicU64::new(0),
                });
            }
            at += length;
        }
        let name = |entry: &Entry| name_of(&bytes, entry);
        entries.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        if let Some([twice, _]) = entries.array_windows().find(|[a, b]| name(a) == name(b)) {
            return Err(format!(
                "two entries are named '{}'",
                String::from_utf8_lossy(name(twice))
            )
            .into());
        }
        let hasher = DefaultHashBuilder::default();
        let hash = |place: &u32| {
            let entry = entries.get(*place as usize);
            hasher.hash_one(entry.map_or(&[][..], name))
        };
        let mut places = HashTable::with_capacity(entries.len());
        // Entries have at least 46 bytes in a directory of limited size, so there are far fewer than 2³².
        for place in 0..u32::try_from(entries.len()).map_err(|_| "too many entries")? {
            places.insert_unique(hash(&place), place, hash);
        }
        Ok(Self {
            entries,
            places,
            hasher,
            start: end.directory.start,
            bytes,
        })
    }

    /// Offset of the directory in the archive; entries must end before it.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn name(&self, entry: &Entry) -> &str {
        std::str::from_utf8(self.bytes_of_name(entry)).unwrap_or_default()
    }

    /// The bytes of an entry's name, for comparisons; they were checked to be UTF-8.
    pub(super) fn bytes_of_name(&self, entry: &Entry) -> &[u8] {
        name_of(&self.bytes, entry)
    }

    /// The entry whose name is `prefix` and then `key`.
    pub(super) fn find(&self, prefix: &str, key: &str) -> Option<&Entry> {
        let joined;
        let wanted = match prefix {
            "" => key,
            _ => {
                joined = [prefix, key].concat();
                &joined
            }
        };
        let wanted = wanted.as_bytes();
        let entry = |place: &u32| self.entries.get(*place as usize);
        let found = self.places.find(self.hasher.hash_one(wanted), |place| {
            entry(place).is_some_and(|entry| self.bytes_of_name(entry) == wanted)
        });
        found.and_then(entry)
    }

    /// The entries whose names begin with `prefix`, sorted by name.
    pub(super) fn under(&self, prefix: &str) -> &[Entry] {
        let prefix = prefix.as_bytes();
        let start = self
            .entries
            .partition_point(|entry| self.bytes_of_name(entry) < prefix);
        let rest = self.entries.get(start..).unwrap_or_default();
        let length = rest.partition_point(|entry| self.bytes_of_name(entry).starts_with(prefix));
        rest.get(..length).unwrap_or_default()
    }

    /// The folders below `prefix` (which is empty or ends in `/`), without iterating over their contents.
    pub(super) fn folders(&self, prefix: &str) -> Vec<String> {
        let mut folders = Vec::new();
        let mut rest = self.under(prefix);
        while let Some(first) = rest.first() {
            let below = self.name(first).get(prefix.len()..).unwrap_or_default();
            let skipped = match below.split_once('/') {
                Some((folder, _)) => {
                    folders.push(folder.to_owned());
                    let inside = format!("{prefix}{folder}/");
                    rest.partition_point(|entry| {
                        self.bytes_of_name(entry).starts_with(inside.as_bytes())
                    })
                }
                None => 1,
            };
            rest = rest.get(skipped.max(1)..).unwrap_or_default();
        }
        folders
    }

    /// Length of the header before an entry's data, from its `bytes`, at least up to the end of the entry's name. Checks that the
    /// header is that of the entry.
    pub(super) fn local_header(&self, entry: &Entry, bytes: &[u8]) -> Result<u64, StoreError> {
        let field16 = |at| u16_at(bytes, at).unwrap_or_default();
        let (flags, method, name_len, extra_len) =
            (field16(6), field16(8), field16(26), field16(28));
        let name = bytes.get(LOCAL_HEADER as usize..LOCAL_HEADER as usize + usize::from(name_len));
        if !bytes.starts_with(&LOCAL) || name != Some(self.bytes_of_name(entry)) {
            return Err(format!(
                "there is no header of this entry at byte {}, where the directory places it",
                entry.header_at
            )
            .into());
        }
        let sizes = (
            u32_at(bytes, 18).unwrap_or_default(),
            u32_at(bytes, 22).unwrap_or_default(),
        );
        let fits = |found: u32, said: u64| u64::from(found) == said || found == u32::MAX;
        let sizes_fit = fits(sizes.0, entry.compressed) && fits(sizes.1, entry.size);
        if method != entry.method || (flags & SIZES_FOLLOW == 0 && !sizes_fit) {
            return Err(format!(
                "its header (method {method}, {} bytes, {} inflated) and the directory (method {}, {} bytes, {} \
                 inflated) contradict each other",
                sizes.0, sizes.1, entry.method, entry.compressed, entry.size
            )
            .into());
        }
        Ok(LOCAL_HEADER + u64::from(name_len) + u64::from(extra_len))
    }
}

impl Entry {
    pub(super) fn is_encrypted(&self) -> bool {
        self.flags & ENCRYPTED != 0
    }

    pub(super) fn name_len(&self) -> u64 {
        self.name_len.into()
    }
}

fn name_of<'a>(bytes: &'a [u8], entry: &Entry) -> &'a [u8] {
    bytes
        .get(entry.name_start..entry.name_start + usize::from(entry.name_len))
        .unwrap_or_default()
}

/// Size, compressed size and header offset; those that do not fit 32 bits are in the zip64 field, in this order.
fn zip64_sizes(
    extra: &[u8],
    size: u32,
    compressed: u32,
    header_at: u32,
) -> Result<(u64, u64, u64), StoreError> {
    let mut values = [size, compressed, header_at].map(u64::from);
    if !values.contains(&u64::from(u32::MAX)) {
        return Ok((size.into(), compressed.into(), header_at.into()));
    }
    let mut rest = extra;
    while let (Some(id), Some(length)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let end = 4 + usize::from(length);
        let field = rest
            .get(4..end)
            .ok_or("an extra field reaches beyond its entry")?;
        if id == ZIP64_EXTRA {
            let mut at = 0;
            for value in values
                .iter_mut()
                .filter(|value| **value == u64::from(u32::MAX))
            {
                *value = u64_at(field, at).ok_or("its zip64 field is too short")?;
                at += 8;
            }
            let [size, compressed, header_at] = values;
            return Ok((size, compressed, header_at));
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    Err("its sizes need a zip64 field, which is not there".into())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u64::from_le_bytes)
}
