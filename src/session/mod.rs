//! This crate in a DataFusion session: [`context`] creates a session, [`register`] adds everything to an existing one, and
//! [`with_vcz`] to a builder. Above `functions`; below the command line and servers.
//!
//! * `closed`: a session for untrusted queries, which reads registered tables only.
//! * `annotations`: tables of GFF3, GTF and BED files.
//! * `factory`: `CREATE EXTERNAL TABLE … STORED AS VCZ`; `url_table`: `SELECT … FROM 'x.vcz'`.
//! * `store_columns`: comparisons of VCZ columns with values of other types: planned, or an error that says what to write instead.
//! * `flat_files`: nested columns as JSON text in CSV files, and compressed files by their ending; `tab_separated`: TSV files.
//! * `vcz_format`: VCZ stores written by COPY; `row_order`, `store_order`: the order of their rows.
//! * `written_format`: formats that are written and not read, which these two are. `copy_secrets`: credentials in the options of COPY, which
//!   plans do not show; `copy_target`: where COPY writes to, looked at before.
//! * `json_files`: NULL in files of JSON.
//! * `spectrum_formats`: files of spectra, by COPY; `spectrum_options`: the populations' names in them; `placeholders`: parameters of statements.
//! * `cohorts`: names of subqueries that give populations; `keep_cohorts`: DataFusion's elimination of common subexpressions kept from them.
//! * `unknown_column`: errors about columns that do not exist, with what may be meant.
//! * `short_forms`: `sfs(call_genotype, 'p')` into `sfs(allele_counts(call_genotype, 'p'))` wherever it stands.
//! * `bind`, `binder`: calls on genotypes bound to the samples of their column; `union_calls`: such calls into the branches of UNION;
//!   `unions`: columns of a UNION that are not of the same samples; `inserts`: rows that are not of their table's samples;
//!   `leaf_pushdown`: DataFusion's own pushdown kept from crossing UNION; `wrapped_rule`: how such rules are replaced.
//! * `extract_calls`: calls on genotypes out of OVER and below UNNEST, from where DataFusion's own pushdown moves them into the scan.
//! * `interval_join`: joins of positions with intervals on bins.
//! * `windows`: aggregates over overlapping windows into aggregates over steps, and their merge; `runs`: how the first of them runs,
//!   where `runs_rule` says so, with the groups of `runs_table`.
//! * `populations`: how aggregates by population over unnested `population_counts` run, where `populations_rule` says so.
//! * `memory_rule`, `window_memory`: memory of spectra and of calls in OVER, reserved; `window_calls`: these calls; `filtered_windows`:
//!   FILTER in OVER as an argument.
//! * `keys`: the keys of UNNEST and GROUP BY, which DataFusion gets wrong.
//! * `repartition_rule`: one input for repartitioning where memory is bounded.
//! * `pairs`, `pairs_execution`, `pairs_state`, `pairs_values`: aggregates over pairs without GROUP BY, where `pairs_rule` says so; `pairs_memory`: plans
//!   of them refused. `interrupt`: such aggregates use all threads and stop when their query is cancelled.
//! * `unnest_lists`: UNNEST of the lists of such aggregates.
//! * `table_sample`: TABLESAMPLE refused; `table_calls`: scans of table functions named by their arguments.
//! * `message`: error messages for users; `field_words`: words of other tools that they explain.
//! * `pass_through`: what operators that pass rows on have in common.
//! * `operators`: this crate's operators, for other processes.
//! * `notices`: reports of the sites that statistics leave out; `left_out`: these sites in EXPLAIN ANALYZE.
//! * `planner`: subqueries as populations and masks, read while planning; `join_contigs`: joins of tables without a contig in common.

mod annotations;
mod bind;
mod binder;
mod closed;
mod cohorts;
mod copy_secrets;
mod copy_target;
mod extract_calls;
mod factory;
mod field_words;
mod filtered_windows;
mod flat_files;
#[cfg(all(test, feature = "gpu"))]
mod gpu_archive_tests;
#[cfg(all(test, feature = "gpu"))]
mod gpu_tests;
mod grouping_sets;
mod inserts;
mod interrupt;
mod interval_join;
mod join_contigs;
mod join_keys;
mod json_files;
mod keep_cohorts;
mod keys;
mod leaf_pushdown;
mod left_out;
mod list_literal;
mod memory_rule;
mod message;
mod notices;
pub mod operators;
mod pairs;
mod pairs_execution;
mod pairs_memory;
mod pairs_rule;
mod pairs_state;
mod pairs_values;
mod pass_through;
mod placeholders;
mod planner;
pub mod populations;
mod populations_rule;
mod repartition_rule;
mod row_order;
mod runs;
mod runs_rule;
mod runs_table;
mod short_forms;
mod spectrum_formats;
mod spectrum_options;
mod store_columns;
mod store_order;
mod tab_separated;
mod table_calls;
mod table_sample;
mod union_calls;
mod unions;
mod unknown_column;
mod unnest_lists;
mod url_table;
mod vcz_format;
mod window_calls;
mod window_memory;
mod windows;
mod wrapped_rule;
mod written_format;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::optimizer::{Analyzer, Optimizer};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;

use crate::functions;
use crate::functions::annotations::AnnotationFormat;
use crate::functions::spectrum_file::SpectrumFormat;
use crate::scan::{TableOptions, VczSettings};

pub use annotations::{AnnotationTable, AnnotationTableFactory};
pub use closed::closed;
pub use factory::VczTableFactory;
pub use field_words::hint_on;
pub use memory_rule::largest_values;
pub use message::{is_about_a_regex, message, message_without_files};
#[cfg(feature = "flight")]
pub(crate) use pass_through::passes_rows_on;
pub use placeholders::{is_untyped_prepare, numbered, substitute, without_types};
pub use unknown_column::explain_unknown_column;
pub use vcz_format::is_vcz;
pub use window_calls::window_calls;

/// The name of the file type in `STORED AS`.
pub const FILE_TYPE: &str = "VCZ";

/// Adds the table factory, functions, settings and planning rules to a session that is being built.
///
/// URL tables (`SELECT … FROM 'x.vcz'`) need the finished session: see [`register`].
pub fn with_vcz(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let config = builder.config().get_or_insert_default();
    if config.options().extensions.get::<VczSettings>().is_none() {
        config
            .options_mut()
            .extensions
            .insert(VczSettings::default());
    }
    // Counts carry their number of copies in field metadata, which must survive Parquet.
    config.options_mut().execution.parquet.skip_metadata = false;
    let factories = builder.table_factories().get_or_insert_default();
    factories.insert(FILE_TYPE.to_string(), Arc::new(VczTableFactory));
    for format in AnnotationFormat::ALL {
        let factory = AnnotationTableFactory(format);
        factories.insert(format.name().to_string(), Arc::new(factory));
    }
    let tables_of_files = Arc::new(DefaultTableFactory::new());
    let factories = builder.table_factories().get_or_insert_default();
    factories.insert(tab_separated::FILE_TYPE.to_string(), tables_of_files);
    let formats = builder.file_formats().get_or_insert_default();
    if formats
        .iter()
        .all(|format| format.get_ext() != tab_separated::EXTENSION)
    {
        formats.push(Arc::new(tab_separated::TsvFormatFactory));
    }
    for extension in vcz_format::EXTENSIONS {
        if formats.iter().all(|known| known.get_ext() != extension) {
            formats.push(Arc::new(vcz_format::VczFormatFactory(extension)));
        }
    }
    for format in SpectrumFormat::ALL {
        if formats
            .iter()
            .all(|known| known.get_ext() != format.extension())
        {
            formats.push(Arc::new(spectrum_formats::SpectrumFormatFactory(format)));
        }
    }
    let relations = builder.relation_planners().get_or_insert_default();
    relations.insert(0, Arc::new(table_sample::RefuseTableSample));
    relations.insert(0, Arc::new(keys::CorrectKeys));
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(list_literal::ListLiteralPlanner));
    planners.insert(0, Arc::new(store_columns::StoreColumnPlanner));
    planners.insert(0, Arc::new(cohorts::CohortPlanner));
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    analyzer
        .rules
        .insert(0, Arc::new(store_columns::ListsAndRanges));
    analyzer
        .rules
        .insert(0, Arc::new(table_calls::NameTableCalls));
    // Before any rule that logs the plan.
    analyzer
        .rules
        .insert(0, Arc::new(copy_secrets::HideCopySecrets));
    let optimizer = builder.optimizer().get_or_insert_with(Optimizer::new);
    wrapped_rule::wrap(
        &mut optimizer.rules,
        leaf_pushdown::NAME,
        leaf_pushdown::rewrite,
    );
    wrapped_rule::wrap(
        &mut optimizer.rules,
        keep_cohorts::NAME,
        keep_cohorts::rewrite,
    );
    for rule in keys::RULES {
        wrapped_rule::wrap(&mut optimizer.rules, rule, keys::rewrite);
    }
    let physical = builder
        .physical_optimizers()
        .get_or_insert_with(PhysicalOptimizer::new);
    physical
        .rules
        .insert(0, Arc::new(grouping_sets::HideFromGroupingSets));
    let inner = builder.query_planner().take();
    builder
        .with_query_planner(Arc::new(planner::VczQueryPlanner::new(inner)))
        .with_analyzer_rule(Arc::new(short_forms::ExpandShortForms))
        .with_analyzer_rule(Arc::new(bind::BindCalls))
        .with_analyzer_rule(Arc::new(flat_files::FlatFiles))
        .with_analyzer_rule(Arc::new(spectrum_options::DescribeSpectra))
        .with_analyzer_rule(Arc::new(notices::ReportLeftOut))
        .with_optimizer_rule(Arc::new(filtered_windows::FiltersAsArguments))
        .with_optimizer_rule(Arc::new(extract_calls::ExtractCalls))
        .with_optimizer_rule(Arc::new(windows::TwoStepWindows))
        .with_optimizer_rule(Arc::new(interval_join::IntervalJoin))
        .with_optimizer_rule(Arc::new(join_keys::QualifyJoinKeys))
        .with_physical_optimizer_rule(Arc::new(populations_rule::AggregateByPopulations))
        .with_physical_optimizer_rule(Arc::new(runs_rule::AggregateByRuns))
        .with_physical_optimizer_rule(Arc::new(memory_rule::ReserveSpectra))
        .with_physical_optimizer_rule(Arc::new(pairs_rule::AggregatePairs))
        .with_physical_optimizer_rule(Arc::new(unnest_lists::UnnestLists))
        .with_physical_optimizer_rule(Arc::new(left_out::ShowLeftOut))
        .with_physical_optimizer_rule(Arc::new(store_order::KeepStoreOrder))
        .with_physical_optimizer_rule(Arc::new(json_files::KeepNulls))
}

/// Adds tables by `CREATE EXTERNAL TABLE` and by URL, functions, settings and rules to a session.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// # use datafusion::common::Result;
/// # #[tokio::main] async fn main() -> Result<()> {
/// let ctx = SessionContext::new();
/// datafusion_vcz::session::register(&ctx)?;
/// let rows = ctx.sql("SELECT is_segregating([3, 1])").await?.collect().await?;
/// assert_eq!(rows[0].num_rows(), 1);
/// # Ok(()) }
/// ```
pub fn register(ctx: &SessionContext) -> Result<()> {
    let state = ctx.state_ref();
    let built = {
        let current = state.read().clone();
        with_vcz(SessionStateBuilder::new_from_existing(current)).build()
    };
    *state.write() = built;
    finish(ctx);
    Ok(())
}

/// A session with everything that [`register`] adds, and case-sensitive identifiers.
pub fn context(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Result<SessionContext> {
    let config = config.set_bool("datafusion.sql_parser.enable_ident_normalization", false);
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features();
    let ctx = SessionContext::new_with_state(with_vcz(builder).build());
    finish(&ctx);
    Ok(ctx)
}

/// Adds what needs the finished session: functions, the options of tables, URL tables.
fn finish(ctx: &SessionContext) {
    for udf in functions::scalar_functions() {
        ctx.register_udf(udf);
    }
    for udaf in functions::aggregate_functions() {
        ctx.register_udaf(udaf);
    }
    for udaf in functions::growing_values() {
        ctx.register_udaf(udaf);
    }
    for (name, function) in functions::table_functions() {
        ctx.register_udtf(name, function);
    }
    ctx.register_table_options_extension(TableOptions::default());
    ctx.register_table_options_extension(spectrum_formats::SpectrumOptions::default());
    url_table::enable(ctx);
}
