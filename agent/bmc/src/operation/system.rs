//! Which system a reading is of, compared with earlier ones by the same protocol (F5).
//!
//! Pure. A BMC, or a proxy before it, may answer with the document of another system, or with one that names none. A
//! UUID or a serial number names a host. Some BMCs leave both out while the host is off, so that the name of the
//! resource within the BMC is enough then.

use rackhand_identity::IdentityMatch;

use super::{Expected, Mismatch};
use crate::{
    PowerSource, SystemIdentity,
    expected::{comparable, contradiction},
};

/// What a reading says about its system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sameness {
    /// The one that was read before, or the first one.
    Same,
    /// It names a host for the first time: what was read before may have been of another one.
    Begins,
    /// It does not name the system that was read before.
    Unnamed,
    /// Another one.
    Other(Mismatch),
}

/// What was read of one system by one protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct KnownSystem(Option<SystemIdentity>);

impl KnownSystem {
    /// Everything that was read of it.
    pub(super) fn identity(&self) -> Option<&SystemIdentity> {
        self.0.as_ref()
    }

    /// Compares a reading with what was read before, and remembers what is new in it if it is of the same system.
    pub(super) fn read(&mut self, source: PowerSource, found: &SystemIdentity) -> Sameness {
        let found = comparable(found);
        let Some(known) = &mut self.0 else {
            self.0 = Some(found);
            return Sameness::Same;
        };
        let sameness = compare(known, &found, source);
        if matches!(sameness, Sameness::Same | Sameness::Begins) {
            *known = std::mem::take(known).or(found);
        }
        sameness
    }
}

fn compare(known: &SystemIdentity, found: &SystemIdentity, source: PowerSource) -> Sameness {
    let uuid = Expected {
        system_uuid: known.system_uuid.clone(),
        ..Expected::default()
    };
    let serial = Expected {
        serial: known.serial.clone(),
        ..Expected::default()
    };
    // Boards of a series may share a UUID, and one protocol reports one serial number of a host.
    let names = [uuid, serial];
    if let Some(mismatch) = names.iter().find_map(|known| known.mismatch(found)) {
        return Sameness::Other(mismatch);
    }
    let is_same = |known: &Expected| known.compare(found) == IdentityMatch::Same;
    // The answers of other protocols have no names of their own; an RMCP+ session is with one BMC.
    if source != PowerSource::Redfish || names.iter().any(is_same) {
        return Sameness::Same;
    }
    if let Some(mismatch) = contradiction(known, found) {
        return Sameness::Other(mismatch);
    }
    if !known.names_host() && found.names_host() {
        return Sameness::Begins;
    }
    let is_nothing_known = *known == SystemIdentity::default();
    if is_nothing_known || is_same_resource(known, found) {
        Sameness::Same
    } else {
        Sameness::Unnamed
    }
}

/// Whether both name the same resource of the BMC: its path as before, and its `Id`, or its `Name` without one. Where
/// only one of path and names was known, that is enough.
fn is_same_resource(known: &SystemIdentity, found: &SystemIdentity) -> bool {
    let (known_name, found_name) = (&known.resource, &found.resource);
    let is_kept =
        |known: &Option<String>, found: &Option<String>| known.is_none() || known == found;
    let has_name = known_name.id.is_some() || known_name.name.is_some();
    let is_named = match (&known_name.id, &found_name.id) {
        (Some(known), Some(found)) => known == found,
        _ if known_name.name.is_some() => known_name.name == found_name.name,
        _ => known_name.id.is_none(),
    };
    if known_name.path.is_some() || has_name {
        return is_kept(&known_name.path, &found_name.path) && is_named;
    }
    // Nothing but a make and a model was ever reported.
    let has_host = known.system_uuid.is_some() || known.serial.is_some();
    !has_host && is_kept(&known.vendor, &found.vendor) && is_kept(&known.model, &found.model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceName;

    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
    const PLACEHOLDER: &str = "03000200-0400-0500-0006-000700080009";

    /// UUID, serial number, make, model, path, Id and Name; `-`: not reported.
    fn of(texts: [&str; 7]) -> SystemIdentity {
        let [system_uuid, serial, vendor, model, path, id, name] =
            texts.map(|text| (text != "-").then(|| text.to_owned()));
        SystemIdentity {
            system_uuid,
            serial,
            vendor,
            model,
            resource: ResourceName { path, id, name },
        }
    }

    fn compared(before: [&str; 7], now: [&str; 7], source: PowerSource) -> &'static str {
        let mut known = KnownSystem::default();
        assert_eq!(known.read(source, &of(before)), Sameness::Same);
        match known.read(source, &of(now)) {
            Sameness::Same => "same",
            Sameness::Begins => "begins",
            Sameness::Unnamed => "unnamed",
            Sameness::Other(_) => "other",
        }
    }

    const WHOLE: [&str; 7] = [A, "S1", "V", "M", "/s/1", "1", "n"];
    const NONE: [&str; 7] = ["-"; 7];

    #[test]
    fn f5_document_that_does_not_name_the_system_confirms_nothing() {
        for (before, now, expected) in [
            (WHOLE, WHOLE, "same"),
            // A BMC that leaves out what names the host while it is off.
            (WHOLE, ["-", "-", "V", "M", "/s/1", "1", "n"], "same"),
            (WHOLE, ["-", "-", "-", "-", "/s/1", "1", "-"], "same"),
            (WHOLE, ["-", "-", "-", "-", "/s/1", "-", "n"], "same"),
            (WHOLE, ["-", "S1", "-", "-", "-", "-", "-"], "same"),
            (
                WHOLE,
                [
                    PLACEHOLDER,
                    "To be filled by O.E.M.",
                    "V",
                    "M",
                    "/s/1",
                    "1",
                    "n",
                ],
                "same",
            ),
            (WHOLE, [A, "S1", "W", "N", "/s/1", "1", "n"], "same"),
            // Less than its resource.
            (WHOLE, NONE, "unnamed"),
            (WHOLE, ["-", "-", "V", "M", "-", "-", "-"], "unnamed"),
            (WHOLE, ["-", "-", "V", "M", "/s/1", "-", "-"], "unnamed"),
            (WHOLE, ["-", "-", "V", "M", "-", "1", "n"], "unnamed"),
            ([A, "-", "-", "-", "-", "-", "-"], NONE, "unnamed"),
            (["-", "-", "V", "M", "/s/1", "1", "n"], NONE, "unnamed"),
            (["-", "-", "V", "M", "-", "-", "-"], NONE, "unnamed"),
            // Another one.
            (WHOLE, ["-", "-", "V", "M", "/s/2", "1", "n"], "other"),
            (WHOLE, ["-", "-", "V", "M", "/s/1", "2", "n"], "other"),
            (WHOLE, ["-", "-", "W", "M", "/s/1", "1", "n"], "other"),
            (WHOLE, ["-", "-", "V", "N", "/s/1", "1", "n"], "other"),
            (WHOLE, ["-", "S2", "V", "M", "/s/1", "1", "n"], "other"),
            (WHOLE, [A, "S2", "V", "M", "/s/1", "1", "n"], "other"),
            // A host that is named for the first time.
            (["-", "-", "V", "M", "/s/1", "1", "n"], WHOLE, "begins"),
            (NONE, WHOLE, "begins"),
            // BMCs that report nothing.
            (NONE, NONE, "same"),
            (
                ["-", "-", "V", "M", "/s/1", "-", "-"],
                ["-", "-", "-", "-", "/s/1", "-", "-"],
                "same",
            ),
            (
                ["-", "-", "V", "M", "-", "-", "-"],
                ["-", "-", "V", "M", "-", "-", "-"],
                "same",
            ),
        ] {
            let found = compared(before, now, PowerSource::Redfish);
            assert_eq!(found, expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn protocols_without_names_of_resources_may_leave_the_identity_out() {
        for (before, now) in [(WHOLE, NONE), (NONE, WHOLE)] {
            assert_eq!(compared(before, now, PowerSource::Ipmi), "same");
        }
        let other = [
            "4c4c4544-0042-3510-8054-c2c04f4e4e33",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
        ];
        assert_eq!(compared(WHOLE, other, PowerSource::Ipmi), "other");
    }

    #[test]
    fn system_is_compared_with_everything_that_was_read_of_it() {
        let mut known = KnownSystem::default();
        let less = of(["-", "-", "V", "M", "/s/1", "1", "n"]);
        for identity in [of(WHOLE), less] {
            assert_eq!(known.read(PowerSource::Redfish, &identity), Sameness::Same);
        }
        assert_eq!(known.identity(), Some(&of(WHOLE)));
        let other = of([
            A.replace("32", "33").as_str(),
            "-",
            "V",
            "M",
            "/s/1",
            "1",
            "n",
        ]);
        let sameness = known.read(PowerSource::Redfish, &other);
        assert!(matches!(sameness, Sameness::Other(_)), "{sameness:?}");
    }
}
