//! The upper bound of `arrow-flight`'s throughput: a server that streams the batches of an Arrow file from memory, for any ticket.
//! `benches/flight/throughput.py` starts it with the file as its argument and reads the address from its output.

use std::error::Error;
use std::fs::File;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::ipc::reader::FileReader;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

struct Memory(Arc<Vec<RecordBatch>>);

type Reply<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

macro_rules! not_here {
    ($($name:ident($request:ty) -> $response:ty;)*) => {
        #[tonic::async_trait]
        impl FlightService for Memory {
            type HandshakeStream = Reply<HandshakeResponse>;
            type ListFlightsStream = Reply<FlightInfo>;
            type DoGetStream = Reply<FlightData>;
            type DoPutStream = Reply<PutResult>;
            type DoActionStream = Reply<arrow_flight::Result>;
            type ListActionsStream = Reply<ActionType>;
            type DoExchangeStream = Reply<FlightData>;

            async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Reply<FlightData>>, Status> {
                let batches = Arc::clone(&self.0);
                let count = batches.len();
                let batches = stream::iter(0..count).map(move |at| Ok(batches[at].clone()));
                let messages = FlightDataEncoderBuilder::new().build(batches).map_err(Status::from);
                Ok(Response::new(messages.boxed()))
            }

            $(async fn $name(&self, _: Request<$request>) -> Result<Response<$response>, Status> {
                Err(Status::unimplemented("only do_get"))
            })*
        }
    };
}

not_here! {
    handshake(Streaming<HandshakeRequest>) -> Reply<HandshakeResponse>;
    list_flights(Criteria) -> Reply<FlightInfo>;
    get_flight_info(FlightDescriptor) -> FlightInfo;
    poll_flight_info(FlightDescriptor) -> PollInfo;
    get_schema(FlightDescriptor) -> SchemaResult;
    do_put(Streaming<FlightData>) -> Reply<PutResult>;
    do_action(Action) -> Reply<arrow_flight::Result>;
    list_actions(Empty) -> Reply<ActionType>;
    do_exchange(Streaming<FlightData>) -> Reply<FlightData>;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args()
        .nth(1)
        .filter(|path| path.ends_with(".arrow"))
    else {
        // `cargo bench` runs every bench; without a file there is nothing to serve.
        println!("give an Arrow file; see benches/flight/throughput.py");
        return Ok(());
    };
    let batches = FileReader::try_new(File::open(path)?, None)?.collect::<Result<Vec<_>, _>>()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    tonic::transport::Server::builder()
        .add_service(FlightServiceServer::new(Memory(Arc::new(batches))))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await?;
    Ok(())
}
