//! Flight SQL's trait, by the methods of [`Service`]. What is not here (Substrait plans, ingestion, transactions, savepoints) is rejected as
//! UNIMPLEMENTED by the trait's default methods, without reading the request.

use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{Action, ActionType, FlightDescriptor, FlightInfo, HandshakeRequest, Ticket};
use futures::future::BoxFuture;
use tonic::{Request, Response, Status, Streaming};

use super::reply::Reply;
use super::service::{ActionReply, HandshakeReply, Service};

impl FlightSqlService for Service {
    type FlightService = Service;

    boxed_methods! {
        of Service;
        fn do_handshake(request: Request<Streaming<HandshakeRequest>>) -> Result<Response<HandshakeReply>, Status>;
        fn get_flight_info_statement(query: CommandStatementQuery, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn get_flight_info_prepared_statement(query: CommandPreparedStatementQuery, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_statement(ticket: TicketStatementQuery, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn do_put_statement_update(command: CommandStatementUpdate, request: Request<PeekableFlightDataStream>) -> Result<i64, Status>;
        fn do_action_create_prepared_statement(command: ActionCreatePreparedStatementRequest, request: Request<Action>) -> Result<ActionCreatePreparedStatementResult, Status>;
        fn do_action_close_prepared_statement(command: ActionClosePreparedStatementRequest, request: Request<Action>) -> Result<(), Status>;
        fn do_put_prepared_statement_query(command: CommandPreparedStatementQuery, request: Request<PeekableFlightDataStream>) -> Result<DoPutPreparedStatementResult, Status>;
        fn do_put_prepared_statement_update(command: CommandPreparedStatementUpdate, request: Request<PeekableFlightDataStream>) -> Result<i64, Status>;
        fn do_action_cancel_query(command: ActionCancelQueryRequest, request: Request<Action>) -> Result<ActionCancelQueryResult, Status>;
        fn do_action_fallback(request: Request<Action>) -> Result<Response<ActionReply>, Status>;
        fn list_custom_actions() -> Option<Vec<Result<ActionType, Status>>>;
        fn get_flight_info_catalogs(command: CommandGetCatalogs, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_catalogs(command: CommandGetCatalogs, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_schemas(command: CommandGetDbSchemas, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_schemas(command: CommandGetDbSchemas, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_tables(command: CommandGetTables, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_tables(command: CommandGetTables, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_table_types(command: CommandGetTableTypes, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_table_types(command: CommandGetTableTypes, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_sql_info(command: CommandGetSqlInfo, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_sql_info(command: CommandGetSqlInfo, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_xdbc_type_info(command: CommandGetXdbcTypeInfo, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_xdbc_type_info(command: CommandGetXdbcTypeInfo, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_primary_keys(command: CommandGetPrimaryKeys, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_primary_keys(command: CommandGetPrimaryKeys, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_exported_keys(command: CommandGetExportedKeys, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_exported_keys(command: CommandGetExportedKeys, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_imported_keys(command: CommandGetImportedKeys, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_imported_keys(command: CommandGetImportedKeys, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
        fn get_flight_info_cross_reference(command: CommandGetCrossReference, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn do_get_cross_reference(command: CommandGetCrossReference, request: Request<Ticket>) -> Result<Response<Reply>, Status>;
    }

    boxed_methods! {
        fn register_sql_info<'a, 'i>(&'a self, id: i32, result: &'i SqlInfo) -> () = Self::register;
    }
}

impl Service {
    /// Nothing: the SqlInfo is built when the server starts, see `info`.
    fn register<'a>(&'a self, _id: i32, _result: &'a SqlInfo) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
