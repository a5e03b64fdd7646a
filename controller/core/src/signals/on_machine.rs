//! What a Machine of Cluster API shows of a signal: what its Node shows.

use std::collections::BTreeSet;

use super::{
    ConditionStatus::{self, False},
    Published, Signal, end_of_disabled,
};

/// Maximum length of a reason that Cluster API accepts in the list of v1beta1, in characters; v1beta2 accepts more.
const LONGEST_REASON: usize = 256;
/// Reason of a condition of a Node whose own reason Cluster API would refuse.
const OTHER_REASON: &str = "ShownByNode";
/// Message of a condition of a Node whose own message is not known.
const SEE_NODE: &str =
    "the Node of this Machine shows this condition; its message there says what to do";

/// What the Node of a Machine shows of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeShows<'a> {
    /// Nobody knows: the Node was not read, or the absence of it is not confirmed.
    NotKnown,
    /// There is no condition of this type, or no Node.
    Nothing,
    /// A condition.
    Condition {
        /// The status that the condition has.
        status: ConditionStatus,
        /// Its reason, by the API server of the Node.
        reason: &'a str,
        /// The message that was decided; `None` if that was before a restart, or by another controller.
        message: Option<&'a str>,
    },
}

/// What is known of a Machine and a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MachineFacts<'a> {
    /// The Machine or its Cluster is paused: Cluster API's objects are left as they are then.
    pub is_paused: bool,
    /// What its Node shows.
    pub node: NodeShows<'a>,
    /// What the Machine shows.
    pub published: Option<Published<'a>>,
}

/// A condition of a Machine to write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MachineCondition {
    /// The status that the condition has.
    pub status: ConditionStatus,
    /// Its reason: at most 256 letters, digits and underscores, the first one a letter.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// The condition that a Machine gets; `None` leaves what it shows.
///
/// It follows its Node and decides nothing itself, so that a check that selects Machines sees what one that selects
/// Nodes sees. `enabled`: the signals that are switched on. One that is switched off ends on the Machine whether or not
/// its Node can be read.
#[must_use]
pub fn on_machine(
    enabled: &BTreeSet<Signal>,
    signal: Signal,
    facts: &MachineFacts<'_>,
) -> Option<MachineCondition> {
    if facts.is_paused {
        return None;
    }
    let shown = facts.published;
    if !enabled.contains(&signal) {
        let end = end_of_disabled(enabled, signal, shown.map(|shown| shown.status))?;
        return Some(MachineCondition {
            status: end.status,
            reason: end.reason.to_owned(),
            message: end.message,
        });
    }
    match facts.node {
        NodeShows::NotKnown => None,
        NodeShows::Nothing => {
            let is_open = shown.is_some_and(|shown| shown.status != False);
            is_open.then(|| MachineCondition {
                status: False,
                reason: "NotOnNode".to_owned(),
                message: format!("the Node of this Machine shows no condition {signal}"),
            })
        }
        NodeShows::Condition {
            status,
            reason,
            message,
        } => {
            let reason = if is_reason(reason) {
                reason
            } else {
                OTHER_REASON
            };
            let same = Published { status, reason };
            (shown != Some(same)).then(|| MachineCondition {
                status,
                reason: reason.to_owned(),
                message: message.unwrap_or(SEE_NODE).to_owned(),
            })
        }
    }
}

/// Whether Cluster API accepts a reason. Its pattern permits `,` and `:` as well, which no reason of ours has.
fn is_reason(text: &str) -> bool {
    text.len() <= LONGEST_REASON
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConditionStatus::{True, Unknown};

    const LOST: NodeShows<'_> = mk_node(True, "PowerOff");

    const fn mk_node(status: ConditionStatus, reason: &str) -> NodeShows<'_> {
        NodeShows::Condition {
            status,
            reason,
            message: Some("host rack-a/h1 has lost its power"),
        }
    }

    fn mk_shown(status: ConditionStatus, reason: &str) -> Option<Published<'_>> {
        Some(Published { status, reason })
    }

    /// Status and reason that a Machine gets of PowerLost, which is switched on.
    fn written(
        node: NodeShows<'_>,
        published: Option<Published<'_>>,
    ) -> Option<(ConditionStatus, String)> {
        let facts = MachineFacts {
            is_paused: false,
            node,
            published,
        };
        let enabled = BTreeSet::from([Signal::PowerLost]);
        let written = on_machine(&enabled, Signal::PowerLost, &facts)?;
        Some((written.status, written.reason))
    }

    #[test]
    fn machine_shows_what_its_node_shows_and_is_written_only_on_change() {
        let back = mk_node(False, "PowerOn");
        let shared = mk_node(Unknown, "SharedCause");
        for (node, published, expected) in [
            (LOST, None, Some((True, "PowerOff"))),
            (LOST, mk_shown(True, "PowerOff"), None),
            (LOST, mk_shown(False, "PowerOn"), Some((True, "PowerOff"))),
            (back, mk_shown(True, "PowerOff"), Some((False, "PowerOn"))),
            (back, mk_shown(False, "PowerOn"), None),
            (
                shared,
                mk_shown(Unknown, "LeaseUnknown"),
                Some((Unknown, "SharedCause")),
            ),
            (NodeShows::Nothing, None, None),
            (NodeShows::Nothing, mk_shown(False, "PowerOn"), None),
            (
                NodeShows::Nothing,
                mk_shown(True, "PowerOff"),
                Some((False, "NotOnNode")),
            ),
        ] {
            let expected = expected.map(|(status, reason)| (status, reason.to_owned()));
            assert_eq!(written(node, published), expected, "{node:?} {published:?}");
        }
    }

    #[test]
    fn f12_node_that_cannot_be_seen_neither_begins_nor_ends_anything() {
        for published in [
            None,
            mk_shown(True, "PowerOff"),
            mk_shown(Unknown, "SharedCause"),
            mk_shown(False, "PowerOn"),
        ] {
            assert_eq!(
                written(NodeShows::NotKnown, published),
                None,
                "{published:?}"
            );
        }
    }

    #[test]
    fn paused_machine_is_left_as_it_is() {
        for (node, published) in [
            (LOST, None),
            (NodeShows::Nothing, mk_shown(True, "PowerOff")),
        ] {
            let facts = MachineFacts {
                is_paused: true,
                node,
                published,
            };
            for enabled in [BTreeSet::from(Signal::ALL), BTreeSet::new()] {
                assert_eq!(on_machine(&enabled, Signal::PowerLost, &facts), None);
            }
        }
    }

    #[test]
    fn signal_that_is_switched_off_ends_whatever_the_node_shows_and_does_not_begin() {
        for node in [LOST, NodeShows::Nothing, NodeShows::NotKnown] {
            for (published, ends) in [
                (None, false),
                (mk_shown(True, "PowerOff"), true),
                (mk_shown(Unknown, "SharedCause"), true),
                (mk_shown(False, "SignalDisabled"), false),
            ] {
                let facts = MachineFacts {
                    is_paused: false,
                    node,
                    published,
                };
                let written = on_machine(&BTreeSet::new(), Signal::PowerLost, &facts);
                let shown = written.map(|written| (written.status, written.reason));
                let expected = ends.then(|| (False, "SignalDisabled".to_owned()));
                assert_eq!(shown, expected, "{node:?} {published:?}");
            }
        }
    }

    #[test]
    fn reason_of_a_node_that_cluster_api_would_refuse_is_replaced() {
        let long = "A".repeat(LONGEST_REASON + 1);
        for odd in ["", "no reason", "1st", "Ends:", "Größe", long.as_str()] {
            let node = mk_node(True, odd);
            assert_eq!(written(node, None), Some((True, OTHER_REASON.to_owned())));
            // It is not written again and again.
            assert_eq!(written(node, mk_shown(True, OTHER_REASON)), None, "{odd}");
        }
    }

    #[test]
    fn message_is_that_of_the_decision_or_refers_to_the_node() {
        let enabled = BTreeSet::from([Signal::PowerLost]);
        for (message, expected) in [
            (Some("see to its power supply"), None),
            (None, Some(SEE_NODE)),
        ] {
            let facts = MachineFacts {
                is_paused: false,
                node: NodeShows::Condition {
                    status: True,
                    reason: "PowerOff",
                    message,
                },
                published: None,
            };
            let written = on_machine(&enabled, Signal::PowerLost, &facts).unwrap();
            assert_eq!(Some(written.message.as_str()), expected.or(message));
        }
    }
}
