//! Comparison of BMC addresses: which of them may belong to one host.
//!
//! Owns: the normal form of a host's address, and the matching of two addresses. Must never:
//! resolve a name, or treat two addresses as different because one of them is less specific.

use std::{collections::BTreeSet, fmt, net::IpAddr, sync::Arc};

/// Host part of an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Machine {
    Ip(IpAddr),
    Name(String),
}

/// Management service of a BMC. A BMC has one address and serves Redfish and IPMI at their standard
/// ports; another port is a separate service, such as one of many simulated BMCs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Service {
    Usual,
    At { protocol: String, port: String },
}

/// One address of a host's BMC in normal form, with the system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey {
    machine: Machine,
    service: Service,
    /// `None`: the BMC has one system, or the protocol has no system paths.
    system: Option<String>,
}

impl HostKey {
    /// Parses an address as written in a configuration, or by `Display` of this or an earlier
    /// version.
    pub fn parse(text: &str) -> Self {
        let (protocol, rest) = text.split_once("://").unwrap_or(("", text));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // The colons of an IPv6 address are in brackets.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (authority, ""),
        };
        let protocol = protocol.to_ascii_lowercase();
        let is_usual = matches!(
            (protocol.as_str(), port),
            ("redfish", "443" | "80") | ("ipmi", "623") | (_, "")
        );
        let system = path.trim_matches('/').to_ascii_lowercase();
        Self {
            machine: Machine::parse(host),
            service: match is_usual {
                true => Service::Usual,
                false => Service::At {
                    protocol,
                    port: port.to_owned(),
                },
            },
            system: (!system.is_empty()).then_some(system),
        }
    }

    /// Whether both may belong to one host: the same service of the same machine, and not two
    /// systems.
    pub fn matches(&self, other: &Self) -> bool {
        let same_system = match (&self.system, &other.system) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        same_system && self.machine == other.machine && self.service == other.service
    }

    /// The BMC without the system.
    pub fn endpoint(&self) -> String {
        Endpoint(self).to_string()
    }

    /// The name to resolve; `None`: the host is an IP address.
    pub fn name(&self) -> Option<&str> {
        match &self.machine {
            Machine::Ip(_) => None,
            Machine::Name(name) => Some(name),
        }
    }

    fn at(&self, ip: IpAddr) -> Self {
        Self {
            machine: Machine::Ip(ip.to_canonical()),
            ..self.clone()
        }
    }
}

impl Machine {
    fn parse(host: &str) -> Self {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Self::Ip(ip.to_canonical());
        }
        Self::Name(bare.trim_end_matches('.').to_ascii_lowercase())
    }
}

/// A BMC without the system.
struct Endpoint<'a>(&'a HostKey);

impl fmt::Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostKey {
            machine, service, ..
        } = self.0;
        let protocol = match service {
            Service::Usual => "bmc",
            Service::At { protocol, .. } => protocol,
        };
        write!(f, "{protocol}://")?;
        match machine {
            Machine::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            Machine::Ip(ip) => write!(f, "{ip}")?,
            Machine::Name(name) => f.write_str(name)?,
        }
        match service {
            Service::Usual => Ok(()),
            Service::At { port, .. } => write!(f, ":{port}"),
        }
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Endpoint(self))?;
        match &self.system {
            Some(system) => write!(f, "/{system}"),
            None => Ok(()),
        }
    }
}

/// Every address under which a host is known. Clones share them: each part of an operation keeps one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HostKeys(
    /// In their order, each once.
    Arc<[HostKey]>,
);

impl HostKeys {
    /// Collects addresses of one host.
    pub fn new(keys: impl IntoIterator<Item = HostKey>) -> Self {
        let mut keys: Vec<HostKey> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        Self(keys.into())
    }

    /// Whether one of these addresses may belong to the host of the others.
    pub fn matches(&self, other: &Self) -> bool {
        self.0
            .iter()
            .any(|one| other.0.iter().any(|other| one.matches(other)))
    }

    /// Whether the key of a record belongs to this host.
    pub fn mean(&self, key: &str) -> bool {
        let key = HostKey::parse(key);
        self.0.iter().any(|one| one.matches(&key))
    }

    /// All addresses.
    pub fn iter(&self) -> impl Iterator<Item = &HostKey> {
        self.0.iter()
    }

    /// Adds the addresses of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.add(other.0.iter().cloned());
    }

    /// The BMCs without their systems.
    pub fn endpoints(&self) -> BTreeSet<String> {
        self.0.iter().map(HostKey::endpoint).collect()
    }

    /// The names to resolve.
    pub fn names(&self) -> BTreeSet<String> {
        let names = self.0.iter().filter_map(HostKey::name);
        names.map(str::to_owned).collect()
    }

    /// Adds the resolved addresses of a name.
    pub fn resolve(&mut self, name: &str, ips: &[IpAddr]) {
        let of_name = self.0.iter().filter(|key| key.name() == Some(name));
        let found: Vec<HostKey> = of_name
            .flat_map(|key| ips.iter().map(|ip| key.at(*ip)))
            .collect();
        self.add(found);
    }

    fn add(&mut self, keys: impl IntoIterator<Item = HostKey>) {
        *self = Self::new(self.0.iter().cloned().chain(keys));
    }

    /// Whether at least one address is an IP address.
    pub fn has_ip(&self) -> bool {
        self.0.iter().any(|key| key.name().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_each_address_once_in_whatever_order_they_are_added() {
        let key = |address| HostKey::parse(address);
        let (one, other) = (key("redfish://10.0.0.1"), key("redfish://10.0.0.2"));
        let both = HostKeys::new([one.clone(), other.clone()]);
        assert_eq!(both.iter().count(), 2);
        let mut keys = HostKeys::new([other.clone(), other]);
        let clone = keys.clone();
        keys.extend(&HostKeys::new([one]));
        keys.extend(&both);
        assert_eq!(keys, both);
        assert_eq!(clone.iter().count(), 1, "what was cloned stays as it was");
    }
}
