//! Which system the BMC of an operation must manage, as far as neither the caller nor the inventory says it (F5).

use rackhand_agent_core::ledger::Device;
use rackhand_bmc::{
    SystemIdentity,
    operation::{Expected, Mismatch},
};
use tracing::warn;

use super::Run;
use crate::journal::ReadSystem;

impl Run {
    /// What earlier operations read of the system of this host; `None`: none has read one, or it is not the one that
    /// this operation expects.
    pub(super) async fn remembered(&self) -> Option<ReadSystem> {
        if self.device == Device::Outlets {
            return None;
        }
        let keys = self.target.keys.clone();
        match self.context.journal.last_system(keys).await {
            Ok(system) => system.filter(|system| system.applies(&self.request.expected)),
            Err(error) => {
                let host = &self.target.host;
                warn!(%host, %error, "what earlier operations read of this host is not known");
                None
            }
        }
    }
}

/// Whether the difference is one to what was read earlier.
pub(in crate::engine) fn is_to_earlier(mismatch: &Mismatch, stated: &Expected) -> bool {
    let said = [&stated.system_uuid, &stated.serial];
    !said.contains(&&Some(mismatch.expected.clone()))
}

/// Where an expected value comes from that neither caller nor inventory have said.
pub(in crate::engine) fn origin(remembered: Option<&ReadSystem>, mismatch: &Mismatch) -> String {
    let names = |system: &&ReadSystem| {
        let SystemIdentity {
            system_uuid,
            serial,
            vendor,
            model,
            ..
        } = &system.identity;
        [system_uuid, serial, vendor, model].contains(&&Some(mismatch.expected.clone()))
    };
    match remembered.filter(names) {
        Some(system) => system.origin(),
        None => "the expected one is what was read there before; if the host or its board was replaced, \
                 write serial and system_uuid of the new one into the inventory"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rackhand_bmc::IdentityMatch;

    use super::*;

    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
    const B: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";

    /// System UUID, serial number and manufacturer.
    type Named = (&'static str, &'static str, &'static str);

    fn found((system_uuid, serial, vendor): Named) -> SystemIdentity {
        let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        SystemIdentity {
            system_uuid: said(system_uuid),
            serial: said(serial),
            vendor: said(vendor),
            ..SystemIdentity::default()
        }
    }

    fn read(before: Named) -> ReadSystem {
        ReadSystem {
            operation: "off-1".to_owned(),
            ended: 1_700_000_000_000_000_000,
            identity: found(before),
        }
    }

    fn stated(system_uuid: &'static str, serial: &'static str) -> Expected {
        let said = found((system_uuid, serial, ""));
        Expected {
            system_uuid: said.system_uuid,
            serial: said.serial,
            ..Expected::default()
        }
    }

    /// The property of the mismatch; empty: it is the expected system.
    fn compared(stated: &Expected, before: Named, now: Named) -> &'static str {
        let system = read(before);
        let expected = match system.applies(stated) {
            true => system.expected(stated),
            false => stated.clone(),
        };
        let mismatch = expected.mismatch(&found(now));
        let is_different = expected.compare(&found(now)) == IdentityMatch::Different;
        assert!(mismatch.is_some() || !is_different, "{before:?} {now:?}");
        mismatch.map_or("", |mismatch| mismatch.what)
    }

    #[test]
    fn f5_host_with_another_serial_number_is_another_one_and_a_new_mainboard_is_not() {
        const OEM: &str = "To be filled by O.E.M.";
        for (before, now, other) in [
            ((A, "S1", "V"), (A, "S1", "V"), ""),
            ((A, "S1", "V"), (B, "S1", "V"), ""),
            ((A, "S1", "V"), (B, "S2", "V"), "serial number"),
            ((A, "S1", "V"), (A, "S2", "V"), "serial number"),
            ((A, "", "V"), (B, "S2", "V"), "system UUID"),
            ((A, "", "V"), (A, "S2", "V"), ""),
            // A serial number that is not reported does not excuse another UUID.
            ((A, "S1", "V"), (B, "", "V"), "system UUID"),
            ((A, "S1", "V"), (B, "None", "V"), "system UUID"),
            ((A, "S1", "V"), (B, OEM, "V"), "system UUID"),
            ((A, "S1", "V"), (A, "", "W"), ""),
            // A BMC may leave both out while the host is off, but it is still of the same make.
            ((A, "S1", "V"), ("", "", "V"), ""),
            ((A, "S1", "V"), ("", "", ""), ""),
            ((A, "S1", "V"), ("", "", "W"), "manufacturer"),
            ((A, "S1", "V"), ("", OEM, "W"), "manufacturer"),
            ((A, "", "V"), ("", "", "W"), "manufacturer"),
        ] {
            let found = compared(&Expected::default(), before, now);
            assert_eq!(found, other, "{before:?} {now:?}");
        }
    }

    #[test]
    fn f5_what_inventory_or_caller_say_goes_before_what_was_read_earlier() {
        let before = (A, "S1", "V");
        for (said, now, other) in [
            // The inventory has the serial number, the journal the UUID.
            (stated("", "S1"), (B, "", "V"), "system UUID"),
            (stated("", "S1"), (B, "S1", "V"), ""),
            (stated("", "S1"), (A, "S2", "V"), "serial number"),
            (stated("", "S1"), ("", "", "W"), "manufacturer"),
            (stated(A, ""), ("", "S2", "V"), "serial number"),
            (stated(A, ""), (A, "S2", "V"), ""),
            (stated(A, ""), (B, "S1", "V"), "system UUID"),
            // The host was replaced, and the inventory says so.
            (stated("", "S2"), (B, "S2", "W"), ""),
            (stated("", "S2"), (B, "", "W"), ""),
            (stated(B, ""), (B, "", "W"), ""),
            (stated(B, ""), ("", "", "W"), ""),
            (stated(B, ""), (A, "S1", "V"), "system UUID"),
        ] {
            assert_eq!(compared(&said, before, now), other, "{said:?} {now:?}");
        }
    }

    #[test]
    fn origin_names_the_operation_and_its_time() {
        let system = read(("", "S1", ""));
        let of = |expected: &str| Mismatch {
            what: "serial number",
            expected: expected.to_owned(),
            found: "S2".to_owned(),
        };
        let origin = origin(Some(&system), &of("S1"));
        assert!(
            origin.contains("operation off-1 of 2023-11-14T22:13:20Z"),
            "{origin}"
        );
        for (system, expected) in [(None, "S1"), (Some(&system), "S3")] {
            let origin = super::origin(system, &of(expected));
            assert!(origin.contains("what was read there before"), "{origin}");
        }
    }

    #[test]
    fn difference_to_what_was_stated_has_no_earlier_operation() {
        let of = |expected: &Expected, now| expected.mismatch(&found(now)).unwrap();
        let said = stated("", "S1");
        let whole = read((A, "S1", "V")).expected(&said);
        assert!(is_to_earlier(&of(&whole, (B, "", "V")), &said));
        assert!(!is_to_earlier(&of(&whole, (B, "S2", "V")), &said));
    }
}
