//! An explanation of a health check as a table.
//!
//! Owns columns and times of day; must never choose what is said.

use std::fmt;

use jiff::Timestamp;

use super::{health::CheckExplanation, words::span};

/// The time of day in UTC, with the date where it is another day.
fn clock(at: Timestamp, now: Timestamp) -> String {
    let at = at.round(jiff::Unit::Second).unwrap_or(at);
    if at.duration_since(now).unsigned_abs().as_secs() < 12 * 3600 {
        at.strftime("%H:%M:%SZ").to_string()
    } else {
        at.to_string()
    }
}

/// Since when or until when, with how long that is.
pub(super) fn when(at: Timestamp, now: Timestamp) -> String {
    let apart = span(at.duration_since(now).unsigned_abs());
    match at > now {
        true => format!("{} (in {apart})", clock(at, now)),
        false => format!("{} ({apart})", clock(at, now)),
    }
}

/// The explanation as a person reads it in a terminal.
pub(super) fn table(e: &CheckExplanation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{} of {}, at {}", e.check, e.cluster, e.now)?;
    for reason in &e.not_acting {
        writeln!(f, "  NOT ACTING {reason}")?;
    }
    if !e.acts {
        writeln!(f, "             what follows is what it would do otherwise")?;
    }
    let mut line = |name: &str, value: &str| writeln!(f, "  {name:<11}{value}");
    line("unhealthy", &format!("after {}", e.rules.join("; ")))?;
    line("then by", &e.remediation)?;
    let label = match e.limit.allowed {
        true => "limit",
        false => "LIMIT",
    };
    line(label, &e.limit.words)?;
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
            "nothing by itself: it looks again when a Machine, a Node or a request changes",
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

fn rows(e: &CheckExplanation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if e.machines.is_empty() {
        return Ok(());
    }
    let heads = [
        "MACHINE", "NODE", "VERDICT", "SINCE", "UNTIL", "REQUEST", "DOES", "WHY",
    ];
    let time = |at: Option<Timestamp>| at.map_or("-".into(), |at| when(at, e.now));
    let mut lines: Vec<[String; 8]> = vec![heads.map(str::to_owned)];
    for m in &e.machines {
        lines.push([
            m.machine.clone(),
            m.node.clone().unwrap_or_else(|| "-".into()),
            m.verdict.to_owned(),
            time(m.since),
            time(m.until),
            m.request.clone().unwrap_or_else(|| "-".into()),
            m.does.clone(),
            m.why.clone(),
        ]);
    }
    let mut widths = [0; 8];
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
