//! The shared cause of a remediation, as the history of its host keeps it.
//!
//! Pure. Of several that held one remediation, the latest is kept.

use jiff::Timestamp;
use rackhand_api::kinds::host_history::HostSharedCause;
use rackhand_core::fleet::shared_cause::CauseSummary;

use super::entry::shortened;
use crate::store::clock::to_second;

/// Characters of a name that are kept, as the schema has them.
const NAME: usize = 512;

/// A hold of a remediation by a shared cause.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CauseHeld<'a> {
    pub(crate) policy: &'a str,
    pub(crate) since: Timestamp,
    pub(crate) until: Option<Timestamp>,
}

/// The record of a cause; without a hold it was only recognised.
pub(crate) fn cause_record(cause: &CauseSummary, held: Option<CauseHeld<'_>>) -> HostSharedCause {
    HostSharedCause {
        domain: cause.domain.kind,
        name: cause.domain.name.chars().take(NAME).collect(),
        likely: cause.likely.label().to_owned(),
        message: shortened(&cause.message),
        held_by: held.map(|held| held.policy.to_owned()),
        held_since: held.map(|held| to_second(held.since)),
        held_until: held.and_then(|held| held.until).map(to_second),
    }
}

/// The newer record, with the hold of the known one if both are of one cause.
pub(super) fn merged_cause(
    known: Option<&HostSharedCause>,
    new: HostSharedCause,
) -> HostSharedCause {
    let Some(known) = known.filter(|known| known.held_by.is_some()) else {
        return new;
    };
    let is_same = known.domain == new.domain && known.name == new.name;
    match (&new.held_by, is_same) {
        // What holds it now, since the first hold by this cause.
        (Some(_), true) => HostSharedCause {
            held_since: known.held_since,
            ..new
        },
        (Some(_), false) => new,
        (None, true) => HostSharedCause {
            held_by: known.held_by.clone(),
            held_since: known.held_since,
            held_until: known.held_until,
            ..new
        },
        // One that held it says more than one that did not.
        (None, false) => known.clone(),
    }
}

/// A shared cause as one line of text.
pub fn cause_line(cause: &HostSharedCause) -> String {
    let held = match (&cause.held_by, cause.held_until) {
        (Some(policy), Some(until)) => {
            format!("; held by PowerPolicy {policy} until {until:.0} at most")
        }
        (Some(policy), None) => {
            format!("; held by PowerPolicy {policy} until a person or recovery")
        }
        (None, _) => "; not held".to_owned(),
    };
    format!("{}{held}", cause.message)
}

#[cfg(test)]
mod tests {
    use rackhand_core::fleet::shared_cause::{Domain, DomainKind, Likely};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn cause(rack: &str, message: &str) -> CauseSummary {
        CauseSummary {
            domain: Domain::new(DomainKind::Rack, rack),
            likely: Likely::Network,
            message: message.to_owned(),
        }
    }

    fn held(rack: &str, message: &str, since: i64) -> HostSharedCause {
        let held = CauseHeld {
            policy: "p",
            since: at(since),
            until: Some(at(since + 900)),
        };
        cause_record(&cause(rack, message), Some(held))
    }

    #[test]
    fn hold_is_kept_when_its_cause_is_seen_again() {
        let first = held("r1", "3 of 8 hosts", 10);
        let later = merged_cause(Some(&first), held("r1", "7 of 8 hosts", 40));
        assert_eq!(later.message, "7 of 8 hosts");
        assert_eq!(
            (later.held_since, later.held_until),
            (Some(at(10)), Some(at(940)))
        );
        let seen = cause_record(&cause("r1", "8 of 8 hosts"), None);
        let seen = merged_cause(Some(&later), seen);
        assert_eq!(
            (seen.message.as_str(), seen.held_since),
            ("8 of 8 hosts", Some(at(10)))
        );
        let other = merged_cause(Some(&seen), cause_record(&cause("r2", "2 of 2"), None));
        assert_eq!(other, seen);
        let other = merged_cause(Some(&seen), held("r2", "4 of 4", 60));
        assert_eq!(
            (other.name.as_str(), other.held_since),
            ("r2", Some(at(60)))
        );
    }

    #[test]
    fn line_states_arithmetic_and_until_when_it_was_held() {
        let record = held("r1", "7 of 8 hosts", 10);
        assert_eq!(
            cause_line(&record),
            "7 of 8 hosts; held by PowerPolicy p until 1970-01-01T00:15:10Z at most"
        );
        let seen = cause_record(&cause("r1", &"x".repeat(3000)), None);
        assert!(cause_line(&seen).ends_with("...; not held"));
        assert!(seen.message.chars().count() <= 512, "{seen:?}");
    }
}
