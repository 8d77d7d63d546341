//! A small HTTP server of files: it answers GET and HEAD, with ranges and conditions on entity tags, after a delay and over a link of limited
//! bandwidth, and keeps what it was asked. The entity tag of a file is that of its content.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    /// Time before each answer.
    pub delay: Duration,
    /// Bytes that all connections together may send in a second, if that is limited.
    pub bandwidth: Option<u64>,
    /// Whether everything is denied, with an answer that repeats the request.
    pub denies: bool,
}

/// A request: its path with the query, and all its lines in lower case.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub lines: String,
}

/// Files with their entity tags, by path.
type Files = Arc<Mutex<HashMap<String, Arc<(String, Vec<u8>)>>>>;

fn tagged(bytes: Vec<u8>) -> Arc<(String, Vec<u8>)> {
    Arc::new((format!("\"{:08x}\"", crc32c::crc32c(&bytes)), bytes))
}

/// A running server; it ends with the runtime.
pub struct HttpServer {
    pub address: SocketAddr,
    files: Files,
    /// Bytes of files that were sent.
    sent: Arc<AtomicU64>,
    pub asked: Arc<Mutex<Vec<Request>>>,
}

impl HttpServer {
    /// Serves these files by their paths, which begin with `/`.
    pub async fn start(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        behaviour: Behaviour,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let files = files.into_iter().map(|(path, bytes)| (path, tagged(bytes)));
        let server = Self {
            address,
            files: Arc::new(Mutex::new(files.collect())),
            sent: Arc::default(),
            asked: Arc::default(),
        };
        let (files, kept) = (Arc::clone(&server.files), Arc::clone(&server.asked));
        let sent = Arc::clone(&server.sent);
        let link = Arc::new(Link {
            bandwidth: behaviour.bandwidth,
            free: Mutex::new(Instant::now()),
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (files, kept) = (Arc::clone(&files), Arc::clone(&kept));
                let (sent, link) = (Arc::clone(&sent), Arc::clone(&link));
                tokio::spawn(serve(stream, files, behaviour.clone(), kept, sent, link));
            }
        });
        server
    }

    /// Replaces a file.
    pub fn replace(&self, path: &str, bytes: Vec<u8>) {
        self.files.lock().insert(path.to_string(), tagged(bytes));
    }

    /// Bytes of files that were sent since the last call.
    pub fn take_sent(&self) -> u64 {
        self.sent.swap(0, Ordering::SeqCst)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked since the last call.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.asked.lock())
    }
}

/// What all connections send over.
struct Link {
    bandwidth: Option<u64>,
    /// When all that was to be sent has been.
    free: Mutex<Instant>,
}

impl Link {
    /// Waits until so many bytes have been sent.
    async fn send(&self, bytes: usize) {
        let Some(bandwidth) = self.bandwidth else {
            return;
        };
        let sent = {
            let mut free = self.free.lock();
            let takes = Duration::from_secs_f64(bytes as f64 / bandwidth as f64);
            *free = Instant::now().max(*free) + takes;
            *free
        };
        tokio::time::sleep_until(sent.into()).await;
    }
}

async fn serve(
    mut stream: TcpStream,
    files: Files,
    behaviour: Behaviour,
    asked: Arc<Mutex<Vec<Request>>>,
    sent: Arc<AtomicU64>,
    link: Arc<Link>,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut received = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let mut buffer = [0; 4096];
            let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
            received.extend_from_slice(&buffer[..n]);
        };
        let head = String::from_utf8(received.drain(..end).collect()).ok()?;
        let mut words = head.split(' ');
        let (method, path) = (words.next()?.to_string(), words.next()?.to_string());
        asked.lock().push(Request {
            path: path.clone(),
            lines: head.to_ascii_lowercase(),
        });
        tokio::time::sleep(behaviour.delay).await;
        let file = files.lock().get(path.split('?').next()?).cloned();
        let tag = file.as_ref().map_or("", |file| file.0.as_str());
        let condition = |name: &str| {
            let head = head.to_ascii_lowercase();
            let (_, rest) = head.split_once(&format!("\r\n{name}: "))?;
            Some(rest.split("\r\n").next()? == tag)
        };
        let (status, range, body) = match file.as_ref().map(|file| &file.1) {
            _ if behaviour.denies => ("403 Forbidden", None, head.as_bytes()),
            None => ("404 Not Found", None, &b"there is no such file"[..]),
            Some(_) if condition("if-match") == Some(false) => {
                ("412 Precondition Failed", None, &b""[..])
            }
            Some(_) if condition("if-none-match") == Some(true) => {
                ("304 Not Modified", None, &b""[..])
            }
            Some(file) => match range_of(&head, file.len()) {
                Some((start, end)) => (
                    "206 Partial Content",
                    Some(format!("bytes {start}-{}/{}", end - 1, file.len())),
                    &file[start..end],
                ),
                None => ("200 OK", None, &file[..]),
            },
        };
        let range = range.map_or(String::new(), |range| format!("content-range: {range}\r\n"));
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nlast-modified: Tue, 03 Jun 2025 10:00:00 GMT\r\netag: {tag}\r\n{range}\r\n",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.ok()?;
        if method != "HEAD" {
            link.send(body.len()).await;
            stream.write_all(body).await.ok()?;
            if status.starts_with('2') {
                sent.fetch_add(body.len() as u64, Ordering::SeqCst);
            }
        }
    }
}

/// The range that a request names, as start and end.
fn range_of(head: &str, len: usize) -> Option<(usize, usize)> {
    let head = head.to_ascii_lowercase();
    let (_, rest) = head.split_once("\r\nrange: bytes=")?;
    let (start, end) = rest.split("\r\n").next()?.split_once('-')?;
    Some(match (start.parse::<usize>(), end.parse::<usize>()) {
        (Err(_), Ok(last)) => (len.saturating_sub(last), len),
        (Ok(start), Ok(end)) => (start, (end + 1).min(len)),
        (Ok(start), Err(_)) => (start, len),
        _ => return None,
    })
}
