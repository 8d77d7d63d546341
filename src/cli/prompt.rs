//! The prompt of `vcz sql`: lines, history, commands that begin with `\`, and help. Completion is in [`complete`](super::complete),
//! statements run in [`statements`](super::statements).

use std::path::PathBuf;

use datafusion::prelude::SessionContext;
use datafusion_cli::command::{Command, OutputFormat};
use datafusion_cli::print_options::PrintOptions;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;

use super::complete::{PromptHelper, command_of};
use super::environment::Environment;
use super::{help, statements};
use crate::session::message;

/// The file of the history, in the home folder.
const HISTORY: &str = ".vcz_history";

/// Reads and runs lines until the end of input or `\q`.
///
/// # Errors
/// A message, if the terminal cannot be used.
pub async fn run(environment: &Environment, options: &mut PrintOptions) -> Result<(), String> {
    let failed = |error: ReadlineError| error.to_string();
    let mut editor: Editor<PromptHelper, FileHistory> = Editor::new().map_err(failed)?;
    editor.set_helper(Some(PromptHelper::new(options.color)));
    let history = std::env::home_dir().map(|home| home.join(HISTORY));
    if let Some(file) = &history {
        // There is no history the first time.
        let _ = editor.load_history(file);
    }
    loop {
        if let Some(helper) = editor.helper_mut() {
            helper.learn(&environment.ctx).await;
        }
        match editor.readline("> ") {
            Ok(line) => {
                let line = line.trim();
                if line.is_empty() {
                    continue;
                }
                editor.add_history_entry(line).map_err(failed)?;
                let wants_more = tokio::select! {
                    wants_more = one(environment, options, line) => wants_more,
                    _ = tokio::signal::ctrl_c() => {
                        println!("^C");
                        true
                    }
                };
                if !wants_more {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => println!("^C"),
            Err(ReadlineError::Eof) => {
                println!("\\q");
                break;
            }
            Err(error) => return Err(format!("the terminal cannot be read: {error}")),
        }
    }
    save(&mut editor, history);
    Ok(())
}

fn save(editor: &mut Editor<PromptHelper, FileHistory>, history: Option<PathBuf>) {
    if let Some(file) = history
        && let Err(error) = editor.save_history(&file)
    {
        eprintln!(
            "the history cannot be kept in '{}': {error}",
            file.display()
        );
    }
}

/// Runs a line. Returns whether the prompt continues.
async fn one(environment: &Environment, options: &mut PrintOptions, line: &str) -> bool {
    let Some((command_line, unfinished)) = command_of(line) else {
        if let Err(error) = statements::run(environment, options, line).await {
            eprintln!("{}", message(&error));
        }
        return true;
    };
    if !unfinished.is_empty() {
        eprintln!("The unfinished statement before '\\{command_line}' is not run.");
    }
    match command(environment, options, command_line).await {
        Ok(wants_more) => wants_more,
        Err(message) => {
            eprintln!("{message}");
            true
        }
    }
}

/// Runs a command, given without its backslash. Returns whether more lines are wanted: all commands but `q` do.
///
/// # Errors
/// A message, if there is no such command, or it fails.
pub async fn command(
    environment: &Environment,
    options: &mut PrintOptions,
    command: &str,
) -> Result<bool, String> {
    let words: Vec<&str> = command.trim_end_matches(';').split_whitespace().collect();
    match words.as_slice() {
        ["q"] => return Ok(false),
        ["?"] => {
            help::commands();
            Ok(())
        }
        ["h"] => help::list(&environment.ctx),
        ["h", name] => help::function(&environment.ctx, name),
        ["i", file] => include(environment, options, file).await,
        ["pset", "format", format] => match format!("format {format}").parse::<OutputFormat>() {
            Ok(format) => format.execute(options).map_err(|error| message(&error)),
            Err(()) => Err(unknown(command)),
        },
        ["pset"] => {
            println!("Output format is {:?}.", options.format);
            Ok(())
        }
        words => match words.join(" ").parse::<Command>() {
            Ok(command) => run_command(&environment.ctx, command, options).await,
            Err(()) => Err(unknown(command)),
        },
    }
    .map(|()| true)
}

fn unknown(command: &str) -> String {
    format!("'\\{command}' is not a command; \\? lists them")
}

/// A command that the CLI crate runs.
async fn run_command(
    ctx: &SessionContext,
    command: Command,
    options: &mut PrintOptions,
) -> Result<(), String> {
    command
        .execute(ctx, options)
        .await
        .map_err(|error| message(&error))
}

/// Runs the statements of a file, up to the first that fails.
async fn include(
    environment: &Environment,
    options: &PrintOptions,
    file: &str,
) -> Result<(), String> {
    let sql =
        std::fs::read_to_string(file).map_err(|error| format!("cannot read '{file}': {error}"))?;
    statements::run(environment, options, &sql)
        .await
        .map_err(|error| format!("'{file}': {}", message(&error)))
}
