//! A small HTTP server of files: it answers GET and HEAD, with ranges, after a delay, and keeps what it was asked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    /// Time before each answer.
    pub delay: Duration,
    /// Whether everything is denied, with an answer that repeats the request.
    pub denies: bool,
}

/// A request: its path with the query, and all its lines in lower case.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub lines: String,
}

/// A running server; it ends with the runtime.
pub struct HttpServer {
    pub address: SocketAddr,
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
        let files: Arc<HashMap<String, Vec<u8>>> = Arc::new(files.into_iter().collect());
        let asked = Arc::new(Mutex::new(vec![]));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (files, kept) = (Arc::clone(&files), Arc::clone(&kept));
                tokio::spawn(serve(stream, files, behaviour.clone(), kept));
            }
        });
        Self { address, asked }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked since the last call.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.asked.lock())
    }
}

async fn serve(
    mut stream: TcpStream,
    files: Arc<HashMap<String, Vec<u8>>>,
    behaviour: Behaviour,
    asked: Arc<Mutex<Vec<Request>>>,
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
        let file = files.get(path.split('?').next()?);
        let (status, range, body) = match file {
            _ if behaviour.denies => ("403 Forbidden", None, head.as_bytes()),
            None => ("404 Not Found", None, &b"there is no such file"[..]),
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
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nlast-modified: Tue, 03 Jun 2025 10:00:00 GMT\r\netag: \"1\"\r\n{range}\r\n",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.ok()?;
        if method != "HEAD" {
            stream.write_all(body).await.ok()?;
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
