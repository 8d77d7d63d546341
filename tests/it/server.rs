//! A fake object store: it counts requests, fails as planned, and can answer them in rounds.

use std::fmt;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, poll, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::common::{entries, fixtures};

/// What happens to requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// There is nothing (HTTP 404).
    Absent,
    /// Access is denied (HTTP 403).
    Denied,
    /// The server is not available (HTTP 503).
    Unavailable,
    /// Another store is there.
    Replaced,
    /// The connection is reset after half of the bytes.
    Reset,
    /// The body ends after half of the bytes that were announced, without an error.
    Short,
    /// Half of the bytes are announced and sent.
    Shorter,
    /// More bytes than there are are announced and sent.
    Longer,
}

impl Fault {
    pub const ALL: [Self; 8] = [
        Self::Absent,
        Self::Denied,
        Self::Unavailable,
        Self::Replaced,
        Self::Reset,
        Self::Short,
        Self::Shorter,
        Self::Longer,
    ];

    /// Whether the answer is that of the object, with another body.
    pub fn is_of_body(self) -> bool {
        matches!(
            self,
            Self::Reset | Self::Short | Self::Shorter | Self::Longer
        )
    }

    /// An answer with this fault in its body.
    async fn in_body(self, result: GetResult) -> Result<GetResult> {
        let (mut meta, mut range) = (result.meta.clone(), result.range.clone());
        let attributes = result.attributes.clone();
        let is_end = range.end == meta.size;
        let bytes = result.bytes().await?;
        let half = bytes.slice(..bytes.len() / 2);
        let (sent, end) = match self {
            Self::Reset | Self::Short => (half, range.end),
            Self::Shorter => {
                let end = range.start + half.len() as u64;
                (half, end)
            }
            _ => {
                let longer = [&bytes[..], &[0x5a; 16]].concat();
                (longer.into(), range.end + 16)
            }
        };
        range.end = end;
        if is_end {
            meta.size = end;
        }
        let reset = (self == Self::Reset).then(|| {
            Err(Error::Generic {
                store: "server",
                source: "connection reset".into(),
            })
        });
        let payload = stream::iter([Ok(sent)].into_iter().chain(reset)).boxed();
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta,
            range,
            attributes,
        })
    }
}

/// Which requests fail: those from a number on, or that number alone.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub fault: Fault,
    pub first: usize,
    pub is_alone: bool,
}

/// A server whose requests fail as planned.
#[derive(Debug, Default)]
pub struct Server {
    objects: InMemory,
    /// What is there once the store was replaced.
    pub other: InMemory,
    /// Whether it denies access to what is absent.
    pub denies: bool,
    /// Whether it does not list.
    pub denies_listing: bool,
    /// Where requests wait for each other.
    gate: Option<Gate>,
    plan: Mutex<Option<Plan>>,
    /// The paths that were asked for since the plan was made.
    pub asked: Mutex<Vec<String>>,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("server")
    }
}

/// Requests that wait for an answer.
type Gate = Mutex<Vec<oneshot::Sender<()>>>;

impl Server {
    /// A server of these objects.
    pub fn new(objects: InMemory) -> Self {
        Self {
            objects,
            ..Self::default()
        }
    }

    /// A server of these objects that answers requests only in [`Server::rounds`].
    pub fn in_rounds(objects: InMemory) -> Self {
        Self {
            gate: Some(Gate::default()),
            ..Self::new(objects)
        }
    }

    /// Runs `work`, and returns its result and the number of rounds: whenever no request has come for a while, all that wait are answered.
    pub async fn rounds<T>(&self, work: impl Future<Output = T>) -> (T, usize) {
        let mut work = pin!(work);
        let mut rounds = 0;
        let gate = self.gate.as_ref().unwrap();
        loop {
            // Other threads may have to wait for a processor.
            let (mut waiting, mut quiet) = (0, 0);
            while quiet < 10 {
                for _ in 0..100 {
                    if let Poll::Ready(done) = poll!(&mut work) {
                        return (done, rounds);
                    }
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
                let now = gate.lock().len();
                quiet = if now == waiting { quiet + 1 } else { 0 };
                waiting = now;
            }
            let waiting = std::mem::take(&mut *gate.lock());
            rounds += usize::from(!waiting.is_empty());
            for request in waiting {
                // Whoever has asked may be gone.
                let _ = request.send(());
            }
        }
    }

    /// Waits for the next round.
    async fn wait(&self) {
        if let Some(gate) = &self.gate {
            let (answer, answered) = oneshot::channel();
            gate.lock().push(answer);
            let _ = answered.await;
        }
    }

    /// An answer, or 403 for what is absent where the server denies that.
    fn denied(&self, result: Result<GetResult>) -> Result<GetResult> {
        match result {
            Err(Error::NotFound { path, source }) if self.denies => {
                Err(Error::PermissionDenied { path, source })
            }
            result => result,
        }
    }

    pub fn plan(&self, plan: Option<Plan>) {
        self.asked.lock().clear();
        *self.plan.lock() = plan;
    }

    /// The objects that a request sees, and the fault of its body; or its failure.
    fn answer(&self, path: &str) -> Result<(&InMemory, Option<Fault>)> {
        let mut asked = self.asked.lock();
        asked.push(path.to_string());
        let number = asked.len() - 1;
        let source = || "as planned".into();
        let path = path.to_string();
        let planned = *self.plan.lock();
        let hit = |plan: &Plan| match plan.is_alone {
            true => plan.first == number,
            false => plan.first <= number,
        };
        match planned.filter(hit).map(|plan| plan.fault) {
            None => Ok((&self.objects, None)),
            Some(Fault::Replaced) => Ok((&self.other, None)),
            Some(fault) if fault.is_of_body() => Ok((&self.objects, Some(fault))),
            Some(Fault::Absent) => Err(Error::NotFound {
                path,
                source: source(),
            }),
            Some(Fault::Denied) => Err(Error::PermissionDenied {
                path,
                source: source(),
            }),
            Some(_) => Err(Error::Generic {
                store: "server",
                source: source(),
            }),
        }
    }
}

#[async_trait]
impl ObjectStore for Server {
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
        self.wait().await;
        let (objects, fault) = self.answer(path.as_ref())?;
        let is_head = options.head;
        match (objects.get_opts(path, options).await, fault) {
            (Ok(result), Some(fault)) if !is_head => fault.in_body(result).await,
            (result, _) => self.denied(result),
        }
    }
    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(paths)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.answer("list") {
            Ok((objects, _)) => objects.list(prefix),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.wait().await;
        if self.denies_listing {
            return Err(Error::NotSupported {
                source: "it does not list".into(),
            });
        }
        match self.answer("list") {
            // A prefix without objects is an empty listing.
            Err(Error::NotFound { .. }) => Ok(ListResult {
                common_prefixes: vec![],
                objects: vec![],
            }),
            // Reset.
            Ok((_, Some(_))) => Err(Error::Generic {
                store: "server",
                source: "as planned".into(),
            }),
            objects => objects?.0.list_with_delimiter(prefix).await,
        }
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

/// Keys and contents of a store's files.
pub type Files = Vec<(String, Vec<u8>)>;

/// The files of a fixture.
pub fn files(name: &str) -> Files {
    files_of(&std::fs::read(fixtures().join(name)).unwrap())
}

/// The files of a zipped store.
pub fn files_of(zip: &[u8]) -> Files {
    entries(zip)
}

/// Adds consolidated metadata to a store of Zarr v2.
pub fn consolidate(mut files: Files) -> Files {
    let is_document = |key: &str| [".zgroup", ".zarray", ".zattrs"].contains(&key);
    let documents = files
        .iter()
        .filter(|(key, _)| is_document(key.rsplit('/').next().unwrap()));
    let metadata: serde_json::Map<String, serde_json::Value> = documents
        .map(|(key, bytes)| (key.clone(), serde_json::from_slice(bytes).unwrap()))
        .collect();
    let document = serde_json::json!({"zarr_consolidated_format": 1, "metadata": metadata});
    files.push((".zmetadata".to_string(), document.to_string().into_bytes()));
    files
}

/// An object store with these files at `data/my.vcz`.
pub async fn in_memory(files: &Files) -> InMemory {
    let objects = InMemory::new();
    for (key, data) in files {
        let path = Path::from(format!("data/my.vcz/{key}"));
        objects.put(&path, data.clone().into()).await.unwrap();
    }
    objects
}
