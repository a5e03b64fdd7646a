//! The System, its boot settings, and the parameters of its reset.

use serde_json::{Map, Value, json};

use super::{at, link};
use crate::rack::power::{OsState, ResetType};
use crate::rack::redfish::profile::{Allowable, LedProperty, PostReport, Profile};
use crate::rack::redfish::service::Call;
use crate::rack::settings::{BootOverride, BootSource, LedState, OverrideLifetime};

const KIND: &str = "#ComputerSystem.v1_20_0.ComputerSystem";

/// The reported state of the machine, which a fault may change.
#[derive(Clone, Debug)]
pub(super) struct SystemView {
    pub(super) name: String,
    pub(super) uuid: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) power: String,
    pub(super) os: OsState,
    pub(super) led: LedState,
    pub(super) boot: BootOverride,
}

impl SystemView {
    pub(super) fn of(call: &Call<'_>) -> Self {
        let config = call.host.config();
        let (uuid, serial) = match &call.effects.identity {
            Some(identity) => identity.clone(),
            None => (Some(config.uuid.clone()), Some(config.serial.clone())),
        };
        let (led, boot) = call
            .host
            .with_settings(|_, settings| (settings.led, settings.boot.current.clone()));
        Self {
            name: config.name.clone(),
            uuid,
            serial,
            power: call.host.reported_power(call.effects),
            os: call.host.os(),
            led,
            boot,
        }
    }
}

pub(super) fn system(profile: &Profile, shown: &SystemView) -> Value {
    let id = &profile.system_id;
    let mut system = json!({
        "@odata.id": at(&format!("Systems/{id}")),
        "@odata.type": KIND,
        "Id": id,
        "Name": "System",
        "HostName": shown.name,
        "SystemType": "Physical",
        "Manufacturer": profile.manufacturer,
        "Model": profile.model,
        "PowerState": shown.power,
        "Status": {"State": "Enabled", "Health": "OK"},
        "Boot": boot(profile, &shown.boot),
        "Links": {
            "Chassis": [link(&format!("Chassis/{}", profile.chassis_id))],
            "ManagedBy": [link(&format!("Managers/{}", profile.manager_id))],
        },
        "Actions": {"#ComputerSystem.Reset": reset_action(profile)},
    });
    for (key, value) in [("UUID", &shown.uuid), ("SerialNumber", &shown.serial)] {
        if let Some(value) = value {
            system[key] = json!(value);
        }
    }
    let (name, led) = match (profile.led, shown.led) {
        (LedProperty::Location, led) => ("LocationIndicatorActive", json!(led != LedState::Off)),
        (LedProperty::IndicatorLitAtRest, LedState::Off) => ("IndicatorLED", json!("Lit")),
        (_, led) => ("IndicatorLED", json!(led)),
    };
    system[name] = led;
    post(profile, shown.os, &mut system);
    if let Some(settings) = &profile.boot.settings {
        system["@Redfish.Settings"] = json!({
            "@odata.type": "#Settings.v1_3_5.Settings",
            "SettingsObject": link(&format!("Systems/{id}/{settings}")),
            "SupportedApplyTimes": ["OnReset"],
        });
    }
    if !profile.log.of_manager {
        system["LogServices"] = link(&format!("Systems/{id}/LogServices"));
    }
    system
}

fn post(profile: &Profile, os: OsState, system: &mut Value) {
    match profile.post {
        PostReport::Nowhere => {}
        PostReport::BootProgress => {
            let state = match os {
                OsState::Down => "None",
                OsState::Booting => "SystemHardwareInitializationComplete",
                OsState::Running | OsState::Hung => "OSRunning",
            };
            system["BootProgress"] = json!({"LastState": state});
        }
        PostReport::HpePostState => {
            let state = match os {
                OsState::Down => "PowerOff",
                OsState::Booting => "InPost",
                OsState::Running | OsState::Hung => "FinishedPost",
            };
            system["Oem"] = json!({"Hpe": {"PostState": state}});
        }
    }
}

fn boot(profile: &Profile, wanted: &BootOverride) -> Value {
    let target = match wanted.lifetime {
        OverrideLifetime::Disabled => "None",
        OverrideLifetime::Once | OverrideLifetime::Continuous => wanted.target.as_str(),
    };
    json!({
        "BootSourceOverrideEnabled": wanted.lifetime,
        "BootSourceOverrideTarget": target,
        "BootSourceOverrideTarget@Redfish.AllowableValues": profile.boot.targets,
        "BootSourceOverrideMode": wanted.mode,
        "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI", "Legacy"],
    })
}

/// Settings that apply from the next boot.
pub(super) fn settings(profile: &Profile, source: &BootSource) -> Value {
    let (id, settings) = (&profile.system_id, profile.boot.settings.as_deref());
    let settings = settings.unwrap_or_default();
    let wanted = source.pending.as_ref().unwrap_or(&source.current);
    json!({
        "@odata.id": at(&format!("Systems/{id}/{settings}")),
        "@odata.type": KIND,
        "Id": settings,
        "Name": "Pending System Settings",
        "Boot": boot(profile, wanted),
    })
}

/// A member of Systems without a reset action.
pub(super) fn board(id: &str) -> Value {
    json!({
        "@odata.id": at(&format!("Systems/{id}")),
        "@odata.type": KIND,
        "Id": id,
        "Name": "Board",
        "SystemType": "Physical",
        "PowerState": "On",
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}

fn reset_action(profile: &Profile) -> Value {
    let base = at(&format!("Systems/{}", profile.system_id));
    let target = format!("{base}/Actions/ComputerSystem.Reset");
    let mut action = Map::new();
    action.insert("target".to_owned(), json!(target));
    if matches!(profile.allowable, Allowable::Inline | Allowable::Both) {
        let types = json!(profile.reset_types);
        action.insert("ResetType@Redfish.AllowableValues".to_owned(), types);
    }
    if matches!(profile.allowable, Allowable::ActionInfo | Allowable::Both) {
        let info = json!(format!("{base}/ResetActionInfo"));
        action.insert("@Redfish.ActionInfo".to_owned(), info);
    }
    Value::Object(action)
}

pub(super) fn reset_info(profile: &Profile) -> Value {
    let types: &[ResetType] = &profile.reset_types;
    json!({
        "@odata.id": at(&format!("Systems/{}/ResetActionInfo", profile.system_id)),
        "@odata.type": "#ActionInfo.v1_3_0.ActionInfo",
        "Id": "ResetActionInfo",
        "Name": "Reset Action Info",
        "Parameters": [{
            "Name": "ResetType",
            "Required": true,
            "DataType": "String",
            "AllowableValues": types,
        }],
    })
}
