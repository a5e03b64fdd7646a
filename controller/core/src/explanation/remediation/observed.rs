//! What a remediation observes, as named lines.

use jiff::Timestamp;

use crate::remediation::{
    AgentView, EvictionResult, HostView, Observation, OperationView, PodDeletion, PowerView, Taint,
    WorkloadView, on_wall,
};

/// What is known of Machine, Node, host, BareMetalHost, agent and BMC, by name.
pub(super) fn observed(machine: Option<&str>, o: &Observation) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    if let Some(machine) = machine {
        line("machine", machine.to_owned());
    }
    match &o.workload {
        WorkloadView::Present(node) => {
            let ready = match (node.ready, node.ready_unknown) {
                (true, _) => "Ready",
                (_, true) => "Ready is Unknown",
                _ => "not Ready",
            };
            let taint = match node.taint {
                Taint::Absent => "",
                Taint::Ours => ", out of service",
                Taint::Other => ", out of service, not by Rackhand",
            };
            line("node", format!("{}: {ready}{taint}", node.name));
        }
        WorkloadView::Missing { name } => line("node", format!("{name}: gone")),
        WorkloadView::ClusterGone { name } => line("node", format!("Cluster {name} is gone")),
        WorkloadView::NotJoined => line("node", "never joined".into()),
        WorkloadView::Unreachable { why } => line("node", format!("not seen: {why}")),
    }
    if let Some(pods) = pods(o) {
        line("pods", pods);
    }
    match &o.host {
        HostView::Found(host) => line("host", format!("{} of rack {}", host.host, host.rack)),
        HostView::NotFound(why) => line("host", why.to_string()),
    }
    if let Some(bmh) = &o.bmh {
        let mut words = Vec::new();
        for (yes, word) in [
            (!bmh.online, "online false"),
            (bmh.paused, "paused"),
            (bmh.detached, "detached"),
            (bmh.servicing, "servicing"),
            (!bmh.provisioned, "not provisioned"),
            (bmh.our_hold, "held by us"),
            (bmh.unhealthy_mark, "marked unhealthy"),
        ] {
            if yes {
                words.push(word.to_owned());
            }
        }
        words.extend(bmh.foreign_holds.iter().map(|k| format!("held by {k}")));
        let words = if words.is_empty() {
            "nothing special".to_owned()
        } else {
            words.join(", ")
        };
        line("bmh", format!("{}: {words}", bmh.name));
    }
    if let HostView::Found(host) = &o.host {
        let state = match &o.agent {
            AgentView::Ready => "connected",
            AgentView::Unreachable { why } => why,
        };
        line("agent", format!("of rack {}: {state}", host.rack));
    }
    if let Some(operation) = &o.operation {
        line("operation", operation_state(operation));
    }
    if let Some(power) = &o.power {
        line(
            "power",
            reading(power, on_wall(power.answered, o.wall_ahead)),
        );
    }
    lines
}

fn operation_state(operation: &OperationView) -> String {
    match operation {
        OperationView::Running => "under way at the agent".into(),
        OperationView::Staged { why, .. } => format!("accepted by the agent; waiting: {why}"),
        OperationView::Finished { commands_sent, .. } => {
            format!("ended at the agent; power commands sent: {commands_sent}")
        }
        OperationView::Rejected { why } => format!("refused by the agent: {why}"),
    }
}

/// The latest reading of the BMC between operations, which was answered at `at`.
fn reading(power: &PowerView, at: Timestamp) -> String {
    match &power.result {
        Ok(reading) if reading.protocol.is_empty() => {
            format!("{}, read at {at}", reading.raw)
        }
        Ok(reading) => format!("{} ({}), read at {at}", reading.raw, reading.protocol),
        Err(why) => format!("not read at {at}: {why}"),
    }
}

/// What is known of the pods of a Node that is drained, and who deletes them.
fn pods(o: &Observation) -> Option<String> {
    let answers = &o.evictions.answers;
    if !answers.is_empty() {
        let left = o.drain.as_ref()?.evictable().count();
        let evicted = (answers.values())
            .filter(|answer| answer.result == EvictionResult::Evicted)
            .count();
        return Some(format!("{left} left, {evicted} evicted"));
    }
    let left = o.drain.as_ref()?.remaining().count();
    let policy = o.object.policy.as_ref().ok()?;
    let who = match policy.pod_deletion {
        PodDeletion::Immediate => "deleted by Rackhand once they are Terminating",
        PodDeletion::PodGc => "deleted by the garbage collector of pods",
    };
    let deletions = &o.pod_deletions;
    let deleted = match deletions.deleted.len() {
        0 => String::new(),
        n => format!(", {n} deleted"),
    };
    let refused: String = deletions
        .refused
        .iter()
        .map(|(pod, why)| format!("; {pod} is left to the garbage collector: {why}"))
        .collect();
    Some(format!("{left} left{deleted}, {who}{refused}"))
}
