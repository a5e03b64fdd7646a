//! Which system the BMC of an operation must manage, where neither the caller nor the inventory says it (F5).

use jiff::Timestamp;
use rackhand_agent_core::ledger::Device;
use rackhand_bmc::operation::Expected;
use tracing::warn;

use super::Run;
use crate::journal::ReadSystem;

impl Run {
    /// What an earlier operation read of the system of this host; `None`: something else says which one it must be, or
    /// no operation has read one.
    pub(super) async fn remembered(&self) -> Option<ReadSystem> {
        if self.device == Device::Outlets || !self.request.expected.is_empty() {
            return None;
        }
        let keys = self.target.keys.clone();
        match self.context.journal.last_system(keys).await {
            Ok(system) => system,
            Err(error) => {
                let host = &self.target.host;
                warn!(%host, %error, "what earlier operations read of this host is not known");
                None
            }
        }
    }
}

/// The expectation that follows from it: the serial number, which a new mainboard is given again, else the UUID.
pub(super) fn expected(system: &ReadSystem) -> Expected {
    let said = |text: &String| (!text.is_empty()).then(|| text.clone());
    let serial = said(&system.identity.serial);
    Expected {
        system_uuid: match &serial {
            Some(_) => None,
            None => said(&system.identity.system_uuid),
        },
        serial,
        is_required: false,
    }
}

/// Where the expectation comes from, and what to do if it is wrong.
pub(super) fn origin(system: &ReadSystem) -> String {
    let at = Timestamp::from_nanosecond(i128::from(system.ended));
    let at = at.map(|at| format!("{at:.0}")).unwrap_or_default();
    format!(
        "the expected one is what operation {} of {at} read there; if the host was replaced, say so by serial or \
         system_uuid in the inventory",
        system.operation
    )
}

#[cfg(test)]
mod tests {
    use rackhand_bmc::SystemIdentity;
    use rackhand_proto::v1;

    use super::*;

    fn read(system_uuid: &str, serial: &str) -> ReadSystem {
        ReadSystem {
            operation: "off-1".to_owned(),
            ended: 1_700_000_000_000_000_000,
            identity: v1::SystemIdentity {
                system_uuid: system_uuid.to_owned(),
                serial: serial.to_owned(),
                ..v1::SystemIdentity::default()
            },
        }
    }

    fn found(system_uuid: &str, serial: &str) -> SystemIdentity {
        let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        SystemIdentity {
            system_uuid: said(system_uuid),
            serial: said(serial),
            ..SystemIdentity::default()
        }
    }

    #[test]
    fn f5_host_with_another_serial_number_is_another_one_and_a_new_mainboard_is_not() {
        const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
        const B: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";
        for (before, now, is_other) in [
            ((A, "S1"), (A, "S1"), false),
            ((A, "S1"), (B, "S1"), false),
            ((A, "S1"), (B, "S2"), true),
            ((A, ""), (B, "S2"), true),
            ((A, ""), (A, "S2"), false),
            // A BMC may leave both out while the host is off.
            ((A, "S1"), ("", ""), false),
        ] {
            let expected = expected(&read(before.0, before.1));
            let mismatch = expected.mismatch(&found(now.0, now.1));
            assert_eq!(mismatch.is_some(), is_other, "{before:?} {now:?}");
        }
    }

    #[test]
    fn origin_names_the_operation_and_its_time() {
        let origin = origin(&read("", "S1"));
        assert!(
            origin.contains("operation off-1 of 2023-11-14T22:13:20Z"),
            "{origin}"
        );
    }
}
