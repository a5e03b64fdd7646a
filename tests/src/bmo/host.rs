//! What baremetal-operator reads of a BareMetalHost.
//!
//! Owns the reading, on its own: what is tested reads it elsewhere.

use std::collections::BTreeMap;

use kube::{ResourceExt, api::DynamicObject};
use serde_json::Value;

/// The annotation that asks for a reboot; with `/KEY` behind it, for being held off.
pub const REBOOT: &str = "reboot.metal3.io";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
const DETACHED: &str = "baremetalhost.metal3.io/detached";

/// A BareMetalHost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// `spec.online`.
    pub online: bool,
    /// Annotated to be left alone.
    pub paused: bool,
    /// Annotated to be taken out of Ironic.
    pub detached: bool,
    /// `spec.disablePowerOff`.
    pub disable_power_off: bool,
    /// `status.provisioning.state`.
    pub state: String,
    /// Reboot annotations, plain and suffixed, with their values.
    pub reboots: BTreeMap<String, String>,
    /// The status as it stands.
    pub status: Status,
}

/// The part of its status that has to do with power.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// `poweredOn`: Ironic's word, not the BMC's.
    pub powered_on: Option<bool>,
    /// `operationalStatus`.
    pub operational: String,
    /// `errorCount`.
    pub errors: u32,
    /// `errorMessage`.
    pub message: String,
}

impl Host {
    /// Reads an object of this kind.
    pub fn of(object: &DynamicObject) -> Self {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let annotations = object.annotations();
        let is_reboot = |key: &str| {
            let rest = key.strip_prefix(REBOOT);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let reboots = annotations.iter().filter(|(key, _)| is_reboot(key));
        Self {
            online: spec["online"].as_bool().unwrap_or(false),
            paused: annotations.contains_key(PAUSED),
            detached: annotations.contains_key(DETACHED),
            disable_power_off: spec["disablePowerOff"].as_bool().unwrap_or(false),
            state: text(&status["provisioning"]["state"]),
            reboots: reboots.map(|(k, v)| (k.clone(), v.clone())).collect(),
            status: Status {
                powered_on: status["poweredOn"].as_bool(),
                operational: text(&status["operationalStatus"]),
                errors: u32::try_from(status["errorCount"].as_u64().unwrap_or(0)).unwrap_or(0),
                message: text(&status["errorMessage"]),
            },
        }
    }

    /// It runs a user's system: only then its power is managed.
    pub fn is_provisioned(&self) -> bool {
        ["provisioned", "externally provisioned"].contains(&self.state.as_str())
    }

    /// It is on its way to there, or back.
    pub fn is_moving(&self) -> bool {
        ["inspecting", "provisioning", "deprovisioning"].contains(&self.state.as_str())
    }

    /// One reboot annotation with mode hard makes it hard; a value that does not read is soft.
    pub fn is_hard(&self) -> bool {
        self.reboots.values().any(|value| {
            let read: Option<Value> = serde_json::from_str(value).ok();
            read.is_some_and(|value| value["mode"] == "hard")
        })
    }

    /// Hold keys: those with something behind the slash.
    pub fn holds(&self) -> impl Iterator<Item = &String> {
        self.reboots.keys().filter(|key| *key != REBOOT)
    }
}
