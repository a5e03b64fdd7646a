//! Which reset type asks for what.
//!
//! Owns: the choice, as a pure function. Must never: turn a soft off into a hard one or the other
//! way round, a reset into anything that is not one, or push the button of a machine whose state
//! is not exactly the one that a push ends.

use crate::{PowerCommand, PowerState};

/// What a choice depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// As just read.
    pub(super) state: PowerState,
    /// The reset types that the BMC allows; `None`: it does not say, and the standard one is
    /// tried.
    pub(super) allowed: Option<&'a [String]>,
    /// The button may stand in for a graceful shutdown.
    pub(super) soft_off_by_button: bool,
    /// A hard reset of this model is known to hang.
    pub(super) restart_hangs: bool,
}

/// What to do about a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Send this `ResetType`.
    Send(&'static str),
    /// Nothing: it is there already, and what the BMC offers could only undo it.
    Already,
    /// Only the button, and in this state nobody knows what a push does.
    NotNow,
    /// Only the button, and it may not be used for this.
    ButtonForbidden,
    /// The model hangs on it.
    Hangs,
    /// The BMC offers nothing that would do.
    Unsupported,
}

/// Chooses a `ResetType` (Redfish `Resource.ResetType`) for a command.
pub(super) fn choose(command: PowerCommand, facts: Facts<'_>) -> Choice {
    let offers = |word: &str| {
        facts
            .allowed
            .is_none_or(|allowed| allowed.iter().any(|offer| offer == word))
    };
    let first = |words: &[&'static str]| words.iter().find(|word| offers(word)).copied();
    let button = offers("PushPowerButton");
    match (command, facts.state) {
        (PowerCommand::Off, _) => first(&["ForceOff"]).map_or(Choice::Unsupported, Choice::Send),
        (PowerCommand::On, state) => match (first(&["On", "ForceOn"]), state) {
            (Some(word), _) => Choice::Send(word),
            (None, _) if !button => Choice::Unsupported,
            (None, PowerState::Off) => Choice::Send("PushPowerButton"),
            (None, PowerState::On) => Choice::Already,
            (None, _) => Choice::NotNow,
        },
        (PowerCommand::SoftOff, PowerState::Off) => Choice::Already,
        (PowerCommand::SoftOff, state) => match (first(&["GracefulShutdown"]), state) {
            (Some(word), _) => Choice::Send(word),
            (None, _) if !button => Choice::Unsupported,
            (None, _) if !facts.soft_off_by_button => Choice::ButtonForbidden,
            (None, PowerState::On) => Choice::Send("PushPowerButton"),
            (None, _) => Choice::NotNow,
        },
        (PowerCommand::Reset, _) if facts.restart_hangs => Choice::Hangs,
        (PowerCommand::Reset, _) => {
            first(&["ForceRestart"]).map_or(Choice::Unsupported, Choice::Send)
        }
        (PowerCommand::Nmi, _) => first(&["Nmi"]).map_or(Choice::Unsupported, Choice::Send),
    }
}

/// What else there is to do where no reset type will do; for a person.
pub(super) fn advice(command: PowerCommand) -> &'static str {
    match command {
        PowerCommand::SoftOff => "shut the operating system down from within, or power off",
        PowerCommand::Reset => "power off, confirm that it is off, and power on",
        PowerCommand::Nmi => "trigger the dump from within the operating system",
        PowerCommand::On | PowerCommand::Off => "update the BMC",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [PowerState; 5] = [
        PowerState::On,
        PowerState::Off,
        PowerState::PoweringOn,
        PowerState::PoweringOff,
        PowerState::Unknown,
    ];

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|&word| word.to_owned()).collect()
    }

    fn facts(state: PowerState, allowed: Option<&[String]>) -> Facts<'_> {
        Facts {
            state,
            allowed,
            soft_off_by_button: false,
            restart_hangs: false,
        }
    }

    #[test]
    fn off_uses_only_force_off() {
        for state in STATES {
            let off = |allowed: Option<&[String]>| choose(PowerCommand::Off, facts(state, allowed));
            assert_eq!(off(None), Choice::Send("ForceOff"));
            assert_eq!(
                off(Some(&words(&["On", "ForceOff"]))),
                Choice::Send("ForceOff")
            );
            let soft = words(&[
                "GracefulShutdown",
                "PushPowerButton",
                "PowerCycle",
                "forceoff",
            ]);
            assert_eq!(off(Some(&soft)), Choice::Unsupported);
        }
    }

    #[test]
    fn on_prefers_on_to_force_on() {
        for state in STATES {
            let on = |allowed: Option<&[String]>| choose(PowerCommand::On, facts(state, allowed));
            assert_eq!(on(None), Choice::Send("On"));
            assert_eq!(
                on(Some(&words(&["PushPowerButton", "On"]))),
                Choice::Send("On")
            );
            assert_eq!(
                on(Some(&words(&["PushPowerButton", "ForceOn"]))),
                Choice::Send("ForceOn")
            );
            assert_eq!(on(Some(&words(&["ForceRestart"]))), Choice::Unsupported);
        }
    }

    #[test]
    fn push_power_button_powers_on_only_a_host_that_reads_off() {
        let button = words(&["PushPowerButton", "ForceOff"]);
        for state in STATES {
            let expected = match state {
                PowerState::Off => Choice::Send("PushPowerButton"),
                PowerState::On => Choice::Already,
                _ => Choice::NotNow,
            };
            let on = choose(PowerCommand::On, facts(state, Some(&button)));
            assert_eq!(on, expected, "{state:?}");
        }
    }

    #[test]
    fn soft_off_uses_only_graceful_shutdown() {
        let graceful = words(&["ForceOff", "GracefulShutdown", "PushPowerButton"]);
        let hard = words(&["On", "ForceOff", "ForceRestart", "PowerCycle"]);
        for state in STATES {
            let soft =
                |allowed: Option<&[String]>| choose(PowerCommand::SoftOff, facts(state, allowed));
            if state == PowerState::Off {
                for allowed in [None, Some(graceful.as_slice()), Some(hard.as_slice())] {
                    assert_eq!(soft(allowed), Choice::Already);
                }
                continue;
            }
            assert_eq!(soft(None), Choice::Send("GracefulShutdown"));
            assert_eq!(soft(Some(&graceful)), Choice::Send("GracefulShutdown"));
            assert_eq!(soft(Some(&hard)), Choice::Unsupported);
        }
    }

    #[test]
    fn push_power_button_shuts_down_only_if_allowed_and_on() {
        let button = words(&["On", "ForceOff", "PushPowerButton"]);
        for state in STATES {
            let may = Facts {
                soft_off_by_button: true,
                ..facts(state, Some(&button))
            };
            let (with, without) = match state {
                PowerState::On => (Choice::Send("PushPowerButton"), Choice::ButtonForbidden),
                PowerState::Off => (Choice::Already, Choice::Already),
                _ => (Choice::NotNow, Choice::ButtonForbidden),
            };
            assert_eq!(choose(PowerCommand::SoftOff, may), with, "{state:?}");
            let may_not = facts(state, Some(&button));
            assert_eq!(choose(PowerCommand::SoftOff, may_not), without, "{state:?}");
        }
    }

    #[test]
    fn reset_and_nmi_have_no_substitute() {
        let others = words(&["PowerCycle", "GracefulRestart", "PushPowerButton", "On"]);
        for (command, word) in [
            (PowerCommand::Reset, "ForceRestart"),
            (PowerCommand::Nmi, "Nmi"),
        ] {
            for state in STATES {
                assert_eq!(choose(command, facts(state, None)), Choice::Send(word));
                let listed = words(&[word]);
                let listed = facts(state, Some(&listed));
                assert_eq!(choose(command, listed), Choice::Send(word));
                let others = facts(state, Some(&others));
                assert_eq!(choose(command, others), Choice::Unsupported);
            }
        }
    }

    #[test]
    fn model_that_hangs_on_reset_is_not_reset() {
        let hangs = Facts {
            restart_hangs: true,
            ..facts(PowerState::On, None)
        };
        assert_eq!(choose(PowerCommand::Reset, hangs), Choice::Hangs);
        assert_eq!(choose(PowerCommand::Off, hangs), Choice::Send("ForceOff"));
    }
}
