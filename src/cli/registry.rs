//! The object stores of a session. The DataFusion CLI creates those of S3, Google Cloud Storage and HTTP when they are first
//! needed. Those of Azure, which it does not support, are created here.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use url::Url;

use crate::scan::{Service, shown_location};

/// The CLI's object stores, which may count their requests, and those of Azure.
#[derive(Debug)]
pub struct Registry(pub Arc<InstrumentedObjectStoreRegistry>);

impl ObjectStoreRegistry for Registry {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.0.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        match self.0.get_store(url) {
            Err(_) if Service::of(url.scheme()) == Some(Service::Azure) => Ok(azure(url)),
            found => found,
        }
    }
}

/// The object store of a URL in Azure, configured by environment variables.
fn azure(url: &Url) -> Arc<dyn ObjectStore> {
    let builder = object_store::azure::MicrosoftAzureBuilder::from_env().with_url(url.as_str());
    match builder.build() {
        Ok(store) => Arc::new(store),
        Err(error) => Arc::new(Unreachable(format!(
            "{}: {error}; set AZURE_STORAGE_ACCOUNT_NAME, or options of the table such as 'azure.account_name'",
            shown_location(url.as_str())
        ))),
    }
}

/// An object store whose every method fails with this reason.
#[derive(Debug)]
struct Unreachable(String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unreachable")
    }
}

impl Unreachable {
    fn error<T>(&self) -> object_store::Result<T> {
        Err(Error::NotSupported {
            source: self.0.clone().into(),
        })
    }
}

#[async_trait]
impl ObjectStore for Unreachable {
    async fn put_opts(
        &self,
        _path: &Path,
        _payload: PutPayload,
        _options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.error()
    }

    async fn put_multipart_opts(
        &self,
        _path: &Path,
        _options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.error()
    }

    async fn get_opts(
        &self,
        _path: &Path,
        _options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.error()
    }

    fn delete_stream(
        &self,
        _paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let error = self.error();
        stream::once(async { error }).boxed()
    }

    fn list(&self, _prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let error = self.error();
        stream::once(async { error }).boxed()
    }

    async fn list_with_delimiter(
        &self,
        _prefix: Option<&Path>,
    ) -> object_store::Result<ListResult> {
        self.error()
    }

    async fn copy_opts(
        &self,
        _from: &Path,
        _to: &Path,
        _options: CopyOptions,
    ) -> object_store::Result<()> {
        self.error()
    }
}
