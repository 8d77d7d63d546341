//! A store behind an HTTP server, as a folder and as an archive, read by the crate zarrs through [`Store`]: the same elements as of the
//! local archive.

use std::sync::Arc;

use datafusion_vcz::store::Store;
use object_store::ObjectStore;
use object_store::http::HttpBuilder;
use object_store::memory::InMemory;
use zarrs::array::{Array, ArraySubset, ElementOwned};

use crate::common::fixtures;
use crate::http::{Behaviour, HttpServer};
use crate::server::files_of;

/// The elements of an array, by zarrs.
async fn elements<T: ElementOwned + Send + Sync>(store: &Arc<Store>, name: &str) -> Vec<T> {
    let path = format!("/{name}");
    let array = Array::async_open(Arc::clone(store), &path).await.unwrap();
    let whole = ArraySubset::new_with_shape(array.shape().to_vec());
    array.async_retrieve_array_subset(&whole).await.unwrap()
}

#[tokio::test]
async fn zarrs_reads_stores_behind_http() {
    let path = fixtures().join("chunks7.vcz.zip");
    let bytes = std::fs::read(&path).unwrap();
    let mut served = vec![("/a.vcz.zip".to_string(), bytes.clone())];
    for (key, data) in files_of(&bytes) {
        served.push((format!("/a.vcz/{key}"), data));
    }
    let server = HttpServer::start(served, Behaviour::default()).await;
    let http = HttpBuilder::new()
        .with_url(server.url())
        .with_client_options(object_store::ClientOptions::new().with_allow_http(true))
        .build()
        .unwrap();
    let http: Arc<dyn ObjectStore> = Arc::new(http);
    let nowhere: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let local = Store::open(nowhere, "".into(), "local".to_string(), Some(path));
    let local = Arc::new(local.await.unwrap());
    let genotypes = elements::<i8>(&local, "call_genotype").await;
    let positions = elements::<i32>(&local, "variant_position").await;
    assert!(positions.is_sorted() && genotypes.len() > 10 * positions.len());
    for name in ["a.vcz.zip", "a.vcz"] {
        let store = Store::open(Arc::clone(&http), name.into(), name.to_string(), None);
        let store = Arc::new(store.await.unwrap());
        server.take();
        assert_eq!(elements::<i32>(&store, "variant_position").await, positions);
        assert_eq!(elements::<i8>(&store, "call_genotype").await, genotypes);
        // A small archive was read whole when it was opened.
        assert_eq!(server.take().is_empty(), name.ends_with(".zip"), "{name}");
        assert_eq!(elements::<String>(&store, "sample_id").await.len(), 33);
    }
}
