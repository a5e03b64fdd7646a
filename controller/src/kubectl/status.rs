//! An overview: leader, agents, health checks, remediations.

use std::fmt::{self, Display, Formatter};

use anyhow::{Context, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt, api::DynamicObject};
use rackhand_api::names::{MADE_BY_ANNOTATION, STATE_ANNOTATION};
use rackhand_core::{remediation::WORDS_IGNORED, values::duration::ago};
use serde::Serialize;
use serde_json::Value;

use crate::error_text::one_line;

use super::{
    objects,
    table::{named, table},
};

/// The Lease of the leader.
#[derive(Debug, Clone)]
pub(crate) struct LeaseName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The contents of the overview.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Status {
    leader: Option<Leader>,
    /// Whether it is not known who leads.
    #[serde(skip)]
    is_leader_unread: bool,
    agents: Vec<Agent>,
    checks: Vec<Check>,
    remediations: Vec<Remediation>,
    /// Why each part is not, or not all, read.
    #[serde(skip)]
    unread: Unread,
    /// Errors of objects that could not be read, or are not served.
    problems: Vec<String>,
    now: Timestamp,
}

/// Why each part of the overview is not, or not all, read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Unread {
    agents: Vec<String>,
    checks: Vec<String>,
    remediations: Vec<String>,
}

/// The controller that leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Leader {
    name: String,
    renewed: Option<Timestamp>,
    /// Whether the Lease has expired.
    expired: bool,
}

/// A rack agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    name: String,
    rack: String,
    connected: bool,
    hosts: Option<i64>,
    last_seen: Option<Timestamp>,
    message: String,
}

/// A health check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Check {
    kind: String,
    namespace: String,
    name: String,
    healthy: Option<i64>,
    expected: Option<i64>,
}

/// A remediation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Remediation {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: String,
    /// The health check or trigger that made it, where Rackhand did.
    by: String,
    pub(super) step: String,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Reads all objects that the caller may read.
///
/// # Errors
/// The API server cannot be reached, or does not know the caller. What it refuses is told among the rest.
pub(super) async fn read(
    client: &Client,
    lease: &LeaseName,
    now: Timestamp,
) -> anyhow::Result<Status> {
    let mut status = Status {
        now,
        ..Status::default()
    };
    let mut problems = Vec::new();
    let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
    let what = || format!("Lease {}/{}", lease.namespace, lease.name);
    let found = leases.get_opt(&lease.name).await.with_context(what);
    let found = told(found, &mut problems)?;
    status.is_leader_unread = found.is_none();
    status.leader = (found.flatten()).and_then(|lease| leader(&lease, now));
    let ours = [objects::RACK_AGENT, objects::POWER_REMEDIATION];
    let mut unserved = Vec::new();
    for kind in ours {
        let served = objects::served(client, kind).await.map(|s| s.is_some());
        if told(served, &mut problems)? == Some(false) {
            unserved.push(kind);
        }
    }
    if !unserved.is_empty() {
        problems.push(one_line(&objects::none_served(&unserved)));
    }
    let unserved = |kind: objects::KindName| {
        let is_unserved = unserved.iter().any(|of| of.kind == kind.kind);
        is_unserved.then(|| one_line(&objects::none_served(&[kind])))
    };
    let mut unread = Unread::default();
    let agents = objects::list(client, objects::RACK_AGENT).await;
    let agents = told(agents, &mut unread.agents)?.unwrap_or_default();
    let mut checks = Vec::new();
    for kind in [
        objects::CLUSTER_API_CHECK,
        objects::OPENSHIFT_CHECK,
        objects::NODE_CHECK,
    ] {
        let listed = told(objects::list(client, kind).await, &mut unread.checks)?;
        let listed = listed.unwrap_or_default();
        checks.extend(listed.iter().map(|object| check(object, kind.kind)));
    }
    let mut remediations = Vec::new();
    for kind in [objects::POWER_REMEDIATION, objects::METAL3_REMEDIATION] {
        let listed = objects::list(client, kind).await;
        let listed = told(listed, &mut unread.remediations)?;
        let listed = listed.unwrap_or_default();
        remediations.extend(listed.iter().map(|object| remediation(object, kind.kind)));
    }
    let Unread {
        agents: of_agents,
        checks: of_checks,
        remediations: of_remediations,
    } = &unread;
    for why in [of_agents, of_checks, of_remediations]
        .into_iter()
        .flatten()
    {
        if !problems.contains(why) {
            problems.push(why.clone());
        }
    }
    problems.dedup();
    // What is not served is among the problems already, once for all kinds.
    (unread.agents).splice(0..0, unserved(objects::RACK_AGENT));
    (unread.remediations).splice(0..0, unserved(objects::POWER_REMEDIATION));
    (status.problems, status.unread) = (problems, unread);
    status.agents = agents.iter().map(agent).collect();
    status.checks = checks;
    status.remediations = remediations;
    Ok(status)
}

/// What was read; `None` if the API server refuses that, which is noted.
fn told<T>(read: anyhow::Result<T>, problems: &mut Vec<String>) -> anyhow::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if is_refused(&error) => {
            problems.push(one_line(&error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether an API server that knows the caller has refused one request: others may be answered.
fn is_refused(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<kube::Error>();
    matches!(status, Some(kube::Error::Api(status)) if status.code != 401)
}

fn leader(lease: &Lease, now: Timestamp) -> Option<Leader> {
    let spec = lease.spec.as_ref()?;
    let name = spec
        .holder_identity
        .clone()
        .filter(|name| !name.is_empty())?;
    let renewed = spec.renew_time.as_ref().map(|time| time.0);
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    let age = renewed.map(|at| now.duration_since(at).as_secs());
    Some(Leader {
        name,
        renewed,
        expired: age.is_none_or(|age| age > i64::from(seconds)),
    })
}

fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

fn time(value: &Value, pointer: &str) -> Option<Timestamp> {
    text(value, pointer).parse().ok()
}

fn agent(object: &DynamicObject) -> Agent {
    let data = &object.data;
    let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
    let connected = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Connected");
    let is_connected = connected.is_some_and(|condition| condition["status"] == "True");
    Agent {
        name: object.name_any(),
        rack: text(data, "/spec/rack"),
        connected: is_connected,
        hosts: data.pointer("/status/hosts").and_then(Value::as_i64),
        last_seen: time(data, "/status/lastSeen"),
        message: connected
            .filter(|_| !is_connected)
            .map(|condition| text(condition, "/message"))
            .unwrap_or_default(),
    }
}

fn check(object: &DynamicObject, kind: &str) -> Check {
    let status = &object.data["status"];
    let count = |names: [&str; 2]| names.iter().find_map(|name| status[name].as_i64());
    Check {
        kind: kind.to_owned(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        healthy: count(["currentHealthy", "healthyNodes"]),
        expected: count(["expectedMachines", "observedNodes"]),
    }
}

/// The copy of the recorded state in a remediation; `null` if there is none.
pub(super) fn stored_state(object: &DynamicObject) -> Value {
    match object.annotations().get(STATE_ANNOTATION) {
        Some(text) => serde_json::from_str::<Value>(text)
            .map(|mut annotation| annotation["state"].take())
            .unwrap_or_default(),
        None => object.data["status"]["cursor"].clone(),
    }
}

/// Kind and name of what made a remediation; empty if that is not known.
fn maker(object: &DynamicObject) -> String {
    let marked = object.annotations().get(MADE_BY_ANNOTATION);
    let mut parts = marked.into_iter().flat_map(|marked| marked.split('/'));
    match (parts.next(), parts.next()) {
        (Some(kind), Some(name)) => format!("{kind} {name}"),
        _ => String::new(),
    }
}

/// Summary of a remediation.
pub(super) fn remediation(object: &DynamicObject, kind: &str) -> Remediation {
    let status = &object.data["status"];
    let mut shown = Remediation {
        kind: kind.to_owned(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        node: text(status, "/nodeName"),
        by: maker(object),
        step: text(status, "/step"),
        since: time(status, "/stepSince"),
        until: time(status, "/stepUntil"),
        reason: text(status, "/reason"),
        message: text(status, "/message"),
    };
    // The status of a Metal3Remediation has no fields for this.
    let annotation = object.annotations().get(STATE_ANNOTATION);
    let annotation = annotation.and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(annotation) = annotation {
        shown.node = text(&annotation, "/state/attempt/node/name");
        shown.step = text(&annotation, "/state/step");
        shown.since = time(&annotation, "/state/since");
        shown.until = time(&annotation, "/until");
        shown.reason = text(&annotation, "/reason");
        shown.message = text(&annotation, "/message");
    }
    shown
}

// === impl Remediation ===

impl Remediation {
    /// # Errors
    /// The controller ignores the annotations by which a person approves or confirms: the message of the
    /// remediation says so.
    pub(super) fn require_words_accepted(&self) -> anyhow::Result<()> {
        ensure!(
            !self.message.contains(WORDS_IGNORED),
            "nothing was written to {} {}/{}, because it would have no effect: {}",
            self.kind,
            self.namespace,
            self.name,
            self.message
        );
        Ok(())
    }
}

// === impl Status ===

/// A table, or why it is not, or not all, read.
fn section<const N: usize>(
    f: &mut Formatter<'_>,
    (what, unread): (&str, &[String]),
    head: [&str; N],
    rows: &[[String; N]],
) -> fmt::Result {
    if unread.is_empty() || !rows.is_empty() {
        table(f, what, head, rows)?;
    }
    let not = match rows.is_empty() {
        true => "not read",
        false => "not all read",
    };
    match unread.is_empty() {
        true => Ok(()),
        false => writeln!(f, "\nThe {what} are {not}: {}", unread.join("; ")),
    }
}

impl Display for Status {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.leader {
            None if self.is_leader_unread => writeln!(
                f,
                "It is not known which controller leads: its Lease is not read."
            )?,
            None => writeln!(f, "No controller leads.")?,
            Some(leader) => {
                let renewed = leader.renewed.map(|at| self.ago(at)).unwrap_or_default();
                let state = if leader.expired { "has EXPIRED, " } else { "" };
                writeln!(
                    f,
                    "Leader: {}; its Lease {state}was renewed {renewed}",
                    leader.name
                )?;
            }
        }
        let agents = self.agents.iter().map(|agent| {
            [
                agent.name.clone(),
                agent.rack.clone(),
                if agent.connected { "yes" } else { "NO" }.to_owned(),
                agent
                    .hosts
                    .map_or("-".to_owned(), |hosts| hosts.to_string()),
                agent.last_seen.map_or("-".to_owned(), |at| self.ago(at)),
                agent.message.clone(),
            ]
        });
        section(
            f,
            ("rack agents", &self.unread.agents),
            [
                "AGENT",
                "RACK",
                "CONNECTED",
                "HOSTS",
                "LAST SEEN",
                "MESSAGE",
            ],
            &agents.collect::<Vec<_>>(),
        )?;
        let count = |count: Option<i64>| count.map_or("-".to_owned(), |count| count.to_string());
        let checks = self.checks.iter().map(|check| {
            [
                check.kind.clone(),
                named(&check.namespace, &check.name),
                count(check.healthy),
                count(check.expected),
            ]
        });
        section(
            f,
            ("health checks", &self.unread.checks),
            ["KIND", "CHECK", "HEALTHY", "OF"],
            &checks.collect::<Vec<_>>(),
        )?;
        let dash = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
        let remediations = self.remediations.iter().map(|remediation| {
            [
                remediation.kind.clone(),
                named(&remediation.namespace, &remediation.name),
                dash(&remediation.node),
                dash(&remediation.by),
                dash(&remediation.step),
                remediation.since.map_or("-".to_owned(), |at| self.ago(at)),
                dash(&remediation.reason),
                remediation.message.clone(),
            ]
        });
        section(
            f,
            ("remediations", &self.unread.remediations),
            [
                "KIND",
                "REMEDIATION",
                "NODE",
                "BY",
                "STEP",
                "SINCE",
                "REASON",
                "MESSAGE",
            ],
            &remediations.collect::<Vec<_>>(),
        )?;
        Ok(())
    }
}

impl Status {
    /// # Errors
    /// Something could not be read: what is shown is not all that there is.
    pub(super) fn require_complete(&self) -> anyhow::Result<()> {
        ensure!(
            self.problems.is_empty(),
            "this is not all that there is: {}",
            self.problems.join("; ")
        );
        Ok(())
    }

    fn ago(&self, at: Timestamp) -> String {
        ago(self.now, at)
    }
}

#[cfg(test)]
mod tests {
    use rackhand_core::remediation::{HostRef, PinnedNode, State, Step};
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn words_are_refused_where_the_remediation_says_that_they_are_ignored() {
        let held = |message: String| {
            let status = json!({ "reason": "HeldByPolicy", "message": message });
            let metadata = json!({ "name": "a", "namespace": "n" });
            let held = object(json!({ "metadata": metadata, "status": status }));
            remediation(&held, "PowerRemediation").require_words_accepted()
        };
        assert!(held("nobody has approved it".into()).is_ok());
        let refused = held(format!("nobody has approved it{WORDS_IGNORED}, so wait")).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("PowerRemediation n/a"), "{refused}");
        assert!(refused.contains("--words-of-persons=ignored"), "{refused}");
    }

    #[test]
    fn status_reads_remediation_step_from_status_or_annotation() {
        let power = remediation(
            &object(json!({
                "metadata": { "name": "a", "namespace": "n" },
                "status": {
                    "nodeName": "node-a", "step": "Draining", "reason": "DrainBlocked",
                    "message": "2 pods", "stepSince": "2026-08-01T02:14:07Z",
                },
            })),
            "PowerRemediation",
        );
        assert_eq!(
            (power.node.as_str(), power.step.as_str()),
            ("node-a", "Draining")
        );
        assert!(power.since.is_some());

        let mut state = State::new("2026-08-01T02:14:07Z".parse().unwrap());
        state.step = Step::AwaitingConfirmation;
        state.host = Some(HostRef {
            rack: "rack-a".into(),
            host: "bay-7".into(),
            bmh: None,
            bmc: "10.0.0.7".into(),
        });
        state.attempt.node = Some(PinnedNode {
            name: "node-b".into(),
            uid: "uid-b".into(),
            boot_id: String::new(),
            system_uuid: String::new(),
            unproven: false,
        });
        let annotation = json!({
            "state": state, "reason": "FenceUnconfirmed", "message": "no answer",
        });
        let metal3 = object(json!({
            "metadata": {
                "name": "b", "namespace": "n",
                "annotations": { STATE_ANNOTATION: annotation.to_string() },
            },
            "status": { "phase": "Running" },
        }));
        let shown = remediation(&metal3, "Metal3Remediation");
        assert_eq!(
            (shown.node.as_str(), shown.step.as_str()),
            ("node-b", "AwaitingConfirmation")
        );
        assert_eq!(shown.reason, "FenceUnconfirmed");
        assert!(shown.since.is_some());
        assert_eq!(stored_state(&metal3)["host"]["host"], "bay-7");
    }

    #[test]
    fn maker_of_a_remediation_is_shown_by_kind_and_name() {
        let made = |by: Value| {
            let metadata = json!({ "name": "a", "namespace": "n", "annotations": by });
            remediation(&object(json!({ "metadata": metadata })), "PowerRemediation").by
        };
        let by_label = json!({ MADE_BY_ANNOTATION: "RemediationTrigger/reboot/uid-1" });
        assert_eq!(made(by_label), "RemediationTrigger reboot");
        assert_eq!(made(json!({})), "");
    }

    #[test]
    fn status_table_shows_expired_lease_and_disconnected_agent() {
        let now: Timestamp = "2026-08-01T02:20:00Z".parse().unwrap();
        let status = Status {
            leader: Some(Leader {
                name: "controller-0".into(),
                renewed: Some("2026-08-01T02:18:00Z".parse().unwrap()),
                expired: true,
            }),
            agents: vec![Agent {
                name: "rack-a".into(),
                rack: "rack-a".into(),
                message: "connection refused".into(),
                ..Agent::default()
            }],
            now,
            ..Status::default()
        };
        let text = status.to_string();
        for part in [
            "its Lease has EXPIRED, was renewed 2 min ago",
            "rack-a  rack-a  NO",
            "connection refused",
            "There are no remediations.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_is_not_read_is_not_said_to_be_absent() {
        let refused = "rackagents is forbidden".to_owned();
        let mut status = Status {
            unread: Unread {
                agents: vec![refused.clone()],
                ..Unread::default()
            },
            ..Status::default()
        };
        let text = status.to_string();
        assert!(
            text.contains("The rack agents are not read: rackagents is forbidden"),
            "{text}"
        );
        assert!(!text.contains("no rack agents"), "{text}");
        assert!(text.contains("There are no remediations."), "{text}");
        status.remediations = vec![Remediation::default()];
        status.unread.remediations = vec![refused];
        let text = status.to_string();
        assert!(text.contains("The remediations are not all read"), "{text}");
    }
}
