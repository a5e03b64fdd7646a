//! Selection of the reset type for a power command.
//!
//! Owns: the selection, as a pure function. Must never: replace a soft off by a hard one or the
//! other way round, replace a reset by another type, press the power button for a command that may be
//! repeated, or press it unless the state is exactly the one that a press ends.

use crate::{PowerCommand, PowerState};

/// Inputs of the selection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// The power state, just read.
    pub(in crate::redfish) state: PowerState,
    /// The reset types that the BMC allows; `None`: not reported, and the standard type is tried.
    pub(super) allowed: Option<&'a [String]>,
    /// Whether the power button may replace a graceful shutdown.
    pub(super) soft_off_by_button: bool,
    /// Whether a hard reset of this model is known to hang.
    pub(super) restart_hangs: bool,
}

/// Result of the selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Send this `ResetType`.
    Send(&'static str),
    /// Send nothing: the host is in the requested state, and the available types could only leave
    /// it.
    Already,
    /// Only the power button is available, which has a command of its own.
    ButtonOnly,
    /// In this state the effect of a press of the power button is undefined.
    NotNow,
    /// Only the power button is available, and it is not allowed for this command.
    ButtonForbidden,
    /// The model hangs on this command.
    Hangs,
    /// The BMC offers no suitable reset type.
    Unsupported,
}

/// Selects the `ResetType` (Redfish `Resource.ResetType`) of a command.
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
        (PowerCommand::On, state) => match first(&["On", "ForceOn"]) {
            Some(word) => Choice::Send(word),
            None if !button => Choice::Unsupported,
            None if state == PowerState::On => Choice::Already,
            None => Choice::ButtonOnly,
        },
        (PowerCommand::SoftOff, PowerState::Off) => Choice::Already,
        (PowerCommand::SoftOff, _) => match first(&["GracefulShutdown"]) {
            Some(word) => Choice::Send(word),
            None if !button => Choice::Unsupported,
            None if !facts.soft_off_by_button => Choice::ButtonForbidden,
            None => Choice::ButtonOnly,
        },
        (PowerCommand::OnByButton | PowerCommand::SoftOffByButton, _) if !button => {
            Choice::Unsupported
        }
        (PowerCommand::SoftOffByButton, _) if !facts.soft_off_by_button => Choice::ButtonForbidden,
        (PowerCommand::OnByButton, PowerState::Off)
        | (PowerCommand::SoftOffByButton, PowerState::On) => Choice::Send("PushPowerButton"),
        (PowerCommand::OnByButton, PowerState::On)
        | (PowerCommand::SoftOffByButton, PowerState::Off) => Choice::Already,
        (PowerCommand::OnByButton | PowerCommand::SoftOffByButton, _) => Choice::NotNow,
        (PowerCommand::Reset, _) if facts.restart_hangs => Choice::Hangs,
        (PowerCommand::Reset, _) => {
            first(&["ForceRestart"]).map_or(Choice::Unsupported, Choice::Send)
        }
        (PowerCommand::Nmi, _) => first(&["Nmi"]).map_or(Choice::Unsupported, Choice::Send),
    }
}

/// Advice for a command without a suitable reset type.
pub(super) fn advice(command: PowerCommand) -> &'static str {
    match command {
        PowerCommand::SoftOff | PowerCommand::SoftOffByButton => {
            "shut the operating system down from within, or power off"
        }
        PowerCommand::Reset => "power off, confirm that it is off, and power on",
        PowerCommand::Nmi => "trigger the dump from within the operating system",
        PowerCommand::On | PowerCommand::OnByButton | PowerCommand::Off => "update the BMC",
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
            let on = choose(PowerCommand::OnByButton, facts(state, Some(&button)));
            assert_eq!(on, expected, "{state:?}");
        }
    }

    #[test]
    fn command_that_may_be_repeated_never_presses_the_button() {
        let button = words(&["PushPowerButton", "ForceOff"]);
        for state in STATES {
            for command in [PowerCommand::On, PowerCommand::SoftOff] {
                let facts = Facts {
                    soft_off_by_button: true,
                    ..facts(state, Some(&button))
                };
                let expected = match command.leads_to() == Some(state) {
                    true => Choice::Already,
                    false => Choice::ButtonOnly,
                };
                assert_eq!(choose(command, facts), expected, "{command:?} {state:?}");
            }
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
            let with = match state {
                PowerState::On => Choice::Send("PushPowerButton"),
                PowerState::Off => Choice::Already,
                _ => Choice::NotNow,
            };
            assert_eq!(
                choose(PowerCommand::SoftOffByButton, may),
                with,
                "{state:?}"
            );
            let may_not = facts(state, Some(&button));
            let press = choose(PowerCommand::SoftOffByButton, may_not);
            assert_eq!(press, Choice::ButtonForbidden, "{state:?}");
            let soft = choose(PowerCommand::SoftOff, may_not);
            let is_off = state == PowerState::Off;
            assert_eq!(soft == Choice::ButtonForbidden, !is_off, "{state:?}");
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
