//! The settings of a session that are sent to workers: those that a statement's result or speed depends on, as one header of each request. Devices,
//! limits and memory are each worker's own.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::prelude::SessionConfig;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use super::channels::Channels;
use super::wire::frame::broken;
use crate::scan::VczSettings;

/// The header.
const SETTINGS: HeaderName = HeaderName::from_static("x-vcz-settings");
/// The header of the names that certificates of workers must have.
const NAMES: HeaderName = HeaderName::from_static("x-vcz-worker-names");
/// Settings of this crate that are sent; the others are of a machine.
const OF_QUERIES: [&str; 3] = ["vcz.backend", "vcz.batch_bytes", "vcz.prefetch"];
/// DataFusion's settings that are not sent: they are of a machine, or of planning, which has been done.
const OF_MACHINES: [&str; 4] = [
    "datafusion.runtime.",
    "datafusion.optimizer.",
    "datafusion.catalog.",
    "datafusion.explain.",
];

/// The settings of `options` that are sent and differ from the defaults, as a header.
///
/// # Errors
/// If a value is no text.
pub fn headers(options: &ConfigOptions) -> Result<HeaderMap> {
    let mut defaults = ConfigOptions::default();
    defaults.extensions.insert(VczSettings::default());
    let defaults: std::collections::HashMap<String, Option<String>> = defaults
        .entries()
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect();
    let is_sent = |key: &str| {
        key.starts_with("datafusion.") && !OF_MACHINES.iter().any(|of| key.starts_with(of))
            || OF_QUERIES.contains(&key)
    };
    let mut texts = vec![];
    for entry in options.entries() {
        let is_default = defaults.get(&entry.key) == Some(&entry.value);
        if let Some(value) = entry.value.filter(|_| is_sent(&entry.key) && !is_default) {
            let value = utf8_percent_encode(&value, NON_ALPHANUMERIC);
            texts.push(format!("{}={value}", entry.key));
        }
    }
    let mut headers = HeaderMap::new();
    if !texts.is_empty() {
        let text = HeaderValue::from_str(&texts.join("&")).map_err(broken)?;
        headers.insert(SETTINGS, text);
    }
    Ok(headers)
}

/// Adds the names of workers' certificates, which workers need to reach each other.
///
/// # Errors
/// If a name is no text.
pub fn add_names(headers: &mut HeaderMap, channels: &Channels) -> Result<()> {
    let names = channels.names();
    if !names.is_empty() {
        let names = names.iter().map(|(url, name)| format!("{url} {name}"));
        let text = names.collect::<Vec<_>>().join("&");
        headers.insert(NAMES, HeaderValue::from_str(&text).map_err(broken)?);
    }
    Ok(())
}

/// Tells `channels` the names of workers' certificates.
///
/// # Errors
/// If the header is broken.
pub fn apply_names(headers: &HeaderMap, channels: &Channels) -> Result<()> {
    let Some(text) = headers.get(NAMES) else {
        return Ok(());
    };
    for named in text.to_str().map_err(broken)?.split('&') {
        let (url, name) = named
            .split_once(' ')
            .ok_or_else(|| broken("a worker without a name"))?;
        channels.expect_name(&Url::parse(url).map_err(broken)?, name);
    }
    Ok(())
}

/// The headers of a request that are sent on to other workers.
pub fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let ours = [SETTINGS, NAMES].into_iter();
    ours.filter_map(|name| Some((name.clone(), headers.get(&name)?.clone())))
        .collect()
}

/// Sets what a request's header says.
///
/// # Errors
/// If a setting is unknown here, or has no such value.
pub fn apply(config: &mut SessionConfig, headers: &HeaderMap) -> Result<()> {
    let Some(text) = headers.get(SETTINGS) else {
        return Ok(());
    };
    let text = text.to_str().map_err(broken)?;
    for setting in text.split('&') {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| broken("a setting without a value"))?;
        let value = percent_decode_str(value).decode_utf8().map_err(broken)?;
        config.options_mut().set(key, &value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> SessionConfig {
        let mut config = SessionConfig::new();
        let extensions = &mut config.options_mut().extensions;
        extensions.insert(VczSettings::default());
        config
    }

    #[test]
    fn settings_of_queries_are_sent() {
        let mut client = config();
        let options = client.options_mut();
        for (key, value) in [
            ("datafusion.execution.batch_size", "77"),
            ("datafusion.execution.time_zone", "+02:00"),
            ("datafusion.optimizer.prefer_hash_join", "false"),
            ("vcz.batch_bytes", "1MB"),
            ("vcz.gpu_devices", "1"),
        ] {
            options.set(key, value).unwrap();
        }
        let headers = headers(client.options()).unwrap();
        let mut worker = config();
        apply(&mut worker, &passed_on(&headers)).unwrap();
        let options = worker.options();
        assert_eq!(options.execution.batch_size.get(), 77);
        assert_eq!(options.execution.time_zone.as_deref(), Some("+02:00"));
        assert!(options.optimizer.prefer_hash_join);
        let vcz = VczSettings::of(options);
        assert_eq!(
            (vcz.batch_bytes, vcz.gpu_devices.as_str()),
            (1 << 20, "all")
        );
        assert!(headers.len() == 1 && apply(&mut worker, &HeaderMap::new()).is_ok());
    }
}
