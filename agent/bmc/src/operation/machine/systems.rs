//! The systems that an operation has read: the address of a BMC may lead to another one from one reading to the next.

use rackhand_identity::IdentityMatch;

use crate::{
    PowerSource, SystemIdentity,
    operation::{
        Observation, Watch, compare_earlier,
        remembered::{compare_remembered, is_settled, names_nothing},
        system::{KnownSystem, Sameness},
    },
};

use super::Operation;

/// What each protocol has shown of its system. Protocols are not compared here: a BMC may report different
/// identities of one host by two of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Systems(Vec<(PowerSource, KnownSystem)>);

impl Systems {
    /// Compares a reading with what was read before by this protocol, and remembers what is new in it.
    pub(super) fn read(&mut self, source: PowerSource, found: &SystemIdentity) -> Sameness {
        let known = self.0.iter_mut().find(|(of, _)| *of == source);
        if let Some((_, known)) = known {
            return known.read(source, found);
        }
        let mut known = KnownSystem::default();
        let sameness = known.read(source, found);
        self.0.push((source, known));
        sameness
    }
}

impl Operation {
    /// Compares a reading with what is expected, with what was read before the operation, and with what was read in
    /// it.
    pub(super) fn compare(&mut self, seen: &Observation) -> Sameness {
        let before = self.compare_past(seen);
        let expected = &self.request.expected;
        if let Some(mismatch) = expected.mismatch_at(seen.source, &seen.identity) {
            return Sameness::Other(mismatch);
        }
        match before {
            Sameness::Same => self.systems.read(seen.source, &seen.identity),
            differs => differs,
        }
    }

    /// Compares a reading with the observation from before the operation, and with what earlier operations read.
    fn compare_past(&mut self, seen: &Observation) -> Sameness {
        let (expected, found) = (&self.request.expected, &seen.identity);
        if let Some((source, identity)) = self.past.take() {
            let mut before = Systems::default();
            before.read(source, &identity);
            let sameness = before.read(seen.source, found);
            if sameness != Sameness::Same {
                self.watch = Watch::default();
            }
            // The observation may have shown another one for a while.
            let remembered = self.remembered.as_deref();
            let is_remembered = remembered
                .is_some_and(|known| compare_earlier(known, found) == IdentityMatch::Same);
            if let Sameness::Other(mismatch) = sameness
                && !is_remembered
                && !is_settled(&mismatch, expected, found)
            {
                return Sameness::Other(mismatch);
            }
        }
        if seen.source != PowerSource::Redfish {
            return Sameness::Same;
        }
        // What is remembered of a host has a UUID or a serial number, so that its BMC names its systems.
        if expected.earlier.is_some() && names_nothing(found) {
            return Sameness::Unnamed;
        }
        match &self.remembered {
            Some(known) => compare_remembered(known, expected, found),
            None => Sameness::Same,
        }
    }
}
