//! Bearer tokens that logins return: random, kept in memory, valid for a fixed time, limited in number.
//!
//! A token consists of an id, by which it is looked up, and a secret, which is compared in constant time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tonic::Status;

use super::config::{MAX_TOKENS, MAX_TOKENS_PER_USER};
use super::random;

/// Identifies a token; not secret.
pub type TokenId = [u8; 16];

struct Entry {
    secret: [u8; 32],
    user: Arc<str>,
    expires: Instant,
}

/// The valid tokens.
pub struct Tokens {
    lifetime: Duration,
    entries: Mutex<HashMap<TokenId, Entry>>,
}

impl Tokens {
    /// No tokens; new ones are valid for `lifetime`.
    pub fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            entries: Mutex::default(),
        }
    }

    /// A new token for `user`. If the user has too many, the oldest is removed.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if all users together have too many.
    pub fn issue(&self, user: &Arc<str>) -> Result<String, Status> {
        let (id, secret): (TokenId, [u8; 32]) = (random::bytes()?, random::bytes()?);
        let now = Instant::now();
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| entry.expires > now);
        let own = entries.iter().filter(|(_, entry)| entry.user == *user);
        let (count, oldest) = own.fold(
            (0, None::<(TokenId, Instant)>),
            |(count, oldest), (id, entry)| {
                let older = oldest.is_none_or(|(_, expires)| entry.expires < expires);
                (
                    count + 1,
                    if older {
                        Some((*id, entry.expires))
                    } else {
                        oldest
                    },
                )
            },
        );
        if count >= MAX_TOKENS_PER_USER
            && let Some((oldest, _)) = oldest
        {
            entries.remove(&oldest);
        }
        if entries.len() >= MAX_TOKENS {
            return Err(Status::resource_exhausted(
                "too many logins are active; try again later",
            ));
        }
        let entry = Entry {
            secret,
            user: Arc::clone(user),
            expires: now + self.lifetime,
        };
        entries.insert(id, entry);
        Ok(format!("{}{}", random::hex(&id), random::hex(&secret)))
    }

    /// The user of a token, and its id; `None` if it is unknown, forged or expired.
    pub fn check(&self, token: &str) -> Option<(Arc<str>, TokenId)> {
        let (id, secret) = token.split_at_checked(32)?;
        let (id, secret): (TokenId, [u8; 32]) = (random::from_hex(id)?, random::from_hex(secret)?);
        let entries = self.entries.lock();
        let entry = entries.get(&id)?;
        let same = bool::from(entry.secret.ct_eq(&secret));
        (same && entry.expires > Instant::now()).then(|| (Arc::clone(&entry.user), id))
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Removes expired tokens.
    pub fn sweep(&self) {
        let now = Instant::now();
        self.entries.lock().retain(|_, entry| entry.expires > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issued_forged_and_expired() {
        let (ada, tokens) = (Arc::from("ada"), Tokens::new(Duration::from_secs(60)));
        let token = tokens.issue(&ada).unwrap();
        assert_eq!(tokens.check(&token).unwrap().0, ada);
        let mut forged = token.clone().into_bytes();
        let last = forged.len() - 1;
        forged[last] = if forged[last] == b'0' { b'1' } else { b'0' };
        let forged = String::from_utf8(forged).unwrap();
        for bad in [
            "",
            "x",
            &token[1..],
            &forged,
            &"0".repeat(96),
            &"é".repeat(48),
        ] {
            assert!(tokens.check(bad).is_none(), "{bad}");
        }
        let short = Tokens::new(Duration::ZERO);
        let expired = short.issue(&ada).unwrap();
        assert!(short.check(&expired).is_none());
        short.sweep();
        assert_eq!(short.len(), 0);
    }

    #[test]
    fn a_user_loses_the_oldest() {
        let (ada, tokens) = (Arc::from("ada"), Tokens::new(Duration::from_secs(60)));
        let first = tokens.issue(&ada).unwrap();
        let second = tokens.issue(&ada).unwrap();
        for _ in 0..MAX_TOKENS_PER_USER - 1 {
            tokens.issue(&ada).unwrap();
        }
        assert_eq!(tokens.len(), MAX_TOKENS_PER_USER);
        assert!(tokens.check(&first).is_none());
        assert!(tokens.check(&second).is_some());
    }
}
