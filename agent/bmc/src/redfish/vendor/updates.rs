//! Where vendors report updates of firmware, beside the `UpdateService` and the `TaskService` of the standard.

use serde_json::Value;

use crate::{
    UpdatePhase,
    redfish::protocol::{
        document::{link, text},
        extended_info::Messages,
    },
};

/// The queue of jobs of a manager (R37): iDRAC lists updates there, whoever began them.
pub(in crate::redfish) fn job_queue(manager: &Value) -> Option<String> {
    link(manager, &["Links", "Oem", "Dell", "Jobs"])
        .or_else(|| link(manager, &["Oem", "Dell", "Jobs"]))
        .or_else(|| {
            let is_idrac = manager.get("Oem")?.get("Dell").is_some();
            let path = link(manager, &[])?;
            is_idrac.then(|| format!("{}/Jobs", path.trim_end_matches('/')))
        })
}

/// Whether the manager is an OpenBMC (R40), whose images report their activation in the inventory of firmware.
pub(in crate::redfish) fn is_openbmc(manager: &Value) -> bool {
    let oem = manager.get("Oem").and_then(Value::as_object);
    let by_oem = oem.is_some_and(|oem| oem.keys().any(|key| key.eq_ignore_ascii_case("OpenBmc")));
    let model = text(manager, "Model");
    by_oem || model.is_some_and(|model| model.eq_ignore_ascii_case("OpenBmc"))
}

/// A word of a BMC without regard to case, spaces and other signs: versions of a firmware differ in them.
pub(in crate::redfish) fn folded(word: &str) -> String {
    let signs = word.chars().filter(|sign| sign.is_alphanumeric());
    signs.flat_map(char::to_lowercase).collect()
}

/// Types of jobs of an iDRAC (R37) that write no firmware.
const OTHER_JOBS: &[&str] = &[
    "biosconfiguration",
    "exportconfiguration",
    "factoryconfigurationexport",
    "fcconfiguration",
    "hardwareinventoryexport",
    "idracconfiguration",
    "importconfiguration",
    "inbandbiosconfiguration",
    "lcconfig",
    "lcexport",
    "lclogexport",
    "licenseexport",
    "licenseimport",
    "messageregistryexport",
    "nicconfiguration",
    "osdeploy",
    "raidconfiguration",
    "realtimenorebootconfiguration",
    "rebootforce",
    "rebootnoforce",
    "rebootpowercycle",
    "remotediagnostics",
    "sacollectexporthealthdata",
    "sacollecthealthdata",
    "saexporthealthdata",
    "saexposeism",
    "saregistration",
    "sekmrekey",
    "sekmstatusset",
    "shutdown",
    "systemerase",
    "systeminfoconfiguration",
    "thermalhistoryexport",
];

/// Whether a job writes firmware, by its type (R37); `None`: the type is none that is known.
pub(in crate::redfish) fn is_update_job(kind: &str) -> Option<bool> {
    let kind = folded(kind);
    match &*kind {
        _ if OTHER_JOBS.contains(&&*kind) => Some(false),
        "firmwareupdate" | "firmwarerollback" | "repositoryupdate" => Some(true),
        _ => None,
    }
}

/// The type of the job that an iDRAC shows as a task (R37); `None`: it is no such task.
pub(in crate::redfish) fn job_kind(task: &Value) -> Option<String> {
    text(task.get("Oem")?.get("Dell")?, "JobType")
}

/// Whether a message is one of an update that is at work: of the registry `Update` (R39), or iBMC's (R41).
pub(in crate::redfish) fn is_update_message(id: &str) -> bool {
    let (registry, key) = (id.split('.').next(), id.rsplit('.').next());
    let is_of_registry = registry.is_some_and(|name| name.eq_ignore_ascii_case("Update"));
    let key = folded(key.unwrap_or_default());
    is_of_registry || key.starts_with("firmwareupgrade") || key.starts_with("firmwareupdate")
}

/// Phase of a job by its state (R37); `None`: it has ended. A job that waits for the next start of the host writes
/// nothing before that.
pub(in crate::redfish) fn job_phase(state: &str) -> Option<UpdatePhase> {
    let state = folded(state);
    let is_end = state.starts_with("completed")
        || state.contains("failed")
        || matches!(&*state, "rebootcompleted" | "cancelled" | "canceled");
    match &*state {
        _ if is_end => None,
        "new" | "scheduled" | "scheduling" | "readyforexecution" | "waiting" | "paused"
        | "rebootpending" | "pendingactivation" => Some(UpdatePhase::AtNextStart),
        _ => Some(UpdatePhase::Running),
    }
}

/// Whether the last message about a task says that it waits for the next start (R37): iDRAC lists a scheduled job as a
/// task that is starting.
pub(in crate::redfish) fn is_scheduled(messages: &Messages) -> bool {
    let last = messages.0.last();
    last.is_some_and(|message| message.id.rsplit('.').next() == Some("JCP001"))
}

/// The state of iLO's `UpdateService` (R38), with its percentage; `None`: it reports none.
pub(in crate::redfish) fn service_state(service: &Value) -> Option<(String, Option<u64>)> {
    let oem = service.get("Oem")?;
    let oem = oem.get("Hpe").or_else(|| oem.get("Hp"))?;
    let percent = oem.get("FlashProgressPercent").and_then(Value::as_u64);
    Some((text(oem, "State")?, percent))
}

/// Whether that state means that something is transferred, verified or written (R38).
pub(in crate::redfish) fn is_service_at_work(state: &str) -> bool {
    ["uploading", "updating", "verifying", "writing", "flashing"].contains(&folded(state).as_str())
}

/// iLO's queue of update tasks (R38).
pub(in crate::redfish) fn update_queue(service: &Value) -> Option<String> {
    link(service, &["Oem", "Hpe", "UpdateTaskQueue"])
}

/// Phase of a task of that queue by its state (R38); `None`: it has ended.
pub(in crate::redfish) fn queued_phase(state: &str) -> Option<UpdatePhase> {
    match folded(state).as_str() {
        "pending" => Some(UpdatePhase::AtNextStart),
        "complete" | "completed" | "exception" | "expired" | "failed" | "canceled"
        | "cancelled" => None,
        _ => Some(UpdatePhase::Running),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn job_queue_is_that_of_the_manager() {
        let at = |link: &str| json!({"@odata.id": link});
        let new = json!({"Links": {"Oem": {"Dell": {"Jobs": at("/m/1/Oem/Dell/Jobs")}}}});
        assert_eq!(job_queue(&new).as_deref(), Some("/m/1/Oem/Dell/Jobs"));
        let old = json!({"@odata.id": "/m/1/", "Oem": {"Dell": {"x": 1}}});
        assert_eq!(job_queue(&old).as_deref(), Some("/m/1/Jobs"));
        assert_eq!(
            job_queue(&json!({"@odata.id": "/m/1", "Oem": {"Hpe": {}}})),
            None
        );
    }

    #[test]
    fn words_differ_in_case_and_spaces() {
        for kind in ["FirmwareUpdate", "Firmware Update", "firmware update"] {
            assert_eq!(is_update_job(kind), Some(true), "{kind}");
        }
        for kind in ["OSDeploy", "BIOS Configuration", "sekmrekey"] {
            assert_eq!(is_update_job(kind), Some(false), "{kind}");
        }
        assert_eq!(is_update_job("LCUpdate"), None);
        for state in ["InProgress", "In Progress", "in-progress", "INPROGRESS"] {
            assert_eq!(queued_phase(state), Some(UpdatePhase::Running), "{state}");
        }
        assert_eq!(queued_phase("pending"), Some(UpdatePhase::AtNextStart));
        assert_eq!(
            queued_phase("a state of a later version"),
            Some(UpdatePhase::Running)
        );
        assert_eq!(queued_phase("Expired"), None);
        assert_eq!(job_phase("completed with errors"), None);
        assert!(is_service_at_work("writing"));
    }

    #[test]
    fn phase_follows_from_the_state_of_a_job() {
        use UpdatePhase::{AtNextStart, Running};
        for (state, phase) in [
            ("Running", Some(Running)),
            ("Downloading", Some(Running)),
            ("Downloaded", Some(Running)),
            ("a state of a later version", Some(Running)),
            ("Scheduled", Some(AtNextStart)),
            ("ReadyForExecution", Some(AtNextStart)),
            ("Completed", None),
            ("CompletedWithErrors", None),
            ("RebootFailed", None),
        ] {
            assert_eq!(job_phase(state), phase, "{state}");
        }
    }
}
