//! `\?` at the prompt: its commands. `\h` and `\h NAME`: the functions of the session, and the documentation of one.

use std::collections::BTreeSet;

use datafusion::logical_expr::Documentation;
use datafusion::prelude::SessionContext;

use crate::functions;
use crate::session::hint_on;

/// Width of the lists, in characters.
const WIDTH: usize = 100;

/// The commands of the prompt, which [`command`](super::prompt::command) runs.
const COMMANDS: [(&str, &str); 10] = [
    ("\\?, help", "this list"),
    ("\\q, quit, exit", "leave"),
    ("\\d", "list the tables"),
    ("\\d TABLE", "the columns of a table"),
    ("\\h", "list the functions"),
    ("\\h FUNCTION", "the documentation of a function"),
    ("\\i FILE", "run the statements of a file"),
    (
        "\\pset format FORMAT",
        "print results as csv, tsv, table, json, nd-json or automatic; \\pset tells which",
    ),
    (
        "\\quiet [true|false]",
        "whether results are printed without times and numbers of rows",
    ),
    (
        "\\object_store_profiling [disabled|summary|trace]",
        "whether requests to object stores are shown",
    ),
];

/// Prints the commands of the prompt.
pub fn commands() {
    for (command, what) in COMMANDS {
        println!("{command:<50}  {what}");
    }
    println!("\nA statement ends with ';' and may have several lines.");
}

/// Prints the names of all functions, those of this crate first.
pub fn list(ctx: &SessionContext) -> Result<(), String> {
    let aggregates: BTreeSet<String> =
        names(functions::aggregate_functions().iter().map(|f| f.name()));
    let scalars: BTreeSet<String> = names(functions::scalar_functions().iter().map(|f| f.name()));
    let tables: BTreeSet<String> =
        names(functions::table_functions().iter().map(|(name, _)| *name));
    let state = ctx.state();
    let all = state
        .scalar_functions()
        .keys()
        .chain(state.aggregate_functions().keys())
        .chain(state.window_functions().keys());
    let others: BTreeSet<String> = all
        .filter(|name| !aggregates.contains(*name) && !scalars.contains(*name))
        .cloned()
        .collect();
    for (title, names) in [
        (
            "Statistics over sites (aggregates, also in OVER)",
            &aggregates,
        ),
        ("Of genotypes and sites", &scalars),
        ("Table functions", &tables),
        ("Of DataFusion", &others),
    ] {
        println!("{title}:\n{}", in_lines(names));
    }
    println!("\\h NAME documents a function.");
    Ok(())
}

fn names<'a>(of: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    of.map(str::to_string).collect()
}

fn in_lines(names: &BTreeSet<String>) -> String {
    let mut text = String::new();
    let mut line = String::new();
    for name in names {
        if !line.is_empty() && line.len() + 2 + name.len() > WIDTH {
            text.push_str(&format!("  {line},\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push_str(", ");
        }
        line.push_str(name);
    }
    text + &format!("  {line}\n")
}

/// Prints the documentation of the function `name`.
///
/// # Errors
/// A message, if there is no such function.
pub fn function(ctx: &SessionContext, name: &str) -> Result<(), String> {
    let state = ctx.state();
    let wanted = name.trim_end_matches("()").to_ascii_lowercase();
    let scalar = state.scalar_functions().get(&wanted);
    let aggregate = state.aggregate_functions().get(&wanted);
    let window = state.window_functions().get(&wanted);
    let documentation = scalar
        .and_then(|function| function.documentation())
        .or_else(|| aggregate.and_then(|function| function.documentation()))
        .or_else(|| window.and_then(|function| function.documentation()));
    let of_table = functions::table_function_documentation(&wanted);
    match documentation.or(of_table.as_ref()) {
        Some(documentation) => println!("{}", documented(&wanted, documentation)),
        None if scalar.is_some() || aggregate.is_some() || window.is_some() => {
            println!("{wanted} has no documentation.");
        }
        None if state.table_functions().contains_key(&wanted) => {
            println!(
                "{wanted} is a table function of DataFusion: SELECT * FROM {wanted}(…). It has no documentation here."
            );
        }
        None => {
            let hint = hint_on(&wanted).map_or(String::new(), |hint| format!(". {hint}"));
            return Err(format!(
                "there is no function '{name}'; \\h lists all{hint}"
            ));
        }
    }
    // DataFusion has a pi() of its own.
    if let Some(hint) = hint_on(&wanted) {
        println!("\n{hint}");
    }
    Ok(())
}

/// Text without the lines that begin and end blocks of code in Markdown, which DataFusion's documentation has.
fn plain(text: &str) -> String {
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let lines = text.trim().lines().filter(|line| !is_fence(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn documented(name: &str, documentation: &Documentation) -> String {
    let mut text = format!(
        "{name}: {}\n\n  {}\n",
        plain(&documentation.description),
        documentation.syntax_example.trim()
    );
    for (argument, what) in documentation.arguments.iter().flatten() {
        text.push_str(&format!("\n  {argument}: {}", plain(what)));
    }
    if let Some(example) = &documentation.sql_example {
        text.push_str(&format!("\n\n{}", plain(example)));
    }
    for related in documentation.related_udfs.iter().flatten() {
        text.push_str(&format!("\nSee also {related}."));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn fences_are_not_shown() {
        let text = "\n```sql\n> SELECT abs(-5);\n+---+\n```\nThen\n  ```\n  x\n  ```";
        assert_eq!(plain(text), "> SELECT abs(-5);\n+---+\nThen\n  x");
        assert_eq!(plain("one `word`"), "one `word`");
    }
}
