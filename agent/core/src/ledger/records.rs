//! Records of the ledger, in the form in which the journal stores them.
//!
//! A field that a later version adds is absent in a record of an earlier one, which then has its default.

use serde::{Deserialize, Serialize};

use crate::host_key::{HostKey, HostKeys};

/// The highest term of an election.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Term {
    /// The sequence number.
    pub number: u64,
    /// The holder that claimed it. Empty: nobody may command in this term, and the next leader must
    /// claim a higher one.
    pub holder: String,
    /// Whether another agent of the rack serves this term.
    pub standby: bool,
    /// Sequence number of the claim; commands with a lower number are rejected. 0: the controller
    /// numbers no claims.
    pub sequence: u64,
}

/// A command of an election: its term, and its sequence number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence {
    /// The term number.
    pub term: u64,
    /// The sequence within it.
    pub sequence: u64,
}

/// A hold: its owner keeps a host off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Hold {
    /// Name of the host, for messages.
    pub host: String,
    /// Owner of the hold: a remediation or an operator.
    pub owner: String,
    /// The caller that requested it.
    pub by: String,
    /// Start, in nanoseconds of the Unix epoch.
    pub since: i64,
    /// Every address under which the host was known, with the resolved ones.
    pub addresses: Vec<String>,
    /// Election of the controller that requested it; empty for an operator.
    pub election: String,
    /// Key of the host whose shared outlets may be off, so that this one may have no power either. Empty:
    /// the host is held on its own account.
    pub outlets_of: String,
    /// Name of that host, for messages.
    pub outlets_host: String,
}

impl Hold {
    /// Whether it prevents `owner` from switching the host on. One because of shared outlets prevents everybody:
    /// it ends when the outlets are switched on.
    pub fn is_foreign(&self, owner: &str) -> bool {
        self.owner != owner || !self.outlets_of.is_empty()
    }

    /// The addresses of the held host; `key` is the key of the record.
    pub fn keys(&self, key: &str) -> HostKeys {
        let addresses = self.addresses.iter().map(String::as_str);
        HostKeys::new(addresses.chain([key]).map(HostKey::parse))
    }
}

/// An operation, or a change other than power. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "R: Deserialize<'de>"))]
pub struct Operation<R> {
    /// Id of the operation, chosen by the caller.
    pub id: String,
    /// Host key: endpoint and system of the BMC.
    pub key: String,
    /// Name of the host, for messages.
    pub host: String,
    /// `off`, `on`, `soft-off`, `cycle`, `reset` or `nmi`; or the name of another change.
    pub action: String,
    /// Owner of the operation.
    pub owner: String,
    /// The caller.
    pub by: String,
    /// Election of the controller that requested it; empty for an operator.
    pub election: String,
    /// Start, in nanoseconds of the Unix epoch.
    pub begun: i64,
    /// Times at which a command was about to be sent, in nanoseconds of the Unix epoch.
    pub sending: Vec<i64>,
    /// Outcome; absent while the operation runs.
    pub outcome: Option<RecordedOutcome<R>>,
    /// End, in nanoseconds of the Unix epoch.
    pub ended: i64,
    /// Description of a change other than power; of a power operation, the other hosts that it may leave without
    /// power.
    pub detail: String,
    /// Whether it was requested with force.
    pub force: bool,
    /// Owner of the hold that it overrode.
    pub overrode: String,
    /// The caller that cancelled it.
    pub cancelled_by: String,
    /// The device that the operation switches: the BMC or the outlets.
    pub device: Device,
    /// How long it lives.
    pub lifetime: Lifetime,
}

/// How long an operation lives (F17).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Lifetime {
    /// When it ends at the latest, without waits for a PDU, in nanoseconds of the Unix epoch; 0: of a change.
    pub deadline: i64,
    /// Whether it also ends with the lease of its caller.
    pub is_attended: bool,
}

/// What an operation switches.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Device {
    /// The host, through its BMC.
    #[default]
    Bmc,
    /// All outlets of the PDUs that feed the host.
    Outlets,
}

impl<R> Default for Operation<R> {
    fn default() -> Self {
        Self {
            id: String::new(),
            key: String::new(),
            host: String::new(),
            action: String::new(),
            owner: String::new(),
            by: String::new(),
            election: String::new(),
            begun: 0,
            sending: Vec::new(),
            outcome: None,
            ended: 0,
            detail: String::new(),
            force: false,
            overrode: String::new(),
            cancelled_by: String::new(),
            device: Device::Bmc,
            lifetime: Lifetime::default(),
        }
    }
}

impl<R> Operation<R> {
    /// Creates the record of an operation that starts.
    pub fn new(id: &str, key: &str, host: &str, action: &str) -> Self {
        Self {
            id: id.to_owned(),
            key: key.to_owned(),
            host: host.to_owned(),
            action: action.to_owned(),
            ..Self::default()
        }
    }

    /// The same record with its report in another form.
    ///
    /// # Errors
    /// Those of `convert`.
    pub fn try_map_report<T, E>(
        self,
        convert: impl FnOnce(R) -> Result<T, E>,
    ) -> Result<Operation<T>, E> {
        let outcome = self.outcome.map(|outcome| match outcome {
            RecordedOutcome::Reported(report) => convert(report).map(RecordedOutcome::Reported),
            RecordedOutcome::Interrupted { commands_sent } => {
                Ok(RecordedOutcome::Interrupted { commands_sent })
            }
            RecordedOutcome::Released { host, owner } => {
                Ok(RecordedOutcome::Released { host, owner })
            }
        });
        Ok(Operation {
            id: self.id,
            key: self.key,
            host: self.host,
            action: self.action,
            owner: self.owner,
            by: self.by,
            election: self.election,
            begun: self.begun,
            sending: self.sending,
            outcome: outcome.transpose()?,
            ended: self.ended,
            detail: self.detail,
            force: self.force,
            overrode: self.overrode,
            cancelled_by: self.cancelled_by,
            device: self.device,
            lifetime: self.lifetime,
        })
    }
}

/// Outcome of an operation, as its record states it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecordedOutcome<R> {
    /// The result that its runner reports.
    Reported(R),
    /// The agent ended before the operation did.
    Interrupted {
        /// Number of commands that may have reached the BMC.
        commands_sent: usize,
    },
    /// A hold was released.
    Released {
        /// Name of the host, for messages.
        host: String,
        /// Owner of the hold.
        owner: String,
    },
}

/// Record of a term that was set back by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TermSetBack {
    /// The name of the election.
    pub election: String,
    /// Time, in nanoseconds of the Unix epoch.
    pub at: i64,
    /// Highest term of the election before it was set back.
    pub from: u64,
    /// Highest term of the election from then on.
    pub to: u64,
    /// The caller.
    pub by: String,
    /// The reason that was given.
    pub reason: String,
}
