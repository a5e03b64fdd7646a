//! Carries out the commands that read what may show why a host failed.
//!
//! Invariant: whatever fails or takes too long is recorded as evidence that is missing, and nothing else
//! follows from it.

use std::time::Duration;

use rackhand_core::remediation::{
    BootLog, HostEvidence, HostRef, Interrupt, LogPosition, Observation, newer_entries, records,
};
use rackhand_proto::v1::{self, read_events_response::Result as Events};

use crate::{
    agents::{EvidenceRequest, evidence, log_entries},
    remediation::{act::Scope, scope::Memory},
    store::clock,
};

/// Maximum time of one call. What the timeout has beyond it is for the host to write a dump, and a
/// withdrawal is not noticed during a call.
const LONGEST_CALL: Duration = Duration::from_secs(15);

/// Reads evidence before the power-off, until the deadline of the step.
pub(super) async fn collect_evidence(
    scope: &Scope,
    memory: &mut Memory,
    host: &HostRef,
    interrupt: Option<&Interrupt>,
    o: &Observation,
) {
    let now = clock::monotonic_now();
    let state = memory.shell.state.as_ref();
    let attempt = state.map_or(1, |s| s.attempt.number);
    let until = state.and_then(|s| o.step_until(s)).unwrap_or(now);
    let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
    let read = read_evidence(scope, memory, host, left, interrupt, false).await;
    let now = clock::monotonic_now();
    let collected = match read {
        Ok(response) => evidence(response, attempt, now),
        Err(why) => HostEvidence::not_collected(attempt, now, why),
    };
    memory.shell.evidence(collected);
}

/// Reads what the event log recorded since the power-off.
pub(super) async fn collect_boot_log(
    scope: &Scope,
    memory: &mut Memory,
    host: &HostRef,
    o: &Observation,
) {
    let state = memory.shell.state.as_ref();
    let evidence = state.and_then(|s| s.attempt.evidence.as_ref());
    let newest = evidence.and_then(|evidence| evidence.newest.clone());
    let policy = o.policy(state);
    let limit = policy.map_or(LONGEST_CALL, |policy| policy.evidence_timeout);
    let boot_log = match (
        newest,
        read_evidence(scope, memory, host, limit, None, true).await,
    ) {
        (Some(newest), Ok(response)) => boot_log(response, &newest),
        (_, Err(why)) => Err(why),
        (None, _) => Err("the event log was not read before the power-off".to_owned()),
    };
    let boot_log = boot_log.unwrap_or_else(|why| BootLog {
        missing: Some(why),
        ..BootLog::default()
    });
    memory.shell.boot_log(boot_log);
}

/// Reads it within `limit`, the credentials of the BMC included.
async fn read_evidence(
    scope: &Scope,
    memory: &mut Memory,
    host: &HostRef,
    limit: Duration,
    interrupt: Option<&Interrupt>,
    log_only: bool,
) -> Result<v1::CollectEvidenceResponse, String> {
    let limit = limit.min(LONGEST_CALL);
    let begun = std::time::Instant::now();
    let endpoint = tokio::time::timeout(limit, scope.context.endpoints.needed(memory, host));
    let endpoint = match endpoint.await {
        Ok(Ok(Some(endpoint))) => endpoint,
        Ok(Ok(None) | Err(_)) => return Err("the BMC's address or password is missing".into()),
        Err(_) => return Err(format!("the BMC's password was not read within {limit:?}")),
    };
    let within = |i: &Interrupt| {
        let now = clock::monotonic_now();
        memory.shell.begin_within(&i.id, limit, now)
    };
    // After its pin another agent may command the host (F6).
    let interrupt_within = interrupt.and_then(within);
    let request = EvidenceRequest {
        host,
        endpoint,
        uid: &scope.uid,
        limit: limit.saturating_sub(begun.elapsed()),
        log_only,
        interrupt: interrupt.filter(|_| interrupt_within.is_some()),
        interrupt_within: interrupt_within.unwrap_or_default(),
    };
    scope.context.commands.collect_evidence(request).await
}

fn boot_log(
    response: v1::CollectEvidenceResponse,
    newest: &LogPosition,
) -> Result<BootLog, String> {
    let log = match response.log.and_then(|log| log.result) {
        Some(Events::Log(log)) => log,
        Some(Events::Failure(_)) => return Err("the BMC did not report its event log".to_owned()),
        None => return Err("the event log was not read in time".to_owned()),
    };
    let entries = log_entries(log);
    Ok(BootLog {
        records: records(newer_entries(&entries, newest)),
        missing: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_log_has_only_entries_after_those_before_the_power_off() {
        let entry = |id: &str| v1::LogEntry {
            id: id.into(),
            message: format!("event {id}"),
            ..v1::LogEntry::default()
        };
        let response = |log| v1::CollectEvidenceResponse {
            log: Some(v1::ReadEventsResponse { result: Some(log) }),
            ..v1::CollectEvidenceResponse::default()
        };
        let log = Events::Log(v1::EventLog {
            entries: vec![entry("1"), entry("2"), entry("3")],
            total: None,
        });
        let newest = LogPosition {
            id: "1".into(),
            at: None,
        };
        let read = boot_log(response(log), &newest).unwrap();
        let texts: Vec<&str> = read.records.iter().map(|r| &*r.message).collect();
        assert_eq!(texts, ["event 2", "event 3"]);
        let failed = response(Events::Failure(v1::Failure::default()));
        assert!(boot_log(failed, &newest).is_err());
        assert!(boot_log(v1::CollectEvidenceResponse::default(), &newest).is_err());
    }
}
