//! Inputs of the agent: its configuration and inventory, gRPC requests, certificates.

use std::path::Path;

use prost::Message;
use rackhand_agent_service::config::Config;
use rackhand_proto::{
    convert::{duration_from_proto, timestamp_from_proto},
    limits::check_deadline,
    v1,
};
use rackhand_transport::identity::SpiffeId;

/// The configuration with its hosts. Parsing opens the files that it names, so inputs that name device
/// files are skipped.
pub(crate) fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains("/dev/") || text.contains("/proc/") {
        return;
    }
    match Config::parse(Path::new("/nonexistent/agent.toml"), text, None) {
        Ok(config) => drop(config.inventory),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The names in a certificate.
pub(crate) fn certificates(bytes: &[u8]) {
    let _ = SpiffeId::from_certificate(bytes);
}

/// gRPC requests, and the durations and timestamps in them.
pub(crate) fn grpc(bytes: &[u8]) {
    if let Ok(request) = v1::BeginRequest::decode(bytes)
        && let Some(deadline) = &request.deadline
        && let Ok(deadline) = duration_from_proto(deadline)
    {
        let _ = check_deadline(deadline, std::time::Duration::ZERO);
    }
    if let Ok(info) = v1::OperationInfo::decode(bytes) {
        for at in info.commands.iter().chain(&info.begun).chain(&info.ended) {
            let _ = timestamp_from_proto(at);
        }
    }
    let _ = v1::ClaimTermRequest::decode(bytes);
    let _ = v1::ListHostsResponse::decode(bytes);
}
