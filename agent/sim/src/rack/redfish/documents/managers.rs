//! The Manager, and the event log, which is below the Manager or the System, depending on the
//! profile.

use serde_json::{Value, json};

use super::{at, collection, link};
use crate::rack::redfish::profile::Profile;
use crate::rack::settings::Event;

/// The Manager, with the time of its clock and the time of its last reset.
pub(super) fn manager(
    profile: &Profile,
    now: jiff::Timestamp,
    last_reset: jiff::Timestamp,
) -> Value {
    let id = &profile.manager_id;
    let mut manager = json!({
        "@odata.id": at(&format!("Managers/{id}")),
        "@odata.type": "#Manager.v1_19_0.Manager",
        "Id": id,
        "Name": "Manager",
        "ManagerType": "BMC",
        "Manufacturer": profile.manufacturer,
        "Model": profile.product,
        "FirmwareVersion": env!("CARGO_PKG_VERSION"),
        "PowerState": "On",
        "DateTime": seconds(now),
        "DateTimeLocalOffset": "+00:00",
        "Status": {"State": "Enabled", "Health": "OK"},
        "Links": {
            "ManagerForServers": [link(&format!("Systems/{}", profile.system_id))],
            "ManagerForChassis": [link(&format!("Chassis/{}", profile.chassis_id))],
        },
        "Actions": {"#Manager.Reset": {
            "target": at(&format!("Managers/{id}/Actions/Manager.Reset")),
            "ResetType@Redfish.AllowableValues": profile.manager_reset_types,
        }},
    });
    if profile.last_reset_time {
        manager["LastResetTime"] = json!(seconds(last_reset));
    }
    if profile.log.of_manager {
        manager["LogServices"] = link(&format!("Managers/{id}/LogServices"));
    }
    manager
}

fn services_path(profile: &Profile) -> String {
    if profile.log.of_manager {
        format!("Managers/{}/LogServices", profile.manager_id)
    } else {
        format!("Systems/{}/LogServices", profile.system_id)
    }
}

fn log_path(profile: &Profile) -> String {
    format!("{}/{}", services_path(profile), profile.log.id)
}

pub(super) fn log_services(profile: &Profile) -> Value {
    let path = services_path(profile);
    collection(&path, "LogService", [profile.log.id.as_str()])
}

pub(super) fn log(profile: &Profile) -> Value {
    let path = log_path(profile);
    json!({
        "@odata.id": at(&path),
        "@odata.type": "#LogService.v1_8_0.LogService",
        "Id": profile.log.id,
        "Name": "Event Log",
        "ServiceEnabled": true,
        "OverWritePolicy": "WrapsWhenFull",
        "Status": {"State": "Enabled", "Health": "OK"},
        "Entries": link(&format!("{path}/Entries")),
        "Actions": {"#LogService.ClearLog": {
            "target": at(&format!("{path}/Actions/LogService.ClearLog")),
        }},
    })
}

/// The whole log; paging is done elsewhere.
pub(super) fn entries(profile: &Profile, events: &[Event]) -> Value {
    let path = format!("{}/Entries", log_path(profile));
    let members: Vec<_> = events.iter().map(|event| entry(profile, event)).collect();
    json!({
        "@odata.id": at(&path),
        "@odata.type": "#LogEntryCollection.LogEntryCollection",
        "Name": "Log Entry Collection",
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

pub(super) fn entry(profile: &Profile, event: &Event) -> Value {
    let mut entry = json!({
        "@odata.id": at(&format!("{}/Entries/{}", log_path(profile), event.id)),
        "@odata.type": "#LogEntry.v1_16_0.LogEntry",
        "Id": event.id.to_string(),
        "Name": format!("Log Entry {}", event.id),
        "EntryType": "Event",
        "Created": seconds(event.time),
        "Severity": event.severity,
        "Message": event.message,
    });
    if let Some(sensor_type) = event.sensor_type {
        entry["EntryType"] = "SEL".into();
        entry["SensorType"] = sensor_type.into();
    }
    entry
}

/// A time in the format of BMCs.
pub(super) fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
