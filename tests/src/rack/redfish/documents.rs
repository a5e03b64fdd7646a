//! The resources of the service as JSON.
//!
//! Owns their shape: plain functions of the profile and of what is to be reported.

use serde_json::{Map, Value, json};

use super::profile::{Allowable, Profile};
use super::session::Session;

pub(super) const ROOT: &str = "/redfish/v1";
pub(super) const RESET: &str = "Actions/ComputerSystem.Reset";

pub(super) fn versions() -> Value {
    json!({"v1": "/redfish/v1/"})
}

pub(super) fn root(profile: &Profile, uuid: &str) -> Value {
    let mut root = json!({
        "@odata.id": "/redfish/v1/",
        "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot",
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": "1.15.1",
        "UUID": uuid,
        "Vendor": profile.manufacturer,
        "Systems": link("Systems"),
        "Chassis": link("Chassis"),
        "Managers": link("Managers"),
        "Links": {},
    });
    if profile.sessions {
        root["SessionService"] = link("SessionService");
        root["Links"] = json!({"Sessions": link("SessionService/Sessions")});
    }
    root
}

pub(super) fn odata() -> Value {
    let set = ["Systems", "Chassis", "Managers", "SessionService"];
    let set = set.map(|name| json!({"name": name, "kind": "Singleton", "url": at(name)}));
    json!({"@odata.context": "/redfish/v1/$metadata", "value": set})
}

pub(super) const METADATA: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?>"#,
    r#"<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">"#,
    r#"<edmx:DataServices/></edmx:Edmx>"#,
);

pub(super) fn collection<'a>(
    path: &str,
    kind: &str,
    members: impl IntoIterator<Item = &'a str>,
) -> Value {
    let members: Vec<_> = members
        .into_iter()
        .map(|id| json!({"@odata.id": format!("{ROOT}/{path}/{id}")}))
        .collect();
    json!({
        "@odata.id": at(path),
        "@odata.type": format!("#{kind}Collection.{kind}Collection"),
        "Name": format!("{kind} Collection"),
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

/// What a System shows of the machine; not always what is so.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) uuid: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) power: String,
}

pub(super) fn system(profile: &Profile, shown: &Shown) -> Value {
    let id = &profile.system_id;
    let mut system = json!({
        "@odata.id": at(&format!("Systems/{id}")),
        "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
        "Id": id,
        "Name": "System",
        "HostName": shown.name,
        "SystemType": "Physical",
        "Manufacturer": profile.manufacturer,
        "Model": profile.model,
        "PowerState": shown.power,
        "Status": {"State": "Enabled", "Health": "OK"},
        "Boot": {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"},
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
    system
}

/// A member of Systems without a Reset.
pub(super) fn board(id: &str) -> Value {
    json!({
        "@odata.id": at(&format!("Systems/{id}")),
        "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
        "Id": id,
        "Name": "Board",
        "SystemType": "Physical",
        "PowerState": "On",
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}

fn reset_action(profile: &Profile) -> Value {
    let base = at(&format!("Systems/{}", profile.system_id));
    let mut action = Map::new();
    action.insert("target".to_owned(), json!(format!("{base}/{RESET}")));
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

pub(super) fn reset_action_info(profile: &Profile) -> Value {
    json!({
        "@odata.id": at(&format!("Systems/{}/ResetActionInfo", profile.system_id)),
        "@odata.type": "#ActionInfo.v1_3_0.ActionInfo",
        "Id": "ResetActionInfo",
        "Name": "Reset Action Info",
        "Parameters": [{
            "Name": "ResetType",
            "Required": true,
            "DataType": "String",
            "AllowableValues": profile.reset_types,
        }],
    })
}

pub(super) fn chassis(profile: &Profile, shown: &Shown) -> Value {
    json!({
        "@odata.id": at(&format!("Chassis/{}", profile.chassis_id)),
        "@odata.type": "#Chassis.v1_23_0.Chassis",
        "Id": profile.chassis_id,
        "Name": "Chassis",
        "ChassisType": "RackMount",
        "Manufacturer": profile.manufacturer,
        "Model": profile.model,
        "SerialNumber": shown.serial,
        "PowerState": shown.power,
        "Status": {"State": "Enabled", "Health": "OK"},
        "Links": {
            "ComputerSystems": [link(&format!("Systems/{}", profile.system_id))],
            "ManagedBy": [link(&format!("Managers/{}", profile.manager_id))],
        },
    })
}

pub(super) fn manager(profile: &Profile) -> Value {
    json!({
        "@odata.id": at(&format!("Managers/{}", profile.manager_id)),
        "@odata.type": "#Manager.v1_19_0.Manager",
        "Id": profile.manager_id,
        "Name": "Manager",
        "ManagerType": "BMC",
        "Manufacturer": profile.manufacturer,
        "FirmwareVersion": env!("CARGO_PKG_VERSION"),
        "PowerState": "On",
        "Status": {"State": "Enabled", "Health": "OK"},
        "Links": {
            "ManagerForServers": [link(&format!("Systems/{}", profile.system_id))],
            "ManagerForChassis": [link(&format!("Chassis/{}", profile.chassis_id))],
        },
    })
}

pub(super) fn session_service(profile: &Profile) -> Value {
    json!({
        "@odata.id": at("SessionService"),
        "@odata.type": "#SessionService.v1_1_9.SessionService",
        "Id": "SessionService",
        "Name": "Session Service",
        "ServiceEnabled": profile.sessions,
        "SessionTimeout": profile.session_idle.as_secs(),
        "Status": {"State": "Enabled", "Health": "OK"},
        "Sessions": link("SessionService/Sessions"),
    })
}

pub(super) fn session(session: &Session) -> Value {
    json!({
        "@odata.id": at(&format!("SessionService/Sessions/{}", session.id)),
        "@odata.type": "#Session.v1_7_0.Session",
        "Id": session.id,
        "Name": "User Session",
        "UserName": session.user,
        "Password": null,
    })
}

fn at(path: &str) -> String {
    format!("{ROOT}/{path}")
}

fn link(path: &str) -> Value {
    json!({"@odata.id": at(path)})
}
