//! [`RemoteOptions`]: the options of a table that configure its object store. Their names are checked when they are set,
//! and their values when the object store is built.

use std::collections::BTreeMap;
use std::fmt;

use datafusion::common::{Result, config_err, plan_err};

use super::redacted::Secrets;
use super::service::{PREFIXES, Service, canonical, check_name, is_secret};

/// Options of an object store by their names, such as `aws.region`. The values are never shown, because some are credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RemoteOptions {
    values: BTreeMap<String, String>,
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl RemoteOptions {
    /// Whether this is the name of such an option, known or not.
    pub fn has_prefix(key: &str) -> bool {
        let prefix = key.split_once('.').map(|(prefix, _)| prefix);
        prefix.is_some_and(|prefix| PREFIXES.contains(&prefix))
    }

    /// Whether this is the name of an option whose value may be a credential.
    pub fn may_be_secret(key: &str) -> bool {
        Self::has_prefix(key) && is_secret(&key.to_ascii_lowercase())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Sets an option.
    ///
    /// # Errors
    /// If there is no option of this name, or it is set already.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let (prefix, name) = key.split_once('.').unwrap_or((key, ""));
        check_name(prefix, name)?;
        let key = format!("{prefix}.{}", canonical(prefix, name));
        if self.values.contains_key(&key) {
            return config_err!("the option '{key}' is set twice");
        }
        self.values.insert(key, value.to_string());
        Ok(())
    }

    /// The value of an option.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The options with a prefix: names without it, and values.
    pub fn with_prefix(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(move |(key, value)| {
            let name = key.strip_prefix(prefix)?.strip_prefix('.')?;
            Some((name, value.as_str()))
        })
    }

    /// The options that are no credentials.
    pub fn without_secrets(&self) -> impl Iterator<Item = (String, String)> {
        let public = self.values.iter().filter(|(key, _)| !is_secret(key));
        public.map(|(key, value)| (key.clone(), value.clone()))
    }

    /// The options that are no credentials, as text: two tables with the same ones reach the same object store by the same URL.
    pub fn public(&self) -> String {
        let public = self.values.iter().filter(|(key, _)| !is_secret(key));
        public.fold(String::new(), |all, (key, value)| {
            format!("{all}{key}={value}\n")
        })
    }

    /// The values that may be credentials.
    pub fn secrets(&self) -> Secrets {
        let values = self.values.iter();
        let secrets = values.filter(|(key, _)| is_secret(key));
        Secrets::new(secrets.map(|(_, value)| value.clone()))
    }

    /// Checks that all are options of `service`, or of all services.
    ///
    /// # Errors
    /// If one is of another service; `shown` is the location.
    pub fn check_service(&self, service: Option<Service>, shown: &str) -> Result<()> {
        for key in self.values.keys() {
            let (prefix, _) = key.split_once('.').unwrap_or((key, ""));
            let is_general = matches!(prefix, "http" | "retry");
            match service {
                None => {
                    return plan_err!(
                        "the option '{key}' is for object stores, and '{shown}' is not in one: expected a URL that begins with s3://, \
                         gs://, az://, http:// or https://"
                    );
                }
                Some(service) if !is_general && service.prefix() != prefix => {
                    return plan_err!(
                        "the option '{key}' is not for '{shown}', whose options begin with '{}.', 'http.' or 'retry.'",
                        service.prefix()
                    );
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "cloud"))]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let mut options = RemoteOptions::default();
        options.set("aws.secret_access_key", "hunter2").unwrap();
        options.set("aws.nosign", "true").unwrap();
        assert_eq!(options.get("aws.skip_signature"), Some("true"));
        let shown = format!("{options:?}");
        assert!(
            !shown.contains("hunter2") && shown.contains("aws.secret_access_key"),
            "{shown}"
        );
        assert!(options.set("aws.skip_signature", "false").is_err(), "twice");
        let cleaned = options.secrets().clean("the key hunter2 is wrong");
        assert_eq!(cleaned.as_deref(), Some("the key *** is wrong"));
    }

    #[test]
    fn options_are_of_the_locations_service() {
        let mut options = RemoteOptions::default();
        options.set("aws.region", "eu-west-1").unwrap();
        options.set("http.timeout", "5s").unwrap();
        assert!(options.check_service(Some(Service::S3), "s3://b/x").is_ok());
        let wrong = options.check_service(Some(Service::Gcs), "gs://b/x");
        assert!(wrong.unwrap_err().to_string().contains("'gcp.'"));
        let local = options.check_service(None, "x.vcz").unwrap_err();
        assert!(local.to_string().contains("is for object stores"));
    }
}
