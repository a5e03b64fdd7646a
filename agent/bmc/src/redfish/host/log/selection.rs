//! Selection of the host's event log among the logs of a BMC.

use crate::redfish::{
    protocol::document::last_part,
    vendor::{LogRank, log_rank},
};

/// Resource that a log belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    System,
    Manager,
}

/// A log service that the BMC lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) link: String,
    pub(super) owner: Owner,
}

impl Candidate {
    fn rank(&self) -> LogRank {
        log_rank(last_part(&self.link))
    }
}

/// Whether one of the logs is an event log by its name, in which case no others need to be read.
pub(super) fn is_settled(candidates: &[Candidate]) -> bool {
    candidates
        .iter()
        .any(|candidate| matches!(candidate.rank(), LogRank::Known(_)))
}

/// The event log: the best name, and the system's before the manager's. A log with an unknown name
/// is used only if it is the only one left; logs of another purpose never are.
pub(super) fn choose(candidates: &[Candidate]) -> Option<&Candidate> {
    let best = candidates
        .iter()
        .filter(|candidate| matches!(candidate.rank(), LogRank::Known(_)))
        .min_by_key(|candidate| (candidate.rank(), candidate.owner));
    best.or_else(|| {
        let mut unknown = candidates
            .iter()
            .filter(|candidate| candidate.rank() == LogRank::Unknown);
        let only = unknown.next()?;
        unknown.next().is_none().then_some(only)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(system: &[&str], manager: &[&str]) -> Vec<Candidate> {
        let all = |names: &[&str], owner| {
            names
                .iter()
                .map(|name| Candidate {
                    link: format!("/{owner:?}/LogServices/{name}"),
                    owner,
                })
                .collect::<Vec<_>>()
        };
        [all(system, Owner::System), all(manager, Owner::Manager)].concat()
    }

    #[test]
    fn event_log_of_each_vendor_is_selected() {
        for (vendor, system, manager, expected) in [
            (
                "Dell",
                &[][..],
                &["FaultList", "Lclog", "Sel"][..],
                Some("/Manager/LogServices/Sel"),
            ),
            (
                "HPE",
                &["IML", "SL"],
                &["IEL"],
                Some("/System/LogServices/IML"),
            ),
            (
                "Supermicro",
                &["Log1"],
                &["Log1"],
                Some("/System/LogServices/Log1"),
            ),
            (
                "AMI",
                &["BIOS"],
                &["AuditLog", "SEL"],
                Some("/Manager/LogServices/SEL"),
            ),
            (
                "OpenBMC",
                &["Dump", "EventLog", "PostCodes"],
                &["Journal"],
                Some("/System/LogServices/EventLog"),
            ),
            (
                "Lenovo",
                &["AuditLog", "ActiveLog", "PlatformLog"],
                &[],
                Some("/System/LogServices/PlatformLog"),
            ),
            (
                "a single one",
                &["Foo"],
                &["Journal"],
                Some("/System/LogServices/Foo"),
            ),
            ("two strange ones", &["Foo", "Bar"], &[], None),
            ("only others", &["AuditLog"], &["Lclog"], None),
            ("none", &[], &[], None),
        ] {
            let logs = logs(system, manager);
            let chosen = choose(&logs).map(|chosen| chosen.link.as_str());
            assert_eq!(chosen, expected, "{vendor}");
        }
    }

    #[test]
    fn known_log_name_ends_the_search() {
        assert!(is_settled(&logs(&["SEL"], &[])));
        assert!(!is_settled(&logs(&["BIOS", "Foo"], &[])));
    }
}
