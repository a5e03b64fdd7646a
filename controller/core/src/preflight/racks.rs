//! Rules about agents, hosts and the Machines and Nodes on them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::hosts::NODE_RACK_LABEL;

use super::{
    AgentFacts, HostCheck, HostFacts, Row, Status, TargetFacts, cluster::list,
    identity::is_compared,
};

/// A certificate that ends sooner should be renewed.
const RENEW: SignedDuration = SignedDuration::from_hours(30 * 24);

pub(super) fn own_certificate(
    facts: Option<&Result<Timestamp, String>>,
    now: Timestamp,
) -> Vec<Row> {
    let check = "certificates";
    let target = "this machine";
    match facts {
        None => Vec::new(),
        Some(Err(why)) => vec![Row::skipped(
            check,
            target,
            format!("agents are not contacted from here: {why}; use --agent-tls-dir"),
        )],
        Some(Ok(end)) => vec![certificate(target, *end, now)],
    }
}

fn certificate(target: &str, end: Timestamp, now: Timestamp) -> Row {
    let check = "certificates";
    let left = end.duration_since(now);
    let days = left.as_hours() / 24;
    let remedy = "renew it (docs/certificates.md); a renewed certificate is used without a restart";
    if !left.is_positive() {
        Row::failed(check, target, format!("expired at {end}"), remedy)
    } else if left < RENEW {
        Row::warning(
            check,
            target,
            format!("expires in {days} days, at {end}"),
            remedy,
        )
    } else {
        Row::ok(check, target, format!("valid for {days} days"))
    }
}

pub(super) fn agents(all: &[AgentFacts], now: Timestamp) -> Vec<Row> {
    if all.is_empty() {
        return vec![Row::failed(
            "agents",
            "all",
            "there is no RackAgent: no host can be switched",
            "install an agent in each rack and create its RackAgent (docs/agent.md)",
        )];
    }
    all.iter().flat_map(|facts| agent(facts, now)).collect()
}

fn agent(facts: &AgentFacts, now: Timestamp) -> Vec<Row> {
    let check = "agents";
    let target = format!("{} ({}, rack {})", facts.name, facts.endpoint, facts.rack);
    let remedy = "see that the agent runs, that its address in the RackAgent is right, that the network \
                  lets the controller through, and that both certificates are of one CA \
                  (docs/certificates.md)";
    let mut rows = Vec::new();
    match &facts.probe {
        Some(Ok(probe)) => {
            let message = format!("answers; {} hosts in its inventory", probe.hosts);
            rows.push(Row::ok(check, &target, message));
            rows.push(certificate(
                &format!("agent {}", facts.name),
                probe.not_after,
                now,
            ));
        }
        Some(Err(why)) => rows.push(Row::failed(check, &target, why, remedy)),
        None => {}
    }
    match (&facts.connected, &facts.probe) {
        (Some((false, why)), _) => {
            let message = format!("the leader is not connected to it: {why}");
            rows.push(Row::failed(check, &target, message, remedy));
        }
        (Some((true, _)), None) => {
            rows.push(Row::ok(
                check,
                &target,
                "the leader reports that it is connected",
            ));
        }
        (None, None) => {
            let message = "not contacted from here, and no leader reports about it";
            rows.push(Row::skipped(check, &target, message));
        }
        (Some((true, _)) | None, Some(_)) => {}
    }
    rows
}

/// `of_racks`: the racks that have agents.
pub(super) fn targets(all: &[TargetFacts], of_racks: &BTreeSet<&str>) -> Vec<Row> {
    let check = "hosts";
    let mut of_host: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut rows = Vec::new();
    for target in all {
        match &target.host {
            Ok(host) => of_host.entry(host).or_default().push(target.name.clone()),
            Err(why) => {
                let remedy = "name the node in the inventory of its agent, or link a BareMetalHost and \
                              label it rackhand.dev/rack=<rack> (docs/agent.md)";
                rows.push(if target.checked {
                    Row::failed(check, &target.name, why, remedy)
                } else {
                    Row::skipped(
                        check,
                        &target.name,
                        format!("{why}; no health check selects it"),
                    )
                });
            }
        }
    }
    let mut unique = 0;
    for (host, targets) in &of_host {
        if targets.len() == 1 {
            unique += 1;
            continue;
        }
        rows.push(Row::failed(
            check,
            *host,
            format!("several nodes resolve to this host: {}", list(targets)),
            "give each host its own node_name, provider_id or system_uuid in the inventory",
        ));
    }
    if unique > 0 {
        let message = format!("{unique} nodes resolve to one host each");
        rows.insert(0, Row::ok(check, "nodes", message));
    }
    rows.extend(bindings(all, of_racks));
    rows
}

/// What decides which rack may have a Node, where there are several (F14).
fn bindings(all: &[TargetFacts], of_racks: &BTreeSet<&str>) -> Vec<Row> {
    let check = "bindings";
    let ignored = all.iter().filter(|target| !target.ignored.is_empty());
    let mut rows: Vec<Row> = ignored
        .map(|target| {
            Row::warning(
                check,
                &target.name,
                target.ignored.join("; "),
                "remove the entry from that inventory, or correct what binds the node to another rack \
                 (docs/security.md)",
            )
        })
        .collect();
    let unbound = all
        .iter()
        .filter(|target| target.host.is_ok() && !target.is_bound);
    let unbound: Vec<String> = unbound.map(|target| target.name.clone()).collect();
    if of_racks.len() > 1 && !unbound.is_empty() {
        rows.push(Row::warning(
            check,
            "nodes",
            format!(
                "{} nodes are bound to no rack, so that the agent of any rack may list them: {}",
                unbound.len(),
                list(&unbound)
            ),
            format!(
                "name the nodes in spec.nodes of their RackAgents, or label them {NODE_RACK_LABEL}=<rack>, or \
                 label their BareMetalHosts rackhand.dev/rack=<rack> (docs/security.md)"
            ),
        ));
    }
    rows
}

/// What agents have found at their hosts: one row for all that are in order, and one for each problem.
pub(super) fn hosts(all: &[HostFacts], targets: &[TargetFacts]) -> Vec<Row> {
    let check = "bmcs";
    let (mut rows, mut fine) = (Vec::new(), 0);
    for host in all {
        let checks = match &host.checks {
            Ok(checks) => checks,
            Err(why) => {
                rows.push(Row::skipped(check, &host.name, why));
                continue;
            }
        };
        let is_compared = is_compared(host, targets);
        let is_bad = |c: &&HostCheck| match c.status {
            Status::Failed => true,
            // Compared with the Node instead.
            Status::Warning => !(is_compared && c.check == "identity"),
            Status::Ok | Status::Skipped => false,
        };
        let bad = checks.iter().filter(is_bad);
        let before = rows.len();
        rows.extend(bad.map(|found| Row {
            check,
            target: host.name.clone(),
            status: found.status,
            message: format!("{}: {}", found.check, found.found),
            remedy: match found.advice.as_str() {
                "" => format!("rackhand-agent host check {}", last(&host.name)),
                advice => advice.to_owned(),
            },
        }));
        let read = checks
            .iter()
            .any(|c| c.check == "credentials" && c.status == Status::Ok);
        if rows.len() == before && read {
            fine += 1;
        } else if rows.len() == before {
            let message = "its agent did not log in to the BMC";
            rows.push(Row::skipped(check, &host.name, message));
        }
    }
    if fine > 0 {
        let message = format!("{fine} BMCs accept the credentials and support power control");
        rows.insert(0, Row::ok(check, "hosts", message));
    }
    rows
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
