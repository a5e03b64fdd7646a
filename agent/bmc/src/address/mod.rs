//! Addresses of BMCs, in the grammar of baremetal-operator's BareMetalHost.
//!
//! Owns: the parts of a BMC address (protocol, carrier, host, port, system, privilege) and its
//! notation. Must never: hold or print a secret, connect, or resolve a name.

mod parse;
mod scheme;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    hash::{Hash, Hasher},
    net::Ipv6Addr,
    str::FromStr,
};

use crate::Protocol;
pub(crate) use parse::split_authority;
pub(crate) use scheme::Carrier;
use scheme::{Scheme, SchemeStatus};

/// Privilege level that an IPMI session requests (IPMI 2.0, table 22-29).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Privilege {
    /// Callback; cannot switch power.
    Callback,
    /// User; cannot switch power.
    User,
    /// Operator: sufficient for power commands, and the highest level that some BMCs grant over
    /// LAN.
    Operator,
    /// Administrator, the default as in Ironic.
    #[default]
    Administrator,
}

impl Privilege {
    /// Spelling in the `privilegelevel` parameter of an address.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Callback => "CALLBACK",
            Self::User => "USER",
            Self::Operator => "OPERATOR",
            Self::Administrator => "ADMINISTRATOR",
        }
    }
}

/// A part of an address that works, but is deprecated or has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressWarning {
    /// baremetal-operator has removed this scheme; another protocol is used instead.
    RemovedScheme {
        /// The scheme as written.
        scheme: String,
        /// The protocol that is used instead.
        protocol: Protocol,
    },
    /// The scheme is a deprecated alias.
    DeprecatedScheme {
        /// The scheme as written.
        scheme: String,
        /// The current name of the scheme.
        instead: &'static str,
    },
    /// The port belongs to the protocol of a removed scheme and is ignored.
    PortIgnored,
    /// The protocol has no use for a path; it is ignored.
    PathIgnored,
    /// Query parameters or a fragment without effect; they are ignored.
    QueryIgnored,
}

impl fmt::Display for AddressWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemovedScheme { scheme, protocol } => write!(
                f,
                "scheme {scheme:?} was removed from baremetal-operator; {} is used instead",
                protocol_name(*protocol)
            ),
            Self::DeprecatedScheme { scheme, instead } => {
                write!(f, "scheme {scheme:?} is deprecated; write {instead:?}")
            }
            Self::PortIgnored => write!(
                f,
                "the port belongs to a removed protocol and is not used; write an ipmi:// address \
                 to choose one"
            ),
            Self::PathIgnored => write!(f, "the path is not used by this protocol and is ignored"),
            Self::QueryIgnored => {
                write!(f, "the query or fragment is not used and is ignored")
            }
        }
    }
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Redfish => "Redfish",
        Protocol::Ipmi => "IPMI",
    }
}

/// Reason for rejecting an address. The message repeats no part that could be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Empty, or only white space.
    #[error("the BMC address is empty")]
    Empty,
    /// Contains `@`: credentials belong in the Secret.
    #[error("a BMC address must not contain a user name or password; put them into its Secret")]
    UserInfo,
    /// The scheme of the URL is neither Redfish nor IPMI.
    #[error("unknown BMC address scheme {0:?}; use redfish:// or ipmi://")]
    UnknownScheme(String),
    /// No host after the scheme.
    #[error("the BMC address has no host")]
    NoHost,
    /// Neither an IP address nor a DNS name.
    #[error(
        "the BMC address's host is neither an IP address nor a DNS name (labels of letters, \
         digits and inner dashes, 63 at most; IPv6 in brackets, without a zone)"
    )]
    Host,
    /// Not a port number (1 to 65535).
    #[error("the BMC address's port is not a number from 1 to 65535")]
    Port,
    /// A path that cannot be a Redfish resource.
    #[error("the BMC address's path is not a plain absolute path")]
    Path,
    /// The scheme of a PDU address is neither Redfish nor SNMP.
    #[error("a PDU has no address of scheme {0:?}; use redfish:// or snmp://")]
    PduScheme(String),
    /// An unknown value of `privilegelevel`.
    #[error("privilegelevel must be ADMINISTRATOR, OPERATOR, USER or CALLBACK")]
    Privilege,
}

/// Host of an address: an IP address, or a DNS name in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Name(String),
    V6(Ipv6Addr),
}

/// The parsed address of a BMC, without credentials.
///
/// Two addresses are equal if scheme, host, port, system and privilege are equal; warnings are not
/// compared. `parse(display(x)) == x` always holds.
#[derive(Debug, Clone)]
pub struct BmcAddress {
    scheme: Scheme,
    carrier: Carrier,
    host: Host,
    port: u16,
    system: Option<String>,
    privilege: Privilege,
    warnings: Vec<AddressWarning>,
}

impl BmcAddress {
    /// The protocol of power commands. The part of the scheme that selects a boot method is
    /// ignored.
    pub fn protocol(&self) -> Protocol {
        self.scheme.protocol()
    }

    /// The host to connect to: a DNS name in lower case or an IP address, IPv6 without brackets.
    pub fn host(&self) -> String {
        self.host.bare()
    }

    /// The port: as given, otherwise 443 (Redfish over HTTPS), 80 (Redfish over HTTP) or 623
    /// (IPMI).
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of the Redfish system, as written. `None`: the service must have exactly one
    /// system.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// The privilege for an IPMI session, from `?privilegelevel=`.
    pub fn privilege(&self) -> Privilege {
        self.privilege
    }

    /// Whether Redfish uses TLS. `false` for IPMI.
    pub fn is_tls(&self) -> bool {
        self.carrier == Carrier::Https
    }

    /// Warnings for the user about this address; usually empty.
    pub fn warnings(&self) -> &[AddressWarning] {
        &self.warnings
    }

    /// The endpoint: scheme, host and port in one normal form for all equivalent addresses of a
    /// BMC.
    pub fn endpoint(&self) -> String {
        let protocol = match self.protocol() {
            Protocol::Redfish => "redfish",
            Protocol::Ipmi => "ipmi",
        };
        format!("{protocol}://{}:{}", self.host, self.port)
    }

    /// Base URL of Redfish requests; `None` for IPMI.
    #[cfg(feature = "redfish")]
    pub(crate) fn base_url(&self) -> Option<url::Url> {
        let scheme = match self.carrier {
            Carrier::Https => "https",
            Carrier::Http => "http",
            Carrier::Udp => return None,
        };
        url::Url::parse(&format!("{scheme}://{}:{}/", self.host, self.port)).ok()
    }

    fn key(&self) -> (Scheme, Carrier, &Host, u16, Option<&str>, Privilege) {
        (
            self.scheme,
            self.carrier,
            &self.host,
            self.port,
            self.system.as_deref(),
            self.privilege,
        )
    }
}

impl PartialEq for BmcAddress {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for BmcAddress {}

impl Hash for BmcAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl FromStr for BmcAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::parse(text)
    }
}

impl Host {
    /// The host, IPv6 without brackets.
    pub(crate) fn bare(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::V6(ip) => ip.to_string(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V6(ip) => write!(f, "[{ip}]"),
        }
    }
}

impl fmt::Display for BmcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme.name())?;
        if self.carrier == Carrier::Http {
            f.write_str("+http")?;
        }
        write!(f, "://{}:{}", self.host, self.port)?;
        if let Some(system) = &self.system {
            f.write_str(system)?;
        }
        if self.protocol() == Protocol::Ipmi && self.privilege != Privilege::default() {
            write!(f, "?privilegelevel={}", self.privilege.as_str())?;
        }
        Ok(())
    }
}

impl Scheme {
    fn warning(self) -> Option<AddressWarning> {
        let scheme = self.name().to_owned();
        match self.standing() {
            SchemeStatus::Current => None,
            SchemeStatus::Deprecated(instead) => {
                Some(AddressWarning::DeprecatedScheme { scheme, instead })
            }
            SchemeStatus::Removed => {
                let protocol = self.protocol();
                Some(AddressWarning::RemovedScheme { scheme, protocol })
            }
        }
    }
}
