//! [`Service`]: the services of object stores, and the options of each.

use datafusion::common::{Result, config_err};

/// A service of object stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Amazon S3 and compatible services.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// An HTTP server.
    Http,
}

/// The prefixes of options of object stores. Those of HTTP and of retries are for all services.
pub const PREFIXES: [&str; 5] = ["aws", "gcp", "azure", "http", "retry"];

/// The options that begin with `retry.`.
pub const RETRY: [&str; 5] = [
    "max_retries",
    "timeout",
    "initial_backoff",
    "max_backoff",
    "backoff_base",
];

impl Service {
    /// The service of URLs with this scheme; `None` if there is none.
    pub fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" | "s3a" | "oss" | "cos" => Some(Self::S3),
            "gs" | "gcs" => Some(Self::Gcs),
            "az" | "azure" | "adl" | "abfs" | "abfss" => Some(Self::Azure),
            "http" | "https" => Some(Self::Http),
            _ => None,
        }
    }

    /// The prefix of its options.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::S3 => "aws",
            Self::Gcs => "gcp",
            Self::Azure => "azure",
            Self::Http => "http",
        }
    }
}

/// The name of an option in object_store's configuration. The DataFusion CLI's names of options are accepted, too.
pub fn canonical<'a>(prefix: &str, name: &'a str) -> &'a str {
    match (prefix, name) {
        ("aws", "nosign") => "skip_signature",
        ("aws", "oss" | "cos" | "oss.endpoint" | "cos.endpoint") => "endpoint",
        ("gcp", "application_credentials_path") => "application_credentials",
        _ => name,
    }
}

/// Whether the value of this option may be a credential.
pub fn is_secret(key: &str) -> bool {
    let is_place_or_switch = ["_path", "_file", "_uri", "_enabled", "_if_not_exists"]
        .iter()
        .any(|end| key.ends_with(end));
    let may_hold = ["key", "secret", "token", "sas", "proxy_url"]
        .iter()
        .any(|part| key.contains(part));
    may_hold && !is_place_or_switch
}

/// Checks that `prefix.name` is an option.
///
/// # Errors
/// If it is not; the message names some that are.
pub fn check_name(prefix: &str, name: &str) -> Result<()> {
    if prefix == "retry" {
        return match RETRY.contains(&name) {
            true => Ok(()),
            false => config_err!(
                "unknown option 'retry.{name}'; the options of retries are {}",
                RETRY.map(|known| format!("'retry.{known}'")).join(", ")
            ),
        };
    }
    check_client_name(prefix, name)
}

#[cfg(feature = "cloud")]
fn check_client_name(prefix: &str, name: &str) -> Result<()> {
    use object_store::ClientConfigKey;
    use object_store::aws::AmazonS3ConfigKey;
    use object_store::azure::AzureConfigKey;
    use object_store::gcp::GoogleConfigKey;

    let name = canonical(prefix, name);
    let (is_known, some) = match prefix {
        "aws" => (
            name.parse()
                .is_ok_and(|key: AmazonS3ConfigKey| key != AmazonS3ConfigKey::Bucket),
            "'aws.region', 'aws.endpoint', 'aws.access_key_id', 'aws.secret_access_key', 'aws.session_token', 'aws.skip_signature', \
             'aws.allow_http', 'aws.request_payer', 'aws.virtual_hosted_style_request' and the others that object_store's \
             AmazonS3ConfigKey lists",
        ),
        "gcp" => (
            name.parse()
                .is_ok_and(|key: GoogleConfigKey| key != GoogleConfigKey::Bucket),
            "'gcp.service_account_path', 'gcp.service_account_key', 'gcp.application_credentials_path', 'gcp.skip_signature', \
             'gcp.base_url', 'gcp.allow_http' and the others that object_store's GoogleConfigKey lists",
        ),
        "azure" => (
            name.parse()
                .is_ok_and(|key: AzureConfigKey| key != AzureConfigKey::ContainerName),
            "'azure.account_name', 'azure.account_key', 'azure.sas_token', 'azure.skip_signature', 'azure.endpoint', 'azure.allow_http' \
             and the others that object_store's AzureConfigKey lists",
        ),
        _ => (
            name.parse::<ClientConfigKey>().is_ok(),
            "'http.timeout', 'http.connect_timeout', 'http.proxy_url', 'http.allow_invalid_certificates' and the others that \
             object_store's ClientConfigKey lists",
        ),
    };
    match is_known {
        true => Ok(()),
        false => config_err!("unknown option '{prefix}.{name}'; the options are {some}"),
    }
}

#[cfg(not(feature = "cloud"))]
fn check_client_name(prefix: &str, name: &str) -> Result<()> {
    config_err!(
        "the option '{prefix}.{name}' needs the feature 'cloud' of datafusion-vcz, which this program was built without"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes() {
        assert_eq!(Service::of("s3"), Some(Service::S3));
        assert_eq!(Service::of("gs").map(Service::prefix), Some("gcp"));
        assert_eq!(Service::of("abfss").map(Service::prefix), Some("azure"));
        assert_eq!(Service::of("file"), None);
    }

    #[test]
    fn secrets() {
        for secret in [
            "aws.access_key_id",
            "aws.secret_access_key",
            "aws.session_token",
            "aws.token",
            "aws.sse_customer_key_base64",
            "gcp.service_account_key",
            "azure.account_key",
            "azure.sas_token",
            "azure.client_secret",
            "http.proxy_url",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for open in [
            "aws.region",
            "aws.endpoint",
            "aws.web_identity_token_file",
            "aws.sse_bucket_key_enabled",
            "gcp.service_account_path",
            "http.timeout",
        ] {
            assert!(!is_secret(open), "{open}");
        }
    }

    #[cfg(feature = "cloud")]
    #[test]
    fn names_are_those_of_object_store_and_of_the_cli() {
        for (prefix, name) in [
            ("aws", "region"),
            ("aws", "nosign"),
            ("aws", "oss.endpoint"),
            ("aws", "request_payer"),
            ("aws", "timeout"),
            ("aws", "allow_http"),
            ("gcp", "application_credentials_path"),
            ("gcp", "service_account_path"),
            ("gcp", "skip_signature"),
            ("http", "connect_timeout"),
            ("retry", "max_retries"),
        ] {
            check_name(prefix, name).unwrap();
        }
        for (prefix, name, advice) in [
            ("aws", "reigon", "'aws.region'"),
            ("aws", "bucket", "'aws.region'"),
            ("gcp", "region", "'gcp.skip_signature'"),
            ("azure", "container_name", "'azure.account_name'"),
            ("http", "headers", "'http.timeout'"),
            ("retry", "often", "'retry.max_retries'"),
        ] {
            let error = check_name(prefix, name).unwrap_err().to_string();
            assert!(
                error.contains(advice) && error.contains(&format!("'{prefix}.{name}'")),
                "{error}"
            );
        }
    }
}
