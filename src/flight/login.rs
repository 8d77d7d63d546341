//! Login: exchanges a name and a password for a bearer token. A failure is answered after a delay, and after several a network (an IPv4
//! address, or the /64 prefix of an IPv6 address) is rejected for a minute, so that passwords cannot be guessed quickly. Few hashes are
//! computed at a time, because each takes memory, and few logins of one network wait for one, so that they do not keep others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use argon2::password_hash::Encoding;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tonic::Status;

use super::auth::Users;
use super::connections::network;
use super::tokens::Tokens;

/// A failed login is answered after this long.
const FAILURE_DELAY: Duration = Duration::from_millis(500);
/// Failures of one network within [`WINDOW`] after which it is rejected.
const MAX_FAILURES: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Networks whose failures are remembered.
const MAX_NETWORKS: usize = 10_000;
/// Hashes computed at the same time.
const CONCURRENT_HASHES: usize = 2;
/// Logins that may wait for a hash, or be hashed; more are rejected.
const MAX_WAITING: usize = 256;
/// The same for the logins of one network.
const MAX_WAITING_OF_ONE: usize = 8;

/// Logs users in.
pub struct Logins {
    users: Arc<Users>,
    hashing: Arc<Semaphore>,
    waiting: Arc<Waiting>,
    failures: Arc<Failures>,
}

/// The number of logins from each network that wait for a hash. Clients without an address count as one network.
#[derive(Default)]
struct Waiting(Mutex<HashMap<Option<IpAddr>, usize>>);

/// A login that waits, counted until this is dropped.
struct Waiter {
    waiting: Arc<Waiting>,
    network: Option<IpAddr>,
}

impl Waiting {
    /// Counts a login from `network`; `None` at a limit.
    fn enter(self: &Arc<Self>, network: Option<IpAddr>) -> Option<Waiter> {
        let mut waiting = self.0.lock();
        // Networks without a login are not kept, so this is at most [`MAX_WAITING`] numbers.
        let all: usize = waiting.values().sum();
        let own = waiting.get(&network).copied().unwrap_or(0);
        if all >= MAX_WAITING || own >= MAX_WAITING_OF_ONE {
            return None;
        }
        waiting.insert(network, own + 1);
        Some(Waiter {
            waiting: Arc::clone(self),
            network,
        })
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.waiting.0.lock();
        let own = waiting.get(&self.network).copied().unwrap_or(0);
        match own {
            0 | 1 => waiting.remove(&self.network),
            own => waiting.insert(self.network, own - 1),
        };
    }
}

impl Logins {
    /// Logins of `users`.
    pub fn new(users: Arc<Users>) -> Self {
        Self {
            users,
            hashing: Arc::new(Semaphore::new(CONCURRENT_HASHES)),
            waiting: Arc::default(),
            failures: Arc::default(),
        }
    }

    /// The users.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// A token for the name and password of an `authorization: Basic …` header.
    ///
    /// # Errors
    /// UNAUTHENTICATED for a wrong name or password, without saying which; RESOURCE_EXHAUSTED after too many failures.
    pub async fn login(
        &self,
        header: Option<&str>,
        address: Option<IpAddr>,
        tokens: &Tokens,
    ) -> Result<(String, Arc<str>), Status> {
        let Some((name, password)) = header.and_then(basic) else {
            return Err(Status::unauthenticated(
                "log in with a user name and a password (authorization: Basic …)",
            ));
        };
        let network = address.map(network);
        self.failures.check(network)?;
        let waiting = self.waiting.enter(network).ok_or_else(|| {
            Status::resource_exhausted("too many logins at a time; try again later")
        })?;
        let permit = Arc::clone(&self.hashing)
            .acquire_owned()
            .await
            .map_err(|_| Status::unavailable("the server is stopping"))?;
        // Others of this network may have failed meanwhile.
        self.failures.check(network)?;
        let (users, failures) = (Arc::clone(&self.users), Arc::clone(&self.failures));
        // A hash is not stopped when its client is gone, so it is counted until it ends, and a wrong password is recorded in any case.
        let verified = tokio::task::spawn_blocking(move || {
            let verified = users.verify(&name, &password);
            if verified.is_none() {
                failures.record(network);
            }
            drop((permit, waiting));
            verified
        })
        .await
        .map_err(|_| Status::internal("the password could not be checked"))?;
        match verified {
            Some(user) => Ok((tokens.issue(&user)?, user)),
            None => {
                tokio::time::sleep(FAILURE_DELAY).await;
                Err(Status::unauthenticated(
                    "the user name or the password is wrong",
                ))
            }
        }
    }
}

/// Failures of each network: their number since a time.
#[derive(Default)]
struct Failures(Mutex<HashMap<IpAddr, (usize, Instant)>>);

impl Failures {
    fn check(&self, network: Option<IpAddr>) -> Result<(), Status> {
        let failures = self.0.lock();
        match network.and_then(|network| failures.get(&network)) {
            Some((count, since)) if *count >= MAX_FAILURES && since.elapsed() < WINDOW => {
                Err(Status::resource_exhausted(
                    "too many failed logins from this address; wait a minute",
                ))
            }
            _ => Ok(()),
        }
    }

    fn record(&self, network: Option<IpAddr>) {
        let Some(network) = network else { return };
        let mut failures = self.0.lock();
        if failures.len() >= MAX_NETWORKS {
            failures.retain(|_, (_, since)| since.elapsed() < WINDOW);
        }
        if failures.len() >= MAX_NETWORKS && !failures.contains_key(&network) {
            return;
        }
        let entry = failures.entry(network).or_insert((0, Instant::now()));
        if entry.1.elapsed() >= WINDOW {
            *entry = (0, Instant::now());
        }
        entry.0 += 1;
    }
}

/// Name and password of `Basic <base64 of name:password>`.
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let encoded = encoded.trim().trim_end_matches('=');
    let mut buffer = vec![0u8; encoded.len()];
    let decoded = Encoding::B64.decode(encoded, &mut buffer).ok()?;
    let text = std::str::from_utf8(decoded).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_string(), password.to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tonic::Code;

    use super::*;
    use crate::flight::auth::password_line;

    #[test]
    fn basic_headers() {
        let pair = |name: &str, password: &str| Some((name.to_string(), password.to_string()));
        assert_eq!(basic("Basic YWRhOnNlY3JldA=="), pair("ada", "secret"));
        assert_eq!(basic("basic YWRhOmE6Yg=="), pair("ada", "a:b"));
        assert_eq!(basic("Basic YWRhOnNlY3JldA"), pair("ada", "secret"));
        for bad in [
            "",
            "Basic",
            "Basic ####",
            "Bearer YWRhOnNlY3JldA==",
            "Basic YWRh",
            "Basic /w==",
        ] {
            assert_eq!(basic(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn an_address_that_fails_has_to_wait() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        std::fs::write(&file, password_line("ada", "secret").unwrap()).unwrap();
        let users = Users::read(Path::new(&file)).unwrap();
        let (logins, tokens) = (
            Logins::new(Arc::new(users)),
            Tokens::new(Duration::from_secs(60)),
        );
        let (home, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let good = "Basic YWRhOnNlY3JldA==";
        let wrong = logins
            .login(Some("Basic YWRhOndyb25n"), Some(home), &tokens)
            .await;
        assert_eq!(wrong.unwrap_err().code(), Code::Unauthenticated);
        assert!(logins.login(Some(good), Some(home), &tokens).await.is_ok());
        for _ in 0..MAX_FAILURES {
            logins.failures.record(Some(home));
        }
        let blocked = logins.login(Some(good), Some(home), &tokens).await;
        assert_eq!(blocked.unwrap_err().code(), Code::ResourceExhausted);
        assert!(logins.login(Some(good), Some(other), &tokens).await.is_ok());
        let nothing = logins.login(None, Some(other), &tokens).await;
        assert_eq!(nothing.unwrap_err().code(), Code::Unauthenticated);
    }

    #[tokio::test]
    async fn addresses_of_one_network_share_their_failures() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        std::fs::write(&file, password_line("ada", "secret").unwrap()).unwrap();
        let users = Users::read(Path::new(&file)).unwrap();
        let logins = Logins::new(Arc::new(users));
        let tokens = Tokens::new(Duration::from_secs(60));
        let of = |text: &str| Some(text.parse().unwrap());
        let wrong = |address| logins.login(Some("Basic YWRhOndyb25n"), address, &tokens);
        let addresses: Vec<_> = (1..=30)
            .map(|host| of(&format!("2001:db8::{host:x}")))
            .collect();
        let failed = futures::future::join_all(addresses.into_iter().map(wrong)).await;
        let failed = failed.into_iter().map(|result| result.unwrap_err().code());
        let (checked, refused): (Vec<_>, Vec<_>) =
            failed.partition(|code| *code == Code::Unauthenticated);
        assert_eq!(checked.len(), MAX_WAITING_OF_ONE);
        assert!(refused.iter().all(|code| *code == Code::ResourceExhausted));
        let mut checked = checked.len();
        while wrong(of("2001:db8::99")).await.unwrap_err().code() == Code::Unauthenticated {
            checked += 1;
        }
        assert_eq!(checked, MAX_FAILURES);
        let good = Some("Basic YWRhOnNlY3JldA==");
        let blocked = logins.login(good, of("2001:db8::1:2"), &tokens).await;
        assert_eq!(blocked.unwrap_err().code(), Code::ResourceExhausted);
        assert!(
            logins
                .login(good, of("2001:db8:0:1::1"), &tokens)
                .await
                .is_ok()
        );
        assert!(logins.waiting.0.lock().is_empty());
    }
}
