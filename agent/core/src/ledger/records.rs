//! What the ledger remembers.

use crate::host_key::{HostKey, HostKeys};

/// The highest term of an election.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Term {
    /// The sequence number.
    pub number: u64,
    /// Who claimed it; empty: nobody may command in it, and the next leader must claim a higher one.
    pub holder: String,
    /// Another agent of the rack serves that term.
    pub standby: bool,
    /// The number of the claim that said so; commands before it are refused. 0: the controller numbers
    /// no claims.
    pub sequence: u64,
}

/// A command of an election: its term and its number within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence {
    /// The term number.
    pub term: u64,
    /// The sequence within it.
    pub sequence: u64,
}

/// Who keeps a host off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The host's name, for people.
    pub host: String,
    /// Owner of the operation: a remediation, or the operator who asked for it.
    pub owner: String,
    /// Who asked for it.
    pub by: String,
    /// Since when, nanoseconds of the Unix epoch.
    pub since: i64,
    /// Every address under which the host was known, with those of its names. Empty in a record of
    /// an earlier version: then the key tells.
    pub addresses: Vec<String>,
    /// The election of the controller that asked; empty: an operator, or an earlier version wrote it.
    pub election: String,
}

impl Hold {
    /// The host that is held; `key` is that of the record.
    pub fn keys(&self, key: &str) -> HostKeys {
        let addresses = self.addresses.iter().map(String::as_str);
        HostKeys::new(addresses.chain([key]).map(HostKey::parse))
    }
}

/// An operation, or a change beside power. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operation<R> {
    /// Id of the operation, chosen by the caller.
    pub id: String,
    /// The host's key: its BMC and system.
    pub key: String,
    /// Name of the host, for messages.
    pub host: String,
    /// `off`, `on`, `soft-off`, `cycle`, `reset` or `nmi`; or a change beside power.
    pub action: String,
    /// On whose behalf.
    pub owner: String,
    /// The caller.
    pub by: String,
    /// The election of the controller that asked; empty for an operator.
    pub election: String,
    /// Begin, nanoseconds of the Unix epoch.
    pub begun: i64,
    /// Times at which a command was about to be sent.
    pub sending: Vec<i64>,
    /// How it ended; absent while it runs.
    pub outcome: Option<Outcome<R>>,
    /// When it ended.
    pub ended: i64,
    /// What a change beside power sets, in words.
    pub detail: String,
    /// Requested with force.
    pub force: bool,
    /// Whose hold it overrode.
    pub overrode: String,
    /// Who cancelled it.
    pub cancelled_by: String,
}

impl<R> Operation<R> {
    /// An operation that begins.
    pub fn new(id: &str, key: &str, host: &str, action: &str) -> Self {
        Self {
            id: id.to_owned(),
            key: key.to_owned(),
            host: host.to_owned(),
            action: action.to_owned(),
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
        }
    }
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome<R> {
    /// As its runner reports it.
    Reported(R),
    /// The agent itself did not survive it.
    Interrupted {
        /// Commands that may have reached the BMC.
        commands_sent: usize,
    },
    /// A hold was lifted.
    Released {
        /// Name of the host, for messages.
        host: String,
        /// Whose hold it was.
        owner: String,
    },
}

/// A term that was set back by hand.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TermSetBack {
    /// The name of the election.
    pub election: String,
    /// When, nanoseconds of the Unix epoch.
    pub at: i64,
    /// The term before.
    pub from: u64,
    /// The term after.
    pub to: u64,
    /// The caller.
    pub by: String,
    /// The reason that was given.
    pub reason: String,
}
