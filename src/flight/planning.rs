//! Planning of statements: each is planned once, checked by the policy, and executed later as it was planned. Populations and masks
//! are read while planning, under the query's own limits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DescribeTable, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use super::engine::QueryEngine;
use super::planned::{Planned, Rows, StatementSource};
use super::policy::{self, Allowed};
use super::sessions::ClientSession;
use super::settings::{self, FlightSettings};
use super::{logical, stop, widths, wire};
use crate::scan::VczSettings;
use crate::session::largest_values;

/// The number of rows and copies of rows that a query holds in memory at least.
const ROWS_HELD: usize = 8;
/// The number of copies of the values of this crate's aggregates: as they are computed, as a column, and as a message.
const VALUES_HELD: usize = 4;

impl QueryEngine {
    /// Plans a statement for a client, on a thread for planning. SET, RESET and DDL are run at once.
    pub async fn plan(
        &self,
        session: &ClientSession,
        state: SessionState,
        source: StatementSource,
    ) -> Result<Planned> {
        let started = Instant::now();
        let settings = FlightSettings::of(state.config_options());
        let notices = VczSettings::of(state.config_options()).notices;
        let most = self.limits.plan_size;
        let plans = match source {
            StatementSource::Sql(sql) => vec![logical::of_text(&state, &sql, most).await?],
            StatementSource::Prepared(prepared) => prepared.filled(&state, most).await?,
        };
        let mut planned: Option<Planned> = None;
        for plan in plans {
            stop::check()?;
            let shows_plans = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
            let rows = self.plan_rows(session, &state, plan).await?;
            match &mut planned {
                None => {
                    let (schema, rows) = rows;
                    planned = Some(Planned {
                        schema,
                        rows,
                        planning: Duration::ZERO,
                        shows_plans,
                        settings: settings.clone(),
                        notices: notices.clone(),
                    });
                }
                Some(planned) => planned.append(rows)?,
            }
        }
        let planned = planned
            .ok_or_else(|| plan_datafusion_err!("no row of values is bound to the parameters"))?;
        Ok(Planned {
            planning: started.elapsed(),
            ..planned
        })
    }

    /// Plans what one logical plan gives.
    async fn plan_rows(
        &self,
        session: &ClientSession,
        state: &SessionState,
        plan: LogicalPlan,
    ) -> Result<(SchemaRef, Rows)> {
        // Before constants are folded, because folding builds the strings.
        widths::widest(&plan, self.largest_row())?;
        let batch = match policy::check(&plan, self.allow_ddl)? {
            Allowed::Query => return self.plan_query(state.clone(), plan).await,
            Allowed::Describe(describe) => describe_rows(&describe)?,
            Allowed::Set(set) => {
                let value = Some(set.value.as_str());
                self.set(session, &set.variable, value)?
            }
            Allowed::Reset(reset) => self.set(session, &reset.variable, None)?,
            Allowed::Ddl => {
                self.run_ddl(state.clone(), plan).await?;
                one_row(&[("status", "done")])?
            }
        };
        Ok((batch.schema(), Rows::Batches(vec![batch])))
    }

    /// The most bytes of strings and lists in a row: operators hold several rows, and copies of them.
    fn largest_row(&self) -> usize {
        self.limits.query_memory / ROWS_HELD
    }

    async fn plan_query(
        &self,
        state: SessionState,
        plan: LogicalPlan,
    ) -> Result<(SchemaRef, Rows)> {
        let (physical, state) = self.physical(state, &plan).await?;
        let schema = wire::wire_schema(&physical.schema());
        Ok((schema, Rows::Plans(vec![(physical, state.task_ctx())])))
    }

    /// The physical plan of a query, and the state to run it with, whose batches have as many rows as their width allows.
    ///
    /// # Errors
    /// If the query cannot be planned, or a row may be too large.
    pub async fn physical(
        &self,
        mut state: SessionState,
        plan: &LogicalPlan,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionState)> {
        let optimized = state.optimize(plan)?;
        let width = widths::widest(&optimized, self.largest_row())?;
        let rows = VczSettings::of(state.config_options()).batch_bytes / width.max(1);
        if rows < state.config().batch_size() {
            let config = state.config().clone().with_batch_size(rows.max(1));
            state = SessionStateBuilder::new_from_existing(state)
                .with_config(config)
                .build();
        }
        let planner = Arc::clone(state.query_planner());
        let physical = planner.create_physical_plan(&optimized, &state).await?;
        self.check_values(&physical)?;
        Ok((physical, state))
    }

    /// Checks that the spectra of a row, and copies of them, fit the memory of a query.
    fn check_values(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let bytes = largest_values(plan)?;
        let most = self.limits.query_memory / VALUES_HELD;
        if bytes > most {
            return plan_err!(
                "the spectra or other lists of one row of the query take {bytes} bytes, more than the {most} that one query has on this \
                 server: project to fewer copies, choose smaller populations, or compute them in several queries"
            );
        }
        Ok(())
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
    pub fn logical_schema(&self, state: &SessionState, plan: &LogicalPlan) -> Result<SchemaRef> {
        Ok(match policy::check(plan, self.allow_ddl)? {
            // Analysis determines types that depend on a population's size. A statement with parameters cannot be analysed yet.
            Allowed::Query => {
                let options = state.config_options();
                let analyzed =
                    (state.analyzer()).execute_and_check(plan.clone(), options, |_, _| {});
                stop::check()?;
                let plan = analyzed.as_ref().unwrap_or(plan);
                wire::wire_schema(plan.schema().as_arrow())
            }
            Allowed::Describe(describe) => describe_rows(&describe)?.schema(),
            Allowed::Set(_) | Allowed::Reset(_) | Allowed::Ddl => Arc::new(Schema::empty()),
        })
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
