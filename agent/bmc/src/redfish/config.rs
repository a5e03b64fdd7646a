//! What one BMC needs to be reached.
//!
//! Owns: settings and their defaults. Must never: print a secret.

use std::{net::IpAddr, time::Duration};

use secrecy::SecretString;

use super::Trust;
use crate::BmcAddress;

/// How to prove to the BMC who we are (Redfish DSP0266, clause 13.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AuthPolicy {
    /// A session; HTTP Basic where the BMC has no session service or gives none just now.
    #[default]
    Auto,
    /// A session only.
    Session,
    /// HTTP Basic only: no session is taken and no log-in is written to the BMC's log.
    Basic,
}

/// Limits of time. Each is a wall of its own; none adds to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Name, TCP and TLS handshake.
    pub connect: Duration,
    /// One HTTP exchange, from connecting to the last byte of the body.
    pub request: Duration,
    /// Following the task of an action; when it is over, the action stands as accepted.
    pub task: Duration,
    /// One call of [`Bmc`](crate::Bmc), whatever it takes.
    pub call: Duration,
}

impl Default for Timeouts {
    /// One GET on a slow real BMC takes 0.8 s, a log-in twice that; a minute holds them all.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            request: Duration::from_secs(20),
            task: Duration::from_secs(30),
            call: Duration::from_secs(60),
        }
    }
}

/// One Redfish BMC.
#[derive(Debug, Clone)]
pub struct RedfishConfig {
    /// Where it is.
    pub address: BmcAddress,
    /// The IP addresses of its host, where the caller has looked them up: only these are connected
    /// to, and no name is resolved. Empty: the client resolves the name.
    pub resolved: Vec<IpAddr>,
    /// User name.
    pub username: String,
    /// Password; never shown.
    pub password: SecretString,
    /// What certificate is believed.
    pub trust: Trust,
    /// Session or Basic.
    pub auth: AuthPolicy,
    /// Limits of time.
    pub timeouts: Timeouts,
    /// Keep the connection for the next read. Off by default: some BMCs choke on long-lived
    /// connections, and iLO resets the ones that are used again. Actions never use a kept one.
    pub keep_alive: bool,
    /// Let a soft off push the power button where the BMC has no graceful shutdown. Off by
    /// default: what a push does is up to the operating system, and a second one can call it off.
    /// Only a host that is exactly on gets one.
    pub soft_off_by_button: bool,
}

impl RedfishConfig {
    /// Settings with every default: system roots, [`AuthPolicy::Auto`], a connection per request.
    pub fn new(address: BmcAddress, username: impl Into<String>, password: SecretString) -> Self {
        Self {
            address,
            resolved: Vec::new(),
            username: username.into(),
            password,
            trust: Trust::System,
            auth: AuthPolicy::default(),
            timeouts: Timeouts::default(),
            keep_alive: false,
            soft_off_by_button: false,
        }
    }
}
