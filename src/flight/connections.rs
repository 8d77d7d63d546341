//! Limits the connections to a port: their number, in total and per address, and how long they may be open without a request.
//!
//! Between the listeners of [`server`](super::server) and [`ops`](super::ops), and TLS and HTTP. A connection is known once it has sent
//! an authenticated request. At a limit the oldest connection that is not known is closed for a new one, so a flood of idle connections
//! does not keep clients out. Invariants: accepting never fails and never spins; a connection is counted until its socket is closed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tonic::transport::server::Connected;

use super::graceful_close::Lingering;

/// The time to wait after an accept failed, for example because no file descriptor was free.
const BACK_OFF: Duration = Duration::from_millis(200);

/// Limits of the connections to a port.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Connections in total.
    pub most: usize,
    /// Connections from one address, or from one network of 64 bits.
    pub of_one: usize,
    /// Time until the first request arrives, including the TLS handshake.
    pub begin: Duration,
    /// Time without an active request.
    pub idle: Duration,
}

/// The state of a connection that its requests share.
#[derive(Debug)]
pub struct Connection {
    network: IpAddr,
    is_known: AtomicBool,
    is_closed: AtomicBool,
    /// Requests that are being answered.
    requests: AtomicUsize,
    /// The time when it was opened, or when the last request ended.
    used: Mutex<Instant>,
    waker: AtomicWaker,
}

impl Connection {
    /// Records that the connection has sent an authenticated request.
    pub fn known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Counts a request until the result is dropped.
    pub fn request(self: &Arc<Self>) -> ActiveRequest {
        self.requests.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(self))
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct ActiveRequest(Arc<Connection>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connections to one port.
pub struct Connections {
    port: &'static str,
    limits: ConnectionLimits,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
    /// The number of connections from each network.
    of_network: HashMap<IpAddr, usize>,
    closed: Closed,
}

/// Connections that were closed since the last line of the log.
#[derive(Default, PartialEq)]
struct Closed {
    refused: usize,
    displaced: usize,
    slow: usize,
    idle: usize,
}

impl Connections {
    /// No connections to the port that the log calls `port`.
    pub fn new(port: &'static str, limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            port,
            limits,
            open: Mutex::default(),
        })
    }

    /// The next connection that is within the limits.
    pub async fn accept(self: &Arc<Self>, listener: &TcpListener) -> (Guarded, SocketAddr) {
        loop {
            match listener.accept().await {
                Ok((stream, address)) => {
                    let Some((number, connection)) = self.admit(address.ip()) else {
                        continue;
                    };
                    // A socket that was closed meanwhile has no options.
                    let _ = stream.set_nodelay(true);
                    let guarded = Guarded {
                        stream: Lingering::new(stream),
                        address,
                        number,
                        connection,
                        all: Arc::clone(self),
                    };
                    return (guarded, address);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::Interrupted => {}
                    _ => {
                        log::error!(port = self.port; "cannot accept connections, trying again in {BACK_OFF:?}: {error}");
                        // Closes one without a request, to free its descriptor.
                        self.open.lock().displace(|_| true);
                        tokio::time::sleep(BACK_OFF).await;
                    }
                },
            }
        }
    }

    /// Counts a new connection from `address`, if it is within the limits or another one can be closed for it.
    fn admit(&self, address: IpAddr) -> Option<(u64, Arc<Connection>)> {
        let network = network(address);
        let mut open = self.open.lock();
        let own = open.of_network.get(&network).copied().unwrap_or(0);
        let has_room = if own >= self.limits.of_one {
            open.displace(|other| other.network == network)
        } else {
            open.connections.len() < self.limits.most || open.displace(|_| true)
        };
        if !has_room {
            open.closed.refused += 1;
            return None;
        }
        let connection = Arc::new(Connection {
            network,
            is_known: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            waker: AtomicWaker::new(),
        });
        open.next += 1;
        let number = open.next;
        open.connections.insert(number, Arc::clone(&connection));
        *open.of_network.entry(network).or_default() += 1;
        Some((number, connection))
    }

    /// Closes connections that have not sent a request in time, or are idle; logs the number of connections closed since the last call.
    pub fn sweep(&self) {
        let mut open = self.open.lock();
        let mut late = Vec::new();
        for (number, connection) in &open.connections {
            if connection.is_busy() {
                continue;
            }
            let since = connection.used.lock().elapsed();
            let is_known = connection.is_known.load(Ordering::Relaxed);
            let limit = if is_known {
                self.limits.idle
            } else {
                self.limits.begin
            };
            if since >= limit {
                late.push((*number, is_known));
            }
        }
        for (number, is_known) in late {
            open.remove(number);
            if is_known {
                open.closed.idle += 1;
            } else {
                open.closed.slow += 1;
            }
        }
        let closed = std::mem::take(&mut open.closed);
        let (left, of) = (open.connections.len(), open.of_network.len());
        drop(open);
        if closed != Closed::default() {
            log::warn!(
                port = self.port, refused = closed.refused, displaced = closed.displaced, slow = closed.slow, idle = closed.idle,
                open = left, addresses = of;
                "connections were closed: at a limit, without a request in time, or idle"
            );
        }
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.open.lock().connections.len()
    }
}

impl Open {
    /// Closes a connection without an active request: one that is not known before one that is, then one of the network with most
    /// connections, then the oldest. Returns whether there was one.
    fn displace(&mut self, which: impl Fn(&Connection) -> bool) -> bool {
        let candidates = self.connections.iter();
        let candidates = candidates.filter(|(_, one)| which(one) && !one.is_busy());
        let found = candidates
            .min_by_key(|(_, one)| {
                let of_network = self.of_network.get(&one.network).copied();
                let is_known = one.is_known.load(Ordering::Relaxed);
                (is_known, Reverse(of_network), *one.used.lock())
            })
            .map(|(number, _)| *number);
        let Some(number) = found else {
            return false;
        };
        self.remove(number);
        self.closed.displaced += 1;
        true
    }

    fn remove(&mut self, number: u64) {
        let Some(connection) = self.connections.remove(&number) else {
            return;
        };
        if let Some(count) = self.of_network.get_mut(&connection.network) {
            *count -= 1;
            if *count == 0 {
                self.of_network.remove(&connection.network);
            }
        }
        connection.close();
    }
}

/// The socket of a connection, which fails once the connection was closed.
pub struct Guarded {
    stream: Lingering,
    address: SocketAddr,
    number: u64,
    connection: Arc<Connection>,
    all: Arc<Connections>,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.all.open.lock().remove(self.number);
    }
}

impl Guarded {
    fn check(&self, context: &Context<'_>) -> io::Result<()> {
        self.connection.waker.register(context.waker());
        if self.connection.is_closed.load(Ordering::Acquire) {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "closed by the limits of connections",
            ));
        }
        Ok(())
    }
}

/// A client's address and connection, attached to its requests.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The address.
    pub address: SocketAddr,
    /// The connection.
    pub connection: Arc<Connection>,
}

impl Connected for Guarded {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer {
            address: self.address,
            connection: Arc::clone(&self.connection),
        }
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The network that limits by address apply to: an IPv4 address, or the /64 prefix of an IPv6 address.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let host = Ipv6Addr::from_bits((address.to_bits() >> 64) << 64);
            IpAddr::V6(host)
        }
        address => address,
    }
}

/// The number of files and sockets that this process may have open, if the system reports it.
pub fn descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn connections(
        most: usize,
        of_one: usize,
        begin: Duration,
        idle: Duration,
    ) -> Arc<Connections> {
        let limits = ConnectionLimits {
            most,
            of_one,
            begin,
            idle,
        };
        Connections::new("test", limits)
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_closed(admitted: &(u64, Arc<Connection>)) -> bool {
        admitted.1.is_closed.load(Ordering::Relaxed)
    }

    #[test]
    fn the_oldest_unknown_makes_room() {
        let all = connections(3, 2, LONG, LONG);
        let known = all.admit(address(1)).unwrap();
        known.1.known();
        let unknown = all.admit(address(1)).unwrap();
        let next = all.admit(address(1)).unwrap();
        assert!(is_closed(&unknown) && !is_closed(&known) && !is_closed(&next));
        let other = all.admit(address(2)).unwrap();
        assert_eq!(all.len(), 3);
        let third = all.admit(address(3)).unwrap();
        assert!(is_closed(&next) && !is_closed(&other) && !is_closed(&third));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn the_network_with_most_connections_makes_room() {
        let all = connections(4, 3, LONG, LONG);
        let oldest = all.admit(address(1)).unwrap();
        let [first, second, third] = [2, 2, 2].map(|last| all.admit(address(last)).unwrap());
        all.admit(address(3)).unwrap();
        assert!(is_closed(&first) && !is_closed(&oldest));
        assert!(!is_closed(&second) && !is_closed(&third));
    }

    #[test]
    fn requests_are_not_interrupted() {
        let all = connections(2, 2, Duration::ZERO, Duration::ZERO);
        let one = all.admit(address(1)).unwrap();
        let two = all.admit(address(1)).unwrap();
        let (first, second) = (one.1.request(), two.1.request());
        all.sweep();
        assert!(all.admit(address(1)).is_none() && all.admit(address(2)).is_none());
        drop(first);
        assert!(all.admit(address(2)).is_some());
        assert!(is_closed(&one) && !is_closed(&two));
        drop(second);
        all.sweep();
        assert!(is_closed(&two));
        assert_eq!((all.len(), all.open.lock().of_network.len()), (0, 0));
    }

    #[test]
    fn known_connections_may_be_idle() {
        let all = connections(9, 9, Duration::ZERO, LONG);
        let (known, unknown) = (
            all.admit(address(1)).unwrap(),
            all.admit(address(1)).unwrap(),
        );
        known.1.known();
        all.sweep();
        assert!(!is_closed(&known) && is_closed(&unknown));
    }

    #[tokio::test]
    async fn a_closed_connection_is_told() {
        let all = connections(9, 9, Duration::ZERO, LONG);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, all.accept(&listener));
        let (mut client, mut server) = (client.unwrap(), accepted.0);
        let waiting = tokio::spawn(async move { server.read_u8().await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        all.sweep();
        assert!(waiting.await.unwrap().is_err());
        assert!(!matches!(client.read(&mut [0; 9]).await, Ok(1..)));
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn networks() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn the_system_says_how_many() {
        assert!(!cfg!(target_os = "linux") || descriptors().is_none_or(|most| most > 10));
    }
}
