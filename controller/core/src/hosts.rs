//! From a Machine and its Node to the host and the agent that can switch it.
//!
//! Owns the order in which names are believed. Must never choose between several: a wrong host is
//! an outage.

use std::{collections::BTreeMap, net::IpAddr};

use crate::remediation::{Because, HostRef};

/// A host of an agent's inventory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InventoryHost {
    /// Its name there.
    pub name: String,
    /// The Node that runs on it; empty: not said.
    pub node_name: String,
    /// The providerID of that Node; empty: not said.
    pub provider_id: String,
    /// The system's UUID; empty: not said.
    pub system_uuid: String,
    /// Where its BMC is.
    pub bmc: String,
}

/// What a rack serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rack {
    /// The inventory of its agent.
    pub hosts: Vec<InventoryHost>,
    /// Networks (CIDR) whose BMCs it reaches for BareMetalHosts; empty: not said.
    pub bmc_networks: Vec<String>,
}

/// What is known about the machine that has to be switched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The Node's name, by nodeRef.
    pub node_name: Option<String>,
    /// providerID of Machine or Node.
    pub provider_id: Option<String>,
    /// systemUUID of the Node.
    pub system_uuid: Option<String>,
    /// Its BareMetalHost.
    pub bmh: Option<WantedBmh>,
}

/// The BareMetalHost of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedBmh {
    /// `namespace/name`.
    pub name: String,
    /// `spec.bmc.address`.
    pub address: String,
    /// Label or annotation `rackhand.dev/rack`.
    pub rack: Option<String>,
}

/// Finds the host. The inventory wins over the BareMetalHost: its credentials never leave the rack.
///
/// # Errors
/// Says that there is none, or names all that fit.
pub fn resolve(wanted: &Wanted, racks: &BTreeMap<String, Rack>) -> Result<HostRef, Because> {
    let mut found: Vec<HostRef> = Vec::new();
    for (rack, served) in racks {
        for host in served.hosts.iter().filter(|h| fits(h, wanted)) {
            found.push(HostRef {
                rack: rack.clone(),
                host: host.name.clone(),
                bmh: wanted.bmh.as_ref().map(|b| b.name.clone()),
                bmc: host.bmc.clone(),
            });
        }
    }
    // Two agents may serve one rack with one inventory: one BMC is one host.
    found.dedup_by(|a, b| a.rack == b.rack && a.host == b.host);
    match found.len() {
        0 => by_bmh(wanted, racks),
        1 => found
            .pop()
            .ok_or_else(|| Because::HostNotFound("none".into())),
        _ => Err(Because::HostAmbiguous(
            found
                .iter()
                .map(|h| format!("{}/{}", h.rack, h.host))
                .collect::<Vec<_>>()
                .join(", "),
        )),
    }
}

fn fits(host: &InventoryHost, wanted: &Wanted) -> bool {
    let said =
        |there: &str, here: &Option<String>| !there.is_empty() && here.as_deref() == Some(there);
    let node = if host.node_name.is_empty() {
        &host.name
    } else {
        &host.node_name
    };
    said(node, &wanted.node_name)
        || said(&host.provider_id, &wanted.provider_id)
        || wanted
            .system_uuid
            .as_deref()
            .is_some_and(|u| same_uuid(u, &host.system_uuid))
}

/// Firmware writes the first three groups of a system's UUID in either byte order: SMBIOS before 2.6
/// and after it differ, and so do BMC and operating system.
fn same_uuid(a: &str, b: &str) -> bool {
    let digits = |text: &str| -> Option<String> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_uuid = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
        is_uuid.then(|| digits.to_ascii_lowercase())
    };
    let swapped = |text: &str| -> Option<String> {
        let group = |from: usize, to: usize| -> Option<String> {
            let bytes = text.get(from..to)?.as_bytes().rchunks(2);
            Some(bytes.map(|pair| String::from_utf8_lossy(pair)).collect())
        };
        let (first, second, third) = (group(0, 8)?, group(8, 12)?, group(12, 16)?);
        Some(format!("{first}{second}{third}{}", text.get(16..)?))
    };
    match (digits(a), digits(b)) {
        (Some(a), Some(b)) => a == b || swapped(&a).as_ref() == Some(&b),
        _ => !a.is_empty() && a.eq_ignore_ascii_case(b),
    }
}

fn by_bmh(wanted: &Wanted, racks: &BTreeMap<String, Rack>) -> Result<HostRef, Because> {
    let Some(bmh) = &wanted.bmh else {
        let node = wanted.node_name.as_deref().unwrap_or("(none)");
        return Err(Because::HostNotFound(format!(
            "no agent's inventory knows node {node}, and no BareMetalHost belongs to it"
        )));
    };
    if bmh.address.is_empty() {
        return Err(Because::HostNotFound(format!(
            "BareMetalHost {} has no spec.bmc.address",
            bmh.name
        )));
    }
    let here = |rack: &str| HostRef {
        rack: rack.to_owned(),
        host: bmh.name.clone(),
        bmh: Some(bmh.name.clone()),
        bmc: bmh.address.clone(),
    };
    if let Some(rack) = &bmh.rack {
        return if racks.contains_key(rack) {
            Ok(here(rack))
        } else {
            Err(Because::HostNotFound(format!(
                "BareMetalHost {} names rack {rack}, and no RackAgent serves it",
                bmh.name
            )))
        };
    }
    let ip = address_ip(&bmh.address);
    let serving: Vec<&String> = racks
        .iter()
        .filter(|(_, r)| ip.is_some_and(|ip| r.bmc_networks.iter().any(|n| contains(n, ip))))
        .map(|(name, _)| name)
        .collect();
    match (serving.as_slice(), racks.len()) {
        ([rack], _) => Ok(here(rack)),
        ([], 1) => racks
            .keys()
            .next()
            .map(|r| here(r))
            .ok_or_else(|| Because::HostNotFound("no rack".into())),
        ([], _) => Err(Because::HostNotFound(format!(
            "no RackAgent's spec.bmcNetworks holds the BMC {} of BareMetalHost {}; or label the \
             BareMetalHost rackhand.dev/rack=<rack>",
            bmh.address, bmh.name
        ))),
        (several, _) => Err(Because::HostAmbiguous(format!(
            "the BMC {} of BareMetalHost {} lies in spec.bmcNetworks of racks {}",
            bmh.address,
            bmh.name,
            several
                .iter()
                .map(|s| s.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}

/// The IP in a BMC address of baremetal-operator's grammar, where it is written as one.
fn address_ip(address: &str) -> Option<IpAddr> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next()?;
    if let Some(v6) = authority.strip_prefix('[') {
        return v6.split(']').next()?.parse().ok();
    }
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    host.parse().or_else(|_| authority.parse()).ok()
}

/// Whether a CIDR network holds an address; what does not read holds nothing.
fn contains(network: &str, ip: IpAddr) -> bool {
    let Some((base, bits)) = network.split_once('/') else {
        return network.parse() == Ok(ip);
    };
    let (Ok(base), Ok(bits)) = (base.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (base, ip) {
        (IpAddr::V4(base), IpAddr::V4(ip)) => {
            bits <= 32
                && (u32::from(base) ^ u32::from(ip))
                    .checked_shr(32 - bits)
                    .unwrap_or(0)
                    == 0
        }
        (IpAddr::V6(base), IpAddr::V6(ip)) => {
            bits <= 128
                && (u128::from(base) ^ u128::from(ip))
                    .checked_shr(128 - bits)
                    .unwrap_or(0)
                    == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rack(hosts: &[(&str, &str, &str)]) -> Rack {
        Rack {
            hosts: hosts
                .iter()
                .map(|(name, node, uuid)| InventoryHost {
                    name: (*name).into(),
                    node_name: (*node).into(),
                    system_uuid: (*uuid).into(),
                    bmc: format!("bmc-of-{name}"),
                    ..Default::default()
                })
                .collect(),
            bmc_networks: vec![],
        }
    }

    fn node(name: &str) -> Wanted {
        Wanted {
            node_name: Some(name.into()),
            ..Default::default()
        }
    }

    fn bmh(address: &str, rack: Option<&str>) -> Wanted {
        Wanted {
            bmh: Some(WantedBmh {
                name: "ns/h".into(),
                address: address.into(),
                rack: rack.map(Into::into),
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_host_is_found_by_its_node_name_or_else_by_its_own() {
        let racks = BTreeMap::from([("a".into(), rack(&[("h1", "n1", ""), ("n2", "", "")]))]);
        assert_eq!(resolve(&node("n1"), &racks).unwrap().host, "h1");
        assert_eq!(resolve(&node("n2"), &racks).unwrap().host, "n2");
    }

    #[test]
    fn a_host_that_runs_another_node_is_not_found_by_its_own_name() {
        let racks = BTreeMap::from([("a".into(), rack(&[("n2", "n1", "")]))]);
        assert!(matches!(
            resolve(&node("n2"), &racks),
            Err(Because::HostNotFound(_))
        ));
    }

    #[test]
    fn f5_two_hosts_that_fit_are_named_and_none_is_chosen() {
        let racks = BTreeMap::from([
            ("a".into(), rack(&[("h1", "n1", "")])),
            ("b".into(), rack(&[("h2", "", "0000-1")])),
        ]);
        let wanted = Wanted {
            system_uuid: Some("0000-1".into()),
            ..node("n1")
        };
        assert_eq!(
            resolve(&wanted, &racks),
            Err(Because::HostAmbiguous("a/h1, b/h2".into()))
        );
    }

    #[test]
    fn a_host_is_found_by_its_system_uuid_in_either_byte_order() {
        let uuid = "00112233-4455-6677-8899-aabbccddeeff";
        let racks = BTreeMap::from([("a".into(), rack(&[("h1", "other", uuid)]))]);
        let by_uuid = |uuid: &str| {
            let wanted = Wanted {
                system_uuid: Some(uuid.into()),
                ..node("n1")
            };
            resolve(&wanted, &racks).map(|host| host.host)
        };
        for same in [uuid, "33221100-5544-7766-8899-AABBCCDDEEFF"] {
            assert_eq!(by_uuid(same), Ok("h1".into()), "{same}");
        }
        for other in ["33221100-5544-6677-8899-aabbccddeeff", "", "nonsense", "é"] {
            assert!(by_uuid(other).is_err(), "{other}");
        }
    }

    #[test]
    fn the_inventory_wins_over_the_bare_metal_host() {
        let racks = BTreeMap::from([("a".into(), rack(&[("h1", "n1", "")]))]);
        let wanted = Wanted {
            node_name: Some("n1".into()),
            ..bmh("ipmi://192.0.2.1", None)
        };
        let found = resolve(&wanted, &racks).unwrap();
        assert_eq!(
            (found.host.as_str(), found.bmc.as_str()),
            ("h1", "bmc-of-h1")
        );
        assert_eq!(found.bmh.as_deref(), Some("ns/h"));
    }

    #[test]
    fn a_bare_metal_host_goes_to_the_agent_whose_network_holds_its_bmc() {
        let net = |n: &str| Rack {
            bmc_networks: vec![n.into()],
            ..Default::default()
        };
        let racks = BTreeMap::from([
            ("a".into(), net("192.0.2.0/25")),
            ("b".into(), net("192.0.2.128/25")),
            ("c".into(), net("2001:db8::/32")),
        ]);
        for (address, expected) in [
            ("redfish+https://192.0.2.7:8443/redfish/v1/Systems/1", "a"),
            ("192.0.2.200", "b"),
            (
                "idrac-virtualmedia://[2001:db8::7]/redfish/v1/Systems/1",
                "c",
            ),
        ] {
            assert_eq!(
                resolve(&bmh(address, None), &racks).unwrap().rack,
                expected,
                "{address}"
            );
        }
        assert!(resolve(&bmh("redfish://198.51.100.1", None), &racks).is_err());
        assert!(resolve(&bmh("redfish://bmc.example", None), &racks).is_err());
        assert_eq!(
            resolve(&bmh("redfish://bmc.example", Some("b")), &racks)
                .unwrap()
                .rack,
            "b"
        );
        assert!(resolve(&bmh("redfish://bmc.example", Some("z")), &racks).is_err());
    }

    #[test]
    fn without_a_host_the_message_says_what_to_do() {
        let message = resolve(&node("n9"), &BTreeMap::new())
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("n9") && message.contains("inventory"),
            "{message}"
        );
    }

    #[test]
    fn odd_networks_hold_nothing_and_do_not_panic() {
        let ip = IpAddr::from([192, 0, 2, 1]);
        for network in [
            "",
            "/",
            "192.0.2.0/33",
            "192.0.2.0/x",
            "::/0",
            "192.0.2.0/-1",
        ] {
            assert!(!contains(network, ip), "{network}");
        }
        assert!(contains("0.0.0.0/0", ip) && contains("192.0.2.1", ip));
    }
}
