//! A path through the rack as a story, one line for each action.

use super::{
    actions::Action,
    agent::Agent,
    world::{Call, Message, Rack},
};

/// Tells a path.
pub fn tell(path: &[(Rack, Option<Action>)]) -> Vec<String> {
    let steps = path
        .iter()
        .filter_map(|(rack, action)| Some((rack, (*action)?)));
    steps
        .map(|(rack, action)| {
            let what = match action {
                Action::Arrive(which) => format!("arrives: {}", call(&rack.network[which])),
                Action::Fault(fault, which) if which < rack.network.len() => {
                    format!(
                        "{fault:?}({which}), first call {}",
                        call(&rack.network[which])
                    )
                }
                other => format!("{other:?}"),
            };
            format!(
                "{what:<70} | host {}, {:?} {} | {} | {}",
                if rack.on { "on" } else { "off" },
                rack.store.step,
                rack.store.id(),
                agent(&rack.agents[0]),
                agent(&rack.agents[1]),
            )
        })
        .collect()
}

fn call(message: &Message) -> String {
    let what = match &message.call {
        Call::Claim { term, .. } => {
            let role = if term.standby { "standby" } else { "serve" };
            format!(
                "claim of term {} ({role}), call {}",
                term.number, term.sequence
            )
        }
        Call::Begin { request, .. } => {
            format!(
                "begin {} {:?} by {}",
                request.id, request.action, request.authority
            )
        }
        Call::Release(_) => "release".to_owned(),
    };
    let late = if message.awaited { "" } else { ", late" };
    format!("{what} at agent {}{late}", message.to)
}

fn agent(agent: &Agent) -> String {
    let version = &agent.disk.version;
    let terms = agent.disk.ledger.terms.values();
    let terms: Vec<String> = terms
        .map(|term| format!("{}{}", term.number, if term.standby { "s" } else { "" }))
        .collect();
    let runs = agent.process.as_ref().map_or_else(
        || "down".to_owned(),
        |process| {
            let runs = process.runs.iter();
            let runs: Vec<String> = runs
                .map(|run| format!("{} {:?}", run.id, run.phase))
                .collect();
            runs.join(",")
        },
    );
    format!(
        "{}#{} term {} held {} [{runs}]{}",
        version.instance,
        version.generation,
        terms.join(","),
        agent.disk.ledger.holds.len(),
        if agent.full { " full" } else { "" },
    )
}
