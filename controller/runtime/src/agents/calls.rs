//! Commands to an agent, in our term, and what becomes of them.

use std::{sync::Arc, time::Duration};

use rackhand_core::remediation::{
    AgentId, CommandTaken, HostRef, OperationOutcome, OperationView, PinnedOperation, PowerReading,
    PowerState, PowerView,
};
use rackhand_proto::{
    CallErrorKind, Refusal, classify,
    convert::{duration_from_proto, duration_to_proto, timestamp_from_proto},
    journal_of,
    v1::{self, begin_request::Action},
};
use tokio::sync::mpsc;

use super::{Agents, CALL, Client, serving::Connected, within};
use crate::steady;

/// A call that did not do what it should.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// Try again later.
    Later(String),
    /// The agent said no.
    Rejected(String),
}

/// An operation to begin: which host, under which name, for whom, for how long.
pub(crate) struct Wanted<'a> {
    pub(crate) host: &'a HostRef,
    pub(crate) endpoint: Option<v1::BmcEndpoint>,
    pub(crate) id: &'a str,
    /// The agent that is written as the one where it is begun.
    pub(crate) at: Option<&'a str>,
    pub(crate) owner: &'a str,
    pub(crate) deadline: Duration,
}

/// What a power-off asks for.
pub(crate) struct OffRequest {
    pub(crate) command_after: Duration,
    pub(crate) confirmations: u32,
    pub(crate) confirm_interval: Duration,
    pub(crate) system_uuid: String,
    pub(crate) serial: String,
}

/// News of an operation that is followed.
#[derive(Debug)]
pub(crate) enum Followed {
    /// A command went to the BMC.
    Command { command: String, answer: String },
    /// Where it stands.
    View(OperationView),
    /// The agent does not know it.
    Unknown {
        /// Which agent, with which journal.
        by: AgentId,
    },
    /// The connection broke; nothing is known.
    Lost(String),
}

impl Agents {
    fn target(host: &HostRef, endpoint: Option<v1::BmcEndpoint>) -> v1::Target {
        v1::Target {
            host: host.host.clone(),
            endpoint,
        }
    }

    /// The client and the term, if we lead at this very moment in the term that was claimed.
    fn authority(&self, at: Connected) -> Result<(Client, v1::Term), CallFailure> {
        let (client, claimed) = (at.client, at.term);
        match self.leader.term() {
            Some(number) if number == claimed => Ok((client, self.term(number))),
            Some(number) => {
                self.look_again();
                Err(CallFailure::Later(format!(
                    "term {number} is not claimed there yet"
                )))
            }
            None => Err(CallFailure::Later("this process does not lead".into())),
        }
    }

    fn failed(&self, status: &tonic::Status) -> CallFailure {
        let error = classify(status);
        match error.kind {
            CallErrorKind::Retryable => {
                self.look_again();
                CallFailure::Later(error.message)
            }
            // Our own term: the connection's task claims it anew.
            CallErrorKind::Refused(
                Refusal::StaleTerm
                | Refusal::UnclaimedTerm
                | Refusal::StaleSequence
                | Refusal::Standby,
            ) => {
                self.look_again();
                CallFailure::Later(error.message)
            }
            CallErrorKind::Permanent | CallErrorKind::Refused(_) => {
                CallFailure::Rejected(error.message)
            }
        }
    }

    /// Waits for an answer that says no more than that the call was taken.
    async fn taken<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, CallFailure> {
        match tokio::time::timeout(CALL * 2, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failed(&status)),
            Err(_) => Err(CallFailure::Later("the agent did not answer".into())),
        }
    }

    async fn begin(
        &self,
        wanted: Wanted<'_>,
        action: Action,
        expect: Option<v1::SystemIdentity>,
    ) -> Result<(), CallFailure> {
        let at = self
            .of_rack(&wanted.host.rack)
            .map_err(CallFailure::Later)?;
        if wanted.at.is_some_and(|pinned| *pinned != at.id.agent) {
            // What is written names another one: it is decided anew.
            return Err(CallFailure::Later("another agent has taken over".into()));
        }
        let agent = at.id.agent.clone();
        let (mut client, term) = self.authority(at)?;
        let mut request = tonic::Request::new(v1::BeginRequest {
            operation_id: wanted.id.to_owned(),
            target: Some(Self::target(wanted.host, wanted.endpoint)),
            term: Some(term),
            sequence: self.sequence(),
            owner: wanted.owner.to_owned(),
            action: Some(action),
            deadline: Some(duration_to_proto(wanted.deadline)),
            expect,
            force: false,
        });
        request.set_timeout(CALL);
        let begun = self.taken(client.begin(request)).await?;
        // The status shows it with the next look at the agent.
        self.see_journal(&agent, begun.journal.as_ref());
        Ok(())
    }

    /// Begins a hard power-off that leaves the host held in the name of the owner.
    pub(crate) async fn begin_off(
        &self,
        wanted: Wanted<'_>,
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
        self.begin(wanted, action, Some(expect)).await
    }

    /// Begins a power-on, which also lifts the hold of the owner.
    pub(crate) async fn begin_on(&self, wanted: Wanted<'_>) -> Result<(), CallFailure> {
        self.begin(wanted, Action::PowerOn(v1::PowerOn {}), None)
            .await
    }

    /// Stops an operation, at the agent where it was begun if that one answers.
    pub(crate) async fn cancel(
        &self,
        host: &HostRef,
        at: Option<&str>,
        id: &str,
    ) -> Result<(), CallFailure> {
        let at = match at.and_then(|name| self.of_name(name)) {
            Some(at) => at,
            None => self.of_rack(&host.rack).map_err(CallFailure::Later)?,
        };
        let (mut client, term) = self.authority(at)?;
        let mut request = tonic::Request::new(v1::CancelRequest {
            operation_id: id.to_owned(),
            term: Some(term),
            force: false,
        });
        request.set_timeout(CALL);
        self.taken(client.cancel(request)).await.map(drop)
    }

    /// Where an operation stands at one agent, whether it serves its rack or stands by.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn operation_at(
        &self,
        agent: &str,
        id: &str,
    ) -> Result<PinnedOperation, String> {
        let at = self.of_name(agent).ok_or("it is not connected")?;
        let (mut client, mut request) = (
            at.client,
            tonic::Request::new(v1::ListOperationsRequest {
                operation_id: id.to_owned(),
                limit: 1,
                ..v1::ListOperationsRequest::default()
            }),
        );
        request.set_timeout(CALL);
        let listed = within(client.list_operations(request)).await?.operations;
        let runs = listed
            .first()
            .is_some_and(|operation| operation.outcome.is_none());
        Ok(if runs {
            PinnedOperation::Running
        } else {
            PinnedOperation::Ended
        })
    }

    pub(crate) async fn release(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
    ) -> Result<(), CallFailure> {
        let at = self.of_rack(&host.rack).map_err(CallFailure::Later)?;
        let serving = at.id.agent.clone();
        self.release_at(at, host, endpoint.clone(), owner).await?;
        self.release_others(host, endpoint, owner, Some(&serving))
            .await
    }

    /// The same at agents of the rack that stand by and still hold the host in this name.
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
        at: Connected,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        owner: &str,
    ) -> Result<(), CallFailure> {
        let (mut client, term) = self.authority(at)?;
        let mut request = tonic::Request::new(v1::ReleaseRequest {
            target: Some(Self::target(host, endpoint)),
            term: Some(term),
            sequence: self.sequence(),
            owner: owner.to_owned(),
            force: false,
        });
        request.set_timeout(CALL);
        self.taken(client.release(request)).await.map(drop)
    }

    /// Asks the BMC now. `asked` is taken before the question goes out: that is what it proves.
    pub(crate) async fn read_power(
        &self,
        host: &HostRef,
        endpoint: Option<v1::BmcEndpoint>,
        timeout: Duration,
    ) -> PowerView {
        let asked = steady::now();
        let result = async {
            let mut client = self.of_rack(&host.rack)?.client;
            let mut request = tonic::Request::new(v1::ReadPowerRequest {
                target: Some(Self::target(host, endpoint)),
                timeout: Some(duration_to_proto(timeout)),
            });
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
            answered: steady::now(),
            lease: None,
            result,
        }
    }

    /// Follows an operation until its outcome; sends what happens, ends when nobody listens.
    pub(crate) async fn follow(
        self: Arc<Self>,
        rack: String,
        at: Option<String>,
        id: String,
        news: mpsc::UnboundedSender<Followed>,
    ) {
        let pinned = at.and_then(|name| self.of_name(&name));
        let (mut client, asked) = match pinned.map_or_else(|| self.of_rack(&rack), Ok) {
            Ok(at) => (at.client, at.id),
            Err(why) => {
                news.send(Followed::Lost(why)).ok();
                return;
            }
        };
        // Whether it was only this stream is known sooner by a look than by the next call.
        let lost = |why: String| {
            self.look_again();
            news.send(Followed::Lost(why)).ok();
        };
        let request = v1::AwaitRequest { operation_id: id };
        let opened = tokio::time::timeout(CALL * 2, client.r#await(request)).await;
        let mut stream = match opened {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => {
                return match classify(&status).kind {
                    CallErrorKind::Refused(Refusal::UnknownOperation) => {
                        let journal = journal_of(&status).map_or(asked.journal, str::to_owned);
                        let by = AgentId { journal, ..asked };
                        news.send(Followed::Unknown { by }).ok();
                    }
                    _ => lost(classify(&status).message),
                };
            }
            Err(_) => return lost("the agent did not answer".into()),
        };
        if news.send(Followed::View(OperationView::Running)).is_err() {
            return;
        }
        loop {
            // No deadline: the operation has one, and keep-alive notices a dead agent.
            let message = tokio::select! {
                () = news.closed() => return,
                message = stream.message() => message,
            };
            match message {
                Ok(Some(v1::AwaitResponse {
                    event: Some(event), ..
                })) => {
                    use v1::await_response::Event;
                    let told = match event {
                        Event::CommandSent(c) => Followed::Command {
                            command: c.command,
                            answer: c.answer,
                        },
                        Event::Outcome(outcome) => {
                            news.send(Followed::View(finished(&outcome))).ok();
                            return;
                        }
                        Event::Waiting(waiting) => match staged(waiting) {
                            Some(view) => Followed::View(view),
                            None => continue,
                        },
                        Event::Accepted(_) | Event::Reading(_) | Event::Failure(_) => continue,
                    };
                    if news.send(told).is_err() {
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => return lost("the agent ended the stream without an outcome".into()),
                Err(status) => return lost(classify(&status).message),
            }
        }
    }
}

/// What waits for its turn; `None`: it does not say until when.
fn staged(waiting: v1::Waiting) -> Option<OperationView> {
    let turn = timestamp_from_proto(waiting.until.as_ref()?).ok()?;
    Some(OperationView::Staged {
        why: waiting.reason,
        turn,
    })
}

fn finished(outcome: &v1::Outcome) -> OperationView {
    let mut why = outcome.message.clone();
    if why.is_empty() {
        why = outcome
            .failure
            .as_ref()
            .map(|f| f.message.clone())
            .unwrap_or_default();
    }
    let result = match outcome.code() {
        v1::OutcomeCode::Confirmed => {
            match outcome
                .readings
                .iter()
                .map(reading)
                .collect::<Result<Vec<_>, _>>()
            {
                Ok(readings) => OperationOutcome::Confirmed {
                    readings,
                    taken: outcome.power_off_taken.as_ref().and_then(taken),
                },
                Err(why) => OperationOutcome::Unconfirmed { why },
            }
        }
        v1::OutcomeCode::Unconfirmed | v1::OutcomeCode::Unspecified => {
            OperationOutcome::Unconfirmed { why }
        }
        v1::OutcomeCode::Failed => OperationOutcome::Failed { why },
        v1::OutcomeCode::IdentityMismatch => OperationOutcome::IdentityMismatch { why },
        v1::OutcomeCode::Cancelled => OperationOutcome::Cancelled,
        v1::OutcomeCode::Interrupted => OperationOutcome::Interrupted,
    };
    OperationView::Finished {
        outcome: result,
        commands_sent: outcome.commands_sent,
    }
}

/// F1: a command whose time does not read proves nothing.
fn taken(taken: &v1::CommandTaken) -> Option<CommandTaken> {
    let since = duration_from_proto(taken.since_start.as_ref()?).ok()?;
    Some(CommandTaken {
        command: taken.command.clone(),
        answer: taken.answer.clone(),
        since_start_ms: u64::try_from(since.as_millis()).ok()?,
    })
}

fn identity(i: &v1::SystemIdentity) -> String {
    if i.system_uuid.is_empty() {
        i.serial.clone()
    } else {
        i.system_uuid.clone()
    }
}

fn protocol(p: v1::Protocol) -> &'static str {
    match p {
        v1::Protocol::Redfish => "Redfish",
        v1::Protocol::Ipmi => "IPMI",
        v1::Protocol::Unspecified => "",
    }
}

fn reading(r: &v1::PowerReading) -> Result<PowerReading, String> {
    let state = match r.state() {
        v1::PowerState::On => PowerState::On,
        v1::PowerState::Off => PowerState::Off,
        v1::PowerState::PoweringOn => PowerState::PoweringOn,
        v1::PowerState::PoweringOff => PowerState::PoweringOff,
        v1::PowerState::Unknown | v1::PowerState::Unspecified => PowerState::Unknown,
    };
    let at = r.at.as_ref().ok_or("a reading without a time")?;
    let since = r
        .since_start
        .as_ref()
        .ok_or("a reading without a monotonic time")?;
    Ok(PowerReading {
        state,
        raw: r.raw.clone(),
        protocol: protocol(r.protocol()).into(),
        identity: r.identity.as_ref().map(identity).unwrap_or_default(),
        at: timestamp_from_proto(at).map_err(|e| e.to_string())?,
        since_start_ms: duration_from_proto(since)
            .ok()
            .and_then(|d| u64::try_from(d.as_millis()).ok())
            .ok_or("a reading with an odd monotonic time")?,
        bmc: r.bmc.clone(),
    })
}

#[cfg(test)]
mod tests;
