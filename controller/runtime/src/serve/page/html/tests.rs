use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use rackhand_core::overview::{
    AgentFacts, BareMetalHostEntry, InventoryEntry, NodeEntry, NodeReady, OverviewFacts, overview,
};

use super::*;

fn shown(facts: &OverviewFacts) -> String {
    page(&overview(facts, Timestamp::from_second(100).unwrap())).into_string()
}

#[test]
fn html_page_escapes_text_of_objects() {
    let hostile = "<script>alert(1)</script>\"'&";
    let facts = OverviewFacts {
        agents: vec![AgentFacts {
            view: AgentView {
                name: hostile.into(),
                message: hostile.into(),
                ..AgentView::default()
            },
            rack: hostile.into(),
            hosts: vec![InventoryEntry {
                name: hostile.into(),
                position: hostile.into(),
                ..InventoryEntry::default()
            }],
            ..AgentFacts::default()
        }],
        unreachable: vec![(hostile.into(), hostile.into())],
        maintenances: vec![MaintenanceEntry {
            name: hostile.into(),
            host: hostile.into(),
            phase: hostile.into(),
            since: None,
            ends: None,
            by: Some(hostile.into()),
            reason: hostile.into(),
            message: hostile.into(),
            blocked: false,
        }],
        shared_causes: vec![SharedCauseEntry {
            domain: hostile.into(),
            likely: hostile.into(),
            message: hostile.into(),
            since: Timestamp::UNIX_EPOCH,
            still_failed: 7,
            held_until: None,
            policies: vec![hostile.into()],
        }],
        checks: vec![CheckSummary {
            name: hostile.into(),
            problem: hostile.into(),
            ..CheckSummary::default()
        }],
        ..OverviewFacts::default()
    };
    let html = shown(&facts);
    assert!(!html.contains("<script>alert"), "{html}");
    assert_eq!(html.matches("&lt;script&gt;").count(), 17, "{html}");
    assert!(
        html.contains("7 hosts still failed. Remediations that have not begun are held."),
        "{html}"
    );
    assert!(!explanation(hostile).into_string().contains("<script>alert"));
}

#[test]
fn host_whose_bmc_does_not_answer_is_marked_with_the_cause() {
    let node = |name: &str, cause: Option<&str>| NodeEntry {
        name: name.into(),
        ready: NodeReady::True,
        fencing_unavailable: cause.map(str::to_owned),
        ..NodeEntry::default()
    };
    let host = |name: &str| InventoryEntry {
        name: name.into(),
        node_name: name.into(),
        ..InventoryEntry::default()
    };
    let facts = OverviewFacts {
        agents: vec![AgentFacts {
            rack: "r1".into(),
            hosts: vec![host("n1"), host("n2")],
            ..AgentFacts::default()
        }],
        nodes: vec![node("n1", None), node("n2", Some("no answer in 5 s"))],
        ..OverviewFacts::default()
    };
    let html = shown(&facts);
    assert!(html.contains("<b>1</b> without a working BMC"), "{html}");
    let marks = html.matches("title=\"no answer in 5 s\"").count();
    assert_eq!(marks, 1, "{html}");
}

#[test]
fn html_page_of_empty_cluster_has_placeholder_sentences() {
    let html = shown(&OverviewFacts::default());
    for sentence in [
        "No remediation runs.",
        "No RackAgent and no BareMetalHost exists.",
        "There is no health check.",
        "No remediation has finished within the last day.",
    ] {
        assert!(html.contains(sentence), "{sentence}: {html}");
    }
}

#[test]
fn explain_link_encodes_query_parameters() {
    let link = explain_link("PowerRemediation metal3/a b&c", "why").into_string();
    let href = "explain?kind=PowerRemediation&amp;namespace=metal3&amp;name=a+b%26c";
    assert!(link.contains(href), "{link}");
}

/// 250 racks of 40 hosts: half of the racks have an inventory, the others BareMetalHosts, whose racks follow
/// from the networks of the agents.
fn ten_thousand_hosts() -> OverviewFacts {
    let mut facts = OverviewFacts::default();
    for rack in 0..250 {
        let mut agent = AgentFacts {
            view: AgentView {
                name: format!("rack-{rack:03}"),
                connected: true,
                ..AgentView::default()
            },
            rack: format!("rack-{rack:03}"),
            bmc_networks: vec![format!("10.{rack}.0.0/16")],
            ..AgentFacts::default()
        };
        for unit in 1..=40 {
            let name = format!("node-{rack:03}-{unit:02}");
            facts.nodes.push(NodeEntry {
                cluster: format!("metal3/cluster-{}", rack / 50),
                name: name.clone(),
                provider_id: Some(format!("metal3://metal3/{name}/{name}")),
                system_uuid: Some(format!("4c4c4544-0042-3310-8051-{rack:06}{unit:06}")),
                ready: match unit {
                    1 => NodeReady::Unknown,
                    _ => NodeReady::True,
                },
                since: Timestamp::from_second(10).ok(),
                fencing_unavailable: None,
            });
            if rack % 2 == 0 {
                agent.hosts.push(InventoryEntry {
                    name: format!("bay-{unit}"),
                    node_name: name,
                    position: format!("U{unit}"),
                    ..InventoryEntry::default()
                });
            } else {
                facts.bare_metal_hosts.push(BareMetalHostEntry {
                    name: format!("metal3/{name}"),
                    address: format!("redfish://10.{rack}.0.{unit}/redfish/v1/Systems/1"),
                    powered_on: Some(true),
                    node: Some((format!("metal3/cluster-{}", rack / 50), name)),
                    ..BareMetalHostEntry::default()
                });
            }
        }
        facts.agents.push(agent);
    }
    facts
}

/// Prints the times: `hack/bench page` runs it in a release build, and loads the page that it writes to
/// `RACKHAND_PAGE_DIR` in a browser.
#[test]
fn page_of_ten_thousand_hosts_has_a_row_for_each_in_its_rack() {
    let facts = ten_thousand_hosts();
    let timed = |what: &str, since: Instant| {
        let took: Duration = since.elapsed();
        println!("{what}: {:.1} ms", took.as_secs_f64() * 1e3);
    };
    let start = Instant::now();
    let overview = overview(&facts, Timestamp::from_second(100).unwrap());
    timed("overview", start);
    let start = Instant::now();
    let html = page(&overview).into_string();
    timed("HTML", start);
    let start = Instant::now();
    let json = serde_json::to_string(&overview).unwrap();
    timed("JSON", start);
    println!("HTML: {} bytes, JSON: {} bytes", html.len(), json.len());
    if let Some(dir) = std::env::var_os("RACKHAND_PAGE_DIR").map(PathBuf::from) {
        fs::write(dir.join("index.html"), &html).unwrap();
        fs::write(dir.join("page.css"), include_str!("../page.css")).unwrap();
        fs::write(dir.join("page.js"), include_str!("../page.js")).unwrap();
    }

    assert_eq!(overview.counts.all, 10_000);
    assert_eq!(
        (overview.counts.ready, overview.counts.not_ready),
        (9_750, 250)
    );
    assert_eq!(overview.racks.len(), 250);
    assert!(overview.racks.iter().all(|rack| rack.hosts.len() == 40));
    assert_eq!(html.matches("<li class=\"ready\">").count(), 9_750 + 1);
    assert_eq!(html.matches("<li class=\"not-ready\">").count(), 250 + 1);
    // The size that a browser loads: about 150 bytes for each host, and as much again in JSON.
    assert!(html.len() < 3_000_000, "{}", html.len());
    assert!(json.len() < 3_000_000, "{}", json.len());
}
