//! Registers the stores of the command line as tables, named after the stores.

use std::collections::HashSet;
use std::path::Path;

use datafusion::common::TableReference;
use datafusion_cli::exec::exec_from_commands;

use super::environment::Environment;
use crate::scan::{RemoteOptions, VczTable, is_pattern, is_query, shown_location};
use crate::session::message;

/// Suffixes that are left out of a table's name, the longest first.
const ENDINGS: [&str; 3] = [".vcz.zip", ".vcz", ".zip"];

/// The option of what to do with samples of the populations file that a table does not have.
const UNKNOWN_SAMPLES: &str = "vcz.unknown_samples";

/// The table that a store becomes: the last part of its location without `.vcz.zip`, `.vcz` or `.zip`.
///
/// # Errors
/// A message if nothing is left.
pub fn table_name(location: &str) -> Result<String, String> {
    let path = match location.split_once("://") {
        Some((_, rest)) => rest.split(['?', '#']).next().unwrap_or(rest),
        None => location,
    };
    let trimmed = path.trim_end_matches(['/', std::path::MAIN_SEPARATOR]);
    let mut file = trimmed
        .rsplit(['/', std::path::MAIN_SEPARATOR])
        .next()
        .unwrap_or(trimmed)
        .to_string();
    if !is_url(location) && matches!(file.as_str(), "" | "." | "..") {
        let whole = Path::new(location).canonicalize().ok();
        file = whole
            .as_deref()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .unwrap_or("")
            .to_string();
    }
    let lower = file.to_ascii_lowercase();
    let ending = ENDINGS
        .iter()
        .find(|ending| lower.ends_with(**ending))
        .map_or(0, |ending| ending.len());
    file.truncate(file.len() - ending);
    if file.is_empty() {
        let location = shown_location(location);
        return Err(format!(
            "'{location}' has no name to call a table after; use CREATE EXTERNAL TABLE name STORED AS VCZ LOCATION '{location}'"
        ));
    }
    Ok(file)
}

fn is_url(location: &str) -> bool {
    location.contains("://")
}

/// A table of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreTable {
    /// The table's name.
    pub name: String,
    /// The locations of its stores, patterns and folders of stores included.
    pub locations: Vec<String>,
    /// Whether the name was given, not taken from the store.
    is_named: bool,
}

impl StoreTable {
    /// The table `name` of the store, or the stores, at `location`.
    pub fn new(name: &str, location: &str) -> Self {
        Self::of_stores(name, vec![location.to_string()])
    }

    /// The table `name` of the stores at `locations`.
    pub fn of_stores(name: &str, locations: Vec<String>) -> Self {
        Self {
            name: name.to_string(),
            locations,
            is_named: true,
        }
    }

    /// Its locations as messages show them.
    pub fn shown(&self) -> String {
        let shown = self.locations.iter().map(|place| shown_location(place));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// The tables of several arguments, in their order. Each is a location, whose table is named after it, or NAME=LOCATION; arguments
/// with the same NAME are one table.
///
/// # Errors
/// A message if two tables would have the same name, or a pattern has no table name.
pub fn tables(arguments: &[String]) -> Result<Vec<StoreTable>, String> {
    let mut tables: Vec<StoreTable> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let table = match named(argument) {
            Some((_, "")) => return Err(format!("'{argument}' has no location after '='")),
            Some((name, location)) => StoreTable::new(name, location),
            None if is_pattern(argument) => {
                let argument = shown_location(argument);
                return Err(format!(
                    "'{argument}' is a pattern, and its table needs a name: genome='{argument}'"
                ));
            }
            None => StoreTable {
                is_named: false,
                ..StoreTable::new(&table_name(argument)?, argument)
            },
        };
        match tables.iter_mut().find(|known| known.name == table.name) {
            Some(known) if known.is_named && table.is_named => {
                known.locations.extend(table.locations);
            }
            Some(known) => {
                let (other, location) = (known.shown(), table.shown());
                return Err(format!(
                    "'{other}' and '{location}' would both be the table \"{}\"; give one of them another name: \
                     other_name='{location}'",
                    table.name
                ));
            }
            None => tables.push(table),
        }
    }
    Ok(tables)
}

/// The name and the location of NAME=LOCATION; `None` where an argument is a location alone.
fn named(argument: &str) -> Option<(&str, &str)> {
    let (name, location) = argument.split_once('=')?;
    let is_name = !name.is_empty() && !name.contains(['/', '\\', ':', '*', '?', '[']);
    (is_name && !Path::new(argument).exists()).then_some((name, location))
}

/// An argument `KEY=VALUE`.
///
/// # Errors
/// A message if it is not of this form.
pub fn option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_ascii_lowercase(), value.to_string()))
        }
        _ => Err("expected KEY=VALUE, such as aws.region=eu-west-1".to_string()),
    }
}

/// The options of the tables: those that were given, and the populations.
pub fn options(populations: Option<&str>, given: &[(String, String)]) -> Vec<(String, String)> {
    let mut options = vec![];
    if let Some(argument) = populations {
        let (file, columns) = populations_columns(argument);
        options.push(("vcz.populations", file));
        if let Some((sample, population)) = columns {
            options.push(("vcz.sample_column", sample));
            options.push(("vcz.population_column", population));
        }
    }
    let options = options.into_iter();
    options
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .chain(given.iter().cloned())
        .collect()
}

/// Opens the stores of each of `tables` as one table, with these options, and calls `registered` with each. The populations file may be of
/// the samples of several tables.
///
/// # Errors
/// Those of [`register`]; a message if no table has a sample of the populations file.
pub async fn register_all(
    environment: &Environment,
    tables: &[StoreTable],
    options: &[(String, String)],
    registered: impl Fn(&StoreTable),
) -> Result<(), String> {
    let given = |key: &str| options.iter().find(|(known, _)| known == key);
    let file = given("vcz.populations").filter(|_| given(UNKNOWN_SAMPLES).is_none());
    let shared = file.filter(|_| tables.len() > 1);
    let mut options = options.to_vec();
    if shared.is_some() {
        options.push((UNKNOWN_SAMPLES.to_string(), "ignore".to_string()));
    }
    for table in tables {
        register(environment, table, &options).await?;
        registered(table);
    }
    match shared {
        Some((_, file)) => check_samples(environment, tables, file).await,
        None => Ok(()),
    }
}

/// Returns an error if the populations file names a sample that none of the tables has.
async fn check_samples(
    environment: &Environment,
    tables: &[StoreTable],
    file: &str,
) -> Result<(), String> {
    let mut unknown: Option<Vec<String>> = None;
    for table in tables {
        let name = TableReference::bare(table.name.as_str());
        let provider = environment.ctx.table_provider(name).await;
        let provider = provider.map_err(|error| message(&error))?;
        let Some(table) = provider.downcast_ref::<VczTable>() else {
            continue;
        };
        let of_table: HashSet<&String> = (table.context().populations())
            .unknown_samples()
            .iter()
            .collect();
        unknown = Some(match unknown {
            None => of_table.into_iter().cloned().collect(),
            Some(mut samples) => {
                samples.retain(|sample| of_table.contains(sample));
                samples
            }
        });
    }
    let mut unknown = unknown.unwrap_or_default();
    unknown.sort();
    match unknown.first() {
        None => Ok(()),
        Some(first) => Err(format!(
            "'{}': none of the stores has the sample '{first}'{}; to leave samples out that no store has: --option {UNKNOWN_SAMPLES}=ignore",
            shown_location(file),
            match unknown.len() {
                1 => String::new(),
                more => format!(", and {} more", more - 1),
            }
        )),
    }
}

/// Opens the stores of `table` as one table, with these options.
///
/// # Errors
/// A message that names the store, an option, or the populations file, and what is wrong with it.
pub async fn register(
    environment: &Environment,
    table: &StoreTable,
    options: &[(String, String)],
) -> Result<(), String> {
    let populations = options.iter().find(|(key, _)| key == "vcz.populations");
    let populations = populations.map(|(_, file)| file.as_str());
    let stores = table.locations.iter();
    let stores = stores.filter(|location| !is_pattern(location));
    let places = stores.map(|store| ("store", store.as_str())).chain(
        populations
            .filter(|value| !is_query(value))
            .map(|file| ("populations file", file)),
    );
    for (what, place) in places {
        if !is_url(place) && !Path::new(place).exists() {
            return Err(format!("there is no {what} '{place}'"));
        }
    }
    let locations: Vec<String> = table.locations.iter().map(|text| literal(text)).collect();
    let mut sql = format!(
        "CREATE EXTERNAL TABLE {} STORED AS VCZ LOCATION ({})",
        quoted(&table.name),
        locations.join(", ")
    );
    if !options.is_empty() {
        let list = options
            .iter()
            .map(|(key, value)| format!("{} {}", literal(key), literal(value)));
        sql += &format!(" OPTIONS ({})", list.collect::<Vec<_>>().join(", "));
    }
    let failed = |error| message(&error);
    if options
        .iter()
        .any(|(key, _)| RemoteOptions::has_prefix(key))
    {
        // The table has its own object store.
        let created = environment.ctx.sql(&sql).await.map_err(failed)?;
        return created.collect().await.map(drop).map_err(failed);
    }
    // Use the CLI's CREATE EXTERNAL TABLE, which creates object stores for URLs.
    exec_from_commands(&environment.cli(), vec![sql], &environment.silent())
        .await
        .map_err(failed)
}

/// The file of `FILE:SAMPLE,POPULATION`, and the columns of sample ids and populations. If there are no columns, or a file has the whole
/// argument as its name, the argument is the file.
fn populations_columns(argument: &str) -> (&str, Option<(&str, &str)>) {
    if !is_url(argument) && Path::new(argument).exists() {
        return (argument, None);
    }
    match argument.rsplit_once(':') {
        Some((file, columns)) if !file.is_empty() && !columns.contains('/') => {
            (file, columns.split_once(','))
        }
        _ => (argument, None),
    }
}

/// A quoted SQL identifier.
pub fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

/// A SQL string.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let cases = [
            ("1kg.chr1.vcz.zip", "1kg.chr1"),
            ("/data/ag/gambX.vcz", "gambX"),
            ("gambX.vcz/", "gambX"),
            ("../a.zip", "a"),
            ("store", "store"),
            ("Sim.VCZ.ZIP", "Sim"),
            ("s3://bucket/path/x.y.vcz/", "x.y"),
            ("https://host/x.vcz.zip?sig=a/b", "x"),
        ];
        for (location, name) in cases {
            assert_eq!(table_name(location).as_deref(), Ok(name), "{location}");
        }
        for location in ["", "/", ".vcz", "https://", "s3://bucket/.vcz.zip"] {
            assert!(table_name(location).is_err(), "{location}");
        }
        assert!(table_name(".").is_ok());
    }

    fn tables_of(arguments: &[&str]) -> Result<Vec<(String, String)>, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| text.to_string()).collect();
        let tables = tables(&arguments)?;
        Ok(tables
            .into_iter()
            .map(|table| (table.name.clone(), table.shown()))
            .collect())
    }

    #[test]
    fn columns_of_populations() {
        let of = populations_columns;
        assert_eq!(of("meta.csv:IID,Pop"), ("meta.csv", Some(("IID", "Pop"))));
        assert_eq!(of("no/such.tsv"), ("no/such.tsv", None));
        assert_eq!(
            of("https://host:80/meta.csv:Sample name,Super pop"),
            (
                "https://host:80/meta.csv",
                Some(("Sample name", "Super pop"))
            )
        );
        assert_eq!(
            of("https://host:80/meta.csv"),
            ("https://host:80/meta.csv", None)
        );
    }

    #[test]
    fn clashes() {
        let clash = tables_of(&["x/a.vcz", "b.vcz", "y/a.vcz.zip"]).unwrap_err();
        assert!(
            clash.contains("x/a.vcz") && clash.contains("y/a.vcz.zip") && clash.contains("\"a\""),
            "{clash}"
        );
        assert!(tables_of(&["a=x.vcz", "a.vcz"]).is_err());
    }

    #[test]
    fn names_that_are_given() {
        let pair = |name: &str, shown: &str| (name.to_string(), shown.to_string());
        assert_eq!(
            tables_of(&[
                "a.vcz",
                "b=a.vcz",
                "genome=chr*.vcz",
                "c=x=y.vcz",
                "genome=more/"
            ]),
            Ok(vec![
                pair("a", "a.vcz"),
                pair("b", "a.vcz"),
                pair("genome", "chr*.vcz, more/"),
                pair("c", "x=y.vcz"),
            ])
        );
        assert_eq!(
            tables_of(&["s3://bucket/a.vcz?key=1", "dir/k=v.vcz"]),
            Ok(vec![
                pair("a", "s3://bucket/a.vcz?…"),
                pair("k=v", "dir/k=v.vcz"),
            ])
        );
        let unnamed = tables_of(&["chr*.vcz"]).unwrap_err();
        assert!(unnamed.contains("genome='chr*.vcz'"), "{unnamed}");
        assert!(tables_of(&["a="]).is_err());
    }

    #[test]
    fn quoting() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("it's"), "'it''s'");
    }
}
