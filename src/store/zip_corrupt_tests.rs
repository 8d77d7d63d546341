//! Corrupt archives: every inconsistency is an error.

use super::*;

#[test]
fn inconsistent_entries() {
    let refused = |item: Item| {
        let zip = open(&archive(&[item.clone(), stored("z", &[7; 5000])])).unwrap();
        let reason = reason(get(&zip, item.name));
        assert!(reason.contains(&format!("'{}'", item.name)), "{reason}");
        reason
    };
    let (data, good, small) = (text(), stored("a", &text()), deflated("a", &text()));
    assert!(
        refused(Item {
            crc: 1,
            ..good.clone()
        })
        .contains("checksum")
    );
    assert!(
        refused(Item {
            crc: 1,
            ..small.clone()
        })
        .contains("checksum")
    );
    assert!(
        refused(Item {
            size: data.len() as u64 + 1,
            ..good.clone()
        })
        .contains("stored without compression")
    );
    assert!(
        refused(Item {
            size: data.len() as u64 - 1,
            ..small.clone()
        })
        .contains("exactly 949")
    );
    assert!(
        refused(Item {
            size: data.len() as u64 + 1,
            ..small.clone()
        })
        .contains("exactly 951")
    );
    assert!(
        refused(Item {
            size: u32::MAX.into(),
            zip64: true,
            ..small.clone()
        })
        .contains("1073741824")
    );
    assert!(
        refused(Item {
            size: 1 << 29,
            ..small.clone()
        })
        .contains("cannot become")
    );
    assert!(
        refused(Item {
            compressed: small.compressed - 1,
            ..small.clone()
        })
        .contains("deflated bytes")
    );
    assert!(
        refused(Item {
            compressed: small.compressed + 1,
            ..small.clone()
        })
        .contains("deflated bytes")
    );
    assert!(
        refused(Item {
            data: vec![0xff; 40],
            compressed: 40,
            ..small.clone()
        })
        .contains("inflated")
    );
    assert!(
        refused(Item {
            flags: 1,
            ..good.clone()
        })
        .contains("encrypted")
    );
    assert!(
        refused(Item {
            method: 93,
            ..good.clone()
        })
        .contains("method 93")
    );
    assert!(
        refused(Item {
            local_name: "b",
            ..good.clone()
        })
        .contains("no header")
    );
    assert!(
        refused(Item {
            offset: Some(3),
            ..good.clone()
        })
        .contains("no header")
    );
    assert!(
        refused(Item {
            local_sizes: false,
            ..good.clone()
        })
        .contains("contradict")
    );
    // An extra field that pushes the data into the directory.
    let last = open(&archive(&[Item {
        local_extra: 9,
        data: vec![],
        ..stored("a", b"123456789")
    }]));
    assert!(reason(get(&last.unwrap(), "a")).contains("overlap"));
}

#[test]
fn inconsistent_archives() {
    let refused = |items: &[Item]| reason(open(&archive(items)));
    assert!(refused(&[stored("a", b"1"), stored("a", b"2")]).contains("two entries are named 'a'"));
    assert!(
        refused(&[Item {
            offset: Some(1 << 31),
            ..stored("a", b"1")
        }])
        .contains("the directory at byte")
    );
    assert!(
        refused(&[Item {
            compressed: 1 << 20,
            ..stored("a", b"1")
        }])
        .contains("the directory at byte")
    );
    let huge = Item {
        compressed: u64::MAX,
        offset: Some(u64::MAX),
        zip64: true,
        ..stored("a", b"1")
    };
    assert!(refused(&[huge]).contains("the directory at byte"));
    let no_zip64 = Item {
        size: u32::MAX.into(),
        ..stored("a", b"1")
    };
    assert!(refused(&[no_zip64]).contains("zip64"));

    let good = archive(&[stored("a", b"1"), stored("b", b"2")]);
    let end = good.len() - 22;
    let patched = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[end + at] = value;
        reason(open(&bytes))
    };
    assert!(patched(4, 1).contains("several parts"));
    assert!(patched(8, 3).contains("several parts"));
    assert!(patched(15, 1).contains("directory"));
    assert!(patched(19, 1).contains("end record"));
    assert!(patched(20, 1).contains("no end-of-directory"));
    let mut more = good.clone();
    (more[end + 8], more[end + 10]) = (3, 3);
    assert!(reason(open(&more)).contains("3 entries"));
    assert!(reason(open(b"")).contains("not a zip archive"));
    assert!(reason(open(&[good, vec![0]].concat())).contains("appended"));
}

#[test]
fn damaged_archives_never_panic_or_return_wrong_bytes() {
    let items = [
        stored("zarr.json", b"{}"),
        deflated("b", &text()),
        Item {
            zip64: true,
            ..stored("c", &text())
        },
    ];
    let good = archive_with(&items, b"", true);
    for length in 0..good.len() {
        assert!(open(&good[..length]).is_err(), "{length}");
    }
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            let Ok(zip) = open(&bytes) else { continue };
            for (key, data) in [("zarr.json", b"{}".to_vec()), ("b", text()), ("c", text())] {
                if let Ok(Some(found)) = get(&zip, key) {
                    assert_eq!(found, data, "byte {at}, bit {bit}");
                }
            }
        }
    }
}
