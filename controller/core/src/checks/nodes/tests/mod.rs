//! Tests of the health checks of Nodes, and their builders.

mod changed;
mod class;
mod coexistence;
mod delay;
mod escalation;
mod fleet;
mod lease;
mod life;
mod limits;
mod openshift;
mod storm;

use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::values::int_or_percent::IntOrPercent;
use crate::{checks::machines::Condition, fleet::roles::Roles};

/// The roles of a Node of the control plane that kubeadm made.
const PLANE: Roles = Roles {
    etcd: false,
    control_plane: true,
};
/// The roles of a server of RKE2 or k3s that runs etcd and nothing else.
const ETCD: Roles = Roles {
    etcd: true,
    control_plane: false,
};
const MINUTE: Duration = Duration::from_secs(60);

/// A time in seconds after an arbitrary origin.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn template(name: &str) -> Template {
    Template {
        api_version: "x.y/v1".into(),
        remediation_kind: "XRemediation".into(),
        namespace: "ns".into(),
        name: name.into(),
    }
}

/// Ready False or Unknown for 300 s; half of the Nodes may be unhealthy.
fn check() -> Check {
    Check {
        name: "check".into(),
        uid: "check-uid".into(),
        conditions: Check::default_conditions(false),
        limit: Limit::MaxUnhealthy(IntOrPercent::Percent(50)),
        storm_cooldown: None,
        steps: vec![Step {
            template: template("t"),
            timeout: None,
        }],
        delay: Delay::None,
        pauses: vec![],
        startup_timeout: None,
        spares_terminating: false,
    }
}

/// Template `a` for a minute, then `b` for two.
fn escalating() -> Check {
    let step = |name: &str, minutes: u32| Step {
        template: template(name),
        timeout: Some(MINUTE * minutes),
    };
    Check {
        steps: vec![step("a", 1), step("b", 2)],
        ..check()
    }
}

/// A Node whose condition Ready has this status since `since`.
fn node(name: &str, ready: &str, since: Timestamp) -> NodeFacts {
    NodeFacts {
        name: name.into(),
        created: Some(at(-1_000_000)),
        roles: Roles::default(),
        exclusion: Exclusion::None,
        confirmed: false,
        reconfiguring: false,
        conditions: vec![Condition {
            type_: "Ready".into(),
            status: ready.into(),
            reason: String::new(),
            last_transition: Some(since),
        }],
    }
}

fn good(name: &str) -> NodeFacts {
    node(name, "True", at(-10_000))
}

/// A Node with Ready=Unknown since 0: unhealthy after 300 s.
fn bad(name: &str) -> NodeFacts {
    node(name, "Unknown", at(0))
}

/// A remediation of [`check`].
fn remediation(node: &str, template: &str, created: Timestamp) -> NodeRemediation {
    NodeRemediation {
        id: RemediationId {
            api_version: "x.y/v1".into(),
            kind: "XRemediation".into(),
            namespace: "ns".into(),
            name: format!("{node}-{template}"),
        },
        uid: format!("uid-{node}-{template}"),
        node: node.into(),
        template: Some(template.into()),
        owners: vec!["check-uid".into()],
        created,
        deleting: false,
        timed_out: None,
        succeeded: None,
        node_goes: false,
        delayed_since: None,
        told_old: false,
        control_plane: false,
    }
}

/// A cluster with one check and the status of that check.
struct Fixture {
    check: Check,
    nodes: Vec<(NodeFacts, bool)>,
    remediations: Vec<NodeRemediation>,
    outside: Outside,
    memory: NodeCheckStatus,
}

impl Fixture {
    fn new(check: Check, nodes: Vec<NodeFacts>) -> Self {
        Self {
            check,
            nodes: nodes.into_iter().map(|node| (node, true)).collect(),
            remediations: vec![],
            outside: Outside::default(),
            memory: NodeCheckStatus::default(),
        }
    }

    /// Decides, and stores the new status.
    fn decide(&mut self, now: Timestamp) -> Plan {
        let decided = plan(
            &self.check,
            &self.nodes,
            &self.remediations,
            &self.outside,
            &self.memory,
            now,
        );
        self.memory = decided.memory.clone();
        decided
    }

    fn node(&mut self, name: &str) -> &mut NodeFacts {
        let found = self.nodes.iter_mut().find(|(node, _)| node.name == name);
        &mut found.unwrap().0
    }
}

/// A Lease of the check, acquired and renewed at `at`.
fn renewed(at: Timestamp) -> HeldLease {
    HeldLease {
        holder: Some(lease_holder("check")),
        acquired: Some(at),
        renewed: Some(at),
        duration: Duration::from_secs(660),
        transitions: 0,
    }
}

fn created(plan: &Plan) -> Vec<(&str, &str)> {
    let created = plan.actions.iter().filter_map(|action| match action {
        Action::Create { node, step, .. } => Some((node.as_str(), step.template.name.as_str())),
        _ => None,
    });
    created.collect()
}

fn deleted(plan: &Plan) -> Vec<&str> {
    let deleted = plan.actions.iter().filter_map(|action| match action {
        Action::Delete { remediation, .. } => Some(remediation.name.as_str()),
        _ => None,
    });
    deleted.collect()
}

fn timeouts(plan: &Plan) -> Vec<&str> {
    let timeouts_iter = plan.actions.iter().filter_map(|action| match action {
        Action::TimeOut { remediation, .. } => Some(remediation.name.as_str()),
        _ => None,
    });
    timeouts_iter.collect()
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.events.iter().map(|event| event.reason).collect()
}
