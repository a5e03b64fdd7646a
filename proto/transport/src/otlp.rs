//! Export of trace spans over OTLP, the protocol of OpenTelemetry, by gRPC.
//!
//! A span is exported if it continues a [`TraceContext`](crate::TraceContext), with the trace id of it. Must
//! never: delay or fail the work that it reports. Spans are sent from a queue in the background, and dropped when
//! the receiver does not take them.

use std::{fmt, str::FromStr, time::Duration};

use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig, WithTonicConfig,
    tonic_types::transport::ClientTlsConfig,
};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use tracing::Subscriber;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

/// Time for sending the last spans when the program ends.
const LAST_EXPORT: Duration = Duration::from_secs(2);
/// Modules whose spans are exported: those of Rackhand, not those of its libraries.
const OWN: &str = "rackhand";

/// The URL of an OTLP receiver: `http` or `https`, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(String);

/// The text is not an [`OtlpEndpoint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OtlpEndpointError {
    /// It is not the URL of a host and a port.
    #[error(
        "not the URL of an OTLP receiver by gRPC, such as http://collector:4317: scheme http or https, host \
         and port, without a path"
    )]
    NotAnEndpoint,
    /// It contains credentials, which would be shown with it.
    #[error(
        "a URL with credentials is refused, because it is shown in logs and process lists; set the \
         environment variable OTEL_EXPORTER_OTLP_HEADERS instead"
    )]
    Credentials,
}

/// The program whose spans are exported, as OpenTelemetry's resource attributes `service.*` name it.
#[derive(Debug, Clone)]
pub struct ExportedService {
    /// Name of the program.
    pub name: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// This instance of the program: a replica, or a rack.
    pub instance: String,
}

/// The running export. Spans that are still queued are lost without [`SpanExport::finish`].
#[derive(Debug)]
pub struct SpanExport(SdkTracerProvider);

/// Starts the export to an endpoint, and returns the layer that collects the spans. Needs a tokio runtime.
/// An endpoint that does not answer is no error: the export tries again with each batch.
///
/// # Errors
/// The environment variables `OTEL_EXPORTER_OTLP_*` contradict the endpoint.
pub fn start<S>(
    endpoint: &OtlpEndpoint,
    service: ExportedService,
) -> Result<(impl Layer<S> + Send + Sync + use<S>, SpanExport), ExporterBuildError>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let mut exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&endpoint.0);
    if endpoint.0.starts_with("https:") {
        exporter = exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots());
    }
    let resource = Resource::builder()
        .with_service_name(service.name)
        .with_attributes([
            KeyValue::new("service.version", service.version),
            KeyValue::new("service.instance.id", service.instance),
        ])
        .build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter.build()?)
        // Only spans that continue the trace of a remediation.
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
        .with_resource(resource)
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(OWN))
        .with_filter(filter_fn(|metadata| metadata.target().starts_with(OWN)));
    Ok((layer, SpanExport(provider)))
}

// === impl OtlpEndpoint ===

impl FromStr for OtlpEndpoint {
    type Err = OtlpEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: http::Uri = text.parse().map_err(|_| OtlpEndpointError::NotAnEndpoint)?;
        let authority = uri.authority().ok_or(OtlpEndpointError::NotAnEndpoint)?;
        if authority.as_str().contains('@') {
            return Err(OtlpEndpointError::Credentials);
        }
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        if !is_web || !is_bare || authority.port_u16().is_none() {
            return Err(OtlpEndpointError::NotAnEndpoint);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl SpanExport ===

impl SpanExport {
    /// Sends the queued spans, for two seconds at most. Blocks.
    pub fn finish(self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST_EXPORT) {
            tracing::warn!(%error, "the last trace spans were not exported");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_a_url_of_host_and_port_without_credentials() {
        for text in [
            "http://collector:4317",
            "https://otel.example.org:4317/",
            "http://[::1]:4317",
        ] {
            let endpoint: OtlpEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
        }
        for text in [
            "",
            "collector:4317",
            "http://collector",
            "grpc://collector:4317",
            "http://collector:4317/v1/traces",
            "http://collector:4317?x=y",
        ] {
            let refused = text.parse::<OtlpEndpoint>();
            assert_eq!(refused, Err(OtlpEndpointError::NotAnEndpoint), "{text}");
        }
        let refused = "http://user:hunter2@collector:4317".parse::<OtlpEndpoint>();
        assert_eq!(refused, Err(OtlpEndpointError::Credentials));
        assert!(!refused.unwrap_err().to_string().contains("hunter2"));
    }
}
