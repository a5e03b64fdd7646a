//! An explanation of a check of Nodes as a table.
//!
//! Must never choose what is said.

use std::fmt;

use jiff::Timestamp;

use super::{
    nodes::{NodeExplanation, NodesExplanation, StepExplanation},
    sheet::{self, Rest, line, standing, when},
};

/// The explanation as a person reads it in a terminal.
pub(super) fn table(e: &NodesExplanation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}: {}, at {}", e.check, e.phase, e.now)?;
    standing(&e.not_acting, e.acts, f)?;
    line("state", &e.reason, f)?;
    line("unhealthy", &format!("after {}", e.rules.join("; ")), f)?;
    for (target, step) in e.steps.iter().enumerate() {
        line(if target == 0 { "then by" } else { "" }, step, f)?;
    }
    let limit = if e.limit.allowed { "limit" } else { "LIMIT" };
    line(limit, &e.limit.words, f)?;
    if let Some(storm) = &e.storm {
        let mut words = storm.words.clone();
        if let Some(since) = storm.since {
            words = format!("{} since {}: {words}", storm.state, when(since, e.now));
        }
        if let Some(until) = storm.until {
            words = format!("{words}, at {}", when(until, e.now));
        }
        line("storm", &words, f)?;
    }
    let rest = Rest {
        recorded: e.recorded.as_deref(),
        due: &e.due,
        next: e.next.as_ref().map(|next| (next.at, next.words.as_str())),
        watches: "a Node or a remediation",
        settings: &e.settings,
        notes: &e.notes,
    };
    rest.tell(e.now, f)?;
    let heads = [
        "NODE",
        "VERDICT",
        "SINCE",
        "UNTIL",
        "REMEDIATION",
        "DOES",
        "WHY",
    ];
    let rows = e.nodes.iter().flat_map(|n| rows(n, e.now));
    sheet::table(heads, rows.collect(), f)
}

fn step(step: &StepExplanation, now: Timestamp) -> String {
    let mut text = step.remediation.clone();
    if let Some(target) = &step.step {
        text = format!("{text}, step {target}");
    }
    text = format!("{text}: {}", step.state);
    match step.until {
        Some(until) => format!("{text} until {}", when(until, now)),
        None => text,
    }
}

/// A row for a Node, and one more for each remediation beside the first.
fn rows(n: &NodeExplanation, now: Timestamp) -> Vec<[String; 7]> {
    let time = |at: Option<Timestamp>| at.map_or("-".into(), |at| when(at, now));
    let mut steps = n.remediations.iter().map(|s| step(s, now));
    let first = [
        n.node.clone(),
        n.verdict.to_owned(),
        time(n.since),
        time(n.until),
        steps.next().unwrap_or_else(|| "-".into()),
        n.does.clone(),
        n.why.clone(),
    ];
    let more = steps.map(|step| {
        let [a, b, c, d, e, f] = std::array::from_fn(|_| String::new());
        [a, b, c, d, step, e, f]
    });
    std::iter::once(first).chain(more).collect()
}
