//! An outlet of a PDU (Redfish `Outlet`, DSP2046).
//!
//! Owns: parsing it. Must never: map anything but the exact value to a state, or treat a measurement that
//! cannot be read as zero.

use serde_json::Value;

use crate::{
    pdu::{NO_WATTS, OutletCommand, OutletId, OutletReading, OutletState},
    redfish::protocol::document::{raw_state, text, values},
};

/// The used properties of an `Outlet` document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outlet {
    pub(super) reading: OutletReading,
    /// The action `#Outlet.PowerControl`; `None`: the outlet cannot be switched.
    pub(super) control: Option<PowerControl>,
    /// `PowerControlLocked`: the PDU refuses to switch it.
    pub(super) is_locked: bool,
}

/// The action that switches an outlet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PowerControl {
    pub(super) target: String,
    /// `PowerState@Redfish.AllowableValues`; `None`: not reported.
    pub(super) allowed: Option<Vec<String>>,
}

impl PowerControl {
    pub(super) fn allows(&self, word: &str) -> bool {
        let allowed = self.allowed.as_ref();
        allowed.is_none_or(|allowed| allowed.iter().any(|offer| offer == word))
    }
}

/// The value of `PowerState` in the body of the action.
pub(super) fn word(command: OutletCommand) -> &'static str {
    match command {
        OutletCommand::On => "On",
        OutletCommand::Off => "Off",
    }
}

impl Outlet {
    /// `None`: the document is not an outlet.
    pub(super) fn of(id: OutletId, body: &Value) -> Option<Self> {
        let is_outlet = match text(body, "@odata.type") {
            Some(kind) => kind.starts_with("#Outlet."),
            None => body.get("PowerState").is_some() || body.get("OutletType").is_some(),
        };
        if !is_outlet {
            return None;
        }
        let (state, raw) = state(body);
        let action = body
            .get("Actions")
            .and_then(|all| all.get("#Outlet.PowerControl"));
        Some(Self {
            reading: OutletReading {
                id,
                label: text(body, "UserLabel").or_else(|| text(body, "Name")),
                state,
                raw,
                amperes: amperes(body),
                watts: body.get("PowerWatts").and_then(measured),
                none_watts: NO_WATTS,
            },
            control: action.and_then(|action| {
                Some(PowerControl {
                    target: text(action, "target")?,
                    allowed: values(action.get("PowerState@Redfish.AllowableValues")),
                })
            }),
            is_locked: body.get("PowerControlLocked") == Some(&Value::Bool(true)),
        })
    }
}

/// `PowerState`, unless `PowerStateInTransition` reports a pending delayed change.
fn state(body: &Value) -> (OutletState, String) {
    let raw = raw_state(body.get("PowerState"));
    if body.get("PowerStateInTransition") == Some(&Value::Bool(true)) {
        return (OutletState::Switching, format!("{raw}, in transition"));
    }
    let state = match body.get("PowerState").and_then(Value::as_str) {
        Some("On") => OutletState::On,
        Some("Off") => OutletState::Off,
        Some("PoweringOn" | "PoweringOff") => OutletState::Switching,
        _ => OutletState::Unknown,
    };
    (state, raw)
}

/// The largest current of the outlet and of its lines.
fn amperes(body: &Value) -> Option<f64> {
    let lines = body.get("PolyPhaseCurrentAmps").and_then(Value::as_object);
    let lines = lines.into_iter().flat_map(|lines| lines.values());
    body.get("CurrentAmps")
        .into_iter()
        .chain(lines)
        .filter_map(measured)
        .reduce(|a, b| {
            if a.is_nan() || a.abs() >= b.abs() {
                a
            } else {
                b
            }
        })
}

/// The `Reading` of a sensor excerpt; `null` means no measurement; any other value that is not a number becomes
/// NaN.
fn measured(excerpt: &Value) -> Option<f64> {
    match excerpt.get("Reading")? {
        Value::Null => None,
        reading => Some(reading.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Parses bytes as an outlet; off only for exactly that value.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(body: &Value) {
    let Some(outlet) = Outlet::of(OutletId("1".to_owned()), body) else {
        return;
    };
    if outlet.reading.state == OutletState::Off {
        assert_eq!(body.get("PowerState").and_then(Value::as_str), Some("Off"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outlet(body: &Value) -> Outlet {
        Outlet::of(OutletId("A1".to_owned()), body).unwrap()
    }

    fn state_of(power: &Value) -> OutletState {
        let body = json!({"@odata.type": "#Outlet.v1_4_0.Outlet", "PowerState": power});
        outlet(&body).reading.state
    }

    #[test]
    fn f1_only_the_exact_word_is_off() {
        assert_eq!(state_of(&json!("Off")), OutletState::Off);
        assert_eq!(state_of(&json!("On")), OutletState::On);
        assert_eq!(state_of(&json!("PoweringOff")), OutletState::Switching);
        for other in [
            json!("off"),
            json!("OFF"),
            json!(0),
            json!(null),
            json!("Paused"),
        ] {
            assert_eq!(state_of(&other), OutletState::Unknown, "{other}");
        }
    }

    #[test]
    fn f1_outlet_in_transition_is_not_off() {
        let body = json!({"PowerState": "Off", "PowerStateInTransition": true});
        let reading = outlet(&body).reading;
        assert_eq!(reading.state, OutletState::Switching);
        assert_eq!(reading.raw, "Off, in transition");
    }

    #[test]
    fn current_is_the_largest_of_all_lines() {
        let amperes = |body: &Value| {
            let mut body = body.clone();
            body["PowerState"] = json!("Off");
            outlet(&body).reading.amperes
        };
        assert_eq!(amperes(&json!({})), None);
        assert_eq!(amperes(&json!({"CurrentAmps": {"Reading": null}})), None);
        assert_eq!(
            amperes(&json!({"CurrentAmps": {"Reading": 0.0}})),
            Some(0.0)
        );
        let lines = json!({
            "CurrentAmps": {"Reading": 0},
            "PolyPhaseCurrentAmps": {"Line1": {"Reading": 0}, "Line2": {"Reading": 1.5}},
        });
        assert_eq!(amperes(&lines), Some(1.5));
        let odd = json!({"CurrentAmps": {"Reading": "0"}});
        assert!(amperes(&odd).unwrap().is_nan());
    }

    #[test]
    fn power_control_is_read_with_its_allowable_values() {
        let body = json!({
            "PowerState": "On", "UserLabel": "node-7, supply 1", "PowerControlLocked": true,
            "Actions": {"#Outlet.PowerControl": {
                "target": "/x", "PowerState@Redfish.AllowableValues": ["On", "PowerCycle"],
            }},
        });
        let outlet = outlet(&body);
        let control = outlet.control.unwrap();
        assert!(control.allows("On") && !control.allows("Off"));
        assert!(outlet.is_locked);
        assert_eq!(outlet.reading.label.as_deref(), Some("node-7, supply 1"));
    }

    #[test]
    fn other_documents_are_not_outlets() {
        let circuit = json!({"@odata.type": "#Circuit.v1_0_0.Circuit", "PowerState": "Off"});
        assert_eq!(Outlet::of(OutletId("A".to_owned()), &circuit), None);
    }
}
