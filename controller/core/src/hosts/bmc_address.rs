//! Comparison of BMC addresses in the grammar of baremetal-operator.

use std::net::IpAddr;

/// The BMC at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bmc {
    host: Host,
    is_ipmi: bool,
    /// `None`: a standard port of the protocol.
    port: Option<String>,
    /// Path of the Redfish system; `None` if the address has none.
    system: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    Name,
}

impl Bmc {
    fn parse(address: &str) -> Self {
        let (protocol, rest) = address.split_once("://").unwrap_or(("ipmi", address));
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let is_ipmi = ["ipmi", "libvirt"].contains(&protocol.to_ascii_lowercase().as_str());
        let (host, port) = split_port(authority);
        let path = path.split('?').next().unwrap_or_default();
        let system = path.trim_matches('/').to_ascii_lowercase();
        let is_usual = if is_ipmi {
            ["", "623"].contains(&port)
        } else {
            ["", "80", "443"].contains(&port)
        };
        Self {
            host: host
                .parse()
                .map_or(Host::Name, |ip: IpAddr| Host::Ip(ip.to_canonical())),
            is_ipmi,
            port: (!is_usual).then(|| port.to_owned()),
            system: (!system.is_empty()).then_some(system),
        }
    }

    /// Whether both are certainly not the BMC of one host. Two names, or a name and an IP address, may be the
    /// same BMC; so may Redfish and IPMI of one IP address, whatever their ports.
    fn is_other_than(&self, other: &Self) -> bool {
        let (Host::Ip(ip), Host::Ip(other_ip)) = (&self.host, &other.host) else {
            return false;
        };
        let other_port = self.is_ipmi == other.is_ipmi && self.port != other.port;
        let systems = self.system.as_ref().zip(other.system.as_ref());
        ip != other_ip || other_port || systems.is_some_and(|(a, b)| a != b)
    }
}

/// Whether the addresses of a BMC, separated by a comma and a space, are all of another BMC than `address`.
/// `false` if that is not certain.
pub(super) fn is_other_bmc(of_inventory: &str, address: &str) -> bool {
    let address = Bmc::parse(address);
    let mut known = of_inventory.split(", ").filter(|text| !text.is_empty());
    let first = known.next();
    first.is_some_and(|first| Bmc::parse(first).is_other_than(&address))
        && known.all(|other| Bmc::parse(other).is_other_than(&address))
}

/// The IP address in a BMC address; `None` for a host name.
pub(super) fn address_ip(address: &str) -> Option<IpAddr> {
    match Bmc::parse(address).host {
        Host::Ip(ip) => Some(ip),
        Host::Name => None,
    }
}

/// Splits `host:port`; the host of an IPv6 address is in brackets, or has no port.
fn split_port(authority: &str) -> (&str, &str) {
    if let Some(v6) = authority.strip_prefix('[') {
        let (host, rest) = v6.split_once(']').unwrap_or((v6, ""));
        return (host, rest.strip_prefix(':').unwrap_or_default());
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, port),
        _ => (authority, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f14_addresses_are_another_bmc_only_if_that_is_certain() {
        for (inventory, address) in [
            ("redfish://192.0.2.1", "redfish://192.0.2.2"),
            (
                "192.0.2.1",
                "redfish+https://192.0.2.2/redfish/v1/Systems/1",
            ),
            ("ipmi://192.0.2.1:6230", "ipmi://192.0.2.1:6231"),
            ("redfish://192.0.2.1:8001/x", "redfish://192.0.2.1/x"),
            (
                "redfish://192.0.2.1/Systems/1",
                "idrac-redfish://192.0.2.1/Systems/2/",
            ),
            ("redfish://[2001:db8::1]", "redfish://[2001:db8::2]:443"),
            ("redfish://192.0.2.1, ipmi://192.0.2.1", "ipmi://192.0.2.3"),
        ] {
            assert!(is_other_bmc(inventory, address), "{inventory} {address}");
        }
        for (inventory, address) in [
            ("redfish://192.0.2.1", "redfish+http://192.0.2.1:80"),
            ("redfish://192.0.2.1:443/Systems/1", "ipmi://192.0.2.1"),
            ("redfish://192.0.2.1:8001", "ipmi://192.0.2.1:6230"),
            ("redfish://192.0.2.1/Systems/1", "redfish://192.0.2.1"),
            ("redfish://::ffff:192.0.2.1", "redfish://192.0.2.1"),
            (
                "redfish://192.0.2.1/Systems/1",
                "redfish://192.0.2.1/systems/1/",
            ),
            ("redfish://bmc-1", "redfish://192.0.2.1"),
            ("redfish://bmc-1", "redfish://bmc-2.example"),
            ("redfish://192.0.2.9, ipmi://192.0.2.1", "ipmi://192.0.2.1"),
            ("redfish://192.0.2.9, ipmi://bmc-1", "ipmi://192.0.2.1"),
            ("", "ipmi://192.0.2.1"),
            ("ipmi://192.0.2.1", ""),
        ] {
            assert!(!is_other_bmc(inventory, address), "{inventory} {address}");
        }
    }

    #[test]
    fn ip_address_is_read_from_every_form_of_address() {
        for (address, ip) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("ipmi://192.0.2.1:623", Some("192.0.2.1")),
            ("redfish://[2001:db8::1]:8443/redfish", Some("2001:db8::1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("redfish://bmc.example:443", None),
            ("", None),
        ] {
            assert_eq!(
                address_ip(address),
                ip.map(|ip| ip.parse().unwrap()),
                "{address}"
            );
        }
    }
}
