//! [`build`]: builds the object store of a URL from a table's options. Environment variables (`AWS_REGION` and others) give what the
//! options leave open.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err, plan_err};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, resolve_bucket_region};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

use super::options::RemoteOptions;
use super::sdk;
use super::service::Service;
use crate::scan::durations::parse_duration;

/// The object store of `url`. No request is made, except for the region of a bucket in S3 if it is not configured.
/// `shown` is the location, for messages.
///
/// # Errors
/// If an option is not for this service, or its value is invalid, or credentials are incomplete. No message shows a credential.
pub async fn build(
    url: &Url,
    shown: &str,
    options: &RemoteOptions,
) -> Result<Arc<dyn ObjectStore>> {
    let service = Service::of(url.scheme());
    options.check_service(service, shown)?;
    let built = match service {
        Some(Service::S3) => s3(url, options).await,
        Some(Service::Gcs) => gcs(url, options),
        Some(Service::Azure) => azure(url, options),
        Some(Service::Http) => http(url, options),
        None => plan_err!("'{shown}' is not in an object store"),
    };
    built.map_err(|error| {
        let text = error.strip_backtrace();
        let secrets = options.secrets().and_of(url);
        let text = secrets.clean(&text).unwrap_or(text);
        plan_datafusion_err!("the object store of '{shown}': {text}")
    })
}

async fn s3(url: &Url, options: &RemoteOptions) -> Result<Arc<dyn ObjectStore>> {
    let bucket = bucket(url)?;
    let named: Vec<(AmazonS3ConfigKey, &str)> = options
        .with_prefix("aws")
        .map(|(name, value)| Ok((name.parse()?, value)))
        .collect::<object_store::Result<_>>()?;
    let value_of = |wanted: AmazonS3ConfigKey| {
        let set = named.iter().find(|(key, _)| *key == wanted);
        set.map(|(_, value)| *value)
    };
    use AmazonS3ConfigKey as Key;
    let (key, secret) = (value_of(Key::AccessKeyId), value_of(Key::SecretAccessKey));
    if key.is_some() != secret.is_some() {
        return plan_err!(
            "'aws.access_key_id' and 'aws.secret_access_key' belong together: set both, or neither"
        );
    }
    let has_own_keys = key.is_some();
    let skips = std::env::var("AWS_SKIP_SIGNATURE").ok();
    let is_anonymous = is_true(value_of(Key::SkipSignature).or(skips.as_deref()));
    let names_a_provider = [
        Key::WebIdentityTokenFile,
        Key::ContainerCredentialsRelativeUri,
        Key::ContainerCredentialsFullUri,
        Key::MetadataEndpoint,
        Key::ImdsV1Fallback,
    ];
    let names_a_provider = names_a_provider
        .into_iter()
        .any(|key| value_of(key).is_some());

    // Everything of the environment, except parts of other credentials.
    let mut builder = from_environment(has_own_keys || is_anonymous || names_a_provider);
    let region = |builder: &AmazonS3Builder| builder.get_config_value(&Key::Region);
    let is_aws = matches!(url.scheme(), "s3" | "s3a");
    if !is_aws {
        // Alibaba's OSS and Tencent's COS accept signatures for any region; OSS has the bucket in the host name.
        builder = builder
            .with_region("any")
            .with_virtual_hosted_style_request(url.scheme() == "oss");
    }
    let configure = |mut builder: AmazonS3Builder| -> Result<AmazonS3Builder> {
        for (key, value) in &named {
            builder = builder.with_config(*key, *value);
        }
        for (key, value) in client(options)? {
            builder = builder.with_config(Key::Client(key), value);
        }
        Ok(builder.with_bucket_name(bucket).with_retry(retry(options)?))
    };
    builder = configure(builder)?;
    let endpoint = [Key::S3Endpoint, Key::Endpoint]
        .iter()
        .find_map(|key| builder.get_config_value(key));
    let allows_http = builder.get_config_value(&Key::Client(ClientConfigKey::AllowHttp));
    check_endpoint(endpoint.as_deref(), allows_http.as_deref(), "aws")?;

    if is_aws && !has_own_keys && !is_anonymous && !names_a_provider {
        let known = region(&builder).or_else(|| {
            // Self-hosted servers rarely have regions.
            endpoint.is_some().then(|| "us-east-1".to_string())
        });
        builder = configure(sdk::builder(url, known.as_deref()).await?)?;
    } else if region(&builder).is_none() && endpoint.is_none() {
        let mut client_options = ClientOptions::new();
        for (key, value) in client(options)? {
            client_options = client_options.with_config(key, value);
        }
        let found = resolve_bucket_region(bucket, &client_options).await;
        let found = found.map_err(|error| {
            plan_datafusion_err!(
                "the region of the bucket is not configured, and asking S3 for it failed; set the option 'aws.region': {error}"
            )
        })?;
        builder = builder.with_region(found);
    }
    Ok(Arc::new(builder.build()?))
}

/// A builder with the `AWS_…` variables of the environment; `without_credentials` leaves out those that are credentials.
fn from_environment(without_credentials: bool) -> AmazonS3Builder {
    use AmazonS3ConfigKey as Key;
    let mut builder = AmazonS3Builder::new();
    for (name, value) in std::env::vars_os() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
            continue;
        };
        let Some(key) = name
            .starts_with("AWS_")
            .then(|| name.to_ascii_lowercase().parse().ok())
            .flatten()
        else {
            continue;
        };
        let is_credential = matches!(key, Key::AccessKeyId | Key::SecretAccessKey | Key::Token);
        if !(is_credential && without_credentials) {
            builder = builder.with_config(key, value);
        }
    }
    builder
}

fn gcs(url: &Url, options: &RemoteOptions) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket(url)?);
    for (name, value) in options.with_prefix("gcp") {
        builder = builder.with_config(name.parse()?, value);
    }
    for (key, value) in client(options)? {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    Ok(Arc::new(builder.with_retry(retry(options)?).build()?))
}

fn azure(url: &Url, options: &RemoteOptions) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_url(url.as_str());
    for (name, value) in options.with_prefix("azure") {
        builder = builder.with_config(name.parse()?, value);
    }
    for (key, value) in client(options)? {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    let allows_http = builder.get_config_value(&AzureConfigKey::Client(ClientConfigKey::AllowHttp));
    check_endpoint(endpoint.as_deref(), allows_http.as_deref(), "azure")?;
    Ok(Arc::new(builder.with_retry(retry(options)?).build()?))
}

fn http(url: &Url, options: &RemoteOptions) -> Result<Arc<dyn ObjectStore>> {
    // The URL itself says whether it is plain HTTP.
    let mut client_options = ClientOptions::new().with_allow_http(url.scheme() == "http");
    for (key, value) in client(options)? {
        client_options = client_options.with_config(key, value);
    }
    let base = &url[url::Position::BeforeScheme..url::Position::AfterPort];
    let builder = HttpBuilder::new()
        .with_url(base)
        .with_client_options(client_options)
        .with_retry(retry(options)?);
    Ok(Arc::new(builder.build()?))
}

/// The options that begin with `http.`.
fn client(options: &RemoteOptions) -> Result<Vec<(ClientConfigKey, &str)>> {
    let keys = options.with_prefix("http");
    keys.map(|(name, value)| Ok((name.parse().map_err(DataFusionError::from)?, value)))
        .collect()
}

/// The options that begin with `retry.`.
fn retry(options: &RemoteOptions) -> Result<RetryConfig> {
    let mut config = RetryConfig::default();
    for (name, value) in options.with_prefix("retry") {
        let time = || {
            parse_duration(value).map_err(|error| plan_datafusion_err!("'retry.{name}': {error}"))
        };
        match name {
            "max_retries" => {
                config.max_retries = value.parse().map_err(|_| {
                    plan_datafusion_err!(
                        "'retry.max_retries' must be a whole number, found '{value}'"
                    )
                })?;
            }
            "timeout" => config.retry_timeout = time()?,
            "initial_backoff" => config.backoff.init_backoff = time()?,
            "max_backoff" => config.backoff.max_backoff = time()?,
            _ => {
                let base: Option<f64> = value.parse().ok();
                config.backoff.base = base.filter(|base| (1.0..=100.0).contains(base)).ok_or_else(|| {
                    plan_datafusion_err!(
                        "'retry.backoff_base', by which the time between retries grows, must be a number from 1 to 100, found '{value}'"
                    )
                })?;
            }
        }
    }
    if config.backoff.init_backoff > config.backoff.max_backoff {
        return plan_err!("'retry.initial_backoff' must not be longer than 'retry.max_backoff'");
    }
    Ok(config)
}

fn bucket(url: &Url) -> Result<&str> {
    url.host_str()
        .ok_or_else(|| plan_datafusion_err!("its URL names no bucket"))
}

fn is_true(value: Option<&str>) -> bool {
    let value = value.unwrap_or_default().to_ascii_lowercase();
    matches!(value.as_str(), "1" | "true" | "on" | "yes" | "y")
}

/// Checks that an endpoint that is not encrypted is allowed.
fn check_endpoint(endpoint: Option<&str>, allows_http: Option<&str>, prefix: &str) -> Result<()> {
    match endpoint {
        Some(endpoint) if endpoint.starts_with("http://") && !is_true(allows_http) => plan_err!(
            "the endpoint '{}' is plain HTTP, which is not encrypted. To allow that, set the option '{prefix}.allow_http' to 'true'",
            super::location::shown(endpoint)
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(set: &[(&str, &str)]) -> RemoteOptions {
        let mut options = RemoteOptions::default();
        for (key, value) in set {
            options.set(key, value).unwrap();
        }
        options
    }

    async fn built(url: &str, set: &[(&str, &str)]) -> Result<String, String> {
        let url = Url::parse(url).unwrap();
        match build(&url, url.as_str(), &options(set)).await {
            Ok(store) => Ok(store.to_string()),
            Err(error) => Err(error.strip_backtrace()),
        }
    }

    const KEYS: [(&str, &str); 2] = [
        ("aws.access_key_id", "KEYKEY"),
        ("aws.secret_access_key", "SECRETSECRET"),
    ];

    #[tokio::test]
    async fn stores_of_all_services() {
        let s3 = [
            &KEYS[..],
            &[("aws.region", "eu-west-1"), ("http.timeout", "5s")],
        ]
        .concat();
        assert!(
            built("s3://bucket/x", &s3)
                .await
                .unwrap()
                .contains("bucket")
        );
        let open = [("gcp.skip_signature", "true"), ("retry.max_retries", "2")];
        assert!(built("gs://bucket/x", &open).await.is_ok());
        assert!(
            built("http://host:80/x", &[("http.timeout", "1s")])
                .await
                .is_ok()
        );
        let oss = [&KEYS[..], &[("aws.oss.endpoint", "https://x")]].concat();
        assert!(built("oss://bucket/x", &oss).await.is_ok());
    }

    #[tokio::test]
    async fn invalid_options_say_what_to_set() {
        let http = [&KEYS[..], &[("aws.endpoint", "http://localhost:1")]].concat();
        let cases = [
            ("s3://b/x", &http[..], "'aws.allow_http' to 'true'"),
            ("s3://b/x", &KEYS[..1], "belong together"),
            (
                "s3://b/x",
                &[("gcp.skip_signature", "true")],
                "begin with 'aws.'",
            ),
            ("http://h/x", &[("http.timeout", "soon")], "soon"),
            (
                "http://h/x",
                &[("retry.timeout", "soon")],
                "'retry.timeout'",
            ),
            ("http://h/x", &[("retry.max_retries", "-1")], "whole number"),
            (
                "http://h/x",
                &[("retry.backoff_base", "NaN")],
                "from 1 to 100",
            ),
            ("http://h/x", &[("retry.initial_backoff", "1h")], "longer"),
            (
                "file:///x",
                &[("http.timeout", "1s")],
                "is for object stores",
            ),
        ];
        for (url, set, expected) in cases {
            let error = built(url, set).await.unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(
                !error.contains("KEYKEY") && !error.contains("SECRETSECRET"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn invalid_credentials_are_not_shown() {
        let account = r#"{"private_key": "TOPSECRET", "client_email": 5}"#;
        let error = built("gs://b/x", &[("gcp.service_account_key", account)]).await;
        let error = error.unwrap_err();
        assert!(!error.contains("TOPSECRET"), "{error}");
    }
}
