//! What baremetal-operator does about a host, decided.
//!
//! Owns desired power and the order of its reasons. Pure: the host, Ironic's record and `now` go
//! in; one act and the status come out.

use std::time::Duration;

use super::{
    Settings,
    host::{Host, REBOOT, Status},
    ironic::{Change, Node, Power},
};

/// The error counter counts on, the wait does not grow any more.
const LONGEST: u32 = 9;

/// What the operator keeps to itself about a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// After an error, nothing before this.
    pub retry: Option<Duration>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Ask Ironic for this.
    Power(Change),
    /// Take these annotations off.
    Drop(Vec<String>),
    /// Put the host into Ironic.
    Enrol,
    /// Take it out of Ironic.
    Remove,
}

/// The answer of [`decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// At most one act; the next comes with the next look.
    pub act: Option<Act>,
    /// The status to write.
    pub status: Status,
    /// What to remember.
    pub memory: Memory,
}

/// Decides. The caller takes `node.error` away once this has seen it.
pub fn decide(
    host: &Host,
    node: &Node,
    memory: &Memory,
    servicing: bool,
    settings: &Settings,
    now: Duration,
) -> Verdict {
    let mut verdict = Verdict {
        act: None,
        status: host.status.clone(),
        memory: memory.clone(),
    };
    // Not even the status: it returns at once.
    if host.paused {
        return verdict;
    }
    if host.detached && host.is_provisioned() {
        verdict.status.operational = "detached".into();
        verdict.act = node.enrolled.then_some(Act::Remove);
        return verdict;
    }
    if !node.enrolled {
        verdict.act = Some(Act::Enrol);
        return verdict;
    }
    let status = &mut verdict.status;
    status.powered_on = node
        .power
        .map(|power| power == Power::On)
        .or(status.powered_on);
    if host.is_moving() && settings.deletes_holds {
        let keys: Vec<String> = host.holds().cloned().collect();
        verdict.act = (!keys.is_empty()).then_some(Act::Drop(keys));
    }
    if !host.is_provisioned() {
        return verdict;
    }
    if servicing {
        status.operational = "servicing".into();
        return verdict;
    }
    if let Some(error) = &node.error {
        status.errors += 1;
        status.operational = "error".into();
        status.message.clone_from(error);
        let doublings = status.errors.min(LONGEST).saturating_sub(1);
        verdict.memory.retry = Some(now + settings.backoff * 2_u32.pow(doublings));
        return verdict;
    }
    if node.is_busy() || memory.retry.is_some_and(|retry| now < retry) {
        return verdict;
    }
    power(host, node, verdict)
}

/// Desired power is online without any reboot annotation.
fn power(host: &Host, node: &Node, mut verdict: Verdict) -> Verdict {
    let on = host.online && host.reboots.is_empty();
    let hard = host.is_hard() || host.status.errors > 0;
    verdict.act = match (node.power, on) {
        (Some(Power::On), false) if host.disable_power_off => Some(Act::Power(Change::Reboot)),
        (Some(Power::On), false) if hard => Some(Act::Power(Change::HardOff)),
        (Some(Power::On), false) => Some(Act::Power(Change::SoftOff)),
        // Seen off: one reboot has been asked for, and its first half is done.
        (Some(Power::Off), false) if host.reboots.contains_key(REBOOT) => {
            Some(Act::Drop(vec![REBOOT.to_owned()]))
        }
        (Some(Power::Off), true) => Some(Act::Power(Change::On)),
        (None, _) | (Some(Power::On), true) | (Some(Power::Off), false) => None,
    };
    if verdict.act.is_none() {
        verdict.memory = Memory::default();
        verdict.status.operational = "OK".into();
        verdict.status.errors = 0;
        verdict.status.message.clear();
    }
    verdict
}
