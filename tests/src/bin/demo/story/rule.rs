//! The fencing rules that the scenarios show, each in one sentence for newcomers.

use std::fmt;

/// A rule, by its number in docs/fencing-rules.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    F1,
    F2,
    F3,
    F4,
    F5,
    F7,
    F8,
    F9,
    L1,
}

impl Rule {
    /// The rule in one sentence.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::F1 => {
                "a node is tainted, so that Kubernetes starts its pods elsewhere, only while its host is \
                 confirmed off: the BMC has taken a power-off and reported exactly \"off\" twice, 2 s or \
                 more apart"
            }
            Self::F2 => "before any power-off, the cluster records that the host has to be off",
            Self::F3 => {
                "while the taint is on, the host stays off; if it is seen on, it is switched off and \
                 confirmed again"
            }
            Self::F4 => {
                "the host is switched on only when the API has no pod and no volume left on its node; \
                 otherwise a pod could start a second time"
            }
            Self::F5 => {
                "the host that was switched off must be the one that the node runs on; a node that \
                 still reports after the power-off runs on another host"
            }
            Self::F7 => {
                "every command carries the term of the leader that sends it; an agent refuses terms \
                 older than the highest it has seen"
            }
            Self::F8 => {
                "what cannot be confirmed is never guessed; it waits for a retry that works, or for \
                 a person's confirmation"
            }
            Self::F9 => "what Rackhand has added it removes, however the remediation ends",
            Self::L1 => "nothing waits silently: it continues, or reports why it cannot",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
