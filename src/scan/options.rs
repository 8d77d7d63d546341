//! [`VczSettings`]: the settings of a session (`SET vcz.backend = …`). Unknown keys and values are errors that list the valid ones.

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{DataFusionError, Result, config_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::notices::NoticeSink;
use super::query_memory::QueryMemory;
use crate::error::VczError;

/// The backend that decodes and counts genotype chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// The GPU if one is usable and expected to be faster, else the host.
    #[default]
    Auto,
    /// The host.
    Host,
    /// The GPU; if none is usable, an error with the reason.
    Gpu,
}

impl FromStr for Backend {
    type Err = datafusion::common::DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        match value.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "host" => Ok(Self::Host),
            "gpu" => Ok(Self::Gpu),
            _ => config_err!("vcz.backend must be 'auto', 'host' or 'gpu', found '{value}'"),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Host => "host",
            Self::Gpu => "gpu",
        })
    }
}

/// Whether uncompressed chunks in local files are read directly into the memory of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectStorage {
    /// If the machine has GPUDirect Storage.
    #[default]
    Auto,
    /// By cuFile, even if it copies through the host; an error if there is no cuFile.
    On,
    /// Never.
    Off,
}

impl FromStr for DirectStorage {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        match value.trim().to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            // SET takes booleans too.
            "on" | "true" => Ok(Self::On),
            "off" | "false" => Ok(Self::Off),
            _ => {
                config_err!("vcz.gpu_direct_storage must be 'auto', 'on' or 'off', found '{value}'")
            }
        }
    }
}

impl fmt::Display for DirectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// Which queries run on workers, in a session that has some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distribute {
    /// Those with enough work.
    #[default]
    Auto,
    /// All that can be divided.
    Always,
    /// None.
    Never,
}

impl FromStr for Distribute {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        match value.trim().to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => {
                config_err!("vcz.distribute must be 'auto', 'always' or 'never', found '{value}'")
            }
        }
    }
}

impl fmt::Display for Distribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

/// The session's `vcz.*` settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VczSettings {
    /// The backend that decodes and counts.
    pub backend: Backend,
    /// A batch has at most this many bytes, or one row if a single row is larger.
    pub batch_bytes: usize,
    /// The maximum number of reads of each array that are in flight in a partition ahead of the chunk being decoded, whether
    /// the host or a GPU decodes it; 0 turns reading ahead off. A read is a chunk, or several small ones of a local store. There
    /// are few reads at first, and more while reads have to be waited for and memory allows it.
    pub prefetch: usize,
    /// Which GPUs to use: 'all', or device numbers separated by commas.
    pub gpu_devices: String,
    /// The maximum device memory that a process takes on each GPU, in bytes; 0 for 8 GB, or half of the memory of a smaller device.
    pub gpu_memory_limit: u64,
    /// Whether uncompressed chunks in local files are read directly into the memory of GPUs.
    pub gpu_direct_storage: DirectStorage,
    /// The number of batches that a GPU runs at the same time, at most `MAX_GPU_WORKERS`; 0 for the default, which is the maximum.
    pub gpu_workers: usize,
    /// Which queries run on workers, if there are any.
    pub distribute: Distribute,
    /// Receives notices. Not an SQL setting: set by the code that runs statements.
    pub notices: NoticeSink,
    /// The memory pool that functions take memory from. Not an SQL setting.
    pub memory: QueryMemory,
}

impl Default for VczSettings {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            batch_bytes: 16 << 20,
            prefetch: 64,
            gpu_devices: "all".to_string(),
            gpu_memory_limit: 0,
            gpu_direct_storage: DirectStorage::Auto,
            gpu_workers: 0,
            distribute: Distribute::Auto,
            notices: NoticeSink::default(),
            memory: QueryMemory::default(),
        }
    }
}

/// Most batches that a GPU runs at the same time.
pub const MAX_GPU_WORKERS: usize = 4;

const SETTINGS: [(&str, &str); 8] = [
    (
        "backend",
        "which engine decodes and counts genotypes: 'auto', 'host' or 'gpu'",
    ),
    (
        "batch_bytes",
        "a batch holds at most this many bytes, or one row where a row is wider; e.g. 16MB",
    ),
    (
        "prefetch",
        "how many reads of each array (a chunk, or several small local ones) are in flight ahead, at most; 0 turns it off",
    ),
    (
        "gpu_devices",
        "which GPUs to use: 'all', or device numbers separated by commas",
    ),
    (
        "gpu_memory_limit",
        "most device memory taken on each GPU, e.g. 16GB; 0 for 8GB, or half of the memory of a smaller device",
    ),
    (
        "gpu_direct_storage",
        "whether uncompressed chunks in local files are read straight into GPU memory by cuFile: 'auto', 'on' or 'off'",
    ),
    (
        "gpu_workers",
        "how many batches each GPU runs at the same time, 1 to 4; 0 for the default, 4; with 1, EXPLAIN ANALYZE shows times of steps that do not overlap",
    ),
    (
        "distribute",
        "which queries run on workers, where there are some: 'auto' (those with enough work), 'always' or 'never'",
    ),
];

impl VczSettings {
    /// The settings of a session; the defaults where the extension is not registered.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    fn get(&self, key: &str) -> String {
        match key {
            "backend" => self.backend.to_string(),
            "batch_bytes" => self.batch_bytes.to_string(),
            "prefetch" => self.prefetch.to_string(),
            "gpu_devices" => self.gpu_devices.clone(),
            "gpu_direct_storage" => self.gpu_direct_storage.to_string(),
            "gpu_workers" => self.gpu_workers.to_string(),
            "distribute" => self.distribute.to_string(),
            _ => self.gpu_memory_limit.to_string(),
        }
    }
}

/// A number of bytes, with an optional unit (`64MB`, `1 GiB`, `1000000`); units are powers of 1024.
pub fn parse_bytes(key: &str, value: &str) -> Result<u64> {
    let text = value.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => 0,
    };
    match text[..digits]
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit))
    {
        Some(bytes) if unit > 0 => Ok(bytes),
        _ => config_err!(
            "vcz.{key} must be a number of bytes such as 1000000, 64MB or 8GB, found '{value}'"
        ),
    }
}

impl ExtensionOptions for VczSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "backend" => self.backend = value.parse()?,
            "batch_bytes" => {
                let bytes = parse_bytes(key, value)?;
                if bytes == 0 {
                    return config_err!("vcz.batch_bytes must be at least 1, found '{value}'");
                }
                self.batch_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            }
            "prefetch" => match value.trim().parse::<usize>() {
                Ok(n) if n <= 1024 => self.prefetch = n,
                _ => {
                    return config_err!(
                        "vcz.prefetch must be a number from 0 to 1024, found '{value}'"
                    );
                }
            },
            "gpu_devices" => {
                let parsed = parse_devices(value);
                parsed.map_err(|error| DataFusionError::Configuration(error.to_string()))?;
                self.gpu_devices = value.trim().to_ascii_lowercase();
            }
            "gpu_direct_storage" => self.gpu_direct_storage = value.parse()?,
            "distribute" => self.distribute = value.parse()?,
            "gpu_workers" => match value.trim().parse::<usize>() {
                Ok(n) if n <= MAX_GPU_WORKERS => self.gpu_workers = n,
                _ => {
                    return config_err!(
                        "vcz.gpu_workers must be a number from 0 to {MAX_GPU_WORKERS}, found '{value}'"
                    );
                }
            },
            "gpu_memory_limit" => self.gpu_memory_limit = parse_bytes(key, value)?,
            _ => {
                let known = SETTINGS.map(|(name, _)| format!("vcz.{name}")).join(", ");
                return config_err!("unknown setting 'vcz.{key}'; the settings are {known}");
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        SETTINGS
            .iter()
            .map(|(key, description)| ConfigEntry {
                key: format!("vcz.{key}"),
                value: Some(self.get(key)),
                description,
            })
            .collect()
    }
}

impl VczSettings {
    /// Memory of a call of `function` in a session with these options: nothing yet, or `None` if none is counted.
    pub fn reservation(options: &ConfigOptions, function: &str) -> Option<MemoryReservation> {
        let settings = options.extensions.get::<Self>()?;
        settings.memory.reservation(function)
    }
}

impl ConfigExtension for VczSettings {
    const PREFIX: &'static str = "vcz";
}

/// Sets of devices are bits of a word.
const DEVICES: usize = 64;

/// The device numbers of `vcz.gpu_devices`; none for `all`.
///
/// # Errors
/// [`VczError::Invalid`], which shows the valid form.
pub(in crate::scan) fn parse_devices(value: &str) -> std::result::Result<Vec<usize>, VczError> {
    if value.trim().eq_ignore_ascii_case("all") {
        return Ok(vec![]);
    }
    let parse = |part: &str| {
        part.trim()
            .parse::<usize>()
            .ok()
            .filter(|device| *device < DEVICES)
    };
    value
        .split(',')
        .map(parse)
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| {
            VczError::Invalid(format!(
                "vcz.gpu_devices must be 'all' or device numbers from 0 to {} separated by commas such as '0,1', found '{value}'",
                DEVICES - 1
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_all_or_numbers() {
        assert_eq!(parse_devices("all").unwrap(), [] as [usize; 0]);
        assert_eq!(parse_devices("0, 3").unwrap(), [0, 3]);
        for wrong in ["", "x", "0,,1", "-1", "64"] {
            assert!(
                parse_devices(wrong)
                    .unwrap_err()
                    .to_string()
                    .contains("vcz.gpu_devices")
            );
        }
    }
}
