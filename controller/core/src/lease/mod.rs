//! Leader election over one Kubernetes Lease, as pure decisions.
//!
//! Owns: when a candidate may take the Lease, until when it may act, and its term. Must never: read
//! a clock, trust the wall clock of another process, or call a client.
//!
//! Times are durations on this process's monotonic clock, since any origin; they should come from
//! a clock that also runs while the machine is suspended. `renewTime` in the Lease is only compared
//! for equality: whether a Lease has expired is judged by when *we* saw it change last
//! (docs/reference/kubernetes.md, K12).
//!
//! Why two candidates never lead at one time (F7), given that a write is accepted only if the Lease
//! still has the resourceVersion that the writer saw:
//!
//! ```text
//! leader:     sent ----------------> must stop           sent + renew_deadline
//! server:        applied
//! candidate:        seen -----------------------> may take it    seen + duration
//! ```
//!
//! `sent <= applied <= seen` and `renew_deadline < duration`. A write that was sent before the
//! leader stepped down never makes it leader again, however late its answer comes.
//!
//! The term is `leaseTransitions`. Each acquisition raises it, so a term belongs to one leadership of
//! one process; the identity must be unique per process (a name and a random part). Agents refuse a
//! process that still acts on an old term.
//!
//! Deleting the Lease by hand is outside of this argument: a candidate that has seen a holder waits
//! until the duration of that Lease has passed, but one that starts afterwards cannot know. The terms
//! that agents have stored still hold; [`LeaseView::raise_term`] brings the new Lease above them, within
//! the bounds of the module `term_raises`.

mod config;
mod term_raises;

use std::time::Duration;

use jiff::Timestamp;

pub use config::{LeaseConfig, LeaseConfigError};
use term_raises::TermRaises;
pub use term_raises::{LONGEST_JUMP, RAISES_PER_AGENT, TermOutlier};

/// The highest term: `leaseTransitions` is a signed number of 32 bits.
pub const MAX_TERM: u64 = i32::MAX as u64;

/// The Lease as the API server returns it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseRecord {
    /// `spec.holderIdentity`; empty: released.
    pub holder: String,
    /// `spec.leaseTransitions`: the term.
    pub transitions: u64,
    /// `spec.leaseDurationSeconds`.
    pub duration: Duration,
    /// `spec.renewTime`, by the holder's clock; used only to tell one renewal from another.
    pub renewed: Option<Timestamp>,
    /// `metadata.resourceVersion`.
    pub version: String,
}

/// A write of the Lease. It must fail if the Lease has changed since it was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseWrite {
    /// `spec.holderIdentity`; empty: release.
    pub holder: String,
    /// `spec.leaseTransitions`.
    pub transitions: u64,
    /// `spec.leaseDurationSeconds`.
    pub duration: Duration,
    /// Also set `spec.acquireTime`; `spec.renewTime` is set by every write, to another value than
    /// before.
    pub acquires: bool,
    /// The `resourceVersion` that the write replaces; `None`: create, and fail if the Lease exists.
    pub replaces: Option<String>,
}

/// The leadership of this process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Leadership {
    term: u64,
    /// When the last write that succeeded was sent: the Lease cannot have been renewed before.
    sent: Duration,
}

/// What one process knows about the Lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseView {
    me: String,
    record: Option<LeaseRecord>,
    /// When we saw the record change last.
    changed: Duration,
    /// A deleted Lease of another holder: when it changed last, and its duration.
    vanished: Option<(Duration, Duration)>,
    /// The highest term seen on a Lease; the next leadership goes above it.
    highest_seen: u64,
    /// The lowest term that a write may have, because agents know lower ones.
    lowest_term: u64,
    /// Which refusals of agents were followed.
    raises: TermRaises,
    leadership: Option<Leadership>,
    /// When we stepped down last; writes sent until then no longer count.
    stepped_down: Option<Duration>,
}

/// Why a leader has lost its leadership.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LeadershipLost {
    /// The renewal deadline has passed; another candidate may acquire the Lease soon.
    #[error("the Lease could not be renewed in time")]
    Late,
    /// Another process holds the Lease.
    #[error("the Lease is held by {0:?}")]
    Taken(String),
    /// The Lease was deleted.
    #[error("the Lease is gone")]
    Gone,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Decision {
    /// We lead; nothing to do before `renew_at`.
    Hold {
        /// The term in which we lead.
        term: u64,
        /// When to renew.
        renew_at: Duration,
        /// When to stop at the latest, unless the Lease is renewed.
        renew_by: Duration,
    },
    /// We lead: send the write. If it fails, read the Lease and evaluate again after a retry period.
    Renew {
        /// The write to send.
        write: LeaseWrite,
        /// When to stop at the latest, unless the Lease is renewed.
        renew_by: Duration,
    },
    /// Nobody leads: send the write. We lead once it has succeeded, not before.
    Acquire {
        /// The write; its `transitions` are the new term.
        write: LeaseWrite,
    },
    /// Stop acting now, then call [`LeaseView::step_down`].
    StepDown {
        /// The reason, as a clause for messages.
        why: LeadershipLost,
    },
    /// Another process leads, or may lead.
    Wait {
        /// When to evaluate again at the latest, if the Lease does not change before.
        until: Duration,
        /// The holder; empty for the holder of a deleted Lease.
        holder: String,
    },
    /// There is no higher term left, and a term is never used twice. An operator has to act.
    Exhausted,
}

/// Decides what to do about the Lease now.
pub fn evaluate(view: &LeaseView, config: &LeaseConfig, now: Duration) -> Decision {
    match &view.leadership {
        Some(leadership) => view.defend(leadership, config, now),
        None => view.contend(config, now),
    }
}

// === impl LeaseView ===

impl LeaseView {
    /// The view after the first read of the Lease; `None`: there is none. `me` is unique per process.
    pub fn new(me: impl Into<String>, record: Option<LeaseRecord>, now: Duration) -> Self {
        let mut view = Self {
            me: me.into(),
            record: None,
            changed: now,
            vanished: None,
            highest_seen: 0,
            lowest_term: 1,
            raises: TermRaises::default(),
            leadership: None,
            stepped_down: None,
        };
        view.observe(record, now);
        view
    }

    /// Takes the Lease from a later read, a watch or a conflict. Outdated records are safe.
    pub fn observe(&mut self, record: Option<LeaseRecord>, now: Duration) {
        let Some(record) = record else {
            if let Some(gone) = self.record.take()
                && gone.holder != self.me
                && !gone.holder.is_empty()
            {
                self.vanished = Some((self.changed, gone.duration));
            }
            return;
        };
        self.highest_seen = self.highest_seen.max(record.transitions);
        if let Some(leadership) = &mut self.leadership {
            if record.transitions < leadership.term {
                // From before our acquisition. If it is not (someone has set the Lease back), our
                // renewals fail and the deadline ends the leadership.
                return;
            }
            if record.holder == self.me {
                // Our own write, observed before its response.
                leadership.term = record.transitions;
            }
        }
        self.vanished = None;
        // A new resourceVersion alone may be a changed label; it is no renewal.
        let renewed = self.record.as_ref().is_none_or(|known| {
            (
                &known.holder,
                known.transitions,
                known.duration,
                known.renewed,
            ) != (
                &record.holder,
                record.transitions,
                record.duration,
                record.renewed,
            )
        });
        if renewed {
            self.changed = now;
        }
        self.record = Some(record);
    }

    /// A write that [`evaluate`] returned and that was sent at `sent` has succeeded with this result.
    pub fn written(&mut self, record: LeaseRecord, sent: Duration, now: Duration) {
        let ours = record.holder == self.me;
        let term = record.transitions;
        let stale = self.stepped_down.is_some_and(|end| sent <= end)
            || self
                .leadership
                .as_ref()
                .is_some_and(|leadership| term < leadership.term)
            || self
                .record
                .as_ref()
                .is_some_and(|known| term < known.transitions);
        if ours && !stale {
            let sent = self
                .leadership
                .as_ref()
                .map_or(sent, |leadership| leadership.sent.max(sent));
            self.raises.lead(term);
            self.leadership = Some(Leadership { term, sent });
        }
        self.observe(Some(record), now);
    }

    /// An agent has refused the term `claimed` because it has accepted the term `highest`. The next write
    /// goes above that; until then our own term stays as it is.
    ///
    /// # Errors
    ///
    /// The refusal is not followed, see [`TermOutlier`]; nothing is changed.
    pub fn raise_term(
        &mut self,
        agent: &str,
        claimed: u64,
        highest: u64,
    ) -> Result<(), TermOutlier> {
        let lowest = match &self.leadership {
            Some(leadership) => self.lowest_term.max(leadership.term),
            None => self.lowest_term.max(self.highest_seen),
        };
        self.raises.judge(agent, claimed, highest, lowest)?;
        self.lowest_term = self.lowest_term.max(highest.saturating_add(1));
        Ok(())
    }

    /// Ends the leadership: no write sent until now makes us leader again.
    pub fn step_down(&mut self, now: Duration) {
        self.leadership = None;
        self.stepped_down = Some(now);
    }

    /// Steps down, and returns the write that lets another candidate lead at once. Call it once
    /// everything that acts as leader has stopped. `None`: we do not hold the Lease.
    pub fn release(&mut self, now: Duration) -> Option<LeaseWrite> {
        self.leadership.as_ref()?;
        self.step_down(now);
        let record = self
            .record
            .as_ref()
            .filter(|record| record.holder == self.me)?;
        Some(LeaseWrite {
            holder: String::new(),
            transitions: record.transitions,
            duration: record.duration,
            acquires: false,
            replaces: Some(record.version.clone()),
        })
    }

    /// The term in which we may act now; `None`: we do not lead. Call it before every write and every
    /// command.
    pub fn term(&self, config: &LeaseConfig, now: Duration) -> Option<u64> {
        let leadership = self.leadership.as_ref()?;
        self.lost(leadership, config, now)
            .is_none()
            .then_some(leadership.term)
    }

    /// The holder of the Lease as last seen; `None`: nobody.
    pub fn holder(&self) -> Option<&str> {
        self.record
            .as_ref()
            .map(|record| record.holder.as_str())
            .filter(|name| !name.is_empty())
    }

    fn lost(
        &self,
        leadership: &Leadership,
        config: &LeaseConfig,
        now: Duration,
    ) -> Option<LeadershipLost> {
        match &self.record {
            None => Some(LeadershipLost::Gone),
            Some(record) if record.holder != self.me => {
                Some(LeadershipLost::Taken(record.holder.clone()))
            }
            Some(_) => (now >= config.renew_by(leadership.sent)).then_some(LeadershipLost::Late),
        }
    }

    fn defend(&self, leadership: &Leadership, config: &LeaseConfig, now: Duration) -> Decision {
        if let Some(why) = self.lost(leadership, config, now) {
            return Decision::StepDown { why };
        }
        let renew_by = config.renew_by(leadership.sent);
        let renew_at = leadership.sent.saturating_add(config.retry());
        if now < renew_at && self.lowest_term <= leadership.term {
            return Decision::Hold {
                term: leadership.term,
                renew_at,
                renew_by,
            };
        }
        let term = leadership.term.max(self.lowest_term);
        Decision::Renew {
            write: self.claim(term, false, config),
            renew_by,
        }
    }

    fn contend(&self, config: &LeaseConfig, now: Duration) -> Decision {
        let (until, holder) = match (&self.record, self.vanished) {
            (Some(record), _) if record.holder.is_empty() || record.holder == self.me => {
                (now, String::new())
            }
            (Some(record), _) => (
                config.free_at(self.changed, record.duration),
                record.holder.clone(),
            ),
            (None, Some((changed, duration))) => (config.free_at(changed, duration), String::new()),
            (None, None) => (now, String::new()),
        };
        if now < until {
            return Decision::Wait { until, holder };
        }
        let term = self.lowest_term.max(self.highest_seen.saturating_add(1));
        if term > MAX_TERM {
            return Decision::Exhausted;
        }
        Decision::Acquire {
            write: self.claim(term, true, config),
        }
    }

    fn claim(&self, term: u64, acquires: bool, config: &LeaseConfig) -> LeaseWrite {
        LeaseWrite {
            holder: self.me.clone(),
            transitions: term,
            duration: config.duration(),
            acquires,
            replaces: self.record.as_ref().map(|record| record.version.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
