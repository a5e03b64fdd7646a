//! Power state of the chassis that contains a system.
//!
//! Owns: the chassis to consider, and their effect on a system that reports off. Must never: report
//! off for a host that does not report it, or treat an unreadable chassis as one without a power
//! state.

use reqwest::StatusCode;
use serde_json::Value;

use super::resources::{Reader, SystemResource};
use crate::{
    BmcError, ErrorKind, PowerState,
    redfish::{
        protocol::{
            document::{self, last_part, links, text},
            errors,
        },
        vendor,
    },
};

/// Maximum number of chassis that are read for a system.
const MAX_CHASSIS: usize = 32;

/// The reported power state of a chassis and its raw value. `None`: no power state, that of an
/// enclosure with several systems, or one that never changes.
fn reported(chassis: &Value) -> Option<(PowerState, String)> {
    chassis.get("PowerState").filter(|word| !word.is_null())?;
    let holds_several = links(chassis, &["Links", "ComputerSystems"]).len() > 1;
    let (maker, model) = (text(chassis, "Manufacturer"), text(chassis, "Model"));
    if holds_several || vendor::is_constant_chassis(maker.as_deref(), model.as_deref()) {
        return None;
    }
    Some(document::power_state(chassis.get("PowerState")))
}

/// The power state of a system that reports off, given the state of one of its chassis.
fn combined(system: &str, name: &str, chassis: PowerState, word: &str) -> (PowerState, String) {
    let state = match chassis {
        PowerState::Off => PowerState::Off,
        PowerState::PoweringOff => PowerState::PoweringOff,
        PowerState::On | PowerState::PoweringOn | PowerState::Unknown => PowerState::Unknown,
    };
    (state, format!("{system}, but chassis {name} {word}"))
}

/// The power state of the host and its raw text: off only if every chassis of the system that
/// reports a power state is off, too.
///
/// # Errors
///
/// A chassis could not be read, so its power state is unknown.
pub(super) async fn host_power(
    reader: Reader<'_>,
    found: &SystemResource,
    is_off_late: bool,
) -> Result<(PowerState, String), BmcError> {
    let system = &found.system;
    let own = (system.state, system.raw.clone());
    if system.state == PowerState::On && is_off_late {
        let contradiction = chassis_off(reader, found).await;
        return Ok(contradiction.map_or(own, |raw| (system.state, raw)));
    }
    if system.state != PowerState::Off {
        return Ok(own);
    }
    let chassis = links(&found.body, &["Links", "Chassis"]);
    if chassis.len() > MAX_CHASSIS {
        let message = format!(
            "the system is linked to {} chassis; at most {MAX_CHASSIS} are read",
            chassis.len()
        );
        return Err(reader.error(ErrorKind::Protocol, message));
    }
    for link in &chassis {
        let name = last_part(link);
        if vendor::is_board_chassis(name) {
            continue;
        }
        let Some(body) = read_chassis(reader, link).await? else {
            continue;
        };
        match reported(&body) {
            None | Some((PowerState::Off, _)) => {}
            Some((state, word)) => {
                let name = reader.reporter().quote(name);
                return Ok(combined(&system.raw, &name, state, &word));
            }
        }
    }
    Ok(own)
}

/// The raw text for a system that reports on while all of its chassis that report a power state
/// are off. It proves nothing, because either of the two may be out of date.
async fn chassis_off(reader: Reader<'_>, found: &SystemResource) -> Option<String> {
    let mut off = None;
    for link in links(&found.body, &["Links", "Chassis"])
        .iter()
        .take(MAX_CHASSIS)
    {
        let name = last_part(link);
        if vendor::is_board_chassis(name) {
            continue;
        }
        let body = read_chassis(reader, link).await.ok().flatten();
        match body.as_ref().and_then(reported) {
            None => {}
            Some((PowerState::Off, word)) => {
                off = off.or_else(|| Some((name.to_owned(), word)));
            }
            Some(_) => return None,
        }
    }
    let (name, word) = off?;
    let name = reader.reporter().quote(&name);
    Some(format!("{}, but chassis {name} {word}", found.system.raw))
}

/// Reads a chassis; `None`: it does not exist, or not for this user.
async fn read_chassis(reader: Reader<'_>, link: &str) -> Result<Option<Value>, BmcError> {
    const DOING: &str = "reading the chassis";
    let url = reader.resolve(link)?;
    let answer = match reader.get(&url).await {
        Err(error) if error.kind == ErrorKind::Privilege => return Ok(None),
        answer => answer?,
    };
    let absent = [
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::GONE,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::NOT_IMPLEMENTED,
    ];
    if absent.contains(&answer.status) {
        return Ok(None);
    }
    errors::document(reader.reporter(), DOING, answer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chassis(power: &Value, systems: usize) -> Value {
        let systems: Vec<_> = (0..systems)
            .map(|number| json!({"@odata.id": format!("/redfish/v1/Systems/{number}")}))
            .collect();
        json!({"PowerState": power, "Links": {"ComputerSystems": systems}})
    }

    #[test]
    fn f1_power_of_an_enclosure_of_several_systems_is_ignored() {
        for systems in [0, 1] {
            let (state, word) = reported(&chassis(&json!("On"), systems)).unwrap();
            assert_eq!((state, word.as_str()), (PowerState::On, "On"));
        }
        assert_eq!(reported(&chassis(&json!("On"), 2)), None);
    }

    #[test]
    fn f1_missing_chassis_power_is_ignored_but_an_odd_value_is_unknown() {
        assert_eq!(reported(&json!({})), None);
        assert_eq!(reported(&chassis(&Value::Null, 1)), None);
        for word in [json!("off"), json!(1), json!("Paused"), json!("")] {
            let (state, _) = reported(&chassis(&word, 1)).unwrap();
            assert_eq!(state, PowerState::Unknown, "{word}");
        }
    }

    #[test]
    fn f1_chassis_that_is_not_off_overrides_off() {
        for state in [
            PowerState::On,
            PowerState::PoweringOn,
            PowerState::PoweringOff,
            PowerState::Unknown,
        ] {
            let (combined, raw) = combined("Off", "1", state, "x");
            assert_ne!(combined, PowerState::Off);
            assert_eq!(raw, "Off, but chassis 1 x");
        }
    }
}
