//! CAPM3's own controller on the same Metal3Remediation (F9).
//!
//! Its hold key comes and goes with its steps, and its finalizer has the name of ours. So the state remembers that it
//! was seen. What has begun is finished; after that nothing begins on the object, and its finalizer is left to CAPM3.

use super::{
    super::{Reason, State, Step},
    Decision, Next, Note, StepContext,
};

impl StepContext<'_> {
    /// The state with the rival that is observed now. The first trace is kept.
    pub(super) fn with_rival(&self, mut s: State) -> State {
        if let Some(Reason::RivalController(trace)) = &self.o.conflict
            && s.rival.is_none()
            && !self.is_moved_away()
        {
            s.rival = Some(trace.clone());
        }
        s
    }

    /// Records a rival before anything else is done.
    pub(super) fn record_rival(&self, before: &State, mut d: Decision) -> Decision {
        let Some(trace) = d.state.rival.clone().filter(|_| before.rival.is_none()) else {
            return d;
        };
        if d.next != Next::Write {
            d.next = Next::Write;
            d.state = self.settled(d.state);
        }
        let reason = Reason::RivalController(trace);
        if d.notes.iter().all(|note| note.reason != reason.label()) {
            d.notes.push(Note {
                warning: true,
                reason: reason.label(),
                step: None,
                message: reason.to_string(),
            });
        }
        d
    }

    /// Ends the remediation, because CAPM3's controller goes on with the object.
    pub(super) fn give_way(&self, mut s: State, why: Reason) -> Decision {
        s.attempt.end_reason = Some(why.clone());
        self.to(s, Step::Blocked, why)
    }

    /// Whether we have added the finalizer, and so remove it (F9).
    pub(super) fn owns_finalizer(&self, s: &State) -> bool {
        s.finalizer || !self.o.object.finalizer_is_shared
    }

    /// The state with a finalizer that is not ours: CAPM3's controller has added it, also where it has no hold key now.
    pub(super) fn with_rival_by_finalizer(&self, mut s: State) -> State {
        if self.o.object.finalizer && !self.owns_finalizer(&s) && s.rival.is_none() {
            s.rival = Some("its finalizer was on the object before Rackhand's".into());
        }
        s
    }
}
