//! Runs SQL statements and prints their results: of scripts, of `-c`, and of the prompt. What needs object stores of its own
//! (CREATE EXTERNAL TABLE, COPY) is run by the `datafusion-cli` crate, which makes them; the results of all others are printed by
//! [`print`](super::print), batch by batch where the format allows it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use datafusion::common::instant::Instant;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::config::Dialect;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::execute_stream;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::{Dialect as SqlDialect, dialect_from_str};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use super::environment::Environment;
use super::print;
use crate::session::name_missing_arrays;

/// Runs all statements of `sql`, one after the other, up to the first that fails. Nothing is run if one of them cannot be parsed.
///
/// # Errors
/// Of parsing, planning, running or printing. A reader of standard output that is gone is none.
pub async fn run(environment: &Environment, options: &PrintOptions, sql: &str) -> Result<()> {
    let dialect = dialect(&environment.ctx.copied_config().options().sql_parser.dialect)?;
    let mut statements = vec![];
    for text in split(sql, dialect.as_ref()) {
        let parsed = DFParserBuilder::new(text)
            .with_dialect(dialect.as_ref())
            .build()?
            .parse_statements()?;
        statements.extend(parsed.into_iter().map(|statement| (text, statement)));
    }
    for (text, statement) in statements {
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

/// The parser's dialect of that name.
fn dialect(name: &Dialect) -> Result<Box<dyn SqlDialect>> {
    dialect_from_str(name).ok_or_else(|| {
        plan_datafusion_err!(
            "unknown SQL dialect '{name}'; expected one of {}",
            Dialect::available()
        )
    })
}

/// Runs one statement. Gives whether there is still someone who reads the results.
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
    let state = ctx.state();
    let plan = match state.statement_to_plan(statement).await {
        Ok(plan) => plan,
        Err(error) => return Err(name_missing_arrays(&state, error).await),
    };
    match &plan {
        LogicalPlan::Copy(copy) => {
            let target = NewFile::at(&copy.output_url);
            let copied =
                exec_from_commands(&environment.cli(), vec![text.to_string()], options).await;
            if copied.is_err() {
                target.remove();
            }
            return copied.map(|()| true);
        }
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(_)) => {
            exec_from_commands(&environment.cli(), vec![text.to_string()], options).await?;
            return Ok(true);
        }
        _ => {}
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

/// A local file, or folder of files, that a COPY is about to make.
struct NewFile(Option<PathBuf>);

impl NewFile {
    /// Of the target of a COPY; nothing where that is there already, or is not local.
    fn at(target: &str) -> Self {
        let path = Path::new(target.strip_prefix("file://").unwrap_or(target));
        let is_new = !target.contains("://") || target.starts_with("file://");
        Self((is_new && !path.exists()).then(|| path.to_path_buf()))
    }

    /// Takes away what a COPY that failed has written.
    fn remove(self) {
        if let Some(path) = self.0 {
            // What was never made, or cannot be removed, is left: the statement's own error is what is reported.
            let _ = match path.is_dir() {
                true => std::fs::remove_dir_all(&path),
                false => std::fs::remove_file(&path),
            };
        }
    }
}

/// The statements of `sql`, without the semicolons between them. Text that has no tokens is one statement, which the parser refuses.
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
    /// Where `chars` is.
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
