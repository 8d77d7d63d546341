//! Archives that are built here: every supported form, and in `corrupt` every inconsistency.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{GetRange, ObjectStoreExt, PutPayload};

use super::*;

#[path = "zip_corrupt_tests.rs"]
mod corrupt;

/// One entry, whose fields may be inconsistent.
#[derive(Clone)]
struct Item {
    name: &'static str,
    local_name: &'static str,
    data: Vec<u8>,
    method: u16,
    flags: u16,
    crc: u32,
    size: u64,
    compressed: u64,
    local_sizes: bool,
    local_extra: usize,
    offset: Option<u64>,
    zip64: bool,
}

fn stored(name: &'static str, data: &[u8]) -> Item {
    Item {
        name,
        local_name: name,
        data: data.to_vec(),
        method: 0,
        flags: 0,
        crc: crc32fast::hash(data),
        size: data.len() as u64,
        compressed: data.len() as u64,
        local_sizes: true,
        local_extra: 0,
        offset: None,
        zip64: false,
    }
}

fn deflated(name: &'static str, data: &[u8]) -> Item {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    let compressed = encoder.finish().unwrap();
    Item {
        method: 8,
        compressed: compressed.len() as u64,
        data: compressed,
        ..stored(name, data)
    }
}

fn put16(bytes: &mut Vec<u8>, values: &[u16]) {
    values
        .iter()
        .for_each(|value| bytes.extend(value.to_le_bytes()));
}

fn put32(bytes: &mut Vec<u8>, values: &[u32]) {
    values
        .iter()
        .for_each(|value| bytes.extend(value.to_le_bytes()));
}

fn put64(bytes: &mut Vec<u8>, values: &[u64]) {
    values
        .iter()
        .for_each(|value| bytes.extend(value.to_le_bytes()));
}

fn archive_with(items: &[Item], comment: &[u8], zip64: bool) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for item in items {
        let at = bytes.len() as u64;
        bytes.extend(b"PK\x03\x04");
        put16(&mut bytes, &[20, item.flags, item.method, 0, 0]);
        let sizes = if item.local_sizes {
            (item.crc, item.compressed as u32, item.size as u32)
        } else {
            (0, 0, 0)
        };
        put32(&mut bytes, &[sizes.0, sizes.1, sizes.2]);
        put16(
            &mut bytes,
            &[item.local_name.len() as u16, item.local_extra as u16],
        );
        bytes.extend(item.local_name.as_bytes());
        bytes.extend(vec![0xee; item.local_extra]);
        bytes.extend(&item.data);

        let at = item.offset.unwrap_or(at);
        let (mut extra, mut fields) = (
            Vec::new(),
            [item.compressed as u32, item.size as u32, at as u32],
        );
        if item.zip64 {
            put16(&mut extra, &[0x9999, 2, 7, 1, 24]);
            put64(&mut extra, &[item.size, item.compressed, at]);
            fields = [u32::MAX; 3];
        }
        directory.extend(b"PK\x01\x02");
        put16(&mut directory, &[20, 20, item.flags, item.method, 0, 0]);
        put32(&mut directory, &[item.crc, fields[0], fields[1]]);
        put16(
            &mut directory,
            &[item.name.len() as u16, extra.len() as u16, 3, 0, 0],
        );
        put32(&mut directory, &[0, fields[2]]);
        directory.extend(item.name.as_bytes());
        directory.extend(extra);
        directory.extend(b"hm.");
    }
    let (start, count) = (bytes.len() as u64, items.len() as u64);
    bytes.extend(&directory);
    let mut end = (count as u16, directory.len() as u32, start as u32);
    if zip64 {
        let at = bytes.len() as u64;
        bytes.extend(b"PK\x06\x06");
        put64(&mut bytes, &[44]);
        put16(&mut bytes, &[45, 45]);
        put32(&mut bytes, &[0, 0]);
        put64(&mut bytes, &[count, count, directory.len() as u64, start]);
        bytes.extend(b"PK\x06\x07");
        put32(&mut bytes, &[0]);
        put64(&mut bytes, &[at]);
        put32(&mut bytes, &[1]);
        end = (u16::MAX, u32::MAX, u32::MAX);
    }
    bytes.extend(b"PK\x05\x06");
    put16(&mut bytes, &[0, 0, end.0, end.0]);
    put32(&mut bytes, &[end.1, end.2]);
    put16(&mut bytes, &[comment.len() as u16]);
    bytes.extend(comment);
    bytes
}

fn archive(items: &[Item]) -> Vec<u8> {
    archive_with(items, b"", false)
}

/// An archive of these files, every other one deflated.
pub(in crate::store) fn archive_of(files: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
    let item = |(n, (name, data)): (usize, &(&'static str, Vec<u8>))| match n % 2 {
        0 => stored(name, data),
        _ => deflated(name, data),
    };
    archive(&files.iter().enumerate().map(item).collect::<Vec<_>>())
}

fn open(bytes: &[u8]) -> Result<Zip, ReadError> {
    block_on(async {
        let objects = Arc::new(InMemory::new());
        let path = Path::from("a.zip");
        objects
            .put(&path, PutPayload::from(bytes.to_vec()))
            .await
            .unwrap();
        Zip::open(Blob::open_object(objects, path).await.unwrap()).await
    })
}

fn open_file(bytes: &[u8]) -> Result<Zip, ReadError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    block_on(async { Zip::open(Blob::open_file(file.path().to_owned()).await?).await })
}

fn get(zip: &Zip, key: &str) -> Result<Option<Bytes>, ReadError> {
    block_on(zip.get(key, None, 1 << 30))
}

fn range(zip: &Zip, key: &str, range: GetRange) -> Result<Option<Bytes>, ReadError> {
    block_on(zip.get(key, Some(range), 1 << 30))
}

fn reason<T: std::fmt::Debug>(result: Result<T, ReadError>) -> String {
    match result {
        Err(ReadError::Corrupt(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn text() -> Vec<u8> {
    b"all zeros and ones ".repeat(50)
}

#[test]
fn stored_and_deflated() {
    let streamed = Item {
        flags: 8,
        local_sizes: false,
        ..deflated("c", &text())
    };
    let long_extra = Item {
        local_extra: 900,
        ..stored("d", &text())
    };
    let bytes = archive(&[
        stored("zarr.json", b"{}"),
        deflated("b", &text()),
        streamed,
        long_extra,
        stored("e", b""),
    ]);
    for zip in [open(&bytes).unwrap(), open_file(&bytes).unwrap()] {
        for _ in 0..2 {
            assert_eq!(get(&zip, "zarr.json").unwrap().unwrap(), "{}");
            for key in ["b", "c", "d"] {
                assert_eq!(get(&zip, key).unwrap().unwrap(), text(), "{key}");
                assert_eq!(
                    range(&zip, key, GetRange::Bounded(4..9)).unwrap().unwrap(),
                    "zeros"
                );
                assert_eq!(
                    range(&zip, key, GetRange::Suffix(5)).unwrap().unwrap(),
                    "ones "
                );
                assert_eq!(
                    range(&zip, key, GetRange::Offset(945)).unwrap().unwrap(),
                    "ones "
                );
                assert_eq!(
                    range(&zip, key, GetRange::Bounded(945..2000))
                        .unwrap()
                        .unwrap(),
                    "ones "
                );
                assert!(reason(range(&zip, key, GetRange::Offset(951))).contains("only 950"));
            }
            assert_eq!(get(&zip, "e").unwrap().unwrap(), "");
            assert_eq!(get(&zip, "f").unwrap(), None);
        }
    }
}

#[test]
fn ranges_before_whole_entries() {
    let bytes = archive(&[stored("zarr.json", b"{}"), stored("x", &text())]);
    let zip = open(&bytes).unwrap();
    assert_eq!(
        range(&zip, "x", GetRange::Bounded(4..9)).unwrap().unwrap(),
        "zeros"
    );
    assert_eq!(get(&zip, "x").unwrap().unwrap(), text());
}

#[test]
fn zip64_and_comments() {
    let entry = Item {
        zip64: true,
        ..stored("a/0", b"xyz")
    };
    let comment = [b"PK\x05\x06".repeat(20), vec![0; 40]].concat();
    for (zip64, comment) in [
        (true, vec![]),
        (true, comment.clone()),
        (false, comment),
        (false, vec![b' '; 65_535]),
    ] {
        let zip = open(&archive_with(
            &[entry.clone(), stored("a/1", b"w")],
            &comment,
            zip64,
        ))
        .unwrap();
        assert_eq!(get(&zip, "a/0").unwrap().unwrap(), "xyz");
        assert_eq!(get(&zip, "a/1").unwrap().unwrap(), "w");
    }
}

#[test]
fn zip64_record_before_the_tail() {
    // The extensible part of the record pushes it out of the bytes that are read first from a local file.
    let mut bytes = archive_with(&[stored("a", b"xyz")], &[], true);
    let locator = bytes.len() - 22 - 20;
    bytes.splice(locator..locator, vec![0; MAX_TAIL as usize]);
    let zip = open_file(&bytes).unwrap();
    assert_eq!(get(&zip, "a").unwrap().unwrap(), "xyz");
}

#[test]
fn folders() {
    let top = open(&archive(&[
        stored("b/c/0/0", b"123"),
        stored("a/.zarray", b"{}"),
        stored(".zgroup", b"{}"),
        stored("b/zarr.json", b"{}"),
        stored("a/", b""),
        stored("ab/0", b"4"),
        stored("a/0", b"56"),
    ]));
    let top = top.unwrap();
    assert_eq!(top.folders(""), ["a", "ab", "b"]);
    assert_eq!(top.stored_bytes("b", |key| key != "zarr.json"), 3);
    assert_eq!(top.stored_bytes("a", |_| true), 4);

    let inside = [
        stored("x.vcz/zarr.json", b"{}"),
        stored("x.vcz/a/zarr.json", b"1"),
        stored("__MACOSX/a", b""),
    ];
    let inside = open(&archive(&inside)).unwrap();
    assert_eq!(inside.folders(""), ["a"]);
    assert_eq!(get(&inside, "a/zarr.json").unwrap().unwrap(), "1");
    assert_eq!(get(&inside, "x.vcz/a/zarr.json").unwrap(), None);

    let two = open(&archive(&[
        stored("x/.zgroup", b"{}"),
        stored("y/.zgroup", b"{}"),
    ]))
    .unwrap();
    assert_eq!(get(&two, ".zgroup").unwrap(), None);
}
