//! [`RedactedStore`]: an object store whose errors show no credentials. Servers repeat requests in their error documents, with the
//! ids of keys, and clients put URLs into their errors.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use url::Url;

/// Shorter values are not removed, because they are parts of many words.
const SHORTEST: usize = 4;
/// Variables of the environment that hold credentials of object stores.
const VARIABLES: [&str; 11] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "AZURE_CLIENT_SECRET",
];

/// Texts that are never shown.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[String]>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// These texts, each also in its URL encoding, and the private parts of those that are JSON.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = Vec::new();
        for text in texts {
            let encoded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
            let parts = serde_json::from_str::<serde_json::Value>(&text).ok();
            let private = [
                "private_key",
                "private_key_id",
                "client_secret",
                "refresh_token",
            ];
            let parts = private.iter().filter_map(|key| {
                let part = parts.as_ref()?.get(key)?.as_str()?;
                Some(part.to_string())
            });
            all.extend(parts);
            all.extend([encoded, text]);
        }
        all.retain(|text| text.len() >= SHORTEST);
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
        all.dedup();
        Self(all.into())
    }

    /// These secrets, those of a URL and those of the environment.
    pub fn and_of(&self, url: &Url) -> Self {
        let of_url = [url.password(), url.query()].into_iter().flatten();
        let of_environment = VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
        let own = self.0.iter().cloned();
        Self::new(own.chain(of_url.map(str::to_string)).chain(of_environment))
    }

    /// The text without the secrets; `None` if there are none in it.
    pub fn clean(&self, text: &str) -> Option<String> {
        let mut cleaned: Option<String> = None;
        for secret in self.0.iter() {
            let current = cleaned.as_deref().unwrap_or(text);
            if current.contains(secret.as_str()) {
                cleaned = Some(current.replace(secret.as_str(), "***"));
            }
        }
        cleaned
    }

    /// The error without the secrets.
    pub fn clean_error(&self, error: Error) -> Error {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        if self.clean(&text).is_none() && self.clean(&format!("{error:?}")).is_none() {
            return error;
        }
        let source: Box<dyn StdError + Send + Sync> = self.clean(&text).unwrap_or(text).into();
        let path = |path: String| self.clean(&path).unwrap_or(path);
        match error {
            Error::NotFound { path: at, .. } => Error::NotFound {
                path: path(at),
                source,
            },
            Error::AlreadyExists { path: at, .. } => Error::AlreadyExists {
                path: path(at),
                source,
            },
            Error::Precondition { path: at, .. } => Error::Precondition {
                path: path(at),
                source,
            },
            Error::NotModified { path: at, .. } => Error::NotModified {
                path: path(at),
                source,
            },
            Error::PermissionDenied { path: at, .. } => Error::PermissionDenied {
                path: path(at),
                source,
            },
            Error::Unauthenticated { path: at, .. } => Error::Unauthenticated {
                path: path(at),
                source,
            },
            Error::NotSupported { .. } => Error::NotSupported { source },
            _ => Error::Generic {
                store: "object store",
                source,
            },
        }
    }
}

/// An object store whose errors show no credentials.
pub struct RedactedStore {
    inner: Arc<dyn ObjectStore>,
    secrets: Secrets,
}

impl RedactedStore {
    /// `inner`, without `secrets` in its errors.
    pub fn new(inner: Arc<dyn ObjectStore>, secrets: Secrets) -> Self {
        Self { inner, secrets }
    }

    fn clean<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.secrets.clean_error(error))
    }

    fn clean_stream<T: 'static>(
        &self,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let secrets = self.secrets.clone();
        stream
            .map_err(move |error| secrets.clean_error(error))
            .boxed()
    }
}

impl fmt::Display for RedactedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.inner.to_string();
        f.write_str(self.secrets.clean(&shown).as_ref().unwrap_or(&shown))
    }
}

/// Clients hold their credentials.
impl fmt::Debug for RedactedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for RedactedStore {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.clean(self.inner.put_opts(path, payload, options).await)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.clean(self.inner.put_multipart_opts(path, options).await)
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let result = self.clean(self.inner.get_opts(path, options).await)?;
        Ok(match result.payload {
            GetResultPayload::Stream(stream) => GetResult {
                payload: GetResultPayload::Stream(self.clean_stream(stream)),
                ..result
            },
            payload => GetResult { payload, ..result },
        })
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.clean_stream(self.inner.delete_stream(paths))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.clean_stream(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.clean_stream(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.clean(self.inner.list_with_delimiter(prefix).await)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.clean(self.inner.copy_opts(from, to, options).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_however_deep() {
        let secrets = Secrets::new(["AKIA+/secret".to_string(), "abc".to_string()]);
        let nested = Error::Generic {
            store: "S3",
            source: "no such key 'AKIA+/secret' in https://host/?k=AKIA%2B%2Fsecret".into(),
        };
        let error = secrets.clean_error(Error::PermissionDenied {
            path: "x/.zarray".to_string(),
            source: Box::new(nested),
        });
        assert!(matches!(error, Error::PermissionDenied { .. }));
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("secret'") && !shown.contains("%2Fsecret"),
            "{shown}"
        );
        assert!(
            shown.contains("no such key '***'") && shown.contains("x/.zarray"),
            "{shown}"
        );
        let other = secrets.clean_error(Error::NotFound {
            path: "abc".to_string(),
            source: "nothing".into(),
        });
        assert!(matches!(other, Error::NotFound { path, .. } if path == "abc"));
    }

    #[test]
    fn private_keys_and_urls() {
        let account = r#"{"client_email": "me@x", "private_key": "-----BEGIN-----\nMII"}"#;
        let url = Url::parse("https://me:password@host/x?sig=1234").unwrap();
        let secrets = Secrets::new([account.to_string()]).and_of(&url);
        let text = "'password' sig=1234 -----BEGIN-----\nMII me@x";
        assert_eq!(secrets.clean(text).as_deref(), Some("'***' *** *** me@x"));
        assert_eq!(secrets.clean("nothing"), None);
    }
}
