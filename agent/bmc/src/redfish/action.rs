//! Which reset type asks for what.
//!
//! Owns: the choice, as a pure function. Must never: turn a hard off into a push of the button, or
//! push the button of a machine that is not exactly off.

use crate::PowerState;

/// What a command should lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    On,
    Off,
}

impl Wanted {
    pub(super) fn state(self) -> PowerState {
        match self {
            Self::On => PowerState::On,
            Self::Off => PowerState::Off,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Send this `ResetType`.
    Send(&'static str),
    /// Nothing: it is on, and all that the BMC offers is the button.
    IsOn,
    /// Only the button, and the state is not exactly off.
    NotNow,
    /// The BMC offers nothing that would do.
    Unsupported,
}

/// Chooses a `ResetType` (Redfish `Resource.ResetType`) from those that the BMC allows; `None` if
/// it does not say, in which case the standard one is tried.
pub(super) fn choose(wanted: Wanted, state: PowerState, allowed: Option<&[String]>) -> Choice {
    let offers = |word: &str| allowed.is_none_or(|allowed| allowed.iter().any(|a| a == word));
    match wanted {
        Wanted::Off if offers("ForceOff") => Choice::Send("ForceOff"),
        Wanted::Off => Choice::Unsupported,
        Wanted::On if offers("On") => Choice::Send("On"),
        Wanted::On if offers("ForceOn") => Choice::Send("ForceOn"),
        Wanted::On if offers("PushPowerButton") => match state {
            PowerState::Off => Choice::Send("PushPowerButton"),
            PowerState::On => Choice::IsOn,
            _ => Choice::NotNow,
        },
        Wanted::On => Choice::Unsupported,
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

    #[test]
    fn off_is_force_off_or_nothing_whatever_the_state() {
        for state in STATES {
            let off = |allowed: Option<&[String]>| choose(Wanted::Off, state, allowed);
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
    fn on_is_on_then_force_on() {
        for state in STATES {
            let on = |allowed: Option<&[String]>| choose(Wanted::On, state, allowed);
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
    fn the_button_is_pushed_only_when_exactly_off() {
        let button = words(&["PushPowerButton", "ForceOff"]);
        for state in STATES {
            let expected = match state {
                PowerState::Off => Choice::Send("PushPowerButton"),
                PowerState::On => Choice::IsOn,
                _ => Choice::NotNow,
            };
            assert_eq!(
                choose(Wanted::On, state, Some(&button)),
                expected,
                "{state:?}"
            );
        }
    }
}
