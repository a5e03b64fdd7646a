//! Calls to agents.

mod commands;
pub(super) mod convert;
pub(crate) mod evidence;
pub(super) mod follow;
mod queries;
mod readings;
mod updates;
mod watch_hosts;

use std::time::Duration;

use rackhand_core::remediation::{HostRef, PowerDevice};
use rackhand_proto::v1;
use rackhand_transport::TraceContext;

pub(crate) use commands::AgentCommands;
pub(crate) use queries::AgentQueries;
pub(crate) use watch_hosts::WatchEvent;

/// A failed call.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The call can be retried.
    Retryable(String),
    /// The agent rejected the call.
    Rejected(String),
}

/// An operation to begin.
pub(crate) struct OperationRequest<'a> {
    pub(crate) host: &'a HostRef,
    pub(crate) endpoint: Option<v1::BmcEndpoint>,
    pub(crate) id: &'a str,
    /// The device that switches the host.
    pub(crate) device: PowerDevice,
    /// The agent that the operation is pinned to.
    pub(crate) at: Option<&'a str>,
    pub(crate) owner: &'a str,
    pub(crate) deadline: Duration,
    /// How long the request may be on its way.
    pub(crate) within: Duration,
}

/// The parameters of a power-off.
pub(crate) struct OffRequest {
    pub(crate) command_after: Duration,
    pub(crate) confirmations: u32,
    pub(crate) confirm_interval: Duration,
    pub(crate) system_uuid: String,
    pub(crate) serial: String,
    /// Whether it is sent although an update of firmware runs.
    pub(crate) during_update: bool,
}

/// A call that belongs to the trace of a remediation (see [`TraceContext`]).
fn traced<T>(message: T, uid: &str, part: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(trace) = TraceContext::of_remediation(uid, part) {
        trace.below_current_span().inject(request.metadata_mut());
    }
    request
}

/// Like [`traced`], for a call about an operation: its id begins with the UID of the remediation.
fn traced_operation<T>(message: T, id: &str) -> tonic::Request<T> {
    traced(message, id.split('/').next().unwrap_or_default(), id)
}

/// The host of a call.
fn target(host: &HostRef, endpoint: Option<v1::BmcEndpoint>) -> v1::Target {
    v1::Target {
        host: host.host.clone(),
        endpoint,
    }
}
