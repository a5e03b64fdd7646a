//! What stands in the journal, in protobuf so that it can grow, and how the ledger's types map to it.

use rackhand_agent_core::ledger::{Hold, Operation, Outcome, Sequence, Term, TermSetBack};
use rackhand_proto::v1;

use super::messages::outcome_to_proto;

/// Which journal this is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct IdentityRecord {
    /// Random; chosen when the file was created.
    #[prost(string, tag = "1")]
    pub(crate) instance: String,
    /// When the file was created, nanoseconds of the Unix epoch.
    #[prost(int64, tag = "2")]
    pub(crate) created: i64,
    /// Why the file was created.
    #[prost(enumeration = "v1::JournalOrigin", tag = "3")]
    pub(crate) origin: i32,
}

/// The highest term of an election.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct TermRecord {
    /// The sequence number.
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    /// Who claimed it.
    #[prost(string, tag = "2")]
    pub(crate) holder: String,
    /// Another agent of the rack serves that term.
    #[prost(bool, tag = "3")]
    pub(crate) standby: bool,
    /// The number of the claim that said so; 0 in a record of an earlier version.
    #[prost(uint64, tag = "4")]
    pub(crate) sequence: u64,
}

/// The last command that one election had for one host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub(crate) struct SequenceRecord {
    /// The term number.
    #[prost(uint64, tag = "1")]
    pub(crate) term: u64,
    /// The sequence within it.
    #[prost(uint64, tag = "2")]
    pub(crate) sequence: u64,
}

/// Who keeps a host off.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HoldRecord {
    /// The host's name, for people.
    #[prost(string, tag = "1")]
    pub(crate) host: String,
    /// In whose name.
    #[prost(string, tag = "2")]
    pub(crate) owner: String,
    /// Who asked for it.
    #[prost(string, tag = "3")]
    pub(crate) by: String,
    /// Since when, nanoseconds of the Unix epoch.
    #[prost(int64, tag = "4")]
    pub(crate) since: i64,
    /// Every address under which the host was known, with those of its names. Empty in a record of
    /// an earlier version: then the key tells.
    #[prost(string, repeated, tag = "5")]
    pub(crate) addresses: Vec<String>,
    /// The election of the controller that asked; empty: an operator, or an earlier version wrote it.
    #[prost(string, tag = "6")]
    pub(crate) election: String,
}

/// An operation. No secret is in it.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OperationRecord {
    /// Its id.
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    /// The host's key: its BMC and system.
    #[prost(string, tag = "2")]
    pub(crate) key: String,
    /// The host's name.
    #[prost(string, tag = "3")]
    pub(crate) host: String,
    /// `off`, `on`, `soft-off`, `cycle`, `reset` or `nmi`; or a change beside power.
    #[prost(string, tag = "4")]
    pub(crate) action: String,
    /// On whose behalf.
    #[prost(string, tag = "5")]
    pub(crate) owner: String,
    /// The caller, as the journal names it.
    #[prost(string, tag = "6")]
    pub(crate) by: String,
    /// The election of the controller that asked; empty for an operator.
    #[prost(string, tag = "7")]
    pub(crate) election: String,
    /// Begin, nanoseconds of the Unix epoch.
    #[prost(int64, tag = "8")]
    pub(crate) begun: i64,
    /// Times at which a command was about to be sent.
    #[prost(int64, repeated, tag = "9")]
    pub(crate) sending: Vec<i64>,
    /// How it ended; absent while it runs.
    #[prost(message, optional, tag = "10")]
    pub(crate) outcome: Option<v1::Outcome>,
    /// When it ended.
    #[prost(int64, tag = "11")]
    pub(crate) ended: i64,
    /// What a change beside power sets, in words.
    #[prost(string, tag = "12")]
    pub(crate) detail: String,
    /// Requested with force.
    #[prost(bool, tag = "13")]
    pub(crate) force: bool,
    /// Whose hold it overrode.
    #[prost(string, tag = "14")]
    pub(crate) overrode: String,
    /// Who cancelled it.
    #[prost(string, tag = "15")]
    pub(crate) cancelled_by: String,
}

/// A term that was set back by hand.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct TermSetBackRecord {
    /// The name of the election.
    #[prost(string, tag = "1")]
    pub(crate) election: String,
    /// When, nanoseconds of the Unix epoch.
    #[prost(int64, tag = "2")]
    pub(crate) at: i64,
    /// The term before.
    #[prost(uint64, tag = "3")]
    pub(crate) from: u64,
    /// The term after.
    #[prost(uint64, tag = "4")]
    pub(crate) to: u64,
    /// The caller, as the journal names it.
    #[prost(string, tag = "5")]
    pub(crate) by: String,
    /// The reason that was given.
    #[prost(string, tag = "6")]
    pub(crate) reason: String,
}

impl From<TermRecord> for Term {
    fn from(record: TermRecord) -> Self {
        let TermRecord {
            number,
            holder,
            standby,
            sequence,
        } = record;
        Self {
            number,
            holder,
            standby,
            sequence,
        }
    }
}

impl From<Term> for TermRecord {
    fn from(record: Term) -> Self {
        let Term {
            number,
            holder,
            standby,
            sequence,
        } = record;
        Self {
            number,
            holder,
            standby,
            sequence,
        }
    }
}

impl From<SequenceRecord> for Sequence {
    fn from(record: SequenceRecord) -> Self {
        let SequenceRecord { term, sequence } = record;
        Self { term, sequence }
    }
}

impl From<Sequence> for SequenceRecord {
    fn from(record: Sequence) -> Self {
        let Sequence { term, sequence } = record;
        Self { term, sequence }
    }
}

impl From<HoldRecord> for Hold {
    fn from(record: HoldRecord) -> Self {
        let HoldRecord {
            host,
            owner,
            by,
            since,
            addresses,
            election,
        } = record;
        Self {
            host,
            owner,
            by,
            since,
            addresses,
            election,
        }
    }
}

impl From<Hold> for HoldRecord {
    fn from(record: Hold) -> Self {
        let Hold {
            host,
            owner,
            by,
            since,
            addresses,
            election,
        } = record;
        Self {
            host,
            owner,
            by,
            since,
            addresses,
            election,
        }
    }
}

impl From<TermSetBackRecord> for TermSetBack {
    fn from(record: TermSetBackRecord) -> Self {
        let TermSetBackRecord {
            election,
            at,
            from,
            to,
            by,
            reason,
        } = record;
        Self {
            election,
            at,
            from,
            to,
            by,
            reason,
        }
    }
}

impl From<TermSetBack> for TermSetBackRecord {
    fn from(record: TermSetBack) -> Self {
        let TermSetBack {
            election,
            at,
            from,
            to,
            by,
            reason,
        } = record;
        Self {
            election,
            at,
            from,
            to,
            by,
            reason,
        }
    }
}

impl From<OperationRecord> for Operation<v1::Outcome> {
    fn from(record: OperationRecord) -> Self {
        let OperationRecord {
            id,
            key,
            host,
            action,
            owner,
            by,
            election,
            begun,
            sending,
            outcome,
            ended,
            detail,
            force,
            overrode,
            cancelled_by,
        } = record;
        Self {
            id,
            key,
            host,
            action,
            owner,
            by,
            election,
            begun,
            sending,
            outcome: outcome.map(Outcome::Reported),
            ended,
            detail,
            force,
            overrode,
            cancelled_by,
        }
    }
}

impl From<Operation<v1::Outcome>> for OperationRecord {
    fn from(record: Operation<v1::Outcome>) -> Self {
        let Operation {
            id,
            key,
            host,
            action,
            owner,
            by,
            election,
            begun,
            sending,
            outcome,
            ended,
            detail,
            force,
            overrode,
            cancelled_by,
        } = record;
        Self {
            id,
            key,
            host,
            action,
            owner,
            by,
            election,
            begun,
            sending,
            outcome: outcome.map(outcome_to_proto),
            ended,
            detail,
            force,
            overrode,
            cancelled_by,
        }
    }
}
