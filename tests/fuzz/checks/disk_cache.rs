//! Files of the cache on disk: any bytes are read as an answer that can be written again, or as none; what is written is read, and not
//! once it is damaged.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use crate::scan::remote::disk_cache::{Entry, head, parse};

/// The key of what is read.
const KEY: &str = "k";

/// The target's body: the first byte says what the others are.
pub fn check(data: &[u8]) {
    let Some((form, rest)) = data.split_first() else {
        return;
    };
    match form % 3 {
        0 => read(rest),
        // With the right checksum, which a fuzzer does not find.
        1 => read(&[&crc32c::crc32c(rest).to_le_bytes()[..], rest].concat()),
        _ => {
            written(rest);
        }
    }
}

/// Any file.
fn read(bytes: &[u8]) {
    let file = Bytes::copy_from_slice(bytes);
    let Some(entry) = parse(&file, KEY) else {
        return;
    };
    let length = entry.range.end.checked_sub(entry.range.start);
    assert_eq!(length, Some(entry.bytes.len() as u64));
    assert!(entry.range.end <= entry.size);
    assert!(bytes.ends_with(&entry.bytes));
    // Escapes may make the header longer than the one that was read.
    if let Some(again) = file_of(KEY, &entry) {
        assert_eq!(parse(&again, KEY), Some(entry));
        assert_eq!(parse(&again, "another"), None);
    }
}

fn file_of(key: &str, entry: &Entry) -> Option<Bytes> {
    let head = head(key, entry).unwrap()?;
    Some([&head[..], &entry.bytes[..]].concat().into())
}

/// An answer made of any bytes: its numbers, where its file is damaged, its key, its tag, its bytes.
fn written(data: &[u8]) -> Option<()> {
    let (numbers, rest) = data.split_first_chunk::<38>()?;
    let number = |at: usize| {
        numbers[at..at + 8]
            .first_chunk()
            .map(|n| u64::from_le_bytes(*n))
    };
    let (start, more, seconds, nanoseconds) = (number(0)?, number(8)?, number(16)?, number(24)?);
    let [at, at_high, flipped, key_length, tag_length, _] = *numbers[32..].first_chunk()?;
    let (key, rest) = rest.split_at_checked(key_length.into())?;
    let (tag, bytes) = rest.split_at_checked(tag_length.into())?;
    let key = String::from_utf8_lossy(key);
    let end = start.checked_add(bytes.len() as u64)?;
    let since = Duration::new(seconds, (nanoseconds % 1_000_000_000) as u32);
    let entry = Entry {
        e_tag: String::from_utf8_lossy(tag).into_owned(),
        modified: UNIX_EPOCH.checked_add(since)?,
        size: end.saturating_add(more),
        range: start..end,
        bytes: Bytes::copy_from_slice(bytes),
    };
    let file = file_of(&key, &entry)?;
    assert_eq!(parse(&file, &key), Some(entry));
    assert_eq!(parse(&file, &format!("{key}x")), None);
    // Cut, and with a byte changed, which the checksum always shows.
    let at = usize::from(u16::from_le_bytes([at, at_high])) % file.len();
    assert_eq!(parse(&file.slice(..at), &key), None);
    let mut damaged = file.to_vec();
    damaged[at] ^= flipped.max(1);
    assert_eq!(parse(&damaged.into(), &key), None);
    Some(())
}
