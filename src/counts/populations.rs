//! The populations file (`vcz.populations`): names of sets of samples, read once when a table is opened.
//!
//! A TSV or CSV with a header that holds `sample_id` and `population`, or other names that the table's options give; or without a header
//! and exactly those two columns. Other columns are attributes of the samples. A sample may be in several populations; the order of names
//! is that of the file.

use std::collections::HashMap;
use std::sync::Arc;

use super::near_names::near_names;
use super::populations_columns::{add_value, advice_on, layout_of, line_at};
use super::sample_set::{SampleIndex, SampleSet};
use crate::error::{Result, VczError};

/// Advice about lines that are not wanted.
const LEAVE_OUT: &str = "to leave lines out, give a query of a table of the file: 'vcz.populations' 'SELECT sample_id, population FROM … \
                         WHERE …'";
/// Advice about lines of samples that the store does not have.
const IGNORE: &str = "to leave samples out that the store does not have, set the option 'vcz.unknown_samples' to 'ignore'";

/// What to do with lines of samples that the store does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum UnknownSamples {
    /// An error.
    #[default]
    Error,
    /// Leave the lines out: the file is of more samples than the store.
    Ignore,
}

/// A populations file.
#[derive(Debug, Clone, Copy)]
pub struct PopulationsFile<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Its bytes.
    pub text: &'a [u8],
    /// The names of its columns of sample ids and populations; `sample_id` and `population` by default.
    pub columns: Option<(&'a str, &'a str)>,
    /// Whether its samples may be unknown to the store.
    pub unknown_samples: UnknownSamples,
}

/// Named sets of samples, in the order in which the file first names them. No set is empty.
#[derive(Debug, Clone, Default)]
pub struct Populations {
    sets: Vec<(String, Arc<SampleSet>)>,
    by_name: HashMap<String, usize>,
    /// The other columns: name, and the value of each sample by its index. They do not affect populations.
    attributes: Vec<(String, Vec<Option<String>>)>,
    /// Ids in the file that the store does not have, if their lines are left out.
    unknown: Vec<String>,
}

impl PartialEq for Populations {
    fn eq(&self, other: &Self) -> bool {
        self.sets == other.sets
    }
}

impl Eq for Populations {}

impl Populations {
    /// No populations: the table was created without a file.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Parses a populations file; `sample_ids` are those of the store. Where a sample has several lines, the values of an attribute that
    /// differ are joined by commas.
    ///
    /// # Errors
    /// [`VczError::Line`] that names the line of an unknown sample, an empty name, a wrong number of fields or text that is not
    /// UTF-8; [`VczError::Invalid`] for a file without any sample.
    pub fn parse(file: PopulationsFile<'_>, sample_ids: &[String]) -> Result<Self> {
        let PopulationsFile {
            name: file_name,
            text,
            columns: wanted,
            unknown_samples,
        } = file;
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let first_line = text
            .split(|&b| b == b'\n' || b == b'\r')
            .find(|line| !line.is_empty())
            .unwrap_or_default();
        let delimiter = if first_line.contains(&b'\t') {
            b'\t'
        } else {
            b','
        };
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .trim(csv::Trim::All)
            .from_reader(text);

        let samples = SampleIndex::new(sample_ids);
        let mut columns = None;
        let mut unknown: Vec<String> = Vec::new();
        let mut members: Vec<(String, Vec<u32>)> = Vec::new();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut attributes: Vec<(usize, String, Vec<Option<String>>)> = Vec::new();
        let mut record = csv::ByteRecord::new();
        loop {
            let start = reader.position().byte();
            let bad = |reason: String| VczError::Line {
                file: file_name.to_owned(),
                line: line_at(text, start),
                reason,
            };
            let more = reader
                .read_byte_record(&mut record)
                .map_err(|e| bad(e.to_string()))?;
            if !more {
                break;
            }
            if record.len() == 1 && record.as_slice().is_empty() {
                continue; // a line of blanks
            }
            let fields = record
                .iter()
                .map(std::str::from_utf8)
                .collect::<Result<Vec<&str>, _>>()
                .map_err(|e| bad(format!("expected UTF-8 text: {e}")))?;

            let is_first = columns.is_none();
            let layout = match columns {
                Some(layout) => layout,
                None => {
                    let (layout, is_header) = layout_of(&fields, wanted).map_err(|reason| {
                        bad(format!("{reason}{}", advice_on(&fields, wanted, file_name)))
                    })?;
                    columns = Some(layout);
                    if is_header {
                        attributes = layout.attributes(&fields, sample_ids.len());
                        continue;
                    }
                    layout
                }
            };
            let (id, name) = layout.pick(&fields, &bad)?;
            if name.is_empty() {
                return Err(bad(format!(
                    "sample '{id}' has an empty population name; {LEAVE_OUT}"
                )));
            }
            if unknown_samples == UnknownSamples::Ignore && !samples.has(id) {
                unknown.push(id.to_owned());
                continue;
            }
            let index = samples.get(id).map_err(|reason| {
                let hint = if samples.has(name) {
                    format!(
                        "; its population, '{name}', is a sample, so the columns of samples and populations seem to be swapped"
                    )
                } else if is_first {
                    format!(
                        "; if this line is a header, it must name the columns 'sample_id' and 'population'{}",
                        advice_on(&fields, wanted, file_name)
                    )
                } else {
                    String::new()
                };
                bad(format!("{reason}{hint}; {IGNORE}"))
            })?;
            for (column, _, values) in &mut attributes {
                if let (Some(field), Some(value)) =
                    (fields.get(*column), values.get_mut(index as usize))
                {
                    add_value(value, field);
                }
            }
            let slot = *by_name.entry(name.to_owned()).or_insert_with(|| {
                members.push((name.to_owned(), Vec::new()));
                members.len() - 1
            });
            if let Some((_, indices)) = members.get_mut(slot) {
                indices.push(index);
            }
        }
        if members.is_empty() && unknown.is_empty() {
            return Err(VczError::Invalid(format!(
                "'{file_name}' holds no population: expected lines of a sample id and a population name, separated by a tab or a comma"
            )));
        }
        let sets = members
            .into_iter()
            .map(|(name, indices)| (name, Arc::new(SampleSet::new(indices))))
            .collect();
        Ok(Self {
            sets,
            by_name,
            attributes: attributes
                .into_iter()
                .map(|(_, name, values)| (name, values))
                .collect(),
            unknown,
        })
    }

    /// The sample ids of the file's lines that were left out because the store does not have them, in file order.
    pub fn unknown_samples(&self) -> &[String] {
        &self.unknown
    }

    /// The other columns of the file: the name of each, and its value for each sample of the store, `None` where it is empty or the
    /// file lacks the sample.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = (&str, &[Option<String>])> {
        let attributes = self.attributes.iter();
        attributes.map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// The set of a population, if the file has it.
    pub fn get(&self, name: &str) -> Option<&Arc<SampleSet>> {
        self.by_name
            .get(name)
            .and_then(|&i| self.sets.get(i))
            .map(|(_, set)| set)
    }

    /// The set of a population that a query names.
    ///
    /// # Errors
    /// [`VczError::Invalid`] that lists near names, or says how to give a populations file.
    pub fn resolve(&self, name: &str) -> Result<&Arc<SampleSet>> {
        self.get(name).ok_or_else(|| {
            VczError::Invalid(if let (true, Some(first)) = (self.sets.is_empty(), self.unknown.first()) {
                format!(
                    "population '{name}' is unknown: the populations file has no sample of the store; its first sample is '{first}'"
                )
            } else if self.sets.is_empty() {
                format!(
                    "population '{name}' is unknown: the table has no populations file; create it with \
                     OPTIONS ('vcz.populations' 'file.tsv'), or give a list of sample ids"
                )
            } else {
                format!(
                    "population '{name}' is not in the populations file{}; vcz_populations('table') lists all {}",
                    near_names(name, self.names()),
                    self.sets.len()
                )
            })
        })
    }

    /// These sets by their names, which differ. Another table's populations, without attributes.
    pub fn of_sets(sets: Vec<(String, Arc<SampleSet>)>) -> Self {
        let by_name = sets.iter().zip(0..);
        Self {
            by_name: by_name.map(|((name, _), at)| (name.clone(), at)).collect(),
            sets,
            attributes: vec![],
            unknown: vec![],
        }
    }

    /// Names and sets, in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Arc<SampleSet>)> {
        self.sets.iter().map(|(name, set)| (name.as_str(), set))
    }

    /// Names, in file order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sets.iter().map(|(name, _)| name.as_str())
    }

    /// The populations among some samples only: `position` gives a kept sample's new index. Populations of which no sample is
    /// kept are left out.
    pub fn select(&self, position: &HashMap<u32, u32>) -> Self {
        let mut selected = Self::default();
        for (name, samples) in self.iter() {
            let kept: Vec<u32> = samples
                .iter()
                .filter_map(|sample| position.get(&sample).copied())
                .collect();
            if !kept.is_empty() {
                selected
                    .by_name
                    .insert(name.to_string(), selected.sets.len());
                selected
                    .sets
                    .push((name.to_string(), Arc::new(SampleSet::new(kept))));
            }
        }
        selected
    }

    /// The same names, each with the set that `change` makes of its own.
    pub fn map(&self, change: impl Fn(&SampleSet) -> Arc<SampleSet>) -> Self {
        let sets = self.sets.iter();
        Self {
            sets: sets
                .map(|(name, samples)| (name.clone(), change(samples)))
                .collect(),
            by_name: self.by_name.clone(),
            attributes: vec![],
            unknown: vec![],
        }
    }

    /// Number of populations.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are no populations.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> Vec<String> {
        ["HG1", "HG2", "HG3", "NA 4"].map(String::from).into()
    }

    fn parse(text: &str) -> Result<Populations> {
        Populations::parse(file(text.as_bytes()), &ids())
    }

    fn file(text: &[u8]) -> PopulationsFile<'_> {
        PopulationsFile {
            name: "p.tsv",
            text,
            columns: None,
            unknown_samples: UnknownSamples::Error,
        }
    }

    fn message(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_header_may_come_in_any_order_with_other_columns() {
        let p = parse("\u{feff}sex\tpopulation\tsample_id\nF\tYRI\tHG3\nM\tCEU\tHG1\r\nM\tYRI\tHG1\n\n  \nF\tYRI\tHG3\n").unwrap();
        assert_eq!(p.names().collect::<Vec<_>>(), ["YRI", "CEU"]);
        assert_eq!(p.get("YRI").unwrap().indices(), [0, 2]);
        assert_eq!(p.get("CEU").unwrap().indices(), [0]);
        assert!(p.get("yri").is_none());
        assert_eq!((p.len(), p.is_empty()), (2, false));
    }

    #[test]
    fn columns_of_other_names() {
        let text = "IID,Pop,Super pop,sex\nHG1,YRI,AFR,F\nHG3,CEU,EUR,\nHG1,LWK,AFR,M\n";
        let named = |columns| {
            let file = PopulationsFile {
                columns: Some(columns),
                ..file(text.as_bytes())
            };
            Populations::parse(file, &ids())
        };
        let p = named(("iid", "Pop")).unwrap();
        assert_eq!(p.names().collect::<Vec<_>>(), ["YRI", "CEU", "LWK"]);
        let attributes: Vec<_> = p.attributes().collect();
        let some = |text: &str| Some(text.to_string());
        assert_eq!(
            attributes[0],
            ("Super pop", &[some("AFR"), None, some("EUR"), None][..])
        );
        assert_eq!(attributes[1], ("sex", &[some("F,M"), None, None, None][..]));
        let by_super = named(("IID", "Super pop")).unwrap();
        assert_eq!(by_super.get("AFR").unwrap().indices(), [0]);
        let error = named(("IID", "group")).unwrap_err().to_string();
        assert!(
            error.contains("no column 'group'; its columns are 'IID', 'Pop'"),
            "{error}"
        );
    }

    #[test]
    fn a_header_may_be_in_any_case_and_follow_a_hash() {
        for header in ["#sample_id\tpopulation", "Sample_ID\tPopulation"] {
            let p = parse(&format!("{header}\nHG1\tCEU\n")).unwrap();
            assert_eq!(p.get("CEU").unwrap().indices(), [0]);
        }
    }

    #[test]
    fn without_a_header_exactly_two_columns() {
        let p = parse("HG2, pop one\n\"NA 4\",pop one").unwrap();
        assert_eq!(p.get("pop one").unwrap().indices(), [1, 3]);
        assert!(message("HG1\tA\tx\n").contains("exactly two fields"));
        assert!(message("HG1\n").contains("found 1 field"));
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(
            message("sample_id,population\nHG1,A\n\nHG9,A\n"),
            format!(
                "'p.tsv', line 4: the store has no sample 'HG9'; near: 'HG1', 'HG2', 'HG3'; {IGNORE}"
            )
        );
        assert!(message("HG1\tA\nHG2\n").contains("line 2: expected 2 fields, found 1"));
        assert!(message("HG1\t\n").contains("empty population name"));
        for header in ["sample_id\tpop", "sample\tpop", "id,Population"] {
            let found = message(&format!("{header}\nHG1\tA\n"));
            assert!(found.contains("if this line is a header"), "{found}");
            assert!(
                found.contains("--populations 'p.tsv:SAMPLE_COLUMN,POPULATION_COLUMN'"),
                "{found}"
            );
        }
        let found = message("IID\tPop\tsex\nHG1\tA\tF\n");
        assert!(
            found
                .contains("found 3 fields; if it is a header of other names ('IID', 'Pop', 'sex')")
                && found.contains("'vcz.sample_column' and 'vcz.population_column'"),
            "{found}"
        );
        assert!(message("HG1 A\nHG2 A\n").contains("seem to be separated by spaces"));
        assert!(message("HG1;A\nHG2;A\n").contains("seem to be separated by semicolons"));
        assert!(
            message("sample_id,population\nA,HG1\n")
                .contains("its population, 'HG1', is a sample, so the columns")
        );
        assert!(!message("HG1\tA\nHG9\tA\n").contains("header"));
        assert!(message("").contains("holds no population"));
        assert!(message("sample_id,population\n").contains("holds no population"));
        let bad = Populations::parse(file(b"HG1\tA\nHG2\t\xff\n"), &ids()).unwrap_err();
        assert!(bad.to_string().contains("line 2: expected UTF-8"));
    }

    #[test]
    fn samples_of_other_stores_may_be_left_out() {
        let of = |text: &str| {
            let file = PopulationsFile {
                unknown_samples: UnknownSamples::Ignore,
                ..file(text.as_bytes())
            };
            Populations::parse(file, &ids())
        };
        let p = of("HG9\tCHB\nHG1\tYRI\nHG8\tYRI\nHG9\tYRI\n").unwrap();
        assert_eq!(p.names().collect::<Vec<_>>(), ["YRI"]);
        assert_eq!(p.get("YRI").unwrap().indices(), [0]);
        assert_eq!(p.unknown_samples(), ["HG9", "HG8", "HG9"]);
        let none = of("x\tYRI\n").unwrap();
        let unknown = none.resolve("YRI").unwrap_err().to_string();
        assert!(
            unknown.contains("the populations file has no sample of the store"),
            "{unknown}"
        );
        assert!(of("HG9\n").is_err() && of("").is_err());
    }

    #[test]
    fn unknown_names_are_explained() {
        let p = parse("HG1\tYRI\n").unwrap();
        assert!(p.resolve("YRI").is_ok());
        assert!(
            p.resolve("YRJ")
                .unwrap_err()
                .to_string()
                .contains("near: 'YRI'")
        );
        let none = Populations::empty();
        assert!(
            none.resolve("A")
                .unwrap_err()
                .to_string()
                .contains("vcz.populations")
        );
    }
}
