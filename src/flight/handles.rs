//! Planned queries and prepared statements, which a server keeps for a user under a random handle. Only that user can use them.
//! Their number is limited, per user and in total, and they expire.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tonic::Status;

use super::config::{MAX_HANDLES, MAX_HANDLES_PER_USER};
use super::random;

/// 256 random bits. They cannot be guessed, so the timing of a lookup reveals nothing.
pub type Handle = [u8; 32];

struct Entry<T> {
    user: Arc<str>,
    value: T,
    /// Memory that the value takes.
    bytes: usize,
    used: Instant,
}

/// What to do when a user has too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// Remove the least recently used: clients do not close planned queries.
    RemoveOldest,
    /// Refuse: clients close prepared statements.
    Refuse,
}

/// Values by handle.
pub struct Handles<T> {
    what: &'static str,
    lifetime: Duration,
    when_full: WhenFull,
    /// Memory of one user's values; those of all users may take four times as much.
    bytes: usize,
    entries: Mutex<HashMap<Handle, Entry<T>>>,
}

impl<T> Handles<T> {
    /// No values. Errors call a value `what`; each expires `lifetime` after its last use; those of a user take at most `bytes`.
    pub fn new(what: &'static str, lifetime: Duration, when_full: WhenFull, bytes: usize) -> Self {
        Self {
            what,
            lifetime,
            when_full,
            bytes,
            entries: Mutex::default(),
        }
    }

    /// Keeps `value`, which takes `bytes`, for `user`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there are too many, or they take too much memory.
    pub fn insert(&self, user: &Arc<str>, value: T, bytes: usize) -> Result<Handle, Status> {
        if bytes > self.bytes {
            return Err(Status::resource_exhausted(format!(
                "this {} takes {bytes} bytes, more than the {} that this server keeps for one user",
                self.what, self.bytes
            )));
        }
        let handle: Handle = random::bytes()?;
        let now = Instant::now();
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| entry.used + self.lifetime > now);
        loop {
            let own = entries.iter().filter(|(_, entry)| entry.user == *user);
            let (count, taken) = own.clone().fold((0, bytes), |(count, taken), (_, entry)| {
                (count + 1, entry.bytes.saturating_add(taken))
            });
            if count < MAX_HANDLES_PER_USER && taken <= self.bytes {
                break;
            }
            let oldest = own.min_by_key(|(_, entry)| entry.used);
            match (self.when_full, oldest.map(|(handle, _)| *handle)) {
                (WhenFull::RemoveOldest, Some(oldest)) => {
                    entries.remove(&oldest);
                }
                _ => {
                    return Err(Status::resource_exhausted(format!(
                        "you have {count} {}s open, which take {taken} bytes with this one; {MAX_HANDLES_PER_USER} and {} bytes are \
                         allowed; close some",
                        self.what, self.bytes
                    )));
                }
            }
        }
        let taken = entries
            .values()
            .fold(bytes, |taken, entry| taken.saturating_add(entry.bytes));
        if entries.len() >= MAX_HANDLES || taken > self.bytes.saturating_mul(4) {
            return Err(Status::resource_exhausted(format!(
                "the server keeps as many {}s as it may; try again later",
                self.what
            )));
        }
        let entry = Entry {
            user: Arc::clone(user),
            value,
            bytes,
            used: now,
        };
        entries.insert(handle, entry);
        Ok(handle)
    }

    /// Removes and returns the value of `user` under `handle`.
    ///
    /// # Errors
    /// NOT_FOUND if there is none, it is another user's, or it has expired; the message does not tell these apart.
    pub fn take(&self, user: &str, handle: &[u8]) -> Result<T, Status> {
        let mut entries = self.entries.lock();
        let handle = self.find(&entries, user, handle)?;
        match entries.remove(&handle) {
            Some(entry) => Ok(entry.value),
            None => Err(self.missing()),
        }
    }

    /// Renews the value of `user` under `handle`, so that it does not expire before it is taken.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn touch(&self, user: &str, handle: &[u8]) -> Result<(), Status> {
        let mut entries = self.entries.lock();
        let handle = self.find(&entries, user, handle)?;
        if let Some(entry) = entries.get_mut(&handle) {
            entry.used = Instant::now();
        }
        Ok(())
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Removes expired values.
    pub fn sweep(&self) {
        let now = Instant::now();
        self.entries
            .lock()
            .retain(|_, entry| entry.used + self.lifetime > now);
    }

    fn find(
        &self,
        entries: &HashMap<Handle, Entry<T>>,
        user: &str,
        handle: &[u8],
    ) -> Result<Handle, Status> {
        let handle = Handle::try_from(handle).map_err(|_| self.missing())?;
        match entries.get(&handle) {
            Some(entry) if *entry.user == *user && entry.used + self.lifetime > Instant::now() => {
                Ok(handle)
            }
            _ => Err(self.missing()),
        }
    }

    fn missing(&self) -> Status {
        Status::not_found(format!(
            "there is no such {}: it was used already, was closed, has expired, belongs to another user, or never existed",
            self.what
        ))
    }
}

impl<T: Clone> Handles<T> {
    /// A copy of the value of `user` under `handle`.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn get(&self, user: &str, handle: &[u8]) -> Result<T, Status> {
        let mut entries = self.entries.lock();
        let handle = self.find(&entries, user, handle)?;
        match entries.get_mut(&handle) {
            Some(entry) => {
                entry.used = Instant::now();
                Ok(entry.value.clone())
            }
            None => Err(self.missing()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn handles(lifetime: u64, when_full: WhenFull) -> (Arc<str>, Handles<usize>) {
        let lifetime = Duration::from_secs(lifetime);
        (
            Arc::from("ada"),
            Handles::new("thing", lifetime, when_full, 1000),
        )
    }

    #[test]
    fn bound_to_the_user() {
        let (ada, handles) = handles(60, WhenFull::Refuse);
        let handle = handles.insert(&ada, 7, 1).unwrap();
        assert_eq!(
            handles.get("eve", &handle).unwrap_err().code(),
            Code::NotFound
        );
        assert_eq!(
            handles.take("eve", &handle).unwrap_err().code(),
            Code::NotFound
        );
        assert_eq!(handles.get("ada", &handle).unwrap(), 7);
        assert!(handles.get("ada", &handle[1..]).is_err());
        assert_eq!(handles.take("ada", &handle).unwrap(), 7);
        assert!(handles.take("ada", &handle).is_err(), "used up");
    }

    #[test]
    fn bounded_and_expiring() {
        let (ada, refusing) = handles(60, WhenFull::Refuse);
        let first = refusing.insert(&ada, 0, 1).unwrap();
        for value in 1..MAX_HANDLES_PER_USER {
            refusing.insert(&ada, value, 1).unwrap();
        }
        assert_eq!(
            refusing.insert(&ada, 0, 1).unwrap_err().code(),
            Code::ResourceExhausted
        );
        assert!(refusing.insert(&Arc::from("eve"), 0, 1).is_ok());
        assert!(refusing.get("ada", &first).is_ok());

        let (ada, forgetting) = handles(60, WhenFull::RemoveOldest);
        let first = forgetting.insert(&ada, 0, 1).unwrap();
        for value in 0..MAX_HANDLES_PER_USER {
            forgetting.insert(&ada, value, 1).unwrap();
        }
        assert_eq!(forgetting.len(), MAX_HANDLES_PER_USER);
        assert!(forgetting.get("ada", &first).is_err());

        let (ada, expiring) = handles(0, WhenFull::Refuse);
        let handle = expiring.insert(&ada, 0, 1).unwrap();
        assert!(expiring.get("ada", &handle).is_err());
        expiring.sweep();
        assert_eq!(expiring.len(), 0);
    }

    #[test]
    fn bounded_in_memory() {
        let (ada, forgetting) = handles(60, WhenFull::RemoveOldest);
        let first = forgetting.insert(&ada, 0, 600).unwrap();
        assert!(forgetting.insert(&ada, 0, 1001).is_err());
        let second = forgetting.insert(&ada, 0, 600).unwrap();
        assert!(forgetting.get("ada", &first).is_err());
        assert!(forgetting.get("ada", &second).is_ok());
        let (ada, refusing) = handles(60, WhenFull::Refuse);
        refusing.insert(&ada, 0, 600).unwrap();
        assert!(refusing.insert(&ada, 0, 600).is_err());
        for (user, fits) in [("b", true), ("c", true), ("d", true), ("e", false)] {
            assert_eq!(
                refusing.insert(&Arc::from(user), 0, 900).is_ok(),
                fits,
                "{user}"
            );
        }
    }
}
