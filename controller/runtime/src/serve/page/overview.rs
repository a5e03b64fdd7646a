//! Collection of the facts of the overview.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::{
    IntOrPercent,
    kinds::conditions::{ConditionStatus, StatusCondition},
    names::{
        CAPI_PAUSED_ANNOTATION, MADE_BY_ANNOTATION, PAUSED_ANNOTATION, RACK_LABEL,
        conditions::{BLOCKED, FENCING_UNAVAILABLE, REMEDIATION_ALLOWED},
        groups, kinds,
    },
    views::{Condition, Meta},
};
use rackhand_core::{
    explanation::{RemediationFacts, explain_remediation},
    overview::{
        BareMetalHostEntry, CheckSummary, FinishedRemediation, LeaderView, MaintenanceEntry,
        NodeEntry, NodeReady, OverviewFacts, RunningRemediation, TimelineEntry,
    },
    remediation::{HostView, on_wall},
};

use crate::{
    agents::AgentConnections,
    hosts::{host_of_machine, host_of_openshift},
    remediation::LiveFacts,
    store::{
        index::{Connection, Entry, Index},
        object::{Key, Kind},
        remediation::RemediationId,
    },
};

/// A time of the engine's clock, and how far the wall clock is ahead of it. Everything that is displayed is of the
/// wall clock, like the times of Kubernetes objects.
#[derive(Clone, Copy)]
pub(super) struct DisplayTime {
    pub(super) engine: Timestamp,
    pub(super) ahead: SignedDuration,
}

impl DisplayTime {
    pub(super) fn wall(self) -> Timestamp {
        self.shown(self.engine)
    }

    /// A time of the engine's clock on the wall clock.
    fn shown(self, at: Timestamp) -> Timestamp {
        on_wall(at, self.ahead)
    }

    fn leader(self, leader: LeaderView) -> LeaderView {
        LeaderView {
            since: self.shown(leader.since),
            ..leader
        }
    }

    fn timeline(self, steps: Vec<TimelineEntry>) -> Vec<TimelineEntry> {
        let steps = steps.into_iter().map(|entry| entry.moved(self.ahead));
        steps.collect()
    }

    fn finished(self, all: Vec<FinishedRemediation>) -> Vec<FinishedRemediation> {
        let all = all.into_iter().map(|entry| entry.moved(self.ahead));
        all.collect()
    }
}

/// Collects all facts that the leader has. Takes long in a large fleet, so it runs beside the tasks of the
/// controller.
pub(super) fn collect(
    leader: LeaderView,
    index: &Index,
    agents: &AgentConnections,
    live: &LiveFacts,
    now: DisplayTime,
) -> OverviewFacts {
    let mut nodes = Vec::new();
    let clusters = index.clusters();
    for cluster in clusters.iter().chain([&Key::local()]) {
        let name = cluster_name(cluster);
        let all = index.nodes_in_pages(cluster);
        nodes.extend(all.map(|node| node_entry(&name, &node)));
    }
    OverviewFacts {
        leader: now.leader(leader),
        agents: agents.overview(),
        bare_metal_hosts: bare_metal_hosts(index),
        nodes,
        unreachable: unreachable(index),
        shared_causes: live.causes.open(now.wall()),
        maintenances: maintenances(index),
        checks: checks(index),
        running: live
            .all()
            .iter()
            .map(|f| running(index, live, f, now))
            .collect(),
        finished: now.finished(live.history.finished()),
    }
}

/// Planned work that is not over.
fn maintenances(index: &Index) -> Vec<MaintenanceEntry> {
    let all = index.maintenances().into_iter();
    let entries = all.filter_map(|(key, entry)| {
        let stored = entry.view.ok()?;
        let status = &stored.status;
        if status.phase.is_over() {
            return None;
        }
        let spec = stored.spec.as_ref().ok();
        let target = spec.map(|(_, target)| target.to_string());
        let host = status.node_name.clone().or_else(|| status.host.clone());
        let is_blocked =
            |c: &StatusCondition| c.condition_type == BLOCKED && c.status == ConditionStatus::True;
        Some(MaintenanceEntry {
            name: key.to_string(),
            host: host.or(target).unwrap_or_default(),
            phase: format!("{:?}", status.phase),
            since: status.parked_since.or(stored.meta.created),
            ends: status.ends_at,
            by: spec.and_then(|(spec, _)| spec.requested_by.clone()),
            reason: spec
                .map(|(spec, _)| spec.reason.clone())
                .unwrap_or_default(),
            message: status.message.clone().unwrap_or_default(),
            blocked: status.conditions.iter().any(is_blocked),
        })
    });
    entries.collect()
}

/// What is not watched now, and why (F12): workload clusters, and kinds of the management cluster.
fn unreachable(index: &Index) -> Vec<(String, String)> {
    let clusters =
        index
            .clusters()
            .into_iter()
            .filter_map(|cluster| match index.connection(&cluster) {
                Connection::Down(why) if cluster != Key::local() => {
                    Some((cluster.to_string(), why))
                }
                _ => None,
            });
    let lost = index.lost_watches().into_iter();
    let lost = lost.map(|(kind, why)| (format!("management cluster, {kind}"), why));
    clusters.chain(lost).collect()
}

fn cluster_name(cluster: &Key) -> String {
    if *cluster == Key::local() {
        String::new()
    } else {
        cluster.to_string()
    }
}

fn node_entry(cluster: &str, node: &Node) -> NodeEntry {
    let status = node.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|c| c.type_ == "Ready"));
    let unavailable = conditions.and_then(|all| {
        let mut set = all.iter().filter(|c| c.status == "True");
        set.find(|c| c.type_ == FENCING_UNAVAILABLE)
    });
    NodeEntry {
        cluster: cluster.to_owned(),
        name: node.name_any(),
        provider_id: node.spec.as_ref().and_then(|s| s.provider_id.clone()),
        system_uuid: status
            .and_then(|s| s.node_info.as_ref())
            .map(|info| info.system_uuid.clone()),
        ready: match ready.map(|c| c.status.as_str()) {
            Some("True") => NodeReady::True,
            Some("False") => NodeReady::False,
            _ => NodeReady::Unknown,
        },
        since: ready.and_then(|c| c.last_transition_time.as_ref().map(|t| t.0)),
        fencing_unavailable: unavailable.map(|c| c.message.clone().unwrap_or_default()),
    }
}

fn bare_metal_hosts(index: &Index) -> Vec<BareMetalHostEntry> {
    let nodes = nodes_of_hosts(index);
    let hosts = index.keys_in_pages(Kind::BareMetalHost);
    hosts
        .filter_map(|key| {
            let view = index.host(&key)?.view.ok()?;
            let rack = view.meta.labels.get(RACK_LABEL);
            let rack = rack.or_else(|| view.meta.annotations.get(RACK_LABEL));
            let address = view.bmc.as_ref().and_then(|bmc| bmc.address.clone());
            Some(BareMetalHostEntry {
                name: key.to_string(),
                address: address.unwrap_or_default(),
                rack: rack.cloned(),
                powered_on: view.powered_on,
                node: nodes.get(&key).cloned(),
            })
        })
        .collect()
}

/// Cluster and name of the Node of each BareMetalHost that a Machine is linked to.
fn nodes_of_hosts(index: &Index) -> BTreeMap<Key, (String, String)> {
    let of_cluster_api = index.keys_in_pages(Kind::Machine).filter_map(|key| {
        let machine = index.machine(&key)?.view.ok()?;
        let host = host_of_machine(index, &machine).ok()?.0?;
        let cluster = Key::new(&key.namespace, machine.cluster_name.clone()?);
        Some((host, (cluster.to_string(), machine.node_name.clone()?)))
    });
    let of_openshift = index.keys_in_pages(Kind::OpenShiftMachine);
    let of_openshift = of_openshift.filter_map(|key| {
        let machine = index.openshift_machine(&key)?.view.ok()?;
        let host = host_of_openshift(index, &machine).ok()?.0?;
        Some((host, (String::new(), machine.node_name.clone()?)))
    });
    of_cluster_api.chain(of_openshift).collect()
}

/// The health check or trigger that made a remediation, by what is marked on it.
fn requested_by(index: &Index, remediation: &str) -> Option<String> {
    let (kind, key) = remediation.split_once(' ')?;
    let kind = Kind::REMEDIATIONS.into_iter().find(|k| k.kind() == kind)?;
    let entry = index.remediation(&RemediationId::new(kind, Key::parse(key)))?;
    let marked = entry.object.annotations().get(MADE_BY_ANNOTATION)?;
    let mut parts = marked.splitn(3, '/');
    let (kind, name) = (parts.next()?, parts.next()?);
    Some(format!("{kind} {name}"))
}

fn running(
    index: &Index,
    live: &LiveFacts,
    facts: &Arc<RemediationFacts>,
    now: DisplayTime,
) -> RunningRemediation {
    let state = facts.state.as_ref();
    let host = match &facts.observation.host {
        HostView::Found(host) => Some(host),
        HostView::NotFound(_) => state.and_then(|s| s.host.as_ref()),
    };
    let node = state.and_then(|s| s.attempt.node.as_ref());
    let cluster = facts.observation.cluster.clone();
    let power = facts.observation.power.as_ref();
    RunningRemediation {
        host: host.map(|host| (host.rack.clone(), host.host.clone())),
        node: node.map(|node| (cluster.unwrap_or_default(), node.name.clone())),
        power: power.map(|power| match &power.result {
            Ok(reading) => reading.raw.clone(),
            Err(_) => "no answer".to_owned(),
        }),
        requested_by: requested_by(index, &facts.remediation),
        timeline: now.timeline(live.history.timeline(&facts.observation.object.uid)),
        view: explain_remediation(facts, now.engine, now.ahead),
    }
}

fn checks(index: &Index) -> Vec<CheckSummary> {
    let mut all = Vec::new();
    for key in index.keys(Kind::MachineHealthCheck) {
        let Some(entry) = index.check(&key) else {
            continue;
        };
        all.push(machine_check(groups::CLUSTER_API, &key, &entry, |view| {
            MachineCheckStatus {
                meta: &view.meta,
                counts: [
                    view.expected_machines,
                    view.current_healthy,
                    view.remediations_allowed,
                ],
                limit: match view.unhealthy_range {
                    Some(range) => format!("unhealthyInRange [{}-{}]", range.min, range.max),
                    None => limit("maxUnhealthy", view.max_unhealthy.as_ref()),
                },
                allowed: view.condition(REMEDIATION_ALLOWED),
            }
        }));
    }
    for (key, entry) in index.openshift_checks() {
        let group = groups::OPENSHIFT_MACHINE;
        all.push(machine_check(group, &key, &entry, |view| {
            MachineCheckStatus {
                meta: &view.meta,
                counts: [
                    view.expected_machines,
                    view.current_healthy,
                    view.remediations_allowed,
                ],
                limit: match &view.max_unhealthy {
                    Ok(max) => limit("maxUnhealthy", max.as_ref()),
                    Err(why) => why.clone(),
                },
                allowed: view.condition(REMEDIATION_ALLOWED),
            }
        }));
    }
    for key in index.keys(Kind::NodeHealthCheck) {
        let Some(entry) = index.node_check(&key) else {
            continue;
        };
        let mut check = summary(kinds::NODE_HEALTH_CHECK, groups::MEDIK8S, &key, &entry);
        let status = &entry.object.data["status"];
        let number = |field: &str| status[field].as_i64().and_then(|n| i32::try_from(n).ok());
        counts(
            &mut check,
            [number("observedNodes"), number("healthyNodes"), None],
        );
        if let Ok(view) = &entry.view {
            check.limit = match (&view.min_healthy, &view.max_unhealthy) {
                (_, Some(max)) => limit("maxUnhealthy", Some(max)),
                (min, None) => limit("minHealthy", min.as_ref()),
            };
            problem(&mut check, &view.meta, None);
        }
        if let Some(phase @ ("Disabled" | "Paused")) = status["phase"].as_str() {
            let reason = status["reason"].as_str().unwrap_or_default();
            check.problem = format!("{phase}: {reason}");
        }
        all.push(check);
    }
    all
}

/// The fields of a MachineHealthCheck, of either API group, that its summary needs.
struct MachineCheckStatus<'a> {
    meta: &'a Meta,
    /// Expected and healthy Machines, and allowed remediations.
    counts: [Option<i32>; 3],
    limit: String,
    allowed: Option<&'a Condition>,
}

fn machine_check<V>(
    group: &str,
    key: &Key,
    entry: &Entry<V>,
    status: impl FnOnce(&V) -> MachineCheckStatus<'_>,
) -> CheckSummary {
    let mut check = summary(kinds::MACHINE_HEALTH_CHECK, group, key, entry);
    if let Ok(view) = &entry.view {
        let status = status(view);
        counts(&mut check, status.counts);
        check.limit = status.limit;
        problem(&mut check, status.meta, status.allowed);
    }
    check
}

fn summary<V>(kind: &str, group: &str, key: &Key, entry: &Entry<V>) -> CheckSummary {
    CheckSummary {
        kind: kind.to_owned(),
        group: group.to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        problem: entry
            .view
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default(),
        ..CheckSummary::default()
    }
}

fn counts(check: &mut CheckSummary, counts: [Option<i32>; 3]) {
    let [expected, healthy, allowed] = counts.map(|n| n.and_then(|n| u32::try_from(n).ok()));
    check.expected = expected;
    check.healthy = healthy;
    check.remediations_allowed = allowed;
}

fn limit(field: &str, value: Option<&IntOrPercent>) -> String {
    value.map(|v| format!("{field} {v}")).unwrap_or_default()
}

fn problem(check: &mut CheckSummary, meta: &Meta, allowed: Option<&Condition>) {
    if meta.has_annotation(PAUSED_ANNOTATION) || meta.has_annotation(CAPI_PAUSED_ANNOTATION) {
        check.problem = "paused".to_owned();
    } else if let Some(condition) = allowed.filter(|c| c.is_false()) {
        check.problem = condition.message.clone().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn f12_page_names_each_cluster_and_kind_that_is_not_watched() {
        let index = Index::new(Vec::new());
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": { "name": "c", "namespace": "ns", "uid": "c", "resourceVersion": "1" },
        });
        index.apply(Kind::Cluster, serde_json::from_value(cluster).unwrap());
        index.set_connection(&Key::new("ns", "c"), Connection::Up);
        assert_eq!(unreachable(&index), []);
        index.set_connection(&Key::new("ns", "c"), Connection::Down("away".into()));
        index.set_lost_watch(Kind::Machine, Some("denied".into()));
        index.set_lost_other("Lease", "medik8s-leases", Some("denied".into()));
        let told = unreachable(&index);
        let told: Vec<_> = told.iter().map(|(w, y)| (w.as_str(), y.as_str())).collect();
        let expected = [
            ("ns/c", "away"),
            ("management cluster, Machine", "denied"),
            ("management cluster, Lease in medik8s-leases", "denied"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn node_is_without_a_working_bmc_only_while_the_condition_is_true() {
        for (status, expected) in [("True", Some("no answer".to_owned())), ("False", None)] {
            let node = json!({
                "metadata": { "name": "n1" },
                "status": { "conditions": [
                    { "type": "FencingUnavailable", "status": status, "message": "no answer" },
                    { "type": "Ready", "status": "True" },
                ] },
            });
            let entry = node_entry("", &serde_json::from_value(node).unwrap());
            assert_eq!(entry.fencing_unavailable, expected, "{status}");
            assert_eq!(entry.ready, NodeReady::True);
        }
    }

    #[test]
    fn times_of_the_page_follow_a_step_of_the_wall_clock() {
        let second = |at| Timestamp::from_second(at).unwrap();
        let hour = SignedDuration::from_hours(1);
        let now = DisplayTime {
            engine: second(100),
            ahead: hour,
        };
        assert_eq!(now.wall(), second(3700));
        let leader = LeaderView {
            since: second(40),
            ..LeaderView::default()
        };
        // It has led for a minute, whatever the wall clock was set to.
        assert_eq!(
            now.wall().duration_since(now.leader(leader).since),
            SignedDuration::from_mins(1)
        );
        let entry = |at| TimelineEntry {
            step: "Draining".into(),
            at: second(at),
        };
        let finished = FinishedRemediation {
            remediation: "PowerRemediation a/b".into(),
            node: None,
            host: None,
            created: second(3610),
            timeline: vec![entry(20)],
            finished: second(30),
            outcome: "succeeded".into(),
            reason: "NodeHealthy".into(),
            occurrence: None,
            shared_cause: None,
        };
        let shown = now.finished(vec![finished]).remove(0);
        // The API server's clock was right all the time.
        assert_eq!(
            (shown.created, shown.finished),
            (second(3610), second(3630))
        );
        assert_eq!(shown.timeline, [entry(3620)]);
    }
}
