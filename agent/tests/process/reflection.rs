//! The service as used by a generic client that only has the socket.

use crate::simulated::Sim;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

/// Messages known by their descriptor only.
#[derive(Clone)]
struct Dynamic(MessageDescriptor);

impl Codec for Dynamic {
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

impl Encoder for Dynamic {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, item: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for Dynamic {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        DynamicMessage::decode(self.0.clone(), buffer)
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

async fn reflect(channel: &Channel, asked: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(asked),
    };
    let mut client = ServerReflectionClient::new(channel.clone());
    let asked = tokio_stream::iter([request]);
    let mut answers = client
        .server_reflection_info(asked)
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    answer.message_response.unwrap()
}

/// Fetches a file, after its dependencies.
async fn fetch(channel: &Channel, pool: &mut DescriptorPool, asked: MessageRequest) {
    let MessageResponse::FileDescriptorResponse(files) = reflect(channel, asked).await else {
        panic!("no descriptor");
    };
    for bytes in files.file_descriptor_proto {
        let file = prost_types::FileDescriptorProto::decode(bytes.as_slice()).unwrap();
        for needed in file.dependency {
            if pool.get_file_by_name(&needed).is_none() {
                let asked = MessageRequest::FileByFilename(needed);
                Box::pin(fetch(channel, pool, asked)).await;
            }
        }
        pool.decode_file_descriptor_proto(bytes.as_slice()).unwrap();
    }
}

async fn call(
    channel: &Channel,
    pool: &DescriptorPool,
    method: &str,
    fill: impl FnOnce(&mut DynamicMessage),
) -> DynamicMessage {
    let service = pool.get_service_by_name("rackhand.power.v1.Power").unwrap();
    let method = service.methods().find(|one| one.name() == method).unwrap();
    let mut message = DynamicMessage::new(method.input());
    fill(&mut message);
    let path = format!("/rackhand.power.v1.Power/{}", method.name());
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let answer = grpc
        .unary(
            Request::new(message),
            path.parse::<PathAndQuery>().unwrap(),
            Dynamic(method.output()),
        )
        .await;
    answer.unwrap().into_inner()
}

fn target(pool: &DescriptorPool, host: &str) -> Value {
    let target = pool
        .get_message_by_name("rackhand.power.v1.Target")
        .unwrap();
    let mut target = DynamicMessage::new(target);
    target.set_field_by_name("host", Value::String(host.to_owned()));
    Value::Message(target)
}

#[tokio::test]
async fn generic_client_calls_the_agent_by_reflection() {
    let sim = Sim::start(&["--hosts", "2", "--dead", "0"]);
    let channel = rackhand_transport::connect_local(&sim.socket())
        .await
        .unwrap();

    let listed = reflect(&channel, MessageRequest::ListServices(String::new())).await;
    let MessageResponse::ListServicesResponse(services) = listed else {
        panic!("{listed:?}");
    };
    let services: Vec<&str> = services
        .service
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    for wanted in ["rackhand.power.v1.Power", "grpc.health.v1.Health"] {
        assert!(services.contains(&wanted), "{services:?}");
    }

    let mut pool = DescriptorPool::new();
    let symbol = MessageRequest::FileContainingSymbol("rackhand.power.v1.Power".to_owned());
    fetch(&channel, &mut pool, symbol).await;

    let hosts = call(&channel, &pool, "ListHosts", |_| {}).await;
    let hosts = hosts.get_field_by_name("hosts").unwrap();
    let names: Vec<String> = hosts
        .as_list()
        .unwrap()
        .iter()
        .map(|host| {
            let host = host.as_message().unwrap();
            let name = host.get_field_by_name("name").unwrap();
            name.as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(names, ["sim-01", "sim-02"]);

    let read = call(&channel, &pool, "ReadPower", |request| {
        request.set_field_by_name("target", target(&pool, "sim-02"));
    })
    .await;
    let reading = read.get_field_by_name("reading").unwrap();
    let state = reading.as_message().unwrap();
    let state = state.get_field_by_name("state").unwrap();
    let words = pool
        .get_enum_by_name("rackhand.power.v1.PowerState")
        .unwrap();
    let word = words.get_value(state.as_enum_number().unwrap()).unwrap();
    assert_eq!(word.name(), "POWER_STATE_ON");

    let checked = call(&channel, &pool, "CheckHost", |request| {
        request.set_field_by_name("target", target(&pool, "sim-01"));
    })
    .await;
    let checks = checked.get_field_by_name("checks").unwrap();
    assert_eq!(checks.as_list().unwrap().len(), 12);
}
