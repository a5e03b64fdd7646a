//! What a label waits for, in words.

use std::fmt::{self, Display, Formatter};

use jiff::Timestamp;
use strum::IntoStaticStr;

/// Why nothing is made for a Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Obstacle {
    /// The controller does not act on triggers.
    Disabled,
    /// The trigger, the Cluster or the Machine is paused.
    Paused(String),
    /// Another trigger acts on the Node.
    OtherTrigger(String),
    /// The Nodes of the cluster are not watched now.
    ClusterNotConnected(String),
    /// No Cluster has the name that the trigger gives.
    ClusterNotFound(String),
    /// The template needs a Machine, and none in this namespace names the Node.
    NoMachine(String),
    /// The Machine or the Node is excluded from remediation.
    Excluded(String),
    /// The template cannot be used.
    TemplateUnusable(String),
    /// An object that the trigger has not made has the name of its remediation.
    NameTaken(String),
    /// What was recorded about the remediation cannot be read.
    StateUnreadable(String),
    /// The API server has refused it.
    Refused(String),
    /// Enough were made in this pass.
    PassLimit,
}

/// What a label waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Wait {
    /// Nothing is made.
    Obstacle(Obstacle),
    /// The remediation has not ended.
    Remediation,
    /// The remediation has succeeded, and the Node is not Ready.
    NodeNotReady,
    /// The host is kept off until the label is taken away.
    KeptOff,
    /// It has failed; a person decides.
    Failed,
    /// The remediation is being deleted.
    Ending,
    /// The label was put there during the cooldown, which ends then.
    Cooldown(Timestamp),
    /// The remediation is kept as the record of the cooldown, which ends then.
    Remembered(Timestamp),
}

impl Obstacle {
    /// The reason, as one word.
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.into()
    }

    /// Whether also what was made already is left as it is.
    #[must_use]
    pub fn stops_everything(&self) -> bool {
        matches!(
            self,
            Self::Paused(_)
                | Self::ClusterNotConnected(_)
                | Self::ClusterNotFound(_)
                | Self::StateUnreadable(_)
        )
    }

    /// Whether a remediation that has not begun is withdrawn.
    pub(super) fn withdraws(&self) -> bool {
        matches!(self, Self::Excluded(_))
    }
}

impl Wait {
    /// The reason, as one word.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Obstacle(obstacle) => obstacle.label(),
            other => other.into(),
        }
    }
}

impl Display for Obstacle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str(
                "the controller runs without --remediation-triggers, so no label makes a remediation",
            ),
            Self::Paused(what) => write!(f, "{what} is paused"),
            Self::OtherTrigger(name) => {
                write!(f, "RemediationTrigger {name} acts on this Node; one does at a time")
            }
            Self::ClusterNotConnected(why) => write!(f, "the Nodes are not watched now: {why}"),
            Self::ClusterNotFound(name) => write!(
                f,
                "no Cluster {name} is known; spec.clusterName must be that of a Cluster in the namespace of the trigger"
            ),
            Self::NoMachine(why)
            | Self::Excluded(why)
            | Self::TemplateUnusable(why)
            | Self::StateUnreadable(why) => f.write_str(why),
            Self::NameTaken(name) => write!(
                f,
                "{name} exists, and this trigger has not made it; it can be deleted or renamed"
            ),
            Self::Refused(why) => write!(f, "the API server refuses the remediation: {why}"),
            Self::PassLimit => f.write_str("many Nodes have the label; its turn comes in a moment"),
        }
    }
}

impl Display for Wait {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Obstacle(obstacle) => obstacle.fmt(f),
            Self::Remediation => f.write_str("the remediation is not over"),
            Self::NodeNotReady => {
                f.write_str("the remediation has succeeded; the label goes once the Node is Ready")
            }
            Self::KeptOff => {
                f.write_str("the host is kept off; it comes back when the label is taken away")
            }
            Self::Failed => f.write_str(
                "the remediation has failed; take the label away, or give it its first value again",
            ),
            Self::Ending => f.write_str("the remediation is being deleted"),
            Self::Cooldown(until) => {
                write!(
                    f,
                    "within the cooldown after the last remediation, until {until}"
                )
            }
            Self::Remembered(until) => write!(f, "the cooldown ends at {until}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_word_and_messages_say_who_ends_the_wait() {
        let waits = [
            Wait::Obstacle(Obstacle::Disabled),
            Wait::Obstacle(Obstacle::OtherTrigger("ns/a".into())),
            Wait::KeptOff,
            Wait::Failed,
            Wait::Cooldown(Timestamp::UNIX_EPOCH),
        ];
        let labels: Vec<&str> = waits.iter().map(Wait::label).collect();
        let expected = ["Disabled", "OtherTrigger", "KeptOff", "Failed", "Cooldown"];
        assert_eq!(labels, expected);
        let text = waits[4].to_string();
        assert!(text.contains("1970-01-01T00:00:00Z"), "{text}");
    }
}
