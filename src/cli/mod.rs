//! The command line: `vcz sql` is the DataFusion CLI with this crate registered, `vcz inspect` shows the contents of a store, `vcz serve`
//! starts the Arrow Flight SQL server. The top layer: it reads arguments, builds a session, and prints.
//!
//! The Python module (`src/python`, a crate of its own) uses its sessions (`environment`), stores (`stores`) and statements (`statements`).
//! What is public for that alone is hidden from the documentation, and may change in any version.
//!
//! Results go to standard output, messages and the progress bar to standard error. The exit code is 0 only if everything succeeded.

#[doc(hidden)]
pub mod cells;
mod complete;
mod context;
#[doc(hidden)]
pub mod environment;
mod fit;
mod help;
mod inspect;
mod print;
mod progress;
mod prompt;
mod registry;
#[cfg(feature = "flight")]
mod serve;
mod signals;
#[doc(hidden)]
pub mod sizes;
mod sql;
#[doc(hidden)]
pub mod statements;
#[doc(hidden)]
pub mod stores;
#[cfg(feature = "flight")]
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

#[cfg(all(unix, feature = "gpu"))]
use signals::end_process;

/// SQL for population genetics over VCZ (VCF Zarr) stores.
#[derive(Debug, Parser)]
#[command(name = "vcz", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Query stores with SQL: interactively, or with -c or -f and exit
    Sql(Box<sql::SqlArgs>),
    /// Show what a store holds: samples, contigs, arrays, how they are stored and what decodes them
    Inspect(inspect::InspectArgs),
    /// Publish stores to clients of Arrow Flight SQL: Python, R, Go, Java
    #[cfg(feature = "flight")]
    Serve(Box<serve::ServeArgs>),
}

/// What is logged of sessions.
#[doc(hidden)]
pub const LOG: &str = "error,datafusion_vcz=warn";
/// Stack of a thread, in bytes: plans are trees, which are visited and dropped by recursion.
const STACK: usize = 32 << 20;

/// Runs `vcz` with the arguments of this process. The runtime is built here and not in `main.rs`, so that asynchronous code is compiled
/// in the library only.
pub fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os()))
}

/// Runs `vcz` with these arguments, of which the first is the program's name, and returns the exit code. While a thread is inside of CUDA
/// it ends the process instead, without exit handlers: those of CUDA do not expect that.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let code = match Cli::try_parse_from(arguments) {
        Ok(cli) => u8::from(!run_command(cli)),
        Err(error) => {
            // The reader may have closed it.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(1)
        }
    };
    // Python does not know of this buffer.
    let _ = std::io::Write::flush(&mut std::io::stdout());
    leave_cuda(code);
    code
}

/// Whether the GPU may still be starting in the background, be working on a query that was dropped, or not answer.
#[cfg(all(unix, feature = "gpu"))]
fn leave_cuda(code: u8) {
    if crate::gpu::is_starting() || crate::gpu::is_at_work() {
        end_process(i32::from(code));
    }
}

#[cfg(not(all(unix, feature = "gpu")))]
fn leave_cuda(_code: u8) {}

/// Runs a command. Returns whether everything succeeded.
fn run_command(cli: Cli) -> bool {
    match &cli.command {
        Command::Sql(_) => start_log(LOG, false),
        // `inspect` prints the store's warnings as part of its output.
        Command::Inspect(_) => start_log("error", false),
        #[cfg(feature = "flight")]
        Command::Serve(_) => start_log("error,datafusion_vcz=info", true),
    }
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(message) => {
            eprintln!("Error: {message}");
            return false;
        }
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Sql(args) => sql::run(*args).await,
            Command::Inspect(args) => inspect::run(args).await,
            #[cfg(feature = "flight")]
            Command::Serve(args) => serve::run(*args).await,
        }
    });
    match result {
        Ok(()) => true,
        Err(message) => {
            eprintln!("Error: {message}");
            false
        }
    }
}

/// A runtime whose threads have large stacks.
///
/// # Errors
/// A message, if threads cannot be started.
#[doc(hidden)]
pub fn runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))
}

/// Sends log messages to standard error, filtered by `RUST_LOG` or else by `default`; with time stamps if `when`. Does nothing if there is
/// a log already.
#[doc(hidden)]
pub fn start_log(default: &str, when: bool) {
    let filter = env_logger::Env::default().default_filter_or(default);
    let precision = when.then_some(env_logger::TimestampPrecision::Millis);
    let started = env_logger::Builder::from_env(filter)
        // At lower levels it logs the text of statements, including credentials.
        .filter_module("sqlparser", log::LevelFilter::Info)
        .format_timestamp(precision)
        .format_target(false)
        .try_init();
    if started.is_err() {
        log::debug!("the log was started before");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn stores_and_commands() {
        let Command::Sql(args) =
            parse("vcz sql a.vcz b.vcz.zip -c one -c two --populations p.tsv -q -m 300M")
                .unwrap()
                .command
        else {
            panic!("not sql");
        };
        assert_eq!(args.stores, ["a.vcz", "b.vcz.zip"]);
        assert_eq!(args.command, ["one", "two"]);
        assert_eq!(args.populations.as_deref(), Some("p.tsv"));
        assert_eq!(args.session.memory_limit, Some(300 << 20));
        let Command::Inspect(args) =
            parse("vcz inspect a.vcz --option aws.region=x -o http.timeout=5s")
                .unwrap()
                .command
        else {
            panic!("not inspect")
        };
        let option = |key: &str, value: &str| (key.to_string(), value.to_string());
        assert_eq!(
            args.option,
            [option("aws.region", "x"), option("http.timeout", "5s")]
        );
        // A store may follow a command, because each -c takes one value.
        let Command::Sql(args) = parse("vcz sql -c one a.vcz").unwrap().command else {
            panic!("not sql")
        };
        assert_eq!((args.stores.len(), args.command.len()), (1, 1));
    }

    #[test]
    fn refused_arguments() {
        for line in [
            "vcz",
            "vcz sql -b 0",
            "vcz sql -b many",
            "vcz sql -m 0",
            "vcz sql -m 12q",
            "vcz sql -m -1",
            "vcz sql -d 99999999999t",
            "vcz sql -p /no/such/folder",
            "vcz sql -f /no/such/file",
            "vcz sql -r /dev/null -c one",
            "vcz sql --format pdf",
            "vcz sql --maxrows few",
            "vcz sql --mem-pool-type lazy",
            "vcz inspect",
            "vcz inspect a.vcz --format csv",
            "vcz inspect a.vcz --option aws.region",
            "vcz sql a.vcz --option =x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let empty = Cli::try_parse_from(["vcz", "sql", "-c", ""]);
        assert!(empty.is_err());
    }
}
