//! The progress of a remediation that other remediations depend on.

use super::{super::Strategy, Mode, State, Step};

/// The progress of a remediation that other remediations depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Progress {
    /// Nothing has begun, and the remediation waits for something other than another remediation. It
    /// blocks no other.
    Waiting,
    /// Nothing has begun, and the remediation could begin. Those are ordered by `ActiveRemediation::precedence`.
    Ready,
    /// The remediation has begun: its host may be held or switched.
    Begun,
}

impl Progress {
    /// By the stored state. Before an attempt, and after the end, nothing has begun.
    pub fn of(state: Option<&State>) -> Self {
        match state.map_or(Step::Pending, |s| s.step) {
            Step::Pending | Step::Retrying => Self::Ready,
            step if step.is_terminal() => Self::Waiting,
            _ => Self::Begun,
        }
    }
}

/// Whether no power-off was recorded by this state, so that the host was not switched for the remediation yet (F2).
pub fn is_uncut(state: &State) -> bool {
    let is_before = matches!(
        state.step,
        Step::Pending | Step::Evicting | Step::Evicted | Step::Holding
    );
    is_before && state.attempt.number <= 1
}

/// Progress of a remediation that is evaluated, possibly again. `stored` is that of its stored state; `able`:
/// it would begin if nothing prevented it; `before` is the result of the last evaluation by this process.
///
/// A remediation that this process has let begin keeps its place although the stored state does not show it:
/// the write may have been taken without a response. Evaluated as if it had not begun, it could lose its place
/// to an older one, and both would have begun once the write shows.
pub fn progress_again(
    stored: Progress,
    able: bool,
    before: Option<Progress>,
    state: Option<&State>,
) -> Progress {
    let is_first_attempt = state.is_none_or(|s| s.step == Step::Pending);
    match stored {
        Progress::Ready if !able => Progress::Waiting,
        Progress::Ready if is_first_attempt && before == Some(Progress::Begun) => Progress::Begun,
        stored => stored,
    }
}

/// Whether nothing was sent yet, and no annotation was set for which baremetal-operator would
/// switch off, so that the quorum is read once more.
pub fn before_first_off(state: &State) -> bool {
    match state.step {
        Step::Holding => true,
        // Until the operating system is asked.
        Step::ShuttingDown => true,
        Step::PoweringOff => state.mode == Mode::Direct && state.is_first_off(),
        _ => false,
    }
}

/// Whether a missing mark of the HostMaintenance still stops this remediation. `is_off_begun`: there is an operation of its
/// state. A host whose power-off was begun is fenced, also by its outlets.
pub fn is_stopped_by_marks(state: &State, is_off_begun: bool) -> bool {
    state.step == Step::Evicting || (!is_off_begun && before_first_off(state))
}

/// Whether a freeze of a policy still stops this remediation although it has begun: nothing was sent, and the host is to
/// be switched off. One that was stopped by it before, and is only recorded as waiting, counts too.
pub fn is_stopped_by_freeze(state: &State) -> bool {
    match state.step {
        Step::Pending => true,
        Step::Evicting => state.strategy != Strategy::Evict,
        _ => before_first_off(state),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn missing_mark_stops_nothing_once_the_power_off_was_begun() {
        let stopped = |step, is_off_begun| {
            let mut state = State::new(Timestamp::UNIX_EPOCH);
            (state.step, state.mode) = (step, Mode::Direct);
            is_stopped_by_marks(&state, is_off_begun)
        };
        for step in [Step::Holding, Step::ShuttingDown, Step::PoweringOff] {
            assert!(stopped(step, false), "{step:?}");
            assert!(!stopped(step, true), "{step:?}");
        }
        // What it has evicted so far is no power-off.
        assert!(stopped(Step::Evicting, false) && stopped(Step::Evicting, true));
        assert!(!stopped(Step::ConfirmingOff, false));
    }
}
