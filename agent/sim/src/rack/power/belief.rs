//! The power state that a BMC assumes for its host: it reports this state, and refuses commands by it.
//!
//! Pure. The belief can be wrong: it lags, or a reset of the BMC has lost it. A command to the assumed state is
//! refused and not carried out, whatever the real state.

use std::time::Instant;

use super::{Answer, PowerState, ResetType};

/// A power state that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rack) struct Forgotten {
    /// When it was lost.
    pub(in crate::rack) since: Instant,
    /// When the BMC learns the true state; `None`: from the next command that it carries out.
    pub(in crate::rack) until: Option<Instant>,
}

impl Forgotten {
    pub(in crate::rack) fn holds(self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The refusal of a command by a BMC that assumes this state; `None`: it is carried out. The power button is wired
/// to the host.
pub(in crate::rack) fn refusal(believed: PowerState, wanted: ResetType) -> Option<Answer> {
    let is_on = matches!(believed, PowerState::On | PowerState::PoweringOn);
    match wanted {
        ResetType::ForceOff | ResetType::GracefulShutdown if believed == PowerState::Off => {
            Some(Answer::Already)
        }
        ResetType::On | ResetType::ForceOn if is_on => Some(Answer::Already),
        ResetType::PowerCycle
        | ResetType::ForceRestart
        | ResetType::GracefulRestart
        | ResetType::Nmi
            if believed == PowerState::Off =>
        {
            Some(Answer::WrongState)
        }
        _ => None,
    }
}

/// The answer of a BMC to a command that it has carried out. A BMC that assumes a wrong state reports success for
/// a command that the host did not need, or could not execute.
pub(in crate::rack) fn answer(believed: PowerState, real: PowerState, of_host: Answer) -> Answer {
    match of_host {
        Answer::Already | Answer::WrongState if believed != real => Answer::Accepted,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bmc_refuses_by_what_it_believes() {
        use PowerState::{Off, On, PoweringOff};
        let refused = |believed| {
            let all = ResetType::ALL.into_iter();
            all.filter(|wanted| refusal(believed, *wanted).is_some())
                .map(|wanted| wanted.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            refused(Off),
            "ForceOff GracefulShutdown GracefulRestart ForceRestart PowerCycle Nmi"
        );
        assert_eq!(refused(On), "On ForceOn");
        assert_eq!(refused(PoweringOff), "");
        assert_eq!(answer(On, Off, Answer::Already), Answer::Accepted);
        assert_eq!(answer(Off, Off, Answer::Already), Answer::Already);
    }
}
