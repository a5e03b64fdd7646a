//! Messages of reasons where the annotations by which a person decides are ignored.

use super::Reason;
use crate::remediation::{Decision, Policy};

/// The command that approves a remediation, in the message of each reason that its approval ends.
pub const APPROVE: &str = "kubectl rackhand approve";
/// The end of the detail of a reason whose way out is such an annotation, where these are ignored.
pub const WORDS_IGNORED: &str = "; words of persons are ignored (--words-of-persons=ignored)";

impl Decision {
    /// The decision with its messages by this policy: if words of persons are ignored, the reason says so and names
    /// another way out.
    pub(in crate::remediation) fn explained(mut self, policy: &Policy) -> Self {
        if policy.words_of_persons == WordsOfPersons::Accepted {
            return self;
        }
        let before = self.reason.to_string();
        self.reason = ignored(self.reason);
        let after = self.reason.to_string();
        let notes = self.notes.iter_mut();
        for note in notes.filter(|note| note.message == before) {
            note.message.clone_from(&after);
        }
        self
    }
}

/// Whether the annotations count by which a person approves a remediation, confirms its power-off or overrules a
/// check of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WordsOfPersons {
    /// They count. The API server has to make sure of who may set them.
    #[default]
    Accepted,
    /// They have no effect.
    Ignored,
}

fn ignored(reason: Reason) -> Reason {
    let said = |detail: String| match detail.ends_with(WORDS_IGNORED) {
        true => detail,
        false => detail + WORDS_IGNORED,
    };
    // The detail names the whole way out.
    let held = |detail: String| match detail.contains(APPROVE) {
        true => {
            said(detail + ", which has no effect: change the PowerPolicy, or delete this object")
        }
        false => detail,
    };
    match reason {
        Reason::ControlPlaneQuorum(why) => Reason::ControlPlaneQuorum(said(why)),
        Reason::FenceUnconfirmed(why) => Reason::FenceUnconfirmed(said(why)),
        Reason::FirmwareUpdateRunning(what) => Reason::FirmwareUpdateRunning(said(what)),
        Reason::FirmwareUpdateUnknown(why) => Reason::FirmwareUpdateUnknown(said(why)),
        Reason::UpdateDuringPowerOff(what) => Reason::UpdateDuringPowerOff(said(what)),
        Reason::OtherNodeOnHost(what) => Reason::OtherNodeOnHost(said(what)),
        Reason::OwnerDoesNotReportOff(state) => Reason::OwnerDoesNotReportOff(said(state)),
        Reason::OwnerDoesNotSwitchOn(state) => Reason::OwnerDoesNotSwitchOn(said(state)),
        Reason::HeldByPolicy(what) => Reason::HeldByPolicy(held(what)),
        Reason::HeldBySharedCause(what) => Reason::HeldBySharedCause(held(what)),
        Reason::PolicyLimitReached(what) => Reason::PolicyLimitReached(held(what)),
        other => other,
    }
}

/// The way out by a person's word, or the one without it if the detail says that words are ignored.
pub(super) fn way_out<'a>(detail: &str, by_word: &'a str, otherwise: &'a str) -> &'a str {
    match detail.ends_with(WORDS_IGNORED) {
        true => otherwise,
        false => by_word,
    }
}
