//! Which system the operations of a host have read (F5).
//!
//! Must never: let a reading that names less than is known, and contradicts it, replace it.

use jiff::Timestamp;
use rackhand_agent_core::{host_key::HostKeys, ledger::Device};
use rackhand_bmc::{
    IdentityMatch, SystemIdentity,
    operation::{Expected, comparable, compare_earlier},
};
use rackhand_proto::v1;
use redb::ReadableTable;

use super::{
    JournalError, OperationRecord, RecordedOutcome,
    store::ReadTx,
    tables::{ENDED, OPERATIONS, get},
};

/// Operations that are looked at for what was read of a host.
const MAX_LOOKED: usize = 512;

/// What operations read of the system of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadSystem {
    /// Id of the newest operation that read all that names the host.
    pub(crate) operation: String,
    /// Its end, in nanoseconds of the Unix epoch.
    pub(crate) ended: i64,
    /// Without placeholders; system UUID or serial number is known.
    pub(crate) identity: SystemIdentity,
}

impl ReadSystem {
    /// Whether it may be the expected system. Otherwise the host was replaced since.
    pub(crate) fn applies(&self, stated: &Expected) -> bool {
        stated.compare(&self.identity) != IdentityMatch::Different
    }

    /// The expectation, with what was read.
    pub(crate) fn expected(&self, stated: &Expected) -> Expected {
        Expected {
            earlier: Some(self.identity.clone()),
            ..stated.clone()
        }
    }

    /// Where the expectation comes from, and what to do if it is wrong.
    pub(crate) fn origin(&self) -> String {
        let at = Timestamp::from_nanosecond(i128::from(self.ended));
        let at = at.map(|at| format!("{at:.0}")).unwrap_or_default();
        format!(
            "the expected one is what operation {} of {at} read there; if the host or its board was replaced, \
             write serial and system_uuid of the new one into the inventory",
            self.operation
        )
    }
}

/// What the confirmed operations at the BMC of the host read of its system over Redfish, among the newest
/// operations. A GUID over IPMI is not remembered: some BMCs have a new one at each start.
pub(super) fn last_system(
    tx: &ReadTx,
    host: &HostKeys,
) -> Result<Option<ReadSystem>, JournalError> {
    let ended = tx.open(ENDED)?;
    let newest = ended.iter().map_err(JournalError::storage)?.rev();
    let mut read = Vec::new();
    for entry in newest.take(MAX_LOOKED) {
        let (at_and_id, _) = entry.map_err(JournalError::storage)?;
        let id = at_and_id.value().1;
        let Some(record) = get::<OperationRecord>(tx, OPERATIONS, id)? else {
            continue;
        };
        if record.device == Device::Bmc
            && host.mean(&record.key)
            && let Some(RecordedOutcome::Reported(outcome)) = &record.outcome
            && outcome.code() == v1::OutcomeCode::Confirmed
        {
            let systems = outcome.readings.iter().rev().filter_map(read_system);
            read.extend(systems.map(|identity| ReadSystem {
                operation: record.id.clone(),
                ended: record.ended,
                identity,
            }));
        }
    }
    Ok(read.into_iter().rev().fold(None, known))
}

/// The system that a reading names.
fn read_system(reading: &v1::PowerReading) -> Option<SystemIdentity> {
    if reading.protocol() != v1::Protocol::Redfish {
        return None;
    }
    let identity = reading.identity.as_ref()?;
    let said = |text: &String| (!text.is_empty()).then(|| text.clone());
    let identity = comparable(&SystemIdentity {
        system_uuid: said(&identity.system_uuid),
        serial: said(&identity.serial),
        vendor: said(&identity.vendor),
        model: said(&identity.model),
        ..SystemIdentity::default()
    });
    identity.names_host().then_some(identity)
}

/// What is known after a later reading. Another system is one that an operation was told to expect, and replaces what
/// was known, unless it names less: then it may be one that nothing was compared with.
fn known(known: Option<ReadSystem>, later: ReadSystem) -> Option<ReadSystem> {
    let Some(known) = known else {
        return Some(later);
    };
    let lacks = |known: &Option<String>, later: &Option<String>| known.is_some() && later.is_none();
    let (before, now) = (&known.identity, &later.identity);
    let names_less =
        lacks(&before.serial, &now.serial) || lacks(&before.system_uuid, &now.system_uuid);
    if compare_earlier(before, now) == IdentityMatch::Different {
        return Some(if names_less { known } else { later });
    }
    let identity = later.identity.or(known.identity);
    let (operation, ended) = match names_less {
        true => (known.operation, known.ended),
        false => (later.operation, later.ended),
    };
    Some(ReadSystem {
        operation,
        ended,
        identity,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
    const B: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";

    fn read(uuid: &str, serial: &str) -> Option<SystemIdentity> {
        read_system(&v1::PowerReading {
            protocol: v1::Protocol::Redfish.into(),
            identity: Some(v1::SystemIdentity {
                system_uuid: uuid.to_owned(),
                serial: serial.to_owned(),
                ..v1::SystemIdentity::default()
            }),
            ..v1::PowerReading::default()
        })
    }

    /// What is known after these readings of system UUID and serial number, and the number of the operation.
    fn after(readings: &[(&str, &str)]) -> (String, String, String) {
        let systems = readings.iter().enumerate().filter_map(|(number, read_of)| {
            Some(ReadSystem {
                operation: number.to_string(),
                ended: 0,
                identity: read(read_of.0, read_of.1)?,
            })
        });
        let known = systems.fold(None, known).unwrap();
        let text = |text: Option<String>| text.unwrap_or_default();
        let SystemIdentity {
            system_uuid,
            serial,
            ..
        } = known.identity;
        (text(system_uuid), text(serial), known.operation)
    }

    #[test]
    fn f5_reading_that_names_less_replaces_nothing() {
        for (readings, expected) in [
            (&[(A, "S1"), (A, "")][..], (A, "S1", "0")),
            (&[(A, "S1"), ("", "S1")], (A, "S1", "0")),
            (&[(A, "S1"), (A, "S1")], (A, "S1", "1")),
            // Another system without a serial number, or with a placeholder for one.
            (&[(A, "S1"), (B, "")], (A, "S1", "0")),
            (&[(A, "S1"), (B, "None")], (A, "S1", "0")),
            (&[(A, "S1"), (B, "To be filled by O.E.M.")], (A, "S1", "0")),
            (&[(A, "S1"), ("", "S2")], (A, "S1", "0")),
            (&[(A, "S1"), (B, ""), (A, "S1")], (A, "S1", "2")),
            // A new mainboard.
            (&[(A, "S1"), (B, "S1")], (B, "S1", "1")),
            (&[(A, "S1"), (B, "S1"), (B, "")], (B, "S1", "1")),
            // Another host, that the caller or the inventory named.
            (&[(A, "S1"), (B, "S2")], (B, "S2", "1")),
            (&[(A, ""), (B, "")], (B, "", "1")),
            // What was not known before.
            (&[(A, ""), (A, "S1")], (A, "S1", "1")),
            (&[(B, ""), (A, "S1")], (A, "S1", "1")),
        ] {
            let (uuid, serial, operation) = expected;
            let expected = (uuid.to_owned(), serial.to_owned(), operation.to_owned());
            assert_eq!(after(readings), expected, "{readings:?}");
        }
    }

    #[test]
    fn placeholders_and_other_protocols_name_no_system() {
        assert_eq!(read("", ""), None);
        assert_eq!(read("03000200-0400-0500-0006-000700080009", "None"), None);
        let by_ipmi = v1::PowerReading {
            protocol: v1::Protocol::Ipmi.into(),
            identity: Some(v1::SystemIdentity {
                system_uuid: A.to_owned(),
                ..v1::SystemIdentity::default()
            }),
            ..v1::PowerReading::default()
        };
        assert_eq!(read_system(&by_ipmi), None);
    }
}
