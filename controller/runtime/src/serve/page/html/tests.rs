use rackhand_core::overview::{AgentFacts, InventoryEntry, OverviewFacts, overview};

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
        checks: vec![CheckSummary {
            name: hostile.into(),
            problem: hostile.into(),
            ..CheckSummary::default()
        }],
        ..OverviewFacts::default()
    };
    let html = shown(&facts);
    assert!(!html.contains("<script>alert"), "{html}");
    assert_eq!(html.matches("&lt;script&gt;").count(), 9, "{html}");
    assert!(!explanation(hostile).into_string().contains("<script>alert"));
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
