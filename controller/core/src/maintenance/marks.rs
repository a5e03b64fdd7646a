//! What a maintenance sets beside its remediation, each with its sign of whose it is. It is taken back only where the
//! sign is ours (F9).

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::remediation::Reason;

/// How long medik8s' maintenance Lease lasts without a renewal. It is renewed after a third of it.
pub const LEASE_LASTS: Duration = Duration::from_secs(300);

/// How long a locator LED stays lit without a renewal. IPMI counts 255 s at most.
pub const LED_LIT_FOR: Duration = Duration::from_secs(240);

/// Time after which the locator LED is lit again.
pub const LED_RENEWED_AFTER: Duration = Duration::from_secs(80);

/// Something that a maintenance sets and must take back.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "", rename = "MaintenanceMark")]
pub enum Mark {
    /// The PowerRemediation, with everything that it has set.
    Remediation,
    /// The annotation cluster.x-k8s.io/skip-remediation on the Machine.
    SkipRemediation,
    /// medik8s' maintenance Lease of the Node.
    Lease,
    /// The locator LED of the host.
    LocatorLED,
}

impl Mark {
    /// Whether health checks leave the host alone because of it.
    #[must_use]
    pub fn is_heeded(self) -> bool {
        matches!(self, Self::SkipRemediation | Self::Lease)
    }

    /// The mark for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Remediation => "its PowerRemediation, with what that has set",
            Self::SkipRemediation => "the annotation of the Machine",
            Self::Lease => "medik8s' Lease of the Node",
            Self::LocatorLED => "the locator LED",
        }
    }
}

/// The mark of a maintenance on the Machine: the annotation `rackhand.dev/maintenance` with its UID and, on a Machine of
/// Cluster API, `cluster.x-k8s.io/skip-remediation`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MachineMark {
    /// The host has no Machine whose checks heed such a mark.
    NoMachine,
    /// The Machine for which the work was begun is gone, and no check has anything to mark.
    Gone {
        /// `namespace/name`, for messages.
        machine: String,
    },
    /// The Machine has no such annotation.
    Absent,
    /// This maintenance has set it.
    Ours,
    /// This maintenance has set it, and somebody has removed the part that checks heed.
    InPart,
    /// Somebody else has set it, who is no maintenance.
    Theirs,
    /// Another maintenance has set it, and takes it back.
    OfAnother {
        /// That maintenance, for messages.
        by: String,
    },
}

impl MachineMark {
    /// Whether health checks heed it for as long as this maintenance lasts, or there are none.
    pub(super) fn is_in_place(&self) -> bool {
        matches!(
            self,
            Self::NoMachine | Self::Gone { .. } | Self::Ours | Self::Theirs
        )
    }

    /// Whether the Machine is gone.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// Whether something of it is to be taken back.
    pub(super) fn is_left(&self) -> bool {
        matches!(self, Self::Ours | Self::InPart)
    }

    /// Whether it is to be set now.
    pub(super) fn is_due(&self) -> bool {
        matches!(self, Self::Absent | Self::InPart)
    }
}

/// What the annotation `skip-remediation` says if the maintenance `namespace/name` has set it.
#[must_use]
pub fn skip_value(name: &str) -> String {
    format!("HostMaintenance {name}")
}

/// Whose mark is on a Machine of Cluster API, by the annotations `skip-remediation` and `rackhand.dev/maintenance`, for
/// the maintenance `namespace/name` with this UID. An earlier maintenance of the same name is another one.
#[must_use]
pub fn machine_mark(
    skip: Option<&str>,
    owner: Option<&str>,
    (name, uid): (&str, &str),
) -> MachineMark {
    match (skip, owner) {
        (Some(_), Some(owner)) if owner == uid => MachineMark::Ours,
        (None, Some(owner)) if owner == uid => MachineMark::InPart,
        (skip, Some(owner)) => MachineMark::OfAnother {
            by: skip
                .filter(|value| value.starts_with("HostMaintenance "))
                .map_or_else(
                    || format!("the HostMaintenance with the UID {owner}"),
                    |value| format!("{value} (UID {owner})"),
                ),
        },
        (Some(value), None) if value == skip_value(name) => MachineMark::Ours,
        (Some(_), None) => MachineMark::Theirs,
        (None, None) => MachineMark::Absent,
    }
}

/// Whose mark is on a Machine of OpenShift, by the annotation `rackhand.dev/maintenance`. Only checks that Rackhand
/// evaluates heed it.
#[must_use]
pub fn openshift_mark(owner: Option<&str>, uid: &str, is_evaluated: bool) -> MachineMark {
    match owner {
        Some(owner) if owner == uid => MachineMark::Ours,
        Some(owner) => MachineMark::OfAnother {
            by: format!("the HostMaintenance with the UID {owner}"),
        },
        None if is_evaluated => MachineMark::Absent,
        None => MachineMark::NoMachine,
    }
}

/// medik8s' maintenance Lease of the Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LeaseMark {
    /// No operator of medik8s works on this Node.
    NotUsed,
    /// Nobody holds it.
    Free,
    /// This maintenance holds it.
    Ours {
        /// When it was renewed last.
        renewed: Timestamp,
    },
    /// Another holder has it, and it has not expired.
    Theirs {
        /// Identity of the holder.
        holder: String,
        /// When it expires, if its holder does not renew it.
        until: Timestamp,
    },
    /// It could not be read, or it is not known whether medik8s' operators see the Node.
    Unread {
        /// Why it cannot be read.
        why: String,
        /// When it has expired by itself, if this maintenance held it. One that is not read is not renewed.
        expires: Timestamp,
    },
}

impl LeaseMark {
    /// Whether medik8s' operators heed it, or there are none.
    pub(super) fn is_in_place(&self, now: Timestamp) -> bool {
        match self {
            Self::Ours { renewed } => {
                now < renewed.checked_add(LEASE_LASTS).unwrap_or(Timestamp::MAX)
            }
            Self::NotUsed => true,
            Self::Free | Self::Theirs { .. } | Self::Unread { .. } => false,
        }
    }

    /// Whether it is to be renewed now.
    pub(super) fn due(&self, now: Timestamp) -> bool {
        match self {
            Self::Ours { renewed } => {
                now >= renewed
                    .checked_add(LEASE_LASTS / 3)
                    .unwrap_or(Timestamp::MAX)
            }
            Self::Free => true,
            Self::NotUsed | Self::Theirs { .. } | Self::Unread { .. } => false,
        }
    }

    /// Whether it is to be taken back, where the status lists it or not. One that was listed and cannot be read may be
    /// there until it has expired.
    pub(super) fn is_left(&self, listed: bool, now: Timestamp) -> bool {
        match self {
            Self::Ours { .. } => true,
            Self::Unread { expires, .. } => listed && now < *expires,
            Self::NotUsed | Self::Free | Self::Theirs { .. } => false,
        }
    }
}

/// Why the remediation of a maintenance does not have its host told to go off, by medik8s' Lease as read at that moment.
/// One that another holder has keeps it until that one has finished; any other is set again within seconds. `by`: the
/// maintenance, for messages.
#[must_use]
pub fn lease_before_off(lease: &LeaseMark, by: String, now: Timestamp) -> Option<Reason> {
    match lease {
        LeaseMark::Theirs { .. } => Some(Reason::WaitingForMarks(by)),
        lease if lease.is_in_place(now) => None,
        _ => Some(Reason::SettingMarks(by)),
    }
}

/// What was done with the locator LED, as far as this process knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LedMark {
    /// When it was lit last by this process.
    pub lit: Option<Timestamp>,
    /// Until when it may be lit, as recorded before it was lit; it then goes out by itself.
    pub until: Option<Timestamp>,
    /// Whether this process has put it out since it was recorded.
    pub out: bool,
}

impl LedMark {
    /// Whether it may be lit.
    pub(super) fn may_be_lit(self, now: Timestamp) -> bool {
        !self.out && self.until.is_some_and(|until| now < until)
    }

    /// Whether it is to be lit now, for the first time or again.
    pub(super) fn due(self, now: Timestamp) -> bool {
        self.lit
            .is_none_or(|lit| now >= lit.checked_add(LED_RENEWED_AFTER).unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_mark_is_that_of_the_maintenance_whose_uid_it_has() {
        let of = |skip: Option<&str>, owner: Option<&str>| machine_mark(skip, owner, ("ns/m", "u"));
        let ours = skip_value("ns/m");
        assert_eq!(of(None, None), MachineMark::Absent);
        assert_eq!(of(Some(&ours), Some("u")), MachineMark::Ours);
        assert_eq!(of(Some("mine"), Some("u")), MachineMark::Ours);
        assert_eq!(of(Some(&ours), None), MachineMark::Ours);
        assert_eq!(of(Some("mine"), None), MachineMark::Theirs);
        assert_eq!(of(Some(""), None), MachineMark::Theirs);
        let part = of(None, Some("u"));
        assert!(part.is_due() && part.is_left() && !part.is_in_place());
        for (skip, named) in [
            (Some(ours.as_str()), "HostMaintenance ns/m (UID old)"),
            (
                Some("HostMaintenance ns/first"),
                "HostMaintenance ns/first (UID old)",
            ),
            (Some("mine"), "with the UID old"),
            (None, "with the UID old"),
        ] {
            let other = of(skip, Some("old"));
            assert!(!other.is_in_place() && !other.is_left() && !other.is_due());
            assert!(
                matches!(&other, MachineMark::OfAnother { by } if by.contains(named)),
                "{other:?}"
            );
        }
    }

    #[test]
    fn host_goes_off_only_while_its_maintenance_holds_the_lease() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let of = |lease| lease_before_off(&lease, "HostMaintenance ns/m".into(), at(1000));
        let label = |lease| of(lease).map(|reason| reason.label());
        let ours = |renewed| LeaseMark::Ours {
            renewed: at(renewed),
        };
        assert_eq!(label(LeaseMark::NotUsed), None);
        assert_eq!(label(ours(990)), None);
        assert_eq!(label(ours(600)), Some("SettingMarks"), "it has expired");
        assert_eq!(label(LeaseMark::Free), Some("SettingMarks"));
        let unread = LeaseMark::Unread {
            why: "timeout".into(),
            expires: at(1200),
        };
        assert_eq!(label(unread), Some("SettingMarks"));
        let theirs = LeaseMark::Theirs {
            holder: "fence-agents".into(),
            until: at(1010),
        };
        assert_eq!(label(theirs), Some("WaitingForMarks"));
    }

    #[test]
    fn f9_mark_of_another_maintenance_on_a_machine_of_openshift_is_not_relied_on() {
        assert_eq!(openshift_mark(Some("u"), "u", false), MachineMark::Ours);
        assert_eq!(openshift_mark(None, "u", true), MachineMark::Absent);
        assert_eq!(openshift_mark(None, "u", false), MachineMark::NoMachine);
        let other = openshift_mark(Some("old"), "u", true);
        assert!(!other.is_in_place() && !other.is_left() && !other.is_due());
    }
}
