//! Which system was read at a BMC before an operation, also across interruptions of its observation (F5).
//!
//! Pure. Must never: let another system, or a document that names none, pass for the one that was read, because it was
//! read once.

use std::time::Duration;

use rackhand_identity::{IdentityMatch, compare_serials};

use super::{Expected, Mismatch, comparable, system::Sameness};
use crate::{
    PowerSource, ResourceName, SystemIdentity,
    expected::{SERIAL_NUMBER, difference_to_earlier},
};

/// For how long a system is remembered that is not read any more: as long as another one has to answer to replace it.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The system that Redfish readings have named. A GUID over IPMI is not remembered, because some BMCs have a new one
/// at each start.
#[derive(Debug, Clone, Default)]
pub(super) struct Remembered(Option<Box<(SystemIdentity, Duration)>>);

impl Remembered {
    /// Records a reading that was complete at `now`. Another system replaces nothing that is still remembered.
    pub(super) fn read(&mut self, now: Duration, source: PowerSource, found: &SystemIdentity) {
        let found = comparable(found);
        if source != PowerSource::Redfish || names_nothing(&found) {
            return;
        }
        match &mut self.0 {
            Some(known) if now.saturating_sub(known.1) <= REMEMBERED => {
                if difference(&known.0, &found).is_none() {
                    let before = std::mem::take(&mut known.0);
                    **known = (found.or(before), now);
                }
            }
            known => *known = Some(Box::new((found, now))),
        }
    }

    /// The system, if it is still remembered at `now`.
    pub(super) fn at(&self, now: Duration) -> Option<Box<SystemIdentity>> {
        let known = self.0.as_ref()?;
        let is_recent = now.saturating_sub(known.1) <= REMEMBERED;
        is_recent.then(|| Box::new(known.0.clone()))
    }
}

/// Compares a reading by Redfish with the system that was remembered. One that is not what caller, inventory or journal
/// expect is no measure: the address has led there for a while.
pub(super) fn compare_remembered(
    known: &SystemIdentity,
    expected: &Expected,
    found: &SystemIdentity,
) -> Sameness {
    let found = comparable(found);
    match difference(known, &found) {
        Some(mismatch)
            if !is_settled(&mismatch, expected, &found)
                && expected.compare(known) != IdentityMatch::Different =>
        {
            Sameness::Other(mismatch)
        }
        None if !is_named_like(known, &found) => Sameness::Unnamed,
        _ => Sameness::Same,
    }
}

/// Whether caller, inventory or journal say of what differs that it is as expected. A UUID that two boards have says
/// nothing about their serial numbers.
pub(super) fn is_settled(mismatch: &Mismatch, expected: &Expected, found: &SystemIdentity) -> bool {
    if mismatch.what != SERIAL_NUMBER {
        return expected.compare(found) == IdentityMatch::Same;
    }
    let earlier = expected.earlier.as_ref();
    let said = [
        &expected.serial,
        earlier.map_or(&None, |known| &known.serial),
    ];
    let Some(found) = &found.serial else {
        return false;
    };
    let is_it = |said: &String| compare_serials(said, found) == IdentityMatch::Same;
    said.into_iter().flatten().any(is_it)
}

/// Whether a document has neither a name of its own nor one of a host.
pub(super) fn names_nothing(found: &SystemIdentity) -> bool {
    let found = comparable(found);
    let ResourceName { path, id, name } = &found.resource;
    let names = [&found.system_uuid, &found.serial, path, id, name];
    names.into_iter().all(Option::is_none)
}

/// The difference in what names the host or, without that, in its make. The name of the resource may change with the
/// firmware of the BMC.
fn difference(known: &SystemIdentity, found: &SystemIdentity) -> Option<Mismatch> {
    let earlier = SystemIdentity {
        resource: ResourceName::default(),
        ..known.clone()
    };
    difference_to_earlier(&earlier, found)
}

/// Whether a reading names a host, or a resource in the way of earlier ones.
fn is_named_like(known: &SystemIdentity, found: &SystemIdentity) -> bool {
    found.names_host()
        || !names_nothing(found) && (known.resource.path.is_none() || found.resource.path.is_some())
}
