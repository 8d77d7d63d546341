//! [`PlanTables`]: the VCZ tables that a query reads, which say the samples, contigs, filters and other arrays of what is written.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;

use crate::scan::calls::call::GenotypeCall;
use crate::scan::calls::context::{GenotypeContext, SAMPLES_KEY};
use crate::scan::calls::genotype_udf::GenotypeUdf;
use crate::scan::calls::select_calls::SelectCalls;
use crate::scan::plan::source::{ScanInput, ScanTable, VczSource};
use crate::scan::stores::Stores;
use crate::store::ArrayMeta;

/// The VCZ tables of a query, each once, and the samples of its columns.
#[derive(Debug, Clone, Default)]
pub struct PlanTables {
    tables: Vec<Arc<ScanTable>>,
    contexts: Vec<Arc<GenotypeContext>>,
}

impl PlanTables {
    /// Those of `plan`.
    ///
    /// # Errors
    /// Of DataFusion's traversal.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let mut found = Self::default();
        plan.apply(|node| {
            if let Some(source) = node.downcast_ref::<DataSourceExec>()
                && let Some(source) = source.data_source().downcast_ref::<VczSource>()
            {
                found.add_source(source);
            }
            node.apply_expressions(&mut |expr| {
                found.add_selections(expr)?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    }

    fn add_source(&mut self, source: &VczSource) {
        let table = source.table();
        if self.tables.iter().all(|known| !Arc::ptr_eq(known, table)) {
            self.tables.push(Arc::clone(table));
        }
        self.contexts.push(Arc::clone(&table.context));
        for input in &source.inputs {
            if let ScanInput::Call(call) = input
                && let GenotypeCall::SelectSamples(samples) = &call.call
            {
                self.contexts.push(table.context.subset(samples));
            }
        }
    }

    /// Notes the samples that `select_samples` leaves, where no scan computes it.
    fn add_selections(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<()> {
        expr.apply(|expr| {
            if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
                let function = call.fun().inner();
                if let Some(selected) = function.downcast_ref::<SelectCalls>() {
                    self.contexts.push(Arc::clone(selected.selected()));
                }
                let bound = function
                    .downcast_ref::<GenotypeUdf>()
                    .and_then(GenotypeUdf::bound);
                if let Some(selected) = bound.and_then(|bound| bound.selected()) {
                    self.contexts.push(Arc::clone(selected));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map(drop)
    }

    /// The stores of the only table, or of the first of several with the same contigs and filters; `None` where the query reads no VCZ
    /// table.
    ///
    /// # Errors
    /// If tables have different contigs or filters.
    pub fn stores(&self) -> Result<Option<&Arc<Stores>>> {
        let mut tables = self.tables.iter().map(|table| &table.stores);
        let Some(first) = tables.next() else {
            return Ok(None);
        };
        for other in tables {
            if other.contigs() != first.contigs() || other.filters() != first.filters() {
                return plan_err!(
                    "the tables '{}' and '{}' have different contigs or filters, so it is not known which the new store has; set \
                     'vcz.contigs' and 'vcz.filters'",
                    first.location(),
                    other.location()
                );
            }
        }
        Ok(Some(first))
    }

    /// The only store of the only table.
    pub fn only_store(&self) -> Option<&Arc<Stores>> {
        match &self.tables[..] {
            [table] if table.stores.members().len() == 1 => Some(&table.stores),
            _ => None,
        }
    }

    /// The sample ids of the tables, each set once.
    pub fn sample_sets(&self) -> Vec<&[String]> {
        let mut sets: Vec<&[String]> = vec![];
        for table in &self.tables {
            let samples = table.stores.sample_ids();
            if !sets.contains(&samples) {
                sets.push(samples);
            }
        }
        sets
    }

    /// How many sets of samples the query's calls may be of.
    pub fn sample_sets_of_calls(&self) -> usize {
        let mut sets: Vec<&[String]> = vec![];
        for context in &self.contexts {
            if !sets.contains(&context.sample_ids()) {
                sets.push(context.sample_ids());
            }
        }
        sets.len()
    }

    /// The stores of a table with all of these samples; else those of the first table.
    pub fn stores_with(&self, samples: &[String]) -> Option<&Arc<Stores>> {
        let mut tables = self.tables.iter().map(|table| &table.stores);
        let has_all = |stores: &&Arc<Stores>| {
            let known: HashSet<&String> = stores.sample_ids().iter().collect();
            samples.iter().all(|sample| known.contains(sample))
        };
        tables
            .find(has_all)
            .or_else(|| self.tables.first().map(|table| &table.stores))
    }

    /// The array behind the table's column `name`.
    pub fn array(&self, name: &str) -> Option<&Arc<ArrayMeta>> {
        let mut tables = self.tables.iter();
        tables.find_map(|table| {
            let at = table.stores.column_index(name)?;
            table.stores.columns().get(at).map(|column| &column.array)
        })
    }

    /// The ids of the samples of `field`, a column of calls; `None` if they are not known.
    pub fn sample_ids_of(&self, field: &Field) -> Option<&[String]> {
        let mut contexts = self.contexts.iter();
        let found = contexts.find(|context| context.has_sample_ids_of(field));
        found.map(|context| context.sample_ids())
    }

    /// The columns of calls in `schema` whose samples are known, and the key of these samples.
    ///
    /// # Errors
    /// If columns are of different samples.
    pub fn samples_key(schema: &Schema) -> Result<Option<String>> {
        let mut found: Option<(&Field, &String)> = None;
        for field in schema.fields() {
            let Some(key) = field.metadata().get(SAMPLES_KEY) else {
                continue;
            };
            match found {
                Some((first, other)) if other != key => {
                    return plan_err!(
                        "the columns '{}' and '{}' are of different samples; select the same samples of both: \
                         select_samples({}, …), select_samples({}, …)",
                        first.name(),
                        field.name(),
                        first.name(),
                        field.name()
                    );
                }
                _ => found = Some((field, key)),
            }
        }
        Ok(found.map(|(_, key)| key.clone()))
    }
}
