//! The fencing rules that the scenarios show, each in a sentence for somebody who hears of it first.

use std::fmt;

/// A rule, by its number in ARCHITECTURE.md.
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
    /// What it says.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::F1 => {
                "a node is tainted (so that Kubernetes starts its pods elsewhere) only while its host is \
                 confirmed off: the BMC itself has said exactly \"off\" twice, 2 s or more apart"
            }
            Self::F2 => {
                "before any power-off it is written down, in the cluster, that the host is to be off"
            }
            Self::F3 => {
                "while the taint is on, the host stays off; seen on, it is switched off and confirmed \
                 again"
            }
            Self::F4 => {
                "the host is switched on again only when the cluster's API has no pod and no volume \
                 left on its node: what is still there would start a second time"
            }
            Self::F5 => {
                "the host that was switched off must be the one that the node runs on; a node that \
                 still reports after the power-off runs somewhere else"
            }
            Self::F7 => {
                "every command carries the term of the leader that sends it; an agent refuses an \
                 older term than the highest it has seen"
            }
            Self::F8 => {
                "what cannot be confirmed is never guessed; it waits for a retry that works, or for \
                 the word of a person"
            }
            Self::F9 => "what Rackhand has added it takes away again, on every way out",
            Self::L1 => "nothing waits in silence: it goes on, or it says why it cannot",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
