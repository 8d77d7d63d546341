//! Settings of the session (`SET vcz.backend = …`) and options of a table (`OPTIONS ('vcz.populations' …)`), both
//! under the prefix `vcz`. Unknown keys and values are errors that list the valid ones.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{DataFusionError, Result, config_err};

use super::notices::NoticeSink;
use super::remote::options::RemoteOptions;

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
    /// The maximum device memory that a process takes on each GPU, in bytes; 0 leaves the choice to the engine.
    pub gpu_memory_limit: u64,
    /// Whether uncompressed chunks in local files are read directly into the memory of GPUs.
    pub gpu_direct_storage: DirectStorage,
    /// Receives notices. Not an SQL setting: set by the code that runs statements.
    pub notices: NoticeSink,
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
            notices: NoticeSink::default(),
        }
    }
}

const SETTINGS: [(&str, &str); 6] = [
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
        "most device memory taken on each GPU, e.g. 8GB; 0 leaves the choice to the engine",
    ),
    (
        "gpu_direct_storage",
        "whether uncompressed chunks in local files are read straight into GPU memory by cuFile: 'auto', 'on' or 'off'",
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
                parse_devices(value).map_err(DataFusionError::Configuration)?;
                self.gpu_devices = value.trim().to_ascii_lowercase();
            }
            "gpu_direct_storage" => self.gpu_direct_storage = value.parse()?,
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

impl ConfigExtension for VczSettings {
    const PREFIX: &'static str = "vcz";
}

/// What to do with a store's `region_index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum RegionIndexMode {
    /// Use it if the store has one, after structural checks. It is checked against the positions wherever these are read.
    #[default]
    Use,
    /// Read the positions instead.
    Ignore,
}

/// How to treat a chunk to which access is denied (HTTP 403). Without permission to list the bucket, S3 returns 403 for absent objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum DeniedChunks {
    /// An error.
    #[default]
    Error,
    /// The chunk is absent, and is read as fill values.
    Absent,
}

/// The options of one table: what `CREATE EXTERNAL TABLE … OPTIONS (…)` sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableOptions {
    /// Location of the populations file, a TSV or CSV; or a query that gives its rows.
    pub populations: Option<String>,
    /// The name of the column of sample ids in the populations file, if it is not `sample_id`.
    pub sample_column: Option<String>,
    /// The name of the column of populations in the populations file, if it is not `population`.
    pub population_column: Option<String>,
    /// Whether the region index is used.
    pub region_index: RegionIndexMode,
    /// How to treat a chunk to which access is denied.
    pub denied_chunks: DeniedChunks,
    /// Names of arrays to look for, if arrays cannot be listed or are not in the consolidated metadata.
    pub arrays: Vec<String>,
    /// The contig of all variants of a store of another writer that does not name it.
    pub contig: Option<String>,
    /// How many alleles genotypes may have in a store of another writer that does not have the alleles.
    pub alleles: Option<usize>,
    /// The configuration of the object store; if empty, the session's object store for the location is used.
    pub remote: RemoteOptions,
}

/// The maximum number of names of arrays in an option, because each is one request.
const MAX_ARRAYS: usize = 1000;

const TABLE_OPTIONS: [(&str, &str); 8] = [
    (
        "populations",
        "a TSV or CSV file with the columns sample_id and population, or a query that gives them: SELECT sample_id, region FROM meta",
    ),
    (
        "sample_column",
        "the name of the column of sample ids in the populations file, if it is not sample_id",
    ),
    (
        "population_column",
        "the name of the column of populations in the populations file, if it is not population",
    ),
    ("region_index", "'use' or 'ignore' the store's region_index"),
    (
        "denied_chunks",
        "whether a chunk to which access is denied (HTTP 403) is an 'error' or 'absent'",
    ),
    (
        "arrays",
        "arrays that cannot be listed, separated by commas, such as call_AD,variant_MQ",
    ),
    (
        "contig",
        "the contig of all variants, in a store that has none",
    ),
    (
        "alleles",
        "the most alleles of a site, in a store that has none; 2 if it is not set",
    ),
];

impl TableOptions {
    /// The columns of the populations file, if one of the options names them.
    pub fn population_columns(&self) -> Option<(&str, &str)> {
        let sample = self.sample_column.as_deref();
        let population = self.population_column.as_deref();
        (sample.is_some() || population.is_some()).then_some((
            sample.unwrap_or("sample_id"),
            population.unwrap_or("population"),
        ))
    }

    /// Reads the options of a `CREATE EXTERNAL TABLE`: keys with the prefix `vcz.`, or without any (which the SQL planner
    /// turns into `format.`), and those of object stores (`aws.`, `gcp.`, `azure.`, `http.`, `retry.`). Any other key is an error
    /// that lists the valid ones.
    pub fn try_from_map(options: &HashMap<String, String>) -> Result<Self> {
        let mut parsed = Self::default();
        let mut keys: Vec<_> = options.keys().collect();
        keys.sort();
        for key in keys {
            if RemoteOptions::has_prefix(key) {
                parsed.remote.set(key, &options[key])?;
                continue;
            }
            let name = key
                .strip_prefix("vcz.")
                .or_else(|| key.strip_prefix("format."))
                .unwrap_or(key);
            ExtensionOptions::set(&mut parsed, name, &options[key])?;
        }
        Ok(parsed)
    }
}

impl ExtensionOptions for TableOptions {
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
        // DataFusion's table options pass the whole key.
        let name = key.strip_prefix("vcz.").unwrap_or(key);
        match name {
            "populations" => self.populations = Some(value.to_string()),
            "sample_column" => self.sample_column = Some(value.to_string()),
            "population_column" => self.population_column = Some(value.to_string()),
            "region_index" => {
                self.region_index = match value.to_ascii_lowercase().as_str() {
                    "use" => RegionIndexMode::Use,
                    "ignore" => RegionIndexMode::Ignore,
                    _ => {
                        return config_err!(
                            "option 'vcz.region_index' must be 'use' or 'ignore', found '{value}'"
                        );
                    }
                }
            }
            "denied_chunks" => {
                self.denied_chunks = match value.to_ascii_lowercase().as_str() {
                    "error" => DeniedChunks::Error,
                    "absent" => DeniedChunks::Absent,
                    _ => {
                        return config_err!(
                            "option 'vcz.denied_chunks' must be 'error' or 'absent', found '{value}'"
                        );
                    }
                }
            }
            "contig" => self.contig = Some(value.to_string()),
            "alleles" => match value.trim().parse::<usize>() {
                Ok(alleles @ 1..=65_536) => self.alleles = Some(alleles),
                _ => {
                    return config_err!(
                        "option 'vcz.alleles' must be a number from 1 to 65536, found '{value}'"
                    );
                }
            },
            "arrays" => {
                let names = value.split(',').map(|name| name.trim().to_string());
                self.arrays = names.filter(|name| !name.is_empty()).collect();
                if self.arrays.len() > MAX_ARRAYS {
                    return config_err!(
                        "option 'vcz.arrays' has {} names, expected at most {MAX_ARRAYS}",
                        self.arrays.len()
                    );
                }
            }
            _ => {
                let known = TABLE_OPTIONS
                    .map(|(known, _)| format!("'vcz.{known}'"))
                    .join(", ");
                return config_err!(
                    "unknown option 'vcz.{name}' of a VCZ table; the options are {known}, and those of its object store, such as \
                     'aws.region'"
                );
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        TABLE_OPTIONS
            .iter()
            .map(|(key, description)| ConfigEntry {
                key: format!("vcz.{key}"),
                value: match *key {
                    "populations" => self.populations.clone(),
                    "sample_column" => self.sample_column.clone(),
                    "population_column" => self.population_column.clone(),
                    "region_index" => Some(
                        match self.region_index {
                            RegionIndexMode::Use => "use",
                            RegionIndexMode::Ignore => "ignore",
                        }
                        .to_string(),
                    ),
                    "contig" => self.contig.clone(),
                    "alleles" => self.alleles.map(|alleles| alleles.to_string()),
                    "arrays" => (!self.arrays.is_empty()).then(|| self.arrays.join(",")),
                    _ => Some(
                        match self.denied_chunks {
                            DeniedChunks::Error => "error",
                            DeniedChunks::Absent => "absent",
                        }
                        .to_string(),
                    ),
                },
                description,
            })
            .collect()
    }
}

impl ConfigExtension for TableOptions {
    const PREFIX: &'static str = "vcz";
}

/// The device numbers of `vcz.gpu_devices`; none for `all`.
pub(in crate::scan) fn parse_devices(value: &str) -> std::result::Result<Vec<usize>, String> {
    if value.trim().eq_ignore_ascii_case("all") {
        return Ok(vec![]);
    }
    let parse = |part: &str| {
        part.trim()
            .parse::<usize>()
            .ok()
            .filter(|device| *device < 64)
    };
    value
        .split(',')
        .map(parse)
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| {
            format!(
                "vcz.gpu_devices must be 'all' or device numbers separated by commas such as '0,1', found '{value}'"
            )
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
                    .contains("vcz.gpu_devices")
            );
        }
    }
}
