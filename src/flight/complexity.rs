//! Limits the length and the depth of statements before they are parsed. Expressions and plans are trees that DataFusion visits, compares
//! and drops by recursion, so a short text (`1+1+1+…`) could overflow the stack, which aborts the process.

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::config::MAX_SQL_BYTES;
use super::parser;

/// Most operators and clauses of a statement: each may make its tree one level deeper, and planning time grows with the square of
/// the depth.
const MAX_OPERATORS: usize = 1000;
/// Deepest nesting of brackets and CASE.
const MAX_NESTING: usize = 45;

/// Parses a statement.
///
/// # Errors
/// If it is too long or too deep, or not a valid statement.
pub fn parse(state: &SessionState, sql: &str) -> Result<Statement> {
    let tokens = checked_tokens(sql)?;
    let limit = state.config_options().sql_parser.recursion_limit;
    parser::parse(tokens, limit.get())
}

/// The tokens of a statement.
///
/// # Errors
/// If it is too long or too deep, or has an unknown token.
fn checked_tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    if sql.len() > MAX_SQL_BYTES {
        return plan_err!(
            "the statement has {} bytes, more than the {MAX_SQL_BYTES} allowed",
            sql.len()
        );
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| plan_datafusion_err!("{error}"))?;
    let operators = tokens.iter().filter(|token| deepens(&token.token)).count();
    if operators > MAX_OPERATORS {
        return plan_err!(
            "the statement has {operators} operators and clauses, more than the {MAX_OPERATORS} allowed; \
             write many values as IN (…), VALUES or a table"
        );
    }
    let nesting = nesting(&tokens);
    if nesting > MAX_NESTING {
        return plan_err!(
            "the statement is nested {nesting} levels deep, more than the {MAX_NESTING} allowed; write parts of it as WITH name AS (…)"
        );
    }
    Ok(tokens)
}

/// How deep brackets and CASE are nested.
fn nesting(tokens: &[TokenWithSpan]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            Token::Word(word) if word.keyword == Keyword::CASE => depth += 1,
            Token::Word(word) if word.keyword == Keyword::END => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
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
            assert!(checked_tokens(&chain(part, 450)).is_ok(), "{part}");
            assert!(checked_tokens(&chain(part, 1001)).is_err(), "{part}");
        }
        let list = vec!["'a'"; 50_000].join(", ");
        assert!(checked_tokens(&format!("SELECT 1 WHERE 'b' IN ({list})")).is_ok());
        let long = format!("SELECT '{}'", "x".repeat(MAX_SQL_BYTES));
        assert!(
            checked_tokens(&long)
                .unwrap_err()
                .to_string()
                .contains("1048576")
        );
    }

    #[test]
    fn nesting_is_counted() {
        let nested = |open: &str, close: &str, times: usize| {
            format!("SELECT {}1{}", open.repeat(times), close.repeat(times))
        };
        for (open, close) in [
            ("(", ")"),
            ("CAST(", " AS INT)"),
            ("[", "]"),
            ("{a: ", "}"),
            ("CASE WHEN 1 = 1 THEN ", " END"),
            ("(SELECT ", ")"),
        ] {
            assert!(
                checked_tokens(&nested(open, close, MAX_NESTING)).is_ok(),
                "{open}"
            );
            let error = checked_tokens(&nested(open, close, MAX_NESTING + 1)).unwrap_err();
            assert!(error.to_string().contains("nested 46 levels"), "{error}");
        }
    }
}
