//! The commands of a remediation to agents, in the term of this leader.

use std::{sync::Arc, time::Duration};

use rackhand_core::remediation::HostRef;
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, begin_request::Action},
};
use rackhand_transport::{CallErrorKind, Refusal, classify};

use super::{
    CallFailure, OffRequest, OperationRequest, convert::device, target, traced, traced_operation,
};
use crate::agents::{
    CALL, Client,
    authority::Authority,
    connections::{AgentConnections, serving::AgentConnection},
};

/// Time for a change of an identify LED.
const IDENTIFY: Duration = Duration::from_secs(10);

/// Sends commands to agents. No command is sent in a term that this process does not hold at that moment (F7).
#[derive(Clone)]
pub(crate) struct AgentCommands {
    pub(super) connections: Arc<AgentConnections>,
    pub(super) authority: Arc<Authority>,
}

impl AgentCommands {
    pub(in crate::agents) fn new(
        connections: Arc<AgentConnections>,
        authority: Arc<Authority>,
    ) -> Self {
        Self {
            connections,
            authority,
        }
    }

    /// The client and the term, if this process leads now in the term that was claimed at the
    /// agent.
    pub(super) fn claimed(
        &self,
        at: AgentConnection,
        rack: &str,
    ) -> Result<(Client, v1::Term), CallFailure> {
        let (client, claimed) = (at.client, at.term);
        match self.authority.term() {
            Some(term) if term.number == claimed => Ok((client, term)),
            Some(term) => {
                self.connections.probe_rack(rack);
                let why = format!("term {} is not claimed there yet", term.number);
                Err(CallFailure::Retryable(why))
            }
            None => Err(CallFailure::Retryable("this process does not lead".into())),
        }
    }

    fn call_failure(&self, rack: &str, status: &tonic::Status) -> CallFailure {
        let error = classify(status);
        match error.kind {
            CallErrorKind::Retryable => {
                self.connections.probe_rack(rack);
                CallFailure::Retryable(error.message)
            }
            // Our own term is not claimed; the task of the connection claims it again.
            CallErrorKind::Refused(
                Refusal::StaleTerm
                | Refusal::UnclaimedTerm
                | Refusal::StaleSequence
                | Refusal::Standby,
            ) => {
                self.connections.probe_rack(rack);
                CallFailure::Retryable(error.message)
            }
            CallErrorKind::Permanent | CallErrorKind::Refused(_) => {
                CallFailure::Rejected(error.message)
            }
        }
    }

    /// Waits until an agent has accepted a call that has no result.
    async fn taken<T>(
        &self,
        rack: &str,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CallFailure> {
        match tokio::time::timeout(CALL * 2, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.call_failure(rack, &status)),
            Err(_) => Err(CallFailure::Retryable("the agent did not answer".into())),
        }
    }

    async fn begin(
        &self,
        request: OperationRequest<'_>,
        action: Action,
        expect: Option<v1::SystemIdentity>,
        during_firmware_update: bool,
    ) -> Result<(), CallFailure> {
        let at = self
            .connections
            .of_rack(&request.host.rack)
            .map_err(CallFailure::Retryable)?;
        if request.at.is_some_and(|pinned| *pinned != at.id.agent) {
            // The pin names another agent, so a new decision is required.
            return Err(CallFailure::Retryable(
                "another agent has taken over".into(),
            ));
        }
        let agent = at.id.agent.clone();
        let latest = at.clock.latest(request.within);
        let (mut client, term) = self.claimed(at, &request.host.rack)?;
        let (id, rack) = (request.id, &request.host.rack);
        let message = v1::BeginRequest {
            operation_id: id.to_owned(),
            target: Some(target(request.host, request.endpoint)),
            term: Some(term),
            sequence: self.authority.sequence(),
            owner: request.owner.to_owned(),
            action: Some(action),
            deadline: Some(duration_to_proto(request.deadline)),
            expect,
            force: false,
            with_siblings: Vec::new(),
            latest: Some(latest),
            device: device(request.device).into(),
            caller: String::new(),
            during_firmware_update,
        };
        let mut request = traced_operation(message, id);
        request.set_timeout(CALL);
        let begun = self.taken(rack, client.begin(request)).await?;
        // The next probe of the agent writes the journal to the status.
        self.connections.see_journal(&agent, begun.journal.as_ref());
        Ok(())
    }

    /// Begins a hard power-off that leaves the host held on behalf of the owner.
    pub(crate) async fn begin_power_off(
        &self,
        request: OperationRequest<'_>,
        off: OffRequest,
    ) -> Result<(), CallFailure> {
        let action = Action::PowerOff(v1::PowerOff {
            confirmations: off.confirmations,
            confirm_interval: Some(duration_to_proto(off.confirm_interval)),
            command_after: Some(duration_to_proto(off.command_after)),
            hold: true,
        });
        let expect = v1::SystemIdentity {
            system_uuid: off.system_uuid,
            serial: off.serial,
            ..v1::SystemIdentity::default()
        };
        self.begin(request, action, Some(expect), off.during_update)
            .await
    }

    /// Begins a soft off, which leaves no hold: the hard one that follows does.
    pub(crate) async fn begin_soft_off(
        &self,
        request: OperationRequest<'_>,
        limit: Duration,
        expect: v1::SystemIdentity,
    ) -> Result<(), CallFailure> {
        let action = Action::PowerSoftOff(v1::PowerSoftOff {
            limit: Some(duration_to_proto(limit)),
            ..v1::PowerSoftOff::default()
        });
        self.begin(request, action, Some(expect), false).await
    }

    /// Begins a power-on. A power-on through the BMC also releases the hold of the owner.
    pub(crate) async fn begin_power_on(
        &self,
        request: OperationRequest<'_>,
    ) -> Result<(), CallFailure> {
        self.begin(request, Action::PowerOn(v1::PowerOn {}), None, false)
            .await
    }

    /// Cancels an operation, at the agent where it was begun if that agent answers.
    pub(crate) async fn cancel(
        &self,
        host: &HostRef,
        at: Option<&str>,
        id: &str,
    ) -> Result<(), CallFailure> {
        let at = match at.and_then(|name| self.connections.of_name(name)) {
            Some(at) => at,
            None => self
                .connections
                .of_rack(&host.rack)
                .map_err(CallFailure::Retryable)?,
        };
        let (mut client, term) = self.claimed(at, &host.rack)?;
        let message = v1::CancelRequest {
            operation_id: id.to_owned(),
            term: Some(term),
            force: false,
        };
        let mut request = traced_operation(message, id);
        request.set_timeout(CALL);
        let call = client.cancel(request);
        self.taken(&host.rack, call).await.map(drop)
    }

    /// Lights the identify LED of a host for a time, or puts it out. Commands no power, so it needs no term, but a
    /// process that does not lead sends nothing.
    pub(crate) async fn identify(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
        lit_for: Option<Duration>,
    ) -> Result<(), CallFailure> {
        let at = self
            .connections
            .of_rack(&host.rack)
            .map_err(CallFailure::Retryable)?;
        let (mut client, _) = self.claimed(at, &host.rack)?;
        let message = v1::IdentifyRequest {
            target: Some(target(host, endpoint)),
            timeout: Some(duration_to_proto(IDENTIFY)),
            lit: lit_for.is_some(),
            lit_for: lit_for.map(duration_to_proto),
        };
        let mut request = traced(message, owner, "identify");
        let patience = IDENTIFY.saturating_add(CALL);
        request.set_timeout(patience);
        let answer = tokio::time::timeout(patience, client.identify(request)).await;
        let answer = answer
            .map_err(|_| CallFailure::Retryable("the agent did not answer".into()))?
            .map_err(|status| self.call_failure(&host.rack, &status))?;
        match answer.into_inner().result {
            Some(v1::identify_response::Result::Changed(_)) => Ok(()),
            Some(v1::identify_response::Result::Failure(failure)) => {
                Err(CallFailure::Rejected(failure.message))
            }
            None => Err(CallFailure::Rejected("the agent answered nothing".into())),
        }
    }

    pub(crate) async fn release(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
    ) -> Result<(), CallFailure> {
        let at = self
            .connections
            .of_rack(&host.rack)
            .map_err(CallFailure::Retryable)?;
        let serving = at.id.agent.clone();
        self.release_at(at, host, endpoint.clone(), owner).await?;
        self.release_others(host, endpoint, owner, Some(&serving))
            .await
    }

    /// Releases the hold of the owner at the other agents of the rack that have one.
    pub(crate) async fn release_others(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
        serving: Option<&str>,
    ) -> Result<(), CallFailure> {
        for at in self.connections.holding(&host.rack, owner) {
            if serving != Some(at.id.agent.as_str()) {
                self.release_at(at, host, endpoint.clone(), owner).await?;
            }
        }
        Ok(())
    }

    pub(in crate::agents) async fn release_at(
        &self,
        at: AgentConnection,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
    ) -> Result<(), CallFailure> {
        let agent = at.id.agent.clone();
        let (mut client, term) = self.claimed(at, &host.rack)?;
        let message = v1::ReleaseRequest {
            target: Some(target(host, endpoint)),
            term: Some(term),
            sequence: self.authority.sequence(),
            owner: owner.to_owned(),
            force: false,
        };
        let mut request = traced(message, owner, "release");
        request.set_timeout(CALL);
        let call = client.release(request);
        self.taken(&host.rack, call).await?;
        self.connections.forget_hold(&agent, owner);
        Ok(())
    }
}
