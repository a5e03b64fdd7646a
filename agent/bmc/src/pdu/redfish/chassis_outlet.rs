//! A chassis as an outlet (Redfish `Chassis`, DSP2046): a sled, or the enclosure of several.
//!
//! Owns: parsing it, and the rules for its state. Must never: map anything but the exact value to a state, report
//! off while a system in the chassis reports another state, or treat a measurement that cannot be read as zero.

use serde_json::Value;

use crate::{
    pdu::{OutletCommand, OutletState},
    redfish::protocol::document::{Action, link, links, raw_state, text},
};

/// The used properties of a `Chassis` document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chassis {
    pub(super) label: Option<String>,
    pub(super) state: OutletState,
    pub(super) raw: String,
    /// The action `#Chassis.Reset`; `None`: the chassis cannot be switched.
    pub(super) reset: Option<Action>,
    /// Links of the chassis in it.
    pub(super) contains: Vec<String>,
    /// Links of the systems in it.
    pub(super) systems: Vec<String>,
    /// Link of its `EnvironmentMetrics`.
    pub(super) environment: Option<String>,
    /// Link of its `Power`, the older document with the power that it draws.
    pub(super) power: Option<String>,
}

impl Chassis {
    /// `None`: the document is not a chassis.
    pub(super) fn of(body: &Value) -> Option<Self> {
        let is_chassis = match text(body, "@odata.type") {
            Some(kind) => kind.starts_with("#Chassis."),
            None => body.get("ChassisType").is_some(),
        };
        if !is_chassis {
            return None;
        }
        let (state, raw) = state(body);
        Some(Self {
            label: text(body, "AssetTag").or_else(|| text(body, "Name")),
            state,
            raw,
            reset: Action::of(body, "#Chassis.Reset"),
            contains: links(body, &["Links", "Contains"]),
            systems: links(body, &["Links", "ComputerSystems"]),
            environment: link(body, &["EnvironmentMetrics"]),
            power: link(body, &["Power"]),
        })
    }

    /// Applies the state of a system in the chassis: `Chassis.Reset` is defined for the chassis, and need not
    /// reset the systems in it, so the chassis is off only if no system in it reports another state.
    pub(super) fn apply_system(&mut self, name: &str, state: Option<&str>) {
        let contradicts = matches!(state, Some("On" | "PoweringOn" | "PoweringOff" | "Paused"));
        if self.state == OutletState::Off
            && let Some(state) = state.filter(|_| contradicts)
        {
            self.state = OutletState::Switching;
            self.raw = format!("{}, but system {name} is {state}", self.raw);
        }
    }
}

fn state(body: &Value) -> (OutletState, String) {
    let raw = raw_state(body.get("PowerState"));
    let state = match body.get("PowerState").and_then(Value::as_str) {
        Some("On") => OutletState::On,
        Some("Off") => OutletState::Off,
        Some("PoweringOn" | "PoweringOff") => OutletState::Switching,
        _ => OutletState::Unknown,
    };
    (state, raw)
}

/// The reset type for a command, from the types that the chassis offers; `None`: none is suitable. `PowerCycle`
/// and graceful types are never used: the first reports success before the chassis is off, and a graceful one
/// waits for a system that hangs.
pub(super) fn reset_type(
    command: OutletCommand,
    allowed: Option<&[String]>,
) -> Option<&'static str> {
    let words: &[&'static str] = match command {
        OutletCommand::Off => &["ForceOff"],
        OutletCommand::On => &["On", "ForceOn"],
    };
    let offers =
        |word: &str| allowed.is_none_or(|allowed| allowed.iter().any(|offer| offer == word));
    words.iter().copied().find(|word| offers(word))
}

/// The power that a chassis draws by its `EnvironmentMetrics`, in watts.
pub(super) fn environment_watts(body: &Value) -> Option<f64> {
    measured(body.get("PowerWatts")?.get("Reading")?)
}

/// The largest power that a chassis draws by its `Power`, in watts.
pub(super) fn power_watts(body: &Value) -> Option<f64> {
    let controls = body.get("PowerControl")?.as_array()?.iter();
    let drawn = controls.filter_map(|control| measured(control.get("PowerConsumedWatts")?));
    drawn.reduce(|a, b| if a.is_nan() || a >= b { a } else { b })
}

/// `null` means no measurement; any other value that is not a number becomes NaN, which is not zero.
fn measured(reading: &Value) -> Option<f64> {
    match reading {
        Value::Null => None,
        reading => Some(reading.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Parses bytes as a chassis; off only for exactly that value.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(body: &Value) {
    let _ = (environment_watts(body), power_watts(body));
    if let Some(chassis) = Chassis::of(body)
        && chassis.state == OutletState::Off
    {
        assert_eq!(body.get("PowerState").and_then(Value::as_str), Some("Off"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chassis(power: &Value) -> Chassis {
        Chassis::of(&json!({"@odata.type": "#Chassis.v1_25_0.Chassis", "PowerState": power}))
            .unwrap()
    }

    #[test]
    fn f1_only_the_exact_word_is_off() {
        assert_eq!(chassis(&json!("Off")).state, OutletState::Off);
        assert_eq!(chassis(&json!("On")).state, OutletState::On);
        assert_eq!(chassis(&json!("PoweringOff")).state, OutletState::Switching);
        for other in [json!("off"), json!(0), json!(null), json!("Paused")] {
            assert_eq!(chassis(&other).state, OutletState::Unknown, "{other}");
        }
    }

    #[test]
    fn f1_system_that_reports_power_contradicts_a_chassis_that_is_off() {
        for (state, expected) in [
            (Some("On"), OutletState::Switching),
            (Some("PoweringOff"), OutletState::Switching),
            (Some("Off"), OutletState::Off),
            // A system without power reports nothing.
            (None, OutletState::Off),
        ] {
            let mut chassis = chassis(&json!("Off"));
            chassis.apply_system("1", state);
            assert_eq!(chassis.state, expected, "{state:?}");
        }
        let mut on = chassis(&json!("On"));
        on.apply_system("1", Some("Off"));
        assert_eq!(on.state, OutletState::On);
    }

    #[test]
    fn off_is_only_force_off() {
        let words = |list: &[&str]| list.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
        let graceful = words(&["GracefulShutdown", "PowerCycle", "On"]);
        assert_eq!(reset_type(OutletCommand::Off, None), Some("ForceOff"));
        assert_eq!(reset_type(OutletCommand::Off, Some(&graceful)), None);
        assert_eq!(reset_type(OutletCommand::On, Some(&graceful)), Some("On"));
        let forced = words(&["ForceOff", "ForceOn"]);
        assert_eq!(
            reset_type(OutletCommand::On, Some(&forced)),
            Some("ForceOn")
        );
    }

    #[test]
    fn power_is_read_from_both_documents() {
        let environment =
            |reading: Value| environment_watts(&json!({"PowerWatts": {"Reading": reading}}));
        assert_eq!(environment(json!(12.5)), Some(12.5));
        assert_eq!(environment(json!(null)), None);
        assert!(environment(json!("0")).unwrap().is_nan());
        let power =
            json!({"PowerControl": [{"PowerConsumedWatts": 0}, {"PowerConsumedWatts": 40}]});
        assert_eq!(power_watts(&power), Some(40.0));
        assert_eq!(power_watts(&json!({"PowerControl": []})), None);
    }

    #[test]
    fn links_tell_a_sled_from_its_enclosure() {
        let link = |path: &str| json!({"@odata.id": path});
        let body = json!({
            "ChassisType": "Enclosure", "PowerState": "On",
            "Links": {
                "Contains": [link("/redfish/v1/Chassis/Sled1")],
                "ComputerSystems": [link("/redfish/v1/Systems/1")],
            },
            "Actions": {"#Chassis.Reset": {"target": "/x"}},
        });
        let chassis = Chassis::of(&body).unwrap();
        assert_eq!(chassis.contains, ["/redfish/v1/Chassis/Sled1"]);
        assert_eq!(chassis.systems.len(), 1);
        assert!(chassis.reset.is_some());
        let system = json!({"@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem"});
        assert_eq!(Chassis::of(&system), None);
    }
}
