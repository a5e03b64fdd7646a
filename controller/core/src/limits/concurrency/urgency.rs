//! Which hosts begin first where not all begin at once.

use jiff::Timestamp;

use crate::remediation::{NodeFacts, WorkloadView};

/// How urgently the workload of a host waits for its remediation; the least goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// A hardware signal says that nothing runs on the host.
    Down {
        /// Since when the condition Ready of its Node has its status.
        since: Timestamp,
    },
    /// Its Node is not Ready, or is not known.
    NotReady {
        /// Since when. The longer it is silent, the surer nothing runs there any more.
        since: Timestamp,
    },
    /// Its Node is Ready.
    Ready,
}

impl Urgency {
    /// By the Node as it was read last. `down`: the types of the conditions which say that the host does not run.
    #[must_use]
    pub fn of(workload: &WorkloadView, down: &[&str]) -> Self {
        let WorkloadView::Present(node) = workload else {
            return Self::unknown();
        };
        let since = node.ready_since.unwrap_or(Timestamp::MAX);
        let has = |condition: &&&str| {
            let status = node.conditions.get(**condition);
            status.is_some_and(|status| status == "True")
        };
        match node {
            _ if down.iter().any(|condition| has(&condition)) => Self::Down { since },
            NodeFacts { ready: true, .. } => Self::Ready,
            _ => Self::NotReady { since },
        }
    }

    /// Of a host whose Node is not known: it is put behind no host that is in use.
    #[must_use]
    pub fn unknown() -> Self {
        Self::NotReady {
            since: Timestamp::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::remediation::{Cordon, Taint};

    const DOWN: [&str; 1] = ["rackhand.dev/PowerLost"];

    #[test]
    fn the_workload_of_a_host_that_is_down_waits_most() {
        let since = Timestamp::UNIX_EPOCH;
        let view = |ready, lost: &str| {
            WorkloadView::Present(NodeFacts {
                name: "n".into(),
                uid: "u".into(),
                created: None,
                boot_id: "b".into(),
                system_uuid: String::new(),
                ready,
                ready_since: Some(since),
                conditions: BTreeMap::from([(DOWN[0].to_owned(), lost.to_owned())]),
                ready_unknown: false,
                taint: Taint::Absent,
                tainted_by_rackhand: false,
                cordon: Cordon::Absent,
                lease: None,
            })
        };
        let of = |view: &WorkloadView| Urgency::of(view, &DOWN);
        let all = [
            of(&view(true, "True")),
            of(&view(false, "False")),
            of(&WorkloadView::NotJoined),
            of(&view(true, "Unknown")),
        ];
        let expected = [
            Urgency::Down { since },
            Urgency::NotReady { since },
            Urgency::unknown(),
            Urgency::Ready,
        ];
        assert_eq!(all, expected);
        assert!(all.is_sorted());
    }
}
