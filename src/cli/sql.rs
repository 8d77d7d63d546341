//! `vcz sql`: the DataFusion CLI over stores given on the command line. The `datafusion-cli` crate runs statements, prints, and provides
//! the prompt.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use datafusion_cli::DATAFUSION_CLI_VERSION;
use datafusion_cli::exec::exec_from_files;
use datafusion_cli::object_storage::is_stdin_location;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use super::environment::{Environment, SessionArgs};
#[cfg(feature = "flight")]
use super::workers::WorkerArgs;
use super::{progress, prompt, signals, statements, stores};
use crate::session::message;

/// The arguments of `vcz sql`.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// Stores to register, each as the table named after it: 'data/1kg.chr1.vcz.zip' is the table "1kg.chr1". NAME=STORE names the
    /// table, and makes one table of several stores: genome='data/1kg.chr*.vcz.zip', a folder of stores, or NAME=STORE repeated
    #[arg(value_name = "[NAME=]STORE")]
    pub stores: Vec<String>,

    /// Populations of the samples of these stores: a TSV or CSV with the columns sample_id and population, or FILE:SAMPLE,POPULATION with the names of its columns
    #[arg(long, value_name = "FILE")]
    pub populations: Option<String>,

    /// An option of these stores, as in CREATE EXTERNAL TABLE … OPTIONS, such as aws.region=eu-west-1; may be given several times.
    /// Others on this machine can see it: put keys into environment variables such as AWS_SECRET_ACCESS_KEY
    #[arg(short = 'o', long, value_name = "KEY=VALUE", value_parser = stores::option)]
    pub option: Vec<(String, String)>,

    /// Run these statements, or a command such as '\h sfs', and exit; may be given several times
    #[arg(short = 'c', long, value_name = "SQL", value_parser = not_empty)]
    pub command: Vec<String>,

    /// Run the statements of this file and exit; may be given several times, files come before commands
    #[arg(short = 'f', long, value_name = "FILE", value_parser = file)]
    pub file: Vec<String>,

    /// Run this file before the prompt instead of ~/.datafusionrc; may be given several times
    #[arg(short = 'r', long, value_name = "FILE", value_parser = file, conflicts_with_all = ["file", "command"])]
    pub rc: Option<Vec<String>>,

    /// How results are printed
    #[arg(long, value_enum, default_value_t = PrintFormat::Automatic)]
    pub format: PrintFormat,

    /// Print results only: no times, no numbers of rows, no progress bar
    #[arg(short = 'q', long)]
    pub quiet: bool,

    /// Most rows that are shown as a table: a number, or 'inf'. Other formats print all rows
    #[arg(long, value_name = "ROWS", default_value = "40")]
    pub maxrows: MaxRows,

    /// Highlight the syntax at the prompt
    #[arg(long)]
    pub color: bool,

    #[command(flatten)]
    pub session: SessionArgs,

    #[cfg(feature = "flight")]
    #[command(flatten)]
    pub workers: WorkerArgs,
}

/// Runs `vcz sql`.
///
/// # Errors
/// A message, if a store cannot be opened, or a statement of -c or -f fails: nothing after it is run.
pub async fn run(args: SqlArgs) -> Result<(), String> {
    if args.populations.is_some() && args.stores.is_empty() {
        return Err(
            "--populations is for stores that are given as arguments; one that is named in SQL takes them by \
             CREATE EXTERNAL TABLE … OPTIONS ('vcz.populations' 'FILE')"
                .to_string(),
        );
    }
    if !args.option.is_empty() && args.stores.is_empty() {
        return Err(
            "--option is for stores that are given as arguments; one that is named in SQL takes it by \
             CREATE EXTERNAL TABLE … OPTIONS ('KEY' 'VALUE')"
                .to_string(),
        );
    }
    let tables = stores::tables(&args.stores)?;
    let options = stores::options(args.populations.as_deref(), &args.option);
    // Read before the folder changes, because their paths are relative to the current one.
    let mut scripts: Vec<(String, String)> = args
        .file
        .iter()
        .map(|path| script(path))
        .collect::<Result<_, _>>()?;
    let interactive = args.command.is_empty() && args.file.is_empty();
    // The CLI crate's prompt continues after errors and exits with 0. SQL from a pipe is a script, which must not.
    let piped = interactive && !std::io::stdin().is_terminal();
    if piped {
        let text = std::io::read_to_string(std::io::stdin())
            .map_err(|error| format!("cannot read standard input: {error}"))?;
        scripts.push(("standard input".to_string(), text));
    }
    let startup = startup_files(args.rc.as_deref())?;
    if let Some(folder) = &args.session.data_path {
        std::env::set_current_dir(folder)
            .map_err(|error| format!("cannot go to '{}': {error}", folder.display()))?;
    }

    let at_prompt = interactive && !piped;
    let stdin_is_sql = interactive || args.file.iter().any(|path| is_stdin_location(path));
    let environment = Environment::new(&args.session, stdin_is_sql)
        .await
        .map_err(|error| message(&error))?;
    #[cfg(feature = "flight")]
    args.workers.distribute(&environment).await?;
    if at_prompt && !args.quiet {
        println!(
            "vcz {} (DataFusion CLI {DATAFUSION_CLI_VERSION})",
            env!("CARGO_PKG_VERSION")
        );
    }
    stores::register_all(&environment, &tables, &options, |table| {
        if at_prompt && !args.quiet {
            let name = stores::quoted(&table.name);
            println!("{} is the table {name}", table.shown());
        }
    })
    .await?;
    let mut print = PrintOptions {
        format: args.format,
        quiet: args.quiet,
        maxrows: max_rows(args.format, args.maxrows),
        color: args.color,
        instrumented_registry: environment.stores.clone(),
    };
    let cli = environment.cli();
    let ctx = &environment.ctx;
    signals::end_process_on_signals(Arc::clone(&ctx.runtime_env().disk_manager), at_prompt)?;
    environment.listen();
    if !args.quiet {
        progress::start(ctx);
    }
    if interactive && !startup.is_empty() {
        exec_from_files(&cli, startup, &print)
            .await
            .map_err(|error| message(&error))?;
    }
    if at_prompt {
        return prompt::run(&environment, &mut print).await;
    }
    for (path, sql) in scripts {
        statements::run(&environment, &print, &sql)
            .await
            .map_err(|error| format!("'{path}': {}", message(&error)))?;
    }
    for sql in args.command {
        if let Some(command) = sql.trim().strip_prefix('\\') {
            if !prompt::command(&environment, &mut print, command).await? {
                return Ok(());
            }
            continue;
        }
        statements::run(&environment, &print, &sql)
            .await
            .map_err(|error| message(&error))?;
    }
    Ok(())
}

/// The limit on rows applies to tables only. The CLI crate would apply it to any format, and silently truncate what another
/// program reads.
fn max_rows(format: PrintFormat, asked: MaxRows) -> MaxRows {
    match format {
        PrintFormat::Table | PrintFormat::Automatic => asked,
        _ => MaxRows::Unlimited,
    }
}

/// The file's path and text; a first line `#!…` is blanked.
fn script(path: &str) -> Result<(String, String), String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read '{path}': {error}"))?;
    let sql = match text.strip_prefix("#!") {
        Some(rest) => rest
            .find('\n')
            .map_or_else(String::new, |end| rest.split_at(end).1.to_string()),
        None => text,
    };
    Ok((path.to_string(), sql))
}

/// The files to run before the prompt, as absolute paths.
fn startup_files(given: Option<&[String]>) -> Result<Vec<String>, String> {
    let files: Vec<PathBuf> = match given {
        Some(files) => files.iter().map(PathBuf::from).collect(),
        None => {
            let default = std::env::home_dir().map(|home| home.join(".datafusionrc"));
            default.into_iter().filter(|path| path.is_file()).collect()
        }
    };
    let absolute = |path: PathBuf| {
        let path =
            std::path::absolute(&path).map_err(|error| format!("'{}': {error}", path.display()))?;
        path.into_os_string()
            .into_string()
            .map_err(|path| format!("the path {path:?} is not UTF-8"))
    };
    files.into_iter().map(absolute).collect()
}

fn file(path: &str) -> Result<String, String> {
    match Path::new(path) {
        file if file.is_dir() => Err("it is a folder".to_string()),
        file if file.exists() => Ok(path.to_string()),
        _ => Err("there is no such file".to_string()),
    }
}

fn not_empty(sql: &str) -> Result<String, String> {
    if sql.trim().is_empty() {
        Err("expected a statement".to_string())
    } else {
        Ok(sql.to_string())
    }
}
