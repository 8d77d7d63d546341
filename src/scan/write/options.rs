//! [`WriteOptions`]: the options of `COPY … STORED AS VCZ`.

use std::collections::{HashMap, HashSet};

use datafusion::common::{Result, config_err};

use crate::scan::remote::options::RemoteOptions;
use crate::scan::statement_options::{PREFIX, split_options};
use crate::store::ZarrFormat;
use crate::store::write::Compression;

/// What the statement writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// A new store.
    #[default]
    Create,
    /// New arrays in a store that is there.
    Add,
}

/// The options of the statement.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// A new store, or new arrays.
    pub mode: WriteMode,
    /// The Zarr format of a new store; v2 if it is not set.
    pub format: Option<ZarrFormat>,
    /// Variants in a chunk.
    pub variants_chunk_size: Option<u64>,
    /// Samples in a chunk.
    pub samples_chunk_size: Option<u64>,
    /// The codec of the chunks.
    pub compression: Compression,
    /// Whether a new store is a zip archive; by the ending of its name if it is not set.
    pub zip: Option<bool>,
    /// Whether a store, or an array, that is there is replaced.
    pub overwrite: bool,
    /// Sample ids, where no table of the query has them.
    pub samples: Option<Vec<String>>,
    /// Names of contigs, where no table of the query has them.
    pub contigs: Option<Vec<String>>,
    /// Names of filters, where no table of the query has them.
    pub filters: Option<Vec<String>>,
    /// Those of the object store.
    pub remote: RemoteOptions,
}

/// The options, without their prefix `vcz.`, and what each is.
pub const WRITE_OPTIONS: [(&str, &str); 10] = [
    (
        "mode",
        "'create' for a new store, or 'add' for new arrays in a store that is there",
    ),
    ("format", "the Zarr format of a new store, 2 or 3"),
    ("variants_chunk_size", "variants in a chunk; 1000"),
    ("samples_chunk_size", "samples in a chunk; 10000"),
    (
        "codec",
        "the codec of chunks: blosc-zstd, blosc-lz4, blosc-lz4hc, blosc-zlib, zstd, gzip or none, perhaps with a level: 'zstd:3'",
    ),
    (
        "zip",
        "whether a new store is a zip archive; by the ending .zip without it",
    ),
    (
        "overwrite",
        "whether a store, or an array, that is there is replaced",
    ),
    (
        "samples",
        "sample ids separated by commas, where no table of the query has them",
    ),
    (
        "contigs",
        "names of contigs separated by commas, where no table of the query has them",
    ),
    (
        "filters",
        "names of filters separated by commas, where no table of the query has them",
    ),
];

impl WriteOptions {
    /// Whether `name`, without its prefix, is one of these options.
    pub fn has(name: &str) -> bool {
        WRITE_OPTIONS.iter().any(|(known, _)| *known == name)
    }

    /// Reads the options of a statement: keys with the prefix `vcz.`, or without any (which the SQL planner turns into `format.`), and
    /// those of object stores.
    ///
    /// # Errors
    /// If a key is not known or a value is not valid; the message lists what is.
    pub fn try_from_map(options: &HashMap<String, String>) -> Result<Self> {
        let (remote, ours) = split_options(options)?;
        let mut parsed = Self {
            remote,
            ..Self::default()
        };
        for (name, value) in ours {
            // An option of DataFusion's COPY, which says nothing here.
            if name != "execution.keep_partition_by_columns" {
                parsed.set(name, value)?;
            }
        }
        if parsed.mode == WriteMode::Add && (parsed.format.is_some() || parsed.zip.is_some()) {
            return config_err!(
                "options 'vcz.format' and 'vcz.zip' are for new stores; arrays that are added have the format of their store"
            );
        }
        Ok(parsed)
    }

    /// Checks the options of a statement before anything is asked of an object store. Returns whether they configure the object store.
    ///
    /// # Errors
    /// As [`WriteOptions::try_from_map`].
    pub fn check(options: &HashMap<String, String>) -> Result<bool> {
        Self::try_from_map(options).map(|parsed| !parsed.remote.is_empty())
    }

    /// Sets the option `name`, without its prefix.
    ///
    /// # Errors
    /// If it is not known, or the value is not valid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "mode" => {
                self.mode = match value.to_ascii_lowercase().as_str() {
                    "create" => WriteMode::Create,
                    "add" => WriteMode::Add,
                    _ => {
                        return config_err!(
                            "option 'vcz.mode' must be 'create' or 'add', found '{value}'"
                        );
                    }
                }
            }
            "format" => {
                self.format = Some(match value.trim() {
                    "2" => ZarrFormat::V2,
                    "3" => ZarrFormat::V3,
                    _ => return config_err!("option 'vcz.format' must be 2 or 3, found '{value}'"),
                })
            }
            "variants_chunk_size" => self.variants_chunk_size = Some(length(name, value)?),
            "samples_chunk_size" => self.samples_chunk_size = Some(length(name, value)?),
            "codec" => match value.parse() {
                Ok(compression) => self.compression = compression,
                Err(reason) => return config_err!("option 'vcz.codec': {reason}"),
            },
            "zip" => self.zip = Some(flag(name, value)?),
            "overwrite" => self.overwrite = flag(name, value)?,
            "samples" => self.samples = Some(names(name, value)?),
            "contigs" => self.contigs = Some(names(name, value)?),
            "filters" => self.filters = Some(names(name, value)?),
            _ => {
                let known = WRITE_OPTIONS
                    .map(|(known, _)| format!("'vcz.{known}'"))
                    .join(", ");
                let prefix = if name.contains('.') { "" } else { PREFIX };
                return config_err!(
                    "unknown option '{prefix}{name}' of COPY … STORED AS VCZ; the options are {known}, and those of the object store, such as \
                     'aws.region'"
                );
            }
        }
        Ok(())
    }
}

fn length(name: &str, value: &str) -> Result<u64> {
    match value.trim().parse::<u64>() {
        Ok(length @ 1..=0x7fff_ffff) => Ok(length),
        _ => config_err!(
            "option 'vcz.{name}' must be a number from 1 to 2147483647, found '{value}'"
        ),
    }
}

fn flag(name: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => config_err!("option 'vcz.{name}' must be 'true' or 'false', found '{value}'"),
    }
}

fn names(option: &str, value: &str) -> Result<Vec<String>> {
    let names = value.split(',').map(|name| name.trim().to_string());
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => config_err!("option 'vcz.{option}' names '{twice}' twice"),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)]) -> Result<WriteOptions> {
        let map = options
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()));
        WriteOptions::try_from_map(&map.collect())
    }

    #[test]
    fn options_are_read_or_refused() {
        let parsed = parse(&[
            ("vcz.format", "3"),
            ("format.codec", "zstd:1"),
            ("vcz.samples", "a, b"),
        ]);
        let parsed = parsed.unwrap();
        assert_eq!(parsed.format, Some(ZarrFormat::V3));
        assert_eq!(parsed.samples.unwrap(), ["a", "b"]);
        for (key, value, part) in [
            ("vcz.mode", "append", "'create' or 'add'"),
            ("vcz.format", "4", "2 or 3"),
            ("vcz.variants_chunk_size", "0", "from 1"),
            ("vcz.codec", "lzma", "blosc-zstd"),
            ("vcz.zip", "1", "'true' or 'false'"),
            ("vcz.contigs", "a,b,a", "'a' twice"),
            ("vcz.chunks", "1", "'vcz.samples_chunk_size'"),
            ("vzc.format", "3", "unknown option 'vzc.format'"),
        ] {
            let error = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(parse(&[("vcz.mode", "add"), ("vcz.format", "2")]).is_err());
    }
}
