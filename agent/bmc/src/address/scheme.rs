//! The schemes of baremetal-operator, as one table.
//!
//! Owns: the protocol that each scheme selects. Must never: parse any other part of an address.

use crate::Protocol;

/// Transport of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Carrier {
    /// Redfish over TLS.
    Https,
    /// Redfish without TLS; only where the address has `+http`.
    Http,
    /// RMCP+ over UDP.
    Udp,
}

impl Carrier {
    pub(super) fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Udp => 623,
        }
    }
}

/// Support of a scheme in baremetal-operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemeStatus {
    Current,
    /// Still accepted, under a newer name.
    Deprecated(&'static str),
    /// Removed; hosts that still use it are served by the protocol in the table.
    Removed,
}

/// One row of [`SCHEMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Scheme(usize);

struct Row {
    name: &'static str,
    protocol: Protocol,
    standing: SchemeStatus,
}

const fn row(name: &'static str, protocol: Protocol, standing: SchemeStatus) -> Row {
    Row {
        name,
        protocol,
        standing,
    }
}

// iLO 4 and iRMC: their native protocols were removed, and their Redfish is partial, so IPMI is
// used. iLO 5, iBMC and every iDRAC still in service support Redfish.
const SCHEMES: &[Row] = &[
    row("ipmi", Protocol::Ipmi, SchemeStatus::Current),
    row("libvirt", Protocol::Ipmi, SchemeStatus::Current),
    row("redfish", Protocol::Redfish, SchemeStatus::Current),
    row(
        "redfish-virtualmedia",
        Protocol::Redfish,
        SchemeStatus::Current,
    ),
    row("redfish-uefihttp", Protocol::Redfish, SchemeStatus::Current),
    row("idrac-redfish", Protocol::Redfish, SchemeStatus::Current),
    row(
        "idrac-virtualmedia",
        Protocol::Redfish,
        SchemeStatus::Current,
    ),
    row(
        "ilo5-redfish",
        Protocol::Redfish,
        SchemeStatus::Deprecated("redfish"),
    ),
    row(
        "ilo5-virtualmedia",
        Protocol::Redfish,
        SchemeStatus::Deprecated("redfish-virtualmedia"),
    ),
    row("irmc", Protocol::Ipmi, SchemeStatus::Removed),
    row("ilo4", Protocol::Ipmi, SchemeStatus::Removed),
    row("ilo4-virtualmedia", Protocol::Ipmi, SchemeStatus::Removed),
    row("ilo5", Protocol::Redfish, SchemeStatus::Removed),
    row("ibmc", Protocol::Redfish, SchemeStatus::Removed),
    row("idrac", Protocol::Redfish, SchemeStatus::Removed),
];

pub(super) const IPMI: Scheme = Scheme(0);

/// Looks up a scheme, with or without `+http` or `+https`, ignoring case as URLs do.
pub(super) fn lookup(text: &str) -> Option<(Scheme, Carrier)> {
    let text = text.to_ascii_lowercase();
    let (name, carrier) = match text.split_once('+') {
        None => (text.as_str(), None),
        Some((name, "https")) => (name, Some(Carrier::Https)),
        Some((name, "http")) => (name, Some(Carrier::Http)),
        Some(_) => return None,
    };
    let index = SCHEMES.iter().position(|row| row.name == name)?;
    let scheme = Scheme(index);
    match (scheme.protocol(), scheme.standing(), carrier) {
        (Protocol::Redfish, _, carrier) => Some((scheme, carrier.unwrap_or(Carrier::Https))),
        // The transport of a removed scheme was that of its native protocol.
        (Protocol::Ipmi, SchemeStatus::Removed, _) | (Protocol::Ipmi, _, None) => {
            Some((scheme, Carrier::Udp))
        }
        (Protocol::Ipmi, _, Some(_)) => None,
    }
}

impl Scheme {
    pub(super) fn name(self) -> &'static str {
        SCHEMES.get(self.0).map_or("", |row| row.name)
    }

    pub(super) fn protocol(self) -> Protocol {
        SCHEMES
            .get(self.0)
            .map_or(Protocol::Ipmi, |row| row.protocol)
    }

    pub(super) fn standing(self) -> SchemeStatus {
        SCHEMES
            .get(self.0)
            .map_or(SchemeStatus::Current, |row| row.standing)
    }
}
