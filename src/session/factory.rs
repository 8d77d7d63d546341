//! `CREATE EXTERNAL TABLE … STORED AS VCZ`.

use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::CreateExternalTable;
use futures::future::BoxFuture;

use crate::scan::{TableOptions, open_stores};

/// Creates VCZ tables.
///
/// ```sql
/// CREATE EXTERNAL TABLE ag STORED AS VCZ LOCATION 'gambX.vcz'
///   OPTIONS ('vcz.populations' 'gambX.populations.tsv');
/// CREATE EXTERNAL TABLE genome STORED AS VCZ LOCATION 'data/1kg.chr*.vcz.zip';       -- or ('a.vcz', 'b.vcz'), or a folder of stores
/// ```
#[derive(Debug, Default)]
pub struct VczTableFactory;

impl VczTableFactory {
    /// The table of a statement.
    fn created<'a>(
        &'a self,
        state: &'a dyn Session,
        cmd: &'a CreateExternalTable,
    ) -> BoxFuture<'a, Result<Arc<dyn TableProvider>>> {
        Box::pin(async move {
            if !cmd.schema.fields().is_empty() {
                return plan_err!(
                    "a VCZ table takes its columns from the store; leave the column list out"
                );
            }
            if !cmd.table_partition_cols.is_empty() {
                return plan_err!(
                    "a VCZ table cannot be PARTITIONED BY; predicates on contig and position prune its chunks"
                );
            }
            if !cmd.order_exprs.is_empty() {
                return plan_err!("a VCZ table declares its own order; leave WITH ORDER out");
            }
            let options = TableOptions::try_from_map(&cmd.options)?;
            let table = open_stores(state, &cmd.locations, &options).await?;
            Ok(Arc::new(table) as Arc<dyn TableProvider>)
        })
    }
}

impl TableProviderFactory for VczTableFactory {
    boxed_methods! {
        fn create<'a, 's, 'c>(
            &'a self,
            state: &'s dyn Session,
            cmd: &'c CreateExternalTable,
        ) -> Result<Arc<dyn TableProvider>> = Self::created;
    }
}
