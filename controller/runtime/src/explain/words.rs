//! The words of an explanation: for a person who was woken by it.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use rackhand_core::remediation::{
    Command, DrainBlocked, OffEvidence, OnExhausted, Outcome, Policy, State, Step, Strategy,
    WorkloadDown,
};

use super::Explanation;

/// What a command does.
pub(super) fn command(command: &Command) -> String {
    match command {
        Command::AddFinalizer => "puts its finalizer on the object".into(),
        Command::RemoveFinalizer(outcome) => {
            format!(
                "takes its finalizer off the object: {}",
                self::outcome(*outcome)
            )
        }
        Command::AddHold => "puts its hold key on the BareMetalHost".into(),
        Command::RemoveHold => "takes its hold key off the BareMetalHost".into(),
        Command::PowerOff { id, .. } => {
            format!("asks the agent to switch the host off (operation {id})")
        }
        Command::PowerOn { id } => {
            format!("asks the agent to switch the host on (operation {id})")
        }
        Command::Cancel { id } => format!("asks the agent to cancel operation {id}"),
        Command::ReadPower => "asks the BMC for the power state".into(),
        Command::Release => "tells the agent that the host need not stay off".into(),
        Command::AddTaint => "puts the out-of-service taint on the node".into(),
        Command::RemoveTaint => "takes the out-of-service taint off the node".into(),
        Command::BackUpNode => "keeps the node's labels and annotations on the object".into(),
        Command::DeleteNode { uid } => format!("deletes the node (UID {uid})"),
        Command::RestoreNode => "gives the node back its labels and annotations".into(),
        Command::Escalate { retire: false } => "hands the Machine to its owner".into(),
        Command::Escalate { retire: true } => {
            "hands the Machine to its owner and marks the BareMetalHost unhealthy".into()
        }
    }
}

pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "it is over, the node is back",
        Outcome::Escalated => "it is over, the Machine's owner takes over",
        Outcome::Failed => "it is over without success",
        Outcome::Withdrawn => "it is over, the request was withdrawn",
    }
}

/// What a write changes.
pub(super) fn transition(before: Option<&State>, after: &State) -> String {
    match before {
        Some(before) if before.step == after.step => {
            format!(
                "writes down what it found and stays in {}",
                after.step.label()
            )
        }
        _ => format!("goes to {}", after.step.label()),
    }
}

pub(super) fn strategy(policy: Option<&Policy>) -> String {
    let Some(policy) = policy else {
        return "not readable".into();
    };
    let strategy = match policy.strategy {
        Strategy::Reboot => "Reboot: off, move the workload, on",
        Strategy::PowerOff => "PowerOff: off, move the workload, stay off",
        Strategy::PowerCycleFirst => "PowerCycleFirst: off and on, then as Reboot",
    };
    let exhausted = match policy.on_exhausted {
        OnExhausted::Escalate => "the Machine's owner",
        OnExhausted::Retire => "the Machine's owner, and the host is marked",
        OnExhausted::StayOff => "kept off",
        OnExhausted::Notify => "only told",
    };
    format!("{strategy}; in the end {exhausted}")
}

/// What follows the present step.
pub(super) fn then(state: Option<&State>, policy: Option<&Policy>) -> &'static str {
    let Some(state) = state else {
        return "hold the host, switch it off, move its workload, bring it back";
    };
    let keeps_off = state.strategy == Strategy::PowerOff || state.keep_off.is_some();
    let cycles = state.strategy == Strategy::PowerCycleFirst && state.attempt == 1;
    match state.step {
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
            Some(WorkloadDown::PowerOn) => {
                "wait for pods and volumes to go; without the workload cluster, switch on untainted"
            }
            _ => "wait for pods and volumes to go",
        },
        Step::Draining if keeps_off => "keep the host off until this object is deleted",
        Step::Draining => match policy.map(|p| p.drain_blocked) {
            Some(DrainBlocked::PowerOn) => "switch on; after the drain timeout in any case",
            Some(DrainBlocked::GiveUp) => "switch on; after the drain timeout give up and stay off",
            _ => "switch on, but never before they are gone",
        },
        Step::Fenced => "stay off until this object is deleted; then switch on and clean up",
        Step::PoweringOn => "boot, then take the taint away",
        Step::Booting => "take the taint away and wait for the node to be healthy",
        Step::Restoring => "wait for the node to be healthy, or begin another attempt",
        Step::Aborting => "clean up and end",
        Step::Succeeded | Step::Escalated | Step::Blocked => "nothing",
    }
}

pub(super) fn history(state: Option<&State>) -> Vec<String> {
    let Some(state) = state else {
        return Vec::new();
    };
    let mut lines: Vec<String> = state
        .attempts
        .iter()
        .map(|a| {
            let took = span(a.ended.duration_since(a.started).unsigned_abs());
            let step = a.step.map_or("", Step::label);
            format!(
                "attempt {} from {} ended after {took} in {step}: {}",
                a.number,
                clock(a.started),
                a.reason
            )
        })
        .collect();
    match &state.off {
        Some(OffEvidence::Bmc {
            at,
            readings,
            taken,
        }) => {
            let said: Vec<String> = readings
                .iter()
                .map(|r| format!("{} {:?} at {}", r.protocol, r.raw, clock(r.at)))
                .collect();
            lines.push(format!(
                "confirmed off at {} by the BMC{}: {}",
                clock(*at),
                taken
                    .as_ref()
                    .map(|taken| format!(", which answered {} to {}", taken.answer, taken.command))
                    .unwrap_or_default(),
                said.join(", ")
            ));
        }
        Some(OffEvidence::Person { at }) => {
            lines.push(format!("confirmed off at {} by a person", clock(*at)));
        }
        None => {}
    }
    if let Some(drained) = state.drained {
        lines.push(format!("workload gone at {}", clock(drained)));
    }
    if let Some(on) = state.on {
        lines.push(format!("confirmed on at {}", clock(on)));
    }
    lines
}

/// The time of day, in UTC like the log.
fn clock(at: Timestamp) -> String {
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}

/// Like 45s, 3m12s, 2h05m.
pub(super) fn span(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..=59 => format!("{s}s"),
        60..=3599 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
    }
}

pub(super) fn text(e: &Explanation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ago = |at: Timestamp| span(e.now.duration_since(at).unsigned_abs());
    let since = e
        .since
        .map_or(String::new(), |at| format!(", for {}", ago(at)));
    writeln!(
        f,
        "{}: {}, attempt {} of {}{since}",
        e.request, e.step, e.attempt, e.attempts
    )?;
    let mut line = |name: &str, value: &str| writeln!(f, "  {name:<9}{value}");
    let label = if e.blocked { "BLOCKED" } else { "why" };
    line(label, &format!("{} ({})", e.message, e.reason))?;
    if let Some(recorded) = &e.recorded {
        line(
            "recorded",
            &format!("{recorded} (what the controller wrote last)"),
        )?;
    }
    match e.until {
        Some(until) if e.overdue => {
            line(
                "until",
                &format!("{}, {} OVERDUE", clock(until), ago(until)),
            )?;
        }
        Some(until) => line("until", &format!("{} (in {})", clock(until), ago(until)))?,
        None => line("until", "no limit")?,
    }
    let at = match e.next.at {
        Some(at) if at > e.now => format!(", looks again within {}", ago(at)),
        _ => String::new(),
    };
    line("next", &format!("{}{at}", e.next.words))?;
    line("then", &e.then)?;
    line("strategy", &e.strategy)?;
    for (name, value) in &e.seen {
        line(name, value)?;
    }
    for entry in &e.history {
        line("history", entry)?;
    }
    for entry in &e.assumed {
        line("assumed", entry)?;
    }
    if !e.settings.is_empty() {
        line("settings", &e.settings)?;
    }
    Ok(())
}
