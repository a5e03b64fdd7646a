//! The documents and the action of a simulated chassis manager (`Chassis`, DSP2046): an enclosure of sleds, each with
//! one system.
//!
//! Owns: paths and documents. Must never share code with the client.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{ENCLOSURE, Inner, LOAD};

const CHASSIS: &str = "/redfish/v1/Chassis";
const SYSTEMS: &str = "/redfish/v1/Systems";
/// Power that the enclosure draws for its fans and its manager, in watts.
const STANDBY: f64 = 12.0;

/// The number of a chassis by its id.
fn number(id: &str) -> Option<u32> {
    match id {
        "Enclosure" => Some(ENCLOSURE),
        _ => id.strip_prefix("Sled")?.parse().ok().filter(|n| *n > 0),
    }
}

fn id(outlet: u32) -> String {
    match outlet {
        ENCLOSURE => "Enclosure".to_owned(),
        sled => format!("Sled{sled}"),
    }
}

fn link(path: &str) -> Value {
    json!({ "@odata.id": path })
}

impl Inner {
    pub(super) fn chassis_document(&self, path: &str) -> Option<Value> {
        let sleds = 1..=self.config.outlets;
        match path {
            CHASSIS => {
                let missing = &self.faults.lock().missing;
                let members = super::outlets(&self.config)
                    .filter(|outlet| !missing.contains(outlet))
                    .map(|outlet| link(&format!("{CHASSIS}/{}", id(outlet))));
                Some(json!({ "@odata.id": path, "Members": members.collect::<Vec<_>>() }))
            }
            SYSTEMS => {
                let members: Vec<_> = sleds.map(|n| link(&format!("{SYSTEMS}/{n}"))).collect();
                Some(json!({ "@odata.id": path, "Members": members }))
            }
            _ => match path.strip_prefix(CHASSIS) {
                Some(rest) => self.chassis(rest.strip_prefix('/')?),
                None => self.system(path.strip_prefix(SYSTEMS)?.strip_prefix('/')?),
            },
        }
    }

    fn chassis(&self, rest: &str) -> Option<Value> {
        let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
        let outlet = number(name)?;
        if !self.on.lock().contains_key(&outlet) || self.faults.lock().missing.contains(&outlet) {
            return None;
        }
        let path = format!("{CHASSIS}/{name}");
        if below == "ResetActionInfo" {
            return Some(json!({
                "@odata.type": "#ActionInfo.v1_4_2.ActionInfo",
                "Parameters": [{
                    "Name": "ResetType", "Required": true,
                    "AllowableValues": ["On", "ForceOff", "PowerCycle"],
                }],
            }));
        }
        if below == "EnvironmentMetrics" && self.config.measures_current {
            let watts = json!({ "Reading": self.watts(outlet) });
            return Some(json!({
                "@odata.type": "#EnvironmentMetrics.v1_3_2.EnvironmentMetrics", "PowerWatts": watts,
            }));
        }
        if !below.is_empty() {
            return None;
        }
        let in_transition = self.faults.lock().in_transition.contains(&outlet);
        let state = match self.is_switched_on(outlet) && self.is_switched_on(ENCLOSURE) {
            _ if in_transition => "PoweringOff",
            true => "On",
            false => "Off",
        };
        let mut body = json!({
            "@odata.id": path,
            "@odata.type": "#Chassis.v1_25_0.Chassis",
            "Id": name,
            "Name": name,
            "ChassisType": if outlet == ENCLOSURE { "Enclosure" } else { "Sled" },
            "PowerState": state,
            "Actions": {"#Chassis.Reset": {
                "target": format!("{path}/Actions/Chassis.Reset"),
                "@Redfish.ActionInfo": format!("{path}/ResetActionInfo"),
            }},
            "Links": self.links(outlet),
        });
        if self.config.measures_current {
            body["EnvironmentMetrics"] = link(&format!("{path}/EnvironmentMetrics"));
        }
        Some(body)
    }

    fn links(&self, outlet: u32) -> Value {
        if outlet == ENCLOSURE {
            let sleds: Vec<_> = (1..=self.config.outlets)
                .map(|sled| link(&format!("{CHASSIS}/{}", id(sled))))
                .collect();
            return json!({ "Contains": sleds });
        }
        json!({
            "ContainedBy": link(&format!("{CHASSIS}/Enclosure")),
            "ComputerSystems": [link(&format!("{SYSTEMS}/{outlet}"))],
        })
    }

    fn watts(&self, outlet: u32) -> f64 {
        let drawn = |sled| if self.has_power(sled) { LOAD.1 } else { 0.0 };
        match outlet {
            ENCLOSURE => STANDBY + (1..=self.config.outlets).map(drawn).sum::<f64>(),
            sled => drawn(sled),
        }
    }

    /// A system as the manager reports it; one without power is not there.
    fn system(&self, name: &str) -> Option<Value> {
        let sled = name.parse().ok()?;
        let is_stale = self.faults.lock().stale_systems.contains(&sled);
        (is_stale || self.has_power(sled)).then(|| {
            json!({
                "@odata.id": format!("{SYSTEMS}/{name}"),
                "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem",
                "PowerState": "On",
            })
        })
    }

    pub(super) fn reset_chassis(&self, path: &str, body: &Value) -> (StatusCode, Option<Value>) {
        let outlet = path
            .strip_prefix(CHASSIS)
            .and_then(|rest| rest.strip_prefix('/'))
            .and_then(|rest| rest.strip_suffix("/Actions/Chassis.Reset"))
            .and_then(number)
            .filter(|outlet| self.on.lock().contains_key(outlet));
        let Some(outlet) = outlet else {
            return (StatusCode::NOT_FOUND, None);
        };
        let on = match body.get("ResetType").and_then(Value::as_str) {
            Some("On") => true,
            Some("ForceOff") => false,
            _ => return (StatusCode::BAD_REQUEST, None),
        };
        // As several real managers do, by the message of DMTF's Base registry.
        if self.is_switched_on(outlet) == on {
            self.switched
                .lock()
                .push(super::OutletSwitch { outlet, on });
            let message = json!({ "MessageId": "Base.1.8.NoOperation" });
            let body = json!({ "error": { "@Message.ExtendedInfo": [message] } });
            return (StatusCode::CONFLICT, Some(body));
        }
        (self.switch(outlet, on), None)
    }
}
