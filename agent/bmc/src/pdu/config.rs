//! Connection settings of one PDU, and the choice of its client.
//!
//! Owns: settings and their defaults. Must never: print a secret.

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc, time::Duration};

use secrecy::SecretString;

#[cfg(feature = "snmp")]
use super::OutletId;
use super::{Pdu, PduAddress, PduProtocol, bounded::BoundedPdu};
#[cfg(feature = "redfish")]
use crate::redfish;
use crate::{BmcError, Credentials, ErrorKind};

/// The SNMP tables of a make of PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PduTable {
    /// APC by Schneider Electric, second generation (PowerNet-MIB, rPDU2): AP8xxx, APDU9xxx.
    ApcRpdu2,
    /// APC, first generation (PowerNet-MIB, rPDU): AP79xx.
    ApcRpdu,
    /// Raritan PX2 and later, Legrand, and Server Technology PRO4X (PDU2-MIB).
    Raritan,
    /// Server Technology PRO1 and PRO2 (Sentry4-MIB).
    ServerTech,
    /// Eaton ePDU G2 and later (EATON-EPDU-MIB).
    Eaton,
}

impl PduTable {
    /// All tables.
    pub const ALL: [Self; 5] = [
        Self::ApcRpdu2,
        Self::ApcRpdu,
        Self::Raritan,
        Self::ServerTech,
        Self::Eaton,
    ];

    /// The name in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApcRpdu2 => "apc-rpdu2",
            Self::ApcRpdu => "apc-rpdu",
            Self::Raritan => "raritan",
            Self::ServerTech => "servertech",
            Self::Eaton => "eaton",
        }
    }

    /// Checks that a text names an outlet: `12`, or `2.12` at the second unit of a chain. Each outlet has one name.
    ///
    /// # Errors
    ///
    /// How outlets of this make are named.
    #[cfg(feature = "snmp")]
    pub fn check_outlet(self, outlet: &OutletId) -> Result<(), String> {
        super::snmp::check_outlet(self, outlet)
    }
}

impl fmt::Display for PduTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a table that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no PDU table {0:?}; it is one of apc-rpdu2, apc-rpdu, raritan, servertech, eaton"
)]
pub struct UnknownTable(pub String);

impl FromStr for PduTable {
    type Err = UnknownTable;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|table| table.as_str() == text);
        found.ok_or_else(|| UnknownTable(text.to_owned()))
    }
}

/// Authentication protocol of an SNMPv3 user (RFC 3414, RFC 7860). MD5 is not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SnmpAuth {
    /// HMAC-SHA-96, all that many older PDUs have.
    Sha1,
    /// HMAC-SHA-2 with 256 bits.
    #[default]
    Sha256,
    /// HMAC-SHA-2 with 384 bits.
    Sha384,
    /// HMAC-SHA-2 with 512 bits.
    Sha512,
}

/// Privacy protocol of an SNMPv3 user (RFC 3826, and the extension of keys of Blumenthal). DES is not
/// offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SnmpPrivacy {
    /// AES with 128 bits.
    #[default]
    Aes128,
    /// AES with 256 bits.
    Aes256,
}

/// An SNMPv3 user. `Debug` shows no secret.
///
/// There is no user without authentication: anyone on the path could switch outlets in its name, or forge
/// their states.
#[derive(Clone)]
pub struct SnmpUser {
    /// Security name of the user at the PDU.
    pub username: String,
    /// Authentication protocol.
    pub auth: SnmpAuth,
    /// Password for the authentication; at least 8 characters.
    pub auth_password: SecretString,
    /// Privacy protocol and its password; `None`: requests are authenticated, but not encrypted.
    pub privacy: Option<(SnmpPrivacy, SecretString)>,
}

impl fmt::Debug for SnmpUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnmpUser")
            .field("username", &self.username)
            .field("auth", &self.auth)
            .field("privacy", &self.privacy.as_ref().map(|(name, _)| name))
            .finish_non_exhaustive()
    }
}

/// How to log in to a PDU. `Debug` shows no secret.
#[derive(Clone)]
pub enum PduCredentials {
    /// Redfish: user name and password.
    Password(Credentials),
    /// SNMPv2c: the communities, which anyone on the path can read.
    Community {
        /// For readings.
        read: SecretString,
        /// For commands; `None`: the same.
        write: Option<SecretString>,
    },
    /// SNMPv3.
    User(SnmpUser),
}

impl fmt::Debug for PduCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password(credentials) => credentials.fmt(f),
            Self::Community { .. } => f.write_str("Community(..)"),
            Self::User(user) => user.fmt(f),
        }
    }
}

/// Settings of one PDU.
#[derive(Debug, Clone)]
pub struct PduConfig {
    /// Address of the PDU; its scheme selects the protocol.
    pub address: PduAddress,
    /// Credentials; they must be those of the protocol.
    pub credentials: PduCredentials,
    /// IP addresses that the caller has resolved; the client connects to no others. Empty: the client
    /// resolves the host name.
    pub resolved: Vec<IpAddr>,
    /// SNMP: the tables of the make. Redfish needs none.
    pub table: Option<PduTable>,
    /// Redfish: time limit for connecting, handshake included. SNMP: time limit of one request; a call sends
    /// several requests, and readings up to three times each.
    pub connect_timeout: Duration,
    /// Time limit for one call of [`Pdu`].
    pub call_timeout: Duration,
    /// Redfish: which certificate is accepted.
    #[cfg(feature = "redfish")]
    pub trust: redfish::Trust,
    /// Redfish: session or HTTP Basic.
    #[cfg(feature = "redfish")]
    pub auth: redfish::AuthPolicy,
    /// Redfish: standby power of a chassis in watts, if the outlets are the chassis of a chassis manager; `None`:
    /// they are the outlets of a rack PDU.
    pub chassis_standby_watts: Option<f64>,
}

impl PduConfig {
    /// Creates settings with defaults: 5 s for a connection, 20 s for a call, system roots.
    pub fn new(address: PduAddress, credentials: PduCredentials) -> Self {
        Self {
            address,
            credentials,
            resolved: Vec::new(),
            table: None,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(20),
            #[cfg(feature = "redfish")]
            trust: redfish::Trust::default(),
            #[cfg(feature = "redfish")]
            auth: redfish::AuthPolicy::default(),
            chassis_standby_watts: None,
        }
    }

    fn wrong(&self, message: impl Into<String>) -> BmcError {
        BmcError {
            kind: ErrorKind::Configuration,
            bmc: self.address.to_string(),
            message: message.into(),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        }
    }
}

/// Creates a client for one PDU. Nothing is sent before its first call; the calls need a tokio runtime.
///
/// # Errors
///
/// [`ErrorKind::Configuration`]: the settings cannot be used, such as credentials of another protocol or an
/// SNMP address without a table, or the crate was built without the feature of the protocol.
pub fn connect(config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
    let pdu = match config.address.protocol() {
        PduProtocol::Redfish => redfish(config),
        #[cfg(feature = "snmp")]
        PduProtocol::Snmp => super::snmp::connect(config),
        #[cfg(not(feature = "snmp"))]
        PduProtocol::Snmp => Err(config.wrong("rackhand-bmc was built without its feature snmp")),
    };
    Ok(Arc::new(BoundedPdu(pdu?)))
}

#[cfg(feature = "redfish")]
fn redfish(config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
    let wrong = config.wrong("a Redfish PDU needs a user name and a password");
    let (Some(address), PduCredentials::Password(credentials)) =
        (config.address.redfish().cloned(), config.credentials)
    else {
        return Err(wrong);
    };
    let standby_watts = config.chassis_standby_watts;
    let config = redfish::RedfishConfig {
        resolved: config.resolved,
        trust: config.trust,
        auth: config.auth,
        timeouts: redfish::Timeouts {
            connect: config.connect_timeout,
            request: config.call_timeout,
            call: config.call_timeout,
            ..redfish::Timeouts::default()
        },
        ..redfish::RedfishConfig::new(address, credentials.username, credentials.password)
    };
    match standby_watts {
        None => super::connect_pdu(config),
        Some(watts) => super::connect_chassis(config, watts),
    }
}

#[cfg(not(feature = "redfish"))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the same as with the feature"
)]
fn redfish(config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
    Err(config.wrong("rackhand-bmc was built without its feature redfish"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_names_are_parsed_as_written() {
        for table in PduTable::ALL {
            assert_eq!(table.as_str().parse(), Ok(table));
        }
        let unknown = "apc".parse::<PduTable>().unwrap_err().to_string();
        for table in PduTable::ALL {
            assert!(unknown.contains(table.as_str()), "{unknown}");
        }
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let user = SnmpUser {
            username: "ops".to_owned(),
            auth: SnmpAuth::Sha256,
            auth_password: "hunter2hunter2".into(),
            privacy: Some((SnmpPrivacy::Aes128, "hunter3hunter3".into())),
        };
        for credentials in [
            PduCredentials::User(user),
            PduCredentials::Community {
                read: "hunter4".into(),
                write: Some("hunter5".into()),
            },
            PduCredentials::Password(Credentials::new("ops", "hunter6")),
        ] {
            let config = PduConfig::new("snmp://h".parse().unwrap(), credentials);
            let shown = format!("{config:?}");
            assert!(!shown.contains("hunter"), "{shown}");
        }
    }

    #[cfg(feature = "redfish")]
    #[test]
    fn credentials_of_another_protocol_are_refused() {
        let community = PduCredentials::Community {
            read: "public".into(),
            write: None,
        };
        let config = PduConfig::new("redfish://h".parse().unwrap(), community);
        let refused = connect(config).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Configuration);
        let password = PduCredentials::Password(Credentials::new("ops", "secret"));
        let config = PduConfig::new("redfish://h".parse().unwrap(), password);
        assert_eq!(connect(config).unwrap().address(), "redfish://h:443");
    }
}
