//! Planning of statements: each is planned once, checked by the policy, and executed later as it was planned. Populations and masks
//! are read while planning, under the query's own limits.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DescribeTable, LogicalPlan};
use datafusion::prelude::SessionConfig;

use super::complexity;
use super::engine::QueryEngine;
use super::planned::{Planned, Rows, StatementSource};
use super::policy::{self, Allowed};
use super::sessions::ClientSession;
use super::settings::{self, FlightSettings};
use super::wire;
use crate::scan::VczSettings;
use crate::session::name_missing_arrays;

impl QueryEngine {
    /// Plans a statement for a client. SET, RESET and DDL are run at once.
    pub async fn plan(&self, session: &ClientSession, source: StatementSource) -> Result<Planned> {
        let config = session.config();
        let settings = FlightSettings::of(config.options());
        let state = self.state(config);
        let plan = match source {
            StatementSource::Sql(sql) => {
                let statement = complexity::parse(&state, &sql)?;
                match state.statement_to_plan(statement).await {
                    Ok(plan) => plan,
                    Err(error) => return Err(name_missing_arrays(&state, error).await),
                }
            }
            StatementSource::Prepared(prepared) => prepared.filled(&state).await?,
        };
        let batch = match policy::check(&plan, self.allow_ddl)? {
            Allowed::Query => return self.plan_query(state, plan, settings).await,
            Allowed::Describe(describe) => describe_rows(&describe)?,
            Allowed::Set(set) => {
                let value = Some(set.value.as_str());
                self.set(session, &set.variable, value)?
            }
            Allowed::Reset(reset) => self.set(session, &reset.variable, None)?,
            Allowed::Ddl => {
                self.run_ddl(state, plan).await?;
                one_row(&[("status", "done")])?
            }
        };
        Ok(Planned {
            schema: batch.schema(),
            rows: Rows::Batch(batch),
            settings,
        })
    }

    async fn plan_query(
        &self,
        mut state: SessionState,
        plan: LogicalPlan,
        settings: FlightSettings,
    ) -> Result<Planned> {
        let optimized = state.optimize(&plan)?;
        // DataFusion's operators build batches of `batch_size` rows, however wide these are.
        let rows = VczSettings::of(state.config_options()).batch_bytes / widest(&optimized)?.max(1);
        if rows < state.config().batch_size() {
            let config = state.config().clone().with_batch_size(rows.max(1));
            state = SessionStateBuilder::new_from_existing(state)
                .with_config(config)
                .build();
        }
        let planner = Arc::clone(state.query_planner());
        let physical = planner.create_physical_plan(&optimized, &state).await?;
        Ok(Planned {
            schema: wire::wire_schema(&physical.schema()),
            rows: Rows::Plan(physical, state.task_ctx()),
            settings,
        })
    }

    fn set(&self, session: &ClientSession, name: &str, value: Option<&str>) -> Result<RecordBatch> {
        let max_partitions = self.limits.max_partitions;
        let config: SessionConfig = settings::set(
            &session.config(),
            &self.defaults,
            name,
            value,
            max_partitions,
        )?;
        session.set_config(config);
        one_row(&[("name", name), ("value", value.unwrap_or("default"))])
    }

    /// The schema of a statement's rows, without running it or reading data; empty for a statement without a result.
    pub fn logical_schema(&self, plan: &LogicalPlan) -> Result<SchemaRef> {
        Ok(match policy::check(plan, self.allow_ddl)? {
            // Analysis determines types that depend on a population's size. A statement with parameters cannot be analysed yet.
            Allowed::Query => {
                let state = self.state(self.defaults.clone());
                let options = state.config_options();
                let analyzed =
                    (state.analyzer()).execute_and_check(plan.clone(), options, |_, _| {});
                let plan = analyzed.as_ref().unwrap_or(plan);
                wire::wire_schema(plan.schema().as_arrow())
            }
            Allowed::Describe(describe) => describe_rows(&describe)?.schema(),
            Allowed::Set(_) | Allowed::Reset(_) | Allowed::Ddl => Arc::new(Schema::empty()),
        })
    }
}

/// The width in bytes of the widest rows that an operator of `plan` may buffer. Scans are left out: they bound their batches by
/// bytes themselves, and most genotypes that they list are only counted.
fn widest(plan: &LogicalPlan) -> Result<usize> {
    let mut widest = 0;
    plan.apply_with_subqueries(|node| {
        let is_scan = matches!(node, LogicalPlan::TableScan(_));
        if !is_scan {
            let fields = node.schema().fields();
            let width = fields.iter().map(|field| width_of(field.data_type())).sum();
            widest = widest.max(width);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(widest)
}

/// Bytes of a value of a fixed-width type; 0 for other types.
fn width_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(item, size) => {
            width_of(item.data_type()).saturating_mul(usize::try_from(*size).unwrap_or(0))
        }
        DataType::Struct(fields) => fields.iter().map(|field| width_of(field.data_type())).sum(),
        DataType::Boolean => 1,
        DataType::Utf8View | DataType::BinaryView => 16,
        other => other.primitive_width().unwrap_or(0),
    }
}

fn describe_rows(describe: &DescribeTable) -> Result<RecordBatch> {
    let fields = wire::wire_schema(&describe.schema).fields().clone();
    let text = |of: &dyn Fn(&Field) -> String| {
        Arc::new(StringArray::from_iter_values(
            fields.iter().map(|field| of(field)),
        ))
    };
    let yes_or_no = |yes| if yes { "YES" } else { "NO" }.to_string();
    Ok(RecordBatch::try_new(
        Arc::new(LogicalPlan::describe_schema()),
        vec![
            text(&|field| field.name().clone()),
            text(&|field| field.data_type().to_string()),
            text(&|field| yes_or_no(field.is_nullable())),
        ],
    )?)
}

fn one_row(columns: &[(&str, &str)]) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, _)| Field::new(*name, DataType::Utf8, false))
        .collect();
    let values = columns
        .iter()
        .map(|(_, value)| Arc::new(StringArray::from(vec![*value])) as _)
        .collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), values)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths() {
        let list = |item: DataType, size| {
            DataType::FixedSizeList(Arc::new(Field::new_list_field(item, false)), size)
        };
        assert_eq!(width_of(&list(list(DataType::Int8, 2), 500_000)), 1_000_000);
        assert_eq!(width_of(&DataType::Int64), 8);
        assert_eq!(width_of(&DataType::new_list(DataType::Int8, true)), 0);
        assert_eq!(
            width_of(&list(DataType::Int64, i32::MAX)),
            8 * i32::MAX as usize
        );
    }
}
