//! [`TableOptions`]: the options of one table (`CREATE EXTERNAL TABLE … OPTIONS ('vcz.populations' …)`). Unknown keys and values are
//! errors that list the valid ones.

use std::any::Any;
use std::collections::HashMap;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result, config_err};

use super::options::parse_bytes;
use super::remote::options::RemoteOptions;
use super::statement_options::{PREFIX, split_options};
use super::write::{WRITE_OPTIONS, WriteOptions};
use crate::counts::UnknownSamples;

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
    /// What to do with lines of the populations file whose sample the stores do not have.
    pub unknown_samples: UnknownSamples,
    /// Whether the region index is used.
    pub region_index: RegionIndexMode,
    /// How to treat a chunk to which access is denied.
    pub denied_chunks: DeniedChunks,
    /// Names of arrays to look for, if arrays cannot be listed or are not in the consolidated metadata.
    pub arrays: Vec<String>,
    /// The folder that caches what is read from an object store; without it nothing is cached.
    pub cache_dir: Option<String>,
    /// The approximate maximum size of that folder, in bytes; 10 GiB if it is not set.
    pub cache_size: Option<u64>,
    /// The contig of all variants of a store of another writer that does not name it.
    pub contig: Option<String>,
    /// How many alleles genotypes may have in a store of another writer that does not have the alleles.
    pub alleles: Option<usize>,
    /// The configuration of the object store; if empty, the session's object store for the location is used.
    pub remote: RemoteOptions,
}

/// The size of a cache whose size is not set, in bytes.
pub const CACHE_SIZE: u64 = 10 << 30;
/// The smallest size of a cache, in bytes.
const MIN_CACHE_SIZE: u64 = 1 << 20;
/// The maximum number of names of arrays in an option, because each is one request.
const MAX_ARRAYS: usize = 1000;

const TABLE_OPTIONS: [(&str, &str); 11] = [
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
    (
        "unknown_samples",
        "whether a sample of the populations file that the store does not have is an 'error', or to 'ignore'",
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
        "cache_dir",
        "a folder in which what is read from an object store is kept, for other processes, too; nothing is kept without it",
    ),
    (
        "cache_size",
        "most bytes in the folder of 'vcz.cache_dir', such as 50GB; 10GB without it",
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
        let (remote, ours) = split_options(options)?;
        let mut parsed = Self {
            remote,
            ..Self::default()
        };
        for (name, value) in ours {
            ExtensionOptions::set(&mut parsed, name, value)?;
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
        let name = key.strip_prefix(PREFIX).unwrap_or(key);
        match name {
            "populations" => self.populations = Some(value.to_string()),
            "sample_column" => self.sample_column = Some(value.to_string()),
            "population_column" => self.population_column = Some(value.to_string()),
            "unknown_samples" => {
                self.unknown_samples = match value.to_ascii_lowercase().as_str() {
                    "error" => UnknownSamples::Error,
                    "ignore" => UnknownSamples::Ignore,
                    _ => {
                        return config_err!(
                            "option 'vcz.unknown_samples' must be 'error' or 'ignore', found '{value}'"
                        );
                    }
                }
            }
            "cache_dir" if value.trim().is_empty() => {
                return config_err!(
                    "option 'vcz.cache_dir' must be the path of a folder, found ''"
                );
            }
            "cache_dir" => self.cache_dir = Some(value.to_string()),
            "cache_size" => {
                let size = parse_bytes(name, value)?;
                if size < MIN_CACHE_SIZE {
                    return config_err!(
                        "option 'vcz.cache_size' must be at least 1MB, which is 1048576 bytes (units are of 1024), found '{value}'"
                    );
                }
                self.cache_size = Some(size);
            }
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
            // COPY … STORED AS VCZ reads these itself; a session that knows these options of tables accepts them, too.
            _ if key.starts_with(PREFIX) && WriteOptions::has(name) => {
                WriteOptions::default().set(name, value)?;
            }
            _ => {
                let known = TABLE_OPTIONS
                    .map(|(known, _)| format!("'vcz.{known}'"))
                    .join(", ");
                if key.starts_with(PREFIX) {
                    // It may be of a COPY, which this message is for, too.
                    let written = WRITE_OPTIONS
                        .map(|(known, _)| format!("'vcz.{known}'"))
                        .join(", ");
                    return config_err!(
                        "unknown option 'vcz.{name}'; the options of COPY … STORED AS VCZ are {written}, those of a VCZ table {known}, and \
                         there are those of object stores, such as 'aws.region'"
                    );
                }
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
                    "unknown_samples" => Some(
                        match self.unknown_samples {
                            UnknownSamples::Error => "error",
                            UnknownSamples::Ignore => "ignore",
                        }
                        .to_string(),
                    ),
                    "region_index" => Some(
                        match self.region_index {
                            RegionIndexMode::Use => "use",
                            RegionIndexMode::Ignore => "ignore",
                        }
                        .to_string(),
                    ),
                    "cache_dir" => self.cache_dir.clone(),
                    "cache_size" => self.cache_size.map(|size| size.to_string()),
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
