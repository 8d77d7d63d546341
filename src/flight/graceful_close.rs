//! TCP connections that are closed only when the client has received everything.
//!
//! Between the [`server`](super::server), which accepts connections, and TLS and HTTP/2. If a socket is closed while received bytes are
//! unread (HTTP/2 clients keep sending WINDOW_UPDATE frames), the operating system resets the connection and drops what it has not sent
//! yet, so a client slower than the server would lose its last rows. Therefore a connection first shuts down its sending side, and then
//! reads and discards until the client closes its side. Invariant: that wait is bounded in time and in bytes.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Limits of the wait for a client to close its side.
#[derive(Debug, Clone, Copy)]
struct CloseLimits {
    /// Time without a byte from the client.
    idle: Duration,
    /// Time in total.
    total: Duration,
    /// Bytes from the client.
    bytes: usize,
}

const CLOSE_LIMITS: CloseLimits = CloseLimits {
    idle: Duration::from_secs(2),
    total: Duration::from_secs(20),
    // The WINDOW_UPDATE frames of a client take some kilobytes.
    bytes: 1 << 20,
};

/// A connection to a client.
#[derive(Debug)]
pub struct Lingering {
    stream: TcpStream,
    limits: CloseLimits,
    state: ConnectionState,
}

/// The state of a connection.
#[derive(Debug)]
enum ConnectionState {
    Open,
    /// The sending side is shut down.
    Closing {
        idle: Pin<Box<Sleep>>,
        deadline: Instant,
        /// Bytes discarded so far.
        bytes: usize,
    },
    Closed,
}

impl Lingering {
    /// A connection over `stream`.
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            limits: CLOSE_LIMITS,
            state: ConnectionState::Open,
        }
    }
}

impl Connected for Lingering {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self {
            stream,
            limits,
            state,
        } = &mut *self;
        if matches!(state, ConnectionState::Open) {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            let now = Instant::now();
            *state = ConnectionState::Closing {
                idle: Box::pin(sleep_until(now + limits.idle)),
                deadline: now + limits.total,
                bytes: 0,
            };
        }
        let ConnectionState::Closing {
            idle,
            deadline,
            bytes,
        } = state
        else {
            return Poll::Ready(Ok(()));
        };
        let mut scratch = [MaybeUninit::uninit(); 4096];
        loop {
            let mut unread = ReadBuf::uninit(&mut scratch);
            match Pin::new(&mut *stream).poll_read(cx, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => {
                    *bytes += unread.filled().len();
                    if *bytes > limits.bytes || Instant::now() >= *deadline {
                        break;
                    }
                    idle.as_mut()
                        .reset((Instant::now() + limits.idle).min(*deadline));
                }
                // The client closed its side, or the connection failed.
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(idle.as_mut().poll(cx));
                    break;
                }
            }
        }
        *state = ConnectionState::Closed;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const SENT: usize = 1 << 20;

    async fn pair() -> (Lingering, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        (Lingering::new(accepted.unwrap().0), client.unwrap())
    }

    /// A client that is slower than the server, and sends meanwhile, receives everything.
    #[tokio::test]
    async fn a_slow_client_receives_everything() {
        let (mut server, mut client) = pair().await;
        client.write_all(b"never read").await.unwrap();
        let serving = tokio::spawn(async move {
            server.write_all(&vec![7; SENT]).await.unwrap();
            server.shutdown().await.unwrap();
            // May be called again.
            server.shutdown().await.unwrap();
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut got = 0;
        let mut some = vec![0; 64 << 10];
        loop {
            match client.read(&mut some).await.unwrap() {
                0 => break,
                n => got += n,
            }
            client.write_all(b"taken").await.unwrap();
        }
        assert_eq!(got, SENT);
        assert!(!serving.is_finished(), "it waits until the client closes");
        drop(client);
        serving.await.unwrap();
    }

    /// The wait ends for a client that sends nothing, and for one that never stops sending.
    #[tokio::test]
    async fn the_wait_is_bounded() {
        let (short, long) = (Duration::from_millis(300), Duration::from_secs(60));
        let limits = |idle, total, bytes| CloseLimits { idle, total, bytes };
        let (mut server, _client) = pair().await;
        server.limits = limits(short, long, 1 << 20);
        let begun = Instant::now();
        server.shutdown().await.unwrap();
        assert!(begun.elapsed() >= short);
        for (total, bytes) in [(short, 1 << 20), (long, 1000)] {
            let (mut server, mut client) = pair().await;
            server.limits = limits(long, total, bytes);
            let talking = tokio::spawn(async move {
                while client.write_all(b"and so on").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            let begun = Instant::now();
            server.shutdown().await.unwrap();
            let took = begun.elapsed();
            assert!(took < long / 2 && (took >= total || total == long));
            assert!(!talking.is_finished());
            drop(server);
            talking.await.unwrap();
        }
    }
}
