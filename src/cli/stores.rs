//! Registers the stores of the command line as tables, named after the stores.

use std::path::Path;

use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use super::environment::Environment;
use crate::scan::{RemoteOptions, shown_location};
use crate::session::message;

/// Suffixes that are left out of a table's name, the longest first.
const ENDINGS: [&str; 3] = [".vcz.zip", ".vcz", ".zip"];

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

/// The tables of several stores, in their order.
///
/// # Errors
/// A message if two of them would have the same name.
pub fn table_names(locations: &[String]) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::with_capacity(locations.len());
    for location in locations {
        let name = table_name(location)?;
        if let Some((_, other)) = names
            .iter()
            .zip(locations)
            .find(|(known, _)| **known == name)
        {
            let (other, location) = (shown_location(other), shown_location(location));
            return Err(format!(
                "'{other}' and '{location}' would both be the table \"{name}\"; give one of them in SQL instead: \
                 CREATE EXTERNAL TABLE other_name STORED AS VCZ LOCATION '{location}'"
            ));
        }
        names.push(name);
    }
    Ok(names)
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

/// Opens the store at `location` as the table `name`, with these options.
///
/// # Errors
/// A message that names the store, an option, or the populations file, and what is wrong with it.
pub async fn register(
    environment: &Environment,
    name: &str,
    location: &str,
    options: &[(String, String)],
) -> Result<(), String> {
    let populations = options.iter().find(|(key, _)| key == "vcz.populations");
    let populations = populations.map(|(_, file)| file.as_str());
    for (what, place) in [("store", Some(location)), ("populations file", populations)] {
        if let Some(place) = place
            && !is_url(place)
            && !Path::new(place).exists()
        {
            return Err(format!("there is no {what} '{place}'"));
        }
    }
    let mut sql = format!(
        "CREATE EXTERNAL TABLE {} STORED AS VCZ LOCATION {}",
        quoted(name),
        literal(location)
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
        // The table has an object store of its own.
        let created = environment.ctx.sql(&sql).await.map_err(failed)?;
        return created.collect().await.map(drop).map_err(failed);
    }
    // By the CLI's CREATE EXTERNAL TABLE, which creates object stores for URLs.
    let silent = PrintOptions {
        format: PrintFormat::Automatic,
        quiet: true,
        maxrows: MaxRows::Limited(0),
        color: false,
        instrumented_registry: environment.stores.clone(),
    };
    exec_from_commands(&environment.cli(), vec![sql], &silent)
        .await
        .map_err(failed)
}

/// The file of `FILE:SAMPLE,POPULATION`, and the columns of sample ids and populations. Without them, and where there is a file of the whole
/// name, it is all of it.
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

fn literal(text: &str) -> String {
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
        let names = |locations: &[&str]| {
            table_names(&locations.iter().map(|l| l.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(names(&["a.vcz", "b.vcz"]).unwrap(), ["a", "b"]);
        let clash = names(&["x/a.vcz", "b.vcz", "y/a.vcz.zip"]).unwrap_err();
        assert!(
            clash.contains("x/a.vcz") && clash.contains("y/a.vcz.zip") && clash.contains("\"a\""),
            "{clash}"
        );
    }

    #[test]
    fn quoting() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("it's"), "'it''s'");
    }
}
