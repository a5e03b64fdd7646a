//! PDUs of the configuration.

use std::time::Duration;

use rackhand_bmc::{
    Trust,
    pdu::{PduAddress, PduTable, SnmpAuth, SnmpPrivacy},
};

use super::Password;

/// A PDU whose outlets can be switched, or a chassis manager whose chassis can.
#[derive(Debug, Clone)]
pub struct PduEntry {
    /// Name in the configuration.
    pub name: String,
    /// Address of its management card.
    pub address: PduAddress,
    /// How to log in.
    pub login: PduLogin,
    /// Time between the switch-on of two outlets of one host.
    pub outlet_delay: Duration,
    /// Power that a chassis may draw while it is off, in watts; `None`: the outlets are those of a PDU, not the
    /// chassis of a chassis manager.
    pub chassis_standby_watts: Option<f64>,
}

/// How to log in to a PDU.
#[derive(Debug, Clone)]
pub enum PduLogin {
    /// By Redfish.
    Redfish {
        /// Account at the Redfish service of the PDU.
        username: String,
        /// Source of the password.
        password: Password,
        /// Which certificate is accepted.
        trust: Trust,
    },
    /// By SNMP version 2c, in clear text.
    SnmpV2c {
        /// The vendor's table of outlets.
        table: PduTable,
        /// Source of the community.
        community: Password,
        /// Source of the community for commands; `None`: the same.
        write_community: Option<Password>,
    },
    /// By SNMP version 3.
    SnmpV3 {
        /// The vendor's table of outlets.
        table: PduTable,
        /// Security name of the SNMPv3 user.
        username: String,
        /// Protocol of authentication.
        auth: SnmpAuth,
        /// Source of its password.
        password: Password,
        /// Protocol of encryption with the source of its password; `None`: nothing is encrypted.
        privacy: Option<(SnmpPrivacy, Password)>,
    },
}

/// Names of SNMP authentication protocols in the configuration.
pub(super) const AUTH_PROTOCOLS: [(&str, SnmpAuth); 4] = [
    ("sha1", SnmpAuth::Sha1),
    ("sha256", SnmpAuth::Sha256),
    ("sha384", SnmpAuth::Sha384),
    ("sha512", SnmpAuth::Sha512),
];

/// Names of SNMP privacy protocols in the configuration.
pub(super) const PRIVACY_PROTOCOLS: [(&str, SnmpPrivacy); 2] = [
    ("aes128", SnmpPrivacy::Aes128),
    ("aes256", SnmpPrivacy::Aes256),
];

impl PduEntry {
    /// The sources of all its secrets.
    pub fn secrets(&self) -> Vec<&Password> {
        let (first, second) = match &self.login {
            PduLogin::Redfish { password, .. } => (password, None),
            PduLogin::SnmpV2c {
                community,
                write_community,
                ..
            } => (community, write_community.as_ref()),
            PduLogin::SnmpV3 {
                password, privacy, ..
            } => (password, privacy.as_ref().map(|(_, password)| password)),
        };
        std::iter::once(first).chain(second).collect()
    }

    /// The vendor's table of outlets; `None`: Redfish needs none.
    pub(super) fn table(&self) -> Option<PduTable> {
        match &self.login {
            PduLogin::Redfish { .. } => None,
            PduLogin::SnmpV2c { table, .. } | PduLogin::SnmpV3 { table, .. } => Some(*table),
        }
    }

    /// Weaknesses of the access other than its secrets.
    pub(super) fn warnings(&self) -> Vec<&'static str> {
        match &self.login {
            PduLogin::Redfish { trust, .. } => {
                let mut warnings = Vec::new();
                if *trust == Trust::Insecure {
                    warnings.push("the PDU's certificate is not verified");
                }
                if !self.address.is_tls() {
                    warnings.push("the connection to the PDU has no TLS");
                }
                warnings
            }
            PduLogin::SnmpV2c { .. } => vec![
                "SNMP v2c is neither encrypted nor authenticated: whoever is on the path to the PDU \
                 can switch hosts, and report them off; use v3",
            ],
            PduLogin::SnmpV3 { privacy: None, .. } => {
                vec!["SNMP v3 without encryption; give a privacy_password_file"]
            }
            PduLogin::SnmpV3 { .. } => Vec::new(),
        }
    }
}
