//! Tests of the resolution of a host.

use std::net::IpAddr;

use rackhand_identity::SystemUuid;

use super::*;

mod naming;

const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";

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
        ..Default::default()
    }
}

/// Nodes by cluster, name, providerID and system UUID.
type Nodes = Vec<(&'static str, &'static str, &'static str, &'static str)>;

impl KnownNodes for Nodes {
    fn find_other(
        &self,
        wanted: &HostQuery,
        identity: NodeKey<'_>,
        within: Option<&str>,
    ) -> Option<NodeOfCluster> {
        let found = self.iter().find(|(cluster, name, provider, uuid)| {
            let is_ours = wanted.node_name.as_deref() == Some(name)
                && wanted.clusters.iter().any(|c| c == cluster);
            let has = match identity {
                NodeKey::NodeName(wanted) => *name == wanted,
                NodeKey::ProviderId(wanted) => *provider == wanted,
                NodeKey::SystemUuid(wanted) => SystemUuid::parse(uuid) == Some(wanted),
            };
            !is_ours && has && within.is_none_or(|within| within == *cluster)
        });
        found.map(|(cluster, name, ..)| NodeOfCluster {
            cluster: (*cluster).into(),
            name: (*name).into(),
        })
    }
}

/// Resolves in a world without other Nodes.
fn resolve(wanted: &HostQuery, racks: &Racks) -> Result<HostRef, Reason> {
    super::resolve(wanted, racks, &Nodes::new()).host
}

fn node(name: &str) -> HostQuery {
    HostQuery {
        node_name: Some(name.into()),
        ..Default::default()
    }
}

fn bmh(address: &str, rack: Option<&str>) -> HostQuery {
    HostQuery {
        bmh: Some(BareMetalHostRef {
            name: "ns/h".into(),
            address: address.into(),
            rack: rack.map(Into::into),
        }),
        ..Default::default()
    }
}

#[test]
fn host_is_found_by_node_name_or_else_by_host_name() {
    let racks = Racks::from([("a".into(), rack(&[("h1", "n1", ""), ("n2", "", "")]))]);
    assert_eq!(resolve(&node("n1"), &racks).unwrap().host, "h1");
    assert_eq!(resolve(&node("n2"), &racks).unwrap().host, "n2");
}

#[test]
fn host_with_another_node_name_is_not_found_by_host_name() {
    let racks = Racks::from([("a".into(), rack(&[("n2", "n1", "")]))]);
    assert!(matches!(
        resolve(&node("n2"), &racks),
        Err(Reason::HostNotFound(_))
    ));
}

#[test]
fn f5_two_matching_hosts_are_ambiguous() {
    let racks = Racks::from([
        ("a".into(), rack(&[("h1", "n1", "")])),
        ("b".into(), rack(&[("h2", "", UUID)])),
    ]);
    let wanted = HostQuery {
        system_uuid: Some(UUID.into()),
        ..node("n1")
    };
    assert_eq!(
        resolve(&wanted, &racks),
        Err(Reason::HostAmbiguous("a/h1, b/h2".into()))
    );
}

#[test]
fn host_that_names_no_node_is_found_by_system_uuid_in_either_byte_order() {
    let uuid = UUID;
    let racks = Racks::from([("a".into(), rack(&[("h1", "", uuid)]))]);
    let by_uuid = |uuid: &str| {
        let wanted = HostQuery {
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
fn f14_host_that_names_no_node_is_found_by_provider_id_unless_two_have_it() {
    let by_provider = |hosts: &[(&str, &str)]| {
        let mut all = rack(&[]);
        for (name, provider) in hosts {
            all.hosts.push(InventoryHost {
                name: (*name).into(),
                provider_id: (*provider).into(),
                ..Default::default()
            });
        }
        let wanted = HostQuery {
            provider_id: Some("metal3://ns/h1/m1".into()),
            ..node("n1")
        };
        resolve(&wanted, &Racks::from([("a".into(), all)])).map(|host| host.host)
    };
    let (fits, other) = ("metal3://ns/h1/m1", "metal3://ns/h1");
    assert_eq!(by_provider(&[("h1", fits), ("h2", other)]), Ok("h1".into()));
    assert!(by_provider(&[("h2", other), ("h3", "")]).is_err());
    let several = by_provider(&[("h1", fits), ("h3", fits)]).unwrap_err();
    let message = several.to_string();
    assert!(
        message.contains("a/h1 ") && message.contains("a/h3 "),
        "{message}"
    );
}

#[test]
fn inventory_takes_precedence_over_bare_metal_host() {
    let racks = Racks::from([("a".into(), rack(&[("h1", "n1", "")]))]);
    let wanted = HostQuery {
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
fn bare_metal_host_resolves_to_the_rack_whose_network_has_its_bmc() {
    let net = |n: &str| Rack {
        bmc_networks: vec![n.into()],
        ..Default::default()
    };
    let racks = Racks::from([
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

fn ambiguous(wanted: &HostQuery, racks: &Racks) -> String {
    match resolve(wanted, racks) {
        Err(Reason::HostAmbiguous(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn served(networks: &[&str], hosts: &[(&str, &str, &str)], bmc: &str) -> Rack {
    let mut rack = rack(hosts);
    rack.bmc_networks = networks.iter().map(|n| (*n).to_owned()).collect();
    for host in &mut rack.hosts {
        host.bmc = bmc.into();
    }
    rack
}

#[test]
fn f5_inventory_with_a_bmc_in_the_network_of_another_rack_is_ambiguous() {
    let racks = Racks::from([
        ("a".to_owned(), served(&["192.0.2.0/25"], &[], "")),
        (
            "b".to_owned(),
            served(
                &["192.0.2.128/25"],
                &[("h1", "n1", "")],
                "ipmi://bmc-1, redfish://192.0.2.9",
            ),
        ),
    ]);
    let stolen = ambiguous(&node("n1"), &racks);
    assert!(
        stolen.contains("192.0.2.9 lies in spec.bmcNetworks of rack a"),
        "{stolen}"
    );
}

#[test]
fn f5_rack_label_conflicting_with_bmc_networks_is_ambiguous() {
    let racks = Racks::from([
        ("a".to_owned(), served(&["192.0.2.0/25"], &[], "")),
        ("b".to_owned(), served(&["192.0.2.128/25"], &[], "")),
        ("c".to_owned(), served(&[], &[], "")),
    ]);
    for (address, label) in [
        ("redfish://192.0.2.7", "b"),
        ("redfish://192.0.2.7", "c"),
        ("redfish://198.51.100.1", "a"),
    ] {
        let why = ambiguous(&bmh(address, Some(label)), &racks);
        assert!(why.contains("bmcNetworks") && why.contains("rack"), "{why}");
    }
    for (address, label) in [
        ("redfish://192.0.2.7", "a"),
        ("redfish://198.51.100.1", "c"),
        ("redfish://bmc.example", "b"),
    ] {
        let found = resolve(&bmh(address, Some(label)), &racks).unwrap();
        assert_eq!(found.rack, label);
    }
}

#[test]
fn f5_only_rack_is_not_used_for_a_bmc_outside_its_networks() {
    let racks = Racks::from([("a".to_owned(), served(&["192.0.2.0/25"], &[], ""))]);
    assert!(matches!(
        resolve(&bmh("redfish://198.51.100.1", None), &racks),
        Err(Reason::HostNotFound(_))
    ));
    assert!(resolve(&bmh("redfish://bmc.example", None), &racks).is_ok());
    let silent = Racks::from([("a".to_owned(), served(&[], &[], ""))]);
    assert!(resolve(&bmh("redfish://198.51.100.1", None), &silent).is_ok());
}

#[test]
fn f5_inventory_with_a_different_system_uuid_is_ambiguous() {
    let (mine, other) = (
        "00112233-4455-6677-8899-aabbccddeeff",
        "99112233-4455-6677-8899-aabbccddeeff",
    );
    let wanted = HostQuery {
        system_uuid: Some(mine.into()),
        ..node("n1")
    };
    let with = |uuid: &str| Racks::from([("a".to_owned(), rack(&[("h1", "n1", uuid)]))]);
    assert!(ambiguous(&wanted, &with(other)).contains(other));
    for fine in ["", mine, "33221100-5544-7766-8899-aabbccddeeff"] {
        assert!(resolve(&wanted, &with(fine)).is_ok(), "{fine}");
    }
}

#[test]
fn f5_two_bmcs_for_one_host_of_a_rack_are_ambiguous() {
    let mut one = rack(&[("h1", "n1", ""), ("h1", "n1", "")]);
    one.hosts[1].bmc = "elsewhere".into();
    let racks = Racks::from([("a".to_owned(), one)]);
    assert_eq!(
        ambiguous(&node("n1"), &racks),
        "a/h1 at bmc-of-h1, a/h1 at elsewhere"
    );
}

#[test]
fn host_not_found_message_names_the_node_and_the_inventory() {
    let message = resolve(&node("n9"), &Racks::default())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("n9") && message.contains("inventory"),
        "{message}"
    );
}

#[test]
fn malformed_network_contains_no_address() {
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

#[test]
fn f5_host_is_found_after_its_rack_changed_and_not_after_it_is_gone() {
    let uuid = "4C4C4544-0042-3510-8054-C2C04F4E4E32";
    let mut racks = Racks::from([
        ("a".to_owned(), rack(&[("h1", "n1", "")])),
        ("b".to_owned(), rack(&[("h2", "", ""), ("h3", "n3", uuid)])),
    ]);
    let host = |racks: &Racks, wanted: &HostQuery| resolve(wanted, racks).map(|found| found.host);
    assert_eq!(host(&racks, &node("n1")), Ok("h1".to_owned()));
    assert_eq!(host(&racks, &node("h2")), Ok("h2".to_owned()));
    racks.set("b", rack(&[("h3", "n1", "")]));
    assert!(matches!(
        host(&racks, &node("n1")),
        Err(Reason::HostAmbiguous(_))
    ));
    assert!(matches!(
        host(&racks, &node("h2")),
        Err(Reason::HostNotFound(_))
    ));
    racks.remove("a");
    assert_eq!(host(&racks, &node("n1")), Ok("h3".to_owned()));
    racks.remove("b");
    assert!(matches!(
        host(&racks, &node("n1")),
        Err(Reason::HostNotFound(_))
    ));
}
