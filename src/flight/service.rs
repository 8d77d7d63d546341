//! The protocol: what Flight SQL's commands and actions do. Requests have passed the [`authentication`](super::authentication), so each has its
//! client attached. [`commands`](super::commands) has the trait's implementation.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::metadata::SqlInfoData;
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus,
    FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse, Ticket,
};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use super::authentication::{Identity, peer};
use super::engine::QueryEngine;
use super::error::status;
use super::info;
use super::metadata;
use super::parameters::{Prepared, rows_to_bind};
use super::planned::StatementSource;
use super::reply::{Reply, encoded, fetch_with, send};

/// The action with which newer clients cancel a query.
const CANCEL_FLIGHT_INFO: &str = "CancelFlightInfo";
/// `CANCEL_RESULT_CANCELLED` of `ActionCancelQueryResult`, whose enumeration the crate does not export.
const CANCELLED: i32 = 1;

/// How long the parameters of a statement may take to arrive.
const BIND_TIMEOUT: Duration = Duration::from_secs(60);

/// The service.
#[derive(Clone)]
pub struct Service {
    pub(super) engine: Arc<QueryEngine>,
    identity: Arc<Identity>,
    sql_info: Arc<SqlInfoData>,
}

impl Service {
    /// The service of an engine.
    ///
    /// # Errors
    /// INTERNAL if the SqlInfo cannot be built.
    pub fn new(engine: Arc<QueryEngine>, identity: Arc<Identity>) -> Result<Self, Status> {
        let sql_info = info::sql_info(engine.allow_ddl)
            .map_err(|error| Status::internal(error.to_string()))?;
        Ok(Self {
            engine,
            identity,
            sql_info: Arc::new(sql_info),
        })
    }
}

/// Binds the rows of parameters that a client sends.
async fn bind(prepared: &Prepared, rows: PeekableFlightDataStream) -> Result<(), Status> {
    let values = FlightRecordBatchStream::new_from_flight_data(rows.map_err(FlightError::from));
    let batches = tokio::time::timeout(BIND_TIMEOUT, rows_to_bind(values))
        .await
        .map_err(|_| Status::deadline_exceeded("the parameters took too long to arrive"))??;
    prepared.bind(&batches).map_err(|error| status(&error))
}

pub(super) type HandshakeReply =
    Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>;
pub(super) type ActionReply = <Service as FlightService>::DoActionStream;

/// What the commands and actions do, under the names of the methods of Flight SQL's trait.
impl Service {
    pub(super) async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<HandshakeReply>, Status> {
        let Some(logins) = &self.identity.logins else {
            return Err(Status::unauthenticated(
                "this server has no users; connect without a user name",
            ));
        };
        let header = request
            .metadata()
            .get("authorization")
            .and_then(|header| header.to_str().ok());
        let peer = peer(request.extensions());
        let address = peer.map(|peer| peer.address.ip());
        let result = logins.login(header, address, &self.identity.tokens).await;
        self.engine.metrics.login(result.is_ok());
        let (token, user) = match result {
            Ok(found) => found,
            Err(status) => {
                let address = address
                    .map(|address| address.to_string())
                    .unwrap_or_default();
                log::warn!(address = address.as_str(), code:? = status.code(); "a login was refused");
                return Err(status);
            }
        };
        if let Some(peer) = peer {
            peer.connection.known();
        }
        log::info!(user = &*user; "a user logged in");
        let reply = HandshakeResponse {
            protocol_version: 0,
            payload: Bytes::from(token.clone()),
        };
        let reply: HandshakeReply = Box::pin(stream::iter([Ok(reply)]));
        let mut response = Response::new(reply);
        let bearer = format!("Bearer {token}")
            .parse()
            .map_err(|_| Status::internal("the token is no header"))?;
        response.metadata_mut().insert("authorization", bearer);
        Ok(response)
    }

    pub(super) async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let descriptor = request.get_ref().clone();
        self.planned(StatementSource::Sql(query.query), &request, descriptor)
            .await
    }

    pub(super) async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let client = self.client(&request)?;
        let prepared = self
            .engine
            .statements
            .get(&client.user, &query.prepared_statement_handle)?;
        let descriptor = request.get_ref().clone();
        self.planned(StatementSource::Prepared(prepared), &request, descriptor)
            .await
    }

    pub(super) async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        let client = self.client(&request)?;
        self.fetch(&client, &ticket.statement_handle).await
    }

    pub(super) async fn do_put_statement_update(
        &self,
        command: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let client = self.client(&request)?;
        self.update(StatementSource::Sql(command.query), &client)
            .await
    }

    pub(super) async fn do_action_create_prepared_statement(
        &self,
        command: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let client = self.client(&request)?;
        let (prepared, schema, bytes) = self.schema_of(&client, command.query).await?;
        let parameters = encoded(&prepared.parameters())?;
        let handle = self
            .engine
            .statements
            .insert(&client.user, Arc::new(prepared), bytes)?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: Bytes::copy_from_slice(&handle),
            dataset_schema: encoded(&schema)?,
            parameter_schema: parameters,
        })
    }

    pub(super) async fn do_action_close_prepared_statement(
        &self,
        command: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let client = self.client(&request)?;
        self.engine
            .statements
            .take(&client.user, &command.prepared_statement_handle)
            .map(drop)
    }

    pub(super) async fn do_put_prepared_statement_query(
        &self,
        command: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let client = self.client(&request)?;
        let handle = command.prepared_statement_handle;
        let prepared = self.engine.statements.get(&client.user, &handle)?;
        bind(&prepared, request.into_inner()).await?;
        Ok(DoPutPreparedStatementResult {
            prepared_statement_handle: Some(handle),
        })
    }

    pub(super) async fn do_put_prepared_statement_update(
        &self,
        command: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let client = self.client(&request)?;
        let prepared = self
            .engine
            .statements
            .get(&client.user, &command.prepared_statement_handle)?;
        if prepared.takes_parameters() {
            bind(&prepared, request.into_inner()).await?;
        }
        self.update(StatementSource::Prepared(prepared), &client)
            .await
    }

    pub(super) async fn do_action_cancel_query(
        &self,
        command: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let client = self.client(&request)?;
        self.cancel(&client.user, FlightInfo::decode(&*command.info).ok())?;
        Ok(ActionCancelQueryResult { result: CANCELLED })
    }

    pub(super) async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<ActionReply>, Status> {
        let client = self.client(&request)?;
        if request.get_ref().r#type != CANCEL_FLIGHT_INFO {
            return Err(Status::unimplemented(
                "there is no such action on this server",
            ));
        }
        let command = CancelFlightInfoRequest::decode(&*request.get_ref().body)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.cancel(&client.user, command.info)?;
        let body = CancelFlightInfoResult::new(CancelStatus::Cancelled).encode_to_vec();
        let reply = arrow_flight::Result::new(body);
        Ok(Response::new(stream::iter([Ok(reply)]).boxed()))
    }

    pub(super) async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        Some(vec![Ok(ActionType {
            r#type: CANCEL_FLIGHT_INFO.to_string(),
            description: "Cancels a query".to_string(),
        })])
    }

    pub(super) async fn get_flight_info_catalogs(
        &self,
        command: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = command.into_builder().schema();
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_catalogs(
        &self,
        command: CommandGetCatalogs,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        send(metadata::catalogs(
            command,
            self.engine.template().catalog_list().as_ref(),
        )?)
    }

    pub(super) async fn get_flight_info_schemas(
        &self,
        command: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = command.clone().into_builder().schema();
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_schemas(
        &self,
        command: CommandGetDbSchemas,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        send(metadata::schemas(
            command,
            self.engine.template().catalog_list().as_ref(),
        )?)
    }

    pub(super) async fn get_flight_info_tables(
        &self,
        command: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = metadata::tables_schema(command.clone());
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_tables(
        &self,
        command: CommandGetTables,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        let catalogs = Arc::clone(self.engine.template().catalog_list());
        send(metadata::tables(command, catalogs.as_ref()).await?)
    }

    pub(super) async fn get_flight_info_table_types(
        &self,
        command: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = command.into_builder().schema();
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_table_types(
        &self,
        command: CommandGetTableTypes,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        send(metadata::table_types(command)?)
    }

    pub(super) async fn get_flight_info_sql_info(
        &self,
        command: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        fetch_with(
            command.as_any(),
            &self.sql_info.schema(),
            request.into_inner(),
        )
    }

    pub(super) async fn do_get_sql_info(
        &self,
        command: CommandGetSqlInfo,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        send(
            self.sql_info
                .record_batch(command.info)
                .map_err(Status::from)?,
        )
    }

    pub(super) async fn get_flight_info_xdbc_type_info(
        &self,
        command: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = info::type_info().map_err(Status::from)?.schema();
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_xdbc_type_info(
        &self,
        command: CommandGetXdbcTypeInfo,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        let types = info::type_info().map_err(Status::from)?;
        send(
            types
                .record_batch(command.data_type)
                .map_err(Status::from)?,
        )
    }

    pub(super) async fn get_flight_info_primary_keys(
        &self,
        command: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = metadata::primary_keys().schema();
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_primary_keys(
        &self,
        _command: CommandGetPrimaryKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        send(metadata::primary_keys())
    }

    pub(super) async fn get_flight_info_exported_keys(
        &self,
        command: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = metadata::foreign_keys().schema();
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_exported_keys(
        &self,
        _command: CommandGetExportedKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        send(metadata::foreign_keys())
    }

    pub(super) async fn get_flight_info_imported_keys(
        &self,
        command: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = metadata::foreign_keys().schema();
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_imported_keys(
        &self,
        _command: CommandGetImportedKeys,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        send(metadata::foreign_keys())
    }

    pub(super) async fn get_flight_info_cross_reference(
        &self,
        command: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let schema = metadata::foreign_keys().schema();
        fetch_with(command.as_any(), &schema, request.into_inner())
    }

    pub(super) async fn do_get_cross_reference(
        &self,
        _command: CommandGetCrossReference,
        _request: Request<Ticket>,
    ) -> Result<Response<Reply>, Status> {
        send(metadata::foreign_keys())
    }
}
