//! The services of updates and tasks, with the one update of firmware that a host may have.

use serde_json::{Value, json};

use super::{at, collection, link};
use crate::rack::{
    power::FlashState,
    redfish::profile::{Profile, UpdatePlace},
};

/// Id of the task of an update.
pub(in crate::rack::redfish) const TASK: &str = "1";
/// Path of the inventory of firmware.
const INVENTORY: &str = "UpdateService/FirmwareInventory";
/// Id of the job of an update.
pub(in crate::rack::redfish) const JOB: &str = "JID_000000000001";

/// Images in the inventory of firmware: the one that runs, and the one of an update.
pub(in crate::rack::redfish) const IMAGES: [&str; 2] = ["5ea1b2c3", "9d0e1f2a"];

/// Adds the links to the services to the root.
pub(super) fn in_root(root: &mut Value, profile: &Profile) {
    if profile.updates.is_some() {
        root["UpdateService"] = link("UpdateService");
        root["Tasks"] = link("TaskService");
    }
}

/// Adds the link to the queue of jobs to the Manager.
pub(super) fn in_manager(manager: &mut Value, profile: &Profile) {
    if profile.updates == Some(UpdatePlace::Jobs) {
        manager["Links"]["Oem"] = json!({"Dell": {"Jobs": link(&jobs_path(profile))}});
    }
}

fn jobs_path(profile: &Profile) -> String {
    format!("Managers/{}/Oem/Dell/Jobs", profile.manager_id)
}

pub(super) fn service(profile: &Profile, flash: Option<FlashState>) -> Value {
    let mut service = json!({
        "@odata.id": at("UpdateService"),
        "@odata.type": "#UpdateService.v1_14_0.UpdateService",
        "Id": "UpdateService",
        "Name": "Update Service",
        "ServiceEnabled": true,
        "Status": {"State": "Enabled", "Health": "OK"},
    });
    if profile.updates == Some(UpdatePlace::Service) {
        let (state, percent) = match flash {
            Some(FlashState::Running(percent)) => ("Updating", Some(percent)),
            Some(FlashState::Completed) => ("Complete", None),
            Some(FlashState::Scheduled) | None => ("Idle", None),
        };
        service["Oem"] = json!({"Hpe": {"State": state}});
        if let Some(percent) = percent {
            service["Oem"]["Hpe"]["FlashProgressPercent"] = json!(percent);
        }
    }
    if profile.updates == Some(UpdatePlace::Image) {
        service["FirmwareInventory"] = link(INVENTORY);
    }
    service
}

pub(super) fn images() -> Value {
    collection(INVENTORY, "SoftwareInventory", IMAGES)
}

/// An image: that of an update is disabled before it is activated, as OpenBMC shows it.
pub(super) fn image(id: &str, flash: Option<FlashState>) -> Value {
    let state = match flash {
        _ if id == IMAGES[0] => "Enabled",
        Some(FlashState::Running(_)) => "Updating",
        Some(FlashState::Completed) => "StandbySpare",
        Some(FlashState::Scheduled) | None => "Disabled",
    };
    json!({
        "@odata.id": at(&format!("{INVENTORY}/{id}")),
        "@odata.type": "#SoftwareInventory.v1_1_0.SoftwareInventory",
        "Id": id,
        "Name": "Software Inventory",
        "Description": "Host image",
        "Version": format!("2.18.0-{id}"),
        "Updateable": true,
        "Status": {"State": state, "Health": "OK", "HealthRollup": "OK"},
    })
}

pub(super) fn task_service() -> Value {
    json!({
        "@odata.id": at("TaskService"),
        "@odata.type": "#TaskService.v1_2_1.TaskService",
        "Id": "TaskService",
        "Name": "Task Service",
        "ServiceEnabled": true,
        "Tasks": link("TaskService/Tasks"),
    })
}

pub(super) fn tasks(profile: &Profile, flash: Option<FlashState>) -> Value {
    let is_task = profile.updates == Some(UpdatePlace::Task);
    let members = flash.filter(|_| is_task).map(|_| TASK);
    collection("TaskService/Tasks", "Task", members)
}

/// The task of the update; `None`: there is none.
pub(super) fn task(profile: &Profile, flash: Option<FlashState>) -> Option<Value> {
    let flash = flash.filter(|_| profile.updates == Some(UpdatePlace::Task))?;
    let (state, percent) = match flash {
        FlashState::Scheduled => ("Pending", 0),
        FlashState::Running(percent) => ("Running", percent),
        FlashState::Completed => ("Completed", 100),
    };
    Some(json!({
        "@odata.id": at(&format!("TaskService/Tasks/{TASK}")),
        "@odata.type": "#Task.v1_7_4.Task",
        "Id": TASK,
        "Name": format!("Task {TASK}"),
        "TaskState": state,
        "TaskStatus": "OK",
        "PercentComplete": percent,
        "Payload": {
            "HttpOperation": "POST",
            "TargetUri": at("UpdateService/Actions/UpdateService.SimpleUpdate"),
            "HttpHeaders": [],
        },
    }))
}

pub(super) fn jobs(profile: &Profile, flash: Option<FlashState>) -> Value {
    collection(&jobs_path(profile), "DellJob", flash.map(|_| JOB))
}

/// The job of the update; `None`: there is none.
pub(super) fn job(profile: &Profile, flash: Option<FlashState>) -> Option<Value> {
    let (state, percent, message) = match flash? {
        FlashState::Scheduled => ("Scheduled", 0, "Task successfully scheduled."),
        FlashState::Running(percent) => ("Running", percent, "Job in progress."),
        FlashState::Completed => ("Completed", 100, "Job completed successfully."),
    };
    Some(json!({
        "@odata.id": at(&format!("{}/{JOB}", jobs_path(profile))),
        "@odata.type": "#DellJob.v1_4_0.DellJob",
        "Id": JOB,
        "Name": "Firmware Update: BIOS",
        "JobType": "FirmwareUpdate",
        "JobState": state,
        "PercentComplete": percent,
        "Message": message,
    }))
}
