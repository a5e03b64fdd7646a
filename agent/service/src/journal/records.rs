//! The stored form of the journal's records: JSON, so that fields can be added.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::Message;
use rackhand_agent_core::ledger::{Hold, Operation, Sequence, Term, TermSetBack};
use rackhand_proto::v1;
use serde::{Deserialize, Serialize};

/// Identity of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdentityRecord {
    /// Random instance id, chosen when the file was created.
    pub(crate) instance: String,
    /// Creation time of the file, in nanoseconds of the Unix epoch.
    pub(crate) created: i64,
    /// Reason why the file was created: a [`v1::JournalOrigin`].
    pub(crate) origin: i32,
}

impl IdentityRecord {
    pub(crate) fn origin(&self) -> v1::JournalOrigin {
        v1::JournalOrigin::try_from(self.origin).unwrap_or_default()
    }
}

/// An operation, or a change other than power. Contains no secret.
pub(crate) type OperationRecord = Operation<v1::Outcome>;

/// A record that the journal stores.
pub(super) trait Record: Sized {
    fn encode(&self) -> Result<Vec<u8>, serde_json::Error>;

    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error>;
}

macro_rules! records {
    ($($record:ty),*) => {$(
        impl Record for $record {
            fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
                serde_json::to_vec(self)
            }

            fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
                serde_json::from_slice(bytes)
            }
        }
    )*};
}

records!(IdentityRecord, Term, Sequence, Hold, TermSetBack);

/// Its report is a message of the protocol, in Base64.
impl Record for OperationRecord {
    fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let encoded = |report: v1::Outcome| {
            Ok::<_, serde_json::Error>(STANDARD.encode(report.encode_to_vec()))
        };
        serde_json::to_vec(&self.clone().try_map_report(encoded)?)
    }

    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let stored: Operation<String> = serde_json::from_slice(bytes)?;
        stored.try_map_report(|report| {
            let bytes = STANDARD.decode(report).map_err(serde::de::Error::custom)?;
            v1::Outcome::decode(bytes.as_slice()).map_err(serde::de::Error::custom)
        })
    }
}
