//! The fleet of one check, of any kind, and what the check wants for its members.
//!
//! Must never decide: [`crate::checks::machines::Fleet`] and [`crate::checks::nodes::Fleet`] do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{Member, MemberFacts};
use crate::{
    checks::machines::{
        self, Action, MachineRemediation, OpenShiftAction, OpenShiftCheck, Target, Verdict,
    },
    checks::nodes::{self, NodeCheckStatus, NodeRemediation, Outside, RemediationId, Step},
};

/// What a check wants for a member now.
#[derive(Debug)]
pub(super) enum Wanted {
    /// The remediation of the member.
    Create { member: Member, causes: Vec<String> },
    /// Its replacement by the owner.
    HandOver { member: Member, causes: Vec<String> },
    /// The end of its remediation, because it is healthy.
    Withdraw { member: Member },
    /// The end of its remediation, because that took too long.
    TimeOut { member: Member },
}

/// The fleet of one check.
pub(super) enum CheckFleet {
    Machines(Box<machines::Fleet>),
    OpenShift(Box<machines::Fleet<OpenShiftCheck>>),
    Nodes(Box<NodeFleet>),
}

/// The fleet of a NodeHealthCheck, with what its status and its remediations would contain.
pub(super) struct NodeFleet {
    fleet: nodes::Fleet,
    nodes: BTreeMap<String, Arc<nodes::NodeFacts>>,
    status: NodeCheckStatus,
    /// The remediations of each Node, which the fleet knows.
    remediations: BTreeMap<String, Vec<NodeRemediation>>,
    /// The steps for which a remediation is wanted.
    steps: BTreeMap<String, Step>,
    /// Why the limit holds an unhealthy Node.
    closed: Option<String>,
    wake_at: Option<Timestamp>,
    created: u64,
}

impl Wanted {
    pub(super) fn member(&self) -> &Member {
        match self {
            Self::Create { member, .. }
            | Self::HandOver { member, .. }
            | Self::Withdraw { member }
            | Self::TimeOut { member } => member,
        }
    }
}

impl NodeFleet {
    pub(super) fn new(check: nodes::Check, now: Timestamp) -> Self {
        Self {
            fleet: nodes::Fleet::new(check, now),
            nodes: BTreeMap::new(),
            status: NodeCheckStatus::default(),
            remediations: BTreeMap::new(),
            steps: BTreeMap::new(),
            closed: None,
            wake_at: None,
            created: 0,
        }
    }

    fn wanted(&mut self, now: Timestamp) -> Vec<Wanted> {
        let plan = self.fleet.decide(&Outside::default(), &self.status, now);
        self.status = plan.memory;
        self.wake_at = plan.wake_at;
        self.closed = plan.closed.filter(|_| !plan.skipped.is_empty());
        let mut wanted = Vec::new();
        for action in plan.actions {
            let member = action.node().to_owned();
            match action {
                nodes::Action::Create { step, .. } => {
                    let causes = self.causes(&member, now);
                    self.steps.insert(member.clone(), step);
                    wanted.push(Wanted::Create { member, causes });
                }
                nodes::Action::Delete { remediation, .. } => {
                    self.remove_remediation(&member, &remediation);
                    wanted.push(Wanted::Withdraw { member });
                }
                nodes::Action::Delay {
                    remediation, since, ..
                } => {
                    self.change(&member, &remediation, |r| r.delayed_since = since);
                }
                nodes::Action::TimeOut {
                    remediation, at, ..
                } => {
                    self.change(&member, &remediation, |r| r.timed_out = Some(at));
                    wanted.push(Wanted::TimeOut { member });
                }
                nodes::Action::TellOld { remediation, .. } => {
                    self.change(&member, &remediation, |r| r.told_old = true);
                }
                nodes::Action::RenewLease { .. }
                | nodes::Action::ReleaseLease { .. }
                | nodes::Action::Unconfirm { .. } => {}
            }
        }
        wanted
    }

    fn causes(&self, node: &str, now: Timestamp) -> Vec<String> {
        let facts = self.nodes.get(node);
        match facts.map(|facts| nodes::classify(self.fleet.check(), facts, now)) {
            Some(nodes::Class::Matching(cause)) => vec![cause.to_string()],
            _ => Vec::new(),
        }
    }

    fn change(
        &mut self,
        node: &str,
        id: &RemediationId,
        change: impl FnOnce(&mut NodeRemediation),
    ) {
        let remediations = self.remediations.get_mut(node);
        let found = remediations.and_then(|all| all.iter_mut().find(|r| r.id == *id));
        if let Some(remediation) = found {
            change(remediation);
            self.fleet.put_remediation(remediation.clone());
        }
    }

    fn remove_remediation(&mut self, node: &str, id: &RemediationId) {
        self.fleet.remove_remediation(id);
        if let Some(remediations) = self.remediations.get_mut(node) {
            remediations.retain(|remediation| remediation.id != *id);
        }
    }

    /// The remediation that was wanted exists.
    fn created(&mut self, node: &str, now: Timestamp) {
        let Some(step) = self.steps.remove(node) else {
            return;
        };
        self.created += 1;
        let uid = format!("rehearsed-{}", self.created);
        let remediation = NodeRemediation {
            id: RemediationId {
                api_version: step.template.api_version,
                kind: step.template.remediation_kind,
                namespace: step.template.namespace,
                name: format!("{node}-{}", self.created),
            },
            uid,
            node: node.to_owned(),
            template: Some(step.template.name),
            owners: vec![self.fleet.check().uid.clone()],
            created: now,
            deleting: false,
            timed_out: None,
            succeeded: None,
            node_goes: false,
            delayed_since: None,
            told_old: false,
            control_plane: false,
        };
        self.fleet.put_remediation(remediation.clone());
        self.remediations
            .entry(node.to_owned())
            .or_default()
            .push(remediation);
    }
}

/// What an action of a check of Machines is for a rehearsal.
enum MachineAction {
    Create,
    HandOver,
    Withdraw,
}

fn of_cluster_api(action: &Action) -> Option<MachineAction> {
    match action {
        Action::CreateRemediation { .. } => Some(MachineAction::Create),
        Action::MarkOwnerRemediated { .. } => Some(MachineAction::HandOver),
        Action::DeleteRemediation { .. } => Some(MachineAction::Withdraw),
        Action::UnmarkOwnerRemediated { .. } | Action::ReportForeignRemediation { .. } => None,
    }
}

/// A mark for external remediation leads to a remediation. A Machine that is deleted is replaced by its owner.
fn of_openshift(action: &OpenShiftAction) -> Option<MachineAction> {
    match action {
        OpenShiftAction::CreateRemediation { .. } | OpenShiftAction::MarkExternal { .. } => {
            Some(MachineAction::Create)
        }
        OpenShiftAction::DeleteMachine { .. } => Some(MachineAction::HandOver),
        OpenShiftAction::DeleteRemediation { .. } => Some(MachineAction::Withdraw),
        OpenShiftAction::ReportForeignRemediation { .. }
        | OpenShiftAction::SkipNoController { .. } => None,
    }
}

/// What a check of Machines wants. `remediated` are the members with a remediation.
fn machines_wanted<P: machines::DialectRules>(
    fleet: &mut machines::Fleet<P>,
    remediated: &BTreeSet<String>,
    convert: impl Fn(&P::Action) -> Option<MachineAction>,
    now: Timestamp,
) -> Vec<Wanted> {
    fleet.advance(now);
    let mut members = remediated.clone();
    members.extend(fleet.unhealthy().map(ToString::to_string));
    let mut wanted = Vec::new();
    for member in members {
        let Some(due) = fleet.wanted(&member) else {
            continue;
        };
        // The remediation of a mark is not withdrawn by an action: it ends by itself when the Node is healthy.
        let is_over = *due.verdict == Verdict::Healthy && remediated.contains(&member);
        let action = match due.action.as_ref().and_then(&convert) {
            None if is_over => Some(MachineAction::Withdraw),
            action => action,
        };
        let causes = match due.verdict {
            Verdict::Unhealthy { causes } => causes.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        wanted.extend(action.map(|action| match action {
            MachineAction::Create => Wanted::Create { member, causes },
            MachineAction::HandOver => Wanted::HandOver { member, causes },
            MachineAction::Withdraw => Wanted::Withdraw { member },
        }));
    }
    wanted
}

fn put_machine<P: machines::DialectRules>(
    fleet: &mut machines::Fleet<P>,
    machine: P::Machine,
    node: machines::NodeView,
    has_remediation: bool,
    now: Timestamp,
) {
    let remediation = match has_remediation {
        true => MachineRemediation::Open,
        false => MachineRemediation::None,
    };
    let target = Target {
        machine,
        node,
        remediation,
    };
    fleet.put(target, now);
}

/// Why the limit of a check of Machines holds an unhealthy member, if it does.
fn machine_limit<P: machines::DialectRules>(fleet: &machines::Fleet<P>) -> Option<String> {
    let gate = fleet.gate();
    (!gate.open && fleet.tally().unhealthy > 0).then_some(gate.message)
}

impl CheckFleet {
    /// Adds a member or replaces its facts.
    pub(super) fn put(&mut self, facts: MemberFacts, has_remediation: bool, now: Timestamp) {
        match (self, facts) {
            (Self::Machines(fleet), MemberFacts::Machine { machine, node }) => {
                put_machine(fleet, machine, node, has_remediation, now);
            }
            (Self::OpenShift(fleet), MemberFacts::OpenShift { machine, node }) => {
                put_machine(fleet, machine, node, has_remediation, now);
            }
            (Self::Nodes(nodes), MemberFacts::Node(node)) => {
                let node = Arc::new(node);
                nodes.nodes.insert(node.name.clone(), node.clone());
                nodes.fleet.put_node(node, true, now);
            }
            // A check has members of its own kind only.
            (Self::Machines(_) | Self::OpenShift(_) | Self::Nodes(_), _) => {}
        }
    }

    pub(super) fn remove(&mut self, member: &str, now: Timestamp) {
        match self {
            Self::Machines(fleet) => fleet.remove(member, now),
            Self::OpenShift(fleet) => fleet.remove(member, now),
            Self::Nodes(nodes) => {
                nodes.nodes.remove(member);
                nodes.fleet.remove_node(member, now);
            }
        }
    }

    /// What the check wants. `remediated` are the members with a remediation.
    pub(super) fn wanted(&mut self, remediated: &BTreeSet<String>, now: Timestamp) -> Vec<Wanted> {
        match self {
            Self::Machines(fleet) => machines_wanted(fleet, remediated, of_cluster_api, now),
            Self::OpenShift(fleet) => machines_wanted(fleet, remediated, of_openshift, now),
            Self::Nodes(nodes) => nodes.wanted(now),
        }
    }

    /// A remediation that the check wanted exists from now on.
    pub(super) fn created(&mut self, member: &str, now: Timestamp) {
        match self {
            Self::Machines(fleet) => fleet.set_remediation(member, MachineRemediation::Open, now),
            Self::OpenShift(fleet) => fleet.set_remediation(member, MachineRemediation::Open, now),
            Self::Nodes(nodes) => nodes.created(member, now),
        }
    }

    /// The remediation of a member is over.
    pub(super) fn ended(&mut self, member: &str, now: Timestamp) {
        match self {
            Self::Machines(fleet) => fleet.set_remediation(member, MachineRemediation::None, now),
            Self::OpenShift(fleet) => fleet.set_remediation(member, MachineRemediation::None, now),
            // A NodeHealthCheck deletes the remediation itself, once the Node is healthy.
            Self::Nodes(_) => {}
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        match self {
            Self::Machines(fleet) => fleet.next_deadline(),
            Self::OpenShift(fleet) => fleet.next_deadline(),
            Self::Nodes(nodes) => {
                let all = [nodes.wake_at, nodes.fleet.next_deadline()];
                all.into_iter().flatten().min()
            }
        }
    }

    /// Why the limit holds an unhealthy member, if it does.
    pub(super) fn limit(&self) -> Option<String> {
        match self {
            Self::Machines(fleet) => machine_limit(fleet),
            Self::OpenShift(fleet) => machine_limit(fleet),
            Self::Nodes(nodes) => nodes.closed.clone(),
        }
    }
}
