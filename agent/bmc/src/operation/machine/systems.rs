//! The systems that an operation has read: the address of a BMC may lead to another one from one reading to the next.

use crate::{
    PowerSource, SystemIdentity,
    operation::{Expected, Mismatch},
};
use rackhand_identity::IdentityMatch;

/// What each protocol has shown of its system first. Protocols are not compared here: a BMC may report different
/// identities of one host by two of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Systems(Vec<(PowerSource, Expected)>);

impl Systems {
    /// Compares a reading with what was read before by this protocol, and remembers what is new in it. A BMC that
    /// leaves its identity out, or reports a placeholder, contradicts nothing.
    pub(super) fn read(
        &mut self,
        source: PowerSource,
        found: &SystemIdentity,
    ) -> Result<(), Mismatch> {
        let known = match self.0.iter().position(|(of, _)| *of == source) {
            Some(known) => self.0.get_mut(known),
            None => {
                self.0.push((source, Expected::default()));
                self.0.last_mut()
            }
        };
        let Some((_, known)) = known else {
            return Ok(());
        };
        if let Some(mismatch) = known.mismatch(found) {
            return Err(mismatch);
        }
        let uuid = Expected {
            system_uuid: found.system_uuid.clone(),
            ..Expected::default()
        };
        let serial = Expected {
            serial: found.serial.clone(),
            ..Expected::default()
        };
        // What does not even name itself names no system.
        if known.system_uuid.is_none() && uuid.compare(found) == IdentityMatch::Same {
            known.system_uuid = uuid.system_uuid;
        }
        if known.serial.is_none() && serial.compare(found) == IdentityMatch::Same {
            known.serial = serial.serial;
        }
        Ok(())
    }
}
