//! Outlets of power distribution units (PDUs), and chassis of chassis managers, as a second way to switch a host.
//!
//! Owns the interface of every PDU client, [`connect()`], which creates one, and [`HostOutlets`], all outlets of
//! one host as a [`Bmc`]. Must never decide that a host is off while an outlet that feeds it was not read, is on,
//! or still carries a current.
//!
//! [`Bmc`]: crate::Bmc

mod address;
mod bounded;
mod config;
mod host;
mod host_reading;
#[cfg(feature = "redfish")]
pub(crate) mod redfish;
#[cfg(feature = "snmp")]
pub(crate) mod snmp;

use std::fmt;

pub use address::{PduAddress, PduProtocol};
pub use config::{
    PduConfig, PduCredentials, PduTable, SnmpAuth, SnmpPrivacy, SnmpUser, UnknownTable, connect,
};
pub use host::{HostOutlet, HostOutlets};
pub use host_reading::{NO_AMPERES, NO_WATTS};
#[cfg(feature = "redfish")]
pub use redfish::{connect_chassis, connect_pdu};

use crate::{Accepted, BmcFuture};

/// The name of an outlet at its PDU: the Redfish member id, or the number in the SNMP table. At a chassis manager
/// it is the id of a chassis.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutletId(pub String);

impl fmt::Display for OutletId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// State of an outlet, as its PDU reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutletState {
    /// Exactly on.
    On,
    /// Exactly off. Nothing else is off.
    Off,
    /// Switching, or with a delayed switch pending.
    Switching,
    /// Another state, or none.
    Unknown,
}

/// An outlet with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct OutletReading {
    /// The name of the outlet at its PDU.
    pub id: OutletId,
    /// Name given by people, if the PDU stores one.
    pub label: Option<String>,
    /// The state, as this crate interprets `raw`.
    pub state: OutletState,
    /// The state as the PDU reported it.
    pub raw: String,
    /// Current in amperes, where the PDU measures it for each outlet.
    pub amperes: Option<f64>,
    /// Power in watts, where the PDU measures it for each outlet.
    pub watts: Option<f64>,
    /// Largest power that counts as none, in watts: [`NO_WATTS`] for an outlet of a PDU, and the standby power of
    /// a chassis.
    pub none_watts: f64,
}

/// A command to an outlet. Both are idempotent; there is no cycle, because a PDU reports its success before
/// the outlet is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutletCommand {
    /// At once on.
    On,
    /// At once off.
    Off,
}

impl OutletCommand {
    /// The power state that it leads to.
    #[cfg(feature = "redfish")]
    pub(crate) fn leads_to(self) -> crate::PowerState {
        match self {
            Self::On => crate::PowerState::On,
            Self::Off => crate::PowerState::Off,
        }
    }

    /// `on` or `off`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// A client of one PDU, whatever the protocol.
///
/// Every call has its own deadline and may be dropped at any time. No reading comes from a cache, and an
/// accepted command is not done yet: read the outlet.
pub trait Pdu: Send + Sync + fmt::Debug {
    /// The address without credentials, for messages.
    fn address(&self) -> &str;

    /// Reads every outlet.
    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>>;

    /// Reads these outlets, in their order. An outlet that the PDU does not have is an error of kind
    /// [`ErrorKind::System`](crate::ErrorKind::System).
    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>>;

    /// Number of systems that the outlet feeds, as the device reports it; `None`: unknown. A chassis reports the
    /// systems in it; a PDU cannot detect the systems that it feeds.
    fn systems<'a>(&'a self, _outlet: &'a OutletId) -> BmcFuture<'a, Option<usize>> {
        Box::pin(async { Ok(None) })
    }

    /// Switches one outlet.
    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted>;

    /// Closes the sessions at the PDU. A later call opens a new session.
    fn close(&self) -> BmcFuture<'_, ()>;
}
