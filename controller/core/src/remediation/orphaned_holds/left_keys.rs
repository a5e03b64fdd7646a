//! Hold keys of Rackhand on a BareMetalHost whose remediation is gone: it was moved to or from another cluster,
//! restored without it, or deleted without its finalizer.
//!
//! Invariant: a key is removed, and so the host switched on by its owner, only once the Node has no taint of
//! Rackhand any more, and the taint only once the Node is drained (F4).

use std::time::Duration;

use jiff::Timestamp;

/// When hold keys on a BareMetalHost of this age may be removed: the remediation of a host that was moved or restored
/// may be created after it.
pub fn removable_from(created: Option<Timestamp>, age: Duration) -> Option<Timestamp> {
    created.map(|created| created.checked_add(age).unwrap_or(Timestamp::MAX))
}

/// The Node of the host, by live reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftNode {
    /// The host has no Node, or the Node is gone.
    None,
    /// It cannot be read.
    Unknown(String),
    /// The Node is not tainted by Rackhand.
    Untainted,
    /// The Node has the out-of-service taint that Rackhand has set.
    Tainted {
        /// What keeps it from being drained; empty if nothing does.
        remaining: String,
    },
}

/// What is known about the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftKeys {
    /// When the BareMetalHost was created.
    pub created: Option<Timestamp>,
    /// What is paused: the BareMetalHost, its Machine or its Cluster.
    pub paused: Option<String>,
    /// The remediation that is to end the hold with its own.
    pub remediation: Option<String>,
    /// The Node.
    pub node: LeftNode,
}

/// What is done about the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftKeyAction {
    /// They stay, for this reason.
    Wait(String),
    /// The taint is removed from the Node, then the keys.
    RemoveTaintAndKeys,
    /// The keys are removed.
    RemoveKeys,
}

/// Decides about the keys. `age`: [`super::super::Policy::orphaned_hold_age`].
pub fn left_keys(found: &LeftKeys, age: Duration, now: Timestamp) -> LeftKeyAction {
    use LeftKeyAction::Wait;
    if let Some(remediation) = &found.remediation {
        return Wait(format!(
            "{remediation} removes it when it switches the host on"
        ));
    }
    if let Some(paused) = &found.paused {
        return Wait(format!("{paused} is paused; it is removed after the pause"));
    }
    if let Some(from) = removable_from(found.created, age).filter(|from| *from > now) {
        return Wait(format!(
            "the BareMetalHost was created less than {} s ago, and its remediation may follow; it is removed from \
             {from} on",
            age.as_secs()
        ));
    }
    match &found.node {
        LeftNode::None | LeftNode::Untainted => LeftKeyAction::RemoveKeys,
        LeftNode::Unknown(why) => Wait(format!(
            "it is unknown whether its Node has the out-of-service taint: {why}"
        )),
        LeftNode::Tainted { remaining } if remaining.is_empty() => {
            LeftKeyAction::RemoveTaintAndKeys
        }
        LeftNode::Tainted { remaining } => Wait(format!(
            "its Node has the out-of-service taint, and these are not deleted yet: {remaining}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(600);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn mk_left(node: LeftNode) -> LeftKeys {
        LeftKeys {
            created: Some(at(0)),
            paused: None,
            remediation: None,
            node,
        }
    }

    fn mk_tainted(remaining: &str) -> LeftNode {
        LeftNode::Tainted {
            remaining: remaining.into(),
        }
    }

    #[track_caller]
    fn waits_for(found: &LeftKeys, seconds: i64, what: &str) {
        match left_keys(found, AGE, at(seconds)) {
            LeftKeyAction::Wait(why) => assert!(why.contains(what), "{why}"),
            other => panic!("{other:?} does not wait for {what}"),
        }
    }

    #[test]
    fn orphaned_key_is_removed_after_ten_minutes_unless_paused_or_in_use() {
        let left = mk_left(LeftNode::None);
        waits_for(&left, 599, "its remediation may follow");
        assert_eq!(left_keys(&left, AGE, at(600)), LeftKeyAction::RemoveKeys);
        let paused = LeftKeys {
            paused: Some("Cluster metal/east".into()),
            ..left.clone()
        };
        waits_for(&paused, 9000, "Cluster metal/east is paused");
        let in_use = LeftKeys {
            remediation: Some("PowerRemediation metal/m".into()),
            ..left
        };
        waits_for(&in_use, 9000, "PowerRemediation metal/m");
    }

    #[test]
    fn f4_orphaned_key_stays_until_tainted_node_is_drained() {
        waits_for(&mk_left(mk_tainted("1 pod (shop/db)")), 600, "shop/db");
        waits_for(
            &mk_left(LeftNode::Unknown("no answer".into())),
            600,
            "no answer",
        );
        for (node, action) in [
            (mk_tainted(""), LeftKeyAction::RemoveTaintAndKeys),
            (LeftNode::Untainted, LeftKeyAction::RemoveKeys),
        ] {
            assert_eq!(left_keys(&mk_left(node), AGE, at(600)), action);
        }
    }
}
