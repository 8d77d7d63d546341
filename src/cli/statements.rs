//! Runs the SQL statements of scripts, of `-c`, and of the prompt, and prints their results. CREATE EXTERNAL TABLE and COPY may need new
//! object stores, so the `datafusion-cli` crate runs them, which creates these. The results of all other statements are printed by
//! `print`, batch by batch if the format allows it.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use datafusion::common::instant::Instant;
use datafusion::common::{Result, config_err, plan_datafusion_err};
use datafusion::config::Dialect;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::{Dialect as SqlDialect, dialect_from_str};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use super::environment::Environment;
use super::print;
use crate::functions::spectrum_file::{FileOptions, SpectrumFormat};
use crate::scan::write::WriteOptions;
use crate::session::{
    FILE_TYPE, explain_unknown_column, is_untyped_prepare, is_vcz, without_types,
};

/// Runs all statements of `sql`, one after the other, up to the first that fails. Nothing is run if one of them cannot be parsed.
///
/// # Errors
/// An error of parsing, planning, running or printing. That standard output was closed is not an error.
pub async fn run(environment: &Environment, options: &PrintOptions, sql: &str) -> Result<()> {
    for (text, statement) in parse(environment, sql)? {
        let reader_is_there = run_one(environment, options, text, statement).await;
        for notice in environment.notices.take() {
            eprintln!("Note: {notice}");
        }
        if !reader_is_there? {
            return Ok(());
        }
    }
    Ok(())
}

/// The statements of `sql`, each with its text.
///
/// # Errors
/// If one of them cannot be parsed.
pub fn parse<'a>(environment: &Environment, sql: &'a str) -> Result<Vec<(&'a str, Statement)>> {
    let dialect = dialect(&environment.ctx.copied_config().options().sql_parser.dialect)?;
    let mut statements = vec![];
    for text in split(sql, dialect.as_ref()) {
        let parsed = DFParserBuilder::new(text)
            .with_dialect(dialect.as_ref())
            .build()?
            .parse_statements()?;
        statements.extend(parsed.into_iter().map(|statement| (text, statement)));
    }
    Ok(statements)
}

/// The plan of a statement.
///
/// # Errors
/// If it cannot be planned; an error about a column names those that may be meant.
pub async fn plan(ctx: &SessionContext, statement: Statement) -> Result<LogicalPlan> {
    let state = ctx.state();
    let untyped = is_untyped_prepare(&statement);
    match state.statement_to_plan(statement).await {
        Ok(plan) if untyped => Ok(without_types(plan)),
        Ok(plan) => Ok(plan),
        Err(error) => Err(explain_unknown_column(&state, error).await),
    }
}

/// Runs a COPY or CREATE EXTERNAL TABLE of this text, with new object stores if it needs some. Returns false for any other statement, and
/// for a COPY to a VCZ store that needs none, or makes its own.
///
/// # Errors
/// An error of the statement; a local file that a failed COPY has created is removed.
pub async fn run_of_files(
    environment: &Environment,
    options: &PrintOptions,
    text: &str,
    plan: &LogicalPlan,
) -> Result<bool> {
    let target = match plan {
        LogicalPlan::Copy(copy) if is_vcz(copy.file_type.as_ref()) => {
            let makes_its_own = WriteOptions::check(&copy.options)?;
            if makes_its_own || is_local(&copy.output_url) {
                return Ok(false);
            }
            check_prefixes(&copy.options)?;
            Some(NewFile::of(copy))
        }
        LogicalPlan::Copy(copy) => {
            if SpectrumFormat::named(&copy.file_type.get_ext()).is_ok() {
                // The CLI crate would refuse an option without its prefix, without its name.
                FileOptions::from_map(&copy.options)?;
            }
            Some(NewFile::of(copy))
        }
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) => {
            if table.file_type.eq_ignore_ascii_case(FILE_TYPE) {
                check_prefixes(&table.options)?;
            }
            None
        }
        _ => return Ok(false),
    };
    let done = exec_from_commands(&environment.cli(), vec![text.to_string()], options).await;
    if let (Err(_), Some(target)) = (&done, target) {
        target.remove();
    }
    done.map(|()| true)
}

/// Checks that the options of a VCZ table or store have their prefix: the CLI crate refuses others, without their names.
///
/// # Errors
/// If one has none.
fn check_prefixes(options: &HashMap<String, String>) -> Result<()> {
    let mut without = options.keys().filter_map(|key| key.strip_prefix("format."));
    match without.next() {
        Some(name) => config_err!("write the option '{name}' with its prefix: 'vcz.{name}'"),
        None => Ok(()),
    }
}

/// The parser's dialect of that name.
fn dialect(name: &Dialect) -> Result<Box<dyn SqlDialect>> {
    dialect_from_str(name).ok_or_else(|| {
        plan_datafusion_err!(
            "unknown SQL dialect '{name}'; expected one of {}",
            Dialect::available()
        )
    })
}

/// Runs one statement. Returns false if standard output was closed.
async fn run_one(
    environment: &Environment,
    options: &PrintOptions,
    text: &str,
    statement: Statement,
) -> Result<bool> {
    let start = Instant::now();
    let ctx = &environment.ctx;
    let shown_whole = matches!(&statement, Statement::Statement(inner)
        if matches!(inner.as_ref(), SqlStatement::ShowVariable { .. }));
    let plan = plan(ctx, statement).await?;
    if run_of_files(environment, options, text, &plan).await? {
        return Ok(true);
    }
    let mut options = options.clone();
    if shown_whole
        || matches!(
            &plan,
            LogicalPlan::Explain(_) | LogicalPlan::DescribeTable(_) | LogicalPlan::Analyze(_)
        )
    {
        options.maxrows = MaxRows::Unlimited;
    }
    let plan = ctx
        .execute_logical_plan(plan)
        .await?
        .create_physical_plan()
        .await?;
    let rows = execute_stream(plan, ctx.task_ctx())?;
    print::results(ctx, &options, rows, start).await
}

/// Whether a location is a path on this machine.
fn is_local(location: &str) -> bool {
    !location.contains("://") || location.starts_with("file://")
}

/// The local file, or folder of files, that a COPY will create.
pub struct NewFile(Option<PathBuf>);

impl NewFile {
    /// The target of a COPY; none if it exists already or is not local, or if it is a VCZ store, whose writer removes what it has written.
    pub fn of(copy: &CopyTo) -> Self {
        let target = copy.output_url.as_str();
        if is_vcz(copy.file_type.as_ref()) {
            return Self(None);
        }
        let path = Path::new(target.strip_prefix("file://").unwrap_or(target));
        let is_new = is_local(target);
        let is_absent = path.symlink_metadata().is_err();
        Self((is_new && is_absent).then(|| path.to_path_buf()))
    }

    /// Removes what a failed COPY has written.
    pub fn remove(self) {
        if let Some(path) = self.0 {
            // Errors are ignored, because the error of the statement is reported.
            let _ = match path.is_dir() {
                true => std::fs::remove_dir_all(&path),
                false => std::fs::remove_file(&path),
            };
        }
    }
}

/// The statements of `sql`, without the semicolons between them. Text that cannot be tokenised is one statement, which the parser rejects.
fn split<'a>(sql: &'a str, dialect: &dyn SqlDialect) -> Vec<&'a str> {
    let Ok(tokens) = Tokenizer::new(dialect, sql).tokenize_with_location() else {
        return vec![sql];
    };
    let mut offsets = Offsets::new(sql);
    let mut ranges: Vec<Range<usize>> = vec![];
    let mut start = 0;
    let mut is_empty = true;
    for token in &tokens {
        match &token.token {
            Token::SemiColon => {
                let at = offsets.of(token.span.start);
                if !is_empty {
                    ranges.push(start..at);
                }
                (start, is_empty) = (at + 1, true);
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => is_empty = false,
        }
    }
    if !is_empty {
        ranges.push(start..sql.len());
    }
    ranges
        .into_iter()
        .filter_map(|range| sql.get(range))
        .collect()
}

/// Byte offsets of ascending locations in a text.
struct Offsets<'a> {
    chars: std::str::CharIndices<'a>,
    /// The location of `chars` in the text.
    at: Location,
    end: usize,
}

impl<'a> Offsets<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            chars: text.char_indices(),
            at: Location { line: 1, column: 1 },
            end: text.len(),
        }
    }

    /// The offset of `location`; the end of the text where it has none.
    fn of(&mut self, location: Location) -> usize {
        loop {
            let offset = self.chars.offset();
            if self.at >= location {
                return offset;
            }
            match self.chars.next() {
                None => return self.end,
                Some((_, '\n')) => {
                    self.at = Location {
                        line: self.at.line + 1,
                        column: 1,
                    };
                }
                Some(_) => self.at.column += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    #[test]
    fn statements_end_at_semicolons_of_their_own() {
        let cases: [(&str, &[&str]); 8] = [
            ("SELECT 1", &["SELECT 1"]),
            ("SELECT 1; SELECT 2;", &["SELECT 1", " SELECT 2"]),
            (
                "SELECT 'a;b'; SELECT \";\"",
                &["SELECT 'a;b'", " SELECT \";\""],
            ),
            ("-- a; b\nSELECT 1;\n/* ; */", &["-- a; b\nSELECT 1"]),
            (
                "SELECT 'Zürich;\n☃' ;\n SELECT 2",
                &["SELECT 'Zürich;\n☃' ", "\n SELECT 2"],
            ),
            (";;", &[]),
            ("", &[]),
            ("SELECT 'open", &["SELECT 'open"]),
        ];
        for (sql, expected) in cases {
            assert_eq!(split(sql, &GenericDialect {}), expected, "{sql}");
        }
    }
}
