//! Locations without a store, objects that are too large, and versions of the specification.

use super::*;

#[test]
fn no_store() {
    let reason = |result: Result<Store>| match result.unwrap_err() {
        VczError::NotAStore { reason, .. } => reason,
        other => panic!("{other}"),
    };
    assert!(reason(open(&vec![])).contains("neither 'zarr.json'"));
    assert!(
        reason(open_local(FilePath::new("/no/such/place"))).contains("nothing at this location")
    );
    assert!(reason(open_local(directory(&vec![("a/b", vec![])]).path())).contains(".zgroup"));
    let file = directory(&vec![("a.txt", b"hello".to_vec())]);
    assert!(reason(open_local(&file.path().join("a.txt"))).contains("zip"));

    let mut group = store_v2();
    group[1].1 = document(json!({"multiscales": []}));
    assert!(reason(open(&group)).contains("vcf_zarr_version"));
    let array = vec![("zarr.json", document(zarr_json(json!([10, 4]), "int8")))];
    assert!(reason(open(&array)).contains("group"));

    for broken in [&b"{"[..], b"[]", br#"{"zarr_format": 2}"#, b"\xff"] {
        assert!(matches!(
            open(&vec![("zarr.json", broken.to_vec())]).unwrap_err(),
            VczError::Metadata { .. }
        ));
    }
    let newer = vec![(".zgroup", document(json!({"zarr_format": 4})))];
    assert!(matches!(
        open(&newer).unwrap_err(),
        VczError::Metadata { .. }
    ));
}

#[test]
fn objects_that_are_too_large_are_not_read() {
    let directory = directory(&store_v2());
    let chunk = std::fs::File::create(directory.path().join("call_genotype/1.0")).unwrap();
    chunk.set_len(1 << 40).unwrap();
    std::fs::remove_file(directory.path().join("call_genotype/0.0")).unwrap();
    std::fs::create_dir(directory.path().join("call_genotype/0.0")).unwrap();
    let store = open_local(directory.path()).unwrap();
    let array = store.array("call_genotype").unwrap();
    let error = block_on(store.chunk(array, &[1, 0])).unwrap_err();
    assert!(matches!(error, VczError::Chunk { .. }), "{error}");
    let error = block_on(store.chunk(array, &[0, 0])).unwrap_err();
    assert!(error.to_string().contains("regular file"), "{error}");
    let end = block_on(store.chunk_range(array, &[1, 0], GetRange::Suffix(3)))
        .unwrap()
        .unwrap();
    assert_eq!(end, [0, 0, 0].as_slice());
}

#[test]
fn versions() {
    let of =
        |version: Value| super::version(json!({"vcf_zarr_version": version}).as_object().unwrap());
    for known in ["0.1", "0.2", "0.3", "0.4", "0.5"] {
        assert_eq!(of(json!(known)).unwrap(), (known.to_owned(), None));
    }
    assert!(of(json!("0.10")).unwrap().1.unwrap().contains("newer"));
    assert!(of(json!("1")).unwrap().1.unwrap().contains("newer"));
    assert!(of(json!("draft")).unwrap().1.unwrap().contains("draft"));
    assert!(of(json!(["0.4"])).is_err());
}
