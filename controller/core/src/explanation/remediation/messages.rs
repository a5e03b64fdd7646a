//! Sentences of the view of a remediation.

use jiff::Timestamp;

use crate::{
    explanation::evidence::evidence_lines,
    remediation::{
        Command, DrainPolicy, OffEvidence, OnExhausted, Policy, PowerDevice, RemediationOutcome,
        State, Step, Strategy, UnreachablePolicy,
    },
    values::duration::time_span,
};

/// What a command does.
pub(super) fn command_message(command: &Command) -> String {
    match command {
        Command::AddFinalizer => "adds its finalizer to the object".into(),
        Command::RemoveFinalizer(outcome) => {
            format!(
                "removes its finalizer from the object: {}",
                outcome_message(*outcome)
            )
        }
        Command::AddHold => "sets its hold key on the BareMetalHost".into(),
        Command::RenewHold => {
            "changes the value of its hold key, so that baremetal-operator looks at the host".into()
        }
        Command::RemoveHold => "removes its hold key from the BareMetalHost".into(),
        Command::RemoveOrphanedHolds { .. } => {
            "removes hold keys of remediations that are gone from the BareMetalHost".into()
        }
        Command::EndMachineRequest => {
            "removes the annotation cluster.x-k8s.io/remediate-machine from the Machine".into()
        }
        Command::BlockMove => {
            "makes clusterctl wait before it moves this object or the host".into()
        }
        Command::UnblockMove => "lets clusterctl move this object and the host".into(),
        Command::UnblockHost => "lets clusterctl move the host".into(),
        Command::SoftOff { id, .. } => {
            format!("requests a soft off from the agent (operation {id})")
        }
        Command::PowerOff { id, device, .. } => {
            let by = by_device(*device);
            format!("requests a power-off{by} from the agent (operation {id})")
        }
        Command::PowerOn { id, device } => {
            let by = by_device(*device);
            format!("requests a power-on{by} from the agent (operation {id})")
        }
        Command::Cancel { id } => format!("cancels operation {id} at the agent"),
        Command::CollectEvidence { interrupt, .. } => {
            let first = match interrupt {
                Some(_) => "sends a diagnostic interrupt, then ",
                None => "",
            };
            format!("{first}reads the event log, the boot state and the sensors from the BMC")
        }
        Command::CollectBootLog => "reads what the event log recorded while the host booted".into(),
        Command::ReadUpdates => "reads from the BMC whether firmware is being updated".into(),
        Command::ReadPower => "reads the power state from the BMC".into(),
        Command::Release => "releases the hold at the agent".into(),
        Command::AddTaint => "adds the out-of-service taint to the node".into(),
        Command::RemoveTaint => "removes the out-of-service taint from the node".into(),
        Command::Cordon { .. } => "cordons the node".into(),
        Command::Uncordon { .. } => "uncordons the node".into(),
        Command::EvictPods { pods, .. } => {
            let names: Vec<String> = pods.iter().map(ToString::to_string).collect();
            format!("evicts pods of the node: {}", names.join(", "))
        }
        Command::DeletePods { pods, .. } => {
            let names: Vec<String> = pods.iter().map(ToString::to_string).collect();
            format!("deletes pods of the host that is off: {}", names.join(", "))
        }
        Command::BackUpNode => "saves the node's labels and annotations".into(),
        Command::DeleteNode { uid } => format!("deletes the node (UID {uid})"),
        Command::RestoreNode => "restores the labels and annotations of the node".into(),
        Command::Escalate { retire: false } => "hands the Machine to its owner".into(),
        Command::Escalate { retire: true } => {
            "hands the Machine to its owner and marks the BareMetalHost unhealthy".into()
        }
    }
}

fn by_device(device: PowerDevice) -> &'static str {
    match device {
        PowerDevice::Bmc => "",
        PowerDevice::Outlets => " by the outlets of its PDUs",
    }
}

pub(super) fn outcome_message(outcome: RemediationOutcome) -> &'static str {
    match outcome {
        RemediationOutcome::Succeeded => "finished: the node is back",
        RemediationOutcome::Escalated => {
            "finished without success: it is up to the owner of its Machine, or to a person where it has none"
        }
        RemediationOutcome::Failed => "finished without success",
        RemediationOutcome::Withdrawn => "finished: the remediation was withdrawn",
    }
}

/// What a write of the state changes.
pub(super) fn transition_message(before: Option<&State>, after: &State) -> String {
    match before {
        Some(before) if before.step == after.step => {
            format!(
                "records what it observed and stays in {}",
                after.step.label()
            )
        }
        _ => format!("goes to {}", after.step.label()),
    }
}

pub(super) fn strategy(policy: Option<&Policy>) -> String {
    let Some(policy) = policy else {
        return "the spec is not valid".into();
    };
    let strategy = match policy.strategy {
        Strategy::Reboot => "Reboot: off, move the workload, on",
        Strategy::PowerOff => "PowerOff: off, move the workload, stay off",
        Strategy::Evict => "Evict: move the workload, stay on",
        Strategy::PowerCycleFirst => "PowerCycleFirst: off and on, then as Reboot",
    };
    let exhausted = match policy.on_exhausted {
        OnExhausted::Escalate => "the Machine's owner",
        OnExhausted::Retire => "the Machine's owner, and the host is marked",
        OnExhausted::StayOff => "kept off",
        OnExhausted::Notify => "only reported",
    };
    format!("{strategy}; after the last attempt {exhausted}")
}

/// What follows the current step.
pub(super) fn following_steps(state: Option<&State>, policy: Option<&Policy>) -> &'static str {
    let Some(state) = state else {
        return "hold the host, switch it off, move its workload, bring it back";
    };
    let stays_off = matches!(state.strategy, Strategy::PowerOff | Strategy::Evict);
    let keeps_off = stays_off || state.keep_off.is_some();
    let cycles = state.strategy == Strategy::PowerCycleFirst && state.attempt.number == 1;
    match state.step {
        Step::Pending | Step::Retrying | Step::Evicting if state.strategy == Strategy::Evict => {
            "once its pods have left: stay on, with the node cordoned; the host is switched off only if a health check made \
             this object and the host fails before that"
        }
        Step::Evicting => {
            "once its pods have left, or their time is over: switch off, have the BMC confirm it, taint the node"
        }
        Step::ShuttingDown => {
            "once it is off, or its time is over: switch off, have the BMC confirm it, taint the node"
        }
        Step::Evicted => "stay on until this object is deleted; then uncordon the node",
        Step::Pending | Step::Retrying | Step::Holding if cycles => {
            "switch off, have the BMC confirm it, switch on; nothing is moved"
        }
        Step::Pending | Step::Retrying | Step::Holding => {
            "switch off, have the BMC confirm it, taint the node, wait for its pods and volumes"
        }
        Step::PoweringOff | Step::AwaitingConfirmation | Step::ConfirmingOff if cycles => {
            "once that is certain: switch on and boot"
        }
        Step::PoweringOff | Step::AwaitingConfirmation | Step::ConfirmingOff => {
            "once that is certain: taint the node, wait for its pods and volumes"
        }
        Step::Tainting => match policy.map(|p| p.workload_down) {
            Some(UnreachablePolicy::PowerOn) => {
                "wait for pods and volumes to go; without the workload cluster, switch on untainted"
            }
            _ => "wait for pods and volumes to go",
        },
        Step::Draining if keeps_off => "keep the host off until this object is deleted",
        Step::Draining => match policy.map(|p| p.drain_blocked) {
            Some(DrainPolicy::PowerOn) => "switch on; after the drain timeout in any case",
            Some(DrainPolicy::GiveUp) => "switch on; after the drain timeout give up and stay off",
            _ => "switch on, but never before they are gone",
        },
        Step::Fenced => "stay off until this object is deleted; then switch on and clean up",
        Step::PoweringOn => "boot, then remove the taint",
        Step::Booting => "remove the taint and wait for the node to be healthy",
        Step::Restoring => "wait for the node to be healthy, or begin another attempt",
        Step::Aborting => "clean up and end",
        Step::Succeeded | Step::Escalated | Step::Blocked => "nothing",
    }
}

/// Earlier attempts, and the evidence of the present one.
pub(super) fn history(state: Option<&State>) -> Vec<String> {
    let Some(state) = state else {
        return Vec::new();
    };
    let mut lines: Vec<String> = state
        .attempts
        .iter()
        .map(|a| {
            let took = time_span(a.ended.duration_since(a.started).unsigned_abs());
            let step = a.step.map_or("", Step::label);
            format!(
                "attempt {} from {} ended after {took} in {step}: {}",
                a.number,
                clock(a.started),
                a.reason
            )
        })
        .collect();
    if let Some(evidence) = &state.attempt.evidence {
        lines.extend(evidence_lines(evidence));
    }
    if let Some(used) = &state.attempt.outlets {
        lines.push(format!(
            "outlets {} switched off because the BMC could not prove off: {}",
            used.names(),
            used.because
        ));
    }
    match &state.attempt.off {
        Some(
            off @ (OffEvidence::Bmc {
                at,
                readings,
                taken,
            }
            | OffEvidence::Outlets {
                at,
                readings,
                taken,
            }),
        ) => {
            let by = match off {
                OffEvidence::Outlets { .. } => "the outlets",
                _ => "the BMC",
            };
            let readings: Vec<String> = readings
                .iter()
                .map(|r| format!("{} {:?} at {}", r.protocol, r.raw, clock(r.at)))
                .collect();
            lines.push(format!(
                "confirmed off at {} by {by}, which answered {} to {}: {}",
                clock(*at),
                taken.answer,
                taken.command,
                readings.join(", ")
            ));
        }
        Some(OffEvidence::Person { at }) => {
            lines.push(format!("confirmed off at {} by a person", clock(*at)));
        }
        None => {}
    }
    if let Some(drained) = state.attempt.drained {
        lines.push(format!("workload gone at {}", clock(drained)));
    }
    if let Some(on) = state.attempt.on {
        lines.push(format!("confirmed on at {}", clock(on)));
    }
    lines
}

/// The time of day, in UTC like the log.
fn clock(at: Timestamp) -> String {
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}
