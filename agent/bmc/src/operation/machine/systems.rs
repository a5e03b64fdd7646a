//! The systems that an operation has read: the address of a BMC may lead to another one from one reading to the next.

use crate::{
    PowerSource, SystemIdentity,
    operation::system::{KnownSystem, Sameness},
};

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
