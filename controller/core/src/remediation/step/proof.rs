//! What the BMC, the Lease and our hold prove while a host has to stay off (F1, F3, F5).
//!
//! Must never take a reading for proof of what came after it.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::{Because, LeaseFacts, NodeFacts, OffEvidence, PowerState, State, Step},
    Command, Cx, Decision, after,
    fenced::FENCED_WATCH,
    same_node::{is_pinned, is_unproven},
};

/// Added to a quarter of the Lease's duration before a Lease counts as standing still: a renewal
/// that is late by less is not the sign of a dead kubelet.
const LEASE_SLACK: Duration = Duration::from_secs(2);

/// How old the last word before a taint or a power-on may be.
pub(super) const LAST_WORD: Duration = Duration::from_secs(2);

/// What the BMC says now, as far as it proves anything.
pub(super) enum Fresh {
    /// Exactly off.
    Off,
    /// On, or on its way up: its own word.
    On(String),
    /// Neither on nor off: its own word.
    Unclear(String),
    /// It has to be asked.
    Ask,
    /// It was asked and did not answer.
    Unreadable(String),
}

impl Cx<'_> {
    /// The newest word of the BMC that is younger than the proof. The proof itself does not count:
    /// it may have waited at the agent for a controller to come back.
    pub(super) fn power_now(&self, s: &State) -> Fresh {
        self.power_within(s, self.policy.hold_watch)
    }

    /// The same, no older than this. Its age is that of the answer: a BMC that is slower than the
    /// watch would otherwise be asked for ever and never be heard.
    pub(super) fn power_within(&self, s: &State, age: Duration) -> Fresh {
        let proven = s.off.as_ref().map(OffEvidence::at);
        let Some(view) = &self.o.power else {
            return Fresh::Ask;
        };
        // A clock that was set back makes neither an old reading young nor a new one old: a proof of the
        // future was written by another process, before this one could read anything.
        let older_than_proof = proven.is_some_and(|p| p <= self.now && view.asked < p);
        if self.older_than(view.answered, age) || older_than_proof {
            return Fresh::Ask;
        }
        let fresh = match &view.result {
            Ok(r) => match r.state {
                PowerState::Off => Fresh::Off,
                PowerState::On | PowerState::PoweringOn => Fresh::On(r.raw.clone()),
                PowerState::PoweringOff | PowerState::Unknown => Fresh::Unclear(r.raw.clone()),
            },
            Err(why) => Fresh::Unreadable(why.clone()),
        };
        match fresh {
            // A person vouches for a BMC that cannot say (F8); only "on" speaks against it.
            Fresh::Unclear(word) if by_person(s) => Fresh::Unreadable(format!("it says {word:?}")),
            fresh => fresh,
        }
    }

    /// A reading of the future is of no known age: the clock was set back since.
    pub(super) fn older_than(&self, answered: Timestamp, age: Duration) -> bool {
        after(answered, age) <= self.now || answered > self.now
    }

    /// F1, L1: a BMC that has been silent for as long as a power-off may take proves nothing any more.
    /// It is switched off again, and a person is asked for their word. What a person vouches for may
    /// be silent.
    pub(super) fn silent_too_long(&self, s: &State) -> Option<Decision> {
        let limit = after(self.o.silent_since?, self.policy.power_off_timeout);
        if limit > self.now || by_person(s) {
            return None;
        }
        let why = match (self.bmc_down(), &self.o.power) {
            (Some(why), _) => why.to_string(),
            (None, Some(view)) => match &view.result {
                Ok(reading) => format!("the BMC reports {:?}", reading.raw),
                Err(why) => why.clone(),
            },
            (None, None) => "the BMC does not answer".into(),
        };
        let mut s = self.fence_again(s.clone(), Because::Working).state;
        s.failure = Some(format!(
            "the BMC fell silent while the host had to stay off: {why}"
        ));
        Some(self.await_person(s, self.now))
    }

    /// F3: seen on while it had to stay off. Off again and confirmed again; the taint stays.
    pub(super) fn violated(&self, s: State, seen: &str) -> Decision {
        self.fence_again(s, Because::FenceViolated(format!("{seen:?}")))
    }

    pub(super) fn fence_again(&self, mut s: State, because: Because) -> Decision {
        s.off = None;
        s.lease_at_off = None;
        s.drained = None;
        s.fences = s.fences.saturating_add(1);
        s.person_heard = self.person_confirms();
        self.to(s, Step::PoweringOff, because)
    }

    /// The BareMetalHost that lacks our hold key although it should carry it (A2).
    pub(super) fn hold_missing(&self) -> Option<&str> {
        let bmh = self.o.bmh.as_ref()?;
        (!bmh.our_hold && !bmh.deleting && bmh.online).then_some(bmh.name.as_str())
    }

    /// A host that was not held may be on its way up, whatever was read before.
    pub(super) fn hold_lost(&self, s: &State) -> Option<Decision> {
        let name = self.hold_missing()?;
        Some(self.fence_again(s.clone(), Because::HoldLost(name.to_owned())))
    }

    /// F3, for steps that wait for something else: keeps reading, and goes on to `why` otherwise.
    pub(super) fn watch_hold(&self, s: State, why: Because, poll: Option<Duration>) -> Decision {
        self.watch_power(s, why, self.policy.hold_watch, poll)
    }

    /// The same, with a reading each `watch`.
    pub(super) fn watch_power(
        &self,
        s: State,
        why: Because,
        watch: Duration,
        poll: Option<Duration>,
    ) -> Decision {
        let due = self
            .o
            .power
            .as_ref()
            .map_or(self.now, |view| after(view.answered, watch));
        match self.power_within(&s, watch) {
            Fresh::On(seen) | Fresh::Unclear(seen) => self.violated(s, &seen),
            fresh => {
                let ask = due <= self.now || matches!(fresh, Fresh::Ask);
                if !ask {
                    let until = poll.map_or(due, |poll| due.min(after(self.now, poll)));
                    return self.wait(s, why, until);
                }
                match self.bmc_down() {
                    None => self.act(s, why, Command::ReadPower),
                    Some(_) => {
                        let poll = poll.map_or(watch, |poll| poll.min(watch));
                        self.wait(s, why, after(self.now, poll))
                    }
                }
            }
        }
    }

    /// The kubelet has renewed its Lease since the confirmed off. A Lease that is gone has not; nor has
    /// that of a Node which came later.
    pub(super) fn lease_moved(s: &State, node: &NodeFacts) -> bool {
        if !is_pinned(s, node) {
            return false;
        }
        match (&s.lease_at_off, &node.lease) {
            (Some(at_off), Some(lease)) => *at_off != lease.renewed,
            _ => false,
        }
    }

    /// F5: a kubelet that renews its Lease after the confirmed off is not on the host that is off.
    pub(super) fn lease_renewed(&self, s: &State, node: &NodeFacts) -> Option<Decision> {
        if !Self::lease_moved(s, node) {
            return None;
        }
        let s = s.clone();
        let in_time = self.read_since_renewal(&s, node);
        Some(match self.power_now(&s) {
            Fresh::On(word) | Fresh::Unclear(word) => self.violated(s, &word),
            fresh if self.bmc_down().is_none() && (!in_time || matches!(fresh, Fresh::Ask)) => {
                self.act(s, Because::WaitingForQuietLease, Command::ReadPower)
            }
            // The BMC says off, or it said so last and cannot be asked now: both mean that the
            // machine that runs this kubelet is another one, or that nothing is proven any more.
            // Whether this one ever was on the host that is off, nobody knows: nothing is undone for it.
            Fresh::Off | Fresh::Ask | Fresh::Unreadable(_) if is_unproven(&s) => {
                let why = format!(
                    "node {} came under this name after the power-off was begun, and its kubelet is \
                     alive although the host is off. Remove that Node, or give its machine another name",
                    node.name
                );
                self.watch_power(s, Because::NodeMismatch(why), FENCED_WATCH, None)
            }
            Fresh::Off | Fresh::Ask | Fresh::Unreadable(_) => {
                self.abort(s, Because::LeaseRenewed(node.name.clone()))
            }
        })
    }

    /// F5: the BMC was asked when the Lease had moved already. Off as read before the renewal would
    /// blame the mapping for what a hand at the power button, or baremetal-operator, did.
    pub(super) fn read_since_renewal(&self, s: &State, node: &NodeFacts) -> bool {
        let (Some(view), Some(lease)) = (&self.o.power, &node.lease) else {
            return false;
        };
        // A kubelet that renews more often than a slow BMC answers is caught by the second.
        view.asked >= lease.unchanged_since || view.lease.is_some() && view.lease != s.lease_at_off
    }

    /// Until when the Lease must stand still before it proves anything; `None`: it does.
    pub(super) fn lease_quiet_from(&self, node: &NodeFacts) -> Option<Timestamp> {
        let LeaseFacts {
            duration,
            unchanged_since,
            ..
        } = node.lease.as_ref()?;
        // Ready=Unknown: the control plane itself has watched the Lease stand still.
        if node.ready_unknown {
            return None;
        }
        let quiet = after(
            *unchanged_since,
            (*duration / 4).saturating_add(LEASE_SLACK),
        );
        (quiet > self.now).then_some(quiet)
    }
}

/// F1: a proof of an earlier version, which did not ask whether the BMC had taken a command.
pub(super) fn no_command_taken(s: &State) -> bool {
    matches!(s.off, Some(OffEvidence::Bmc { taken: None, .. }))
}

/// Off by a person's word, not by the BMC's.
pub(super) fn by_person(s: &State) -> bool {
    matches!(s.off, Some(OffEvidence::Person { .. }))
}
