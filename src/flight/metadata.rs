//! Metadata that clients get without a query: catalogs, schemas, tables with their columns, and keys (always none).

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables,
};
use datafusion::catalog::CatalogProviderList;
use datafusion::logical_expr::TableType;
use tonic::Status;

use super::error::{arrow_status, status};
use super::tables::{self, each_catalog};
use super::wire::wire_schema;

/// The table types by their names in SQL.
const TABLE_TYPES: [(TableType, &str); 3] = [
    (TableType::Base, "BASE TABLE"),
    (TableType::View, "VIEW"),
    (TableType::Temporary, "LOCAL TEMPORARY"),
];

fn type_name(table_type: TableType) -> &'static str {
    let found = TABLE_TYPES.iter().find(|(known, _)| *known == table_type);
    found.map_or("BASE TABLE", |(_, name)| name)
}

fn flight_status(error: FlightError) -> Status {
    match error {
        FlightError::Arrow(error) => arrow_status(error),
        other => Status::internal(other.to_string()),
    }
}

/// The catalogs.
pub fn catalogs(
    command: CommandGetCatalogs,
    list: &dyn CatalogProviderList,
) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for (name, _) in each_catalog(list) {
        builder.append(name);
    }
    builder.build().map_err(flight_status)
}

/// The schemas of the catalogs.
pub fn schemas(
    command: CommandGetDbSchemas,
    list: &dyn CatalogProviderList,
) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for (name, catalog) in each_catalog(list) {
        for schema in catalog.schema_names() {
            builder.append(&name, schema);
        }
    }
    builder.build().map_err(flight_status)
}

/// The tables, with their schemas as clients see them if the command asks for those.
pub async fn tables(
    command: CommandGetTables,
    list: &dyn CatalogProviderList,
) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for found in tables::list(list) {
        let schema = list
            .catalog(&found.catalog)
            .and_then(|catalog| catalog.schema(&found.schema));
        let Some(schema) = schema else { continue };
        // The table may have been dropped since it was listed.
        let table = schema
            .table(&found.table)
            .await
            .map_err(|error| status(&error))?;
        let Some(table) = table else { continue };
        builder
            .append(
                &found.catalog,
                &found.schema,
                &found.table,
                type_name(table.table_type()),
                &wire_schema(&table.schema()),
            )
            .map_err(flight_status)?;
    }
    builder.build().map_err(flight_status)
}

/// The schema of the result of [`tables`].
pub fn tables_schema(command: CommandGetTables) -> Arc<Schema> {
    command.into_builder().schema()
}

/// The table types.
pub fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch, Status> {
    let mut builder = command.into_builder();
    for (_, name) in TABLE_TYPES {
        builder.append(name);
    }
    builder.build().map_err(flight_status)
}

/// The primary keys: none.
pub fn primary_keys() -> RecordBatch {
    RecordBatch::new_empty(Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ])))
}

/// The foreign keys, imported or exported: none.
pub fn foreign_keys() -> RecordBatch {
    RecordBatch::new_empty(Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ])))
}

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn tables_are_listed_and_filtered() {
        let ctx = SessionContext::new();
        for sql in [
            "CREATE TABLE t AS SELECT 1 AS a",
            "CREATE VIEW v AS SELECT arrow_cast('x', 'Utf8View') AS s",
        ] {
            ctx.sql(sql).await.unwrap().collect().await.unwrap();
        }
        let state = ctx.state();
        let list = state.catalog_list().as_ref();
        let command = |pattern: Option<&str>, types: &[&str], include_schema| CommandGetTables {
            table_name_filter_pattern: pattern.map(str::to_string),
            table_types: types.iter().map(|t| t.to_string()).collect(),
            include_schema,
            ..Default::default()
        };
        let names = |batch: &RecordBatch| -> Vec<String> {
            batch
                .column(2)
                .as_string::<i32>()
                .iter()
                .flatten()
                .map(str::to_string)
                .collect()
        };
        let all = tables(command(None, &[], true), list).await.unwrap();
        assert_eq!(names(&all), ["t", "v"]);
        assert_eq!(all.schema(), tables_schema(command(None, &[], true)));
        assert_eq!(all.num_columns(), 5);
        assert_eq!(
            names(&tables(command(Some("t%"), &[], false), list).await.unwrap()),
            ["t"]
        );
        assert_eq!(
            names(&tables(command(None, &["VIEW"], false), list).await.unwrap()),
            ["v"]
        );
        assert_eq!(catalogs(CommandGetCatalogs {}, list).unwrap().num_rows(), 1);
        assert!(
            schemas(CommandGetDbSchemas::default(), list)
                .unwrap()
                .num_rows()
                >= 1
        );
        assert_eq!(table_types(CommandGetTableTypes {}).unwrap().num_rows(), 3);
        assert_eq!(
            (primary_keys().num_rows(), foreign_keys().num_columns()),
            (0, 13)
        );
    }
}
