//! Completion with the tab key at the prompt: tables, columns, functions, settings, populations and keywords, and files where a location is
//! expected. A line is complete when it ends with a semicolon or is a command. It is parsed only when it is run, so that an invalid line
//! leaves the prompt empty and stays in the history.

use std::borrow::Cow;
use std::collections::BTreeSet;

use datafusion::prelude::SessionContext;
use datafusion_cli::helper::CliHelper;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use crate::scan::VczTable;

/// Keywords to complete.
const KEYWORDS: [&str; 32] = [
    "AND", "AS", "BETWEEN", "BY", "CASE", "COPY", "CREATE", "DESCRIBE", "DISTINCT", "EXPLAIN",
    "EXTERNAL", "FILTER", "FROM", "GROUP", "HAVING", "INSERT", "JOIN", "LIMIT", "LOCATION", "NOT",
    "NULL", "OPTIONS", "ORDER", "OVER", "SELECT", "SET", "SHOW", "STORED", "TABLE", "UNION",
    "VALUES", "WHERE",
];

/// Completes, colours and ends the lines of the prompt.
pub struct PromptHelper {
    /// Colours and the first hint.
    stock: CliHelper,
    files: FilenameCompleter,
    /// Candidates outside of quotes.
    words: BTreeSet<String>,
    /// Tables and table functions: candidates where a table is expected.
    tables: BTreeSet<String>,
    /// Populations of the tables: candidates inside of quotes.
    populations: BTreeSet<String>,
}

impl PromptHelper {
    /// A helper that knows keywords only; in colours if `color`.
    pub fn new(color: bool) -> Self {
        Self {
            stock: CliHelper::new(&datafusion::config::Dialect::Generic, color),
            files: FilenameCompleter::new(),
            words: BTreeSet::new(),
            tables: BTreeSet::new(),
            populations: BTreeSet::new(),
        }
    }

    /// Updates the candidates from the session. Tables that cannot be opened are left out.
    pub async fn learn(&mut self, ctx: &SessionContext) {
        let state = ctx.state();
        let dialect = &state.config_options().sql_parser.dialect;
        self.stock.set_dialect(dialect);
        let keywords = KEYWORDS.iter().map(|word| word.to_string());
        self.words = keywords.collect();
        self.tables.clear();
        self.populations.clear();
        let functions = state
            .scalar_functions()
            .keys()
            .chain(state.aggregate_functions().keys())
            .chain(state.window_functions().keys())
            .chain(state.table_functions().keys());
        self.words
            .extend(functions.map(|function| format!("{function}(")));
        let functions = state.table_functions().keys();
        self.tables
            .extend(functions.map(|function| format!("{function}(")));
        let settings = state.config_options().entries();
        self.words
            .extend(settings.into_iter().map(|entry| entry.key));
        let catalogs = state.catalog_list();
        for catalog in catalogs.catalog_names() {
            let Some(catalog) = catalogs.catalog(&catalog) else {
                continue;
            };
            for schema in catalog.schema_names() {
                let Some(schema) = catalog.schema(&schema) else {
                    continue;
                };
                for name in schema.table_names() {
                    let Ok(Some(table)) = schema.table(&name).await else {
                        continue;
                    };
                    let columns = table.schema();
                    self.words
                        .extend(columns.fields().iter().map(|field| field.name().clone()));
                    if let Some(store) = table.downcast_ref::<VczTable>() {
                        let populations = store.context().populations().iter();
                        self.populations
                            .extend(populations.map(|(population, _)| population.to_string()));
                    }
                    self.tables.insert(name.clone());
                    self.words.insert(name);
                }
            }
        }
    }

    /// The offset in `line` from which to complete, and the candidates.
    fn candidates(&self, line: &str) -> (usize, Vec<Pair>) {
        let in_quotes = line.matches('\'').count() % 2 == 1;
        let is_part = |c: char| match in_quotes {
            true => c != '\'',
            false => c.is_alphanumeric() || matches!(c, '_' | '.'),
        };
        let start = line
            .char_indices()
            .rev()
            .take_while(|(_, c)| is_part(*c))
            .last()
            .map_or(line.len(), |(at, _)| at);
        let typed = line.get(start..).unwrap_or_default();
        if typed.is_empty() && !in_quotes {
            return (start, vec![]);
        }
        let lower = typed.to_lowercase();
        let before = line.get(..start).unwrap_or_default();
        let words = match in_quotes {
            true => &self.populations,
            false if takes_a_table(before) => &self.tables,
            false => &self.words,
        };
        let pairs = words
            .iter()
            .filter(|word| word.to_lowercase().starts_with(&lower))
            .map(|word| Pair {
                display: word.clone(),
                replacement: word.clone(),
            });
        (start, pairs.collect())
    }
}

/// The command of a prompt's lines, without its backslash, and what was typed before it. A command ends an unfinished statement, whose
/// last line it then is, unless it is inside of quotes; `quit`, `exit` and `help` alone are commands, as in psql.
pub fn command_of(input: &str) -> Option<(&str, &str)> {
    let word = input.trim_end_matches(';').trim_end();
    if ["quit", "exit"]
        .iter()
        .any(|quit| quit.eq_ignore_ascii_case(word))
    {
        return Some(("q", ""));
    }
    if word.eq_ignore_ascii_case("help") {
        return Some(("?", ""));
    }
    if let Some(command) = input.strip_prefix('\\') {
        return Some((command, ""));
    }
    let (before, line) = input.rsplit_once('\n')?;
    let command = line.trim_start().strip_prefix('\\')?;
    let in_quotes = ['\'', '"']
        .iter()
        .any(|quote| !before.matches(*quote).count().is_multiple_of(2));
    (!in_quotes).then_some((command, before))
}

/// Whether a table follows `before`.
fn takes_a_table(before: &str) -> bool {
    let word = before.split_whitespace().next_back().unwrap_or_default();
    ["FROM", "JOIN", "DESCRIBE"]
        .iter()
        .any(|expected| expected.eq_ignore_ascii_case(word))
}

/// Whether `line` ends inside of the quotes of a location: after LOCATION, FROM, JOIN, TO, or a mask's or population's file.
fn ends_in_location(line: &str) -> bool {
    if line.matches('\'').count().is_multiple_of(2) {
        return false;
    }
    let before = line.rsplit_once('\'').map_or("", |(before, _)| before);
    let word = before.split_whitespace().next_back().unwrap_or_default();
    ["LOCATION", "FROM", "JOIN", "TO", "'vcz.populations'"]
        .iter()
        .any(|expected| expected.eq_ignore_ascii_case(word))
}

impl Completer for PromptHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        ctx: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or(line);
        match ends_in_location(before) {
            true => self.files.complete(line, pos, ctx),
            false => Ok(self.candidates(before)),
        }
    }
}

impl Validator for PromptHelper {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        self.stock.reset_hint();
        let input = ctx.input().trim();
        let is_whole = input.is_empty() || input.ends_with(';') || command_of(input).is_some();
        Ok(match is_whole {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for PromptHelper {
    type Hint = String;

    fn hint(&self, line: &str, pos: usize, ctx: &Context<'_>) -> Option<String> {
        self.stock.hint(line, pos, ctx)
    }
}

impl Highlighter for PromptHelper {
    fn highlight<'l>(&self, line: &'l str, pos: usize) -> Cow<'l, str> {
        self.stock.highlight(line, pos)
    }

    fn highlight_char(&self, line: &str, pos: usize, kind: CmdKind) -> bool {
        self.stock.highlight_char(line, pos, kind)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.stock.highlight_hint(hint)
    }
}

impl Helper for PromptHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn words_of_the_session() {
        let ctx = SessionContext::new();
        crate::session::register(&ctx).unwrap();
        ctx.sql("CREATE TABLE exons AS SELECT 1 AS exon_start")
            .await
            .unwrap();
        let mut helper = PromptHelper::new(false);
        helper.learn(&ctx).await;
        let completed = |line: &str| {
            let (start, pairs) = helper.candidates(line);
            let words = pairs.into_iter().map(|pair| pair.replacement);
            (start, words.collect::<Vec<_>>())
        };
        assert_eq!(
            completed("SELECT exon"),
            (7, vec!["exon_start".into(), "exons".into()])
        );
        assert_eq!(completed("descr"), (0, vec!["DESCRIBE".to_string()]));
        assert_eq!(completed("SELECT fay_wu_h_").1, ["fay_wu_h_norm("]);
        assert_eq!(completed("SET vcz.pre").1, ["vcz.prefetch"]);
        assert_eq!(completed("SELECT 1 + ").1, Vec::<String>::new());
        assert_eq!(completed("SELECT 1 FROM ex").1, ["exons"]);
        assert_eq!(completed("SELECT 1 from genome_w").1, ["genome_windows("]);
    }

    #[test]
    fn commands() {
        for (input, expected) in [
            ("\\q", Some(("q", ""))),
            ("\\d sim", Some(("d sim", ""))),
            ("quit", Some(("q", ""))),
            ("EXIT;", Some(("q", ""))),
            ("help", Some(("?", ""))),
            ("SELECT 1\n  \\q", Some(("q", "SELECT 1"))),
            ("SELECT 'a\n\\q", None),
            ("SELECT 1\nquit", None),
            ("SELECT help", None),
            ("SELECT 1;", None),
        ] {
            assert_eq!(command_of(input), expected, "{input}");
        }
    }

    #[test]
    fn locations() {
        assert!(ends_in_location(
            "CREATE EXTERNAL TABLE a STORED AS VCZ LOCATION '/da"
        ));
        assert!(ends_in_location("SELECT * FROM '"));
        assert!(!ends_in_location("SELECT sfs(call_genotype, 'A"));
        assert!(!ends_in_location("SELECT * FROM 'a.vcz'"));
    }
}
