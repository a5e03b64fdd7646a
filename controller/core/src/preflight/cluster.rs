//! Rules about clusters: the leader, versions, kinds, rights, Leases of Nodes, clocks.

use jiff::SignedDuration;

use super::{
    ClockFacts, ClusterFacts, Facts, KindFacts, LeaderFacts, Need, RightFacts, RightsFacts, Row,
    facts::CheckKind,
};
use crate::fleet::roles::Roles;

/// The version since which the out-of-service taint is general.
const TAINT_SINCE: (u32, u32) = (1, 28);

pub(super) fn leader(facts: &LeaderFacts, installed: bool) -> Row {
    let check = "leader";
    let target = &facts.lease;
    match &facts.holder {
        Err(why) => Row::failed(
            check,
            target,
            why,
            "grant `get` of this Lease to whoever runs this command",
        ),
        Ok(_) if !installed => Row::skipped(check, target, "Rackhand is not installed yet"),
        Ok(None) => Row::failed(
            check,
            target,
            "no controller leads",
            "look at the Pods of the controller: kubectl --namespace rackhand-system get pods; with \
             another namespace or name of the Lease use --lease-namespace and --lease-name",
        ),
        Ok(Some((holder, age))) if *age > facts.duration => Row::failed(
            check,
            target,
            format!(
                "{holder} renewed the Lease {} s ago, and it lasts {} s",
                age.as_secs(),
                facts.duration.as_secs()
            ),
            "look at the log of the controller",
        ),
        Ok(Some((holder, _))) => Row::ok(check, target, format!("{holder} leads")),
    }
}

/// Reachability, version and Leases of a cluster.
pub(super) fn cluster(facts: &ClusterFacts) -> Vec<Row> {
    let check = "cluster";
    let (major, minor) = match &facts.version {
        Ok(version) => version,
        Err(why) => {
            return vec![Row::failed(
                check,
                &facts.name,
                format!("its API server cannot be reached: {why}"),
                "see that its kubeconfig Secret (<cluster>-kubeconfig, key value) is there and valid, \
                 and that its API server can be reached from here",
            )];
        }
    };
    let text = format!("Kubernetes {major}.{minor}");
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    let version = match number(major).zip(number(minor)) {
        None => Row::warning(
            check,
            &facts.name,
            format!("{text}, which is no version of Kubernetes that can be compared"),
            "see that it is 1.28 or newer; else start the controller with --node-action=delete-node",
        ),
        Some(version) if version < TAINT_SINCE => Row::warning(
            check,
            &facts.name,
            format!(
                "{text}: the out-of-service taint is general since 1.28; Nodes are deleted instead"
            ),
            "upgrade the cluster, or let the controller delete Nodes there: kubectl apply -k \
             deploy/kustomize/workload-delete-node",
        ),
        Some(_) => Row::ok(check, &facts.name, text),
    };
    let mut rows = vec![version];
    if let Some(nodes) = &facts.nodes {
        rows.push(leases(&facts.name, nodes));
        let nodes = nodes.as_ref().ok();
        rows.extend(nodes.and_then(|nodes| quorum(&facts.name, &nodes.roles)));
    }
    rows
}

/// Whether a member of etcd can be remediated at all (F6); `None` if no Node has a role, as where a provider runs
/// the control plane.
fn quorum(name: &str, roles: &[Roles]) -> Option<Row> {
    let check = "etcd-quorum";
    let shows_etcd = roles.iter().any(|roles| roles.etcd);
    let members = roles.iter().filter(|roles| roles.is_member(shows_etcd));
    let members = members.count();
    let role = match shows_etcd {
        true => "etcd",
        false => "the control plane",
    };
    match members {
        0 => None,
        1 | 2 => Some(Row::warning(
            check,
            name,
            format!(
                "{members} members of etcd, by the role of {role}: it has no majority without one of them, so \
                 that none is remediated (ControlPlaneQuorum)"
            ),
            "where nothing can be lost, because there is no etcd or a single member, a person can overrule that \
             for one remediation: docs/runbook.md, Overruling the quorum",
        )),
        _ => Some(Row::ok(
            check,
            name,
            format!(
                "{members} members of etcd, by the role of {role}: it keeps its majority without one of them"
            ),
        )),
    }
}

fn leases(name: &str, nodes: &Result<super::NodesFacts, String>) -> Row {
    let check = "node-leases";
    let rights = "kubectl apply -k deploy/kustomize/workload in this cluster, and use its account in \
                  the kubeconfig; in the management cluster deploy/kustomize/nodes";
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(why) => {
            let message = format!("its Nodes cannot be listed: {why}");
            return Row::failed(check, name, message, rights);
        }
    };
    match &nodes.without_lease {
        Err(why) => Row::skipped(
            check,
            name,
            format!("the Leases in kube-node-lease cannot be listed from here: {why}"),
        ),
        Ok(without) if without.is_empty() => Row::ok(
            check,
            name,
            format!(
                "{} Nodes, each with a Lease in kube-node-lease",
                nodes.count
            ),
        ),
        Ok(without) => Row::warning(
            check,
            name,
            format!(
                "Nodes without a Lease in kube-node-lease: {}",
                list(without)
            ),
            "start the kubelets of these Nodes with Leases enabled: a Lease shows that a host which was \
             switched off is the right one",
        ),
    }
}

/// At most ten names.
pub(super) fn list(names: &[String]) -> String {
    let more = names.len().saturating_sub(10);
    let shown: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(super) fn kinds(all: &[KindFacts]) -> Vec<Row> {
    let is_check =
        |kind: &&KindFacts| matches!(kind.kind, "MachineHealthCheck" | "NodeHealthCheck");
    let mut rows: Vec<Row> = all.iter().map(kind).collect();
    let mut checks = all.iter().filter(is_check);
    if checks.all(|kind| matches!(kind.served, Ok(None))) {
        rows.push(Row::warning(
            "kinds",
            "health checks",
            "no kind of health check is served: nothing detects a failed node",
            "install Cluster API, OpenShift's or medik8s' kinds, or those of Rackhand \
             (deploy/crds/standalone, deploy/crds/nodes)",
        ));
    }
    rows
}

fn kind(facts: &KindFacts) -> Row {
    let check = "kinds";
    let target = format!("{}.{}", facts.kind, facts.group);
    let served = match &facts.served {
        Ok(served) => served,
        Err(why) => {
            return Row::failed(
                check,
                target,
                format!("the API server does not say whether it is served: {why}"),
                "see that the API server answers: kubectl api-resources",
            );
        }
    };
    if let Some(version) = served {
        if facts.readable.contains(&version.as_str()) {
            return Row::ok(check, target, format!("served as {version}"));
        }
        return Row::failed(
            check,
            target,
            format!(
                "served as {version}, and Rackhand reads {}",
                facts.readable.join(", ")
            ),
            "install a version of Rackhand that reads it, or serve the older version of the kind as well",
        );
    }
    if facts.own {
        return Row::failed(
            check,
            target,
            "its CRD is not installed",
            "kubectl apply --server-side -k deploy/crds, or install the Helm chart",
        );
    }
    Row::skipped(check, target, "not installed")
}

pub(super) fn rights(facts: &RightsFacts, all: &Facts, installed: bool) -> Vec<Row> {
    let check = "rights";
    if !installed {
        return vec![Row::skipped(
            check,
            &facts.account,
            "Rackhand is not installed yet",
        )];
    }
    if let Some(why) = &facts.skipped {
        return vec![Row::skipped(check, &facts.account, why)];
    }
    let of_nodes = all.evaluates(CheckKind::Medik8s);
    let of_openshift = all.evaluates(CheckKind::OpenShift);
    let is_needed = |need: Need| match need {
        Need::Always | Need::InNamespaces => true,
        Need::NodesOfThisCluster => of_nodes || of_openshift,
        Need::NodeHealthChecks => of_nodes,
        Need::OpenShift => of_openshift,
    };
    let needed: Vec<&RightFacts> = facts
        .rights
        .iter()
        .filter(|fact| is_needed(fact.right.role.need()))
        .collect();
    let mut rows: Vec<Row> = needed
        .iter()
        .filter_map(|fact| right(fact, &facts.account))
        .collect();
    if rows.is_empty() {
        let message = format!("all {} rights that it needs are granted", needed.len());
        rows.push(Row::ok(check, &facts.account, message));
    }
    rows
}

/// A right that is not granted.
fn right(fact: &RightFacts, account: &str) -> Option<Row> {
    let right = &fact.right;
    let what = match right.group {
        "" => right.resource.to_owned(),
        group => format!("{}.{group}", right.resource),
    };
    let place = fact.namespace.as_deref();
    let place = place.map(|namespace| format!(" in namespace {namespace}"));
    let what = format!(
        "{} of {what}{}",
        right.verbs.join(", "),
        place.unwrap_or_default()
    );
    match &fact.granted {
        Ok(true) => None,
        Ok(false) => Some(Row::failed(
            "rights",
            account,
            format!("{what} is not granted (role {})", right.role.name()),
            right.role.remedy(fact.namespace.as_deref(), account),
        )),
        Err(why) => Some(Row::warning(
            "rights",
            account,
            format!("the API server does not say whether {what} is granted: {why}"),
            "run the command again",
        )),
    }
}

/// A difference that is reported.
const CLOCK_WARNING: SignedDuration = SignedDuration::from_secs(5);
/// A difference that makes times useless.
const CLOCK_FAILED: SignedDuration = SignedDuration::from_secs(60);

pub(super) fn clocks(all: &[ClockFacts]) -> Vec<Row> {
    all.iter().map(clock).collect()
}

fn clock(facts: &ClockFacts) -> Row {
    let check = "clocks";
    let (ahead, exact) = match &facts.ahead {
        Ok(ahead) => *ahead,
        Err(why) => return Row::skipped(check, &facts.name, why),
    };
    // What the measurement itself may be wrong by counts for the clock.
    let off = (ahead.abs() - exact).max(SignedDuration::ZERO);
    let side = if ahead.is_negative() {
        "behind"
    } else {
        "ahead of"
    };
    let message = format!("{} s {side} this machine", ahead.abs().as_secs());
    let remedy = if facts.judges {
        "synchronise the clocks (NTP): health checks compare times of the API server with the \
         controller's clock, so that their timeouts are wrong by the difference"
    } else {
        "synchronise the clocks (NTP): certificates are refused, and logs cannot be compared"
    };
    if off <= CLOCK_WARNING {
        let message = format!(
            "agrees with this machine within {} s",
            (off + exact).as_secs().max(1)
        );
        return Row::ok(check, &facts.name, message);
    }
    if off > CLOCK_FAILED {
        Row::failed(check, &facts.name, message, remedy)
    } else {
        Row::warning(check, &facts.name, message, remedy)
    }
}
