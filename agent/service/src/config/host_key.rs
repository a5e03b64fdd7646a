//! Host keys of BMC addresses, for the rules of `rackhand_agent_core::host_key`.

use rackhand_agent_core::host_key::{HostKey, HostKeys};
use rackhand_bmc::BmcAddress;

use super::HostEntry;

/// The key of a host in the journal: its endpoint, and its system as written.
pub(crate) fn key_text(address: &BmcAddress) -> String {
    format!(
        "{}{}",
        address.endpoint(),
        address.system().unwrap_or_default()
    )
}

/// The host key of an address, in normal form.
pub(crate) fn host_key(address: &BmcAddress) -> HostKey {
    HostKey::parse(&key_text(address))
}

/// The keys of a host in the inventory: one for each address of its BMC.
pub(crate) fn host_keys(host: &HostEntry) -> HostKeys {
    HostKeys::new(host.bmcs().map(|bmc| host_key(&bmc.address)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn key(address: &str) -> HostKey {
        host_key(&address.parse().unwrap())
    }

    #[test]
    fn equivalent_addresses_match_and_others_do_not() {
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
            // One address has no system path.
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
    fn displayed_key_parses_to_the_same_key() {
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
    fn key_of_an_earlier_version_matches_the_same_host() {
        let old = HostKey::parse("redfish://10.0.0.1:443/redfish/v1/Systems/1/");
        assert!(old.matches(&key("redfish://10.0.0.1/redfish/v1/Systems/1")));
        let old = HostKey::parse("ipmi://[fd00::1]:623");
        assert!(old.matches(&key("redfish://[fd00::1]")));
    }

    #[test]
    fn resolved_name_matches_the_host_at_its_address() {
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
