//! Why no replica leads, by the Lease and the Pods of the controller.

use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ContainerStateTerminated, ContainerStatus, Pod},
};
use kube::ResourceExt;
use rackhand_core::values::duration::ago;

/// Characters of a termination message that are shown, from its end.
const LONGEST_MESSAGE: usize = 400;

/// Why nobody holds a Lease.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotHeld {
    #[error("{lease} does not exist")]
    NoLease { lease: String },
    #[error("{lease} has no holder")]
    NoHolder { lease: String },
    #[error("{lease} has expired; {pod} renewed it {ago}")]
    Expired {
        lease: String,
        pod: String,
        ago: String,
    },
    #[error("{pod} has never renewed {lease}")]
    NeverRenewed { pod: String, lease: String },
}

/// The Pod that holds the Lease, whose identity is `POD_UNIQUE`. `what` names the Lease.
///
/// The time of the renewal is compared with the clock of this machine.
///
/// # Errors
/// Nobody holds it.
pub(super) fn holder(what: &str, found: Option<&Lease>, now: Timestamp) -> Result<String, NotHeld> {
    let lease = what.to_owned();
    let Some(found) = found else {
        return Err(NotHeld::NoLease { lease });
    };
    let spec = found.spec.clone().unwrap_or_default();
    let Some(holder) = spec.holder_identity.filter(|holder| !holder.is_empty()) else {
        return Err(NotHeld::NoHolder { lease });
    };
    let pod = holder.rsplit_once('_').map_or(&*holder, |(pod, _)| pod);
    let pod = pod.to_owned();
    let seconds = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    match spec.renew_time.map(|renewed| renewed.0) {
        Some(renewed) if now.duration_since(renewed).as_secs() <= seconds => Ok(pod),
        Some(renewed) => Err(NotHeld::Expired {
            lease,
            pod,
            ago: ago(now, renewed),
        }),
        None => Err(NotHeld::NeverRenewed { pod, lease }),
    }
}

/// The state of each Pod, with the message of its last termination.
pub(super) fn last_words(namespace: &str, pods: &[Pod]) -> String {
    if pods.is_empty() {
        return format!("namespace {namespace} has no Pod of the controller");
    }
    let all: Vec<String> = pods.iter().map(pod_state).collect();
    all.join("; ")
}

fn pod_state(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let name = pod.name_any();
    let phase = status.phase.as_deref().unwrap_or("Unknown");
    let containers = status.container_statuses.unwrap_or_default();
    let states: Vec<String> = containers.iter().filter_map(container_state).collect();
    match (states.as_slice(), status.message) {
        ([], None) => format!("Pod {name} is {phase}"),
        ([], Some(message)) => format!("Pod {name} is {phase}: {message}"),
        (states, _) => format!("Pod {name} is {phase}: {}", states.join(", ")),
    }
}

/// Why a container does not run, and how it ended last; `None` if it runs and has not ended before.
fn container_state(container: &ContainerStatus) -> Option<String> {
    let state = container.state.clone().unwrap_or_default();
    let last = container.last_state.clone().unwrap_or_default();
    let waiting = state.waiting.map(|waiting| {
        let reason = waiting.reason.unwrap_or_else(|| "waiting".into());
        match waiting.message {
            Some(message) => format!("{reason}: {message}"),
            None => reason,
        }
    });
    let ended = state.terminated.or(last.terminated);
    let ended = ended.as_ref().map(termination);
    let known: Vec<String> = waiting.into_iter().chain(ended).collect();
    (!known.is_empty()).then(|| known.join("; "))
}

fn termination(ended: &ContainerStateTerminated) -> String {
    let reason = ended.reason.as_deref().unwrap_or("ended");
    let mut text = format!("last exit code {} ({reason})", ended.exit_code);
    let message = ended.message.as_deref().unwrap_or_default().trim();
    if !message.is_empty() {
        let skipped = message.chars().count().saturating_sub(LONGEST_MESSAGE);
        text.push_str(": ");
        text.extend(message.chars().skip(skipped));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn lease(spec: &Value) -> Lease {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    fn held(spec: &Value) -> Result<String, NotHeld> {
        let now = Timestamp::constant(1_785_549_630, 0);
        holder("Lease a/b", Some(&lease(spec)), now)
    }

    #[test]
    fn holder_is_the_pod_of_a_renewed_lease() {
        let renewed = json!({
            "holderIdentity": "rackhand-0_abc", "leaseDurationSeconds": 15,
            "renewTime": "2026-08-01T02:00:20.000000Z",
        });
        assert_eq!(held(&renewed), Ok("rackhand-0".to_owned()));
    }

    #[test]
    fn absence_of_a_leader_has_a_cause() {
        let none = holder("Lease a/b", None, Timestamp::UNIX_EPOCH);
        assert_eq!(none.unwrap_err().to_string(), "Lease a/b does not exist");
        for (spec, why) in [
            (json!({}), "Lease a/b has no holder"),
            (json!({ "holderIdentity": "" }), "Lease a/b has no holder"),
            (
                json!({ "holderIdentity": "rackhand-0_abc" }),
                "rackhand-0 has never renewed Lease a/b",
            ),
            (
                json!({
                    "holderIdentity": "rackhand-0_abc", "leaseDurationSeconds": 15,
                    "renewTime": "2026-08-01T02:00:00.000000Z",
                }),
                "Lease a/b has expired; rackhand-0 renewed it 30 s ago",
            ),
        ] {
            assert_eq!(held(&spec).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn last_words_are_those_of_the_last_termination() {
        let pods: Vec<Pod> = serde_json::from_value(json!([
            { "metadata": { "name": "r-0" }, "status": { "phase": "Running", "containerStatuses": [{
                "name": "controller", "image": "", "imageID": "", "ready": false, "restartCount": 4,
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                "lastState": { "terminated": {
                    "exitCode": 1, "reason": "Error", "message": "Error: no certificate\n",
                } },
            }] } },
            { "metadata": { "name": "r-1" }, "status": { "phase": "Pending", "message": "no node fits" } },
        ]))
        .unwrap();
        assert_eq!(
            last_words("rackhand-system", &pods),
            "Pod r-0 is Running: CrashLoopBackOff; last exit code 1 (Error): Error: no certificate; \
             Pod r-1 is Pending: no node fits"
        );
        let none = "namespace rackhand-system has no Pod of the controller";
        assert_eq!(last_words("rackhand-system", &[]), none);
    }
}
