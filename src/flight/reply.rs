//! Messages that the [`service`](super::service) replies with: flight infos, rows, schemas, notices.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::Any;
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{TryStreamExt, stream};
use prost::Message;
use serde_json::json;
use tonic::{Response, Status};

use super::error::arrow_status;
use super::locations::Locations;

/// Rows, as a stream of messages.
pub type Reply = BoxStream<'static, Result<FlightData, Status>>;

/// The flight info to fetch the rows of `command`, which have `schema`.
pub fn fetch_with(
    command: Any,
    schema: &Schema,
    descriptor: FlightDescriptor,
) -> Result<Response<FlightInfo>, Status> {
    flight_info(command, schema, descriptor).map(Response::new)
}

/// The message that [`fetch_with`] replies with.
pub fn flight_info(
    command: Any,
    schema: &Schema,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(command.encode_to_vec()));
    let info = FlightInfo::new()
        .try_with_schema(schema)
        .map_err(arrow_status)?
        .with_endpoint(endpoint)
        .with_descriptor(descriptor)
        // Not known before it is run.
        .with_total_records(-1)
        .with_total_bytes(-1);
    Ok(info)
}

/// Notices as clients read them, `{"notices": ["…", …]}` in UTF-8, with names of tables in place of their locations; empty for none.
pub fn notices_json(notices: &[String], locations: &Locations) -> Bytes {
    if notices.is_empty() {
        return Bytes::new();
    }
    let notices: Vec<String> = notices
        .iter()
        .map(|notice| locations.hide(notice))
        .collect();
    Bytes::from(json!({ "notices": notices }).to_string())
}

/// The message with notices after the rows of `schema`: a batch without rows, because some clients cannot read a message without a batch.
///
/// # Errors
/// INTERNAL if the batch cannot be encoded.
pub fn notices_message(schema: &SchemaRef, notices: Bytes) -> Result<FlightData, Status> {
    let empty = RecordBatch::new_empty(Arc::clone(schema));
    let mut messages = batches_to_flight_data(schema, vec![empty]).map_err(arrow_status)?;
    // The first message is the schema, which the client has.
    match messages.pop() {
        Some(message) => Ok(message.with_app_metadata(notices)),
        None => Err(Status::internal("a batch without rows has no message")),
    }
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::{DataType, Field};
    use arrow_flight::utils::flight_data_to_arrow_batch;

    use super::*;

    #[test]
    fn notices_come_with_a_batch_without_rows() {
        let locations = Locations::default();
        assert!(notices_json(&[], &locations).is_empty());
        let notices = notices_json(&["a \"b\"".to_string(), "é".to_string()], &locations);
        assert_eq!(
            &notices[..],
            "{\"notices\":[\"a \\\"b\\\"\",\"é\"]}".as_bytes()
        );
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Utf8, true),
            Field::new_list("b", Field::new_list_field(DataType::Int64, true), true),
        ]));
        let message = notices_message(&schema, notices.clone()).unwrap();
        assert_eq!(message.app_metadata, notices);
        let batch = flight_data_to_arrow_batch(&message, schema, &HashMap::new()).unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (0, 2));
    }
}
