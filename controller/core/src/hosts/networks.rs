//! The BMC networks of racks.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use ipnet::IpNet;

use super::bmc_address::address_ip;

/// The BMC networks of racks, by their prefixes: an address is looked up in the same time, however many racks
/// there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct RackNetworks {
    /// The racks of each network, which is written without bits behind its prefix.
    racks: HashMap<IpNet, BTreeSet<String>>,
}

impl RackNetworks {
    /// Adds networks of a rack. A malformed network contains nothing.
    pub(crate) fn add(&mut self, rack: &str, networks: &[String]) {
        for network in networks.iter().filter_map(|text| parse(text)) {
            let racks = self.racks.entry(network).or_default();
            racks.insert(rack.to_owned());
        }
    }

    /// Removes networks of a rack.
    pub(crate) fn remove(&mut self, rack: &str, networks: &[String]) {
        for network in networks.iter().filter_map(|text| parse(text)) {
            if let Some(racks) = self.racks.get_mut(&network) {
                racks.remove(rack);
                if racks.is_empty() {
                    self.racks.remove(&network);
                }
            }
        }
    }

    /// The racks whose networks hold the BMC at this address, in the order of their names.
    pub(crate) fn serving(&self, address: &str) -> Vec<&str> {
        let Some(ip) = address_ip(address) else {
            return Vec::new();
        };
        let longest = IpNet::from(ip).max_prefix_len();
        let around = (0..=longest).filter_map(|bits| IpNet::new(ip, bits).ok());
        let serving: BTreeSet<&str> = around
            .filter_map(|network| self.racks.get(&network.trunc()))
            .flatten()
            .map(String::as_str)
            .collect();
        serving.into_iter().collect()
    }
}

/// A network in CIDR notation, or one address; `None` if it is malformed.
fn parse(text: &str) -> Option<IpNet> {
    let network = text.parse::<IpNet>();
    let network = network.or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.ok().map(|network| network.trunc())
}

/// Whether a network contains an address; a malformed one contains none.
pub(super) fn contains(network: &str, ip: IpAddr) -> bool {
    parse(network).is_some_and(|network| network.contains(&ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_served_by_each_rack_with_a_network_around_it() {
        let mut networks = RackNetworks::default();
        let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(|t| (*t).into()).collect() };
        let of_b = texts(&["192.0.2.7/24", "2001:db8::/32"]);
        networks.add("c", &texts(&["192.0.2.9"]));
        networks.add("b", &of_b);
        networks.add("a", &texts(&["0.0.0.0/0", "none"]));
        assert_eq!(networks.serving("redfish://192.0.2.9"), ["a", "b", "c"]);
        assert_eq!(networks.serving("192.0.2.8:623"), ["a", "b"]);
        assert_eq!(networks.serving("198.51.100.1"), ["a"]);
        assert_eq!(networks.serving("redfish://[2001:db8::1]/x"), ["b"]);
        assert!(networks.serving("redfish://bmc.example").is_empty());
        networks.remove("b", &of_b);
        assert_eq!(networks.serving("192.0.2.8"), ["a"]);
    }
}
