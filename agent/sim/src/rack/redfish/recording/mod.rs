//! A recorded Redfish service: the documents of a machine, as DMTF's mockup tools store them.
//!
//! Owns: the documents, and which of them show power. The power itself, sessions and accounts are the
//! simulator's. Documents are read once, so no request reaches the file system.

mod folder;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

pub use folder::RecordingError;

use super::profile::Profile;
use crate::rack::power::{PowerState, ResetType};

pub(super) const ROOT: &str = "/redfish/v1";
const SYSTEMS: &str = "/redfish/v1/Systems/";

/// The documents of a recorded service, by their paths without a trailing slash.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    documents: BTreeMap<String, Value>,
    system: RecordedSystem,
}

/// The system whose power moves.
#[derive(Clone, Debug, PartialEq)]
struct RecordedSystem {
    path: String,
    /// Path of its reset action.
    reset: String,
    /// Chassis whose power state is that of the system.
    chassis: Vec<String>,
}

impl Recording {
    /// Reads a folder of `index.json` files, from `redfish/v1` on or from the service root itself. The power of
    /// the first system that can be reset moves.
    ///
    /// # Errors
    ///
    /// There is no service root or no such system, a file cannot be read or used, or the folder exceeds a limit;
    /// the error names the file.
    pub fn read(folder: &Path) -> Result<Self, RecordingError> {
        let mut documents = folder::read(folder)?;
        let found = system_of(&documents);
        let system = found.ok_or_else(|| RecordingError::NoSystem(folder.to_owned()))?;
        // Logins are the simulator's, wherever the recorded service had them.
        if let Some(root) = documents.get_mut(ROOT) {
            root["Links"]["Sessions"] = json!({"@odata.id": super::path::SESSIONS});
            root["SessionService"] = json!({"@odata.id": "/redfish/v1/SessionService"});
            root["AccountService"] = json!({"@odata.id": "/redfish/v1/AccountService"});
        }
        Ok(Self { documents, system })
    }

    /// The system UUID that it reports.
    pub fn uuid(&self) -> Option<&str> {
        self.text("UUID")
    }

    /// The serial number that the system reports.
    pub fn serial(&self) -> Option<&str> {
        self.text("SerialNumber")
    }

    /// Whether the system was on when it was recorded.
    pub fn was_on(&self) -> bool {
        self.text("PowerState") != Some("Off")
    }

    /// What the simulator needs to know of the make: the rest is in the documents.
    pub fn profile(&self) -> Profile {
        let simple = Profile::default();
        let text = |key, otherwise: String| self.text(key).map_or(otherwise, str::to_owned);
        Profile {
            manufacturer: text("Manufacturer", simple.manufacturer),
            model: text("Model", simple.model),
            system_id: self.system.path.replacen(SYSTEMS, "", 1),
            reset_types: self.reset_types(),
            ..Profile::default()
        }
    }

    /// The reset types that the system offers and the simulated machine knows; all, if it names none.
    fn reset_types(&self) -> Vec<ResetType> {
        const KEY: &str = "ResetType@Redfish.AllowableValues";
        let action = self
            .document(&self.system.path)
            .and_then(|system| system.get("Actions")?.get("#ComputerSystem.Reset"));
        let inline = action.and_then(|action| action.get(KEY));
        let info = || {
            let link = action?.get("@Redfish.ActionInfo")?.as_str()?;
            let parameters = self.document(link)?.get("Parameters")?.as_array()?;
            let is_type = |of: &&Value| of.get("Name").and_then(Value::as_str) == Some("ResetType");
            parameters.iter().find(is_type)?.get("AllowableValues")
        };
        let Some(Value::Array(named)) = inline.or_else(info) else {
            return ResetType::ALL.to_vec();
        };
        let named = named.iter().filter_map(Value::as_str);
        named.filter_map(|word| word.parse().ok()).collect()
    }

    fn text(&self, key: &str) -> Option<&str> {
        let system = self.document(&self.system.path)?;
        let text = system.get(key)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn document(&self, path: &str) -> Option<&Value> {
        self.documents.get(path.trim_end_matches('/'))
    }

    pub(super) fn is_reset(&self, path: &str) -> bool {
        self.system.reset == path
    }

    /// The recorded path that equals a requested one.
    pub(super) fn has(&self, path: &str) -> bool {
        self.documents.contains_key(path)
    }

    /// A document with the present power: `reported` is what the BMC reports, `power` the true state.
    pub(super) fn with_power(
        &self,
        path: &str,
        reported: &str,
        power: PowerState,
    ) -> Option<Value> {
        let mut document = self.document(path)?.clone();
        let shows_power =
            self.system.path == path || self.system.chassis.iter().any(|chassis| chassis == path);
        if shows_power {
            document["PowerState"] = json!(reported);
        }
        if !power.is_powered() && self.is_in_chassis(path) {
            clear_draw(&mut document);
        }
        Some(document)
    }

    fn is_in_chassis(&self, path: &str) -> bool {
        let mut chassis = self.system.chassis.iter();
        chassis.any(|chassis| {
            path.strip_prefix(chassis)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    }
}

/// A host that is off draws nothing, in the documents that report a draw.
fn clear_draw(document: &mut Value) {
    if let Some(Value::Array(controls)) = document.get_mut("PowerControl") {
        for control in controls {
            if let Some(draw) = control.get_mut("PowerConsumedWatts") {
                *draw = json!(0);
            }
        }
    }
    if let Some(draw) = document
        .get_mut("PowerWatts")
        .and_then(|watts| watts.get_mut("Reading"))
    {
        *draw = json!(0);
    }
}

fn system_of(documents: &BTreeMap<String, Value>) -> Option<RecordedSystem> {
    documents.iter().find_map(|(path, document)| {
        let id = path.strip_prefix(SYSTEMS)?;
        let action = document.get("Actions")?.get("#ComputerSystem.Reset")?;
        let reset = action.get("target")?.as_str()?;
        (!id.contains('/')).then(|| RecordedSystem {
            path: path.clone(),
            reset: reset.trim_end_matches('/').to_owned(),
            chassis: chassis_of(documents, path, document),
        })
    })
}

/// The chassis that report a power state and belong to one system, this one.
fn chassis_of(documents: &BTreeMap<String, Value>, path: &str, system: &Value) -> Vec<String> {
    let linked = links(system, "Chassis");
    let chassis = documents.iter().filter(|(at, document)| {
        let systems = links(document, "ComputerSystems");
        let is_ours = systems.contains(&path) || linked.contains(&at.as_str());
        document.get("PowerState").is_some_and(Value::is_string)
            && at.starts_with("/redfish/v1/Chassis/")
            && is_ours
            && systems.len() <= 1
    });
    chassis.map(|(at, _)| at.clone()).collect()
}

fn links<'a>(document: &'a Value, kind: &str) -> Vec<&'a str> {
    let found = document.get("Links").and_then(|links| links.get(kind));
    let members = found.and_then(Value::as_array).into_iter().flatten();
    members
        .filter_map(|link| link.get("@odata.id")?.as_str())
        .map(|link| link.trim_end_matches('/'))
        .collect()
}

#[cfg(test)]
mod tests;
