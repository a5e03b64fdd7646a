//! Collection of readings that may show why a host failed, through its agent.
//!
//! Invariant: a call ends within its limit, whatever the agent does.

use std::time::Duration;

use rackhand_core::remediation::{HostRef, Interrupt};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, begin_request::Action},
};
use rackhand_transport::classify;

use super::{AgentCommands, target, traced};

/// Entries of the event log that are read.
const ENTRIES: u32 = 50;
/// Divisor of the limit: the quotient is reserved for the round trip to the agent, so that readings taken in
/// time still arrive.
const WAY: u32 = 10;
/// Minimum deadline of the operation of an interrupt.
const LEAST: Duration = Duration::from_secs(1);

/// A request to read the BMC of a failed host.
pub(crate) struct EvidenceRequest<'a> {
    pub(crate) host: &'a HostRef,
    pub(crate) endpoint: Option<v1::BmcEndpoint>,
    /// UID of the remediation.
    pub(crate) uid: &'a str,
    pub(crate) limit: Duration,
    /// Whether only the event log is read.
    pub(crate) log_only: bool,
    /// The interrupt to send before anything is read.
    pub(crate) interrupt: Option<&'a Interrupt>,
    /// How long the request may be on its way until the interrupt is sent.
    pub(crate) interrupt_within: Duration,
}

impl AgentCommands {
    /// Collects the readings from the BMC.
    ///
    /// # Errors
    /// Why nothing was read, as a clause for messages.
    pub(crate) async fn collect_evidence(
        &self,
        request: EvidenceRequest<'_>,
    ) -> Result<v1::CollectEvidenceResponse, String> {
        let EvidenceRequest { limit, uid, .. } = request;
        let rack = &request.host.rack;
        let at = self.connections.of_rack(rack)?;
        let mut client = at.client.clone();
        let target = target(request.host, request.endpoint);
        let interrupt = request.interrupt.and_then(|interrupt| {
            let latest = at.clock.latest(request.interrupt_within);
            // A leader that has lost its Lease sends no interrupt, and reads nothing either.
            let (_, term) = self.claimed(at, rack).ok()?;
            Some(v1::BeginRequest {
                operation_id: interrupt.id.clone(),
                target: Some(target.clone()),
                term: Some(term),
                sequence: self.authority.sequence(),
                owner: uid.to_owned(),
                action: Some(Action::PowerNmi(v1::PowerNmi {})),
                deadline: Some(duration_to_proto(limit.max(LEAST))),
                expect: Some(v1::SystemIdentity {
                    system_uuid: interrupt.system_uuid.clone(),
                    serial: interrupt.serial.clone(),
                    ..v1::SystemIdentity::default()
                }),
                force: false,
                with_siblings: Vec::new(),
                latest: Some(latest),
                device: v1::PowerDevice::Bmc.into(),
                caller: String::new(),
                during_firmware_update: false,
            })
        });
        let message = v1::CollectEvidenceRequest {
            target: Some(target),
            timeout: Some(duration_to_proto(limit.saturating_sub(limit / WAY))),
            log_entries: ENTRIES,
            log_only: request.log_only,
            interrupt,
        };
        let mut call = traced(message, uid, "evidence");
        call.set_timeout(limit);
        match tokio::time::timeout(limit, client.collect_evidence(call)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(classify(&status).message),
            Err(_) => Err(format!("rackhand-agent did not answer within {limit:?}")),
        }
    }
}
