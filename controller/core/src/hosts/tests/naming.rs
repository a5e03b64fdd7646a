//! What names a host, and what only confirms it (F14).

use super::*;

fn of(name: &str, provider: &str, uuid: &str) -> HostQuery {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    HostQuery {
        clusters: vec!["ns/c".into()],
        provider_id: given(provider),
        system_uuid: given(uuid),
        ..node(name)
    }
}

fn host(name: &str, node: &str, cluster: &str, provider: &str, uuid: &str) -> InventoryHost {
    InventoryHost {
        name: name.into(),
        node_name: node.into(),
        cluster: cluster.into(),
        provider_id: provider.into(),
        system_uuid: uuid.into(),
        bmc: format!("bmc-of-{name}"),
    }
}

fn racks(hosts: &[InventoryHost]) -> Racks {
    let rack = Rack {
        hosts: hosts.to_vec(),
        ..Rack::default()
    };
    Racks::from([("a".to_owned(), rack)])
}

fn why(wanted: &HostQuery, racks: &Racks, nodes: &Nodes) -> String {
    let reason = super::super::resolve(wanted, racks, nodes)
        .host
        .unwrap_err();
    format!("{}: {reason}", reason.label())
}

#[test]
fn f14_system_uuid_chooses_no_host_that_is_named_otherwise() {
    let wanted = of("n-b", "p", UUID);
    let nodes: Nodes = vec![("ns/c", "n-a", "", UUID), ("ns/c", "n-b", "p", UUID)];
    for known in [
        host("n-a", "n-a", "", "", UUID),
        // Its own name is that of another Node.
        host("n-a", "", "", "", UUID),
        host("h1", "n-a", "", "", UUID),
        host("h1", "n-a", "", "p", ""),
        // The Node is gone, or has another name by now.
        host("h1", "n-gone", "", "p", UUID),
        // Another cluster.
        host("h1", "", "ns/other", "p", UUID),
        host("n-b", "", "ns/other", "p", UUID),
    ] {
        let message = why(&wanted, &racks(std::slice::from_ref(&known)), &nodes);
        assert!(message.starts_with("HostNotFound"), "{known:?}: {message}");
        let names = [known.name.as_str(), "n-b"];
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
    }
}

#[test]
fn f14_system_uuid_chooses_an_unnamed_host_only_if_no_other_node_has_it() {
    let unnamed = [host("h1", "", "", "", UUID)];
    let found = |nodes: Nodes| {
        let resolved = super::super::resolve(&of("n-b", "", UUID), &racks(&unnamed), &nodes);
        resolved.host.map(|host| host.host)
    };
    let own = ("ns/c", "n-b", "", UUID);
    assert_eq!(found(vec![own]), Ok("h1".into()));
    assert_eq!(found(vec![own, ("ns/c", "n-a", "", "")]), Ok("h1".into()));
    for other in [("ns/c", "n-a", "", UUID), ("ns/d", "n-b", "", UUID)] {
        let reason = found(vec![own, other]).unwrap_err().to_string();
        assert!(
            reason.contains("h1") && reason.contains(other.0),
            "{reason}"
        );
    }
    // A providerID is reported by the kubelet, too.
    let unnamed = [host("h1", "", "", "p", "")];
    let found =
        |nodes: Nodes| super::super::resolve(&of("n-b", "p", ""), &racks(&unnamed), &nodes).host;
    assert!(found(vec![("ns/c", "n-b", "p", "")]).is_ok());
    assert!(found(vec![("ns/c", "n-a", "p", "")]).is_err());
}

#[test]
fn f14_uuid_of_two_hosts_or_a_placeholder_finds_none() {
    let two = [
        host("h1", "", "", "", UUID),
        host("h2", "n-a", "", "", UUID),
    ];
    let message = why(&of("n-b", "", UUID), &racks(&two), &vec![]);
    assert!(
        message.contains("a/h1") && message.contains("a/h2"),
        "{message}"
    );
    for placeholder in [
        "00000000-0000-0000-0000-000000000000",
        "",
        "03000200-0400-0500-0006-000700080009",
    ] {
        let known = racks(&[host("h1", "", "", "", placeholder)]);
        let message = why(&of("n-b", "", placeholder), &known, &vec![]);
        assert!(!message.contains("h1"), "{message}");
    }
}

#[test]
fn f14_named_host_of_a_fleet_with_one_uuid_is_found_and_no_other() {
    let names: Vec<String> = (0..500).map(|i| format!("n-{i}")).collect();
    let all: Vec<_> = names
        .iter()
        .map(|name| host(name, name, "", "", UUID))
        .collect();
    let known = racks(&all);
    let nodes: Nodes = vec![("ns/c", "n-7", "", UUID), ("ns/c", "n-8", "", UUID)];
    for name in ["n-0", "n-7", "n-499"] {
        let found = super::super::resolve(&of(name, "", UUID), &known, &nodes);
        assert_eq!(found.host.unwrap().host, name);
    }
    let message = why(&of("n-new", "", UUID), &known, &nodes);
    assert!(
        message.starts_with("HostNotFound") && message.contains("500 hosts"),
        "{message}"
    );
}

#[test]
fn f14_inventory_with_another_bmc_than_the_bare_metal_host_is_ambiguous() {
    let with = |address: &str, known: InventoryHost| {
        let wanted = HostQuery {
            bmh: bmh(address, None).bmh,
            ..of("n-b", "p", UUID)
        };
        super::super::resolve(&wanted, &racks(&[known]), &vec![]).host
    };
    let at = |bmc: &str, node: &str, uuid: &str| InventoryHost {
        bmc: bmc.into(),
        ..host("h1", node, "", "", uuid)
    };
    for (node, uuid) in [("n-b", ""), ("", UUID)] {
        let reason = with("redfish://192.0.2.2", at("ipmi://192.0.2.1", node, uuid));
        let reason = reason.unwrap_err();
        assert_eq!(reason.label(), "HostAmbiguous");
        let text = reason.to_string();
        let named = ["h1", "ns/h", "192.0.2.1", "192.0.2.2"];
        assert!(named.iter().all(|name| text.contains(name)), "{text}");
        for same in ["192.0.2.1", "redfish://bmc.example", ""] {
            assert_eq!(
                with(same, at("ipmi://192.0.2.1", node, uuid)).unwrap().host,
                "h1"
            );
        }
    }
    // The BareMetalHost names the host; the entry of another Node does not matter.
    let found = with("redfish://192.0.2.2", at("ipmi://192.0.2.1", "n-a", UUID)).unwrap();
    assert_eq!(
        (found.host.as_str(), found.bmc.as_str()),
        ("ns/h", "redfish://192.0.2.2")
    );
}

#[test]
fn f14_node_name_of_two_clusters_needs_the_cluster_in_the_inventory() {
    let two: Nodes = vec![("ns/c", "n1", "", ""), ("ns/d", "n1", "", "")];
    let find = |cluster: &str, known: &[InventoryHost], nodes: &Nodes| {
        let wanted = HostQuery {
            clusters: vec![cluster.into()],
            ..node("n1")
        };
        super::super::resolve(&wanted, &racks(known), nodes)
            .host
            .map(|host| host.host)
    };
    let plain = [host("h1", "n1", "", "", "")];
    let message = find("ns/c", &plain, &two).unwrap_err();
    assert_eq!(message.label(), "HostAmbiguous");
    let message = message.to_string();
    let named = ["h1", "ns/c", "ns/d", "set cluster"];
    assert!(named.iter().all(|name| message.contains(name)), "{message}");
    assert_eq!(find("ns/c", &plain, &two[..1].to_vec()), Ok("h1".into()));
    let both = [
        host("h1", "n1", "ns/c", "", ""),
        host("h2", "n1", "ns/d", "", ""),
    ];
    assert_eq!(find("ns/c", &both, &two), Ok("h1".into()));
    assert_eq!(find("ns/d", &both, &two), Ok("h2".into()));
    assert_eq!(
        find("local", &both, &two).unwrap_err().label(),
        "HostNotFound"
    );
}

fn two_racks(of_b: Rack) -> Racks {
    Racks::from([
        ("a".to_owned(), rack(&[("h1", "n1", "")])),
        ("b".to_owned(), of_b),
    ])
}

#[test]
fn f14_host_that_two_racks_list_needs_a_binding_outside_of_the_agents() {
    let find =
        |wanted: &HostQuery, racks: &Racks| super::super::resolve(wanted, racks, &Nodes::new());
    for stolen in [rack(&[("h1", "n1", "")]), rack(&[("n1", "", "")])] {
        let unbound = find(&node("n1"), &two_racks(stolen.clone()));
        assert_eq!(unbound.host.unwrap_err().label(), "HostAmbiguous");
        assert!(!unbound.is_bound);
        let labelled = HostQuery {
            node_rack: Some("a".into()),
            ..node("n1")
        };
        let of_bmh = HostQuery {
            node_name: Some("n1".into()),
            ..bmh("redfish://bmc.example", Some("a"))
        };
        for wanted in [labelled, of_bmh] {
            let bound = find(&wanted, &two_racks(stolen.clone()));
            assert_eq!(bound.host.unwrap().rack, "a");
            assert!(
                bound.is_bound && bound.ignored.len() == 1,
                "{:?}",
                bound.ignored
            );
            assert!(bound.ignored[0].contains("rack b"), "{:?}", bound.ignored);
        }
        for (of_a, of_b) in [
            (vec!["n1"], vec![]),
            (vec!["n*"], vec!["m*"]),
            (vec![], vec!["m1"]),
        ] {
            let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
            let mut racks = two_racks(Rack {
                nodes: texts(&of_b),
                ..stolen.clone()
            });
            racks.set(
                "a",
                Rack {
                    nodes: texts(&of_a),
                    ..rack(&[("h1", "n1", "")])
                },
            );
            let bound = find(&node("n1"), &racks);
            assert_eq!(bound.host.unwrap().rack, "a", "{of_a:?} {of_b:?}");
            assert_eq!(bound.ignored.len(), 1);
        }
    }
}

#[test]
fn f14_only_entry_of_a_rack_that_may_not_have_the_node_is_not_used() {
    let racks = Racks::from([
        ("a".to_owned(), rack(&[])),
        ("b".to_owned(), rack(&[("h1", "n1", UUID)])),
    ]);
    let wanted = HostQuery {
        node_rack: Some("a".into()),
        system_uuid: Some(UUID.into()),
        ..node("n1")
    };
    let message = why(&wanted, &racks, &vec![]);
    assert!(
        message.starts_with("HostNotFound") && message.contains("inventory of rack b"),
        "{message}"
    );
    assert!(message.contains(NODE_RACK_LABEL), "{message}");
    // Its BareMetalHost names the host, and an agent of another rack does not prevent that.
    let networks = served(&["192.0.2.0/25"], &[], "");
    let mut with_networks = racks.clone();
    with_networks.set("a", networks);
    for (racks, of_bmh) in [
        (&racks, bmh("redfish://192.0.2.7", Some("a"))),
        (&with_networks, bmh("redfish://192.0.2.7", None)),
    ] {
        let wanted = HostQuery {
            node_name: Some("n1".into()),
            ..of_bmh
        };
        let found = super::super::resolve(&wanted, racks, &Nodes::new());
        assert_eq!(found.ignored.len(), 1);
        assert_eq!(found.host.unwrap().rack, "a");
        let elsewhere = HostQuery {
            node_rack: Some("b".into()),
            ..wanted
        };
        assert_eq!(
            resolve(&elsewhere, racks).unwrap_err().label(),
            "HostAmbiguous"
        );
    }
}

#[test]
fn f14_agent_of_another_rack_takes_no_uuid_from_a_bound_host() {
    let racks = Racks::from([
        ("a".to_owned(), rack(&[("h1", "", UUID)])),
        (
            "b".to_owned(),
            rack(&[("x1", "", UUID), ("x2", "n9", UUID)]),
        ),
    ]);
    let wanted = HostQuery {
        system_uuid: Some(UUID.into()),
        ..node("n1")
    };
    assert!(resolve(&wanted, &racks).is_err());
    let bound = HostQuery {
        node_rack: Some("a".into()),
        ..wanted
    };
    assert_eq!(resolve(&bound, &racks).unwrap().host, "h1");
}

#[test]
fn node_pattern_matches_the_name_or_a_prefix() {
    let mut named = super::super::bindings::NamedNodes::default();
    let texts: Vec<String> = ["n1", "rack-a-*", "*", "ü*"].map(Into::into).to_vec();
    named.add("a", &texts[..2]);
    named.add("b", &texts[2..]);
    assert_eq!(named.naming("n1").len(), 2);
    assert_eq!(named.naming("rack-a-").len(), 2);
    assert_eq!(named.naming("rack-a-7").len(), 2);
    assert_eq!(named.naming("n12").len(), 1);
    named.remove("b", &texts[2..]);
    assert!(named.naming("n12").is_empty() && named.naming("ü1").is_empty());
}
