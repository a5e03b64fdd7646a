//! Observed facts in plain English, with the fencing rule behind each.
//!
//! Pure. Rackhand's own messages are unchanged, as in Events, logs and conditions.

use rackhand_tests::rack::{OsState, PowerState, ResetType, StopReason};

use super::Rule;
use crate::fact::{CheckState, Fact};

/// The sender of commands that do not come from a BMC, in the log of a host.
pub(crate) const PERSON: &str = "a person";

/// One line of a scenario.
#[derive(Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) who: &'static str,
    pub(crate) rule: Option<Rule>,
    pub(crate) what: String,
}

/// The line for a fact; `None` if another line reports it.
pub(crate) fn message(fact: &Fact) -> Option<Message> {
    let plain = |who, what: String| Message {
        who,
        rule: None,
        what,
    };
    let ruled = |who, rule, what: String| Message {
        who,
        rule: Some(rule),
        what,
    };
    Some(match fact {
        // The scenario reports the actions of a person itself.
        Fact::Command { by, .. } if by == PERSON => return None,
        Fact::Command { reset, by, ignored } => {
            let asks = match reset {
                ResetType::ForceOff => "switch off",
                ResetType::On => "switch on",
                _ => "change power",
            };
            let outcome = if *ignored {
                "; it accepts and does nothing"
            } else {
                ""
            };
            plain(
                "BMC",
                format!("receives the command to {asks} ({reset}, by {by}){outcome}"),
            )
        }
        Fact::Power(PowerState::Off) => plain("host", "its power is off".into()),
        Fact::Power(PowerState::On) => plain("host", "its power is on".into()),
        Fact::Power(_) => return None,
        Fact::Os(OsState::Booting) => plain("host", "boots".into()),
        Fact::Os(OsState::Running) => plain("host", "is up; its kubelet starts".into()),
        Fact::Os(_) | Fact::Booted(_) => return None,
        Fact::Started { pod } => plain("host", format!("{pod} starts here")),
        Fact::Ended { pod, why } => plain("host", format!("{pod} {}", ended(*why))),
        Fact::Moved { pod, host } => plain("host", format!("{pod} starts on {host}")),
        Fact::Ready { node, status } => plain("Kubernetes", ready(node, status)),
        Fact::Taint { node, there: true } => ruled(
            "Kubernetes",
            Rule::F1,
            format!("node {node} carries the out-of-service taint: its pods may start elsewhere"),
        ),
        Fact::Taint { node, there: false } => ruled(
            "Kubernetes",
            Rule::F9,
            format!("node {node} no longer carries the taint"),
        ),
        Fact::Remediation { name, there: true } => {
            plain("Kubernetes", format!("Metal3Remediation {name} is created"))
        }
        Fact::Remediation { name, there: false } => ruled(
            "Kubernetes",
            Rule::F9,
            format!("Metal3Remediation {name} is deleted"),
        ),
        Fact::Evidence { said, .. } => {
            ruled("BMC", Rule::F1, format!("reported {said}: the evidence"))
        }
        Fact::Pod { name, state } => plain("Kubernetes", pod(name, state)),
        Fact::Hold { key, there } => {
            // The UID at the end of the key is left out.
            let key: String = key.chars().take(32).collect();
            let what = if *there {
                format!("the BareMetalHost carries our hold key {key}...: it has to be off")
            } else {
                format!("our hold key {key}... is removed from the BareMetalHost: it may come back")
            };
            let rule = if *there { Rule::F2 } else { Rule::F9 };
            ruled("Kubernetes", rule, what)
        }
        Fact::PoweredOn(on) => plain("Metal3", format!("BareMetalHost: status.poweredOn is {on}")),
        Fact::Event { reason, note } => return event(reason, note),
        Fact::Check(state) => plain("Kubernetes", check(state)),
        Fact::CheckEvent { reason, note } => return check_event(reason, note),
        Fact::Asked {
            name,
            template,
            there: true,
        } => plain(
            "Kubernetes",
            format!("PowerRemediation {name} is created from the template {template}"),
        ),
        Fact::Asked {
            name,
            template,
            there: false,
        } => ruled(
            "Kubernetes",
            Rule::F9,
            format!("PowerRemediation {name} ({template}) is deleted"),
        ),
        Fact::Outcome {
            template,
            succeeded,
        } => plain(
            "Kubernetes",
            format!("the PowerRemediation from {template} has Succeeded={succeeded}"),
        ),
        Fact::ToldToStop { template } => plain(
            "Kubernetes",
            format!(
                "the PowerRemediation from {template} carries nhc-timed-out: the check has ended it"
            ),
        ),
        Fact::WorkLease {
            name,
            holder: Some(holder),
        } => plain(
            "Kubernetes",
            format!("Lease {name} is held by {holder}: no other controller may work on that node"),
        ),
        Fact::WorkLease { name, holder: None } => {
            ruled("Kubernetes", Rule::F9, format!("Lease {name} is deleted"))
        }
    })
}

fn check(state: &CheckState) -> String {
    let CheckState {
        name,
        phase,
        observed,
        healthy,
        unhealthy,
    } = state;
    let which = if unhealthy.is_empty() {
        String::new()
    } else {
        format!("; unhealthy: {}", unhealthy.join(", "))
    };
    format!("NodeHealthCheck {name} is {phase}: {healthy} of {observed} healthy{which}")
}

fn check_event(reason: &str, note: &str) -> Option<Message> {
    // The line of the PowerRemediation reports it.
    if reason == "RemediationCreated" {
        return None;
    }
    // medik8s adds this prefix to each note.
    let note = note.strip_prefix("[remediation] ").unwrap_or(note);
    Some(Message {
        who: "check",
        rule: None,
        what: format!("{reason}: {note}"),
    })
}

fn ended(why: StopReason) -> &'static str {
    match why {
        StopReason::PowerOff => "has stopped with the power",
        StopReason::Deleted | StopReason::Vanished => "is stopped by the kubelet",
        StopReason::Reset => "has stopped with a reset",
    }
}

fn ready(node: &str, status: &str) -> String {
    match status {
        "True" => format!("node {node} is Ready"),
        "Unknown" => format!("node {node} is Unknown: its kubelet no longer reports"),
        other => format!("node {node}: Ready={other}"),
    }
}

fn pod(name: &str, state: &str) -> String {
    match state.strip_prefix("is to end") {
        Some(place) => format!("pod {name}{place} is marked for deletion"),
        None => format!("pod {name} {state}"),
    }
}

fn event(reason: &str, note: &str) -> Option<Message> {
    let rule = match reason {
        // Reported by the line of the Node, of the BMC, or of the step that follows at once.
        "Overdue" => return None,
        "Holding" => Some(Rule::F2),
        "Tainted" => Some(Rule::F1),
        "FenceViolated" | "HoldLost" => Some(Rule::F3),
        "DrainSkipped" => Some(Rule::F4),
        "LeaseRenewed" | "IdentityMismatch" => Some(Rule::F5),
        "FenceUnconfirmed" | "AwaitingConfirmation" => Some(Rule::F8),
        "DrainBlocked" | "AgentUnreachable" | "PowerOnUnconfirmed" | "Blocked" => Some(Rule::L1),
        _ => None,
    };
    Some(Message {
        who: "Rackhand",
        rule,
        what: format!("{reason}: {}", without_time(note)),
    })
}

/// Removes "(Holding took 0.1 s)", because each line begins with its time.
fn without_time(note: &str) -> &str {
    match note.rsplit_once(" (") {
        Some((text, rest)) if rest.contains(" took ") && rest.ends_with(" s)") => text,
        _ => note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_event(reason: &str, note: &str) -> Option<Message> {
        message(&Fact::Event {
            reason: reason.into(),
            note: note.into(),
        })
    }

    #[test]
    fn event_keeps_its_text_and_gets_its_rule() {
        let said = mk_event(
            "DrainSkipped",
            "the host is switched on with pods left (2 of them) (Draining took 0.1 s)",
        );
        let wanted = Message {
            who: "Rackhand",
            rule: Some(Rule::F4),
            what: "DrainSkipped: the host is switched on with pods left (2 of them)".into(),
        };
        assert_eq!(said, Some(wanted));
        assert_eq!(mk_event("Overdue", "said by the step"), None);
        assert_eq!(without_time("confirmed (twice)"), "confirmed (twice)");
    }

    #[test]
    fn ignored_command_message_ends_with_does_nothing() {
        let mk_command = |ignored| Fact::Command {
            reset: ResetType::ForceOff,
            by: "rackhand".into(),
            ignored,
        };
        let said = |ignored| message(&mk_command(ignored)).unwrap().what;
        assert_eq!(
            said(false),
            "receives the command to switch off (ForceOff, by rackhand)"
        );
        assert!(said(true).ends_with("does nothing"));
    }

    #[test]
    fn check_message_counts_healthy_and_names_unhealthy_nodes() {
        let mut state = CheckState {
            name: "workers".into(),
            phase: "Enabled".into(),
            observed: 4,
            healthy: 4,
            unhealthy: Vec::new(),
        };
        let well = "NodeHealthCheck workers is Enabled: 4 of 4 healthy";
        assert_eq!(check(&state), well);
        state.unhealthy.push("a-1".into());
        assert!(check(&state).ends_with("healthy; unhealthy: a-1"));
    }

    #[test]
    fn check_event_loses_its_remediation_prefix() {
        let what = |reason, note| check_event(reason, note).map(|words| words.what);
        let said = what("DetectedUnhealthy", "[remediation] Node a is unhealthy");
        assert_eq!(said, Some("DetectedUnhealthy: Node a is unhealthy".into()));
        assert_eq!(
            what("RemediationCreated", "[remediation] it was made"),
            None
        );
    }

    #[test]
    fn terminating_pod_is_marked_for_deletion() {
        assert_eq!(
            pod("db-0", "is to end on a"),
            "pod db-0 on a is marked for deletion"
        );
        assert_eq!(pod("db-0", "is Pending"), "pod db-0 is Pending");
    }
}
