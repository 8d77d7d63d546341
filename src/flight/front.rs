//! `FlightService` as clients call it: [`Service`] and the method `GetSchema`, which the Flight SQL trait leaves unimplemented.

use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaAsIpc, SchemaResult, Ticket,
};
use tonic::{Request, Response, Status, Streaming};

use super::error::arrow_status;
use super::service::Service;

/// The service with `GetSchema`.
#[derive(Clone)]
pub struct Front(pub Service);

impl Front {
    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let schema = self.0.statement_schema(request).await?;
        let options = IpcWriteOptions::default();
        let result =
            SchemaResult::try_from(SchemaAsIpc::new(&schema, &options)).map_err(arrow_status)?;
        Ok(Response::new(result))
    }
}

impl FlightService for Front {
    type HandshakeStream = <Service as FlightService>::HandshakeStream;
    type ListFlightsStream = <Service as FlightService>::ListFlightsStream;
    type DoGetStream = <Service as FlightService>::DoGetStream;
    type DoPutStream = <Service as FlightService>::DoPutStream;
    type DoActionStream = <Service as FlightService>::DoActionStream;
    type ListActionsStream = <Service as FlightService>::ListActionsStream;
    type DoExchangeStream = <Service as FlightService>::DoExchangeStream;

    boxed_methods! {
        of Front;
        fn get_schema(request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status>;
    }

    boxed_methods! {
        of Service, |front| &front.0;
        fn handshake(request: Request<Streaming<HandshakeRequest>>) -> Result<Response<<Service as FlightService>::HandshakeStream>, Status>;
        fn list_flights(request: Request<Criteria>) -> Result<Response<<Service as FlightService>::ListFlightsStream>, Status>;
        fn get_flight_info(request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status>;
        fn poll_flight_info(request: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status>;
        fn do_get(request: Request<Ticket>) -> Result<Response<<Service as FlightService>::DoGetStream>, Status>;
        fn do_put(request: Request<Streaming<FlightData>>) -> Result<Response<<Service as FlightService>::DoPutStream>, Status>;
        fn do_action(request: Request<Action>) -> Result<Response<<Service as FlightService>::DoActionStream>, Status>;
        fn list_actions(request: Request<Empty>) -> Result<Response<<Service as FlightService>::ListActionsStream>, Status>;
        fn do_exchange(request: Request<Streaming<FlightData>>) -> Result<Response<<Service as FlightService>::DoExchangeStream>, Status>;
    }
}
