//! The cases that both controllers judge.

use serde_json::{Value, json};

use super::{
    super::world::STRATEGY,
    case::{Case, Judgement, MachineState, NodeState, Outcome},
};

use NodeState::{Failing, FailingWithoutTime, Fine, Missing, Unnamed};
use Outcome::{Deleted, Kept, Marked, Requested};

/// Seconds that are longer than every timeout of the table, which is an hour, and shorter.
const LATE: i64 = 7200;
const EARLY: i64 = 5;

/// Reasons of Events. OpenShift's controller reports a Machine as unhealthy while its timeout runs, and Rackhand
/// once it is over.
const DETECTED: &str = "DetectedUnhealthy";
const DELETED: &str = "MachineDeleted";
const SKIPPED: &str = "SkippedNoController";
const ANNOTATED: &str = "ExternalAnnotationAdded";
const RESTRICTED: &str = "RemediationRestricted";

const RUNNING: MachineState = MachineState {
    node: Fine,
    phase: "Running",
    updated: Some(LATE),
    owned: true,
    marked: false,
    deleted: false,
    master: false,
};

const fn with(node: NodeState) -> MachineState {
    MachineState { node, ..RUNNING }
}

/// A check with one Machine and the default limit. The Events are those of a verdict without a timeout.
fn one(
    name: &'static str,
    check: Value,
    state: MachineState,
    healthy: bool,
    outcome: Outcome,
) -> Case {
    let healthy = u64::from(healthy);
    Case {
        name,
        check,
        machines: vec![state],
        judgement: Judgement {
            expected: 1,
            healthy,
            left: healthy,
            allowed: true,
            machines: vec![outcome],
        },
        events: match outcome {
            Kept | Requested => [&[], &[]],
            Deleted => [&[DELETED], &[DELETED, DETECTED]],
            Marked => [&[ANNOTATED], &[ANNOTATED, DETECTED]],
        },
    }
}

impl Case {
    fn events(mut self, theirs: &'static [&'static str], ours: &'static [&'static str]) -> Self {
        self.events = [theirs, ours];
        self
    }
}

pub fn cases() -> Vec<Case> {
    let template = |name: &str| {
        json!({ "remediationTemplate": {
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate", "name": name,
        }})
    };
    let external = || json!({ STRATEGY: "external-baremetal" });
    let starting = |updated| MachineState {
        updated,
        phase: "Provisioned",
        ..with(Unnamed)
    };
    let orphan = |node| MachineState {
        owned: false,
        ..with(node)
    };
    let failed = MachineState {
        phase: "Failed",
        ..RUNNING
    };
    let master = MachineState {
        master: true,
        ..with(Failing(LATE))
    };
    let deleted = MachineState {
        deleted: true,
        ..RUNNING
    };
    let marked = MachineState {
        marked: true,
        ..orphan(Fine)
    };
    let unlimited = json!({ "nodeStartupTimeout": "0" });
    vec![
        one("healthy", json!({}), RUNNING, true, Kept),
        one("late", json!({}), with(Failing(LATE)), false, Deleted),
        one("early", json!({}), with(Failing(EARLY)), false, Kept).events(&[DETECTED], &[]),
        one("future", json!({}), with(Failing(-LATE)), false, Kept)
            .events(&[DETECTED], &["ConditionInFuture"]),
        one(
            "without-time",
            json!({}),
            with(FailingWithoutTime),
            false,
            Deleted,
        ),
        one("orphan", json!({}), orphan(Failing(LATE)), false, Kept)
            .events(&[SKIPPED], &[SKIPPED, DETECTED]),
        one("master", json!({}), master, false, Deleted),
        one("failed", json!({}), failed, false, Deleted),
        one("node-missing", json!({}), with(Missing), false, Deleted),
        one(
            "never-started",
            json!({}),
            starting(Some(LATE)),
            false,
            Deleted,
        ),
        one("starting", json!({}), starting(Some(EARLY)), false, Kept).events(&[DETECTED], &[]),
        one(
            "starting-without-time",
            json!({}),
            starting(None),
            false,
            Kept,
        )
        .events(&[DETECTED], &[]),
        one(
            "startup-unlimited",
            unlimited,
            starting(Some(LATE)),
            false,
            Kept,
        ),
        one("deleted", json!({}), deleted, false, Kept),
        one("marked", external(), marked, false, Kept),
        one("to-mark", external(), orphan(Failing(LATE)), false, Marked),
        one("failed-to-mark", external(), failed, false, Deleted),
        one(
            "template",
            template("reboot"),
            orphan(Failing(LATE)),
            false,
            Requested,
        )
        .events(&[], &[DETECTED]),
        one(
            "template-missing",
            template("none"),
            orphan(Failing(LATE)),
            false,
            Kept,
        )
        .events(&[], &[DETECTED, "RemediationTemplateNotFound"]),
        several(
            "limit-reached",
            "50%",
            [2, 1],
            &[(with(Failing(LATE)), Deleted), (RUNNING, Kept)],
        )
        .events(&[DELETED], &[DELETED, DETECTED]),
        several(
            "limit-as-text",
            "2",
            [3, 1],
            &[
                (with(Failing(LATE)), Deleted),
                (with(Failing(EARLY)), Kept),
                (RUNNING, Kept),
            ],
        )
        .events(&[DELETED, DETECTED], &[DELETED, DETECTED]),
    ]
}

/// A check whose limit leaves no further remediation: `maxUnhealthy`, and how many Machines there are and are healthy.
fn several(
    name: &'static str,
    limit: &str,
    [expected, healthy]: [u64; 2],
    machines: &[(MachineState, Outcome)],
) -> Case {
    let (machines, outcomes) = machines.iter().copied().unzip();
    Case {
        name,
        check: json!({ "maxUnhealthy": limit }),
        machines,
        judgement: Judgement {
            expected,
            healthy,
            left: 0,
            allowed: true,
            machines: outcomes,
        },
        events: [&[], &[]],
    }
}

/// 40 % of 2 is 0.
pub fn closed_limit() -> Case {
    let machines = [(with(Failing(LATE)), Kept), (RUNNING, Kept)];
    let mut case = several("limit-exceeded", "40%", [2, 1], &machines)
        .events(&[RESTRICTED], &[RESTRICTED, DETECTED]);
    case.judgement.allowed = false;
    case
}
