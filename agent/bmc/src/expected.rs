//! The identity that a system must have, and how a reading differs from it.

use std::fmt;

use rackhand_identity::{
    IdentityMatch, SystemUuid, compare_serials, compare_system_uuids, is_known_text,
};

use crate::{PowerSource, SystemIdentity};

/// Name of the serial number in a [`Mismatch`].
pub(crate) const SERIAL_NUMBER: &str = "serial number";

/// Identity that a system must have; `None` is not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Expected {
    /// SMBIOS system UUID, in either byte order.
    pub system_uuid: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Serial number of the inventory beside one that the caller states: says that a host or its board was replaced, and
    /// decides nothing else.
    pub inventory_serial: Option<String>,
    /// A system that reports no identity is not the expected one.
    pub is_required: bool,
    /// What earlier operations read of the system: decides where the two above do not, and about a serial number over
    /// Redfish that is not stated. Its serial number outweighs its UUID, because a new mainboard is given the serial
    /// number again; where neither can be compared, another manufacturer or model is another system.
    pub earlier: Option<SystemIdentity>,
}

/// A difference between the expected and the reported identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mismatch {
    /// The compared property.
    pub what: &'static str,
    /// The expected value.
    pub expected: String,
    /// The value that the BMC reports; empty: it reports none.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            expected,
            found,
        } = self;
        if found.is_empty() {
            write!(f, "no {what}, expected {expected}")
        } else {
            write!(f, "{what} {found}, expected {expected}")
        }
    }
}

impl Expected {
    /// Whether nothing is expected, in which case every system is the expected one.
    pub fn is_empty(&self) -> bool {
        self.system_uuid.is_none() && self.serial.is_none() && self.earlier.is_none()
    }

    /// Compares the reported identity. A value that either side lacks is not compared, and equal UUIDs
    /// settle it, because serial numbers have several notations.
    pub fn compare(&self, found: &SystemIdentity) -> IdentityMatch {
        let earlier = || match &self.earlier {
            Some(earlier) => compare_earlier(earlier, found),
            None => IdentityMatch::Unknown,
        };
        match (self.compare_uuids(found), self.compare_serials(found)) {
            (IdentityMatch::Unknown, IdentityMatch::Unknown) => earlier(),
            (IdentityMatch::Unknown, serials) => serials,
            (uuids, _) => uuids,
        }
    }

    /// The difference to the reported identity, if any.
    pub fn mismatch(&self, found: &SystemIdentity) -> Option<Mismatch> {
        let uuid = || Some(uuid_mismatch(&self.system_uuid, found));
        let serial = || Some(serial_mismatch(&self.serial, found));
        match (self.compare_uuids(found), self.compare_serials(found)) {
            (IdentityMatch::Same, _) | (IdentityMatch::Unknown, IdentityMatch::Same) => None,
            (IdentityMatch::Different, _) => uuid(),
            (IdentityMatch::Unknown, IdentityMatch::Different) => serial(),
            (IdentityMatch::Unknown, IdentityMatch::Unknown) if !self.is_required => {
                difference_to_earlier(self.earlier.as_ref()?, found)
            }
            _ if self.system_uuid.is_some() => uuid(),
            _ if self.serial.is_some() => serial(),
            _ => None,
        }
    }

    /// The difference to an identity that `source` has reported. Serial numbers of Redfish have one notation, so that one
    /// which earlier operations did not read there is another system although a UUID is as stated: boards of a series may
    /// share it. Whoever states this serial number decides.
    pub fn mismatch_at(&self, source: PowerSource, found: &SystemIdentity) -> Option<Mismatch> {
        let sister = || {
            let earlier = self.earlier.as_ref()?;
            let is_other = compare_read_serials(earlier, found) == IdentityMatch::Different;
            let is_stated = [&self.serial, &self.inventory_serial]
                .into_iter()
                .any(|stated| {
                    compare_known(stated, &found.serial, compare_serials) == IdentityMatch::Same
                });
            (source == PowerSource::Redfish && is_other && !is_stated)
                .then(|| serial_mismatch(&earlier.serial, found))
        };
        self.mismatch(found).or_else(sister)
    }

    fn compare_uuids(&self, found: &SystemIdentity) -> IdentityMatch {
        compare_known(&self.system_uuid, &found.system_uuid, compare_system_uuids)
    }

    fn compare_serials(&self, found: &SystemIdentity) -> IdentityMatch {
        compare_known(&self.serial, &found.serial, compare_serials)
    }
}

/// Compares what both sides report.
fn compare_known(
    one: &Option<String>,
    other: &Option<String>,
    compare: fn(&str, &str) -> IdentityMatch,
) -> IdentityMatch {
    match (one, other) {
        (Some(one), Some(other)) => compare(one, other),
        _ => IdentityMatch::Unknown,
    }
}

/// Compares the serial numbers of two readings. That of Dell's `ComputerSystem` is the mainboard's, which a repair
/// changes; its UUID contains the service tag, so that an equal one names the host.
fn compare_read_serials(earlier: &SystemIdentity, found: &SystemIdentity) -> IdentityMatch {
    let serials = compare_known(&earlier.serial, &found.serial, compare_serials);
    let is_of_board = earlier.is_dell() && found.is_dell();
    match serials {
        IdentityMatch::Different if is_of_board => match compare_read_uuids(earlier, found) {
            IdentityMatch::Unknown => IdentityMatch::Different,
            decided => decided,
        },
        decided => decided,
    }
}

fn compare_read_uuids(earlier: &SystemIdentity, found: &SystemIdentity) -> IdentityMatch {
    compare_known(
        &earlier.system_uuid,
        &found.system_uuid,
        compare_system_uuids,
    )
}

/// Compares what names the host with what earlier operations read of it: the serial number decides, else the UUID.
pub fn compare_earlier(earlier: &SystemIdentity, found: &SystemIdentity) -> IdentityMatch {
    match compare_read_serials(earlier, found) {
        IdentityMatch::Unknown => compare_read_uuids(earlier, found),
        decided => decided,
    }
}

/// What differs from what earlier operations read, as [`compare_earlier`] decides; else another make or resource.
pub(crate) fn difference_to_earlier(
    earlier: &SystemIdentity,
    found: &SystemIdentity,
) -> Option<Mismatch> {
    match (
        compare_read_serials(earlier, found),
        compare_earlier(earlier, found),
    ) {
        (_, IdentityMatch::Same) => None,
        (_, IdentityMatch::Unknown) => contradiction(&comparable(earlier), &comparable(found)),
        (IdentityMatch::Different, _) => Some(serial_mismatch(&earlier.serial, found)),
        _ => Some(uuid_mismatch(&earlier.system_uuid, found)),
    }
}

fn uuid_mismatch(expected: &Option<String>, found: &SystemIdentity) -> Mismatch {
    Mismatch {
        what: "system UUID",
        expected: expected.clone().unwrap_or_default(),
        found: found.system_uuid.clone().unwrap_or_default(),
    }
}

fn serial_mismatch(expected: &Option<String>, found: &SystemIdentity) -> Mismatch {
    Mismatch {
        what: SERIAL_NUMBER,
        expected: expected.clone().unwrap_or_default(),
        found: found.serial.clone().unwrap_or_default(),
    }
}

/// Without placeholders, which name nothing.
pub fn comparable(found: &SystemIdentity) -> SystemIdentity {
    let text = |text: &Option<String>| text.clone().filter(|text| is_known_text(text));
    let uuid = found.system_uuid.clone();
    SystemIdentity {
        system_uuid: uuid.filter(|uuid| SystemUuid::parse(uuid).is_some()),
        serial: text(&found.serial),
        vendor: text(&found.vendor),
        model: text(&found.model),
        resource: found.resource.clone(),
    }
}

/// What both report and differs, apart from what names a host.
pub(crate) fn contradiction(known: &SystemIdentity, found: &SystemIdentity) -> Option<Mismatch> {
    let (known_name, found_name) = (&known.resource, &found.resource);
    [
        ("@odata.id", &known_name.path, &found_name.path),
        ("Id", &known_name.id, &found_name.id),
        ("manufacturer", &known.vendor, &found.vendor),
        ("model", &known.model, &found.model),
    ]
    .into_iter()
    .find_map(|(what, known, found)| {
        let (known, found) = (known.as_ref()?, found.as_ref()?);
        (!known.eq_ignore_ascii_case(found)).then(|| Mismatch {
            what,
            expected: known.clone(),
            found: found.clone(),
        })
    })
}
