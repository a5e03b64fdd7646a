use super::*;
use crate::explanation::NextStepView;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn node(name: &str, ready: NodeReady) -> NodeEntry {
    NodeEntry {
        name: name.into(),
        ready,
        since: Some(at(10)),
        ..NodeEntry::default()
    }
}

fn agent(rack: &str, hosts: Vec<InventoryEntry>) -> AgentFacts {
    AgentFacts {
        rack: rack.into(),
        hosts,
        ..AgentFacts::default()
    }
}

fn inventory(name: &str, position: &str) -> InventoryEntry {
    InventoryEntry {
        name: name.into(),
        position: position.into(),
        ..InventoryEntry::default()
    }
}

fn running(remediation: &str, host: (&str, &str), blocked: bool) -> RunningRemediation {
    RunningRemediation {
        host: Some((host.0.into(), host.1.into())),
        node: None,
        power: Some("Off".into()),
        requested_by: Some("RemediationTrigger reboot".into()),
        timeline: Vec::new(),
        view: RemediationView {
            remediation: remediation.into(),
            uid: "u".into(),
            strategy: String::new(),
            step: "Draining".into(),
            since: Some(at(20)),
            until: None,
            overdue: false,
            attempt: 1,
            attempts: 1,
            reason: "Draining".into(),
            message: String::new(),
            blocked,
            recorded: None,
            next: NextStepView {
                what: "wait".into(),
                message: String::new(),
                at: None,
            },
            then: String::new(),
            seen: Vec::new(),
            history: Vec::new(),
            now: at(30),
        },
    }
}

fn names(rack: &RackView) -> Vec<&str> {
    rack.hosts.iter().map(|h| h.name.as_str()).collect()
}

#[test]
fn hosts_are_ordered_by_position_from_the_top_then_by_name() {
    let hosts = [
        ("node-2", "U3"),
        ("node-10", "U42"),
        ("b-10", ""),
        ("b-9", ""),
    ];
    let hosts = hosts.map(|(name, position)| inventory(name, position));
    let facts = OverviewFacts {
        agents: vec![agent("r", hosts.into())],
        ..OverviewFacts::default()
    };
    let overview = overview(&facts, at(30));
    assert_eq!(
        names(&overview.racks[0]),
        ["node-10", "node-2", "b-9", "b-10"]
    );
    assert_eq!(overview.counts.without_node, 4);
}

#[test]
fn host_reported_by_two_agents_is_shown_once() {
    let agents = ["a", "b"].map(|_| agent("r", vec![inventory("h", "")]));
    let facts = OverviewFacts {
        agents: agents.into(),
        ..OverviewFacts::default()
    };
    let overview = overview(&facts, at(30));
    assert_eq!(overview.racks[0].agents.len(), 2);
    assert_eq!(names(&overview.racks[0]), ["h"]);
}

#[test]
fn host_matches_node_by_name_provider_id_or_uuid_in_either_byte_order() {
    let by_uuid = InventoryEntry {
        system_uuid: "4c4c4544-0042-3310-8051-b4c04f4e4d32".into(),
        ..inventory("bay-1", "")
    };
    let by_id = InventoryEntry {
        provider_id: "x://2".into(),
        ..inventory("bay-2", "")
    };
    let by_name = InventoryEntry {
        node_name: "three".into(),
        ..inventory("bay-3", "")
    };
    let nodes = vec![
        NodeEntry {
            system_uuid: Some("44454C4C-4200-1033-8051-B4C04F4E4D32".into()),
            ..node("one", NodeReady::True)
        },
        NodeEntry {
            provider_id: Some("x://2".into()),
            ..node("two", NodeReady::Unknown)
        },
        node("three", NodeReady::False),
    ];
    let facts = OverviewFacts {
        agents: vec![agent("r", vec![by_uuid, by_id, by_name])],
        nodes,
        ..OverviewFacts::default()
    };
    let overview = overview(&facts, at(30));
    let hosts = overview.racks[0].hosts.iter();
    let shown: Vec<_> = hosts.map(|h| (h.node.as_deref(), h.state)).collect();
    assert_eq!(
        shown,
        [
            (Some("one"), HostState::Ready),
            (Some("two"), HostState::NotReady),
            (Some("three"), HostState::NotReady),
        ]
    );
}

#[test]
fn node_name_used_in_two_clusters_matches_neither() {
    let nodes = ["east", "west"].map(|cluster| NodeEntry {
        cluster: cluster.into(),
        ..node("h", NodeReady::True)
    });
    let facts = OverviewFacts {
        agents: vec![agent("r", vec![inventory("h", "")])],
        nodes: nodes.into(),
        ..OverviewFacts::default()
    };
    let host = overview(&facts, at(30)).racks.remove(0).hosts.remove(0);
    assert_eq!((host.node, host.state), (None, HostState::WithoutNode));
}

#[test]
fn bare_metal_host_of_an_inventory_host_adds_only_its_power() {
    let bmh = BareMetalHostEntry {
        name: "metal3/h".into(),
        powered_on: Some(true),
        node: Some((String::new(), "h".into())),
        ..BareMetalHostEntry::default()
    };
    let facts = OverviewFacts {
        agents: vec![agent("r", vec![inventory("h", "")])],
        nodes: vec![node("h", NodeReady::True)],
        bare_metal_hosts: vec![bmh],
        ..OverviewFacts::default()
    };
    let overview = overview(&facts, at(30));
    assert_eq!(overview.counts.all, 1);
    assert_eq!(overview.racks[0].hosts[0].power.as_deref(), Some("on"));
}

#[test]
fn bare_metal_host_is_placed_by_rack_label_or_bmc_network_or_in_no_rack() {
    let network = |rack: &str, network: &str| AgentFacts {
        bmc_networks: vec![network.into()],
        ..agent(rack, Vec::new())
    };
    let host = |name: &str, address: &str, rack: Option<&str>| BareMetalHostEntry {
        name: name.into(),
        address: address.into(),
        rack: rack.map(str::to_owned),
        ..BareMetalHostEntry::default()
    };
    let facts = OverviewFacts {
        agents: vec![network("a", "192.0.2.0/25"), network("b", "192.0.2.128/25")],
        bare_metal_hosts: vec![
            host("labelled", "redfish://192.0.2.130/", Some("a")),
            host("in-b", "ipmi://192.0.2.131", None),
            host("nowhere", "ipmi://198.51.100.1", None),
        ],
        ..OverviewFacts::default()
    };
    let overview = overview(&facts, at(30));
    let racks: Vec<_> = overview
        .racks
        .iter()
        .map(|r| (r.name.as_str(), names(r)))
        .collect();
    assert_eq!(
        racks,
        [
            ("a", vec!["labelled"]),
            ("b", vec!["in-b"]),
            ("", vec!["nowhere"]),
        ]
    );
}

#[test]
fn blocked_remediations_sort_first_and_set_the_host_state() {
    let facts = OverviewFacts {
        agents: vec![agent("r", vec![inventory("h", ""), inventory("i", "")])],
        nodes: vec![node("h", NodeReady::Unknown), node("i", NodeReady::Unknown)],
        running: vec![
            running("PowerRemediation a/h", ("r", "h"), false),
            running("PowerRemediation a/i", ("r", "i"), true),
        ],
        ..OverviewFacts::default()
    };
    let overview = overview(&facts, at(30));
    let remediations: Vec<_> = overview
        .remediations
        .iter()
        .map(|r| &r.view.remediation)
        .collect();
    assert_eq!(
        remediations,
        ["PowerRemediation a/i", "PowerRemediation a/h"]
    );
    let states: Vec<_> = overview.racks[0].hosts.iter().map(|h| h.state).collect();
    assert_eq!(states, [HostState::Remediating, HostState::Blocked]);
    assert_eq!(
        (overview.counts.remediating, overview.counts.blocked),
        (1, 1)
    );
    assert_eq!(overview.racks[0].hosts[0].power.as_deref(), Some("Off"));
}

#[test]
fn finished_remediations_are_shown_for_a_day() {
    let finished = |seconds: i64| FinishedRemediation {
        remediation: String::new(),
        node: None,
        host: None,
        created: at(seconds),
        timeline: Vec::new(),
        finished: at(seconds),
        outcome: "succeeded".into(),
        reason: String::new(),
        occurrence: None,
        shared_cause: None,
    };
    let day = 24 * 3600;
    let facts = OverviewFacts {
        finished: vec![finished(day), finished(1), finished(0)],
        ..OverviewFacts::default()
    };
    assert_eq!(overview(&facts, at(day)).finished.len(), 3);
    assert_eq!(overview(&facts, at(day + 1)).finished.len(), 2);
}
