//! Calls to agents, in the term of this leader.

pub(super) mod convert;
pub(crate) mod evidence;
pub(super) mod follow;
mod topology;

use std::time::Duration;

use rackhand_core::remediation::{
    EntryProgress, HostRef, JournalEntry, PinnedOperation, PowerDevice, PowerView,
};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, begin_request::Action},
};
use rackhand_transport::{CallErrorKind, Refusal, TraceContext, classify};

use super::{Agents, CALL, Client, connections::serving::AgentConnection, within};
use crate::store::clock;
use convert::{device, reading};

/// Maximum number of operations in one list of an agent.
const LONGEST_HISTORY: u32 = 1_000;

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
}

/// The parameters of a power-off.
pub(crate) struct OffRequest {
    pub(crate) command_after: Duration,
    pub(crate) confirmations: u32,
    pub(crate) confirm_interval: Duration,
    pub(crate) system_uuid: String,
    pub(crate) serial: String,
}

/// A call that belongs to the trace of a remediation (see [`TraceContext`]).
pub(super) fn traced<T>(message: T, uid: &str, part: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(trace) = TraceContext::of_remediation(uid, part) {
        trace.below_current_span().inject(request.metadata_mut());
    }
    request
}

/// Like [`traced`], for a call about an operation: its id begins with the UID of the remediation.
pub(super) fn traced_operation<T>(message: T, id: &str) -> tonic::Request<T> {
    traced(message, id.split('/').next().unwrap_or_default(), id)
}

/// The state of a pinned operation, from the agent's record of it.
fn pinned_operation(record: Option<&v1::OperationInfo>, stands_by: bool) -> PinnedOperation {
    match record {
        Some(operation) if operation.outcome.is_none() => PinnedOperation::Running,
        None if !stands_by => PinnedOperation::Unknown,
        Some(_) | None => PinnedOperation::Ended,
    }
}

fn journal_entry(operation: v1::OperationInfo) -> JournalEntry {
    let progress = match &operation.outcome {
        None => EntryProgress::Running,
        Some(outcome) if outcome.code() == v1::OutcomeCode::Confirmed => EntryProgress::Confirmed,
        Some(_) => EntryProgress::Ended,
    };
    JournalEntry {
        progress,
        is_off: operation.action == "off",
        is_release: operation.action == "release",
        id: operation.operation_id,
        host: operation.host,
    }
}

impl Agents {
    pub(super) fn target(host: &HostRef, endpoint: Option<v1::BmcEndpoint>) -> v1::Target {
        v1::Target {
            host: host.host.clone(),
            endpoint,
        }
    }

    /// The client and the term, if this process leads now in the term that was claimed at the
    /// agent.
    pub(super) fn authority(
        &self,
        at: AgentConnection,
        rack: &str,
    ) -> Result<(Client, v1::Term), CallFailure> {
        let (client, claimed) = (at.client, at.term);
        match self.leader.term() {
            Some(number) if number == claimed => Ok((client, self.term(number))),
            Some(number) => {
                self.probe_rack(rack);
                Err(CallFailure::Retryable(format!(
                    "term {number} is not claimed there yet"
                )))
            }
            None => Err(CallFailure::Retryable("this process does not lead".into())),
        }
    }

    fn call_failure(&self, rack: &str, status: &tonic::Status) -> CallFailure {
        let error = classify(status);
        match error.kind {
            CallErrorKind::Retryable => {
                self.probe_rack(rack);
                CallFailure::Retryable(error.message)
            }
            // Our own term is not claimed; the task of the connection claims it again.
            CallErrorKind::Refused(
                Refusal::StaleTerm
                | Refusal::UnclaimedTerm
                | Refusal::StaleSequence
                | Refusal::Standby,
            ) => {
                self.probe_rack(rack);
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
    ) -> Result<(), CallFailure> {
        let at = self
            .of_rack(&request.host.rack)
            .map_err(CallFailure::Retryable)?;
        if request.at.is_some_and(|pinned| *pinned != at.id.agent) {
            // The pin names another agent, so a new decision is required.
            return Err(CallFailure::Retryable(
                "another agent has taken over".into(),
            ));
        }
        let agent = at.id.agent.clone();
        let latest = at.clock.latest();
        let (mut client, term) = self.authority(at, &request.host.rack)?;
        let (id, rack) = (request.id, &request.host.rack);
        let message = v1::BeginRequest {
            operation_id: id.to_owned(),
            target: Some(Self::target(request.host, request.endpoint)),
            term: Some(term),
            sequence: self.sequence(),
            owner: request.owner.to_owned(),
            action: Some(action),
            deadline: Some(duration_to_proto(request.deadline)),
            expect,
            force: false,
            with_siblings: Vec::new(),
            latest: Some(latest),
            device: device(request.device).into(),
            caller: String::new(),
        };
        let mut request = traced_operation(message, id);
        request.set_timeout(CALL);
        let begun = self.taken(rack, client.begin(request)).await?;
        // The next probe of the agent writes the journal to the status.
        self.see_journal(&agent, begun.journal.as_ref());
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
        self.begin(request, action, Some(expect)).await
    }

    /// Begins a power-on. A power-on through the BMC also releases the hold of the owner.
    pub(crate) async fn begin_power_on(
        &self,
        request: OperationRequest<'_>,
    ) -> Result<(), CallFailure> {
        self.begin(request, Action::PowerOn(v1::PowerOn {}), None)
            .await
    }

    /// Cancels an operation, at the agent where it was begun if that agent answers.
    pub(crate) async fn cancel(
        &self,
        host: &HostRef,
        at: Option<&str>,
        id: &str,
    ) -> Result<(), CallFailure> {
        let at = match at.and_then(|name| self.of_name(name)) {
            Some(at) => at,
            None => self.of_rack(&host.rack).map_err(CallFailure::Retryable)?,
        };
        let (mut client, term) = self.authority(at, &host.rack)?;
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

    /// The state of an operation at one agent, whether it serves its rack or stands by. An agent that does
    /// not stand by may still receive a request that is in flight, so an operation that it does not know may
    /// still begin.
    ///
    /// # Errors
    /// The agent does not answer.
    pub(crate) async fn operation_at(
        &self,
        agent: &str,
        id: &str,
    ) -> Result<PinnedOperation, String> {
        let at = self.of_name(agent).ok_or("it is not connected")?;
        let stands_by = at.standby;
        let mut client = at.client;
        let message = v1::ListOperationsRequest {
            operation_id: id.to_owned(),
            limit: 1,
            ..v1::ListOperationsRequest::default()
        };
        let mut request = traced_operation(message, id);
        request.set_timeout(CALL);
        let listed = within(client.list_operations(request)).await?.operations;
        Ok(pinned_operation(listed.first(), stands_by))
    }

    /// The journal entries about a remediation, from each agent of the rack that answers, the newest first.
    ///
    /// # Errors
    /// No agent answers, or the serving agent does not.
    pub(crate) async fn history(
        &self,
        rack: &str,
        uid: &str,
    ) -> Result<Vec<Vec<JournalEntry>>, String> {
        let mut journals = Vec::new();
        for at in self.answering(rack)? {
            let message = v1::ListOperationsRequest {
                owner: uid.to_owned(),
                limit: LONGEST_HISTORY,
                ..v1::ListOperationsRequest::default()
            };
            let mut client = at.client;
            let mut request = traced(message, uid, "history");
            request.set_timeout(CALL);
            let listed = match within(client.list_operations(request)).await {
                Ok(listed) => listed,
                // A standby agent must not delay the serving agent.
                Err(_) if at.standby => continue,
                Err(why) => return Err(format!("agent {}: {why}", at.id.agent)),
            };
            journals.push(listed.operations.into_iter().map(journal_entry).collect());
        }
        Ok(journals)
    }

    pub(crate) async fn release(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
    ) -> Result<(), CallFailure> {
        let at = self.of_rack(&host.rack).map_err(CallFailure::Retryable)?;
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
        for at in self.holding(&host.rack, owner) {
            if serving != Some(at.id.agent.as_str()) {
                self.release_at(at, host, endpoint.clone(), owner).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn release_at(
        &self,
        at: AgentConnection,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
    ) -> Result<(), CallFailure> {
        let agent = at.id.agent.clone();
        let (mut client, term) = self.authority(at, &host.rack)?;
        let message = v1::ReleaseRequest {
            target: Some(Self::target(host, endpoint)),
            term: Some(term),
            sequence: self.sequence(),
            owner: owner.to_owned(),
            force: false,
        };
        let mut request = traced(message, owner, "release");
        request.set_timeout(CALL);
        let call = client.release(request);
        self.taken(&host.rack, call).await?;
        self.forget_hold(&agent, owner);
        Ok(())
    }

    /// Reads the power state now, from the BMC or the outlets, for the remediation `uid`. `asked` is taken before the
    /// request is sent, because the reading proves nothing about the time before.
    pub(crate) async fn read_power(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        source: PowerDevice,
        uid: &str,
        timeout: Duration,
    ) -> PowerView {
        let asked = clock::monotonic_now();
        let result = async {
            let mut client = self.of_rack(&host.rack)?.client;
            let message = v1::ReadPowerRequest {
                target: Some(Self::target(host, endpoint)),
                timeout: Some(duration_to_proto(timeout)),
                device: device(source).into(),
            };
            let mut request = traced(message, uid, "read");
            let patience = timeout.saturating_add(CALL);
            request.set_timeout(patience);
            let answer = tokio::time::timeout(patience, client.read_power(request))
                .await
                .map_err(|_| "the agent did not answer".to_owned())?
                .map_err(|status| classify(&status).message)?
                .into_inner();
            match answer.result {
                Some(v1::read_power_response::Result::Reading(r)) => reading(&r),
                Some(v1::read_power_response::Result::Failure(f)) => Err(f.message),
                None => Err("the agent answered nothing".into()),
            }
        };
        let result = result.await;
        PowerView {
            asked,
            answered: clock::monotonic_now(),
            lease: None,
            result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f6_missing_operation_counts_as_ended_only_at_standby_agent() {
        let running = v1::OperationInfo::default();
        let ended = v1::OperationInfo {
            outcome: Some(v1::Outcome::default()),
            ..v1::OperationInfo::default()
        };
        for stands_by in [false, true] {
            let of = |record| pinned_operation(record, stands_by);
            assert_eq!(of(Some(&running)), PinnedOperation::Running);
            assert_eq!(of(Some(&ended)), PinnedOperation::Ended);
        }
        assert_eq!(pinned_operation(None, false), PinnedOperation::Unknown);
        assert_eq!(pinned_operation(None, true), PinnedOperation::Ended);
    }
}
