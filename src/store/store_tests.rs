//! Stores of all kinds in memory, in directories and in places that cannot be listed.

use std::fmt;
use std::path::Path as FilePath;

use async_trait::async_trait;
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as ObjectResult,
};
use serde_json::json;

use super::*;

#[path = "store_error_tests.rs"]
mod errors;
use crate::store::zip::tests::archive_of;
use crate::store::{ElementType, FillValue};

/// An object store that cannot list, like plain HTTP; with `denies`, it will not say of an object that it is absent, like
/// S3 for strangers.
#[derive(Debug)]
struct Unlisted {
    objects: InMemory,
    denies: bool,
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unlisted")
    }
}

fn refused() -> object_store::Error {
    object_store::Error::NotSupported {
        source: "no listing".into(),
    }
}

#[async_trait]
impl ObjectStore for Unlisted {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> ObjectResult<PutResult> {
        self.objects.put_opts(path, payload, options).await
    }
    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> ObjectResult<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(path, options).await
    }
    async fn get_opts(&self, path: &Path, options: GetOptions) -> ObjectResult<GetResult> {
        // As Azure does.
        if matches!(options.range, Some(GetRange::Suffix(_))) {
            return Err(refused());
        }
        match self.objects.get_opts(path, options).await {
            Err(object_store::Error::NotFound { path, source }) if self.denies => {
                Err(object_store::Error::PermissionDenied { path, source })
            }
            result => result,
        }
    }
    fn delete_stream(
        &self,
        paths: BoxStream<'static, ObjectResult<Path>>,
    ) -> BoxStream<'static, ObjectResult<Path>> {
        self.objects.delete_stream(paths)
    }
    fn list(&self, _: Option<&Path>) -> BoxStream<'static, ObjectResult<ObjectMeta>> {
        futures::stream::once(async { Err(refused()) }).boxed()
    }
    async fn list_with_delimiter(&self, _: Option<&Path>) -> ObjectResult<ListResult> {
        Err(refused())
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> ObjectResult<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

type Files = Vec<(&'static str, Vec<u8>)>;

fn document(value: Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn zarray() -> Value {
    json!({
        "zarr_format": 2, "shape": [10, 4], "chunks": [4, 4], "dtype": "|i1", "fill_value": null, "order": "C",
        "filters": null, "compressor": null, "dimension_separator": "."
    })
}

fn zarr_json(shape: Value, data_type: &str) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type, "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": ["bytes"],
    })
}

fn store_v2() -> Files {
    let dimensions = json!({"_ARRAY_DIMENSIONS": ["variants", "samples"]});
    let strange = json!({"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<M8[Y]", "fill_value": null});
    vec![
        (".zgroup", document(json!({"zarr_format": 2}))),
        (
            ".zattrs",
            document(json!({"vcf_zarr_version": "0.4", "contigs": ["1", "X"], "filters": [3]})),
        ),
        ("call_genotype/.zarray", document(zarray())),
        ("call_genotype/.zattrs", document(dimensions)),
        ("call_genotype/0.0", b"0123456789abcdef".to_vec()),
        ("call_genotype/2.0", b"xyz".to_vec()),
        ("variant_id/.zarray", document(strange)),
        ("variant_quality/.zarray", b"{\"fill_value\": NaN}".to_vec()),
        ("subgroup/.zgroup", document(json!({"zarr_format": 2}))),
        (".git/.zarray", document(zarray())),
    ]
}

fn store_v3() -> Files {
    let group =
        json!({"zarr_format": 3, "node_type": "group", "attributes": {"vcf_zarr_version": "0.6"}});
    vec![
        ("zarr.json", document(group.clone())),
        (
            "call_genotype/zarr.json",
            document(zarr_json(json!([10, 4]), "int8")),
        ),
        ("call_genotype/c/0/0", b"0123456789abcdef".to_vec()),
        (
            "variant_id/zarr.json",
            document(zarr_json(json!([1]), "int8")),
        ),
        ("subgroup/zarr.json", document(group)),
        // A v2 store at the same place is not looked at.
        (".zgroup", document(json!({"zarr_format": 2}))),
        ("variant_length/.zarray", document(zarray())),
    ]
}

fn in_memory(files: &Files) -> InMemory {
    let objects = InMemory::new();
    for (key, data) in files {
        let path = Path::from(format!("data/my.vcz/{key}"));
        block_on(objects.put(&path, PutPayload::from(data.clone()))).unwrap();
    }
    objects
}

fn open_objects(objects: impl ObjectStore) -> Result<Store> {
    block_on(Store::open(
        Arc::new(objects),
        Path::from("data/my.vcz"),
        "mem://data/my.vcz".into(),
        None,
    ))
}

fn open(files: &Files) -> Result<Store> {
    open_objects(in_memory(files))
}

fn open_local(path: &FilePath) -> Result<Store> {
    let location = path.display().to_string();
    block_on(Store::open(
        Arc::new(InMemory::new()),
        Path::default(),
        location,
        Some(path.to_owned()),
    ))
}

fn directory(files: &Files) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (key, data) in files {
        let path = directory.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    directory
}

fn names(store: &Store) -> Vec<&str> {
    store.arrays().map(|array| array.name.as_str()).collect()
}

#[test]
fn v2_in_memory_and_in_a_directory() {
    let directory = directory(&store_v2());
    for store in [
        open(&store_v2()).unwrap(),
        open_local(directory.path()).unwrap(),
    ] {
        assert_eq!((store.format(), store.version()), (ZarrFormat::V2, "0.4"));
        assert_eq!(names(&store), ["call_genotype"]);
        assert!(store.unreadable()["variant_id"].contains("M8"));
        assert!(store.unreadable()["variant_quality"].contains("not JSON"));
        assert!(
            store
                .require_array("variant_id")
                .unwrap_err()
                .to_string()
                .contains("M8")
        );
        assert!(
            store
                .require_array("nothing")
                .unwrap_err()
                .to_string()
                .contains("no such array")
        );
        assert_eq!(store.warnings(), [] as [&str; 0]);
        assert_eq!(store.contigs_attribute().unwrap(), ["1", "X"]);
        assert_eq!(store.filters_attribute(), None);
        let array = store.array("call_genotype").unwrap();
        assert_eq!(
            (array.element, &array.fill_value),
            (ElementType::Int8, &FillValue::Null)
        );
        assert_eq!(array.dimensions, ["variants", "samples"]);

        let chunk = |index: &[u64]| block_on(store.chunk(array, index));
        assert_eq!(chunk(&[0, 0]).unwrap().unwrap(), "0123456789abcdef");
        assert_eq!(chunk(&[1, 0]).unwrap(), None);
        assert!(
            chunk(&[3, 0])
                .unwrap_err()
                .to_string()
                .contains("chunk 3.0: it is outside")
        );
        assert!(chunk(&[0]).is_err());
        let range = |range| {
            block_on(store.chunk_range(array, &[0, 0], range))
                .unwrap()
                .unwrap()
        };
        assert_eq!(range(GetRange::Bounded(2..5)), "234");
        assert_eq!(range(GetRange::Bounded(14..50)), "ef");
        assert_eq!(range(GetRange::Offset(14)), "ef");
        assert_eq!(range(GetRange::Suffix(3)), "def");
        assert_eq!(range(GetRange::Suffix(50)).len(), 16);
        assert_eq!(range(GetRange::Bounded(3..3)), "");
        assert!(block_on(store.chunk_range(array, &[0, 0], GetRange::Bounded(17..20))).is_err());
        assert_eq!(
            block_on(store.chunk_range(array, &[1, 0], GetRange::Suffix(3))).unwrap(),
            None
        );
        assert_eq!(block_on(store.stored_bytes(array)).unwrap(), Some(19));
    }
}

/// Damaged metadata would otherwise be a column less.
#[test]
fn metadata_that_is_damaged() {
    for (files, key) in [
        (store_v2(), "call_genotype/.zarray"),
        (store_v2(), "call_genotype/.zattrs"),
        (store_v2(), "variant_id/.zarray"),
        (store_v3(), "call_genotype/zarr.json"),
        (store_v3(), "variant_id/zarr.json"),
    ] {
        let at = files.iter().position(|(name, _)| *name == key).unwrap();
        for length in 0..files[at].1.len() {
            let mut files = files.clone();
            files[at].1.truncate(length);
            for opened in [open(&files), open_local(directory(&files).path())] {
                let error = opened.unwrap_err().to_string();
                assert!(error.contains(key), "{error}");
                assert!(error.contains("are not JSON"), "{error}");
            }
        }
        let mut files = files.clone();
        files[at].1.extend(b"ZZ");
        let error = open(&files).unwrap_err().to_string();
        assert!(error.contains("trailing characters"), "{error}");
    }
}

#[test]
fn v3_is_preferred() {
    let directory = directory(&store_v3());
    for store in [
        open(&store_v3()).unwrap(),
        open_local(directory.path()).unwrap(),
    ] {
        assert_eq!(store.format(), ZarrFormat::V3);
        assert_eq!(names(&store), ["call_genotype"]);
        assert_eq!(
            store.unreadable().keys().collect::<Vec<_>>(),
            ["variant_id"]
        );
        assert!(store.warnings()[0].contains("0.6"));
        let array = store.array("call_genotype").unwrap();
        assert_eq!(
            block_on(store.chunk(array, &[0, 0]))
                .unwrap()
                .unwrap()
                .len(),
            16
        );
    }
}

#[test]
fn consolidated_metadata() {
    let v2 = vec![
        (
            ".zmetadata",
            document(json!({"zarr_consolidated_format": 1, "metadata": {
                ".zgroup": {"zarr_format": 2}, ".zattrs": {"vcf_zarr_version": 0.4},
                "call_genotype/.zarray": zarray(), "call_genotype/.zattrs": {"_ARRAY_DIMENSIONS": ["variants", "samples"]},
                "group/x/.zarray": zarray(), "../evil/.zarray": zarray(), "../.zarray": zarray(),
            }})),
        ),
        ("variant_id/.zarray", document(zarray())),
    ];
    let store = open(&v2).unwrap();
    assert_eq!(
        (names(&store), store.version()),
        (vec!["call_genotype"], "0.4")
    );
    assert_eq!(
        store.array("call_genotype").unwrap().dimensions,
        ["variants", "samples"]
    );
    assert_eq!(
        store.unreadable().keys().collect::<Vec<_>>(),
        ["..", "../evil"]
    );

    let v3 = vec![(
        "zarr.json",
        document(json!({
            "zarr_format": 3, "node_type": "group", "attributes": {"vcf_zarr_version": "0.5"},
            "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {
                "call_genotype": zarr_json(json!([10, 4]), "int8"), "variant_id": zarr_json(json!([10, 4]), "bfloat16"),
                "group": {"zarr_format": 3, "node_type": "group"}, "group/x": zarr_json(json!([10, 4]), "int8"),
            }},
        })),
    )];
    let store = open(&v3).unwrap();
    assert_eq!(names(&store), ["call_genotype"]);
    assert_eq!(
        store.unreadable().keys().collect::<Vec<_>>(),
        ["variant_id"]
    );
    let broken = vec![(".zmetadata", b"[]".to_vec())];
    assert!(matches!(
        open(&broken).unwrap_err(),
        VczError::Metadata { .. }
    ));
}

#[test]
fn places_that_cannot_be_listed() {
    let mut files = store_v2();
    files[1].1 = document(
        json!({"vcf_zarr_version": "0.4", "vcf_meta_information": [["INFO", "<ID=AC,Number=A>"]]}),
    );
    files.push(("variant_AC/.zarray", document(zarray())));
    files.push(("variant_unheard_of/.zarray", document(zarray())));
    let store = open_objects(Unlisted {
        objects: in_memory(&files),
        denies: false,
    })
    .unwrap();
    assert_eq!(names(&store), ["call_genotype", "variant_AC"]);
    assert_eq!(store.unreadable().len(), 2);
    let array = store.array("call_genotype").unwrap();
    assert_eq!(block_on(store.stored_bytes(array)).unwrap(), None);
    assert_eq!(
        block_on(store.chunk_range(array, &[0, 0], GetRange::Suffix(3)))
            .unwrap()
            .unwrap(),
        "def"
    );
    assert_eq!(
        block_on(store.chunk_range(array, &[1, 0], GetRange::Suffix(3))).unwrap(),
        None
    );
    assert!(!store.is_local());
    assert!(store.warnings()[0].contains("vcz.arrays"));
}

#[test]
fn places_that_deny_what_is_absent() {
    for files in [store_v2(), store_v3()] {
        let objects = in_memory(&files);
        let denies = true;
        let store = open_objects(Unlisted { objects, denies }).unwrap();
        assert_eq!(names(&store), ["call_genotype"]);
        // Of a chunk this could mean anything, so it is not taken for absence.
        let array = store.array("call_genotype").unwrap();
        let error = block_on(store.chunk(array, &[1, 0])).unwrap_err();
        assert!(matches!(error, VczError::Io { .. }), "{error}");
    }
    let objects = InMemory::new();
    let denies = true;
    let error = open_objects(Unlisted { objects, denies }).unwrap_err();
    assert!(matches!(error, VczError::Io { .. }), "{error}");
}

#[test]
fn archives_of_stores() {
    for files in [store_v2(), store_v3()] {
        let archive = archive_of(&files);
        let file = directory(&vec![("store.bin", archive.clone())]);
        let local = open_local(&file.path().join("store.bin")).unwrap();
        assert!(local.is_local());
        // An object is taken for an archive for its name, or when there is nothing below it.
        let remote = ["store.zip", "store.bin"].map(|name| {
            let path = Path::from(name);
            let objects = InMemory::new();
            block_on(objects.put(&path, PutPayload::from(archive.clone()))).unwrap();
            block_on(Store::open(
                Arc::new(objects),
                path,
                format!("mem://{name}"),
                None,
            ))
            .unwrap()
        });
        for store in remote.iter().chain([&local]) {
            assert_eq!(names(store), ["call_genotype"]);
            let array = store.array("call_genotype").unwrap();
            let chunk = block_on(store.chunk(array, &[0, 0])).unwrap().unwrap();
            assert_eq!(chunk, "0123456789abcdef");
            assert_eq!(block_on(store.chunk(array, &[1, 0])).unwrap(), None);
        }
    }
    let broken = in_memory(&vec![("store.zip", b"no archive".to_vec())]);
    let path = Path::from("data/my.vcz/store.zip");
    let open = Store::open(Arc::new(broken), path, "mem://store.zip".into(), None);
    let error = block_on(open).unwrap_err().to_string();
    assert!(error.contains("as a zip archive"), "{error}");
}

#[test]
fn futures_can_move_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let open = Store::open(
        Arc::new(in_memory(&store_v2())),
        Path::from("data/my.vcz"),
        String::new(),
        None,
    );
    let store = is_send(block_on(is_send(open)).unwrap());
    let array = store.array("call_genotype").unwrap();
    block_on(is_send(store.chunk(array, &[0, 0]))).unwrap();
    block_on(is_send(store.stored_bytes(array))).unwrap();
    fn is_sync<T: Sync>(_: &T) {}
    is_sync(&store);
}
