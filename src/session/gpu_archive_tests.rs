//! Archives in object stores on a simulated device: neighbouring chunks are read by one request, for the device as for the host.

#[path = "../../tests/it/archive.rs"]
mod archive;

use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use url::Url;

use super::gpu_tests::unzip;

/// An object store that counts reads.
#[derive(Debug, Default)]
struct Counting {
    objects: InMemory,
    reads: AtomicUsize,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counting")
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.objects.put_opts(path, payload, options).await
    }
    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(path, options).await
    }
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.objects.get_opts(path, options).await
    }
    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(paths)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

/// The fixture `name` as an archive that is longer than what is read with its directory. Its chunks are not in the order of their numbers.
async fn served(name: &str) -> Arc<Counting> {
    let fixtures = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut files = unzip::entries(&std::fs::read(fixtures.join(name)).unwrap());
    let hash = |key: &str| crc32fast::hash(key.as_bytes());
    files.sort_by_key(|(key, _)| (key.split('/').next().unwrap().to_string(), hash(key)));
    files.push(("padding".to_string(), vec![7; 3 << 20]));
    let store = Counting::default();
    let archive = archive::archive(&files);
    let path = Path::from("x.vcz.zip");
    store.objects.put(&path, archive.into()).await.unwrap();
    Arc::new(store)
}

async fn opened(store: &Arc<Counting>, backend: &str) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(1);
    let ctx = super::context(config, Arc::new(RuntimeEnv::default())).unwrap();
    let url = Url::parse("fake://gpu").unwrap();
    ctx.register_object_store(&url, Arc::clone(store) as _);
    for sql in [
        format!("SET vcz.backend = '{backend}'"),
        "CREATE EXTERNAL TABLE t STORED AS VCZ LOCATION 'fake://gpu/x.vcz.zip'".to_string(),
    ] {
        ctx.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    ctx
}

fn sum(plan: &Arc<dyn ExecutionPlan>, metric: &str) -> usize {
    let metrics = plan.metrics();
    let here = metrics.and_then(|metrics| Some(metrics.sum_by_name(metric)?.as_usize()));
    let below = plan.children().into_iter().map(|child| sum(child, metric));
    here.unwrap_or(0) + below.sum::<usize>()
}

/// The rows of a query as text; requests, requests in the metrics, chunks that were read, and chunks that a device decoded.
async fn ask(ctx: &SessionContext, store: &Counting, sql: &str) -> (String, [usize; 4]) {
    let plan = ctx.sql(sql).await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    store.reads.store(0, Ordering::SeqCst);
    let batches = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    let requests = store.reads.load(Ordering::SeqCst);
    let rows = arrow::util::pretty::pretty_format_batches(&batches).unwrap();
    let counted = ["requests", "chunks_read", "chunks_on_gpu"].map(|metric| sum(&plan, metric));
    (
        rows.to_string(),
        [requests, counted[0], counted[1], counted[2]],
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn neighbours_in_an_archive_are_read_by_one_request() {
    super::gpu_tests::install();
    for (name, sql, arrays) in [
        ("sim.vcz.zip", "SELECT sfs(call_genotype) FROM t", 1),
        ("sim.v3.vcz.zip", "SELECT sfs(call_genotype) FROM t", 1),
        (
            "sim.vcz.zip",
            // The column and the counts are read apart.
            "SELECT call_genotype, allele_counts(call_genotype) FROM t",
            2,
        ),
        (
            "formats.vcz.zip",
            "SELECT genotype_counts(filter_calls(filter_calls(call_genotype, call_I2, 2), call_value(call_LI2, 1))) FROM t",
            3,
        ),
    ] {
        let store = served(name).await;
        let (host, device) = (opened(&store, "host").await, opened(&store, "gpu").await);
        let (expected, [on_host, ..]) = ask(&host, &store, sql).await;
        let (rows, [requests, counted, read, decoded]) = ask(&device, &store, sql).await;
        assert_eq!(rows, expected, "{name}: {sql}");
        assert_eq!(decoded, read, "{name}: {sql}: left to the host");
        assert_eq!(counted, requests, "{name}: {sql}");
        assert!(read > 2 * arrays, "{name}: {sql}: {read} chunks");
        assert_eq!(
            requests, arrays,
            "{name}: {sql}: {read} chunks; {on_host} requests on the host"
        );
    }
}

/// Chunks that a device rejects are not requested again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_left_to_the_host_is_not_requested_again() {
    super::gpu_tests::install();
    let fixtures = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/layouts");
    let mut left = 0;
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".zip") || !name.contains("checksum") {
            continue;
        }
        let store = served(&format!("layouts/{name}")).await;
        let (host, device) = (opened(&store, "host").await, opened(&store, "auto").await);
        let sql = "SELECT sfs(call_genotype) FROM t";
        let (expected, _) = ask(&host, &store, sql).await;
        let (rows, [requests, counted, read, decoded]) = ask(&device, &store, sql).await;
        assert_eq!(rows, expected, "{name}");
        assert_eq!(counted, requests, "{name}");
        assert_eq!(
            requests, 1,
            "{name}: {read} chunks, {decoded} on the device"
        );
        left += read - decoded;
    }
    assert!(left > 0, "no chunk was left to the host");
}
