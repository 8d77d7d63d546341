//! The tables that a server publishes: the registered tables of the operator's session, in catalogs that cannot open files.

use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
    MemorySchemaProvider,
};
use datafusion::common::Result;
use datafusion::prelude::SessionContext;

/// The schema that DataFusion adds to every catalog.
pub const INFORMATION_SCHEMA: &str = "information_schema";

/// New catalogs with every registered table of `ctx`, and the number of tables.
///
/// # Errors
/// If a catalog or table of `ctx` cannot be read.
pub async fn publish(ctx: &SessionContext) -> Result<(Arc<dyn CatalogProviderList>, usize)> {
    let published = MemoryCatalogProviderList::new();
    let mut count = 0;
    for catalog_name in ctx.catalog_names() {
        let Some(catalog) = ctx.catalog(&catalog_name) else {
            continue;
        };
        let copy = MemoryCatalogProvider::new();
        for schema_name in catalog.schema_names() {
            let Some(schema) = catalog
                .schema(&schema_name)
                .filter(|_| schema_name != INFORMATION_SCHEMA)
            else {
                continue;
            };
            let tables = Arc::new(MemorySchemaProvider::new());
            copy.register_schema(&schema_name, Arc::clone(&tables) as _)?;
            for table_name in schema.table_names() {
                if let Some(table) = schema.table(&table_name).await? {
                    datafusion::catalog::SchemaProvider::register_table(
                        &*tables, table_name, table,
                    )?;
                    count += 1;
                }
            }
        }
        published.register_catalog(catalog_name, Arc::new(copy));
    }
    Ok((Arc::new(published), count))
}

/// A registered table: its catalog, schema and name.
pub struct Published {
    /// The catalog.
    pub catalog: String,
    /// The schema.
    pub schema: String,
    /// The table.
    pub table: String,
}

/// The registered tables, in the order of their names.
pub fn list(catalogs: &dyn CatalogProviderList) -> Vec<Published> {
    let mut found = Vec::new();
    for (catalog_name, catalog) in each_catalog(catalogs) {
        for schema_name in catalog.schema_names() {
            let Some(schema) = catalog.schema(&schema_name) else {
                continue;
            };
            found.extend(schema.table_names().into_iter().map(|table| Published {
                catalog: catalog_name.clone(),
                schema: schema_name.clone(),
                table,
            }));
        }
    }
    found.sort_by(|a, b| (&a.catalog, &a.schema, &a.table).cmp(&(&b.catalog, &b.schema, &b.table)));
    found
}

/// The catalogs, in the order of their names.
pub fn each_catalog(catalogs: &dyn CatalogProviderList) -> Vec<(String, Arc<dyn CatalogProvider>)> {
    let mut names = catalogs.catalog_names();
    names.sort();
    names
        .into_iter()
        .filter_map(|name| catalogs.catalog(&name).map(|catalog| (name, catalog)))
        .collect()
}

#[cfg(test)]
mod tests {
    use datafusion::execution::runtime_env::RuntimeEnv;
    use datafusion::prelude::SessionConfig;

    use super::*;
    use crate::session::context;

    #[tokio::test]
    async fn tables_and_views_are_published_paths_are_not() {
        let ctx = context(SessionConfig::new(), Arc::new(RuntimeEnv::default())).unwrap();
        for sql in [
            "CREATE TABLE t AS SELECT 1 AS a",
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE SCHEMA other",
            "CREATE TABLE other.u AS SELECT 2 AS a",
        ] {
            ctx.sql(sql).await.unwrap().collect().await.unwrap();
        }
        let (catalogs, count) = publish(&ctx).await.unwrap();
        let names: Vec<String> = list(&*catalogs)
            .into_iter()
            .map(|found| format!("{}.{}.{}", found.catalog, found.schema, found.table))
            .collect();
        assert_eq!(count, 3);
        assert_eq!(
            names,
            [
                "datafusion.other.u",
                "datafusion.public.t",
                "datafusion.public.v"
            ]
        );
        let schema = catalogs
            .catalog("datafusion")
            .unwrap()
            .schema("public")
            .unwrap();
        assert!(schema.table("/etc/passwd").await.unwrap().is_none());
    }
}
