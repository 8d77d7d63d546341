//! The file of users: passwords as Argon2 hashes, and static tokens.
//!
//! ```text
//! # a comment
//! user ada $argon2id$v=19$m=19456,t=2,p=1$…       made by: vcz serve --hash-password ada
//! token pipeline 7f0c…                            at least 32 characters, sent as "authorization: Bearer 7f0c…"
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use subtle::{Choice, ConstantTimeEq};

use super::error::ServeError;
use super::random;

/// The minimum number of characters of a static token.
const MIN_TOKEN: usize = 32;
/// The maximum number of characters of a user's name, and of bytes of a password.
const MAX_NAME: usize = 64;
const MAX_PASSWORD: usize = 1024;
/// The maximum memory that a hash in the file may need, in KiB, because any client can make the server verify one.
const MAX_HASH_MEMORY: u32 = 256 << 10;

/// The users who may log in.
#[derive(Debug)]
pub struct Users {
    passwords: HashMap<Arc<str>, String>,
    tokens: Vec<(Arc<str>, Vec<u8>)>,
    /// A hash that is verified for unknown names, so that a login with one takes as long as with a known name.
    decoy: String,
}

impl Users {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or a line is malformed; the error names the line and never shows a secret.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let text = std::fs::read_to_string(path).map_err(|source| ServeError::File {
            what: "file of users",
            path: path.to_path_buf(),
            source,
        })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ServeError> {
        let fail = |line: usize, reason: String| {
            Err(ServeError::AuthFile {
                path: path.to_path_buf(),
                line,
                reason,
            })
        };
        let mut users = Self {
            passwords: HashMap::new(),
            tokens: Vec::new(),
            decoy: hash("").map_err(|reason| {
                ServeError::Configuration(format!("cannot hash passwords: {reason}"))
            })?,
        };
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(kind), Some(name), Some(secret), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return fail(
                    number,
                    "expected 'user NAME HASH' or 'token NAME TOKEN'".to_string(),
                );
            };
            if let Err(reason) = check_name(name) {
                return fail(number, reason);
            }
            match kind {
                "user" => {
                    if let Err(reason) = check_hash(secret) {
                        return fail(number, format!("user '{name}': {reason}"));
                    }
                    let before = users.passwords.insert(Arc::from(name), secret.to_string());
                    if before.is_some() {
                        return fail(number, format!("user '{name}' occurs twice"));
                    }
                }
                "token" if secret.len() < MIN_TOKEN => {
                    return fail(
                        number,
                        format!("the token of '{name}' is shorter than {MIN_TOKEN} characters"),
                    );
                }
                "token" => {
                    let known = users
                        .tokens
                        .iter()
                        .any(|(_, token)| token == secret.as_bytes());
                    if known {
                        return fail(number, format!("the token of '{name}' occurs twice"));
                    }
                    users
                        .tokens
                        .push((Arc::from(name), secret.as_bytes().to_vec()));
                }
                other => {
                    return fail(
                        number,
                        format!(
                            "expected 'user NAME HASH' or 'token NAME TOKEN', found '{other}' first"
                        ),
                    );
                }
            }
        }
        if users.passwords.is_empty() && users.tokens.is_empty() {
            return fail(
                text.lines().count().max(1),
                "the file has no user and no token, so nobody could log in".to_string(),
            );
        }
        Ok(users)
    }

    /// The user with this name and password. Takes tens of milliseconds, as long for unknown names as for known ones.
    pub fn verify(&self, name: &str, password: &str) -> Option<Arc<str>> {
        if password.len() > MAX_PASSWORD {
            return None;
        }
        let (known, stored) = match self.passwords.get_key_value(name) {
            Some((name, stored)) => (Some(name), stored),
            None => (None, &self.decoy),
        };
        let parsed = PasswordHash::new(stored).ok()?;
        let matches = Argon2::default()
            .verify_password(password.as_bytes(), &parsed)
            .is_ok();
        known.filter(|_| matches).map(Arc::clone)
    }

    /// The user of a static token. Compares with all of them, each in constant time, so that timing reveals nothing.
    pub fn token(&self, token: &str) -> Option<Arc<str>> {
        let mut found: Option<&Arc<str>> = None;
        for (name, known) in &self.tokens {
            let same: Choice = known.as_slice().ct_eq(token.as_bytes());
            if bool::from(same) {
                found = Some(name);
            }
        }
        found.map(Arc::clone)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let valid = |c: char| c.is_alphanumeric() || "._-@".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(valid) {
        return Err(format!(
            "a name has 1 to {MAX_NAME} letters, digits or any of '._-@'"
        ));
    }
    Ok(())
}

fn check_hash(text: &str) -> Result<(), String> {
    let expected =
        "expected an Argon2 hash ($argon2id$…); make one with: vcz serve --hash-password NAME";
    let hash = PasswordHash::new(text).map_err(|_| expected.to_string())?;
    let params = Params::try_from(&hash).map_err(|_| expected.to_string())?;
    if Algorithm::try_from(hash.algorithm).is_err() || hash.hash.is_none() || hash.salt.is_none() {
        return Err(expected.to_string());
    }
    if params.m_cost() > MAX_HASH_MEMORY {
        return Err(format!(
            "the hash takes {} KiB of memory at every login, more than {MAX_HASH_MEMORY}",
            params.m_cost()
        ));
    }
    Ok(())
}

fn hash(password: &str) -> Result<String, String> {
    let salt = random::bytes::<16>().map_err(|status| status.message().to_string())?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| error.to_string())?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
        .hash_password(password.as_bytes(), &salt)
        .map(|hash| hash.to_string())
        .map_err(|error| error.to_string())
}

/// The line of the file of users for a user with this password.
///
/// # Errors
/// A message, if the name or the password cannot be used.
pub fn password_line(name: &str, password: &str) -> Result<String, String> {
    check_name(name)?;
    if password.is_empty() || password.len() > MAX_PASSWORD {
        return Err(format!("a password has 1 to {MAX_PASSWORD} bytes"));
    }
    Ok(format!("user {name} {}", hash(password)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Users, ServeError> {
        Users::parse(Path::new("users"), text)
    }

    #[test]
    fn passwords_and_tokens() {
        let token = "0123456789abcdef0123456789abcdef";
        let line = password_line("ada", "pässword").unwrap();
        assert!(line.starts_with("user ada $argon2id$"), "{line}");
        let users = parse(&format!("# users\n\n{line}\n token pipeline {token} \n")).unwrap();
        assert_eq!(users.verify("ada", "pässword").as_deref(), Some("ada"));
        assert_eq!(users.verify("ada", "password"), None);
        assert_eq!(users.verify("ada", ""), None);
        assert_eq!(users.verify("eve", ""), None, "the decoy lets nobody in");
        assert_eq!(users.verify("ada", &"x".repeat(5000)), None);
        assert_eq!(users.token(token).as_deref(), Some("pipeline"));
        assert_eq!(users.token(&token[1..]), None);
        assert_eq!(users.token(""), None);
        assert_ne!(line, password_line("ada", "pässword").unwrap(), "salted");
    }

    #[test]
    fn bad_lines_are_named_without_secrets() {
        let good = password_line("ada", "secret").unwrap();
        let cases = [
            ("user ada", "line 1"),
            (
                "\nuser ada plaintext",
                "line 2: user 'ada': expected an Argon2 hash",
            ),
            ("token x short-secret", "shorter than 32"),
            ("group x y", "found 'group'"),
            ("user a/b $argon2id$x", "a name has"),
            ("", "no user and no token"),
            ("# nothing", "no user and no token"),
            (
                "user ada $argon2id$v=19$m=4000000,t=1,p=1$c29tZXNhbHRzb21l$c29tZWhhc2hzb21laGFzaA",
                "KiB of memory",
            ),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("plaintext") && !error.contains("short-secret"));
        }
        let twice = parse(&format!("{good}\n{good}")).unwrap_err().to_string();
        assert!(
            twice.contains("line 2") && twice.contains("twice"),
            "{twice}"
        );
        assert!(password_line("ada", "").is_err());
        assert!(password_line("a b", "x").is_err());
    }
}
