//! A session for untrusted queries, without access to files: no tables by URL, no `CREATE EXTERNAL TABLE`, no file formats; masks and
//! table functions take registered tables only.

use std::sync::Arc;

use datafusion::catalog::CatalogProviderList;
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::execution::registry::FunctionRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionConfig;

use super::with_vcz;
use crate::functions;
use crate::scan::RegisteredOnly;

/// DataFusion's table functions that such a session keeps, since they read no files.
const STOCK_TABLE_FUNCTIONS: [&str; 2] = ["generate_series", "range"];

/// A session over the tables of `catalogs` that opens nothing by location. Identifiers are case-sensitive.
pub fn closed(
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    catalogs: Arc<dyn CatalogProviderList>,
) -> Result<SessionState> {
    let config = config
        .set_bool("datafusion.sql_parser.enable_ident_normalization", false)
        .with_create_default_catalog_and_schema(false)
        .with_extension(Arc::new(RegisteredOnly));
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_catalog_list(catalogs);
    let mut builder = with_vcz(builder);
    *builder.table_factories() = None;
    *builder.file_formats() = None;
    if let Some(table_functions) = builder.table_functions() {
        table_functions.retain(|name, _| STOCK_TABLE_FUNCTIONS.contains(&name.as_str()));
    }
    let mut state = builder.build();
    for udf in functions::scalar_functions() {
        state.register_udf(Arc::new(udf))?;
    }
    for udaf in functions::aggregate_functions() {
        state.register_udaf(Arc::new(udaf))?;
    }
    for udaf in functions::growing_values() {
        // What the planner makes of these is not for statements.
        if !udaf.name().starts_with('_') {
            state.register_udaf(Arc::new(udaf))?;
        }
    }
    for (name, function) in functions::table_functions() {
        state.register_udtf(name, function);
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use datafusion::catalog::{
        CatalogProvider, MemoryCatalogProvider, MemoryCatalogProviderList, MemorySchemaProvider,
    };
    use datafusion::execution::context::SessionContext;

    use super::*;
    use crate::session::context;

    /// A closed session with the fixture `sim` as a table.
    async fn session() -> SessionContext {
        let open = context(SessionConfig::new(), Arc::new(RuntimeEnv::default())).unwrap();
        open.sql(
            "CREATE EXTERNAL TABLE sim STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip' \
             OPTIONS ('vcz.populations' 'tests/fixtures/sim.populations.tsv')",
        )
        .await
        .unwrap();
        let table = open.table_provider("sim").await.unwrap();
        let catalog = MemoryCatalogProvider::new();
        catalog
            .register_schema("public", Arc::new(MemorySchemaProvider::new()))
            .unwrap();
        catalog
            .schema("public")
            .unwrap()
            .register_table("sim".to_string(), table)
            .unwrap();
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog("datafusion".to_string(), Arc::new(catalog));
        let state = closed(
            SessionConfig::new().with_information_schema(true),
            Arc::new(RuntimeEnv::default()),
            Arc::new(catalogs),
        );
        SessionContext::new_with_state(state.unwrap())
    }

    async fn run(ctx: &SessionContext, sql: &str) -> Result<usize> {
        // Not `count`: its plan would drop columns whose expressions open a file.
        let batches = ctx.sql(sql).await?.collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }

    #[tokio::test]
    async fn values_that_grow_with_their_frames_are_counted() {
        let state = session().await.state();
        for name in ["array_agg", "string_agg"] {
            let function = &state.aggregate_functions()[name];
            assert!(functions::grows(function), "{name}");
        }
    }

    #[tokio::test]
    async fn registered_tables_are_read() {
        let ctx = session().await;
        for sql in [
            "SELECT sfs(call_genotype, 'first') FROM sim",
            "SELECT * FROM vcz_samples('sim')",
            "SELECT * FROM genome_windows('sim', 100000)",
            "SELECT * FROM generate_series(1, 3)",
            "SELECT table_name FROM information_schema.tables WHERE table_name = 'sim'",
        ] {
            assert!(run(&ctx, sql).await.unwrap() > 0, "{sql}");
        }
    }

    #[tokio::test]
    async fn folders_of_stores_are_not_shown() {
        let ctx = session().await;
        let sql = "SELECT DISTINCT store FROM vcz_arrays('sim')";
        let rows = ctx.sql(sql).await.unwrap().collect().await.unwrap();
        let shown = arrow::util::pretty::pretty_format_batches(&rows).unwrap();
        assert!(shown.to_string().contains("| sim.vcz.zip |"), "{shown}");
    }

    #[tokio::test]
    async fn nothing_is_opened_by_its_location() {
        let ctx = session().await;
        for sql in [
            "SELECT * FROM 'tests/fixtures/sim.vcz.zip'",
            "SELECT * FROM '/etc/passwd'",
            "SELECT * FROM vcz_samples('tests/fixtures/sim.vcz.zip')",
            "SELECT * FROM vcz_arrays('tests/fixtures/sim.v3.vcz.zip')",
            "SELECT * FROM genome_windows('tests/fixtures/sim.vcz.zip', 1000)",
            "SELECT * FROM genome_windows('sim', 1000, 1000, 'tests/fixtures/sim.accessible.bed')",
            "SELECT is_accessible(variant_contig, variant_position, '/etc/passwd') FROM sim",
            "SELECT accessible_bases('1', 1, 2, 'tests/fixtures/sim.accessible.bed') FROM sim",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM parquet_metadata('x.parquet')",
            "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
            "CREATE EXTERNAL TABLE x STORED AS VCZ LOCATION 'tests/fixtures/sim.vcz.zip'",
            "COPY (SELECT 1) TO '/tmp/vcz-closed-session.csv' STORED AS CSV",
        ] {
            assert!(run(&ctx, sql).await.is_err(), "{sql}");
        }
    }
}
