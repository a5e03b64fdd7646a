//! Where the power of a host is between Rackhand and baremetal-operator, which owns it (F16).

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Time for which the Node has to be Ready, and the host on, before a remediation ends although the owner does
/// not report the host on. It covers several polls of baremetal-operator (60 s) and forced power
/// synchronisations of Ironic (120 s).
pub(super) const SILENT_OWNER: Duration = Duration::from_secs(600);

/// The last change of our hold key that was not accepted, because the webhook of its owner did not answer: where
/// baremetal-operator is away, no BareMetalHost can be changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HoldRefusal {
    /// When it was tried.
    pub at: Timestamp,
    /// From the answer of the API server, so short that a message with it still says what to do.
    pub why: String,
}

impl HoldRefusal {
    /// Longest part of an answer.
    const LONGEST: usize = 120;

    /// `why`: the answer of the API server, from which only the first part is kept.
    pub fn new(why: &str, at: Timestamp) -> Self {
        Self {
            at,
            why: why.chars().take(Self::LONGEST).collect(),
        }
    }
}

/// By this an API server says that it could not ask a webhook. One that was asked and refuses is not away.
pub const WEBHOOK_FAILED: &str = "failed calling webhook";

/// What has happened to the power of a host whose owner is baremetal-operator, in one attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handover {
    /// When our hold key was given up because the owner had the host as off, or the last key of others was gone
    /// after that: from then on the owner is to switch the host on. Written before the key is removed, so that a key
    /// that somebody else removed is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Timestamp>,
    /// Keys of others keep the host off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_by_others: bool,
    /// Since when the Node has been Ready again without the owner reporting the host on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreported: Option<Timestamp>,
    /// The owner services or deprovisions the host, or did so while this remediation had begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken: bool,
}

impl Handover {
    /// Whether nothing has happened.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
