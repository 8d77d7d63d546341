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
use super::site_scan::{Panel, SiteFunction};
use crate::counts::SampleSet;
use crate::counts::pairs::Shape;
use crate::functions::table::resolve::whole_vcz_table;
use crate::scan::PopulationArg;

/// A call. It keeps the arguments only; the table is opened when the query is planned.
#[derive(Debug)]
pub(in crate::functions::table) struct SiteTable {
    /// The call as text.
    pub(in crate::functions::table) call: String,
    /// The table's name.
    pub(super) table: String,
    /// One population, or several.
    pub(super) populations: Vec<PopulationArg>,
    pub(super) function: Arc<dyn SiteFunction>,
}

/// The samples of all populations, and the copies of each population among theirs.
fn panel(populations: &[Arc<SampleSet>], ploidy: usize) -> (Arc<SampleSet>, Panel) {
    let (samples, populations) = match populations {
        [only] => (Arc::clone(only), vec![]),
        several => {
            let all = SampleSet::new(several.iter().flat_map(|set| set.iter()).collect());
            let copies = |set: &Arc<SampleSet>| -> Arc<[u32]> {
                let places = (0..).zip(all.iter());
                let places = places.filter(|(_, sample)| set.contains(*sample));
                // There are fewer than 2³² copies: samples are numbered by 32 bits, and arrays of more are refused.
                let copies = places.flat_map(|(place, _): (usize, u32)| {
                    (place * ploidy..(place + 1) * ploidy).map(|copy| copy as u32)
                });
                copies.collect()
            };
            let populations = several.iter().map(copies).collect();
            (Arc::new(all), populations)
        }
    };
    let shape = Shape {
        samples: samples.len(),
        ploidy,
    };
    (samples, Panel { shape, populations })
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
        let table = whole_vcz_table(state, &self.table).await.map_err(of_call)?;
        let resolve = |population| table.context().resolve(population);
        let populations: std::result::Result<Vec<_>, _> =
            self.populations.iter().map(resolve).collect();
        let populations = populations.map_err(|error| of_call(error.into()))?;
        let (samples, panel) = panel(&populations, table.context().ploidy());
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
        let exec = SiteExec::new(self.call.clone(), function, input, rows, panel);
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
