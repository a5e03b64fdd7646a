//! The power state of a host by the readings of its outlets.
//!
//! Owns: the rule that combines them, and its limits for a current that counts as none. Must never: result in
//! off unless each outlet reads exactly off and carries no current where that is measured.

use std::fmt::Write;

use super::{OutletReading, OutletState};
use crate::PowerState;

/// Largest current that counts as none, in amperes.
///
/// An open relay carries nothing, but meters have an offset of some hundredths of an ampere, and most report
/// tenths. A server that runs draws at least 0.1 A at 230 V through one of its outlets.
pub const NO_AMPERES: f64 = 0.05;

/// Largest power that counts as none, in watts: [`NO_AMPERES`] at 100 V.
pub const NO_WATTS: f64 = 5.0;

/// Maximum length of a raw outlet state, in characters.
const MAX_RAW: usize = 32;

/// An outlet of a host, with its PDU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) pdu: &'a str,
    pub(super) reading: &'a OutletReading,
}

/// Whether a measurement shows a current. A value that is not a number counts as a current.
fn flows(measured: Option<f64>, none: f64) -> bool {
    measured.is_some_and(|measured| measured.is_nan() || measured.abs() > none)
}

fn carries_current(reading: &OutletReading) -> bool {
    flows(reading.amperes, NO_AMPERES) || flows(reading.watts, reading.none_watts)
}

/// The power state of the host.
///
/// - Off: each outlet is exactly off, and carries no current where that is measured.
/// - On: each outlet is exactly on.
/// - Powering off: each outlet is off, but a current is still measured.
/// - Powering on: some outlets are on, and the others are switching.
/// - Unknown: anything else, for example one of two outlets off, or no outlet at all.
pub(super) fn state(outlets: &[Named<'_>]) -> PowerState {
    let all = |wanted: &[OutletState]| {
        !outlets.is_empty()
            && outlets
                .iter()
                .all(|outlet| wanted.contains(&outlet.reading.state))
    };
    let current = || outlets.iter().any(|outlet| carries_current(outlet.reading));
    if all(&[OutletState::Off]) {
        if current() {
            PowerState::PoweringOff
        } else {
            PowerState::Off
        }
    } else if all(&[OutletState::On]) {
        PowerState::On
    } else if all(&[OutletState::On, OutletState::Switching]) {
        PowerState::PoweringOn
    } else if all(&[OutletState::Off, OutletState::Switching]) {
        PowerState::PoweringOff
    } else {
        PowerState::Unknown
    }
}

/// The power that all outlets carry together, in watts; `None`: not all of them measure it, or a measurement is
/// not a number. Powers count without their signs, so that a meter that is wired the wrong way hides none.
pub(super) fn draw(outlets: &[Named<'_>]) -> Option<f64> {
    let watts = outlets.iter().map(|outlet| outlet.reading.watts);
    let total: f64 = watts
        .map(|watts| watts.map(f64::abs))
        .sum::<Option<f64>>()?;
    (!outlets.is_empty() && total.is_finite()).then_some(total)
}

/// Each outlet with its state and measurements: `pdu-a/12: off, 0.0 A; pdu-b/12: off`.
pub(super) fn words(outlets: &[Named<'_>]) -> String {
    let mut text = String::new();
    for (index, Named { pdu, reading }) in outlets.iter().enumerate() {
        let separator = if index > 0 { "; " } else { "" };
        let _ = write!(text, "{separator}{pdu}/{}: {}", reading.id, raw(reading));
        if let Some(amperes) = reading.amperes {
            let _ = write!(text, ", {}", measured(amperes, 2, "A"));
        }
        if let Some(watts) = reading.watts {
            let _ = write!(text, ", {}", measured(watts, 1, "W"));
        }
    }
    text
}

/// The state in words, with the PDU's own word if that differs.
fn raw(reading: &OutletReading) -> String {
    let word = match reading.state {
        OutletState::On => "on",
        OutletState::Off => "off",
        OutletState::Switching => "switching",
        OutletState::Unknown => "unknown",
    };
    let raw: String = reading
        .raw
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_RAW)
        .collect();
    if raw.eq_ignore_ascii_case(word) {
        word.to_owned()
    } else {
        format!("{word} ({raw:?})")
    }
}

/// `0.0 A`, `1.25 A`: at most `digits` digits after the point, and at least one.
fn measured(value: f64, digits: usize, unit: &str) -> String {
    let text = format!("{value:.digits$}");
    let short = text.strip_suffix('0').filter(|_| digits > 1);
    format!("{} {unit}", short.unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pdu::OutletId;

    fn outlet(state: OutletState, amperes: Option<f64>, watts: Option<f64>) -> OutletReading {
        OutletReading {
            id: OutletId("12".to_owned()),
            label: None,
            state,
            raw: format!("{state:?}"),
            amperes,
            watts,
            none_watts: NO_WATTS,
        }
    }

    fn named(readings: &[OutletReading]) -> Vec<Named<'_>> {
        let named = |reading| Named {
            pdu: "pdu-a",
            reading,
        };
        readings.iter().map(named).collect()
    }

    fn of(readings: &[OutletReading]) -> PowerState {
        state(&named(readings))
    }

    #[test]
    fn f1_outlet_that_is_off_with_a_current_is_not_off() {
        let off = |amperes, watts| of(&[outlet(OutletState::Off, amperes, watts)]);
        assert_eq!(off(None, None), PowerState::Off);
        assert_eq!(off(Some(0.0), Some(0.0)), PowerState::Off);
        assert_eq!(off(Some(0.04), Some(4.0)), PowerState::Off);
        for (amperes, watts) in [
            (Some(0.1), None),
            (Some(-0.1), None),
            (Some(f64::NAN), None),
            (Some(f64::INFINITY), None),
            (None, Some(6.0)),
            (Some(0.0), Some(6.0)),
        ] {
            assert_eq!(
                off(amperes, watts),
                PowerState::PoweringOff,
                "{amperes:?} {watts:?}"
            );
        }
    }

    #[test]
    fn f1_draw_is_known_only_if_each_outlet_measures_it() {
        let draws = |watts: &[Option<f64>]| {
            let outlets = watts.iter().map(|w| outlet(OutletState::On, None, *w));
            draw(&named(&outlets.collect::<Vec<_>>()))
        };
        assert_eq!(draws(&[Some(8.0), Some(-6.5)]), Some(14.5));
        assert_eq!(draws(&[Some(8.0), None]), None);
        assert_eq!(draws(&[Some(f64::NAN)]), None);
        assert_eq!(draws(&[Some(f64::INFINITY)]), None);
        assert_eq!(draws(&[]), None);
    }

    #[test]
    fn f1_host_without_outlets_is_unknown() {
        assert_eq!(of(&[]), PowerState::Unknown);
    }

    #[test]
    fn mixed_outlets_are_neither_on_nor_off() {
        use OutletState::{Off, On, Switching, Unknown};
        let mixed = |a, b| of(&[outlet(a, None, None), outlet(b, None, None)]);
        assert_eq!(mixed(On, On), PowerState::On);
        assert_eq!(mixed(On, Off), PowerState::Unknown);
        assert_eq!(mixed(On, Switching), PowerState::PoweringOn);
        assert_eq!(mixed(Off, Switching), PowerState::PoweringOff);
        assert_eq!(mixed(Off, Unknown), PowerState::Unknown);
        assert_eq!(mixed(On, Unknown), PowerState::Unknown);
    }

    #[test]
    fn words_name_each_outlet_with_its_measurements() {
        let readings = [
            outlet(OutletState::Off, Some(0.0), None),
            OutletReading {
                raw: "pendOn\u{1b}".to_owned(),
                ..outlet(OutletState::Switching, Some(1.25), Some(280.0))
            },
        ];
        assert_eq!(
            words(&named(&readings)),
            "pdu-a/12: off, 0.0 A; pdu-a/12: switching (\"pendOn\"), 1.25 A, 280.0 W"
        );
    }

    proptest! {
        #[test]
        fn f1_off_only_if_each_outlet_is_off_without_current(
            list in proptest::collection::vec(
                (0..4_u8, proptest::option::of(any::<f64>()), proptest::option::of(any::<f64>())), 0..4)
        ) {
            let states = [OutletState::On, OutletState::Off, OutletState::Switching, OutletState::Unknown];
            let readings: Vec<_> = list
                .iter()
                .map(|(state, amperes, watts)| outlet(states[usize::from(*state)], *amperes, *watts))
                .collect();
            let proven = !readings.is_empty() && readings.iter().all(|reading| {
                reading.state == OutletState::Off
                    && reading.amperes.is_none_or(|a| (-NO_AMPERES..=NO_AMPERES).contains(&a))
                    && reading.watts.is_none_or(|w| (-NO_WATTS..=NO_WATTS).contains(&w))
            });
            prop_assert_eq!(of(&readings) == PowerState::Off, proven);
        }
    }
}
