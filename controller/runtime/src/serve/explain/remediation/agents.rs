//! The agents by their RackAgent objects; facts that only the agents have are listed as unknown.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use rackhand_api::names::conditions::CONNECTED;
use rackhand_core::{
    hosts::{Rack, Racks},
    remediation::{AgentView, HostView, Reason},
};
use serde_json::Value;

use crate::store::index::Index;

/// The racks by their RackAgent objects, without the inventories, which only the agents have.
pub(super) fn racks(index: &Index) -> Racks {
    let mut racks: BTreeMap<String, Rack> = BTreeMap::new();
    for (_, object) in index.rack_agents() {
        let Some(name) = rack_of(&object) else {
            continue;
        };
        let spec = object.data.get("spec");
        let networks = spec.and_then(|s| s.get("bmcNetworks"));
        let networks = networks.and_then(Value::as_array).into_iter().flatten();
        let nodes = spec.and_then(|s| s.get("nodes"));
        let nodes = nodes.and_then(Value::as_array).into_iter().flatten();
        let rack = racks.entry(name.to_owned()).or_default();
        rack.nodes
            .extend(nodes.filter_map(Value::as_str).map(str::to_owned));
        rack.bmc_networks
            .extend(networks.filter_map(Value::as_str).map(str::to_owned));
    }
    racks.into_iter().collect()
}

fn rack_of(agent: &DynamicObject) -> Option<&str> {
    let spec = agent.data.get("spec")?;
    spec.get("rack").and_then(Value::as_str)
}

fn status<'a>(agent: &'a DynamicObject, field: &str) -> Option<&'a Value> {
    agent.data.get("status")?.get(field)
}

/// Status, reason and message of the condition that the controller keeps.
fn connected(agent: &DynamicObject) -> Option<(&str, &str, &str)> {
    let conditions = status(agent, "conditions")?.as_array()?;
    let connected = conditions
        .iter()
        .find(|c| c.get("type").and_then(Value::as_str) == Some(CONNECTED))?;
    let text = |field: &str| connected.get(field).and_then(Value::as_str);
    let message = text("message").unwrap_or("not connected");
    Some((text("status")?, text("reason").unwrap_or_default(), message))
}

/// The agent that a command would go through.
pub(super) fn view(index: &Index, rack: Option<&str>, assumed: &mut Vec<String>) -> AgentView {
    let Some(rack) = rack else {
        return AgentView::Unreachable {
            why: "the host is not known".into(),
        };
    };
    let mut silent = None;
    for (key, object) in index.rack_agents() {
        if rack_of(&object) != Some(rack) {
            continue;
        }
        match connected(&object) {
            Some(("False", _, why)) => silent = Some(format!("agent {key}: {why}")),
            _ => return AgentView::Ready,
        }
    }
    match silent {
        Some(why) => AgentView::Unreachable { why },
        None => {
            assumed.push(format!(
                "an agent serves rack {rack}: no RackAgent of it was found"
            ));
            AgentView::Ready
        }
    }
}

/// Notes which facts about the host the objects do not contain.
pub(super) fn unseen(index: &Index, found: &HostView, chosen: bool, assumed: &mut Vec<String>) {
    if chosen {
        return;
    }
    let hosts = |object: &DynamicObject| status(object, "hosts").and_then(Value::as_i64);
    let with: Vec<String> = index
        .rack_agents()
        .iter()
        .filter_map(|(key, object)| {
            let hosts = hosts(object).filter(|hosts| *hosts > 0)?;
            Some(format!("{key} ({hosts})"))
        })
        .collect();
    let whose = if with.is_empty() {
        "the agents".to_owned()
    } else {
        format!("the agents {}", with.join(", "))
    };
    let unseen = format!("only the controller receives the inventories of {whose}");
    match found {
        HostView::NotFound(Reason::HostNotFound(why)) => {
            assumed.push(format!("{unseen}; this one may be among them ({why})"));
        }
        HostView::Found(_) if !with.is_empty() => assumed.push(format!(
            "{unseen}; one that names this node counts more than its BareMetalHost"
        )),
        HostView::Found(_) | HostView::NotFound(_) => {}
    }
}

/// The state of each RackAgent of the rack, or of all RackAgents if the rack is not known.
pub(super) fn lines(index: &Index, rack: Option<&str>) -> Vec<(String, String)> {
    let of_rack = |object: &DynamicObject| rack.is_none() || rack_of(object) == rack;
    let agents = index.rack_agents().into_iter();
    agents
        .filter(|(_, object)| of_rack(object))
        .map(|(key, object)| {
            let mut words = vec![match connected(&object) {
                Some(("True", "Standby", _)) => "connected, stands by".to_owned(),
                Some(("True", ..)) => "connected".to_owned(),
                Some(("False", "TermOutlier", why)) => format!("not used: {why}"),
                Some(("False", _, why)) => format!("not reachable: {why}"),
                _ => "no status yet".to_owned(),
            }];
            if let Some(hosts) = status(&object, "hosts").and_then(Value::as_i64) {
                words.push(format!("serves {hosts} host(s) of its own inventory"));
            }
            let rack = rack_of(&object).unwrap_or_default();
            let line = format!("{key} of rack {rack}: {}", words.join(", "));
            ("agent".to_owned(), line)
        })
        .collect()
}
