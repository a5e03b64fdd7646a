//! Updates of firmware in documents of the BMC.
//!
//! Owns: what counts as an update, and how far it is. Must never: fail on a property that is missing or of another
//! type.

use serde_json::Value;

use super::names::{Said, is_blank, said};
use crate::{
    FirmwareUpdate, UpdatePhase,
    redfish::{
        protocol::{
            document::{last_part, link, text},
            extended_info::Messages,
        },
        vendor,
    },
    text::plain,
};

/// Characters of a name or a message that are kept.
const MAX_WORDS: usize = 160;

/// States of a task that has ended (Redfish `Task.TaskState`). Every other state may still write something.
pub(super) const ENDED: &[&str] = &[
    "Completed",
    "Killed",
    "Exception",
    "Cancelled",
    "Interrupted",
];
/// What some BMCs write instead.
const ALSO_ENDED: &[&str] = &[
    "Canceled",
    "Failed",
    "Done",
    "Complete",
    "Success",
    "CompletedWithErrors",
];
/// States of a task that waits for something, such as the next start of the host.
const WAITING: &[&str] = &["Pending", "Suspended"];

/// Whether a task in this state has ended.
fn has_ended(state: &str) -> bool {
    is_one_of(state, ENDED) || is_one_of(state, ALSO_ENDED)
}

/// Whether one of these states is meant: BMCs differ in upper and lower case, and in spaces.
fn is_one_of(state: &str, states: &[&str]) -> bool {
    let state = vendor::folded(state);
    states.iter().any(|one| vendor::folded(one) == state)
}

/// The state of what is not known to have ended; `None`: it has. One that reports no state, and is not wholly done,
/// has not: a BMC that writes its own firmware may answer in part.
fn alive_state(member: &Value, property: &str, has_ended: impl Fn(&str) -> bool) -> Option<String> {
    match text(member, property) {
        Some(state) => (!has_ended(&state)).then_some(state),
        None => (percent_of(member) != Some(100)).then(|| "state not reported".to_owned()),
    }
}

fn alive_job_state(job: &Value) -> Option<String> {
    alive_state(job, "JobState", |state| vendor::job_phase(state).is_none())
}

fn alive_queue_state(task: &Value) -> Option<String> {
    alive_state(task, "State", |state| vendor::queued_phase(state).is_none())
}

/// The member of a collection, by its id or the end of its link.
fn id(body: &Value) -> String {
    let of_link = || link(body, &[]).map(|link| last_part(&link).to_owned());
    plain(
        &text(body, "Id").or_else(of_link).unwrap_or_default(),
        MAX_WORDS,
    )
}

fn words(text: Option<String>) -> String {
    plain(&text.unwrap_or_default(), MAX_WORDS)
}

/// A percentage; other numbers are none.
fn percent(value: Option<u64>) -> Option<u8> {
    value.and_then(|value| u8::try_from(value).ok().filter(|percent| *percent <= 100))
}

fn percent_of(member: &Value) -> Option<u8> {
    percent(member.get("PercentComplete").and_then(Value::as_u64))
}

/// Where images are pushed to, beside the actions of the `UpdateService`.
pub(super) fn push_uris(service: &Value) -> Vec<String> {
    ["HttpPushUri", "MultipartHttpPushUri"]
        .iter()
        .filter_map(|name| text(service, name))
        .filter(|uri| uri.starts_with('/'))
        .collect()
}

/// What a task does: it installs firmware by its request, its messages (registry `Update` of the DMTF, R39; iBMC's
/// own, R41), the kind of its job (R37), or its name. One of them is enough.
fn work(task: &Value, messages: &Messages, push_uris: &[String]) -> Said {
    let target = task
        .get("Payload")
        .and_then(|payload| text(payload, "TargetUri"));
    let by_request = target.as_ref().is_some_and(|target| {
        target.to_lowercase().contains("updateservice") || push_uris.contains(target)
    });
    let by_message = messages
        .0
        .iter()
        .any(|message| vendor::is_update_message(&message.id));
    if by_request || by_message {
        return Said::Update;
    }
    if let Some(kind) = vendor::job_kind(task) {
        return kind_or_name(&kind, task);
    }
    match said(&text(task, "Name").unwrap_or_default()) {
        // A name that says nothing, and the request went elsewhere.
        Said::Nothing if target.is_some_and(|target| is_elsewhere(&target)) => Said::Other,
        said => said,
    }
}

/// Whether a request went to a resource of the standard that takes no firmware.
fn is_elsewhere(target: &str) -> bool {
    const OTHERS: &[&str] = &[
        "/systems/",
        "/chassis/",
        "/managers/",
        "/accountservice",
        "/sessionservice",
        "/eventservice",
        "/telemetryservice",
        "/certificateservice",
    ];
    const OF_FIRMWARE: &[&str] = &["/oem/", "firmware", "update", "upgrade", "flash", "image"];
    let target = target.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| target.contains(word));
    says(OTHERS) && !says(OF_FIRMWARE)
}

/// What a job does, by its kind; by the words of its kind and name, if the kind is none that is known.
fn kind_or_name(kind: &str, job: &Value) -> Said {
    if let Some(is_update) = vendor::is_update_job(kind) {
        return if is_update { Said::Update } else { Said::Other };
    }
    match (said(kind), said(&text(job, "Name").unwrap_or_default())) {
        (Said::Update, _) | (_, Said::Update) => Said::Update,
        (Said::Other, _) | (_, Said::Other) => Said::Other,
        (Said::Nothing, Said::Nothing) => Said::Nothing,
    }
}

/// Whether it is a `Job` of the `JobService`, which is like a task, and the name of its state.
pub(super) fn state_property(task: &Value) -> (bool, &'static str) {
    let is_job = task.get("TaskState").is_none() && task.get("JobState").is_some();
    (is_job, if is_job { "JobState" } else { "TaskState" })
}

/// How far a task is, and what it does.
struct Alive {
    state: String,
    /// Whether it is a `Job` of the `JobService`.
    is_job: bool,
    percent: Option<u8>,
    messages: Messages,
    work: Said,
}

impl Alive {
    /// `None`: it has ended.
    fn of(task: &Value, push_uris: &[String]) -> Option<Self> {
        let (is_job, property) = state_property(task);
        let state = alive_state(task, property, has_ended)?;
        let messages = Messages::of(task);
        Some(Self {
            work: work(task, &messages, push_uris),
            state,
            is_job,
            percent: percent_of(task),
            messages,
        })
    }

    fn waits(&self) -> bool {
        let is_later = vendor::job_phase(&self.state) == Some(UpdatePhase::AtNextStart);
        is_one_of(&self.state, WAITING)
            || vendor::is_scheduled(&self.messages)
            || (self.is_job && is_later)
    }
}

/// Why it is not known whether a task at work is an update; `None`: it is known, or it is not at work.
pub(super) fn opaque_task(task: &Value, push_uris: &[String]) -> Option<String> {
    let alive = Alive::of(task, push_uris)?;
    let is_opaque = alive.work == Said::Nothing && !alive.waits();
    is_opaque.then(|| opaque(task, alive.state))
}

/// That a member at work does not say what it does.
fn opaque(member: &Value, state: String) -> String {
    let (id, state, name) = (id(member), words(Some(state)), words(text(member, "Name")));
    let name = match is_blank(&name) {
        true => String::new(),
        false => format!(" \"{name}\""),
    };
    format!("{id}{name} is {state} and does not say what it does")
}

/// Phase of a job that is not known to have ended.
fn job_phase(state: &str) -> UpdatePhase {
    vendor::job_phase(state).unwrap_or(UpdatePhase::Running)
}

/// The update of a `Task`; `None`: it is none, or has ended.
pub(super) fn of_task(task: &Value, push_uris: &[String]) -> Option<FirmwareUpdate> {
    let alive = Alive::of(task, push_uris).filter(|alive| alive.work == Said::Update)?;
    let last = alive.messages.0.last().map(|message| match &*message.text {
        "" => message.id.clone(),
        text => text.to_owned(),
    });
    Some(FirmwareUpdate {
        source: match alive.is_job {
            true => format!("job {}", id(task)),
            false => format!("task {}", id(task)),
        },
        name: words(text(task, "Name")),
        phase: match alive.waits() {
            true => UpdatePhase::AtNextStart,
            false => UpdatePhase::Running,
        },
        state: words(Some(alive.state)),
        percent: alive.percent,
        message: words(last),
    })
}

/// The update of a job in a vendor's queue; `None`: it is none, or has ended.
pub(super) fn of_job(job: &Value) -> Option<FirmwareUpdate> {
    let kind = text(job, "JobType").unwrap_or_default();
    let state = alive_job_state(job)?;
    if kind_or_name(&kind, job) != Said::Update {
        return None;
    }
    Some(FirmwareUpdate {
        source: format!("job {}", id(job)),
        name: words(text(job, "Name").or(Some(kind))),
        phase: job_phase(&state),
        state: words(Some(state)),
        percent: percent_of(job),
        message: words(text(job, "Message")),
    })
}

/// Why it is not known whether a job at work is an update; `None`: it is known, or it is not at work.
pub(super) fn opaque_job(job: &Value) -> Option<String> {
    let state = alive_job_state(job)?;
    let kind = text(job, "JobType").unwrap_or_default();
    let is_opaque =
        kind_or_name(&kind, job) == Said::Nothing && job_phase(&state) == UpdatePhase::Running;
    is_opaque.then(|| opaque(job, state))
}

/// The update of a task in a vendor's queue of updates; `None`: it has ended.
pub(super) fn of_queued(task: &Value) -> Option<FirmwareUpdate> {
    let state = alive_queue_state(task)?;
    Some(FirmwareUpdate {
        source: format!("update task {}", id(task)),
        name: words(text(task, "Name")),
        phase: vendor::queued_phase(&state).unwrap_or(UpdatePhase::Running),
        state: words(Some(state)),
        percent: None,
        message: words(text(task, "Command")),
    })
}

/// `Status.State` of a resource (Redfish `Resource.State`).
fn status(body: &Value) -> Option<String> {
    // Some services write the state alone.
    body.get("Status")
        .and_then(|status| text(status, "State").or_else(|| text(body, "Status")))
}

/// The update that a resource reports of itself by its state.
fn by_state(source: &str, body: &Value, state: String, done: Option<u64>) -> FirmwareUpdate {
    FirmwareUpdate {
        source: source.to_owned(),
        name: words(text(body, "Name")),
        phase: UpdatePhase::Running,
        state: words(Some(state)),
        percent: percent(done),
        message: String::new(),
    }
}

/// The update that a resource reports of itself.
pub(super) fn of_resource(source: &str, body: &Value) -> Option<FirmwareUpdate> {
    let state = status(body).filter(|state| is_one_of(state, &["Updating"]))?;
    Some(by_state(source, body, state, None))
}

/// The image of an OpenBMC that is being activated (R40); `None`: it is not.
pub(super) fn of_software(image: &Value) -> Option<FirmwareUpdate> {
    let update = of_resource(&format!("software {}", id(image)), image)?;
    let version = words(text(image, "Version"));
    Some(FirmwareUpdate {
        name: match (update.name.is_empty(), version.is_empty()) {
            (_, true) => update.name,
            (true, false) => version,
            (false, false) => format!("{} {version}", update.name),
        },
        ..update
    })
}

/// Whether a task or a job is at work, or waits for something; others have ended.
pub(super) fn is_alive(member: &Value) -> bool {
    match () {
        () if text(member, "TaskState").is_some() => is_task_alive(member),
        () if text(member, "JobState").is_some() => alive_job_state(member).is_some(),
        () => alive_queue_state(member).is_some(),
    }
}

/// Whether a task is at work, or waits for something.
pub(super) fn is_task_alive(task: &Value) -> bool {
    let (_, property) = state_property(task);
    alive_state(task, property, has_ended).is_some()
}

/// The update that the `UpdateService` reports, by the state of its vendor, or of the standard.
pub(super) fn of_service(service: &Value) -> Option<FirmwareUpdate> {
    let states = [
        vendor::service_state(service),
        status(service).map(|state| (state, None)),
    ];
    let mut states = states.into_iter().flatten();
    let (state, done) = states.find(|(state, _)| vendor::is_service_at_work(state))?;
    Some(by_state("UpdateService", service, state, done))
}

/// Parses a document as each kind.
#[cfg(feature = "fuzzing")]
pub(super) fn fuzz(body: &Value) {
    let found = [
        of_task(body, &push_uris(body)),
        of_job(body),
        of_queued(body),
        of_service(body),
        of_software(body),
    ];
    let _ = (
        is_alive(body),
        opaque_task(body, &push_uris(body)),
        opaque_job(body),
    );
    for update in found.into_iter().flatten() {
        assert!(update.percent.is_none_or(|percent| percent <= 100));
        assert!(update.message.chars().count() <= MAX_WORDS + 3);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::redfish::protocol::document_tests::any_json;

    #[test]
    fn running_task_is_an_update_by_request_message_or_name() {
        let task = |mut body: Value, state: &str| {
            body["TaskState"] = json!(state);
            body["Id"] = json!("7");
            of_task(&body, &[])
        };
        let by_request = json!({"Payload": {"TargetUri": "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"}});
        let by_message = json!({"Messages": [{"MessageId": "Update.1.0.TransferringToComponent", "Message": "Transferring"}]});
        let by_name = json!({"Name": "Firmware update of BIOS", "PercentComplete": 40});
        for body in [&by_request, &by_message, &by_name] {
            let found = task(body.clone(), "Running").unwrap();
            assert_eq!(found.phase, UpdatePhase::Running, "{body}");
            assert_eq!(found.source, "task 7");
            for ended in ENDED.iter().chain(ALSO_ENDED) {
                assert_eq!(task(body.clone(), ended), None, "{body} {ended}");
            }
        }
        assert_eq!(task(by_name, "Running").unwrap().percent, Some(40));
        assert_eq!(
            task(by_message, "Pending").unwrap().phase,
            UpdatePhase::AtNextStart
        );
    }

    #[test]
    fn task_is_an_update_in_any_spelling_and_without_a_state() {
        let push = ["/mfwupdate".to_owned()];
        let at = |uri: &str| json!({"TaskState": "Running", "Payload": {"TargetUri": uri}});
        assert!(of_task(&at("/mfwupdate"), &push).is_some());
        assert_eq!(of_task(&at("/mfwupdate"), &[]), None);
        assert!(of_task(&at("/redfish/v1/updateservice/Actions/x"), &[]).is_some());
        let nameless = json!({"Name": "BIOS flash", "TaskState": null, "PercentComplete": 40});
        assert_eq!(of_task(&nameless, &[]).unwrap().phase, UpdatePhase::Running);
        let service = json!({"HttpPushUri": "/a", "MultipartHttpPushUri": "/b"});
        assert_eq!(push_uris(&service), ["/a", "/b"]);
    }

    #[test]
    fn one_of_request_messages_and_name_is_enough() {
        let task = |body: Value| {
            let mut body = body;
            body["TaskState"] = json!("Running");
            of_task(&body, &[]).is_some()
        };
        let at_bios = json!({"TargetUri": "/redfish/v1/Systems/1/Bios"});
        assert!(task(json!({"Name": "BIOS Update", "Payload": at_bios})));
        assert!(!task(json!({"Name": "Set attributes", "Payload": at_bios})));
        for id in [
            "Update.1.0.ApplyingOnComponent",
            "UPDATE.1.0.X",
            "update.1.0.x",
        ] {
            let messages = json!([{"MessageId": id}]);
            assert!(
                task(json!({"Messages": messages, "Payload": at_bios})),
                "{id}"
            );
        }
        assert!(!task(json!({"Messages": [{"MessageId": "UpdateX.1.0.A"}]})));
        for name in [
            "Updating BIOS",
            "System ROM update",
            "CPLD update",
            "Upgrading firmware",
        ] {
            assert!(task(json!({"Name": name})), "{name}");
        }
    }

    #[test]
    fn task_of_a_scheduled_job_waits_for_the_next_start() {
        let task = json!({"Id": "JID_1", "Name": "Update: BIOS firmware", "TaskState": "Starting",
            "Messages": [{"MessageId": "IDRAC.2.8.JCP001", "Message": "Task successfully scheduled."}]});
        let found = of_task(&task, &[]).unwrap();
        assert_eq!(found.phase, UpdatePhase::AtNextStart);
    }

    #[test]
    fn other_work_is_no_update() {
        for body in [
            json!({"TaskState": "Running", "Name": "Collect logs"}),
            json!({"TaskState": "Running", "Name": "update", "Payload": {"TargetUri": "/redfish/v1/Systems/1/LogServices/Dump"}}),
            json!({"TaskState": "completed", "Name": "Firmware update"}),
            json!({"TaskState": "Failed", "Name": "Firmware update"}),
            json!({"TaskState": "Completed with errors", "Name": "Firmware update"}),
            json!({"TaskState": "Running", "Name": "Configure: BIOS.Setup.1-1"}),
            json!({"TaskState": "Running", "Name": "Update password"}),
            json!({"TaskState": "Running", "Name": "Firmware Inventory"}),
            json!({"PercentComplete": 100, "Name": "Firmware update"}),
        ] {
            assert_eq!(of_task(&body, &[]), None, "{body}");
        }
        let job = |kind: &str, state: &str| {
            of_job(&json!({"Id": "JID_1", "JobType": kind, "JobState": state}))
        };
        assert_eq!(job("BIOSConfiguration", "Running"), None);
        assert_eq!(job("FirmwareUpdate", "Completed"), None);
        assert_eq!(
            job("FirmwareUpdate", "Running").unwrap().source,
            "job JID_1"
        );
    }

    #[test]
    fn task_of_an_ibmc_and_of_an_idrac_say_by_message_and_kind_what_they_do() {
        let ibmc = json!({"Id": "1", "Name": "Upgarde Task", "TaskState": "Running", "Messages": {
            "MessageId": "iBMC.1.0.FirmwareUpgradeComponent", "Message": "Upgrading the BMC."}});
        let found = of_task(&ibmc, &[]).unwrap();
        assert_eq!(
            (found.phase, &*found.message),
            (UpdatePhase::Running, "Upgrading the BMC.")
        );
        let idrac = |kind: &str| {
            json!({"Id": "JID_1", "Name": "JID_1", "TaskState": "Running",
                "Oem": {"Dell": {"JobType": kind, "JobState": "Running"}}})
        };
        assert!(of_task(&idrac("FirmwareUpdate"), &[]).is_some());
        assert_eq!(of_task(&idrac("BIOSConfiguration"), &[]), None);
        assert_eq!(opaque_task(&idrac("BIOSConfiguration"), &[]), None);
        assert!(opaque_task(&idrac("Unknown"), &[]).is_some());
    }

    #[test]
    fn work_that_does_not_say_what_it_does_is_not_known() {
        let task = |name: &str, state: &str| json!({"Id": "7", "Name": name, "TaskState": state});
        assert_eq!(
            opaque_task(&task("Task 7", "Running"), &[]).as_deref(),
            Some("7 is Running and does not say what it does")
        );
        for known in [
            task("Task 7", "Completed"),
            task("Task 7", "Pending"),
            task("Collect logs", "Running"),
            task("BIOS Update", "Running"),
            json!({"Name": "Task 7", "TaskState": "Running", "Payload": {"TargetUri": "/redfish/v1/Systems/1/Actions/x"}}),
        ] {
            assert_eq!(opaque_task(&known, &[]), None, "{known}");
        }
        let job = |kind: &str, name: &str| json!({"Id": "J", "JobType": kind, "Name": name, "JobState": "Running"});
        assert!(of_job(&job("", "Firmware Update: BIOS")).is_some());
        assert!(of_job(&job("Unknown", "Upload BIOS")).is_some());
        assert_eq!(of_job(&job("BIOSConfiguration", "Flash BIOS")), None);
        assert!(opaque_job(&job("Unknown", "Task")).is_some());
        assert_eq!(opaque_job(&job("RAIDConfiguration", "Task")), None);
    }

    #[test]
    fn service_and_resources_report_themselves() {
        let hpe =
            |state: &str| json!({"Oem": {"Hpe": {"State": state, "FlashProgressPercent": 55}}});
        for state in ["Uploading", "Updating", "Verifying", "Writing"] {
            assert_eq!(of_service(&hpe(state)).unwrap().percent, Some(55));
        }
        for state in ["Idle", "Complete", "Error", ""] {
            assert_eq!(of_service(&hpe(state)), None, "{state}");
        }
        let updating = json!({"Status": {"State": "Updating"}});
        assert!(of_service(&updating).is_some());
        assert!(of_resource("system", &updating).is_some());
        assert!(of_service(&json!({"Status": "updating"})).is_some());
        for state in ["Writing", "Flashing", "Verifying", "Uploading", "Updating"] {
            let service = json!({"Status": {"State": state}, "Oem": {"Hpe": {"State": "Idle"}}});
            assert_eq!(of_service(&service).unwrap().state, state);
            assert!(of_service(&json!({"Status": state})).is_some(), "{state}");
        }
        assert!(of_service(&json!({"Status": "Enabled"})).is_none());
        assert_eq!(
            of_resource("system", &json!({"Status": {"State": "Enabled"}})),
            None
        );
        let queued = |state: &str| of_queued(&json!({"Id": "a", "State": state}));
        assert_eq!(queued("InProgress").unwrap().phase, UpdatePhase::Running);
        assert_eq!(queued("Pending").unwrap().phase, UpdatePhase::AtNextStart);
        assert_eq!(queued("Complete"), None);
    }

    #[test]
    fn what_reports_no_state_is_not_known_to_have_ended() {
        for state in [json!(null), json!(""), json!(5), json!({"a": 1}), json!([])] {
            let task = json!({"Id": "7", "Name": "Firmware Update", "TaskState": state});
            let found = of_task(&task, &[]).unwrap();
            assert_eq!(found.phase, UpdatePhase::Running, "{task}");
            assert_eq!(found.state, "state not reported");
            assert!(is_alive(&task) && is_task_alive(&task), "{task}");
            let job = json!({"Id": "7", "JobType": "FirmwareUpdate", "JobState": state});
            assert_eq!(of_job(&job).unwrap().phase, UpdatePhase::Running, "{job}");
            assert!(is_alive(&job), "{job}");
            let queued = json!({"Id": "7", "State": state});
            assert_eq!(
                of_queued(&queued).unwrap().phase,
                UpdatePhase::Running,
                "{queued}"
            );
            let unnamed = json!({"Id": "7", "TaskState": state});
            let why = "7 is state not reported and does not say what it does";
            assert_eq!(opaque_task(&unnamed, &[]).as_deref(), Some(why));
            let other = json!({"Id": "7", "Name": "Collect logs", "TaskState": state});
            assert_eq!(
                (of_task(&other, &[]), opaque_task(&other, &[])),
                (None, None)
            );
        }
        assert!(of_task(&json!({"Name": "Firmware Update"}), &[]).is_some());
        assert!(of_job(&json!({"JobType": "FirmwareUpdate"})).is_some());
        let done = json!({"Name": "Firmware Update", "PercentComplete": 100});
        assert_eq!(of_task(&done, &[]), None);
        assert!(!is_alive(&done));
    }

    #[test]
    fn jobs_of_a_type_that_is_not_known_are_known_by_words() {
        let job = |kind: &str, name: &str| json!({"Id": "J", "JobType": kind, "Name": name, "JobState": "Running"});
        for (kind, name) in [
            ("SomethingNew", "Firmware Update"),
            ("UefiUpdate", "x"),
            ("Unknown", "Update PSU0"),
        ] {
            assert!(of_job(&job(kind, name)).is_some(), "{kind} {name}");
        }
        for (kind, name) in [
            ("SomethingNew", "x"),
            ("LCUpdate", "x"),
            ("", "zzz"),
            ("Unknown", "Component update"),
        ] {
            let job = job(kind, name);
            assert_eq!(of_job(&job), None, "{job}");
            assert!(opaque_job(&job).is_some(), "{job}");
        }
        assert_eq!(
            opaque_job(&job("", "zzz")).as_deref(),
            Some("J \"zzz\" is Running and does not say what it does")
        );
        for kind in [
            "SystemErase",
            "OSDeploy",
            "SACollectExportHealthData",
            "RemoteDiagnostics",
            "RebootForce",
            "RAIDConfiguration",
            "LCLogExport",
        ] {
            let job = job(kind, "x");
            assert_eq!((of_job(&job), opaque_job(&job)), (None, None), "{kind}");
        }
    }

    #[test]
    fn request_to_a_place_that_no_rule_knows_says_nothing() {
        let task = |target: &str| json!({"Name": "Task 7", "TaskState": "Running", "Payload": {"TargetUri": target}});
        for unknown in [
            "/upload",
            "/redfish/v1/Managers/1/Actions/Oem/Manager.InstallImage",
            "/redfish/v1/Systems/1/Bios/Actions/Bios.Update",
        ] {
            assert!(opaque_task(&task(unknown), &[]).is_some(), "{unknown}");
        }
        let known = "/redfish/v1/Managers/1/LogServices/Dump";
        assert_eq!(opaque_task(&task(known), &[]), None);
    }

    #[test]
    fn percentage_is_between_0_and_100() {
        assert_eq!(percent(Some(100)), Some(100));
        assert_eq!(percent(Some(101)), None);
        assert_eq!(percent(Some(300)), None);
    }

    proptest! {
        #[test]
        fn any_document_gives_a_bounded_update_or_none(
            body in any_json(
                &["TaskState", "Name", "Messages", "MessageId", "Message", "PercentComplete", "JobType", "JobState",
                  "Oem", "Hpe", "State", "Status", "Payload", "TargetUri", "Id"],
                &["Running", "FirmwareUpdate", "Update.1.0.A", "Updating", "InProgress", "firmware"],
            ),
        ) {
            let found = [of_task(&body, &[]), of_job(&body), of_queued(&body), of_service(&body), of_resource("x", &body)];
            for update in found.into_iter().flatten() {
                prop_assert!(update.percent.is_none_or(|percent| percent <= 100));
                prop_assert!(update.name.chars().count() <= MAX_WORDS + 3);
                prop_assert!(update.message.chars().count() <= MAX_WORDS + 3);
            }
        }
    }
}
