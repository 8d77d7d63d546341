//! CREATE and DROP of views and of tables in memory, if the operator allows them. All users see these tables. Tables that the operator
//! published are never replaced or dropped. The rows of a table stay reserved in the server's memory pool.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, Expr, LogicalPlan, TableType};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use futures::future::BoxFuture;

use super::engine::QueryEngine;

/// A table in memory with its reservation, which is freed when the table is dropped.
#[derive(Debug)]
struct Kept {
    table: MemTable,
    _memory: MemoryReservation,
}

impl Kept {
    /// The plan of a scan.
    fn scanned<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move { self.table.scan(state, projection, filters, limit).await })
    }
}

impl TableProvider for Kept {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    boxed_methods! {
        fn scan<'a, 's, 'p, 'f>(
            &'a self,
            state: &'s dyn Session,
            projection: Option<&'p Vec<usize>>,
            filters: &'f [Expr],
            limit: Option<usize>,
        ) -> Result<Arc<dyn ExecutionPlan>> = Self::scanned;
    }
}

impl QueryEngine {
    /// Runs a CREATE or DROP that the policy allowed.
    pub async fn run_ddl(&self, state: SessionState, plan: LogicalPlan) -> Result<()> {
        let LogicalPlan::Ddl(ddl) = &plan else {
            return plan_err!("only CREATE and DROP change tables");
        };
        let name = match ddl {
            DdlStatement::CreateView(create) => &create.name,
            DdlStatement::CreateMemoryTable(create) => &create.name,
            DdlStatement::DropView(drop) => &drop.name,
            DdlStatement::DropTable(drop) => &drop.name,
            other => return plan_err!("{} is not allowed on this server", other.name()),
        };
        let defaults = &state.config_options().catalog;
        let resolved = name
            .clone()
            .resolve(&defaults.default_catalog, &defaults.default_schema);
        if self.published.contains(&TableReference::from(resolved)) {
            return plan_err!(
                "'{name}' was published by the server's operator and cannot be changed"
            );
        }
        match ddl {
            DdlStatement::CreateMemoryTable(create) => self.create_table(state, create).await,
            _ => {
                let ctx = SessionContext::new_with_state(state);
                ctx.execute_logical_plan(plan).await.map(drop)
            }
        }
    }

    async fn create_table(&self, state: SessionState, create: &CreateMemoryTable) -> Result<()> {
        if !create.constraints.is_empty() || !create.column_defaults.is_empty() || create.temporary
        {
            return plan_err!(
                "this server supports CREATE TABLE name AS SELECT …, without constraints, defaults or TEMPORARY"
            );
        }
        let schemas = state.schema_for_ref(create.name.clone())?;
        let table = create.name.table();
        match (
            schemas.table_exist(table),
            create.if_not_exists,
            create.or_replace,
        ) {
            (true, true, false) => return Ok(()),
            (true, false, false) => return plan_err!("the table '{}' already exists", create.name),
            (_, true, true) => return plan_err!("IF NOT EXISTS and OR REPLACE cannot be combined"),
            _ => {}
        }
        let (input, state) = self.physical(state, &create.input).await?;
        let schema = input.schema();
        // Reserved in the shared pool, because the rows outlive this query. While it runs, its own limit applies, too.
        let kept = MemoryConsumer::new(format!("table '{}'", create.name)).register(&self.memory);
        let mut stream = execute_stream(input, state.task_ctx())?;
        let mut batches: Vec<RecordBatch> = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            kept.try_grow(batch.get_array_memory_size())?;
            if kept.size() > self.limits.query_memory {
                return plan_err!(
                    "the table '{}' would need more memory than one query has here",
                    create.name
                );
            }
            batches.push(batch);
        }
        let kept = Kept {
            table: MemTable::try_new(schema, vec![batches])?,
            _memory: kept,
        };
        if create.or_replace {
            schemas.deregister_table(table)?;
        }
        schemas
            .register_table(table.to_string(), Arc::new(kept))
            .map(drop)
    }
}
