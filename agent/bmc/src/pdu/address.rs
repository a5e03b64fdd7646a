//! Addresses of PDUs.
//!
//! Owns: the parts of an address (protocol, host, port, path) and its notation. Must never: hold or print a
//! secret, connect, or resolve a name.

use std::{fmt, str::FromStr};

use crate::{
    AddressError, BmcAddress, Protocol,
    address::{Host, split_authority},
};

/// UDP port of SNMP agents (RFC 3417, 3.1).
const SNMP_PORT: u16 = 161;

/// The protocol of a PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PduProtocol {
    /// DMTF Redfish over HTTP(S).
    Redfish,
    /// SNMP version 2c or 3.
    Snmp,
}

/// The parsed address of a PDU, without credentials: `redfish://pdu-a.example`,
/// `redfish://pdu-a.example/redfish/v1/PowerEquipment/RackPDUs/1`, `snmp://10.0.0.7:161`.
///
/// A Redfish address without a path means the only PDU of the service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PduAddress(Kind);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Redfish(BmcAddress),
    Snmp { host: Host, port: u16 },
}

impl PduAddress {
    /// The protocol.
    pub fn protocol(&self) -> PduProtocol {
        match &self.0 {
            Kind::Redfish(_) => PduProtocol::Redfish,
            Kind::Snmp { .. } => PduProtocol::Snmp,
        }
    }

    /// The host to connect to: a DNS name in lower case or an IP address, IPv6 without brackets.
    pub fn host(&self) -> String {
        match &self.0 {
            Kind::Redfish(address) => address.host(),
            Kind::Snmp { host, .. } => host.bare(),
        }
    }

    /// The port: as given, otherwise 443 (Redfish over HTTPS), 80 (Redfish over HTTP) or 161 (SNMP).
    pub fn port(&self) -> u16 {
        match &self.0 {
            Kind::Redfish(address) => address.port(),
            Kind::Snmp { port, .. } => *port,
        }
    }

    /// Whether the protocol is Redfish over TLS.
    pub fn is_tls(&self) -> bool {
        matches!(&self.0, Kind::Redfish(address) if address.is_tls())
    }

    /// Whether it names a resource of the service.
    pub fn has_path(&self) -> bool {
        matches!(&self.0, Kind::Redfish(address) if address.system().is_some())
    }

    /// The address of a Redfish service.
    #[cfg(feature = "redfish")]
    pub(super) fn redfish(&self) -> Option<&BmcAddress> {
        match &self.0 {
            Kind::Redfish(address) => Some(address),
            Kind::Snmp { .. } => None,
        }
    }
}

impl FromStr for PduAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let snmp = text
            .split_once("://")
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("snmp"));
        if let Some((_, rest)) = snmp {
            if rest.contains('@') {
                return Err(AddressError::UserInfo);
            }
            let (host, port) = split_authority(rest.strip_suffix('/').unwrap_or(rest))?;
            let port = port.unwrap_or(SNMP_PORT);
            return Ok(Self(Kind::Snmp { host, port }));
        }
        let address: BmcAddress = text.parse()?;
        if address.protocol() != Protocol::Redfish {
            let scheme = text.split_once("://").map_or("?", |(scheme, _)| scheme);
            return Err(AddressError::PduScheme(scheme.chars().take(16).collect()));
        }
        Ok(Self(Kind::Redfish(address)))
    }
}

impl fmt::Display for PduAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Redfish(address) => address.fmt(f),
            Kind::Snmp { host, port } => write!(f, "snmp://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_selects_the_protocol_and_the_port() {
        for (text, protocol, shown) in [
            ("snmp://pdu-A", PduProtocol::Snmp, "snmp://pdu-a:161"),
            (
                "SNMP://10.0.0.7:1161/",
                PduProtocol::Snmp,
                "snmp://10.0.0.7:1161",
            ),
            (
                "snmp://[fd00::7]",
                PduProtocol::Snmp,
                "snmp://[fd00::7]:161",
            ),
            (
                "redfish://pdu-a",
                PduProtocol::Redfish,
                "redfish://pdu-a:443",
            ),
            (
                "redfish+http://h/redfish/v1/PowerEquipment/RackPDUs/1",
                PduProtocol::Redfish,
                "redfish+http://h:80/redfish/v1/PowerEquipment/RackPDUs/1",
            ),
        ] {
            let address: PduAddress = text.parse().unwrap();
            assert_eq!(address.protocol(), protocol, "{text}");
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address));
        }
        let v6: PduAddress = "snmp://[fd00::7]".parse().unwrap();
        assert_eq!(v6.host(), "fd00::7");
    }

    #[test]
    fn other_schemes_and_credentials_are_refused() {
        for text in [
            "ipmi://h",
            "10.0.0.7",
            "snmp://",
            "snmp://h/x",
            "snmp://h:0",
            "snmp:h",
            "",
        ] {
            assert!(text.parse::<PduAddress>().is_err(), "{text}");
        }
        let secret = "snmp://private@h".parse::<PduAddress>().unwrap_err();
        assert_eq!(secret, AddressError::UserInfo);
    }
}
