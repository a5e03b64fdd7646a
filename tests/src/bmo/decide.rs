//! The decisions of baremetal-operator about a host.
//!
//! Pure: takes the host, Ironic's record and `now`; returns one action and the status.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Settings,
    host::{Host, REBOOT, Status},
    ironic::{Change, Node, Power},
};

/// Number of errors after which the backoff no longer grows.
const LONGEST: u32 = 9;

/// The state of baremetal-operator about a host outside its object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// After an error, the time before which nothing is done, unless an annotation changes.
    pub retry: Option<Duration>,
    /// The annotations at that error.
    pub seen: BTreeMap<String, String>,
}

/// An action of baremetal-operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Request this power change from Ironic.
    Power(Change),
    /// Remove these annotations.
    Drop(Vec<String>),
    /// Enrol the host in Ironic.
    Enrol,
    /// Remove the host from Ironic.
    Remove,
}

/// The result of [`decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// At most one action; the next one follows at the next reconcile.
    pub act: Option<Act>,
    /// The status to write.
    pub status: Status,
    /// The new state.
    pub memory: Memory,
}

/// Decides. The caller clears `node.error` after it was processed.
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
    // A paused host keeps even its status.
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
    // Only a change of the status is no news: then it is not looked at, and its power is not copied.
    let is_news = memory.seen != host.reboots;
    if !is_news && memory.retry.is_some_and(|retry| now < retry) {
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
    // One that was counted already does not keep it from the next try.
    if let Some(error) = node.error.as_ref().filter(|_| memory.retry.is_none()) {
        status.errors += 1;
        status.operational = "error".into();
        status.message.clone_from(error);
        let doublings = status.errors.min(LONGEST).saturating_sub(1);
        verdict.memory.retry = Some(now + settings.backoff * 2_u32.pow(doublings));
        verdict.memory.seen.clone_from(&host.reboots);
        return verdict;
    }
    if node.is_busy() {
        return verdict;
    }
    power(host, node, verdict)
}

/// The desired power is on if the host is online and has no reboot annotation.
fn power(host: &Host, node: &Node, mut verdict: Verdict) -> Verdict {
    let on = host.online && host.reboots.is_empty();
    let hard = host.is_hard() || host.status.errors > 0;
    verdict.act = match (node.power, on) {
        (Some(Power::On), false) if host.disable_power_off => Some(Act::Power(Change::Reboot)),
        (Some(Power::On), false) if hard => Some(Act::Power(Change::HardOff)),
        (Some(Power::On), false) => Some(Act::Power(Change::SoftOff)),
        // The host is off, so the first half of the requested reboot is done.
        (Some(Power::Off), false) if host.reboots.contains_key(REBOOT) => {
            Some(Act::Drop(vec![REBOOT.to_owned()]))
        }
        (Some(Power::Off), true) => Some(Act::Power(Change::On)),
        (None, _) | (Some(Power::On), true) | (Some(Power::Off), false) => None,
    };
    if matches!(verdict.act, Some(Act::Power(_))) {
        verdict.memory = Memory::default();
    }
    if verdict.act.is_none() {
        verdict.memory = Memory::default();
        verdict.status.operational = "OK".into();
        verdict.status.errors = 0;
        verdict.status.message.clear();
    }
    verdict
}
