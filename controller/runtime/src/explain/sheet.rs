//! How an explanation of a check looks in a terminal: lines with a name, then a table.
//!
//! Owns columns and times of day; must never choose what is said.

use std::fmt::{self, Formatter};

use jiff::Timestamp;

use super::words::span;

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

/// Why nobody acts, and that the rest is only what would be done.
pub(super) fn standing(not_acting: &[String], acts: bool, f: &mut Formatter<'_>) -> fmt::Result {
    for reason in not_acting {
        writeln!(f, "  NOT ACTING {reason}")?;
    }
    if !acts {
        writeln!(f, "             what follows is what it would do otherwise")?;
    }
    Ok(())
}

pub(super) fn line(name: &str, value: &str, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "  {name:<11}{value}")
}

/// What is told at the end of every check.
pub(super) struct Rest<'a> {
    pub(super) recorded: Option<&'a str>,
    pub(super) due: &'a [String],
    pub(super) next: Option<(Timestamp, &'a str)>,
    /// What it looks at, if nothing happens by itself.
    pub(super) watches: &'a str,
    pub(super) settings: &'a str,
    pub(super) notes: &'a [String],
}

impl Rest<'_> {
    pub(super) fn tell(&self, now: Timestamp, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(recorded) = self.recorded {
            line("recorded", recorded, f)?;
        }
        if self.due.is_empty() {
            line("now", "nothing is due", f)?;
        }
        for due in self.due {
            line("now", due, f)?;
        }
        let next = match self.next {
            Some((at, words)) => format!("at {}: {words}", when(at, now)),
            None => format!(
                "nothing by itself: it looks again when {} changes",
                self.watches
            ),
        };
        line("next", &next, f)?;
        if !self.settings.is_empty() {
            line("settings", self.settings, f)?;
        }
        for note in self.notes {
            line("note", note, f)?;
        }
        Ok(())
    }
}

/// A table; nothing where it has no rows.
pub(super) fn table<const N: usize>(
    heads: [&str; N],
    rows: Vec<[String; N]>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let mut lines = vec![heads.map(str::to_owned)];
    lines.extend(rows);
    let mut widths = [0; N];
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
