//! How a remediation has ended, for the counter: once, whichever way it goes.
//!
//! Pure. Must never count what an earlier process has counted.

use rackhand_core::remediation::{Because, Outcome, State, outcome};

/// What is counted: how, and why in one word.
pub(super) type Ended = (Outcome, &'static str);

/// What this process knows of the end of one remediation.
#[derive(Default)]
pub(super) struct Tally {
    /// How it ends, while the finalizer is being taken off.
    leaving: Option<Ended>,
    /// Why it stood where it stood when this process wrote last; `None`: it has written nothing.
    said: Option<&'static str>,
    counted: bool,
}

impl Tally {
    /// The finalizer is about to go: it counts once it has gone.
    pub(super) fn leaves(&mut self, outcome: Outcome, because: &Because) {
        self.leaving = Some((outcome, because.label()));
    }

    /// The finalizer has gone, or has been seen gone.
    pub(super) fn left(&mut self) -> Option<Ended> {
        let ended = self.leaving.take();
        self.once(ended)
    }

    /// This was written. One that ends without our finalizer ends with that.
    pub(super) fn wrote(
        &mut self,
        state: Option<&State>,
        because: &Because,
        finalizer: bool,
    ) -> Option<Ended> {
        self.said = Some(because.label());
        let over = state.and_then(outcome).filter(|_| !finalizer);
        self.once(over.map(|outcome| (outcome, because.label())))
    }

    /// Nothing is left to do, and the object stands there still.
    pub(super) fn over(
        &mut self,
        state: Option<&State>,
        outcome_now: Outcome,
        because: &Because,
    ) -> Option<Ended> {
        let earlier = self.said.is_none() || state.and_then(outcome).is_some();
        let ended = match self.leaving.take() {
            None if earlier => None,
            None => Some((outcome_now, because.label())),
            leaving => leaving,
        };
        self.once(ended)
    }

    /// The object is gone: with our finalizer, by our hand or a person's, or before it had one.
    pub(super) fn gone(&mut self, state: Option<&State>) -> Option<Ended> {
        let how = state.and_then(outcome).unwrap_or(Outcome::Withdrawn);
        let ended = self
            .leaving
            .take()
            .or_else(|| self.said.map(|said| (how, said)));
        self.once(ended)
    }

    fn once(&mut self, ended: Option<Ended>) -> Option<Ended> {
        let first = ended.filter(|_| !self.counted)?;
        self.counted = true;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rackhand_core::remediation::Step;

    use super::*;

    fn state(step: Step) -> State {
        let mut s = State::new(Timestamp::UNIX_EPOCH);
        s.step = step;
        s
    }

    #[test]
    fn one_that_ends_before_it_has_the_finalizer_counts_when_that_is_written() {
        let (mut tally, over) = (Tally::default(), state(Step::Blocked));
        let because = Because::NodeNotFound("n".into());
        assert_eq!(
            tally.wrote(Some(&state(Step::Aborting)), &because, false),
            None
        );
        let counted = tally.wrote(Some(&over), &because, false);
        assert_eq!(counted, Some((Outcome::Failed, "NodeNotFound")));
        assert_eq!(tally.over(Some(&over), Outcome::Failed, &because), None);
        assert_eq!(tally.gone(Some(&over)), None);
        // The next process finds it as it is.
        let mut next = Tally::default();
        assert_eq!(next.over(Some(&over), Outcome::Failed, &because), None);
        assert_eq!(next.gone(Some(&over)), None);
    }

    #[test]
    fn one_that_is_deleted_while_it_waits_counts_with_what_it_waited_for() {
        let (mut tally, pending) = (Tally::default(), state(Step::Pending));
        let because = Because::MachineNotFound("the Machine is gone".into());
        assert_eq!(tally.wrote(Some(&pending), &because, false), None);
        let counted = tally.gone(Some(&pending));
        assert_eq!(counted, Some((Outcome::Withdrawn, "MachineNotFound")));
        assert_eq!(tally.gone(Some(&pending)), None);
        // Kept by somebody else's finalizer it counts as well, once.
        let mut tally = Tally::default();
        tally.wrote(Some(&pending), &because, false);
        let counted = tally.over(Some(&pending), Outcome::Withdrawn, &Because::Withdrawn);
        assert_eq!(counted, Some((Outcome::Withdrawn, "Withdrawn")));
        assert_eq!(tally.gone(Some(&pending)), None);
        // One that nobody has looked at was none.
        assert_eq!(Tally::default().gone(None), None);
    }

    #[test]
    fn one_with_the_finalizer_counts_when_that_has_gone() {
        let over = state(Step::Succeeded);
        let mk = || {
            let mut tally = Tally::default();
            assert_eq!(tally.wrote(Some(&over), &Because::Recovered, true), None);
            tally.leaves(Outcome::Succeeded, &Because::Recovered);
            tally
        };
        let ended = Some((Outcome::Succeeded, "Recovered"));
        let mut tally = mk();
        assert_eq!(tally.left(), ended);
        assert_eq!(
            tally.over(Some(&over), Outcome::Succeeded, &Because::Recovered),
            None
        );
        // The answer to what made it go was lost.
        let mut tally = mk();
        assert_eq!(
            tally.over(Some(&over), Outcome::Succeeded, &Because::Recovered),
            ended
        );
        assert_eq!(mk().gone(Some(&over)), ended);
    }
}
