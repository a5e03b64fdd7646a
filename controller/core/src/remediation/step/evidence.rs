//! Evidence from the BMC, the Lease and the hold while a host has to stay off (F1, F3, F5).
//!
//! Invariant: a reading proves nothing about the time after it.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::{
        NodeFacts, OUTLETS_PROTOCOL, OffEvidence, OutletStage, PowerState, Reason, State, Step,
    },
    Command, Decision, StepContext, after,
    fenced::FENCED_WATCH,
    node::identity::{is_pinned, is_unproven},
};

/// Maximum age of the reading before a taint or a power-on.
pub const LATEST_READING_AGE: Duration = Duration::from_secs(2);

/// The latest reading of the BMC, if it is still valid.
pub(super) enum LatestReading {
    /// Exactly off.
    Off,
    /// On or powering on, in the words of the BMC.
    On(String),
    /// Neither on nor off, in the words of the BMC.
    Unclear(String),
    /// There is no valid reading; the BMC must be read.
    NotRead,
    /// The BMC was read and did not answer.
    Unreadable(String),
}

impl StepContext<'_> {
    /// The latest reading that is younger than the evidence. The readings of the evidence do not count,
    /// because they may have waited at the agent until a controller returned.
    pub(super) fn power_now(&self, s: &State) -> LatestReading {
        self.power_within(s, self.policy.hold_watch)
    }

    /// The latest reading that is younger than the evidence and not older than `age`. The age is that
    /// of the answer; otherwise the readings of a slow BMC would always be too old.
    pub(super) fn power_within(&self, s: &State, age: Duration) -> LatestReading {
        let proven = s.attempt.off.as_ref().map(OffEvidence::at);
        let Some(view) = &self.o.power else {
            return LatestReading::NotRead;
        };
        // A clock that was set back must not change what is old: evidence from the future was written by
        // another process, before this one read anything.
        let older_than_proof = proven.is_some_and(|p| p <= self.now && view.asked < p);
        if self.older_than(view.answered, age) || older_than_proof {
            return LatestReading::NotRead;
        }
        let fresh = match &view.result {
            // It was asked for before the outlets were read.
            Ok(r)
                if r.state == PowerState::Off
                    && s.reads_outlets()
                    && r.protocol != OUTLETS_PROTOCOL =>
            {
                LatestReading::NotRead
            }
            Ok(r) => match r.state {
                PowerState::Off => LatestReading::Off,
                PowerState::On | PowerState::PoweringOn => LatestReading::On(r.raw.clone()),
                PowerState::PoweringOff | PowerState::Unknown => {
                    LatestReading::Unclear(r.raw.clone())
                }
            },
            Err(why) => LatestReading::Unreadable(why.clone()),
        };
        match fresh {
            // A person has confirmed off for a BMC that cannot report it (F8); only "on"
            // contradicts that.
            LatestReading::Unclear(raw) if by_person(s) => {
                LatestReading::Unreadable(format!("it reports {raw:?}"))
            }
            fresh => fresh,
        }
    }

    /// Whether a reading is older than `age`. A reading from the future has no known age, because
    /// the clock was set back since.
    pub(super) fn older_than(&self, answered: Timestamp, age: Duration) -> bool {
        after(answered, age) <= self.now || answered > self.now
    }

    /// F1, L1: handles a BMC that has been silent for as long as a power-off may take. Its host is
    /// switched off again, and a confirmation is requested. After a confirmation by a person the
    /// BMC may be silent.
    pub(super) fn silent_too_long(&self, s: &State) -> Option<Decision> {
        let limit = after(self.o.silent_since?, self.policy.power_off_timeout);
        if limit > self.now || by_person(s) {
            return None;
        }
        let why = match (self.reading_down(s), &self.o.power) {
            (Some(why), _) => why.to_string(),
            (None, Some(view)) => match &view.result {
                Ok(reading) => format!("the power is reported as {:?}", reading.raw),
                Err(why) => why.clone(),
            },
            (None, None) => "nothing answers".into(),
        };
        let source = match s.reads_outlets() {
            true => "a PDU",
            false => "the BMC",
        };
        let mut s = self.repeat_power_off(s.clone(), Reason::Working).state;
        s.failure = Some(format!(
            "{source} stopped answering while the host had to stay off: {why}"
        ));
        Some(self.await_confirmation(s, self.now))
    }

    /// F3: the host was on while it had to stay off. It is switched off and confirmed again; the
    /// taint stays.
    pub(super) fn fence_violated(&self, mut s: State, seen: &str) -> Decision {
        let reading = self
            .o
            .power
            .as_ref()
            .and_then(|view| view.result.as_ref().ok());
        if s.reads_outlets() && reading.is_some_and(|r| r.protocol != OUTLETS_PROTOCOL) {
            s.set_outlets(OutletStage::Refuted);
        }
        self.repeat_power_off(s, Reason::FenceViolated(format!("{seen:?}")))
    }

    pub(super) fn repeat_power_off(&self, mut s: State, reason: Reason) -> Decision {
        s.attempt.off = None;
        s.attempt.lease_at_off = None;
        s.attempt.drained = None;
        s.power_off_repeats = s.power_off_repeats.saturating_add(1);
        s.confirmation_used = self.person_confirms();
        self.to(s, Step::PoweringOff, reason)
    }

    /// The name of the BareMetalHost if it lacks our hold key (A2).
    pub(super) fn hold_missing(&self) -> Option<&str> {
        let bmh = self.o.bmh.as_ref()?;
        (!bmh.our_hold && !bmh.deleting && bmh.online).then_some(bmh.name.as_str())
    }

    /// Repeats the power-off if the hold key was removed: the host may be powering on,
    /// whatever was read before.
    pub(super) fn hold_lost(&self, s: &State) -> Option<Decision> {
        let name = self.hold_missing()?;
        Some(self.repeat_power_off(s.clone(), Reason::HoldLost(name.to_owned())))
    }

    /// Waits for `why` and keeps reading the power state meanwhile (F3).
    pub(super) fn monitor_hold(&self, s: State, why: Reason, poll: Option<Duration>) -> Decision {
        self.monitor_power(s, why, self.policy.hold_watch, poll)
    }

    /// [`Self::monitor_hold`] with a reading each `watch`.
    pub(super) fn monitor_power(
        &self,
        s: State,
        why: Reason,
        watch: Duration,
        poll: Option<Duration>,
    ) -> Decision {
        let due = self
            .o
            .power
            .as_ref()
            .map_or(self.now, |view| after(view.answered, watch));
        match self.power_within(&s, watch) {
            LatestReading::On(seen) | LatestReading::Unclear(seen) => self.fence_violated(s, &seen),
            fresh => {
                let ask = due <= self.now || matches!(fresh, LatestReading::NotRead);
                if !ask {
                    let until = poll.map_or(due, |poll| due.min(after(self.now, poll)));
                    return self.wait(s, why, until);
                }
                match self.reading_down(&s) {
                    None => self.act(s, why, Command::ReadPower),
                    Some(_) => {
                        let poll = poll.map_or(watch, |poll| poll.min(watch));
                        self.wait(s, why, after(self.now, poll))
                    }
                }
            }
        }
    }

    /// Whether the kubelet has renewed its Lease since the confirmed off. A Lease that is gone was
    /// not renewed, nor was that of a Node that came later.
    pub(super) fn lease_moved(s: &State, node: &NodeFacts) -> bool {
        if !is_pinned(s, node) {
            return false;
        }
        match (&s.attempt.lease_at_off, &node.lease) {
            (Some(at_off), Some(lease)) => *at_off != lease.renewed,
            _ => false,
        }
    }

    /// F5: handles a kubelet that renews its Lease after the confirmed off, and so does not run on
    /// the host that is off.
    pub(super) fn lease_renewed(&self, s: &State, node: &NodeFacts) -> Option<Decision> {
        if !Self::lease_moved(s, node) {
            return None;
        }
        let s = s.clone();
        let in_time = self.read_since_renewal(&s, node);
        Some(match self.power_now(&s) {
            LatestReading::On(raw) | LatestReading::Unclear(raw) => self.fence_violated(s, &raw),
            fresh
                if self.reading_down(&s).is_none()
                    && (!in_time || matches!(fresh, LatestReading::NotRead)) =>
            {
                self.act(s, Reason::WaitingForQuietLease, Command::ReadPower)
            }
            // The BMC reports off, or reported it last and cannot be read now. Whether this Node
            // ever ran on the host that is off is unknown, so nothing is undone for it.
            LatestReading::Off | LatestReading::NotRead | LatestReading::Unreadable(_)
                if is_unproven(&s) =>
            {
                let why = format!(
                    "node {} was registered under this name after the power-off began, and its kubelet \
                     renews its Lease although the host is off, which stays off. Remove that Node, or give \
                     its machine another name; or delete this object: the host is then switched on again",
                    node.name
                );
                self.monitor_power(s, Reason::NodeMismatch(why), FENCED_WATCH, None)
            }
            LatestReading::Off | LatestReading::NotRead | LatestReading::Unreadable(_) => {
                self.abort(s, Reason::LeaseRenewed(node.name.clone()))
            }
        })
    }

    /// Whether the BMC was read after the Lease was renewed (F5). An earlier reading of off would
    /// attribute to a wrong BMC address what a person at the power button, or baremetal-operator,
    /// did.
    pub(super) fn read_since_renewal(&self, s: &State, node: &NodeFacts) -> bool {
        let (Some(view), Some(lease)) = (&self.o.power, &node.lease) else {
            return false;
        };
        // The second condition covers a kubelet that renews more often than a slow BMC answers.
        view.asked >= lease.unchanged_since
            || view.lease.is_some() && view.lease != s.attempt.lease_at_off
    }

    /// Until when the Lease must not be renewed to prove anything; `None` if that has passed.
    pub(super) fn lease_quiet_from(&self, node: &NodeFacts) -> Option<Timestamp> {
        node.lease_quiet_at().filter(|quiet| *quiet > self.now)
    }
}

/// Whether off was confirmed by a person, not by the BMC.
pub(super) fn by_person(s: &State) -> bool {
    matches!(s.attempt.off, Some(OffEvidence::Person { .. }))
}
