//! Shared by the metadata functions, which have a file each: a table with a fixed schema whose rows are computed from a VCZ table when
//! the query is planned. Uses [`resolve`](super::resolve) and `scan::report`.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::common::cast::as_string_array;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Documentation, Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::entry::TableFunction;
use super::resolve::{call_text, only_table_argument, vcz_table};
use crate::scan::{RegisteredOnly, VczTable};

/// One function: its name, its columns, its rows and its documentation.
#[async_trait]
pub trait Metadata: Debug + Send + Sync + 'static {
    /// The function's name in SQL.
    const NAME: &'static str;

    /// The columns, the same for every table.
    fn schema() -> SchemaRef;

    /// The rows, with all columns of [`Metadata::schema`]. A nullable column whose index is not `wanted` may be all NULL, if its
    /// values are costly to find.
    async fn rows(
        table: &VczTable,
        wanted: &(dyn Fn(usize) -> bool + Send + Sync),
    ) -> Result<RecordBatch>;

    /// What `\h` shows.
    fn documentation() -> Documentation;
}

/// A metadata function as DataFusion registers it.
#[derive(Debug, Default)]
pub struct MetadataFunction<M>(std::marker::PhantomData<M>);

impl<M: Metadata> MetadataFunction<M> {
    /// The function, as [`all`](super::all) lists it.
    pub fn entry() -> TableFunction {
        let function = Arc::new(Self(std::marker::PhantomData));
        (M::NAME, function, M::documentation())
    }
}

impl<M: Metadata> TableFunctionImpl for MetadataFunction<M> {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let table = only_table_argument(M::NAME, args.exprs())?;
        Ok(Arc::new(MetadataTable::<M> {
            table,
            call: call_text(M::NAME, args.exprs()),
            schema: M::schema(),
            function: std::marker::PhantomData,
        }))
    }
}

/// A call of a metadata function. It keeps the argument only; the table is opened when the query is planned.
#[derive(Debug)]
pub(super) struct MetadataTable<M> {
    /// The call as text.
    pub(super) call: String,
    table: String,
    schema: SchemaRef,
    function: std::marker::PhantomData<M>,
}

#[async_trait]
impl<M: Metadata> TableProvider for MetadataTable<M> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = vcz_table(state, &self.table)
            .await
            .map_err(|error| error.context(format!("{}('{}')", M::NAME, self.table)))?;
        let wanted =
            |column: usize| projection.is_none_or(|projection| projection.contains(&column));
        let mut rows = M::rows(&table, &wanted).await?;
        if state.config().get_extension::<RegisteredOnly>().is_some() {
            rows = without_folders(rows)?;
        }
        if let Some(limit) = limit.filter(|&limit| limit < rows.num_rows()) {
            rows = rows.slice(0, limit);
        }
        let source = MemorySourceConfig::try_new(
            &[vec![rows]],
            Arc::clone(&self.schema),
            projection.cloned(),
        )?;
        Ok(DataSourceExec::from_data_source(source))
    }
}

/// The rows with the locations of stores, the column `store` where there is one, cut to the names of their files: users of a session that
/// opens nothing by location do not learn the folders.
fn without_folders(rows: RecordBatch) -> Result<RecordBatch> {
    let schema = rows.schema();
    let Some((at, _)) = schema.column_with_name("store") else {
        return Ok(rows);
    };
    let name = |location: &str| {
        let trimmed = location.trim_end_matches('/');
        trimmed.rsplit('/').next().unwrap_or(trimmed).to_string()
    };
    let mut columns = rows.columns().to_vec();
    let names: StringArray = as_string_array(&columns[at])?
        .iter()
        .map(|location| location.map(name))
        .collect();
    columns[at] = Arc::new(names);
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// Helpers for the columns of metadata tables.
pub mod columns {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, ListBuilder, MapBuilder, StringBuilder, UInt64Builder};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use arrow::error::ArrowError;

    /// A list of strings.
    pub fn string_list() -> DataType {
        DataType::new_list(DataType::Utf8, true)
    }

    /// A map from strings to strings, as [`string_maps`] gives it.
    pub fn string_map() -> DataType {
        let fields = vec![
            Field::new("keys", DataType::Utf8, false),
            Field::new("values", DataType::Utf8, true),
        ];
        let entries = Field::new("entries", DataType::Struct(fields.into()), false);
        DataType::Map(Arc::new(entries), false)
    }

    /// Maps from strings to strings.
    ///
    /// # Errors
    /// Never, unless a builder of Arrow fails.
    pub fn string_maps<'a>(
        rows: impl Iterator<Item = impl Iterator<Item = (&'a str, &'a str)>>,
    ) -> Result<ArrayRef, ArrowError> {
        let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        for row in rows {
            for (key, value) in row {
                builder.keys().append_value(key);
                builder.values().append_value(value);
            }
            builder.append(true)?;
        }
        Ok(Arc::new(builder.finish()))
    }

    /// A list of sizes.
    pub fn size_list() -> DataType {
        DataType::new_list(DataType::UInt64, true)
    }

    /// A schema of (name, type, nullable).
    pub fn schema<const N: usize>(fields: [(&str, DataType, bool); N]) -> SchemaRef {
        let field = |(name, data_type, nullable)| Field::new(name, data_type, nullable);
        Arc::new(Schema::new(fields.map(field).to_vec()))
    }

    /// Lists of strings; `None` is NULL.
    pub fn string_lists<'a, S: AsRef<str> + 'a>(
        rows: impl Iterator<Item = Option<&'a [S]>>,
    ) -> ArrayRef {
        let mut builder = ListBuilder::new(StringBuilder::new());
        for row in rows {
            for item in row.unwrap_or_default() {
                builder.values().append_value(item);
            }
            builder.append(row.is_some());
        }
        Arc::new(builder.finish())
    }

    /// Lists of sizes; `None` is NULL.
    pub fn size_lists<'a>(rows: impl Iterator<Item = Option<&'a [u64]>>) -> ArrayRef {
        let mut builder = ListBuilder::new(UInt64Builder::new());
        for row in rows {
            builder.values().append_slice(row.unwrap_or_default());
            builder.append(row.is_some());
        }
        Arc::new(builder.finish())
    }
}
