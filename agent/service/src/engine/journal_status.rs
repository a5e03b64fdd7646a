//! The journal as a whole, for callers and metrics, without access to its records.

use rackhand_proto::v1;
use tokio_util::sync::CancellationToken;

use crate::{convert::journal_to_proto, journal::Journal, metrics::JournalState};

/// The identity and the state of the journal.
#[derive(Clone)]
pub(crate) struct JournalStatus(Journal);

impl JournalStatus {
    pub(super) fn new(journal: Journal) -> Self {
        Self(journal)
    }

    /// The identity of the journal.
    pub(crate) fn identity(&self) -> v1::Journal {
        journal_to_proto(self.0.identity(), self.0.generation())
    }

    /// Why the journal cannot be written; `None`: it can.
    pub(super) fn trouble(&self) -> Option<String> {
        self.0.trouble()
    }

    /// Cancelled when only a new process can continue with the journal.
    pub(crate) fn lost(&self) -> CancellationToken {
        self.0.lost()
    }

    /// State of the journal, for metrics.
    pub(crate) fn state(&self) -> JournalState {
        let journal = &self.0;
        JournalState {
            writable: journal.trouble().is_none(),
            reopened: journal.reopened(),
            created: journal.identity().created / 1_000_000_000,
            origin: match journal.identity().origin() {
                v1::JournalOrigin::Unspecified | v1::JournalOrigin::First => "first",
                v1::JournalOrigin::Missing => "missing",
                v1::JournalOrigin::Damaged => "damaged",
                v1::JournalOrigin::Restored => "restored",
            },
        }
    }
}
