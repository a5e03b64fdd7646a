//! Which host a BMC address means, however it is written.
//!
//! Owns: the normal form of a host's address, and when two addresses may mean one host. Must never:
//! resolve a name, or call two addresses different only because one of them says less.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use rackhand_bmc::BmcAddress;

/// The host in an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Machine {
    Ip(IpAddr),
    Name(String),
}

/// How a BMC is spoken to. A BMC has one address and serves Redfish and IPMI there at their usual
/// ports; at another port stands a service of its own, such as one of many simulated BMCs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Service {
    Usual,
    At { protocol: String, port: String },
}

/// One address of a host's BMC, in normal form, with the system behind it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostKey {
    machine: Machine,
    service: Service,
    /// `None`: the BMC has one system, or the protocol names none.
    system: Option<String>,
}

impl HostKey {
    pub(crate) fn of(address: &BmcAddress) -> Self {
        Self::parse(&key_text(address))
    }

    /// Reads what `key_text` or `Display` wrote, also in an earlier version.
    pub(crate) fn parse(text: &str) -> Self {
        let (protocol, rest) = text.split_once("://").unwrap_or(("", text));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // The colons of an IPv6 address stand in brackets.
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

    /// Whether both may mean one host: the same service of the same machine, and no two systems.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        let same_system = match (&self.system, &other.system) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        same_system && self.machine == other.machine && self.service == other.service
    }

    /// The BMC alone, for all of its systems.
    pub(crate) fn endpoint(&self) -> String {
        let alone = Self {
            system: None,
            ..self.clone()
        };
        alone.to_string()
    }

    /// The name to look up; `None`: it is an IP address.
    pub(crate) fn name(&self) -> Option<&str> {
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

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match &self.service {
            Service::Usual => "bmc",
            Service::At { protocol, .. } => protocol,
        };
        write!(f, "{protocol}://")?;
        match &self.machine {
            Machine::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            Machine::Ip(ip) => write!(f, "{ip}")?,
            Machine::Name(name) => f.write_str(name)?,
        }
        if let Service::At { port, .. } = &self.service {
            write!(f, ":{port}")?;
        }
        match &self.system {
            Some(system) => write!(f, "/{system}"),
            None => Ok(()),
        }
    }
}

/// The key under which a host stands in the journal: its endpoint, and its system as written.
pub(crate) fn key_text(address: &BmcAddress) -> String {
    format!(
        "{}{}",
        address.endpoint(),
        address.system().unwrap_or_default()
    )
}

/// Every address under which a host is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostKeys(BTreeSet<HostKey>);

impl HostKeys {
    pub(crate) fn new(keys: impl IntoIterator<Item = HostKey>) -> Self {
        Self(keys.into_iter().collect())
    }

    /// Whether one of them may mean the host that one of the others means.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.0
            .iter()
            .any(|one| other.0.iter().any(|other| one.matches(other)))
    }

    /// Whether the key of a record means this host.
    pub(crate) fn mean(&self, key: &str) -> bool {
        let key = HostKey::parse(key);
        self.0.iter().any(|one| one.matches(&key))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HostKey> {
        self.0.iter()
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// The BMCs alone.
    pub(crate) fn endpoints(&self) -> BTreeSet<String> {
        self.0.iter().map(HostKey::endpoint).collect()
    }

    /// The names to look up.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let names = self.0.iter().filter_map(HostKey::name);
        names.map(str::to_owned).collect()
    }

    /// Adds the addresses of a name.
    pub(crate) fn resolve(&mut self, name: &str, ips: &[IpAddr]) {
        let of_name = self.0.iter().filter(|key| key.name() == Some(name));
        let found: Vec<HostKey> = of_name
            .flat_map(|key| ips.iter().map(|ip| key.at(*ip)))
            .collect();
        self.0.extend(found);
    }

    /// Whether it is known by an IP address.
    pub(crate) fn has_ip(&self) -> bool {
        self.0.iter().any(|key| key.name().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str) -> HostKey {
        HostKey::of(&address.parse().unwrap())
    }

    #[test]
    fn spellings_of_one_host_match_and_those_of_two_do_not() {
        let one_host = [
            ("redfish://BMC-1.Example", "redfish://bmc-1.example"),
            ("redfish://10.0.0.1", "redfish://10.0.0.1:443/"),
            ("redfish://10.0.0.1", "redfish+https://10.0.0.1/redfish/v1/"),
            (
                "redfish://10.0.0.1/redfish/v1/Systems/1",
                "redfish://10.0.0.1/redfish/v1/Systems/1/",
            ),
            (
                "redfish://10.0.0.1/redfish/v1/Systems/Self",
                "redfish://10.0.0.1/redfish/v1/systems/self",
            ),
            (
                "idrac-virtualmedia://10.0.0.1/redfish/v1/Systems/1",
                "redfish+http://10.0.0.1/redfish/v1/Systems/1",
            ),
            // One of them says less.
            (
                "redfish://10.0.0.1",
                "redfish://10.0.0.1/redfish/v1/Systems/1",
            ),
            ("ipmi://10.0.0.1", "redfish://10.0.0.1/redfish/v1/Systems/1"),
            ("ipmi://10.0.0.1", "10.0.0.1:623"),
            ("redfish://[FD00:0::1]", "redfish://[fd00::1]:443"),
            ("redfish://[::ffff:10.0.0.1]", "redfish://10.0.0.1"),
            ("redfish://10.0.0.1:8000", "redfish+http://10.0.0.1:8000/"),
        ];
        for (one, other) in one_host {
            assert!(key(one).matches(&key(other)), "{one} {other}");
        }
        let two_hosts = [
            ("redfish://10.0.0.1", "redfish://10.0.0.2"),
            ("redfish://bmc-1.example", "redfish://bmc-2.example"),
            ("redfish://10.0.0.1:8000", "redfish://10.0.0.1:8001"),
            ("redfish://10.0.0.1:6230", "ipmi://10.0.0.1:6230"),
            ("redfish://10.0.0.1:8000", "redfish://10.0.0.1"),
            (
                "redfish://10.0.0.1/redfish/v1/Systems/1",
                "redfish://10.0.0.1/redfish/v1/Systems/2",
            ),
        ];
        for (one, other) in two_hosts {
            assert!(!key(one).matches(&key(other)), "{one} {other}");
        }
    }

    #[test]
    fn the_normal_form_reads_as_it_is_written() {
        for address in [
            "redfish://10.0.0.1/redfish/v1/Systems/1",
            "redfish://bmc-1.example",
            "redfish://[fd00::1]:8000/redfish/v1/Systems/a",
            "ipmi://10.0.0.1:6230",
        ] {
            let key = key(address);
            assert_eq!(HostKey::parse(&key.to_string()), key, "{address}");
        }
    }

    #[test]
    fn a_key_of_an_earlier_version_means_the_same_host() {
        let old = HostKey::parse("redfish://10.0.0.1:443/redfish/v1/Systems/1/");
        assert!(old.matches(&key("redfish://10.0.0.1/redfish/v1/Systems/1")));
        let old = HostKey::parse("ipmi://[fd00::1]:623");
        assert!(old.matches(&key("redfish://[fd00::1]")));
    }

    #[test]
    fn a_name_means_the_hosts_at_its_addresses() {
        let mut by_name = HostKeys::new([key("redfish://bmc.example/redfish/v1/Systems/1")]);
        let by_ip = HostKeys::new([key("redfish://10.0.0.1/redfish/v1/Systems/1")]);
        assert!(!by_name.matches(&by_ip) && !by_name.has_ip());
        assert_eq!(by_name.names(), BTreeSet::from(["bmc.example".to_owned()]));
        by_name.resolve("bmc.example", &["::ffff:10.0.0.1".parse().unwrap()]);
        assert!(by_name.matches(&by_ip) && by_name.has_ip());
        let neighbour = HostKeys::new([key("redfish://10.0.0.1/redfish/v1/Systems/2")]);
        assert!(!by_name.matches(&neighbour));
    }
}
