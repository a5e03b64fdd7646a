//! Connection settings of one Redfish BMC.
//!
//! Owns: settings and their defaults. Must never: print a secret.

use std::{net::IpAddr, time::Duration};

use secrecy::SecretString;

use super::Trust;
use crate::BmcAddress;

/// Authentication method (Redfish DSP0266, clause 13.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AuthPolicy {
    /// A session; HTTP Basic if the BMC has no session service or no free session.
    #[default]
    Auto,
    /// A session only.
    Session,
    /// HTTP Basic only: no session is opened, and the BMC logs no login.
    Basic,
}

/// Whether a read leaves its connection open for the next one. Commands always have one of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeepAlive {
    /// It does, unless the BMC breaks connections that are used again: then each read has one of its own for an hour
    /// or more. The connection is closed before a command. For clients that read all the time.
    Auto,
    /// It does.
    Always,
    /// Each read has a connection of its own.
    #[default]
    Never,
}

/// Time limits. They apply independently of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit of name resolution, TCP connect and TLS handshake.
    pub connect: Duration,
    /// Limit of one HTTP exchange, from connecting to the last byte of the body.
    pub request: Duration,
    /// Limit for polling the task of an action; after it, the action counts as accepted.
    pub task: Duration,
    /// Limit of one call of [`Bmc`](crate::Bmc).
    pub call: Duration,
    /// Pause before a denied request is repeated: some BMCs deny a correct account for a moment.
    pub denied: Duration,
    /// Time after an accepted power-off from which the chassis of a system that still reports on is read
    /// as well. Most systems report off earlier.
    pub late_off: Duration,
}

impl Default for Timeouts {
    /// One GET on a slow BMC takes 0.8 s, a login twice that; a minute is sufficient for all
    /// requests of a call.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            request: Duration::from_secs(20),
            task: Duration::from_secs(30),
            call: Duration::from_secs(60),
            denied: Duration::from_secs(2),
            late_off: Duration::from_secs(8),
        }
    }
}

/// Settings of one Redfish BMC.
#[derive(Debug, Clone)]
pub struct RedfishConfig {
    /// Address of the BMC.
    pub address: BmcAddress,
    /// IP addresses that the caller has resolved; the client connects to no others. Empty: the
    /// client resolves the host name.
    pub resolved: Vec<IpAddr>,
    /// The system UUID that the BMC reports identifies nothing: readings and identity have none.
    pub ignore_system_uuid: bool,
    /// User name.
    pub username: String,
    /// Password; never printed.
    pub password: SecretString,
    /// Certificates that are trusted.
    pub trust: Trust,
    /// How the client authenticates.
    pub auth: AuthPolicy,
    /// How long the client waits for the BMC.
    pub timeouts: Timeouts,
    /// Keep the connection open for the next read. Never by default: some BMCs fail with long-lived
    /// connections, and iLO resets connections that are reused.
    pub keep_alive: KeepAlive,
    /// Allow a soft off to push the power button if the BMC has no graceful shutdown. Off by default: the
    /// operating system determines the effect of a press, and a second press can cancel it. Only used for a host
    /// that is exactly on.
    pub soft_off_by_button: bool,
}

impl RedfishConfig {
    /// Creates settings with defaults: system roots, [`AuthPolicy::Auto`], one connection per
    /// request.
    pub fn new(address: BmcAddress, username: impl Into<String>, password: SecretString) -> Self {
        Self {
            address,
            resolved: Vec::new(),
            ignore_system_uuid: false,
            username: username.into(),
            password,
            trust: Trust::System,
            auth: AuthPolicy::default(),
            timeouts: Timeouts::default(),
            keep_alive: KeepAlive::Never,
            soft_off_by_button: false,
        }
    }
}
