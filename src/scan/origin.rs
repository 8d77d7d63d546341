//! [`TableOrigin`]: how another process opens the stores of a table. Made by `open`, sent to workers by `cluster`.
//!
//! Invariant: no credentials are in it; another process has its own.

use datafusion::common::config::ExtensionOptions;

use super::locations::Named;
use super::table_options::TableOptions;

/// Options of a table that say nothing about its stores, or belong to one machine.
const NOT_OF_STORES: [&str; 6] = [
    "vcz.populations",
    "vcz.sample_column",
    "vcz.population_column",
    "vcz.unknown_samples",
    "vcz.cache_dir",
    "vcz.cache_size",
];

/// The locations of a table's stores, and the options that they are opened with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TableOrigin {
    /// Absolute paths and URLs.
    pub locations: Vec<String>,
    /// Names and values.
    pub options: Vec<(String, String)>,
}

impl TableOrigin {
    /// The origin of a table of the stores `found`; `None` if another process could not open them by their locations.
    pub(super) fn of(found: &[Named], options: &TableOptions) -> Option<Self> {
        let locations = found.iter().map(|store| match &store.place.local {
            Some(path) => path.to_str().map(str::to_string),
            // A location with credentials is shown without them.
            None if store.name.contains("***") => None,
            None => Some(store.name.clone()),
        });
        let of_table = options.entries().into_iter();
        let of_table = of_table.filter(|entry| !NOT_OF_STORES.contains(&entry.key.as_str()));
        let of_table = of_table.filter_map(|entry| Some((entry.key, entry.value?)));
        Some(Self {
            locations: locations.collect::<Option<_>>()?,
            options: of_table.chain(options.remote.without_secrets()).collect(),
        })
    }
}
