//! Trace spans of controller and agents at a receiver of OTLP.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Result, ensure};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use parking_lot::Mutex;
use rackhand_tests::stage::{
    HostLink, LONG, OtlpReceiver, RackSpec, Recorder, Stage, StageConfig, wait_until,
};
use tonic::{
    Request, Response, Status,
    transport::{Identity, Server, ServerTlsConfig, server::TcpIncoming},
};

const HOST: &str = "rack-a-1";

/// A span and the program that sent it.
#[derive(Debug, Clone)]
struct Received {
    service: String,
    span: Span,
}

/// A receiver that keeps everything.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Vec<Received>>>);

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_program in request.into_inner().resource_spans {
            let attributes = of_program.resource.unwrap_or_default().attributes;
            let service = attribute(&attributes, "service.name").unwrap_or_default();
            let spans = of_program.scope_spans.into_iter().flat_map(|s| s.spans);
            self.0.lock().extend(spans.map(|span| Received {
                service: service.clone(),
                span,
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Receiver {
    /// Starts a receiver with TLS. Writes its certificate into the directory.
    fn start(dir: &Path) -> Result<(Self, OtlpReceiver)> {
        let receiver = Self::default();
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let roots = dir.join("otlp-roots.pem");
        std::fs::write(&roots, certified.cert.pem())?;
        let key = certified.signing_key.serialize_pem();
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certified.cert.pem(), key));
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let port = incoming.local_addr()?.port();
        let service = TraceServiceServer::new(receiver.clone());
        let server = Server::builder().tls_config(tls)?.add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        let endpoint = format!("https://localhost:{port}");
        Ok((receiver, OtlpReceiver { endpoint, roots }))
    }

    fn of(&self, service: &str) -> Vec<Span> {
        let all = self.0.lock();
        let sent = all.iter().filter(|received| received.service == service);
        sent.map(|received| received.span.clone()).collect()
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

fn has_event(span: &Span, name: &str) -> bool {
    span.events.iter().any(|event| event.name == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_controller_and_agent_arrive_by_otlp_in_one_trace() {
    let dir = tempfile::tempdir().unwrap();
    let (receiver, otlp) = Receiver::start(dir.path()).unwrap();
    let racks = vec![RackSpec::new("rack-a", 1, HostLink::Inventory)];
    let config = StageConfig {
        otlp: Some(otlp),
        ..StageConfig::steady(racks, &[])
    };
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = scenario(&stage, &receiver).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn scenario(stage: &Stage, receiver: &Receiver) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    let recorder = Recorder::start(&stage.client);
    stage.apply_health_check().await?;
    ensure!(stage.host(HOST)?.hang(), "{HOST} was not up");
    let created = recorder.wait_created(HOST).await?;
    let uid = created["metadata"]["uid"].as_str().unwrap_or_default();
    stage.wait_back(HOST).await?;

    let remediation = wait_until("the span of the remediation", LONG, || async {
        let spans = receiver.of("rackhand-controller");
        let found = spans.iter().find(|span| span.name == "remediation");
        Ok(found.cloned().ok_or_else(|| format!("{spans:#?}")))
    })
    .await?;
    let trace = uuid::Uuid::parse_str(uid)?.into_bytes();
    ensure!(remediation.trace_id == trace, "{remediation:#?}");
    ensure!(
        has_event(&remediation, "remediation finished"),
        "{remediation:#?}"
    );
    let calls = wait_until("the spans of both power commands", LONG, || async {
        let calls = receiver.of("rackhand-agent");
        let commands = calls.iter().filter(|span| has_event(span, "BMC call"));
        let begins = commands.filter(|span| {
            attribute(&span.attributes, "rpc.method").as_deref()
                == Some("rackhand.power.v1.Power/Begin")
        });
        Ok(match begins.count() {
            2 => Ok(calls),
            _ => Err(format!("{calls:#?}")),
        })
    })
    .await?;
    for call in &calls {
        ensure!(call.trace_id == trace, "of another trace: {call:#?}");
        ensure!(
            call.parent_span_id == remediation.span_id,
            "not below the span of the controller: {call:#?}"
        );
    }
    Ok(())
}
