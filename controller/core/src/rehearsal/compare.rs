//! What two rehearsals of one history treat differently.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::report::{RehearsalReport, RehearsedRemediation};

/// A remediation that two rehearsals of one history treat differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The check that would have requested it.
    pub check: String,
    /// Name of the Machine, or of the Node for a check of Nodes.
    pub machine: String,
    /// Which remediation of the Machine, from 1.
    pub number: usize,
    /// As the first rehearsal has it; `None` if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<RehearsedRemediation>,
    /// As the second one has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second: Option<RehearsedRemediation>,
}

/// The remediations that begin at different times, are held by different shared causes, end differently, or
/// exist in one of the two only.
pub fn compare(first: &RehearsalReport, second: &RehearsalReport) -> Vec<Difference> {
    let (first, second) = (numbered(first), numbered(second));
    let keys: BTreeSet<_> = first.keys().chain(second.keys()).collect();
    let each = keys.into_iter().filter_map(|key| {
        let (one, other) = (first.get(key), second.get(key));
        if one.map(|r| essence(r)) == other.map(|r| essence(r)) {
            return None;
        }
        let (check, machine, number) = key;
        Some(Difference {
            check: (*check).to_owned(),
            machine: (*machine).to_owned(),
            number: *number,
            first: one.map(|r| (*r).clone()),
            second: other.map(|r| (*r).clone()),
        })
    });
    each.collect()
}

/// What two rehearsals are compared by.
fn essence(r: &RehearsedRemediation) -> impl PartialEq {
    (r.requested, r.begun, r.outcome, r.shared_causes())
}

/// The remediations by check, Machine and number.
fn numbered(report: &RehearsalReport) -> BTreeMap<(&str, &str, usize), &RehearsedRemediation> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for remediation in &report.remediations {
        let key = (remediation.check.as_str(), remediation.machine.as_str());
        let count = counts.entry(key).or_default();
        *count += 1;
        all.insert((key.0, key.1, *count), remediation);
    }
    all
}
