//! Error messages for users: without DataFusion's wrapping, and with this crate's name for a function that does not exist under the name
//! that was used. The command line and servers print errors with it.

use std::path::Path;

use datafusion::common::DataFusionError;

use super::field_words::{hint_on, hint_on_table};
use crate::counts::{near_names, nearest_names};
use crate::error::VczError;

/// Text that DataFusion puts before and after a function's error about its argument types.
const COERCION: (&str, &str) = (
    "user-defined coercion failed with: ",
    ". No function matches the given name and argument types",
);

/// What an error about a table says if there is one of that name in another case.
pub const OTHER_CASE: &str = "Names of tables are case-sensitive.";

/// The message of `error` for users.
pub fn message(error: &DataFusionError) -> String {
    let root = error.find_root();
    if let DataFusionError::External(root) = root
        && root.is::<VczError>()
    {
        return root.to_string();
    }
    let text = peeled(error).strip_backtrace();
    let text = without_candidates(&text);
    if let Some(file) = missing_file(&text) {
        return no_file(file);
    }
    if let Some((_, format)) = text.split_once("Unable to find factory for ") {
        return no_format(format);
    }
    if let Some((_, ending)) = text.split_once("There is no registered file format with ext ") {
        return no_ending(ending);
    }
    if let Some(table) = missing_table(&text) {
        return no_table(&text, table);
    }
    if let Some(function) = missing_table_function(&text) {
        return format!("{text}\n{}", hint_on_table_function(function));
    }
    let text = with_advice_on_names(&text);
    match hint(&text) {
        Some(hint) => format!("{}\n{hint}", without_guess(&text)),
        None if guesses_far(&text) => without_guess(&text).to_string(),
        None => of_a_list(&text)
            .or_else(|| of_a_regex(&text))
            .or_else(|| of_a_cast(&text))
            .or_else(|| of_an_option(&text))
            .unwrap_or(text),
    }
}

/// The message for a table that is not found. `text` may name a table of that name in another case, and then the name stands for that.
fn no_table(text: &str, table: &str) -> String {
    match hint_on_table(table) {
        Some(hint) if !text.contains(OTHER_CASE) => format!("{text}\n{hint}"),
        _ => text.to_string(),
    }
}

/// What a table function that does not exist may be: one of ours without its prefix or misspelt, a word of the field, or another kind of
/// function.
fn hint_on_table_function(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let plain = lower.strip_prefix("vcz_").unwrap_or(&lower);
    let ours = crate::functions::table_functions();
    let names = || ours.iter().map(|(name, _)| *name);
    if let Some(same) = names().find(|ours| ours.strip_prefix("vcz_") == Some(plain)) {
        return format!("Did you mean {same}(…)?");
    }
    if let Some(hint) = hint_on_table(plain).or_else(|| hint_on(plain)) {
        return hint;
    }
    let aggregates = crate::functions::aggregate_functions();
    let scalars = crate::functions::scalar_functions();
    let mut of_rows = aggregates
        .iter()
        .map(|function| function.name())
        .chain(scalars.iter().map(|function| function.name()));
    if of_rows.any(|function| function == lower) {
        return format!("'{lower}' is a function of rows: SELECT {lower}(…) FROM t.");
    }
    if lower.starts_with("read_") {
        return "A file is read by its name, in place of a table: SELECT … FROM 'x.csv'."
            .to_string();
    }
    match nearest_names(&lower, names()).first() {
        Some(near) => format!("Did you mean {near}(…)?"),
        None => format!("The table functions are {}.", names_of_table_functions()),
    }
}

/// The message for text that is no number, with what to do if the query does not ask for a number: DataFusion casts text that it compares
/// with a column of numbers.
fn of_a_cast(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Cannot cast string '")?;
    let (value, rest) = rest.split_once("' to value of ")?;
    let is_number = ["Int", "UInt", "Float"]
        .iter()
        .any(|kind| rest.starts_with(kind));
    is_number.then(|| {
        format!(
            "{text}\nIf a column of numbers is compared with text here, compare both as text: CAST(x AS VARCHAR) = '{value}'. A CSV file's \
             column of contigs has numbers if its first rows have"
        )
    })
}

/// The message for an option without a prefix of a table or file that has no such options.
fn of_an_option(text: &str) -> Option<String> {
    text.contains("Specify a format for TableOptions").then(|| {
        "an option without a prefix is of a CSV, JSON or Parquet file, and this is none; the options of VCZ tables and stores begin with \
         'vcz.', as in 'vcz.populations', and those of files of spectra with 'spectrum.', as in 'spectrum.populations'"
            .to_string()
    })
}

/// Whether `error` says that a regular expression of the query is not valid, or too large.
pub fn is_about_a_regex(error: &DataFusionError) -> bool {
    of_a_regex(&error.strip_backtrace()).is_some()
}

/// The message for a regular expression that is not valid or too large, which DataFusion may report as an internal error.
fn of_a_regex(text: &str) -> Option<String> {
    if text.contains("CompiledTooBig(") || text.contains("Compiled regex exceeds size limit") {
        return Some(
            "the regular expression is too large: repetitions of repetitions, such as (a{1,9}){1,9}, multiply"
                .to_string(),
        );
    }
    let (_, parsed) = text.split_once("regex parse error:\n")?;
    Some(format!("the regular expression is not valid:\n{parsed}"))
}

/// Whether `text` says that a function does not exist, and guesses at one whose name is another word: DataFusion always names the nearest.
fn guesses_far(text: &str) -> bool {
    let named = |before: &str| {
        let (_, rest) = text.split_once(before)?;
        rest.split_once('\'').map(|(name, _)| name)
    };
    match (named("Invalid function '"), named("\nDid you mean '")) {
        (Some(wanted), Some(guess)) => near_names(wanted, std::iter::once(guess)).is_empty(),
        _ => false,
    }
}

/// [`message`] for users who may not know which files there are.
pub fn message_without_files(error: &DataFusionError) -> String {
    let text = peeled(error).strip_backtrace();
    if let Some(file) = missing_file(&text) {
        return format!(
            "there is no table '{file}'; this server reads its own tables only, and SHOW TABLES lists them"
        );
    }
    match missing_table_function(&text) {
        Some(name) => format!(
            "there is no table function '{name}' on this server; it has generate_series, range and {}",
            names_of_table_functions()
        ),
        None => message(error),
    }
}

/// The name of the table function that `text` says does not exist.
fn missing_table_function(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("table function '")?;
    rest.split_once("' not found").map(|(name, _)| name)
}

/// The names of this crate's table functions.
fn names_of_table_functions() -> String {
    let all = crate::functions::table_functions();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// The message for a file that is not there, or that cannot be read as a table.
fn no_file(file: &str) -> String {
    let readable = "VCZ stores (.vcz, .vcz.zip, folders with Zarr metadata; a folder of several stores by a pattern such as \
                    'folder/*.vcz'), .gff3, .gtf, .bed, .parquet, .csv, .tsv, .json, .avro and .arrow";
    if !Path::new(file).exists() {
        return format!(
            "there is no table and no file '{file}'; files that can be read are {readable}"
        );
    }
    let lower = file.to_ascii_lowercase();
    let convert = [".vcf", ".vcf.gz", ".bcf"]
        .iter()
        .any(|ending| lower.ends_with(ending));
    match convert {
        true => format!(
            "'{file}' cannot be read as a table; convert it to VCZ: vcf2zarr convert '{file}' out.vcz (pip install bio2zarr)"
        ),
        false => format!(
            "'{file}' cannot be read as a table by its name; files that can are {readable}. For text with another ending: CREATE EXTERNAL \
             TABLE t STORED AS CSV LOCATION '{file}' OPTIONS ('format.delimiter' '…')"
        ),
    }
}

/// The message for `STORED AS` a format that is not known.
fn no_format(format: &str) -> String {
    let advice = match format {
        "GFF" => "; write STORED AS GFF3, or GTF for its version 2",
        "VCF" | "BCF" => {
            "; convert the file to VCZ: vcf2zarr convert in.vcf.gz out.vcz (pip install 'bio2zarr[vcf]')"
        }
        "ZARR" => "; write STORED AS VCZ",
        _ => "",
    };
    format!(
        "tables cannot be STORED AS {format}{advice}. The formats are VCZ, GFF3, GTF, BED, PARQUET, CSV, TSV, JSON, AVRO and ARROW"
    )
}

/// The message for COPY to a file whose ending names no format that is written.
fn no_ending(ending: &str) -> String {
    let advice = match ending.to_ascii_lowercase().as_str() {
        "vcf" | "bcf" => " (VCF is not written: vcf2zarr and vcztools convert stores)",
        "zarr" => " (name the store x.vcz, or write STORED AS VCZ)",
        _ => "",
    };
    format!(
        "there is no format to write a file with the ending '.{ending}'{advice}; the formats are .vcz, .parquet, .csv, .tsv, .json and .arrow, \
         and of spectra .fs, .obs, .sfs and .npy. STORED AS names the format of a file with another ending"
    )
}

/// The message for a function of numbers that was called on a list, which DataFusion reports as an internal error or with all of the types
/// that the function takes.
fn of_a_list(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("No function matches the given name and argument types '")?;
    let (call, _) = rest.split_once("'. You might")?;
    let (name, types) = call.split_once('(')?;
    // Functions of lists say themselves what they take.
    let takes_lists = ["array_", "list_", "cardinality", "flatten", "unnest"];
    if takes_lists.iter().any(|start| name.starts_with(start)) {
        return None;
    }
    types.contains("List(").then(|| {
        format!(
            "{name} takes one value from each row, and this argument is a list, of type {}; make rows of its elements first: SELECT {name}(x) \
             FROM (SELECT unnest(…) AS x FROM …)",
            types.strip_suffix(')').unwrap_or(types)
        )
    })
}

/// DataFusion's advice about names of another case, which is of no use where identifiers keep their case; and what a name in double quotes
/// is not.
fn with_advice_on_names(text: &str) -> String {
    let advice = "Column names are case sensitive. You can use double quotes to refer to the ";
    let setting = " or disable the datafusion.sql_parser.enable_ident_normalization configuration.";
    if let Some((before, rest)) = text.split_once(advice)
        && let Some((name, after)) = rest.split_once(setting)
    {
        let name = name.trim_end_matches("column ").trim_end_matches(" column");
        return format!("{before}Column names are case-sensitive: write {name}.{after}");
    }
    text.to_string()
}

/// The error without the names of the planning rules around it.
fn peeled(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(rule, inner)
            if !rule.contains(char::is_whitespace)
                || rule.starts_with("Optimizer rule '")
                || rule.contains(" operation on table '") =>
        {
            peeled(inner)
        }
        DataFusionError::Diagnostic(_, inner) => peeled(inner),
        other => other,
    }
}

/// The function's own message about its arguments, where `text` wraps one.
fn without_candidates(text: &str) -> String {
    let (before, after) = COERCION;
    let Some((_, own)) = text.split_once(before) else {
        return text.to_string();
    };
    // The last occurrence, since an argument may contain the same text.
    match own.rsplit_once(after) {
        Some((own, _)) => own.to_string(),
        None => own.to_string(),
    }
}

/// The table that `text` says is not found.
pub fn missing_table(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("table '")?;
    let (table, _) = rest.split_once("' not found")?;
    // After the catalog and the schema.
    table.splitn(3, '.').nth(2)
}

/// The same, if its name looks like a file.
fn missing_file(text: &str) -> Option<&str> {
    missing_table(text).filter(|name| looks_like_a_file(name))
}

/// Whether a name looks like a local file: it contains a folder, or ends in a known file extension.
fn looks_like_a_file(name: &str) -> bool {
    const ENDINGS: [&str; 20] = [
        "parquet", "csv", "tsv", "json", "ndjson", "avro", "arrow", "gz", "bgz", "zip", "vcf",
        "bcf", "gff3", "gff", "gtf", "bed", "txt", "tab", "dat", "panel",
    ];
    let ending = Path::new(name)
        .extension()
        .and_then(|ending| ending.to_str());
    !name.contains("://")
        && (name.contains('/')
            || ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str())))
}

/// The name of the function that `text` says does not exist, or does not take its arguments.
fn refused_function(text: &str) -> Option<&str> {
    let named = |before: &str, after: &str| {
        let (_, rest) = text.split_once(before)?;
        rest.split_once(after).map(|(name, _)| name)
    };
    named("Invalid function '", "'").or_else(|| {
        // DataFusion has a pi() of its own.
        text.contains("function 'pi' expected zero argument")
            .then_some("pi")
    })
}

fn hint(text: &str) -> Option<String> {
    let name = refused_function(text)?;
    hint_on(name).or_else(|| {
        let ours = crate::functions::table_functions();
        let found = ours
            .iter()
            .any(|(table_function, _)| *table_function == name);
        found.then(|| format!("'{name}' is a table function: SELECT … FROM {name}(…)."))
    })
}

/// `text` without DataFusion's guess at a function of a similar name, or its candidates.
fn without_guess(text: &str) -> &str {
    let first = text.split("\nDid you mean").next().unwrap_or(text);
    first
        .split(" No function matches the given name")
        .next()
        .unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn of(sql: &str) -> String {
        let ctx = SessionContext::new();
        super::super::register(&ctx).unwrap();
        let planned = ctx
            .sql(sql)
            .await
            .and_then(|df| df.into_optimized_plan().map(|_| ()));
        message(&planned.unwrap_err())
    }

    #[tokio::test]
    async fn names_of_the_field() {
        for (sql, ours) in [
            ("SELECT fst([1, 2])", "fst_hudson"),
            ("SELECT PI([1, 2])", "diversity(…)"),
            ("SELECT maf([1, 2])", "1.0 * minor_count(ac)"),
            ("SELECT theta([1, 2])", "theta_w"),
            ("SELECT watterson([1, 2])", "Here 'watterson' is theta_w(…)"),
            ("SELECT allele_freq([1, 2])", "allele_frequencies"),
            ("SELECT fixation_index([1, 2])", "fst_hudson"),
            ("SELECT depth([1, 2])", "call_DP"),
            ("SELECT roh([1, 2])", "There is no 'roh' here"),
            (
                "SELECT vcz_samples('t')",
                "'vcz_samples' is a table function",
            ),
            ("SELECT ld([1, 2])", "vcz_ld"),
            ("SELECT king([1, 2])", "kinship_king"),
            ("SELECT dxy([1, 2])", "divergence"),
            ("SELECT af([1, 2])", "allele_frequencies"),
        ] {
            let text = of(sql).await;
            assert!(text.contains(ours), "{text}");
            assert!(!text.contains("Did you mean"), "{text}");
            assert!(!text.contains("No function matches"), "{text}");
        }
        assert!(of("SELECT diversiti([1, 2])").await.contains("diversity"));
        let text = of("SELECT pg_sleep(2)").await;
        assert_eq!(text, "Error during planning: Invalid function 'pg_sleep'.");
    }

    #[tokio::test]
    async fn table_functions_of_other_names() {
        for (call, ours) in [
            ("ld_prune('t', 1000, 0.2)", "Did you mean vcz_ld_prune(…)?"),
            ("samples('t')", "Did you mean vcz_samples(…)?"),
            ("vcz_pops('t')", "the table function vcz_populations('t')"),
            ("vcz_sampels('t')", "Did you mean vcz_samples(…)?"),
            ("diversity('t')", "'diversity' is a function of rows"),
            ("read_csv('x.csv')", "FROM 'x.csv'"),
            (
                "nothing_like_it(1)",
                "The table functions are vcz_samples, ",
            ),
        ] {
            let text = of(&format!("SELECT * FROM {call}")).await;
            assert!(
                text.contains("' not found\n") && text.contains(ours),
                "{text}"
            );
        }
    }

    #[test]
    fn text_compared_with_numbers() {
        let cast = |to: &str| {
            let error = format!("Cast error: Cannot cast string 'chr1' to value of {to} type");
            message(&DataFusionError::Execution(error))
        };
        let text = cast("Int64");
        assert!(
            text.contains("Cannot cast string 'chr1'")
                && text.contains("CAST(x AS VARCHAR) = 'chr1'"),
            "{text}"
        );
        assert!(!cast("Date32").contains("VARCHAR"));
    }

    #[test]
    fn options_without_a_prefix() {
        let error = "Specify a format for TableOptions".to_string();
        let text = message(&DataFusionError::Configuration(error));
        assert!(
            text.contains("'vcz.populations'") && text.contains("'spectrum.populations'"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn files_that_are_not_there() {
        let text = of("SELECT * FROM 'none.parquet'").await;
        assert!(
            text.starts_with("there is no table and no file 'none.parquet'"),
            "{text}"
        );
        let text = of("SELECT * FROM 'data/none'").await;
        assert!(
            text.starts_with("there is no table and no file 'data/none'"),
            "{text}"
        );
        let text = of("SELECT * FROM nothing").await;
        assert!(!text.contains("no file"), "{text}");
        let text = of("SELECT * FROM 'none.txt'").await;
        assert!(
            text.starts_with("there is no table and no file 'none.txt'"),
            "{text}"
        );
        let text = of("SELECT * FROM 'src/main.rs.gz/none.csv'").await;
        assert!(text.starts_with("there is no table and no file"), "{text}");
        let there = no_file("Cargo.toml");
        assert!(
            there.starts_with("'Cargo.toml' cannot be read as a table by its name"),
            "{there}"
        );
        let folder = tempfile::tempdir().unwrap();
        let vcf = folder.path().join("x.vcf.gz");
        std::fs::write(&vcf, "").unwrap();
        let vcf = no_file(vcf.to_str().unwrap());
        assert!(vcf.contains("vcf2zarr convert"), "{vcf}");
    }

    #[tokio::test]
    async fn tables_and_formats_of_the_field() {
        let text = of("SELECT * FROM Samples").await;
        assert!(
            text.contains("Here 'samples' is the table function vcz_samples('t')"),
            "{text}"
        );
        let text = of("COPY (SELECT 1) TO 'x.vcf'").await;
        assert!(
            text.starts_with(
                "there is no format to write a file with the ending '.vcf' (VCF is not written"
            ),
            "{text}"
        );
    }

    #[tokio::test]
    async fn functions_of_numbers_take_no_lists() {
        for function in ["avg", "sum", "stddev"] {
            let text = of(&format!("SELECT {function}(x) FROM (SELECT [1, 2] AS x)")).await;
            assert!(
                text.starts_with(&format!("{function} takes one value from each row")),
                "{text}"
            );
            assert!(text.contains("of type List(Int64);"), "{text}");
        }
    }

    #[tokio::test]
    async fn servers_say_nothing_of_files() {
        let ctx = SessionContext::new();
        super::super::register(&ctx).unwrap();
        for name in ["Cargo.toml/x", "none.parquet"] {
            let error = ctx
                .sql(&format!("SELECT * FROM '{name}'"))
                .await
                .unwrap_err();
            assert_eq!(
                message_without_files(&error),
                format!(
                    "there is no table '{name}'; this server reads its own tables only, and SHOW TABLES lists them"
                )
            );
        }
        let error = ctx.sql("SELECT * FROM read_csv('x')").await.unwrap_err();
        let text = message_without_files(&error);
        assert!(
            text.starts_with("there is no table function 'read_csv' on this server; it has generate_series, range and ")
                && text.contains("vcz_samples"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn names_of_another_case() {
        let text = of("SELECT POP FROM (SELECT 1 AS \"Pop\")").await;
        assert!(
            text.contains("Column names are case-sensitive: write"),
            "{text}"
        );
        assert!(!text.contains("normalization"), "{text}");
    }

    #[tokio::test]
    async fn functions_speak_for_themselves() {
        let text = of("SELECT diversity('a')").await;
        assert!(
            text.starts_with("Error during planning: diversity: argument 1"),
            "{text}"
        );
        for wrapping in ["coercion failed", "Candidate functions", "explicit type"] {
            assert!(!text.contains(wrapping), "{text}");
        }
        let text = of("SELECT a.x FROM (SELECT [1] AS x) a WHERE a.x = 1").await;
        assert!(!text.contains("caused by"), "{text}");
    }

    #[tokio::test]
    async fn regular_expressions() {
        for (sql, says) in [
            (
                "SELECT x ~ '(((((a{1,99}){1,99}){1,99}){1,99}){1,99})' FROM (VALUES ('a')) AS t(x)",
                "too large",
            ),
            (
                "SELECT x ~ '(' FROM (VALUES ('a')) AS t(x)",
                "is not valid:\n    (\n",
            ),
            (
                "SELECT regexp_replace(x, '(', 'y') FROM (VALUES ('a')) AS t(x)",
                "is not valid:\n    (\n",
            ),
        ] {
            let ctx = SessionContext::new();
            let rows = async { ctx.sql(sql).await?.collect().await };
            let error = rows.await.unwrap_err();
            let text = message(&error);
            assert!(is_about_a_regex(&error));
            assert!(
                text.starts_with("the regular expression is ") && text.contains(says),
                "{text}"
            );
        }
    }
}
