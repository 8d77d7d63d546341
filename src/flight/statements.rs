//! Planning, execution, cancellation and schemas of statements for the [`service`](super::service).
//!
//! Between the protocol and `planning`, `handles` and `running`. Invariant: only the user who planned a statement can
//! use it.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::sql::{
    Any, CommandPreparedStatementQuery, CommandStatementQuery, ProstMessageExt,
    TicketStatementQuery,
};
use arrow_flight::{FlightDescriptor, FlightInfo};
use bytes::Bytes;
use prost::Message;
use tonic::{Request, Response, Status};

use super::error::status;
use super::execution;
use super::parameters::Prepared;
use super::planned::{Rows, StatementSource};
use super::reply::{Reply, flight_info, notices_json};
use super::service::Service;
use super::sessions::ClientSession;

/// A header that asks for compressed record batches, for clients that cannot send SET.
const COMPRESSION_HEADER: &str = "x-vcz-compression";

impl Service {
    /// The client that sent a request, which authentication has attached.
    pub(super) fn client<T>(&self, request: &Request<T>) -> Result<Arc<ClientSession>, Status> {
        request
            .extensions()
            .get::<Arc<ClientSession>>()
            .cloned()
            .ok_or_else(|| Status::unauthenticated("log in first"))
    }

    /// Plans a statement, keeps the plan, and returns the flight info with which to fetch its rows. Its metadata are the notices of
    /// planning.
    pub(super) async fn planned<T>(
        &self,
        source: StatementSource,
        request: &Request<T>,
        descriptor: FlightDescriptor,
    ) -> Result<Response<FlightInfo>, Status> {
        let client = self.client(request)?;
        let (mut planned, bytes) = self.engine.plan_with_permit(&client, source).await?;
        if let Some(compression) = request.metadata().get(COMPRESSION_HEADER) {
            let asked = compression.to_str().unwrap_or_default();
            planned.settings.compression = asked.parse().map_err(|error| status(&error))?;
        }
        let schema = Arc::clone(&planned.schema);
        let notices = notices_json(&planned.notices.sentences(), &self.engine.locations);
        let handle = self.engine.tickets.insert(&client.user, planned, bytes)?;
        let ticket = TicketStatementQuery {
            statement_handle: Bytes::copy_from_slice(&handle),
        };
        let info = flight_info(ticket.as_any(), &schema, descriptor)?;
        Ok(Response::new(info.with_app_metadata(notices)))
    }

    /// Runs a planned query.
    pub(super) async fn fetch(
        &self,
        client: &Arc<ClientSession>,
        handle: &[u8],
    ) -> Result<Response<Reply>, Status> {
        let user = &client.user;
        // Checks and renews the ticket first: a forged one must not wait for a permit, and a valid one must not expire while it waits.
        self.engine.tickets.touch(user, handle)?;
        let permit = self.engine.admission.enter(&client.share).await?;
        let planned = self.engine.tickets.take(user, handle)?;
        let handle = handle.try_into().map_err(|_| Status::internal("handle"))?;
        let rows = execution::start(&self.engine, client, handle, planned, permit);
        Ok(Response::new(rows))
    }

    /// Runs a statement without a result.
    pub(super) async fn update(
        &self,
        source: StatementSource,
        client: &Arc<ClientSession>,
    ) -> Result<i64, Status> {
        let (planned, _) = self.engine.plan_with_permit(client, source).await?;
        for notice in planned.notices.take() {
            log::warn!(user = &*client.user; "{notice}");
        }
        match planned.rows {
            // No statement that this server runs changes rows, so the number of changed rows is always 0.
            Rows::Batches(_) => Ok(0),
            Rows::Plans(_) => Err(Status::invalid_argument(
                "this statement returns rows; execute it as a query",
            )),
        }
    }

    pub(super) fn cancel(&self, user: &str, info: Option<FlightInfo>) -> Result<(), Status> {
        let missing = || Status::not_found("there is no such query; it may have ended");
        let ticket = info
            .and_then(|info| info.endpoint.into_iter().next())
            .and_then(|endpoint| endpoint.ticket)
            .ok_or_else(missing)?;
        let command = Any::decode(&*ticket.ticket).map_err(|_| missing())?;
        let ticket = command
            .unpack::<TicketStatementQuery>()
            .ok()
            .flatten()
            .ok_or_else(missing)?;
        let handle = &ticket.statement_handle;
        if self.engine.running.cancel(user, handle)
            || self.engine.tickets.take(user, handle).is_ok()
        {
            return Ok(());
        }
        Err(missing())
    }

    /// Prepares a statement; also returns the schema of its rows, and the bytes that it takes.
    pub(super) async fn schema_of(
        &self,
        client: &Arc<ClientSession>,
        sql: String,
    ) -> Result<(Prepared, SchemaRef, usize), Status> {
        let engine = Arc::clone(&self.engine);
        let work = |state| async move {
            let prepared = Prepared::new(&state, &sql, engine.limits.plan_size).await?;
            let schema = match prepared.plan() {
                Some(plan) => engine.logical_schema(&state, plan)?,
                None => Arc::new(Schema::empty()),
            };
            Ok((prepared, schema))
        };
        let ((prepared, schema), bytes) = self.engine.with_planner(client, work).await?;
        Ok((prepared, schema, bytes))
    }

    /// The schema of a statement, for `GetSchema`.
    pub async fn statement_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<SchemaRef, Status> {
        let client = self.client(&request)?;
        let unknown = || Status::invalid_argument("the descriptor of GetSchema is not a statement");
        let command = Any::decode(&*request.get_ref().cmd).map_err(|_| unknown())?;
        if let Ok(Some(query)) = command.unpack::<CommandStatementQuery>() {
            return Ok(self.schema_of(&client, query.query).await?.1);
        }
        match command.unpack::<CommandPreparedStatementQuery>() {
            Ok(Some(query)) => {
                let prepared = self
                    .engine
                    .statements
                    .get(&client.user, &query.prepared_statement_handle)?;
                let engine = Arc::clone(&self.engine);
                let work = |state| async move {
                    match prepared.plan() {
                        Some(plan) => engine.logical_schema(&state, plan),
                        None => Ok(Arc::new(Schema::empty())),
                    }
                };
                Ok(self.engine.with_planner(&client, work).await?.0)
            }
            _ => Err(unknown()),
        }
    }
}
