//! The function's arguments and documentation, and the table that a call is.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::call::{Call, NAME};
use super::columns;
use super::exec::SamplePairsExec;
use crate::counts::pairs::Shape;
use crate::functions::table::entry::{TableFunction, document_table};
use crate::functions::table::resolve::{call_text, whole_vcz_table};
use crate::functions::table::sites::Arguments;
use crate::scan::{PopulationArg, VczSettings};

const USAGE: &str = "vcz_sample_pairs('table' [, population [, min_kinship]])";

/// The table function: for every pair of individuals of a population the counts of `sample_pairs` and the KING-robust kinship, of
/// `min_kinship` or more if that is given.
///
/// Columns: `sample1`, `sample2` Utf8View, `sites`, `ibs0`, `ibs1`, `ibs2`, `het_het`, `opposite`, `het1`, `het2`, `distance_sites` Int64,
/// `distance`, `kinship` Float64.
#[derive(Debug, Default)]
pub struct SamplePairs;

impl SamplePairs {
    /// The function, with its name and documentation.
    pub fn entry() -> TableFunction {
        let documentation = document_table(
            "Compares every pair of individuals of a population over all variants of a table, as the aggregate sample_pairs does, of as many \
             individuals as one likes: pairs are counted in parts that fit into memory, for each of which the table is read once. Pairs are in \
             the order of sample1 and then sample2, which is that of the store. Columns: sample1, sample2, sites, ibs0, ibs1, ibs2, het_het, \
             opposite, het1, het2, distance_sites, distance, as in sample_pairs; kinship, as of kinship_king. With min_kinship only pairs \
             of that kinship or more, none where it is NULL.",
            "vcz_sample_pairs(table [, population [, min_kinship]])",
            "SELECT sample1, sample2, kinship FROM vcz_sample_pairs('t', 'first', 0.0884) ORDER BY kinship DESC",
        )
        .with_argument(
            "population",
            "The name of a population, or a list of sample ids. If left out, every sample.",
        )
        .with_argument(
            "min_kinship",
            "The least kinship, a constant. If left out, all pairs, those without a kinship among them.",
        )
        .build();
        (NAME, Arc::new(Self), documentation)
    }
}

impl TableFunctionImpl for SamplePairs {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs();
        let mut arguments = Arguments::try_new(NAME, USAGE, exprs, 0, 1)?;
        let range = (f64::MIN, f64::MAX);
        let least = arguments.number(NAME, 0, "min_kinship", range)?;
        let Some(population) = arguments.populations.pop() else {
            return plan_err!("{NAME}: a population is needed: write {USAGE}");
        };
        Ok(Arc::new(SamplePairsTable {
            call: call_text(NAME, exprs),
            table: arguments.table,
            population,
            least,
        }))
    }
}

/// A call. It keeps the arguments only; the table is opened when the query is planned.
#[derive(Debug)]
pub(in crate::functions::table) struct SamplePairsTable {
    /// The call as text.
    pub(in crate::functions::table) call: String,
    table: String,
    population: PopulationArg,
    /// The least kinship.
    least: Option<f64>,
}

#[async_trait]
impl TableProvider for SamplePairsTable {
    fn schema(&self) -> SchemaRef {
        columns::schema()
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
        let of_call = |error: DataFusionError| error.context(format!("{NAME}('{}')", self.table));
        let table = whole_vcz_table(state, &self.table).await.map_err(of_call)?;
        let context = table.context();
        let samples = context.resolve(&self.population);
        let samples = samples.map_err(|error| of_call(error.into()))?;
        let id = |sample: u32| context.sample_ids().get(sample as usize).cloned();
        let Some(ids) = samples.iter().map(id).collect::<Option<Vec<String>>>() else {
            return exec_err!(
                "{NAME}: store '{}' has {} sample ids for {} samples",
                context.store_name(),
                context.sample_ids().len(),
                context.n_samples()
            );
        };
        let call = Call {
            text: self.call.clone(),
            shape: Shape {
                samples: samples.len(),
                ploidy: context.ploidy(),
            },
            ids: ids.into(),
            least: self.least,
            columns: match projection {
                Some(columns) => columns.as_slice().into(),
                None => (0..columns::schema().fields().len()).collect(),
            },
        };
        let input = table.scan_planes(state, samples).map_err(of_call)?;
        let pool = &state.runtime_env().memory_pool;
        let backend = VczSettings::of(state.config_options()).backend;
        Ok(Arc::new(SamplePairsExec::try_new(
            call, input, pool, backend,
        )?))
    }
}
