//! The command line: `vcz sql` is the DataFusion CLI with this crate registered, `vcz inspect` shows the contents of a store, `vcz serve`
//! starts the Arrow Flight SQL server. The top layer: it reads arguments, builds a session, and prints.
//!
//! Results go to standard output, messages and the progress bar to standard error. The exit code is 0 only if everything succeeded.

mod cells;
mod complete;
mod context;
mod environment;
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
mod sizes;
mod sql;
mod statements;
mod stores;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(unix)]
pub use signals::end_process;

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
    Sql(sql::SqlArgs),
    /// Show what a store holds: samples, contigs, arrays, how they are stored and what decodes them
    Inspect(inspect::InspectArgs),
    /// Publish stores to clients of Arrow Flight SQL: Python, R, Go, Java
    #[cfg(feature = "flight")]
    Serve(Box<serve::ServeArgs>),
}

/// Stack of a thread, in bytes: plans are trees, which are visited and dropped by recursion.
const STACK: usize = 32 << 20;

/// Runs `vcz` with the arguments of this process. The runtime is built here and not in `main.rs`, so that asynchronous code is compiled
/// in the library only.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match &cli.command {
        Command::Sql(_) => start_log("error,datafusion_vcz=warn", false),
        // `inspect` prints the store's warnings as part of its output.
        Command::Inspect(_) => start_log("error", false),
        #[cfg(feature = "flight")]
        Command::Serve(_) => start_log("error,datafusion_vcz=info", true),
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("Error: cannot start threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Sql(args) => sql::run(args).await,
            Command::Inspect(args) => inspect::run(args).await,
            #[cfg(feature = "flight")]
            Command::Serve(args) => serve::run(*args).await,
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("Error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Sends log messages to standard error, filtered by `RUST_LOG` or else by `default`; with time stamps if `when`.
fn start_log(default: &str, when: bool) {
    let filter = env_logger::Env::default().default_filter_or(default);
    let precision = when.then_some(env_logger::TimestampPrecision::Millis);
    env_logger::Builder::from_env(filter)
        // At lower levels it logs the text of statements, including credentials.
        .filter_module("sqlparser", log::LevelFilter::Info)
        .format_timestamp(precision)
        .format_target(false)
        .init();
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
