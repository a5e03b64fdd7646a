//! The fields of a BareMetalHost that baremetal-operator reads.
//!
//! Parsed separately from the code under test.

use std::collections::BTreeMap;

use kube::{ResourceExt, api::DynamicObject};
use serde_json::Value;

/// The annotation that requests a reboot; with the suffix `/KEY`, a hold.
pub const REBOOT: &str = "reboot.metal3.io";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
const DETACHED: &str = "baremetalhost.metal3.io/detached";

/// A BareMetalHost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// `spec.online`.
    pub online: bool,
    /// Whether the paused annotation is set.
    pub paused: bool,
    /// Whether the detached annotation is set.
    pub detached: bool,
    /// `spec.disablePowerOff`.
    pub disable_power_off: bool,
    /// `status.provisioning.state`.
    pub state: String,
    /// Reboot annotations, plain and suffixed, with their values.
    pub reboots: BTreeMap<String, String>,
    /// The current status.
    pub status: Status,
}

/// The part of the status that concerns power.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// `poweredOn`: the state in Ironic's database, not that of the BMC.
    pub powered_on: Option<bool>,
    /// `operationalStatus`.
    pub operational: String,
    /// `errorCount`.
    pub errors: u32,
    /// `errorMessage`.
    pub message: String,
}

impl Host {
    /// Parses a BareMetalHost.
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

    /// Whether the host is provisioned; only then its power is managed.
    pub fn is_provisioned(&self) -> bool {
        ["provisioned", "externally provisioned"].contains(&self.state.as_str())
    }

    /// Whether the host is being provisioned or deprovisioned.
    pub fn is_moving(&self) -> bool {
        ["inspecting", "provisioning", "deprovisioning"].contains(&self.state.as_str())
    }

    /// Whether a reboot annotation has mode hard; a value that cannot be parsed is soft.
    pub fn is_hard(&self) -> bool {
        self.reboots.values().any(|value| {
            let read: Option<Value> = serde_json::from_str(value).ok();
            read.is_some_and(|value| value["mode"] == "hard")
        })
    }

    /// Hold keys: reboot annotations with a suffix.
    pub fn holds(&self) -> impl Iterator<Item = &String> {
        self.reboots.keys().filter(|key| *key != REBOOT)
    }
}
