//! The settings that a client may change, and their allowed values: those that affect only its own queries, and not files, other
//! clients or the server's limits. All others are rejected. Also the settings of this layer, with the prefix `flight`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use arrow::array::timezone::Tz;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::IpcWriteOptions;
use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions,
};
use datafusion::common::{DataFusionError, Result, config_err};
use datafusion::prelude::SessionConfig;

use crate::scan::VczSettings;

/// Bounds of `flight.message_bytes`.
const MESSAGE_BYTES: RangeInclusive<usize> = 64 << 10..=64 << 20;
/// Bounds of `vcz.batch_bytes`.
const BATCH_BYTES: RangeInclusive<usize> = 4 << 10..=64 << 20;
/// Bound of `datafusion.execution.batch_size`.
const MAX_BATCH_SIZE: usize = 65_536;

/// How the bodies of record batches are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Uncompressed.
    #[default]
    None,
    /// LZ4 frames: fast.
    Lz4,
    /// zstd: smaller.
    Zstd,
}

impl FromStr for Compression {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd),
            _ => config_err!("flight.compression must be 'none', 'lz4' or 'zstd', found '{text}'"),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

impl Compression {
    /// The IPC options for this compression.
    ///
    /// # Errors
    /// If Arrow was built without that compression.
    pub fn write_options(self) -> Result<IpcWriteOptions> {
        let compression = match self {
            Self::None => None,
            Self::Lz4 => Some(CompressionType::LZ4_FRAME),
            Self::Zstd => Some(CompressionType::ZSTD),
        };
        Ok(IpcWriteOptions::default().try_with_compression(compression)?)
    }
}

/// The session's `flight.*` settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightSettings {
    /// How the bodies of record batches are compressed.
    pub compression: Compression,
    /// Record batches are split between rows into messages of about this many bytes.
    pub message_bytes: usize,
}

impl Default for FlightSettings {
    fn default() -> Self {
        Self {
            compression: Compression::None,
            // gRPC clients in Java and Go accept 4 MiB by default.
            message_bytes: 2 << 20,
        }
    }
}

impl FlightSettings {
    /// The settings of a session.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }
}

impl ExtensionOptions for FlightSettings {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "compression" => self.compression = value.parse()?,
            "message_bytes" => {
                let bytes = crate::scan::parse_bytes(key, value).ok();
                match bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
                    Some(bytes) if MESSAGE_BYTES.contains(&bytes) => self.message_bytes = bytes,
                    _ => {
                        return config_err!(
                            "flight.message_bytes must be from {} to {}, found '{value}'",
                            MESSAGE_BYTES.start(),
                            MESSAGE_BYTES.end()
                        );
                    }
                }
            }
            _ => {
                return config_err!(
                    "unknown setting 'flight.{key}'; the settings are flight.compression, flight.message_bytes"
                );
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &str, value: String, description| ConfigEntry {
            key: format!("flight.{key}"),
            value: Some(value),
            description,
        };
        vec![
            entry(
                "compression",
                self.compression.to_string(),
                "how the bodies of record batches are compressed: 'none', 'lz4' or 'zstd'",
            ),
            entry(
                "message_bytes",
                self.message_bytes.to_string(),
                "record batches are split between rows into messages of about this many bytes",
            ),
        ]
    }
}

impl ConfigExtension for FlightSettings {
    const PREFIX: &'static str = "flight";
}

/// Settings that a client may set.
const SETTABLE: [&str; 15] = [
    "vcz.backend",
    "vcz.batch_bytes",
    "vcz.prefetch",
    "vcz.distribute",
    "flight.compression",
    "flight.message_bytes",
    "datafusion.execution.batch_size",
    "datafusion.execution.target_partitions",
    "datafusion.execution.time_zone",
    "datafusion.explain.format",
    "datafusion.explain.analyze_level",
    "datafusion.explain.show_statistics",
    "datafusion.explain.logical_plan_only",
    "datafusion.explain.physical_plan_only",
    "datafusion.optimizer.prefer_hash_join",
];

/// `config` with a setting set to `value`, or to its value in `defaults`.
///
/// # Errors
/// A planning error, which lists what is allowed, if clients may not change this setting or the value is not allowed.
pub fn set(
    config: &SessionConfig,
    defaults: &SessionConfig,
    name: &str,
    value: Option<&str>,
    max_partitions: usize,
) -> Result<SessionConfig> {
    let name = match name.to_ascii_lowercase().as_str() {
        // The names that SET TIME ZONE is parsed to.
        "timezone" | "time.zone" | "datafusion.execution.time_zone" => {
            "datafusion.execution.time_zone".to_string()
        }
        name => name.to_string(),
    };
    if !SETTABLE.contains(&name.as_str()) {
        return config_err!(
            "the setting '{name}' cannot be set on this server; these can: {}",
            SETTABLE.join(", ")
        );
    }
    let mut config = config.clone();
    let default = defaults
        .options()
        .entries()
        .into_iter()
        .find(|entry| entry.key == name)
        .and_then(|entry| entry.value);
    match value.map(str::to_string).or(default) {
        Some(value) => config.options_mut().set(&name, &value)?,
        None => config.options_mut().reset(&name)?,
    }
    check(&config, defaults, max_partitions)?;
    Ok(config)
}

/// Checks that the settings that affect memory are within bounds, which are extended to include the operator's defaults, and that the
/// time zone is known.
fn check(config: &SessionConfig, defaults: &SessionConfig, max_partitions: usize) -> Result<()> {
    let bounded = |name: &str, value: usize, default: usize, range: RangeInclusive<usize>| {
        let (least, most) = range.into_inner();
        let (least, most) = (least.min(default), most.max(default));
        if (least..=most).contains(&value) {
            Ok(())
        } else {
            config_err!("{name} must be from {least} to {most} on this server, found {value}")
        }
    };
    let (vcz, default) = (
        VczSettings::of(config.options()),
        VczSettings::of(defaults.options()),
    );
    bounded(
        "vcz.batch_bytes",
        vcz.batch_bytes,
        default.batch_bytes,
        BATCH_BYTES,
    )?;
    bounded(
        "datafusion.execution.batch_size",
        config.batch_size(),
        defaults.batch_size(),
        1..=MAX_BATCH_SIZE,
    )?;
    bounded(
        "datafusion.execution.target_partitions",
        config.target_partitions(),
        defaults.target_partitions(),
        1..=max_partitions,
    )?;
    match &config.options().execution.time_zone {
        Some(zone) if zone.parse::<Tz>().is_err() => config_err!(
            "datafusion.execution.time_zone: there is no time zone '{zone}'; expected an offset such as '+02:00' or a name \
             such as 'Europe/Paris'"
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> SessionConfig {
        let mut config = SessionConfig::new().with_target_partitions(2);
        config
            .options_mut()
            .extensions
            .insert(VczSettings::default());
        config
            .options_mut()
            .extensions
            .insert(FlightSettings::default());
        config
    }

    #[test]
    fn safe_settings_are_set_and_reset() {
        let defaults = defaults();
        for (name, value) in [
            ("vcz.backend", "host"),
            ("vcz.batch_bytes", "1MB"),
            ("vcz.prefetch", "0"),
            ("vcz.distribute", "never"),
            ("flight.compression", "zstd"),
            ("flight.message_bytes", "128kB"),
            ("datafusion.execution.batch_size", "100"),
            ("datafusion.execution.target_partitions", "4"),
            ("datafusion.execution.time_zone", "+02:00"),
            ("TIMEZONE", "+02:00"),
            ("TIMEZONE", "Europe/Paris"),
            ("datafusion.explain.format", "tree"),
            ("datafusion.explain.analyze_level", "summary"),
            ("datafusion.explain.show_statistics", "true"),
            ("datafusion.explain.logical_plan_only", "true"),
            ("datafusion.explain.physical_plan_only", "true"),
            ("datafusion.optimizer.prefer_hash_join", "false"),
        ] {
            let config = set(&defaults, &defaults, name, Some(value), 4).unwrap();
            let entries = |config: &SessionConfig| -> Vec<_> {
                config
                    .options()
                    .entries()
                    .into_iter()
                    .map(|e| (e.key, e.value))
                    .collect()
            };
            assert_ne!(entries(&config), entries(&defaults), "{name}");
            let reset = set(&config, &defaults, name, None, 4).unwrap();
            assert_eq!(entries(&reset), entries(&defaults), "{name}");
        }
    }

    #[test]
    fn defaults_of_the_operator_are_allowed() {
        let mut defaults = defaults();
        defaults.options_mut().set("vcz.prefetch", "64").unwrap();
        defaults
            .options_mut()
            .set("vcz.batch_bytes", "1GB")
            .unwrap();
        let set = |name, value| set(&defaults, &defaults, name, Some(value), 4);
        assert!(set("vcz.backend", "host").is_ok());
        assert!(set("vcz.prefetch", "65").is_ok());
        assert!(set("vcz.batch_bytes", "1GB").is_ok() && set("vcz.batch_bytes", "2GB").is_err());
    }

    #[test]
    fn everything_else_is_refused() {
        let defaults = defaults();
        for (name, value) in [
            ("vcz.gpu_memory_limit", "1GB"),
            ("vcz.gpu_devices", "all"),
            ("vcz.gpu_direct_storage", "off"),
            ("vcz.gpu_workers", "1"),
            ("vcz.nothing", "1"),
            ("datafusion.runtime.memory_limit", "1G"),
            ("datafusion.runtime.temp_directory", "/tmp"),
            ("datafusion.catalog.information_schema", "false"),
            ("datafusion.catalog.location", "/etc"),
            ("datafusion.execution.batch_size", "0"),
            ("datafusion.execution.batch_size", "1000000"),
            ("datafusion.execution.target_partitions", "5"),
            ("datafusion.sql_parser.recursion_limit", "1000000"),
            ("vcz.batch_bytes", "1GB"),
            ("vcz.batch_bytes", "1"),
            ("vcz.prefetch", "1025"),
            ("datafusion.execution.time_zone", "Mars/Phobos"),
            ("TIMEZONE", ""),
            ("vcz.backend", "quantum"),
            ("flight.compression", "gzip"),
            ("flight.message_bytes", "1"),
            ("flight.message_bytes", "10GB"),
            ("", ""),
        ] {
            assert!(
                set(&defaults, &defaults, name, Some(value), 4).is_err(),
                "{name}={value}"
            );
        }
    }
}
