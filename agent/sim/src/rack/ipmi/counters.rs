//! Counters of a simulated BMC. Must never: contain a secret.

use std::collections::BTreeMap;

use super::command::ChassisControl;
use crate::rack::power::Answer;

/// A command by its network function and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Command {
    /// Network function of the request.
    pub net_fn: u8,
    pub command: u8,
}

impl Command {
    /// Get Chassis Status.
    pub const CHASSIS_STATUS: Self = Self::new(0x00, 0x01);
    /// Chassis Control.
    pub const CHASSIS_CONTROL: Self = Self::new(0x00, 0x02);

    /// The command with these numbers.
    pub const fn new(net_fn: u8, command: u8) -> Self {
        Self { net_fn, command }
    }
}

/// Reason why a packet got no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dropped {
    /// Not a packet, or of an unknown kind.
    Malformed,
    /// For an unknown session.
    UnknownSession,
    /// Not signed with the session's keys, or not encrypted.
    Integrity,
    /// A session sequence number seen before, or far from the last.
    Sequence,
    /// A setup message of a session that has ended.
    Refused,
    /// The BMC is dead or starting.
    Down,
    /// Dropped by a rule.
    Rule,
}

/// A Chassis Control that arrived in a session with sufficient privilege.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controlled {
    pub control: ChassisControl,
    /// The answer of the simulated host to the command.
    pub answer: Answer,
}

/// Counters since creation; a restart of the BMC does not reset them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that arrived.
    pub packets: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams without a response.
    pub dropped: BTreeMap<Dropped, u64>,
    /// Unknown commands, with their numbers of requests.
    pub unknown: BTreeMap<Command, u64>,
    /// Sessions that were opened completely.
    pub sessions_opened: u64,
    /// Sessions that were closed by their client.
    pub sessions_closed: u64,
    /// Sessions that timed out, including half-open ones.
    pub sessions_expired: u64,
    /// Every Chassis Control.
    pub controls: Vec<Controlled>,
}

impl Counters {
    /// Number of datagrams without a response for this reason.
    pub fn dropped(&self, why: Dropped) -> u64 {
        self.dropped.get(&why).copied().unwrap_or(0)
    }

    /// Number of Chassis Controls of this kind that reached the machine.
    pub fn controlled(&self, control: ChassisControl) -> usize {
        let controls = self.controls.iter();
        controls.filter(|one| one.control == control).count()
    }

    pub(super) fn drop(&mut self, why: Dropped) {
        *self.dropped.entry(why).or_default() += 1;
    }
}
