//! Updates of firmware in documents of the BMC.
//!
//! Owns: what counts as an update, and how far it is. Must never: fail on a property that is missing or of another
//! type.

use serde_json::Value;

use super::names::{Said, said};
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
const ALSO_ENDED: &[&str] = &["Canceled", "Failed", "Done"];
/// States of a task that waits for something, such as the next start of the host.
const WAITING: &[&str] = &["Pending", "Suspended"];

/// Whether a task in this state has ended.
fn has_ended(state: &str) -> bool {
    is_one_of(state, ENDED) || is_one_of(state, ALSO_ENDED)
}

/// Whether one of these states is meant: BMCs differ in upper and lower case.
fn is_one_of(state: &str, states: &[&str]) -> bool {
    states.iter().any(|one| one.eq_ignore_ascii_case(state))
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
        // A name of the whole service, and the request went elsewhere.
        Said::Nothing if target.is_some() => Said::Other,
        said => said,
    }
}

/// What a job does, by its kind; by its name, if its kind says nothing.
fn kind_or_name(kind: &str, job: &Value) -> Said {
    match vendor::is_update_job(kind) {
        Some(true) => Said::Update,
        Some(false) => Said::Other,
        None => said(&text(job, "Name").unwrap_or_default()),
    }
}

/// How far a task is, and what it does; `None`: it has ended. A task without a state that is not done is at work.
struct Alive {
    state: String,
    percent: Option<u8>,
    messages: Messages,
    work: Said,
}

impl Alive {
    fn of(task: &Value, push_uris: &[String]) -> Option<Self> {
        let percent = percent(task.get("PercentComplete").and_then(Value::as_u64));
        let is_undone = percent.is_some_and(|percent| percent < 100);
        let state = text(task, "TaskState")
            .filter(|state| !state.is_empty())
            .or_else(|| is_undone.then(|| "state not reported".to_owned()))?;
        if has_ended(&state) {
            return None;
        }
        let messages = Messages::of(task);
        Some(Self {
            work: work(task, &messages, push_uris),
            state,
            percent,
            messages,
        })
    }

    fn waits(&self) -> bool {
        is_one_of(&self.state, WAITING) || vendor::is_scheduled(&self.messages)
    }
}

/// Why it is not known whether a task at work is an update; `None`: it is known, or it is not at work.
pub(super) fn opaque_task(task: &Value, push_uris: &[String]) -> Option<String> {
    let alive = Alive::of(task, push_uris)?;
    let is_opaque = alive.work == Said::Nothing && !alive.waits();
    is_opaque.then(|| {
        let (id, state) = (id(task), words(Some(alive.state)));
        format!("{id} is {state} and does not say what it does")
    })
}

/// The update of a `Task`; `None`: it is none, or has ended.
pub(super) fn of_task(task: &Value, push_uris: &[String]) -> Option<FirmwareUpdate> {
    let alive = Alive::of(task, push_uris).filter(|alive| alive.work == Said::Update)?;
    let last = alive.messages.0.last().map(|message| match &*message.text {
        "" => message.id.clone(),
        text => text.to_owned(),
    });
    Some(FirmwareUpdate {
        source: format!("task {}", id(task)),
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
    let state = text(job, "JobState")?;
    let is_update = kind_or_name(&kind, job) == Said::Update;
    let phase = vendor::job_phase(&state).filter(|_| is_update)?;
    Some(FirmwareUpdate {
        source: format!("job {}", id(job)),
        name: words(text(job, "Name").or(Some(kind))),
        phase,
        state: words(Some(state)),
        percent: percent(job.get("PercentComplete").and_then(Value::as_u64)),
        message: words(text(job, "Message")),
    })
}

/// Why it is not known whether a job at work is an update; `None`: it is known, or it is not at work.
pub(super) fn opaque_job(job: &Value) -> Option<String> {
    let state = text(job, "JobState")?;
    let kind = text(job, "JobType").unwrap_or_default();
    let is_opaque = kind_or_name(&kind, job) == Said::Nothing
        && vendor::job_phase(&state) == Some(UpdatePhase::Running);
    is_opaque.then(|| {
        let (id, state) = (id(job), words(Some(state)));
        format!("{id} is {state} and does not say what it does")
    })
}

/// The update of a task in a vendor's queue of updates; `None`: it has ended.
pub(super) fn of_queued(task: &Value) -> Option<FirmwareUpdate> {
    let state = text(task, "State")?;
    Some(FirmwareUpdate {
        source: format!("update task {}", id(task)),
        name: words(text(task, "Name")),
        phase: vendor::queued_phase(&state)?,
        state: words(Some(state)),
        percent: None,
        message: words(text(task, "Command")),
    })
}

/// Whether a resource reports `Status.State` as `Updating` (Redfish `Resource.State`).
fn is_updating(body: &Value) -> bool {
    // Some services write the state alone.
    let state = body
        .get("Status")
        .and_then(|status| text(status, "State").or_else(|| text(body, "Status")));
    state.is_some_and(|state| state.eq_ignore_ascii_case("Updating"))
}

/// The update that a resource reports of itself.
pub(super) fn of_resource(source: &str, body: &Value) -> Option<FirmwareUpdate> {
    is_updating(body).then(|| FirmwareUpdate {
        source: source.to_owned(),
        name: words(text(body, "Name")),
        phase: UpdatePhase::Running,
        state: "Updating".to_owned(),
        percent: None,
        message: String::new(),
    })
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
    let by_task = text(member, "TaskState").map(|state| !has_ended(&state));
    let by_job = || text(member, "JobState").map(|state| vendor::job_phase(&state).is_some());
    let by_queue = || text(member, "State").map(|state| vendor::queued_phase(&state).is_some());
    by_task.or_else(by_job).or_else(by_queue).unwrap_or(false)
}

/// The update that the `UpdateService` reports.
pub(super) fn of_service(service: &Value) -> Option<FirmwareUpdate> {
    let source = "UpdateService";
    let by_vendor = vendor::service_state(service)
        .filter(|(state, _)| vendor::is_service_at_work(state))
        .map(|(state, done)| FirmwareUpdate {
            source: source.to_owned(),
            name: words(text(service, "Name")),
            phase: UpdatePhase::Running,
            state: words(Some(state)),
            percent: percent(done),
            message: String::new(),
        });
    by_vendor.or_else(|| of_resource(source, service))
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
            json!({"Name": "Firmware update"}),
            json!({"TaskState": 5, "Name": "Firmware update"}),
            json!({"TaskState": "completed", "Name": "Firmware update"}),
            json!({"TaskState": "Failed", "Name": "Firmware update"}),
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
