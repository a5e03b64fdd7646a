//! Records of the journal in protobuf, so that fields can be added, and their conversion from and
//! to the ledger's types.

use rackhand_agent_core::ledger::{
    Device, Hold, Lifetime, Operation, Outcome, Sequence, Term, TermSetBack,
};
use rackhand_proto::v1;

use super::messages::outcome_to_proto;

/// Identity of the journal.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct IdentityRecord {
    /// Random instance id, chosen when the file was created.
    #[prost(string, tag = "1")]
    pub(crate) instance: String,
    /// Creation time of the file, in nanoseconds of the Unix epoch.
    #[prost(int64, tag = "2")]
    pub(crate) created: i64,
    /// Reason why the file was created.
    #[prost(enumeration = "v1::JournalOrigin", tag = "3")]
    pub(crate) origin: i32,
}

/// The highest term of an election.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct TermRecord {
    /// The term number.
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    /// The holder that claimed the term.
    #[prost(string, tag = "2")]
    pub(crate) holder: String,
    /// Whether another agent of the rack serves this term.
    #[prost(bool, tag = "3")]
    pub(crate) standby: bool,
    /// Sequence number of the claim; 0 in a record of an earlier version.
    #[prost(uint64, tag = "4")]
    pub(crate) sequence: u64,
}

/// The last command of one election for one host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub(crate) struct SequenceRecord {
    /// Term number of the command.
    #[prost(uint64, tag = "1")]
    pub(crate) term: u64,
    /// Sequence number within the term.
    #[prost(uint64, tag = "2")]
    pub(crate) sequence: u64,
}

/// A hold: an owner keeps a host off.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HoldRecord {
    /// Name of the host, for messages.
    #[prost(string, tag = "1")]
    pub(crate) host: String,
    /// Owner of the hold.
    #[prost(string, tag = "2")]
    pub(crate) owner: String,
    /// Caller that requested the hold.
    #[prost(string, tag = "3")]
    pub(crate) by: String,
    /// Start of the hold, in nanoseconds of the Unix epoch.
    #[prost(int64, tag = "4")]
    pub(crate) since: i64,
    /// Every address under which the host was known, with the resolved ones. Empty in a record of
    /// an earlier version, where the key applies.
    #[prost(string, repeated, tag = "5")]
    pub(crate) addresses: Vec<String>,
    /// Election of the controller that requested the hold; empty for an operator, and in a record
    /// of an earlier version.
    #[prost(string, tag = "6")]
    pub(crate) election: String,
    /// Key of the host whose shared outlets may be off. Empty in a record of an earlier version.
    #[prost(string, tag = "7")]
    pub(crate) outlets_of: String,
    /// Name of that host, for messages.
    #[prost(string, tag = "8")]
    pub(crate) outlets_host: String,
}

/// An operation. Contains no secret.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OperationRecord {
    /// Operation id.
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    /// Host key: endpoint and system of the BMC.
    #[prost(string, tag = "2")]
    pub(crate) key: String,
    /// Name of the host.
    #[prost(string, tag = "3")]
    pub(crate) host: String,
    /// `off`, `on`, `soft-off`, `cycle`, `reset` or `nmi`; or the name of another change.
    #[prost(string, tag = "4")]
    pub(crate) action: String,
    /// Owner of the operation.
    #[prost(string, tag = "5")]
    pub(crate) owner: String,
    /// The caller, as the journal names it.
    #[prost(string, tag = "6")]
    pub(crate) by: String,
    /// Election of the controller that requested it; empty for an operator.
    #[prost(string, tag = "7")]
    pub(crate) election: String,
    /// Start time, in nanoseconds of the Unix epoch.
    #[prost(int64, tag = "8")]
    pub(crate) begun: i64,
    /// Times at which a command was about to be sent, in nanoseconds of the Unix epoch.
    #[prost(int64, repeated, tag = "9")]
    pub(crate) sending: Vec<i64>,
    /// Outcome; absent while the operation runs.
    #[prost(message, optional, tag = "10")]
    pub(crate) outcome: Option<v1::Outcome>,
    /// End time, in nanoseconds of the Unix epoch.
    #[prost(int64, tag = "11")]
    pub(crate) ended: i64,
    /// Description of a change other than power; of a power operation, the other hosts that it may leave without
    /// power.
    #[prost(string, tag = "12")]
    pub(crate) detail: String,
    /// Whether it was requested with force.
    #[prost(bool, tag = "13")]
    pub(crate) force: bool,
    /// Owner of the hold that it overrode.
    #[prost(string, tag = "14")]
    pub(crate) overrode: String,
    /// Caller that cancelled it.
    #[prost(string, tag = "15")]
    pub(crate) cancelled_by: String,
    /// Whether it switches the outlets of the host. Absent in a record of an earlier version.
    #[prost(bool, tag = "16")]
    pub(crate) outlets: bool,
    /// When it ends at the latest, in nanoseconds of the Unix epoch; 0 in a record of an earlier version.
    #[prost(int64, tag = "17")]
    pub(crate) deadline: i64,
    /// Whether it also ends with the lease of its caller (F17).
    #[prost(bool, tag = "18")]
    pub(crate) is_attended: bool,
}

impl OperationRecord {
    /// The device that the operation switches.
    pub(crate) fn device(&self) -> Device {
        match self.outlets {
            true => Device::Outlets,
            false => Device::Bmc,
        }
    }
}

/// Record of a term that was set back by an operator.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct TermSetBackRecord {
    /// The name of the election.
    #[prost(string, tag = "1")]
    pub(crate) election: String,
    /// Time, in nanoseconds of the Unix epoch.
    #[prost(int64, tag = "2")]
    pub(crate) at: i64,
    /// Term number before.
    #[prost(uint64, tag = "3")]
    pub(crate) from: u64,
    /// Term number after.
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
            outlets_of,
            outlets_host,
        } = record;
        Self {
            host,
            owner,
            by,
            since,
            addresses,
            election,
            outlets_of,
            outlets_host,
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
            outlets_of,
            outlets_host,
        } = record;
        Self {
            host,
            owner,
            by,
            since,
            addresses,
            election,
            outlets_of,
            outlets_host,
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
        let device = record.device();
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
            outlets: _,
            deadline,
            is_attended,
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
            device,
            lifetime: Lifetime {
                deadline,
                is_attended,
            },
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
            device,
            lifetime,
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
            outlets: device == Device::Outlets,
            deadline: lifetime.deadline,
            is_attended: lifetime.is_attended,
        }
    }
}
