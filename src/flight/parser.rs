//! Parses SQL text in bounded time.
//!
//! sqlparser backtracks where an expression or a table can be parsed in several ways, and does so on each level of nesting, so the time for
//! an error deep inside (`CAST(CAST(CAST(…`) doubles with each level. It cannot be stopped from outside, but calls methods of its
//! dialect all the time. The dialect here answers as [`GenericDialect`] does, counts the calls, and ends the parser by unwinding
//! after too many, or when the planning of this thread must [stop](super::stop).

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use datafusion::common::{DataFusionError, Result, plan_datafusion_err, plan_err};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::stop;

/// The limit on calls of the dialect: the first number for each token, plus the second.
const QUESTIONS_PER_TOKEN: usize = 1000;
const QUESTIONS: usize = 100_000;
/// Calls of the dialect between two checks whether to stop.
const INTERVAL: usize = 256;

/// Parses one statement; `recursion_limit` is the deepest nesting.
///
/// # Errors
/// A syntax error, no statement or several, or text that takes too long to parse.
pub fn parse(tokens: Vec<TokenWithSpan>, recursion_limit: usize) -> Result<Statement> {
    let dialect = Bounded {
        asked: Cell::new(0),
        most: QUESTIONS + QUESTIONS_PER_TOKEN * tokens.len(),
    };
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        DFParserBuilder::new(tokens)
            .with_dialect(&dialect)
            .with_recursion_limit(recursion_limit)
            .build()?
            .parse_statements()
    }));
    let mut statements: VecDeque<Statement> = match parsed {
        Ok(statements) => statements?,
        Err(reason) => match reason.downcast::<DataFusionError>() {
            Ok(error) => return Err(*error),
            Err(panic) => resume_unwind(panic),
        },
    };
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (Some(_), false) => plan_err!("a request holds one statement, found more"),
        (None, _) => plan_err!("there is no statement in the text"),
    }
}

/// [`GenericDialect`] with a limited number of calls.
#[derive(Debug)]
struct Bounded {
    asked: Cell<usize>,
    most: usize,
}

impl Bounded {
    fn count(&self) {
        let asked = self.asked.get() + 1;
        self.asked.set(asked);
        if asked > self.most {
            self.end(plan_datafusion_err!(
                "the statement takes too long to parse: it is wrong, or nested too deep; write it with fewer levels"
            ));
        }
        if asked.is_multiple_of(INTERVAL)
            && let Err(error) = stop::check()
        {
            self.end(error);
        }
    }

    /// Ends the parser, which cannot be stopped in another way. Unlike a panic this prints nothing, and [`parse`] returns the error.
    fn end(&self, error: DataFusionError) {
        // Reset, so that destructors can still call the dialect.
        self.asked.set(0);
        resume_unwind(Box::new(error) as Box<dyn Any + Send>)
    }
}

/// The methods for which `GenericDialect` overrides the trait's default.
macro_rules! as_generic {
    ($($question:ident)*) => {
        $(fn $question(&self) -> bool {
            self.count();
            GenericDialect.$question()
        })*
    };
}

impl Dialect for Bounded {
    fn dialect(&self) -> TypeId {
        self.count();
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, c: char) -> bool {
        GenericDialect.is_delimited_identifier_start(c)
    }

    fn is_identifier_start(&self, c: char) -> bool {
        GenericDialect.is_identifier_start(c)
    }

    fn is_identifier_part(&self, c: char) -> bool {
        GenericDialect.is_identifier_part(c)
    }

    as_generic! {
        supports_unicode_string_literal
        supports_partition_by_after_order_by
        supports_array_join_syntax
        supports_group_by_expr
        supports_group_by_with_modifier
        supports_left_associative_joins_without_parens
        supports_connect_by
        supports_match_recognize
        supports_pipe_operator
        supports_start_transaction_modifier
        supports_window_function_null_treatment_arg
        supports_dictionary_syntax
        supports_window_clause_named_window_reference
        supports_parenthesized_set_variables
        supports_select_wildcard_except
        support_map_literal_syntax
        allow_extract_custom
        allow_extract_single_quotes
        supports_extract_comma_syntax
        supports_create_view_comment_syntax
        supports_parens_around_table_factor
        supports_values_as_table_factor
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_limit_comma
        supports_update_order_by
        supports_from_first_select
        supports_projection_trailing_commas
        supports_asc_desc_in_column_definition
        supports_try_convert
        supports_bitwise_shift_operators
        supports_comment_on
        supports_load_extension
        supports_named_fn_args_with_assignment_operator
        supports_struct_literal
        supports_empty_projections
        supports_nested_comments
        supports_multiline_comment_hints
        supports_user_host_grantee
        supports_string_escape_constant
        supports_array_typedef_with_brackets
        supports_match_against
        supports_set_names
        supports_comma_separated_set_assignments
        supports_filter_during_aggregation
        supports_select_wildcard_exclude
        supports_data_type_signed_suffix
        supports_interval_options
        supports_quote_delimited_string
        supports_select_wildcard_replace
        supports_select_wildcard_ilike
        supports_select_wildcard_rename
        supports_optimize_table
        supports_install
        supports_detach
        supports_prewhere
        supports_with_fill
        supports_limit_by
        supports_interpolate
        supports_settings
        supports_select_format
        supports_comment_optimizer_hint
        supports_constraint_keyword_without_name
        supports_key_column_option
        supports_comma_separated_trim
        supports_cte_without_as
        supports_select_item_multi_column_alias
        supports_xml_expressions
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    const RECURSION: usize = 50;

    fn tokens(sql: &str) -> Vec<TokenWithSpan> {
        Tokenizer::new(&GenericDialect {}, sql)
            .tokenize_with_location()
            .unwrap()
    }

    fn parsed(sql: &str) -> Result<Statement> {
        parse(tokens(sql), RECURSION)
    }

    #[test]
    fn as_the_generic_dialect() {
        let list = vec!["'a'"; 20_000].join(", ");
        for sql in [
            "SELECT * EXCLUDE (a) FROM t WHERE b IS NOT NULL GROUP BY ALL HAVING count(*) FILTER (WHERE a > 1) > 2 LIMIT 3, 4",
            "SELECT {a: 1}, [1, 2][1], MAP {'x': 1}, x'00', a::INT, INTERVAL '1 day', extract(year FROM d), trim(',' FROM s) FROM t",
            "SELECT sum(a) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (t) WINDOW w AS (PARTITION BY b ORDER BY c)",
            "WITH a AS (SELECT 1), b AS (VALUES (1), (2)) FROM a JOIN b ON TRUE LEFT JOIN LATERAL (SELECT 1) AS l ON TRUE",
            "CREATE VIEW v (a COMMENT 'x') AS SELECT 1",
            "EXPLAIN ANALYZE VERBOSE SELECT f(a => 1, b := 2), #x, @y FROM \"T\" AS `u`",
            "SET TIME ZONE 'UTC'",
            &format!("SELECT 1 WHERE 'b' IN ({list})"),
            &format!("SELECT {}1{}", "CAST(".repeat(45), " AS INT)".repeat(45)),
            &format!("SELECT {}1{}", "(".repeat(45), ")".repeat(45)),
        ] {
            let expected = DFParserBuilder::new(tokens(sql))
                .with_dialect(&GenericDialect {})
                .with_recursion_limit(RECURSION)
                .build()
                .and_then(|mut parser| parser.parse_statements())
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(parsed(sql).unwrap(), expected[0], "{sql}");
        }
    }

    #[test]
    fn errors_deep_inside_end_soon() {
        let nested = |open: &str, inside: &str, close: &str| {
            format!("{}{inside}{}", open.repeat(46), close.repeat(46))
        };
        for sql in [
            format!("SELECT {}", nested("CAST(", "1 2", " AS INT)")),
            format!("SELECT {}", nested("TRY_CAST(", "", " AS INT)")),
            format!("SELECT {}", nested("NOT (", "1 2", ")")),
            format!("SELECT {}", nested("CASE WHEN TRUE THEN ", "1 2", " END")),
            format!("SELECT {}", nested("EXTRACT(YEAR FROM ", "1 2", ")")),
            format!("SELECT {}", nested("f(", "1 2", ")")),
            format!("SELECT {}", nested("(SELECT ", "1 2 3", ")")),
            format!("SELECT {}", nested("[", "1 2", "]")),
            format!("SELECT {}", nested("{a: ", "1 2", "}")),
            format!("SELECT * FROM {}", nested("(", "a b c", ")")),
            format!("SELECT * FROM {}", nested("(a JOIN ", "b c d", ")")),
            format!("SELECT * FROM {}", nested("((", "a b c", "))")),
            format!("SELECT * FROM {}", nested("(SELECT * FROM ", "a b c", ")")),
        ] {
            // A stack as on a server, because those of test threads are smaller.
            let parsing = std::thread::Builder::new().stack_size(32 << 20);
            let parsing = parsing.spawn(move || {
                let started = Instant::now();
                assert!(parsed(&sql).is_err(), "{sql}");
                assert!(started.elapsed() < Duration::from_secs(20), "{sql}");
            });
            parsing.unwrap().join().unwrap();
        }
    }

    #[test]
    fn one_statement() {
        assert!(parsed("SELECT 1;").is_ok());
        assert!(parsed("").is_err() && parsed("SELECT 1; SELECT 2").is_err());
    }
}
