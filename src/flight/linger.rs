//! Connections that end without losing what is still on its way to the client.
//!
//! Under the [`server`](super::server), which listens; TLS and HTTP/2 are above. Who closes a socket on which something has come that was
//! not read (an HTTP/2 client tells again and again how much it has taken) has the system drop what it has not sent yet, and a client that
//! is slower than the server loses the end of its rows. So a connection that is over says so, and then waits until the client has said so
//! too. Invariant: it waits for no client for long, neither for one that says nothing nor for one that never stops.

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

/// How long is waited for a client.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// While it says nothing.
    silence: Duration,
    /// In all.
    at_most: Duration,
    /// And while it says no more than this, in bytes.
    bytes: usize,
}

const PATIENCE: Patience = Patience {
    silence: Duration::from_secs(2),
    at_most: Duration::from_secs(20),
    // What clients say of what they have taken is some kilobytes.
    bytes: 1 << 20,
};

/// A connection to a client.
#[derive(Debug)]
pub struct Lingering {
    stream: TcpStream,
    patience: Patience,
    end: End,
}

/// How far its end is.
#[derive(Debug)]
enum End {
    /// It goes on.
    Open,
    /// Nothing more is sent; until the first of these times, or the client's end, of which so many bytes have come.
    Waiting {
        silence: Pin<Box<Sleep>>,
        last: Instant,
        bytes: usize,
    },
    Over,
}

impl Lingering {
    /// A connection that waits at its end.
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            patience: PATIENCE,
            end: End::Open,
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
            patience,
            end,
        } = &mut *self;
        if matches!(end, End::Open) {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            let now = Instant::now();
            *end = End::Waiting {
                silence: Box::pin(sleep_until(now + patience.silence)),
                last: now + patience.at_most,
                bytes: 0,
            };
        }
        let End::Waiting {
            silence,
            last,
            bytes,
        } = end
        else {
            return Poll::Ready(Ok(()));
        };
        let mut scratch = [MaybeUninit::uninit(); 4096];
        loop {
            let mut unread = ReadBuf::uninit(&mut scratch);
            match Pin::new(&mut *stream).poll_read(cx, &mut unread) {
                Poll::Ready(Ok(())) if !unread.filled().is_empty() => {
                    *bytes += unread.filled().len();
                    if *bytes > patience.bytes || Instant::now() >= *last {
                        break;
                    }
                    silence
                        .as_mut()
                        .reset((Instant::now() + patience.silence).min(*last));
                }
                // Its end, or it is gone.
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(silence.as_mut().poll(cx));
                    break;
                }
            }
        }
        *end = End::Over;
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

    /// A client that is behind, and says so meanwhile, gets everything.
    #[tokio::test]
    async fn what_is_on_its_way_arrives() {
        let (mut server, mut client) = pair().await;
        client.write_all(b"never read").await.unwrap();
        let serving = tokio::spawn(async move {
            server.write_all(&vec![7; SENT]).await.unwrap();
            server.shutdown().await.unwrap();
            // A second time does no harm.
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
        assert!(!serving.is_finished(), "it waits for the client's end");
        drop(client);
        serving.await.unwrap();
    }

    /// Nobody waits for a client that says nothing, or for ever for one that never stops.
    #[tokio::test]
    async fn it_does_not_wait_for_long() {
        let (short, long) = (Duration::from_millis(300), Duration::from_secs(60));
        let patience = |silence, at_most, bytes| Patience {
            silence,
            at_most,
            bytes,
        };
        let (mut server, _client) = pair().await;
        server.patience = patience(short, long, 1 << 20);
        let begun = Instant::now();
        server.shutdown().await.unwrap();
        assert!(begun.elapsed() >= short);
        for (at_most, bytes) in [(short, 1 << 20), (long, 1000)] {
            let (mut server, mut client) = pair().await;
            server.patience = patience(long, at_most, bytes);
            let talking = tokio::spawn(async move {
                while client.write_all(b"and so on").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            let begun = Instant::now();
            server.shutdown().await.unwrap();
            let took = begun.elapsed();
            assert!(took < long / 2 && (took >= at_most || at_most == long));
            assert!(!talking.is_finished());
            drop(server);
            talking.await.unwrap();
        }
    }
}
