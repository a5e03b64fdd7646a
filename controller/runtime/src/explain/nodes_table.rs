//! An explanation of a check of Nodes as a table.
//!
//! Owns columns; must never choose what is said.

use std::fmt;

use jiff::Timestamp;

use super::{
    health_table::when,
    nodes::{NodesExplanation, StepExplanation},
};

/// The explanation as a person reads it in a terminal.
pub(super) fn table(e: &NodesExplanation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}: {}, at {}", e.check, e.phase, e.now)?;
    for reason in &e.not_acting {
        writeln!(f, "  NOT ACTING {reason}")?;
    }
    if !e.acts {
        writeln!(f, "             what follows is what it would do otherwise")?;
    }
    let mut line = |name: &str, value: &str| writeln!(f, "  {name:<11}{value}");
    line("state", &e.reason)?;
    line("unhealthy", &format!("after {}", e.rules.join("; ")))?;
    for (place, step) in e.steps.iter().enumerate() {
        line(if place == 0 { "then by" } else { "" }, step)?;
    }
    line(
        if e.limit.allowed { "limit" } else { "LIMIT" },
        &e.limit.words,
    )?;
    if let Some(storm) = &e.storm {
        let mut words = storm.words.clone();
        if let Some(since) = storm.since {
            words = format!("{} since {}: {words}", storm.state, when(since, e.now));
        }
        if let Some(until) = storm.until {
            words = format!("{words}, at {}", when(until, e.now));
        }
        line("storm", &words)?;
    }
    if let Some(recorded) = &e.recorded {
        line("recorded", recorded)?;
    }
    if e.due.is_empty() {
        line("now", "nothing is due")?;
    }
    for due in &e.due {
        line("now", due)?;
    }
    match &e.next {
        Some(next) => line(
            "next",
            &format!("at {}: {}", when(next.at, e.now), next.words),
        )?,
        None => line(
            "next",
            "nothing by itself: it looks again when a Node or a remediation changes",
        )?,
    }
    if !e.settings.is_empty() {
        line("settings", &e.settings)?;
    }
    for note in &e.notes {
        line("note", note)?;
    }
    rows(e, f)
}

fn step(step: &StepExplanation, now: Timestamp) -> String {
    let mut text = step.remediation.clone();
    if let Some(place) = &step.step {
        text = format!("{text}, step {place}");
    }
    text = format!("{text}: {}", step.state);
    match step.until {
        Some(until) => format!("{text} until {}", when(until, now)),
        None => text,
    }
}

fn rows(e: &NodesExplanation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if e.nodes.is_empty() {
        return Ok(());
    }
    let heads = [
        "NODE",
        "VERDICT",
        "SINCE",
        "UNTIL",
        "REMEDIATION",
        "DOES",
        "WHY",
    ];
    let time = |at: Option<Timestamp>| at.map_or("-".into(), |at| when(at, e.now));
    let mut lines: Vec<[String; 7]> = vec![heads.map(str::to_owned)];
    for n in &e.nodes {
        let mut steps: Vec<String> = n.remediations.iter().map(|s| step(s, e.now)).collect();
        if steps.is_empty() {
            steps.push("-".into());
        }
        for (place, step) in steps.into_iter().enumerate() {
            lines.push(if place == 0 {
                [
                    n.node.clone(),
                    n.verdict.to_owned(),
                    time(n.since),
                    time(n.until),
                    step,
                    n.does.clone(),
                    n.why.clone(),
                ]
            } else {
                let mut more: [String; 7] = std::array::from_fn(|_| String::new());
                if let Some(cell) = more.get_mut(4) {
                    *cell = step;
                }
                more
            });
        }
    }
    let mut widths = [0; 7];
    for cells in &lines {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    writeln!(f)?;
    for cells in &lines {
        let padded: Vec<String> = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        writeln!(f, "{}", padded.join("  ").trim_end())?;
    }
    Ok(())
}
