//! Updates of firmware that are assumed, because a history contains none.
//!
//! Must never decide: [`UpdateRules::hold`] does.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    limits::power_policy::PowerPolicy,
    remediation::{FirmwareUpdate, UpdateRules, UpdateWatch},
};

/// The updates of each host, by the name of its Node.
#[derive(Debug, Default)]
pub(super) struct AssumedUpdates(BTreeMap<String, Vec<Span>>);

/// One update.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Timestamp,
    /// `None`: it hangs.
    to: Option<Timestamp>,
}

/// Why a remediation does not begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UpdateHeld {
    /// What the policies wait for.
    pub(super) message: String,
    /// When the hold ends; `None`: a person decides.
    pub(super) until: Option<Timestamp>,
}

impl AssumedUpdates {
    pub(super) fn add(&mut self, host: &str, from: Timestamp, to: Option<Timestamp>) {
        let spans = self.0.entry(host.to_owned()).or_default();
        spans.push(Span { from, to });
    }

    fn running(&self, host: &str, now: Timestamp) -> Option<Span> {
        let spans = self.0.get(host)?.iter();
        let mut running =
            spans.filter(|span| span.from <= now && span.to.is_none_or(|to| now < to));
        running.next().copied()
    }

    /// Why the host is not switched off at `now`, by the policies that select it; `seen` is when the remediation saw the
    /// update first. An update with an end moves until then.
    pub(super) fn hold(
        &self,
        host: &str,
        policies: &[PowerPolicy],
        seen: Timestamp,
        now: Timestamp,
    ) -> Option<UpdateHeld> {
        let span = self.running(host, now)?;
        let rules = policies.iter().filter_map(|p| p.firmware_update.as_ref());
        let rules = UpdateRules::of_all(rules);
        let watch = UpdateWatch {
            first_seen: seen.max(span.from),
            last_moved: match span.to {
                Some(_) => now,
                None => seen.max(span.from),
            },
            update: FirmwareUpdate {
                source: "an assumed update".to_owned(),
                name: String::new(),
                state: "Running".to_owned(),
                percent: None,
                message: String::new(),
            },
            approved_before: false,
        };
        let hold = rules.hold(&watch, false, now)?;
        // While it moves, it is not stalled later.
        let by_policy = match (span.to, rules.proceed_after) {
            (Some(_), None) => None,
            (Some(_), Some(time)) => watch.first_seen.checked_add(time).ok(),
            (None, _) => hold.until,
        };
        let until = by_policy.into_iter().chain(span.to).min();
        let message = match span.to {
            Some(to) => format!("firmware of the host is being updated until {to:.0}"),
            None => "an update of firmware of the host hangs".to_owned(),
        };
        Some(UpdateHeld { message, until })
    }
}
