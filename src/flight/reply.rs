//! Messages that the [`service`](super::service) replies with: flight infos, rows, schemas.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::Any;
use arrow_flight::{
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{TryStreamExt, stream};
use prost::Message;
use tonic::{Response, Status};

use super::error::arrow_status;

/// Rows, as a stream of messages.
pub type Reply = BoxStream<'static, Result<FlightData, Status>>;

/// The flight info to fetch the rows of `command`, which have `schema`.
pub fn fetch_with(
    command: Any,
    schema: &Schema,
    descriptor: FlightDescriptor,
) -> Result<Response<FlightInfo>, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(command.encode_to_vec()));
    let info = FlightInfo::new()
        .try_with_schema(schema)
        .map_err(arrow_status)?
        .with_endpoint(endpoint)
        .with_descriptor(descriptor)
        // Not known before it is run.
        .with_total_records(-1)
        .with_total_bytes(-1);
    Ok(Response::new(info))
}

/// A batch as a stream of messages.
pub fn send(batch: RecordBatch) -> Result<Response<Reply>, Status> {
    let messages = FlightDataEncoderBuilder::new()
        .with_schema(batch.schema())
        .build(stream::iter([Ok(batch)]))
        .map_err(Status::from);
    Ok(Response::new(Box::pin(messages)))
}

/// A schema in its IPC encoding; empty for no columns, which tells clients that there are no rows.
pub fn encoded(schema: &Schema) -> Result<Bytes, Status> {
    if schema.fields().is_empty() {
        return Ok(Bytes::new());
    }
    let options = IpcWriteOptions::default();
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &options)
        .try_into()
        .map_err(arrow_status)?;
    Ok(bytes)
}
