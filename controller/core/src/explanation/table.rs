//! Views as text for a terminal: named lines, then a table.

use std::fmt::{self, Display, Formatter};

use jiff::Timestamp;

use super::{
    check::{CheckView, TargetRemediation, TargetView},
    remediation::RemediationView,
};
use crate::{values::columns::write_columns, values::duration::time_span};

/// Columns of a table of targets.
const COLUMNS: [&str; 8] = [
    "MACHINE",
    "NODE",
    "VERDICT",
    "SINCE",
    "UNTIL",
    "REMEDIATION",
    "DOES",
    "WHY",
];

/// Time of day in UTC, with the date if it is another day.
fn clock(at: Timestamp, now: Timestamp) -> String {
    let at = at.round(jiff::Unit::Second).unwrap_or(at);
    if at.duration_since(now).unsigned_abs().as_secs() < 12 * 3600 {
        at.strftime("%H:%M:%SZ").to_string()
    } else {
        at.to_string()
    }
}

/// A time, with the time span to it.
fn when(at: Timestamp, now: Timestamp) -> String {
    let apart = time_span(at.duration_since(now).unsigned_abs());
    match at > now {
        true => format!("{} (in {apart})", clock(at, now)),
        false => format!("{} ({apart})", clock(at, now)),
    }
}

fn line(name: &str, value: &str, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "  {name:<11}{value}")
}

fn lines(name: &str, values: &[String], f: &mut Formatter<'_>) -> fmt::Result {
    for (number, value) in values.iter().enumerate() {
        line(if number == 0 { name } else { "" }, value, f)?;
    }
    Ok(())
}

// === impl CheckView ===

impl Display for CheckView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.check)?;
        if let Some(cluster) = &self.cluster {
            write!(f, " of {cluster}")?;
        }
        if let Some(phase) = &self.phase {
            write!(f, ": {phase}")?;
        }
        writeln!(f, ", at {}", self.now)?;
        for reason in &self.not_acting {
            writeln!(f, "  NOT ACTING {reason}")?;
        }
        if !self.acts {
            writeln!(f, "             what follows is what it would do otherwise")?;
        }
        if let Some(reason) = &self.reason {
            line("state", reason, f)?;
        }
        line("unhealthy", &format!("after {}", self.rules.join("; ")), f)?;
        lines("then by", &self.remediation, f)?;
        let limit = if self.limit.allowed { "limit" } else { "LIMIT" };
        line(limit, &self.limit.message, f)?;
        self.fmt_storm(f)?;
        if let Some(recorded) = &self.recorded {
            line("recorded", recorded, f)?;
        }
        if self.due.is_empty() {
            line("now", "nothing is due", f)?;
        }
        for due in &self.due {
            line("now", due, f)?;
        }
        match &self.next {
            Some(next) => {
                let text = format!("at {}: {}", when(next.at, self.now), next.message);
                line("next", &text, f)?;
            }
            None => line("next", "nothing until an object changes that it watches", f)?,
        }
        if !self.settings.is_empty() {
            line("settings", &self.settings, f)?;
        }
        for note in &self.notes {
            line("note", note, f)?;
        }
        let rows = self.targets.iter().flat_map(|t| rows(t, self.now));
        table(rows.collect(), f)
    }
}

impl CheckView {
    fn fmt_storm(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(storm) = &self.storm else {
            return Ok(());
        };
        let mut text = storm.message.clone();
        if let Some(since) = storm.since {
            text = format!("{} since {}: {text}", storm.state, when(since, self.now));
        }
        if let Some(until) = storm.until {
            text = format!("{text}, at {}", when(until, self.now));
        }
        line("storm", &text, f)
    }
}

impl Display for TargetRemediation {
    /// Without times, which depend on the present.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.remediation)?;
        if let Some(owner) = &self.owner {
            write!(f, " of {owner}")?;
        }
        if let Some(step) = &self.step {
            write!(f, ", step {step}")?;
        }
        write!(f, ": {}", self.state)
    }
}

/// A row for a target, and one more for each remediation but the first.
fn rows(target: &TargetView, now: Timestamp) -> Vec<[String; COLUMNS.len()]> {
    let time = |at: Option<Timestamp>| at.map_or("-".into(), |at| when(at, now));
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".into());
    let mut remediations = target.remediations.iter().map(|r| match r.until {
        Some(until) => format!("{r} until {}", when(until, now)),
        None => r.to_string(),
    });
    let first = [
        name(&target.machine),
        name(&target.node),
        target.verdict.clone(),
        time(target.since),
        time(target.until),
        remediations.next().unwrap_or_else(|| "-".into()),
        target.does.clone(),
        target.why.clone(),
    ];
    let more = remediations.map(|remediation| {
        let mut row: [String; COLUMNS.len()] = Default::default();
        row[5] = remediation;
        row
    });
    std::iter::once(first).chain(more).collect()
}

/// A table; nothing without rows. The column of Machines is left out where there are none.
fn table(rows: Vec<[String; COLUMNS.len()]>, f: &mut Formatter<'_>) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let first = usize::from(rows.iter().all(|row| matches!(&*row[0], "-" | "")));
    let mut lines = vec![COLUMNS.map(str::to_owned)];
    lines.extend(rows);
    writeln!(f)?;
    let shown: Vec<&[String]> = lines.iter().map(|cells| &cells[first..]).collect();
    write_columns(f, &shown)
}

// === impl RemediationView ===

impl Display for RemediationView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let apart = |at: Timestamp| time_span(self.now.duration_since(at).unsigned_abs());
        let time = |at: Timestamp| at.round(jiff::Unit::Second).unwrap_or(at).to_string();
        let since = self
            .since
            .map_or(String::new(), |at| format!(", for {}", apart(at)));
        writeln!(
            f,
            "{}: {}, attempt {} of {}{since}",
            self.remediation, self.step, self.attempt, self.attempts
        )?;
        let label = if self.blocked { "BLOCKED" } else { "why" };
        line(label, &format!("{} ({})", self.message, self.reason), f)?;
        if let Some(recorded) = &self.recorded {
            let text = format!("{recorded} (what the controller wrote last)");
            line("recorded", &text, f)?;
        }
        let until = match self.until {
            Some(until) if self.overdue => format!("{}, {} OVERDUE", time(until), apart(until)),
            Some(until) => format!("{} (in {})", time(until), apart(until)),
            None => "no limit".into(),
        };
        line("until", &until, f)?;
        let again = match self.next.at {
            Some(at) if at > self.now => format!(", evaluated again within {}", apart(at)),
            _ => String::new(),
        };
        line("next", &format!("{}{again}", self.next.message), f)?;
        line("then", &self.then, f)?;
        line("strategy", &self.strategy, f)?;
        for (name, value) in &self.seen {
            line(name, value, f)?;
        }
        for entry in &self.history {
            line("history", entry, f)?;
        }
        Ok(())
    }
}
