//! [`SiteTable`]: a call of a table function over sites, as a table.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use super::exec::SiteExec;
use super::partitions::{Rows, divide};
use super::site_scan::SiteFunction;
use crate::counts::pairs::Shape;
use crate::functions::table::resolve::vcz_table;
use crate::scan::PopulationArg;

/// A call. It keeps the arguments only; the table is opened when the query is planned.
#[derive(Debug)]
pub(in crate::functions::table) struct SiteTable {
    /// The call as text.
    pub(in crate::functions::table) call: String,
    /// The table's name.
    pub(super) table: String,
    pub(super) population: PopulationArg,
    pub(super) function: Arc<dyn SiteFunction>,
}

#[async_trait]
impl TableProvider for SiteTable {
    fn schema(&self) -> SchemaRef {
        self.function.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let name = self.function.name();
        let of_call = |error: DataFusionError| error.context(format!("{name}('{}')", self.table));
        let table = vcz_table(state, &self.table).await.map_err(of_call)?;
        let samples = table
            .context()
            .resolve(&self.population)
            .map_err(|error| of_call(error.into()))?;
        let shape = Shape {
            samples: samples.len(),
            ploidy: table.context().ploidy(),
        };
        let stores = table.stores();
        let zones = stores.zones().await?;
        let rows = divide(
            name,
            zones.map(|zones| zones.zones.as_slice()),
            stores.contigs(),
            stores.n_variants(),
            self.function.reach(),
            state.config().target_partitions(),
        )?;
        let read: Vec<_> = rows.iter().map(|Rows { read, .. }| read.clone()).collect();
        let input = table
            .scan_site_planes(state, samples, &read)
            .map_err(of_call)?;
        let function = Arc::clone(&self.function);
        let exec = SiteExec::new(self.call.clone(), function, input, rows, shape);
        let exec: Arc<dyn ExecutionPlan> = Arc::new(exec);
        let Some(projection) = projection else {
            return Ok(exec);
        };
        let schema = exec.schema();
        let columns = projection.iter().map(|at| {
            let name = schema.field(*at).name().clone();
            let column = datafusion::physical_expr::expressions::Column::new(&name, *at);
            (Arc::new(column) as _, name)
        });
        let columns: Vec<_> = columns.collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, exec)?))
    }
}
