//! Deliberate faults: a state that Rackhand has not recorded for this object is believed.

use crate::small::OnPurpose;
use rackhand_core::remediation::State;

use super::world::{Origin, World};

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// An older displayed state of the same object counts.
    Replayed,
    /// The displayed state of another object counts.
    Foreign,
    /// A displayed state that nobody has recorded counts.
    Forged,
    /// The state that a moved object displays counts.
    Moved,
    /// A first write replaces the record that is there.
    UnreadOverwritten,
    /// More than the first write rests on a record that was taken for absent.
    UnreadTrusted,
}

impl OnPurpose for Breakage {
    const EVERY: &'static [Self] = &[
        Self::Replayed,
        Self::Foreign,
        Self::Forged,
        Self::Moved,
        Self::UnreadOverwritten,
        Self::UnreadTrusted,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Replayed => "an older displayed state of the object is believed",
            Self::Foreign => "the displayed state of another object is believed",
            Self::Forged => "a forged displayed state is believed",
            Self::Moved => "the displayed state of a moved object is believed",
            Self::UnreadOverwritten => "a first write replaces an older record",
            Self::UnreadTrusted => "a command rests on a record that was not read",
        }
    }

    fn faults(self) -> u8 {
        1
    }
}

impl Breakage {
    /// The state that is believed instead of the recorded one.
    pub(super) fn believed(self, world: &World) -> Option<State> {
        let origin = match self {
            Self::Replayed => Origin::Replayed,
            Self::Foreign => Origin::Foreign,
            Self::Forged => Origin::Forged,
            Self::Moved => Origin::Moved,
            Self::UnreadOverwritten | Self::UnreadTrusted => return None,
        };
        let copy = world.copy.as_ref().filter(|copy| copy.origin == origin);
        copy.map(|copy| copy.state.clone())
    }
}
