//! Limits the depth of statements. Expressions and plans are trees that DataFusion visits, compares and drops by recursion, so a short
//! text (`1+1+1+…`) could overflow the stack, which aborts the process. Tokens are counted before the text is parsed.

use std::ops::ControlFlow;

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::visit_relations;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::config::MAX_SQL_BYTES;

/// Most operators and clauses of a statement: each may make its tree one level deeper, and planning time grows with the square of
/// the depth.
const MAX_OPERATORS: usize = 1000;
/// Most tables that a statement may name: each join makes the plan deeper.
const MAX_TABLES: usize = 200;

/// Parses a statement.
///
/// # Errors
/// If it is too long or too deep, or not a valid statement.
pub fn parse(state: &SessionState, sql: &str) -> Result<Statement> {
    check(sql)?;
    let dialect = state.config_options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect)?;
    let mut tables = 0;
    if let Statement::Statement(parsed) = innermost(&statement) {
        // The closure never breaks, so the result is empty.
        let _ = visit_relations(parsed, |_| {
            tables += 1;
            ControlFlow::<()>::Continue(())
        });
    }
    if tables > MAX_TABLES {
        return plan_err!(
            "the statement names {tables} tables, more than the {MAX_TABLES} allowed"
        );
    }
    Ok(statement)
}

/// The statement inside any EXPLAINs.
fn innermost(statement: &Statement) -> &Statement {
    let mut statement = statement;
    while let Statement::Explain(explain) = statement {
        statement = &explain.statement;
    }
    statement
}

fn check(sql: &str) -> Result<()> {
    if sql.len() > MAX_SQL_BYTES {
        return plan_err!(
            "the statement has {} bytes, more than the {MAX_SQL_BYTES} allowed",
            sql.len()
        );
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize()
        .map_err(|error| plan_datafusion_err!("{error}"))?;
    let operators = tokens.iter().filter(|token| deepens(token)).count();
    if operators > MAX_OPERATORS {
        return plan_err!(
            "the statement has {operators} operators and clauses, more than the {MAX_OPERATORS} allowed; \
             write many values as IN (…), VALUES or a table"
        );
    }
    Ok(())
}

/// Whether a token may make a tree deeper. Lists and their items do not; the parser itself limits parentheses.
fn deepens(token: &Token) -> bool {
    match token {
        Token::EOF
        | Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::Whitespace(_)
        | Token::Comma
        | Token::LParen
        | Token::RParen
        | Token::RBracket
        | Token::SemiColon
        | Token::Placeholder(_) => false,
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::BETWEEN
                | Keyword::AT
                | Keyword::COLLATE
                | Keyword::ESCAPE
                | Keyword::OVERLAPS
                | Keyword::OPERATOR
                | Keyword::XOR
                | Keyword::DIV
                | Keyword::RLIKE
                | Keyword::REGEXP
                | Keyword::SELECT
                | Keyword::FROM
                | Keyword::JOIN
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
        ),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_counted_lists_are_not() {
        let chain = |part: &str, times: usize| format!("SELECT 1{}", part.repeat(times));
        for part in [
            "+1",
            " AND 1",
            "::INT",
            "[1]",
            " UNION SELECT 1",
            " IS NULL",
            " || 'x'",
        ] {
            assert!(check(&chain(part, 450)).is_ok(), "{part}");
            assert!(check(&chain(part, 1001)).is_err(), "{part}");
        }
        let list = vec!["'a'"; 50_000].join(", ");
        assert!(check(&format!("SELECT 1 WHERE 'b' IN ({list})")).is_ok());
        let long = format!("SELECT '{}'", "x".repeat(MAX_SQL_BYTES));
        assert!(check(&long).unwrap_err().to_string().contains("1048576"));
    }

    #[tokio::test]
    async fn tables_are_counted() {
        let state = datafusion::prelude::SessionContext::new().state();
        let from = |tables: usize| format!("SELECT 1 FROM {}", vec!["t"; tables].join(", "));
        assert!(parse(&state, &from(MAX_TABLES)).is_ok());
        assert!(parse(&state, &from(MAX_TABLES + 1)).is_err());
        assert!(parse(&state, &format!("EXPLAIN {}", from(MAX_TABLES + 1))).is_err());
    }
}
