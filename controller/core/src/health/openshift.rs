//! OpenShift's MachineHealthCheck (`machine.openshift.io/v1beta1`).
//!
//! Owns what differs from Cluster API's: how machines are counted, what is done about them, and the
//! flow of `external-baremetal` (docs/reference/openshift.md, The check). The verdict is [`judge`]'s. Must never act while
//! the limit forbids it, nor let a machine that is under remediation make room for another one (F10).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{
    Ahead, Check, ClusterFacts, ConditionRule, IntOrPercent, Judgement, Limit, MachineFacts,
    NodeView, Onset, RequestView, Verdict, judge, onsets,
};

/// One check, read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenShiftCheck {
    /// How long a Machine may be without a Node; `None`: for ever.
    pub startup_timeout: Option<Duration>,
    /// Conditions of the Node, OR-combined.
    pub node_conditions: Vec<ConditionRule>,
    /// The limit; `None`: it does not read, and remediation is never allowed.
    pub max_unhealthy: Option<IntOrPercent>,
    /// What is done about an unhealthy machine.
    pub strategy: OpenShiftStrategy,
    /// Carries `cluster.x-k8s.io/paused`: nothing is done at all.
    pub paused: bool,
}

/// What a check does about an unhealthy machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenShiftStrategy {
    /// A request from a template.
    Template,
    /// `machine.openshift.io/remediation-strategy: external-baremetal`: mark the Machine, and have its
    /// host power-cycled.
    ExternalBaremetal,
    /// Delete the Machine; its owner replaces it.
    Delete,
}

/// What a check looks at in a Machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenShiftMachine {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// Phase `Failed`, and why.
    pub failed: Option<String>,
    /// `status.lastUpdated`.
    pub last_updated: Option<Timestamp>,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Has an owner that is its controller.
    pub controlled: bool,
    /// Labelled as part of the control plane.
    pub master: bool,
    /// Carries `host.metal3.io/external-remediation`.
    pub external_remediation: bool,
}

/// One selected Machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenShiftTarget {
    /// The Machine.
    pub machine: OpenShiftMachine,
    /// Its Node.
    pub node: NodeView,
    /// The request of its name, of the template's kind.
    pub request: RequestView,
}

/// One thing to do. Doing it twice is harmless.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OpenShiftAction {
    /// Create the request of this Machine.
    CreateRequest {
        /// Its name.
        machine: String,
        /// Its UID, for the ownerReference.
        uid: String,
    },
    /// Delete the request: the Machine is healthy again.
    DeleteRequest {
        /// Its name.
        machine: String,
    },
    /// A request of that name belongs to another Machine: say so.
    ReportForeignRequest {
        /// Its name.
        machine: String,
        /// Whose it is.
        owner: String,
    },
    /// Put `host.metal3.io/external-remediation` on the Machine.
    MarkExternal {
        /// Its name.
        machine: String,
    },
    /// Delete the Machine.
    DeleteMachine {
        /// Its name.
        machine: String,
        /// The one that was judged.
        uid: String,
    },
    /// Nobody would replace the Machine: say so (Event `SkippedNoController`).
    SkipNoController {
        /// Its name.
        machine: String,
    },
}

/// Everything that follows from one look at the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenShiftPlan {
    /// `expectedMachines`.
    pub expected: u32,
    /// `currentHealthy`.
    pub healthy: u32,
    /// Remediation is allowed.
    pub open: bool,
    /// `remediationsAllowed`.
    pub remediations_allowed: u32,
    /// Empty while open, else the numbers.
    pub message: String,
    /// The verdict on each Machine.
    pub verdicts: BTreeMap<String, Verdict>,
    /// What is said to hold since a time that lies ahead, of the Machines of which there is such a
    /// thing.
    pub ahead: BTreeMap<String, Vec<Ahead>>,
    /// What to do, in the order of the Machines' names.
    pub actions: Vec<OpenShiftAction>,
    /// When to look again although nothing has changed.
    pub wake_at: Option<Timestamp>,
}

/// How far the request of a Machine under `external-baremetal` is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Carried {
    /// There is none.
    None,
    /// It is being carried out.
    Running,
    /// The host was power-cycled and the Node is back.
    Succeeded,
    /// No attempt is left.
    Failed,
    /// It ended before anything was done to the host.
    Aborted,
}

/// Who carries out the mark of `external-baremetal`. OpenShift's own Machine controller for bare metal
/// does so wherever it runs; two would switch one host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MarkCarrier {
    /// Rackhand.
    Rackhand,
    /// OpenShift's own Machine controller.
    OpenShift,
    /// It is not known whether that one runs (why), so nobody is taken to be the one.
    Unknown(String),
}

/// The next step of the flow of `external-baremetal` for one Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExternalStep {
    /// Nothing.
    Nothing,
    /// Ask for the host to be fenced and power-cycled.
    Request,
    /// Take `host.metal3.io/external-remediation` off the Machine. Only then is the request deleted:
    /// the other way round a crash between the two would begin a second power cycle.
    Unmark,
    /// Delete the request: the mark is gone.
    Withdraw,
    /// Delete the Machine, so that its owner has the host provisioned anew.
    DeleteMachine,
    /// A person has to look: the Machine cannot be replaced.
    Blocked,
}

/// The verdict on one machine, in OpenShift's order: failed, no Node, Node gone, conditions.
///
/// The startup timeout runs from `status.lastUpdated`; where a Machine does not say it yet, from now on
/// each time, so that it never ends.
pub fn judge_openshift(
    check: &OpenShiftCheck,
    machine: &OpenShiftMachine,
    node: &NodeView,
    now: Timestamp,
) -> Judgement {
    let (rules, cluster, facts) = asked(check, machine, now);
    judge(&rules, &cluster, &facts, node, now)
}

/// Every cause that the facts lead to in the course of time, for people who ask why: see [`onsets`].
pub fn onsets_openshift(
    check: &OpenShiftCheck,
    machine: &OpenShiftMachine,
    node: &NodeView,
    now: Timestamp,
) -> Vec<Onset> {
    let (rules, cluster, facts) = asked(check, machine, now);
    onsets(&rules, &cluster, &facts, node)
}

/// What [`judge`] is asked about one machine.
fn asked(
    check: &OpenShiftCheck,
    machine: &OpenShiftMachine,
    now: Timestamp,
) -> (Check, ClusterFacts, MachineFacts) {
    let rules = Check {
        startup_timeout: check.startup_timeout,
        node_conditions: check.node_conditions.clone(),
        machine_conditions: Vec::new(),
        limit: Limit::AtMost(IntOrPercent::Percent(100)),
        external: check.strategy == OpenShiftStrategy::Template,
        paused: check.paused,
    };
    // There is no Cluster to wait for.
    let cluster = ClusterFacts {
        paused: false,
        infrastructure_ready: Some(Timestamp::MIN),
        control_plane_initialized: Some(Timestamp::MIN),
    };
    let facts = MachineFacts {
        name: machine.name.clone(),
        uid: machine.uid.clone(),
        created: machine.last_updated.unwrap_or(now),
        deleting: machine.deleting,
        control_plane: machine.master,
        paused: false,
        skip_remediation: false,
        remediate_annotation: false,
        conditions: Vec::new(),
        infrastructure_ready: None,
        failure: machine.failed.clone(),
        health_condition: None,
        owner_remediated: None,
        awaits_owner: false,
    };
    (rules, cluster, facts)
}

/// Whether a machine counts as healthy. Unlike with Cluster API, one that is only coming up does not,
/// nor does one that is marked for external remediation. One whose request is not gone does not either
/// (F10).
pub fn counts_as_healthy(verdict: &Verdict, target: &OpenShiftTarget) -> bool {
    let under_way = matches!(target.request, RequestView::Open | RequestView::Deleting);
    *verdict == Verdict::Healthy && !target.machine.external_remediation && !under_way
}

/// The number of machines that may be unhealthy: a share is rounded down, a negative number is 0.
/// `None`: the limit does not read.
pub fn most_unhealthy(limit: Option<IntOrPercent>, expected: u32) -> Option<u32> {
    limit.map(|limit| u32::try_from(limit.of(expected).max(0)).unwrap_or(u32::MAX))
}

/// Judges the fleet of one check. A paused one is judged, for those who ask why, and nothing is done.
pub fn plan_openshift(
    check: &OpenShiftCheck,
    fleet: &[OpenShiftTarget],
    now: Timestamp,
) -> OpenShiftPlan {
    let by_name: BTreeMap<&str, &OpenShiftTarget> = fleet
        .iter()
        .map(|target| (target.machine.name.as_str(), target))
        .collect();
    let (mut verdicts, mut ahead) = (BTreeMap::new(), BTreeMap::new());
    let mut wake_at: Option<Timestamp> = None;
    let (mut expected, mut healthy) = (0_u32, 0_u32);
    for (name, target) in &by_name {
        let judgement = judge_openshift(check, &target.machine, &target.node, now);
        expected = expected.saturating_add(1);
        if counts_as_healthy(&judgement.verdict, target) {
            healthy = healthy.saturating_add(1);
        }
        wake_at = wake_at.into_iter().chain(judgement.holds_until()).min();
        if !judgement.ahead.is_empty() {
            ahead.insert((*name).to_owned(), judgement.ahead);
        }
        verdicts.insert((*name).to_owned(), judgement.verdict);
    }
    let unhealthy = expected.saturating_sub(healthy);
    let most = most_unhealthy(check.max_unhealthy, expected);
    let open = most.is_some_and(|most| unhealthy <= most);
    let actions = by_name
        .values()
        .zip(verdicts.values())
        .filter(|_| !check.paused)
        .filter_map(|(target, verdict)| openshift_action(check, target, verdict, open))
        .collect();
    OpenShiftPlan {
        expected,
        healthy,
        open,
        remediations_allowed: most.unwrap_or(0).saturating_sub(unhealthy),
        message: match (open, most) {
            (true, _) => String::new(),
            (false, Some(most)) => format!(
                "Remediation is not allowed: {unhealthy} of {expected} machines are not healthy, and \
                 maxUnhealthy is {most}"
            ),
            (false, None) => "Remediation is not allowed: maxUnhealthy does not read".to_owned(),
        },
        verdicts,
        ahead,
        actions,
        wake_at: wake_at.filter(|_| !check.paused),
    }
}

/// What to do about one machine.
pub fn openshift_action(
    check: &OpenShiftCheck,
    target: &OpenShiftTarget,
    verdict: &Verdict,
    open: bool,
) -> Option<OpenShiftAction> {
    let (facts, machine) = (&target.machine, target.machine.name.clone());
    let unhealthy = match verdict {
        Verdict::Unhealthy { .. } => true,
        Verdict::Healthy => false,
        _ => return None,
    };
    let uid = facts.uid.clone();
    match (check.strategy, &target.request) {
        (OpenShiftStrategy::Template, RequestView::Open) if !unhealthy => {
            Some(OpenShiftAction::DeleteRequest { machine })
        }
        _ if !unhealthy || !open => None,
        (OpenShiftStrategy::Template, _) if facts.deleting => None,
        (OpenShiftStrategy::Template, RequestView::None) => {
            Some(OpenShiftAction::CreateRequest { machine, uid })
        }
        (OpenShiftStrategy::Template, RequestView::Foreign { owner }) => {
            let owner = owner.clone();
            Some(OpenShiftAction::ReportForeignRequest { machine, owner })
        }
        (OpenShiftStrategy::Template, RequestView::Open | RequestView::Deleting) => None,
        (OpenShiftStrategy::ExternalBaremetal, _) if facts.failed.is_none() => {
            (!facts.external_remediation).then_some(OpenShiftAction::MarkExternal { machine })
        }
        _ if !facts.controlled => Some(OpenShiftAction::SkipNoController { machine }),
        _ if facts.deleting => None,
        _ => Some(OpenShiftAction::DeleteMachine { machine, uid }),
    }
}

/// Carries the mark of `external-baremetal` through: fence, power cycle, recovery, and the mark away.
///
/// `reprovisionable`: the host is not externally provisioned. A Machine is deleted only as OpenShift's
/// own actuator does it: with a controller that replaces it, and never a master.
pub fn external_step(
    machine: &OpenShiftMachine,
    carried: &Carried,
    reprovisionable: bool,
) -> ExternalStep {
    match (machine.external_remediation, carried) {
        (false, Carried::None) => ExternalStep::Nothing,
        (false, _) => ExternalStep::Withdraw,
        (true, _) if machine.deleting => ExternalStep::Nothing,
        (true, Carried::None) => ExternalStep::Request,
        (true, Carried::Running) => ExternalStep::Nothing,
        (true, Carried::Succeeded) => ExternalStep::Unmark,
        (true, Carried::Failed) if reprovisionable && machine.controlled && !machine.master => {
            ExternalStep::DeleteMachine
        }
        (true, Carried::Failed | Carried::Aborted) => ExternalStep::Blocked,
    }
}

/// Who carries out a mark. `installed`: whether OpenShift's own Machine controllers are in this
/// cluster, or why that cannot be seen; `begun`: the Machine carries what only they write.
pub fn mark_carrier(installed: Result<bool, String>, begun: bool) -> MarkCarrier {
    match installed {
        _ if begun => MarkCarrier::OpenShift,
        Ok(true) => MarkCarrier::OpenShift,
        Ok(false) => MarkCarrier::Rackhand,
        Err(why) => MarkCarrier::Unknown(why),
    }
}

// === impl OpenShiftAction ===

impl OpenShiftAction {
    /// The Machine that it is about.
    pub fn machine(&self) -> &str {
        match self {
            Self::CreateRequest { machine, .. }
            | Self::DeleteRequest { machine }
            | Self::ReportForeignRequest { machine, .. }
            | Self::MarkExternal { machine }
            | Self::DeleteMachine { machine, .. }
            | Self::SkipNoController { machine } => machine,
        }
    }

    /// A short, stable name, for logs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::CreateRequest { .. } => "create_request",
            Self::DeleteRequest { .. } => "delete_request",
            Self::ReportForeignRequest { .. } => "report_foreign_request",
            Self::MarkExternal { .. } => "mark_external",
            Self::DeleteMachine { .. } => "delete_machine",
            Self::SkipNoController { .. } => "skip_no_controller",
        }
    }
}
