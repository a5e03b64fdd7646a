//! Which changes wake a remediation, and how soon.
//!
//! Decides only; the tasks are woken in [`super::tasks`].

use std::time::Duration;

use crate::store::{
    object::{Key, Kind},
    request::RequestId,
};

/// The objects whose changes wake a remediation.
#[derive(Default)]
pub(crate) struct WatchInterest {
    pub(crate) cluster: Option<Key>,
    pub(crate) node: Option<String>,
    pub(crate) machine: Option<Key>,
    /// The BareMetalHost of the remediation.
    pub(crate) host: Option<Key>,
    /// The rack of the host; `None` while the host is not known, which an agent of any rack may know.
    pub(crate) rack: Option<String>,
    /// The host is chosen, so that no other Machine or BareMetalHost matters. Before that, and
    /// between attempts, a link may appear, or a control plane recover, anywhere.
    pub(crate) settled: bool,
}

/// How soon a change wakes a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wakeup {
    No,
    Now,
    /// Batched with other changes: in a storm the objects of all others change, and each
    /// observation reads the Node.
    Later,
}

impl WatchInterest {
    /// Whether an agent of a rack matters.
    pub(super) fn concerns_rack(&self, rack: &str) -> bool {
        self.rack.as_deref().is_none_or(|own| own == rack)
    }

    pub(super) fn wakeup_for(&self, id: &RequestId, kind: Kind, object: &Key) -> Wakeup {
        let own = match kind {
            // No decision depends on these; changes of agents are announced separately.
            Kind::MachineHealthCheck
            | Kind::OpenShiftCheck
            | Kind::NodeHealthCheck
            | Kind::RackAgent => return Wakeup::No,
            Kind::Machine => self.machine.as_ref() == Some(object),
            Kind::BareMetalHost => self.host.as_ref() == Some(object),
            Kind::Metal3Machine | Kind::OpenShiftMachine => false,
            // It may select any host, and matters to those that have begun nothing.
            Kind::PowerPolicy if self.settled => return Wakeup::No,
            Kind::PowerPolicy => return Wakeup::Now,
            Kind::Cluster | Kind::Metal3Remediation | Kind::PowerRemediation => true,
        };
        // The objects of a request by Node may be in any namespace.
        let near =
            id.key.namespace == object.namespace || self.cluster.as_ref() == Some(&Key::local());
        match (near, own, self.settled) {
            (true, true, _) => Wakeup::Now,
            (true, false, false) => Wakeup::Later,
            _ => Wakeup::No,
        }
    }
}

/// How long changes are batched, by the number of remediations.
pub(super) fn batch_delay(remediations: usize) -> Duration {
    let count = u32::try_from(remediations).unwrap_or(u32::MAX);
    (LATER.0 + LATER.1.saturating_mul(count)).min(LATER.2)
}

/// Shortest time, time added per remediation, and longest time.
const LATER: (Duration, Duration, Duration) = (
    Duration::from_millis(500),
    Duration::from_millis(10),
    Duration::from_secs(10),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_delay_grows_with_number_of_remediations() {
        assert_eq!(batch_delay(0), Duration::from_millis(500));
        assert_eq!(batch_delay(100), Duration::from_millis(1500));
        assert_eq!(batch_delay(usize::MAX), Duration::from_secs(10));
    }

    #[test]
    fn remediation_with_chosen_host_wakes_for_its_own_objects_only() {
        let key = |name: &str| Key::new("ns", name);
        let id = RequestId::new(Kind::Metal3Remediation, key("m1"));
        let mut interest = WatchInterest {
            machine: Some(key("m1")),
            host: Some(key("h1")),
            ..WatchInterest::default()
        };
        let wakeups = |interest: &WatchInterest| {
            [
                (Kind::Machine, "m1"),
                (Kind::BareMetalHost, "h1"),
                (Kind::Cluster, "c"),
                (Kind::Machine, "m2"),
                (Kind::BareMetalHost, "h2"),
                (Kind::Metal3Machine, "m1"),
                (Kind::MachineHealthCheck, "check"),
            ]
            .map(|(kind, name)| interest.wakeup_for(&id, kind, &key(name)))
        };
        let (no, now, later) = (Wakeup::No, Wakeup::Now, Wakeup::Later);
        // A link to the Machine may appear in any object.
        assert_eq!(wakeups(&interest), [now, now, now, later, later, later, no]);
        interest.settled = true;
        assert_eq!(wakeups(&interest), [now, now, now, no, no, no, no]);
        let elsewhere = Key::new("other", "c");
        assert_eq!(interest.wakeup_for(&id, Kind::Cluster, &elsewhere), no);
    }

    #[test]
    fn agent_of_another_rack_wakes_only_while_no_host_is_found() {
        let mut interest = WatchInterest::default();
        assert!(interest.concerns_rack("r1"));
        interest.rack = Some("r2".into());
        assert!(!interest.concerns_rack("r1"));
        assert!(interest.concerns_rack("r2"));
    }
}
