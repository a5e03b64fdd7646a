//! One case of the table: a check with its Machines, twice on one API server, once for each controller.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use jiff::{Timestamp, Unit};
use kube::{Api, api::DynamicObject};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    process::Process,
    stage::{LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::{
    super::world::{MARK, PAUSED, POOL, STRATEGY, TEMPLATE, World, condition},
    table::{cases, closed_limit},
};

/// A condition that no part of the control plane writes.
pub const CONDITION: &str = "KernelDeadlock";
/// Keeps a Machine that is being deleted, so that both controllers go on counting it.
const FINALIZER: &str = "test-kit.rackhand.dev/kept";
const EVALUATE: &str = "rackhand.dev/evaluate";
/// Evaluations of an unchanged check that show that OpenShift's controller goes on without an event.
const AGAIN: usize = 20;

/// Who evaluates a check. Each ignores the checks of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evaluator {
    OpenShift,
    Rackhand,
}

impl Evaluator {
    fn annotations(self) -> Value {
        match self {
            Self::OpenShift => json!({}),
            Self::Rackhand => json!({ PAUSED: "", EVALUATE: "true" }),
        }
    }
}

/// The Node of a Machine.
#[derive(Debug, Clone, Copy)]
pub enum NodeState {
    /// The Machine names none.
    Unnamed,
    /// The Machine names one that does not exist.
    Missing,
    /// Its condition has another status than the check names.
    Fine,
    /// Its condition has had the status of the check for so many seconds.
    Failing(i64),
    /// Likewise, and the condition has no time.
    FailingWithoutTime,
}

/// A Machine of a case.
#[derive(Debug, Clone, Copy)]
pub struct MachineState {
    pub node: NodeState,
    pub phase: &'static str,
    /// Seconds since `status.lastUpdated`; `None`: it has no such time.
    pub updated: Option<i64>,
    /// Whether it has a controller.
    pub owned: bool,
    pub marked: bool,
    pub deleted: bool,
    pub master: bool,
}

/// What a check has done with a Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Kept,
    Deleted,
    Marked,
    /// It has a remediation from the template.
    Requested,
}

/// What can be read from the objects after an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub expected: u64,
    pub healthy: u64,
    /// `remediationsAllowed`.
    pub left: u64,
    /// Status of `RemediationAllowed`.
    pub allowed: bool,
    pub machines: Vec<Outcome>,
}

pub struct Case {
    pub name: &'static str,
    /// The fields of the check that differ from those of all cases.
    pub check: Value,
    pub machines: Vec<MachineState>,
    pub judgement: Judgement,
    /// The reasons of the Events about check and Machines, of OpenShift's controller and of Rackhand.
    pub events: [&'static [&'static str]; 2],
}

const BOTH: [Evaluator; 2] = [Evaluator::OpenShift, Evaluator::Rackhand];

/// Checks that both judge every case as the table has it.
pub async fn judged(w: &World) -> Result<()> {
    apply_yaml(&w.stage.client, TEMPLATE).await?;
    let cases = cases();
    let (first, rest) = cases.split_first().context("the table is empty")?;
    // Rackhand lists the Nodes with the first check; until then, it knows of no Machine whether it is healthy.
    reached(w, std::slice::from_ref(first)).await?;
    reached(w, rest).await?;
    // What came late would be seen now.
    for case in &cases {
        for evaluator in BOTH {
            let (judgement, events) = observe(w, case, evaluator).await?;
            compare(case, evaluator, &judgement, &events)?;
        }
    }
    Ok(())
}

/// Creates cases, and waits until both have judged them as the table has it.
async fn reached(w: &World, cases: &[Case]) -> Result<()> {
    let pairs = || {
        let both = |case| BOTH.map(|evaluator| (case, evaluator));
        cases.iter().flat_map(both)
    };
    // A check that is seen before its Nodes has other limits for a moment.
    for (case, evaluator) in pairs() {
        create_machines(w, case, evaluator).await?;
    }
    for (case, evaluator) in pairs() {
        create_check(w, case, evaluator).await?;
    }
    let all = join_all(pairs().map(|(case, evaluator)| settled(w, case, evaluator))).await;
    let failed: Vec<String> = all
        .into_iter()
        .filter_map(Result::err)
        .map(|e| format!("{e:#}"))
        .collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// A check whose limit is exceeded. It comes last, because OpenShift's controller does little else meanwhile.
pub async fn closed(w: &World, process: &Process) -> Result<()> {
    let case = closed_limit();
    reached(w, std::slice::from_ref(&case)).await?;
    let evaluations = || -> Result<usize> {
        let log = std::fs::read_to_string(process.log())?;
        let check = format!(
            "Reconciling {NAMESPACE}/{}: ",
            name(&case, Evaluator::OpenShift)
        );
        Ok(log
            .lines()
            .filter(|line| line.contains(&check) && line.contains("Short-circuiting"))
            .count())
    };
    let before = evaluations()?;
    let what = "OpenShift's controller evaluates the check again and again";
    wait_until(what, LONG, || async {
        let more = evaluations()? - before;
        Ok(if more >= AGAIN {
            Ok(())
        } else {
            Err(format!("{more} times"))
        })
    })
    .await
}

fn name(case: &Case, evaluator: Evaluator) -> String {
    match evaluator {
        Evaluator::OpenShift => format!("theirs-{}", case.name),
        Evaluator::Rackhand => format!("ours-{}", case.name),
    }
}

fn machine_name(check: &str, index: usize) -> String {
    format!("{check}-{index}")
}

fn ago(seconds: i64) -> Result<String> {
    let at = Timestamp::now().round(Unit::Second)? - jiff::SignedDuration::from_secs(seconds);
    Ok(at.to_string())
}

async fn create_machines(w: &World, case: &Case, evaluator: Evaluator) -> Result<()> {
    let check = name(case, evaluator);
    for (index, state) in case.machines.iter().enumerate() {
        create_machine(w, &check, &machine_name(&check, index), *state).await?;
    }
    Ok(())
}

async fn create_check(w: &World, case: &Case, evaluator: Evaluator) -> Result<()> {
    let check = name(case, evaluator);
    let mut spec = json!({
        "unhealthyConditions": [{ "type": CONDITION, "status": "True", "timeout": "1h" }],
    });
    let mut annotations = evaluator.annotations();
    for (field, value) in case.check.as_object().into_iter().flatten() {
        match field.as_str() {
            STRATEGY => annotations[STRATEGY] = value.clone(),
            field => spec[field] = value.clone(),
        }
    }
    w.check(&check, annotations, spec).await
}

async fn create_machine(w: &World, pool: &str, machine: &str, state: MachineState) -> Result<()> {
    let mut status = json!({ "phase": state.phase });
    if let Some(seconds) = state.updated {
        status["lastUpdated"] = ago(seconds)?.into();
    }
    let failing = |since: Option<String>| json!({ "type": CONDITION, "status": "True", "lastTransitionTime": since });
    let condition = match state.node {
        NodeState::Unnamed | NodeState::Missing => None,
        NodeState::Fine => {
            Some(json!({ "type": CONDITION, "status": "False", "lastTransitionTime": ago(3600)? }))
        }
        NodeState::Failing(seconds) => Some(failing(Some(ago(seconds)?))),
        NodeState::FailingWithoutTime => Some(failing(None)),
    };
    if let Some(condition) = condition {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": machine },
            "status": { "conditions": [condition] },
        });
        apply(&w.stage.client, node).await?;
    }
    if !matches!(state.node, NodeState::Unnamed) {
        status["nodeRef"] = json!({ "kind": "Node", "name": machine });
    }
    let mut labels = json!({ POOL: pool });
    if state.master {
        labels["machine.openshift.io/cluster-api-machine-role"] = "master".into();
    }
    let mut metadata = json!({ "labels": labels, "finalizers": [FINALIZER] });
    if state.marked {
        metadata["annotations"] = json!({ MARK: "" });
    }
    if state.owned {
        metadata["ownerReferences"] = w.owner_references().await?;
    }
    w.machine(machine, pool, metadata, status).await?;
    if state.deleted {
        let machines = w.stage.openshift_machines();
        machines.delete(machine, &Default::default()).await?;
    }
    Ok(())
}

/// Reads what a check has come to, and the reasons of the Events about it and its Machines.
async fn observe(
    w: &World,
    case: &Case,
    evaluator: Evaluator,
) -> Result<(Judgement, BTreeSet<String>)> {
    let check = name(case, evaluator);
    let object = w.stage.openshift_checks().get(&check).await?;
    let object = serde_json::to_value(&object)?;
    let status = &object["status"];
    let count = |field: &str| status[field].as_u64().unwrap_or_default();
    let mut judgement = Judgement {
        expected: count("expectedMachines"),
        healthy: count("currentHealthy"),
        left: count("remediationsAllowed"),
        allowed: condition(&object, "RemediationAllowed")["status"] == "True",
        machines: Vec::new(),
    };
    let mut events = reasons(w, &check).await?;
    let remediations: Api<DynamicObject> = w.remediations();
    for (index, state) in case.machines.iter().enumerate() {
        let machine = machine_name(&check, index);
        let now = w.stage.openshift_machines().get(&machine).await?;
        let annotations = now.metadata.annotations.unwrap_or_default();
        judgement.machines.push(
            if now.metadata.deletion_timestamp.is_some() && !state.deleted {
                Outcome::Deleted
            } else if annotations.contains_key(MARK) && !state.marked {
                Outcome::Marked
            } else if case.check.get("remediationTemplate").is_some()
                && remediations.get_opt(&machine).await?.is_some()
            {
                Outcome::Requested
            } else {
                Outcome::Kept
            },
        );
        events.extend(reasons(w, &machine).await?);
    }
    Ok((judgement, events))
}

async fn reasons(w: &World, object: &str) -> Result<BTreeSet<String>> {
    let events = w.stage.events(object).await?;
    let about = |kind: &str| ["Machine", "MachineHealthCheck"].contains(&kind);
    let events = events.into_iter().filter(|event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|r| r.kind.as_deref()).is_some_and(about)
    });
    let reasons = events.filter_map(|event| event.reason);
    // OpenShift's controller writes whole Machines, and tries again after a conflict.
    Ok(reasons
        .filter(|reason| reason != "ExternalAnnotationFailed")
        .collect())
}

fn compare(
    case: &Case,
    evaluator: Evaluator,
    judgement: &Judgement,
    events: &BTreeSet<String>,
) -> Result<()> {
    let wanted = &case.judgement;
    let reasons = match evaluator {
        Evaluator::OpenShift => case.events[0],
        Evaluator::Rackhand => case.events[1],
    };
    let reasons: BTreeSet<String> = reasons.iter().map(|&r| r.to_owned()).collect();
    let what = format!("{}, {evaluator:?}", case.name);
    ensure!(
        judgement == wanted,
        "{what}: {judgement:?} instead of {wanted:?}"
    );
    ensure!(
        *events == reasons,
        "{what}: Events {events:?} instead of {reasons:?}"
    );
    Ok(())
}

/// Waits until a check has come to what the table has.
async fn settled(w: &World, case: &Case, evaluator: Evaluator) -> Result<()> {
    wait_until(&name(case, evaluator), LONG, || async {
        let (judgement, events) = observe(w, case, evaluator).await?;
        let compared = compare(case, evaluator, &judgement, &events);
        Ok(compared.map_err(|error| error.to_string()))
    })
    .await
}
