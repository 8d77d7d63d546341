//! Login: exchanges a name and a password for a bearer token. A failure is answered after a delay, and after several an address is
//! rejected for a minute, so that passwords cannot be guessed quickly. Few hashes are computed at a time, because each takes memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use argon2::password_hash::Encoding;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tonic::Status;

use super::auth::Users;
use super::tokens::Tokens;

/// A failed login is answered after this long.
const FAILURE_DELAY: Duration = Duration::from_millis(500);
/// Failures of one address within [`WINDOW`] after which it is rejected.
const MAX_FAILURES: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses whose failures are remembered.
const MAX_ADDRESSES: usize = 10_000;
/// Hashes computed at the same time.
const CONCURRENT_HASHES: usize = 2;
/// Logins that may wait for a hash; more are rejected.
const MAX_WAITING: usize = 256;

/// Logs users in.
pub struct Logins {
    users: Arc<Users>,
    hashing: Semaphore,
    waiting: Semaphore,
    failures: Mutex<HashMap<IpAddr, (usize, Instant)>>,
}

impl Logins {
    /// Logins of `users`.
    pub fn new(users: Arc<Users>) -> Self {
        Self {
            users,
            hashing: Semaphore::new(CONCURRENT_HASHES),
            waiting: Semaphore::new(MAX_WAITING),
            failures: Mutex::default(),
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
        let _waiting = self.waiting.try_acquire().map_err(|_| {
            Status::resource_exhausted("too many logins at a time; try again later")
        })?;
        self.check_failures(address)?;
        let verified = {
            let _permit = self
                .hashing
                .acquire()
                .await
                .map_err(|_| Status::unavailable("the server is stopping"))?;
            let users = Arc::clone(&self.users);
            tokio::task::spawn_blocking(move || users.verify(&name, &password))
                .await
                .map_err(|_| Status::internal("the password could not be checked"))?
        };
        match verified {
            Some(user) => Ok((tokens.issue(&user)?, user)),
            None => {
                self.record_failure(address);
                tokio::time::sleep(FAILURE_DELAY).await;
                Err(Status::unauthenticated(
                    "the user name or the password is wrong",
                ))
            }
        }
    }

    fn check_failures(&self, address: Option<IpAddr>) -> Result<(), Status> {
        let failures = self.failures.lock();
        match address.and_then(|address| failures.get(&address)) {
            Some((count, since)) if *count >= MAX_FAILURES && since.elapsed() < WINDOW => {
                Err(Status::resource_exhausted(
                    "too many failed logins from this address; wait a minute",
                ))
            }
            _ => Ok(()),
        }
    }

    fn record_failure(&self, address: Option<IpAddr>) {
        let Some(address) = address else { return };
        let mut failures = self.failures.lock();
        if failures.len() >= MAX_ADDRESSES {
            failures.retain(|_, (_, since)| since.elapsed() < WINDOW);
        }
        if failures.len() >= MAX_ADDRESSES && !failures.contains_key(&address) {
            return;
        }
        let entry = failures.entry(address).or_insert((0, Instant::now()));
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
            logins.record_failure(Some(home));
        }
        let blocked = logins.login(Some(good), Some(home), &tokens).await;
        assert_eq!(blocked.unwrap_err().code(), Code::ResourceExhausted);
        assert!(logins.login(Some(good), Some(other), &tokens).await.is_ok());
        let nothing = logins.login(None, Some(other), &tokens).await;
        assert_eq!(nothing.unwrap_err().code(), Code::Unauthenticated);
    }
}
