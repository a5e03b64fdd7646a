//! Messages and calls of which only descriptors are known.

use anyhow::{Context, Result};
use futures::StreamExt;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

use super::{Contract, SERVICE};

/// Decodes messages of one type as a program would whose contract has only these fields: what it does
/// not know is lost.
#[derive(Debug, Clone)]
pub(super) struct Known(pub(super) MessageDescriptor);

impl Codec for Known {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for Known {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, item: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for Known {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let mut message = DynamicMessage::decode(self.0.clone(), buffer)
            .map_err(|error| Status::internal(error.to_string()))?;
        forget_unknown(&mut message);
        Ok(Some(message))
    }
}

fn forget_unknown(message: &mut DynamicMessage) {
    message.take_unknown_fields().for_each(drop);
    for (_, value) in message.fields_mut() {
        match value {
            Value::Message(message) => forget_unknown(message),
            Value::List(items) => {
                let messages = items.iter_mut().filter_map(Value::as_message_mut);
                messages.for_each(forget_unknown);
            }
            _ => {}
        }
    }
}

/// Sends a request, whatever the method's answers are: one message, or a stream of them.
pub(super) async fn send(
    channel: &Channel,
    path: PathAndQuery,
    output: MessageDescriptor,
    request: Request<DynamicMessage>,
) -> Result<tonic::Response<Streaming<DynamicMessage>>, Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    // Both are the same on the wire.
    grpc.server_streaming(request, path, Known(output)).await
}

/// Calls a method as a program with this contract would, and returns all that is answered.
///
/// # Errors
/// The contract does not have it, or the call fails.
pub async fn call(
    channel: &Channel,
    contract: &Contract,
    method: &str,
    fields: &[(&str, Value)],
) -> Result<Vec<DynamicMessage>> {
    let found = contract.method(method)?;
    let request = filled(found.input(), fields)?;
    let path = PathAndQuery::try_from(format!("/{SERVICE}/{method}"))?;
    let answered = send(channel, path, found.output(), Request::new(request)).await?;
    let answers: Vec<_> = answered.into_inner().collect().await;
    Ok(answers.into_iter().collect::<Result<_, _>>()?)
}

/// A message with these fields.
///
/// # Errors
/// The contract does not have it, or not the fields.
pub fn of(contract: &Contract, message: &str, fields: &[(&str, Value)]) -> Result<Value> {
    Ok(Value::Message(filled(contract.message(message)?, fields)?))
}

fn filled(message: MessageDescriptor, fields: &[(&str, Value)]) -> Result<DynamicMessage> {
    let mut filled = DynamicMessage::new(message);
    for (name, value) in fields {
        filled
            .try_set_field_by_name(name, value.clone())
            .map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    }
    Ok(filled)
}

/// A field of a message, by the path to it.
///
/// # Errors
/// The contract does not have it.
pub fn get(message: &DynamicMessage, path: &str) -> Result<Value> {
    let mut value = Value::Message(message.clone());
    for name in path.split('.') {
        let message = value.as_message().with_context(|| path.to_owned())?;
        let field = message.get_field_by_name(name);
        value = field
            .with_context(|| format!("{name} of {path}"))?
            .into_owned();
    }
    Ok(value)
}
