//! Clients and their settings, which persist from statement to statement. A client is identified by the bearer token of
//! its login or, with a static token or without users, by its connection. Clients are limited in number and removed when idle.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use datafusion::prelude::SessionConfig;
use parking_lot::{Mutex, RwLock};

use super::config::{IDLE_LIFETIME, MAX_SESSIONS};
use super::tokens::TokenId;

/// Identifies a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// A login.
    Token(TokenId),
    /// A user's connection.
    Connection(Arc<str>, Option<SocketAddr>),
}

/// A client and its settings.
#[derive(Debug)]
pub struct ClientSession {
    /// The user.
    pub user: Arc<str>,
    /// The name that the client's queries are counted under: the user, or the address if there is no login.
    pub share: Arc<str>,
    /// The settings of the next statement.
    config: RwLock<SessionConfig>,
}

impl ClientSession {
    /// A copy of the settings.
    pub fn config(&self) -> SessionConfig {
        self.config.read().clone()
    }

    /// Replaces the settings.
    pub fn set_config(&self, config: SessionConfig) {
        *self.config.write() = config;
    }
}

/// The clients by identity.
pub struct Sessions {
    defaults: SessionConfig,
    clients: Mutex<HashMap<ClientKey, (Arc<ClientSession>, Instant)>>,
}

impl Sessions {
    /// No clients; new ones start with the settings `defaults`.
    pub fn new(defaults: SessionConfig) -> Self {
        Self {
            defaults,
            clients: Mutex::default(),
        }
    }

    /// The session of a client, created if it is new, whose queries are counted under `share`. If there are too many sessions, the least
    /// recently used one is removed.
    pub fn get(&self, key: ClientKey, user: &Arc<str>, share: &Arc<str>) -> Arc<ClientSession> {
        let mut clients = self.clients.lock();
        if let Some((session, used)) = clients.get_mut(&key) {
            *used = Instant::now();
            return Arc::clone(session);
        }
        if clients.len() >= MAX_SESSIONS
            && let Some(oldest) = clients
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(key, _)| key.clone())
        {
            clients.remove(&oldest);
        }
        let session = Arc::new(ClientSession {
            user: Arc::clone(user),
            share: Arc::clone(share),
            config: RwLock::new(self.defaults.clone()),
        });
        clients.insert(key, (Arc::clone(&session), Instant::now()));
        session
    }

    /// Number of clients.
    pub fn len(&self) -> usize {
        self.clients.lock().len()
    }

    /// Removes idle clients.
    pub fn sweep(&self) {
        self.clients
            .lock()
            .retain(|_, (_, used)| used.elapsed() < IDLE_LIFETIME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_persist_per_client() {
        let (ada, sessions) = (Arc::from("ada"), Sessions::new(SessionConfig::new()));
        let (one, two) = (ClientKey::Token([1; 16]), ClientKey::Token([2; 16]));
        let first = sessions.get(one.clone(), &ada, &ada);
        first.set_config(first.config().with_batch_size(7));
        assert_eq!(sessions.get(one, &ada, &ada).config().batch_size(), 7);
        assert_ne!(sessions.get(two, &ada, &ada).config().batch_size(), 7);
        assert_eq!(sessions.len(), 2);
        sessions.sweep();
        assert_eq!(sessions.len(), 2);
    }

    #[test]
    fn they_are_bounded() {
        let (ada, sessions) = (Arc::from("ada"), Sessions::new(SessionConfig::new()));
        for at in 0..MAX_SESSIONS + 10 {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&at.to_le_bytes());
            sessions.get(ClientKey::Token(id), &ada, &ada);
        }
        assert_eq!(sessions.len(), MAX_SESSIONS);
    }
}
