//! The session of the commands: memory, disk, object stores and settings from arguments and environment variables, and the catalog and
//! functions of the DataFusion CLI and of this crate. It is set up like the session of `datafusion-cli`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::{
    ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc,
};
use datafusion_cli::object_storage::StdinCarriesCommands;
use datafusion_cli::object_storage::instrumented::{
    InstrumentedObjectStoreMode, InstrumentedObjectStoreRegistry,
};
use datafusion_cli::pool_type::PoolType;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use super::context::CliSession;
use super::registry::Registry;
use super::sizes;
use crate::scan::VczSettings;
use crate::scan::notices::{NoticeSink, Notices};
use crate::session;

/// The arguments that make a session.
#[derive(Debug, Clone, Args)]
pub struct SessionArgs {
    /// Folder of the data, default the current one: stores and locations in SQL are relative to it
    #[arg(short = 'p', long, value_name = "FOLDER", value_parser = folder)]
    pub data_path: Option<PathBuf>,

    /// Rows of a batch, default that of DataFusion
    #[arg(short = 'b', long, value_name = "ROWS", value_parser = positive)]
    pub batch_size: Option<usize>,

    /// Memory that queries may use (e.g. '10g'), default no limit
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = sizes::parse)]
    pub memory_limit: Option<usize>,

    /// How the memory is shared: 'greedy' or 'fair'
    #[arg(long, value_name = "TYPE", default_value_t = PoolType::Greedy)]
    pub mem_pool_type: PoolType,

    /// How many of the largest consumers of memory an error about memory lists; 0 turns the tracking off
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    pub top_memory_consumers: usize,

    /// Disk space for queries that spill (e.g. '10g'), default 100g
    #[arg(short = 'd', long, value_name = "SIZE", value_parser = sizes::parse)]
    pub disk_limit: Option<usize>,

    /// Show the requests to object stores: 'disabled', 'summary' or 'trace'. Local stores are read without them
    #[arg(long, value_name = "MODE", default_value_t = InstrumentedObjectStoreMode::Disabled)]
    pub object_store_profiling: InstrumentedObjectStoreMode,
}

impl SessionArgs {
    /// The defaults.
    pub fn defaults() -> Self {
        Self {
            data_path: None,
            batch_size: None,
            memory_limit: None,
            mem_pool_type: PoolType::Greedy,
            top_memory_consumers: 3,
            disk_limit: None,
            object_store_profiling: InstrumentedObjectStoreMode::Disabled,
        }
    }
}

/// A session, and the object stores that it uses.
pub struct Environment {
    /// The session, with this crate registered.
    pub ctx: SessionContext,
    /// The object stores, which may count their requests.
    pub stores: Arc<InstrumentedObjectStoreRegistry>,
    /// The notices of statements, once [`listen`](Self::listen) was called.
    pub notices: Arc<Notices>,
}

impl Environment {
    /// Builds the session. If `stdin_is_sql`, standard input has SQL and so cannot have data.
    ///
    /// # Errors
    /// If a `DATAFUSION_…` variable of the environment is invalid, or the temporary folder is unusable.
    pub async fn new(args: &SessionArgs, stdin_is_sql: bool) -> Result<Self> {
        let stores =
            InstrumentedObjectStoreRegistry::new().with_profile_mode(args.object_store_profiling);
        let stores = Arc::new(stores);
        let registry = Arc::new(Registry(Arc::clone(&stores)));
        let mut runtime = RuntimeEnvBuilder::new().with_object_store_registry(registry);
        if let Some(limit) = args.memory_limit {
            runtime = runtime.with_memory_pool(memory_pool(
                limit,
                &args.mem_pool_type,
                args.top_memory_consumers,
            ));
        }
        if let Some(limit) = args.disk_limit {
            let disk = DiskManagerBuilder::default()
                .with_mode(DiskManagerMode::OsTmpDirectory)
                .with_max_temp_directory_size(limit as u64);
            runtime = runtime.with_disk_manager_builder(disk);
        }
        let ctx = session::context(config(args, stdin_is_sql)?, runtime.build_arc()?)?;
        ctx.refresh_catalogs().await?;
        // Creates object stores on demand. It wraps this crate's catalog, which opens VCZ stores by location.
        ctx.register_catalog_list(Arc::new(DynamicObjectStoreCatalog::new(
            Arc::clone(ctx.state().catalog_list()),
            ctx.state_weak_ref(),
        )));
        let caches = || Arc::clone(&ctx.runtime_env().cache_manager);
        ctx.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
        ctx.register_udtf("metadata_cache", Arc::new(MetadataCacheFunc::new(caches())));
        ctx.register_udtf(
            "statistics_cache",
            Arc::new(StatisticsCacheFunc::new(caches())),
        );
        ctx.register_udtf(
            "list_files_cache",
            Arc::new(ListFilesCacheFunc::new(caches())),
        );
        Ok(Self {
            ctx,
            stores,
            notices: Arc::default(),
        })
    }

    /// Collects the notices of statements from now on. Before, they go to the log.
    pub fn listen(&self) {
        let state = self.ctx.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        if let Some(settings) = options.extensions.get_mut::<VczSettings>() {
            settings.notices = NoticeSink(Some(Arc::clone(&self.notices)));
        }
    }
}

impl Environment {
    /// The session as the CLI crate runs statements in it.
    pub fn cli(&self) -> CliSession {
        CliSession::new(&self.ctx)
    }

    /// Options with which the CLI crate prints nothing.
    pub fn silent(&self) -> PrintOptions {
        PrintOptions {
            format: PrintFormat::Automatic,
            quiet: true,
            maxrows: MaxRows::Limited(0),
            color: false,
            instrumented_registry: Arc::clone(&self.stores),
        }
    }
}

/// The settings: those of the environment, then those of the arguments.
fn config(args: &SessionArgs, stdin_is_sql: bool) -> Result<SessionConfig> {
    let mut options = ConfigOptions::from_env()?;
    let unset = |variable: &str| std::env::var_os(variable).is_none();
    if unset("DATAFUSION_EXPLAIN_FORMAT") {
        options.explain.format = ExplainFormat::Tree;
    }
    if unset("DATAFUSION_FORMAT_NULL") {
        options.format.null = String::from("NULL");
    }
    let mut config = SessionConfig::from(options).with_information_schema(true);
    if let Some(rows) = args.batch_size {
        config = config.with_batch_size(rows);
    }
    if stdin_is_sql {
        config = config.with_extension(Arc::new(StdinCarriesCommands));
    }
    Ok(config)
}

fn memory_pool(limit: usize, pool: &PoolType, consumers: usize) -> Arc<dyn MemoryPool> {
    match (pool, NonZeroUsize::new(consumers)) {
        (PoolType::Fair, None) => Arc::new(FairSpillPool::new(limit)),
        (PoolType::Fair, Some(top)) => {
            Arc::new(TrackConsumersPool::new(FairSpillPool::new(limit), top))
        }
        (PoolType::Greedy, None) => Arc::new(GreedyMemoryPool::new(limit)),
        (PoolType::Greedy, Some(top)) => {
            Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(limit), top))
        }
    }
}

fn folder(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if path.is_dir() {
        Ok(path)
    } else {
        Err("there is no such folder".to_string())
    }
}

fn positive(number: &str) -> Result<usize, String> {
    match number.parse::<usize>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a whole number of at least 1".to_string()),
    }
}
