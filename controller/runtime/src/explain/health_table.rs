//! An explanation of a health check as a table.
//!
//! Must never choose what is said.

use std::fmt;

use jiff::Timestamp;

use super::{
    health::CheckExplanation,
    sheet::{self, Rest, line, standing, when},
};

/// The explanation as a person reads it in a terminal.
pub(super) fn table(e: &CheckExplanation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{} of {}, at {}", e.check, e.cluster, e.now)?;
    standing(&e.not_acting, e.acts, f)?;
    line("unhealthy", &format!("after {}", e.rules.join("; ")), f)?;
    line("then by", &e.remediation, f)?;
    let limit = if e.limit.allowed { "limit" } else { "LIMIT" };
    line(limit, &e.limit.words, f)?;
    let rest = Rest {
        recorded: e.recorded.as_deref(),
        due: &e.due,
        next: e.next.as_ref().map(|next| (next.at, next.words.as_str())),
        watches: "a Machine, a Node or a request",
        settings: &e.settings,
        notes: &e.notes,
    };
    rest.tell(e.now, f)?;
    let heads = [
        "MACHINE", "NODE", "VERDICT", "SINCE", "UNTIL", "REQUEST", "DOES", "WHY",
    ];
    let time = |at: Option<Timestamp>| at.map_or("-".into(), |at| when(at, e.now));
    let rows = e.machines.iter().map(|m| {
        [
            m.machine.clone(),
            m.node.clone().unwrap_or_else(|| "-".into()),
            m.verdict.to_owned(),
            time(m.since),
            time(m.until),
            m.request.clone().unwrap_or_else(|| "-".into()),
            m.does.clone(),
            m.why.clone(),
        ]
    });
    sheet::table(heads, rows.collect(), f)
}
