//! What Nodes show of signals, and what of it has to end whoever watches their hosts.

use std::collections::BTreeSet;

use super::{ConditionStatus, Signal, SignalCondition};

/// The condition of a signal that a Node shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Published<'a> {
    /// The status that the condition has.
    pub status: ConditionStatus,
    /// Its reason.
    pub reason: &'a str,
}

/// The condition that ends what a Node shows of a signal, because that is switched off; `None` leaves it. Nobody would
/// end it otherwise, and health checks act on it.
#[must_use]
pub fn end_of_disabled(
    enabled: &BTreeSet<Signal>,
    signal: Signal,
    published: Option<ConditionStatus>,
) -> Option<SignalCondition> {
    let is_open = published.is_some_and(|status| status != ConditionStatus::False);
    let message = "this signal is switched off in the settings of the controller";
    (is_open && !enabled.contains(&signal))
        .then(|| SignalCondition::new(ConditionStatus::False, "SignalDisabled", message.to_owned()))
}

/// What of a host decides whether the Leases of its cluster are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ListInterest {
    /// Its agent reports it.
    pub is_reported: bool,
    /// It was on and is off.
    pub has_loss: bool,
    /// Its Node shows a signal that is not False.
    pub has_signal: bool,
}

/// How often the Leases of a cluster are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListPace {
    /// As its size allows.
    Regular,
    /// As often as possible: a host seems to have lost its power, and nothing is said of it yet.
    Quick,
}

/// How often the Leases of the cluster of these hosts are listed; `None`: not at all.
///
/// A signal ends with a renewal of the Lease. So the Leases of a cluster with one are listed whether or not an agent
/// answers.
#[must_use]
pub fn list_pace(hosts: impl IntoIterator<Item = ListInterest>) -> Option<ListPace> {
    let of_interest = hosts
        .into_iter()
        .filter(|host| host.is_reported || host.has_signal);
    let pace = of_interest.map(|host| match host.has_loss && !host.has_signal {
        true => ListPace::Quick,
        false => ListPace::Regular,
    });
    pace.max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConditionStatus::{False, True, Unknown};

    #[test]
    fn signal_that_is_switched_off_ends_with_its_reason() {
        let enabled = BTreeSet::from([Signal::PowerLost]);
        for (signal, published, ends) in [
            (Signal::OsStopped, Some(True), true),
            (Signal::HardwareFailing, Some(Unknown), true),
            (Signal::OsStopped, Some(False), false),
            (Signal::OsStopped, None, false),
            (Signal::PowerLost, Some(True), false),
        ] {
            let end = end_of_disabled(&enabled, signal, published);
            let shown = end.map(|end| (end.status, end.reason));
            let expected = ends.then_some((False, "SignalDisabled"));
            assert_eq!(shown, expected, "{signal} {published:?}");
        }
        for signal in Signal::ALL {
            assert!(end_of_disabled(&BTreeSet::new(), signal, Some(True)).is_some());
        }
    }

    #[test]
    fn leases_of_a_cluster_with_a_signal_are_listed_while_its_agent_is_down() {
        let watched = ListInterest {
            is_reported: true,
            ..ListInterest::default()
        };
        let lost = ListInterest {
            has_loss: true,
            ..watched
        };
        let said = ListInterest {
            has_signal: true,
            ..lost
        };
        let said_and_agent_down = ListInterest {
            has_signal: true,
            ..ListInterest::default()
        };
        let unseen = ListInterest::default();
        for (hosts, expected) in [
            (vec![], None),
            (vec![unseen], None),
            (vec![unseen, watched], Some(ListPace::Regular)),
            (vec![said_and_agent_down], Some(ListPace::Regular)),
            (vec![said, watched], Some(ListPace::Regular)),
            (vec![said, lost, watched], Some(ListPace::Quick)),
        ] {
            assert_eq!(list_pace(hosts.clone()), expected, "{hosts:?}");
        }
    }
}
