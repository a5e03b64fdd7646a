//! Updates of firmware: when a host may lose its power although its BMC reports one.
//!
//! A host that loses its power while its firmware is written may be unusable afterwards, and nobody can bring it back
//! from afar. Some BMCs report a job as running for ever, so an update is judged by what moves between two readings.
//! Invariant: an update that cannot be read is not known, which is neither an update nor the absence of one.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long the reading of a host counts for which no update is known.
pub(super) const FRESH: Duration = Duration::from_secs(10);
/// Time between two readings while one is known.
pub(super) const RECHECK_UPDATE: Duration = Duration::from_secs(30);
/// How long a boot waits at most for an update where no policy says it.
pub(super) const LONGEST_BOOT_UPDATE: Duration = Duration::from_secs(2 * 3600);

/// An update that runs, in the words of the BMC.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FirmwareUpdate {
    /// The resource that reports it, such as `job JID_1`.
    pub source: String,
    /// What is updated; empty: the BMC does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its state.
    pub state: String,
    /// How much is done, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// The last message about it; empty: there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl fmt::Display for FirmwareUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if !self.name.is_empty() {
            write!(f, " \"{}\"", self.name)?;
        }
        write!(f, ", {}", self.state)?;
        if let Some(percent) = self.percent {
            write!(f, ", {percent} %")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// What the BMC of a host reports about updates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpdateStatus {
    /// None runs.
    Idle,
    /// One runs.
    Running(FirmwareUpdate),
    /// It is not known, for this reason.
    Unknown(String),
}

/// One reading of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpdateReading {
    /// When it was complete.
    pub at: Timestamp,
    /// What it shows.
    pub status: UpdateStatus,
}

/// An update that is waited for, as it is recorded: a new leader goes on with the same times.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateWatch {
    /// When an update was seen first, without a reading of none since.
    pub first_seen: Timestamp,
    /// When what the BMC says about it changed last.
    pub last_moved: Timestamp,
    /// What it said last.
    pub update: FirmwareUpdate,
    /// The approval on the object was there before the update was seen, so it does not mean this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved_before: bool,
}

impl UpdateWatch {
    /// The watch after an update was read at `now`; `before` is that before it.
    #[must_use]
    pub fn seen(
        before: Option<&Self>,
        update: &FirmwareUpdate,
        approved: bool,
        now: Timestamp,
    ) -> Self {
        let moved = before.is_none_or(|before| before.update != *update);
        Self {
            first_seen: before.map_or(now, |before| before.first_seen),
            last_moved: match before {
                Some(before) if !moved => before.last_moved,
                _ => now,
            },
            update: update.clone(),
            // An approval that was taken away counts when it is given again.
            approved_before: before.map_or(approved, |before| before.approved_before && approved),
        }
    }
}

/// What a policy says about a host whose firmware is being updated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OnUpdate {
    /// It is not switched.
    #[default]
    Wait,
    /// It is switched all the same.
    Proceed,
}

/// The rules of the policies that select a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpdateRules {
    /// While an update runs.
    pub on_running: OnUpdate,
    /// How long it is waited for, from the first reading on; `None`: until a person approves.
    pub proceed_after: Option<Duration>,
    /// Time without any change after which an update counts as stalled.
    pub stalled_after: Duration,
    /// Once an update counts as stalled.
    pub on_stalled: OnUpdate,
    /// While it cannot be read whether an update runs.
    pub on_unknown: OnUpdate,
}

impl Default for UpdateRules {
    /// A person decides about updates that run, and what cannot be read holds nothing up: most BMCs that fail to
    /// answer do so because their host has failed.
    fn default() -> Self {
        Self {
            on_running: OnUpdate::Wait,
            proceed_after: None,
            stalled_after: Duration::from_secs(1800),
            on_stalled: OnUpdate::Wait,
            on_unknown: OnUpdate::Proceed,
        }
    }
}

impl UpdateRules {
    /// The rules of several policies: each of them must allow what is done. The default if there are none.
    pub fn of_all<'a>(rules: impl IntoIterator<Item = &'a Self>) -> Self {
        let stricter = |a: OnUpdate, b: OnUpdate| match (a, b) {
            (OnUpdate::Proceed, OnUpdate::Proceed) => OnUpdate::Proceed,
            _ => OnUpdate::Wait,
        };
        // The time of a rule that does not wait limits nothing.
        let time = |rule: &Self| match rule.on_running {
            OnUpdate::Proceed => Some(Duration::ZERO),
            OnUpdate::Wait => rule.proceed_after,
        };
        let all = rules.into_iter().cloned().reduce(|a, b| Self {
            proceed_after: time(&a).zip(time(&b)).map(|(a, b)| a.max(b)),
            on_running: stricter(a.on_running, b.on_running),
            stalled_after: a.stalled_after.max(b.stalled_after),
            on_stalled: stricter(a.on_stalled, b.on_stalled),
            on_unknown: stricter(a.on_unknown, b.on_unknown),
        });
        all.unwrap_or_default()
    }

    /// Whether it matters what the BMC reports.
    pub fn reads(&self) -> bool {
        self.on_running == OnUpdate::Wait
    }

    /// For how long nothing that the BMC says has changed, if the update counts as stalled.
    pub fn stalled(&self, watch: &UpdateWatch, now: Timestamp) -> Option<Duration> {
        let still = since(watch.last_moved, now);
        (still >= self.stalled_after).then_some(still)
    }

    /// Why the host is not switched while this update runs; `None`: it may be switched.
    pub fn hold(&self, watch: &UpdateWatch, approved: bool, now: Timestamp) -> Option<UpdateHold> {
        let stalled = self.stalled(watch, now);
        let is_approved = approved && !watch.approved_before;
        let is_let_through = stalled.is_some() && self.on_stalled == OnUpdate::Proceed;
        if is_approved || is_let_through || !self.reads() {
            return None;
        }
        let after = |at: Timestamp, time| at.checked_add(time).unwrap_or(Timestamp::MAX);
        let by_time = (self.proceed_after).map(|time| after(watch.first_seen, time));
        if by_time.is_some_and(|until| until <= now) {
            return None;
        }
        let by_stall = (self.on_stalled == OnUpdate::Proceed)
            .then(|| after(watch.last_moved, self.stalled_after));
        Some(UpdateHold {
            stalled,
            until: by_time.into_iter().chain(by_stall).min(),
            needs_new_approval: approved && watch.approved_before,
        })
    }
}

/// Why a host is not switched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateHold {
    /// For how long nothing has moved, if the update counts as stalled.
    pub stalled: Option<Duration>,
    /// When the policy lets the remediation go on, if nothing changes before; `None`: a person decides.
    pub until: Option<Timestamp>,
    /// The approval on the object is older than the update.
    pub needs_new_approval: bool,
}

/// The time from `from` to `to`; none if `to` is earlier.
pub(super) fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// What an update without a change is called.
pub(super) fn stalled_words(still: Duration) -> String {
    format!("it has not moved for {} min", still.as_secs() / 60)
}

#[cfg(test)]
mod tests;
