//! The columns of a populations file: which ones have the samples and the populations, what its lines have in them, and advice where
//! the first line does not say.

use crate::error::{Result, VczError};

/// The columns of the sample and the population, and the number of fields of each line.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnLayout {
    sample: usize,
    population: usize,
    fields: usize,
}

impl ColumnLayout {
    /// The columns of attributes that the header names, without values for `samples` samples: number, name, values.
    pub(super) fn attributes(
        &self,
        header: &[&str],
        samples: usize,
    ) -> Vec<(usize, String, Vec<Option<String>>)> {
        let others = header.iter().enumerate();
        others
            .filter(|(at, name)| *at != self.sample && *at != self.population && !name.is_empty())
            .map(|(at, name)| (at, (*name).to_string(), vec![None; samples]))
            .collect()
    }

    /// The sample id and the population of a line; `bad` makes the error of a malformed one.
    pub(super) fn pick<'a>(
        &self,
        fields: &[&'a str],
        bad: &impl Fn(String) -> VczError,
    ) -> Result<(&'a str, &'a str)> {
        if fields.len() != self.fields {
            return Err(bad(format!(
                "expected {} fields, found {}",
                self.fields,
                fields.len()
            )));
        }
        match (fields.get(self.sample), fields.get(self.population)) {
            (Some(id), Some(name)) => Ok((id, name)),
            _ => Err(bad("expected a sample id and a population".into())),
        }
    }
}

/// Adds what a line says of a sample to the value of an attribute.
pub(super) fn add_value(value: &mut Option<String>, field: &str) {
    match value {
        _ if field.is_empty() => {}
        None => *value = Some(field.to_string()),
        Some(known) if known.split(',').any(|one| one == field) => {}
        Some(known) => {
            known.push(',');
            known.push_str(field);
        }
    }
}

/// The layout that the first line shows, and whether that line is a header. `wanted` are the names of the columns of samples and
/// populations, if the table's options give them.
///
/// # Errors
/// The reason why the line shows none.
pub(super) fn layout_of(
    first: &[&str],
    wanted: Option<(&str, &str)>,
) -> Result<(ColumnLayout, bool), String> {
    if let Some((sample, population)) = wanted {
        let column = |name: &str| {
            let exact = first.iter().position(|field| *field == name);
            exact
                .or_else(|| {
                    first
                        .iter()
                        .position(|field| field.eq_ignore_ascii_case(name))
                })
                .ok_or_else(|| {
                    format!(
                        "the header has no column '{name}'; its columns are '{}'",
                        first.join("', '")
                    )
                })
        };
        let layout = ColumnLayout {
            sample: column(sample)?,
            population: column(population)?,
            fields: first.len(),
        };
        return Ok((layout, true));
    }
    let is = |field: &str, name: &str| field.trim_start_matches('#').eq_ignore_ascii_case(name);
    let column = |name: &str| first.iter().position(|field| is(field, name));
    match (column("sample_id"), column("population")) {
        (Some(sample), Some(population)) => Ok((
            ColumnLayout {
                sample,
                population,
                fields: first.len(),
            },
            true,
        )),
        _ if first.len() == 2 => Ok((
            ColumnLayout {
                sample: 0,
                population: 1,
                fields: 2,
            },
            false,
        )),
        _ => Err(format!(
            "expected a header with 'sample_id' and 'population', or exactly two fields (sample id, population); found {} field{}",
            first.len(),
            if first.len() == 1 { "" } else { "s" }
        )),
    }
}

/// What to do about a first line `first` without a layout, or that looks like a header of other names.
pub(super) fn advice_on(first: &[&str], wanted: Option<(&str, &str)>, file: &str) -> String {
    if let [only] = first {
        let separator = if only.contains(';') {
            "semicolons"
        } else if only.contains(char::is_whitespace) {
            "spaces"
        } else {
            return String::new();
        };
        return format!(
            "; fields are separated by tabs or commas, and those of this line seem to be separated by {separator}: replace these"
        );
    }
    match wanted {
        Some(_) => String::new(),
        None => format!(
            "; if it is a header of other names ('{}'), say which columns are meant: --populations \
             '{file}:SAMPLE_COLUMN,POPULATION_COLUMN', or the options 'vcz.sample_column' and 'vcz.population_column'",
            first.join("', '")
        ),
    }
}

/// The 1-based line of the first record at or after byte `start`. The csv reader's own line number does not count the empty
/// lines that it skips next.
pub(super) fn line_at(text: &[u8], start: u64) -> u64 {
    let start = usize::try_from(start).map_or(text.len(), |s| s.min(text.len()));
    let (before, after) = text.split_at(start);
    let skipped = after.iter().take_while(|b| matches!(b, b'\n' | b'\r'));
    let ends = before
        .iter()
        .chain(skipped)
        .filter(|&&b| b == b'\n')
        .count();
    ends as u64 + 1
}
