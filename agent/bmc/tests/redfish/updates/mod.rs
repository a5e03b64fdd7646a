//! Updates of firmware, and how many requests it takes to see them.

mod before_command;
mod lists;

use std::time::{Duration, Instant};

use rackhand_bmc::{Bmc, ErrorKind, UpdatePhase, redfish::connect};
use serde_json::{Value, json};

use crate::bmc::{Reply, SYSTEM, TestBmc};

const LIMIT: Duration = Duration::from_secs(10);
const SERVICE: &str = "/redfish/v1/UpdateService";
const TASKS: &str = "/redfish/v1/TaskService/Tasks";
const MANAGER: &str = "/redfish/v1/Managers/1";
const JOBS: &str = "/redfish/v1/Managers/1/Oem/Dell/Jobs";

fn at(path: &str) -> Value {
    json!({"@odata.id": path})
}

/// A BMC with these services and these tasks.
async fn with_tasks(tasks: &[Value]) -> TestBmc {
    let bmc = TestBmc::start().await;
    serves(&bmc, tasks);
    bmc
}

fn serves(bmc: &TestBmc, tasks: &[Value]) {
    bmc.world(|w| {
        w.root = json!({"UpdateService": at(SERVICE), "Tasks": at("/redfish/v1/TaskService")});
    });
    bmc.put(SERVICE, json!({"Id": "UpdateService"}));
    bmc.put("/redfish/v1/TaskService", json!({"Tasks": at(TASKS)}));
    let links: Vec<Value> = (0..tasks.len())
        .map(|n| at(&format!("{TASKS}/{n}")))
        .collect();
    bmc.put(TASKS, json!({"Members": links}));
    for (n, task) in tasks.iter().enumerate() {
        bmc.put(&format!("{TASKS}/{n}"), task.clone());
    }
}

fn task(state: &str) -> Value {
    json!({"Id": "7", "Name": "Firmware Update", "TaskState": state, "PercentComplete": 12})
}

#[tokio::test]
async fn bmc_without_the_services_is_asked_nothing_more() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    let error = client.firmware_updates(LIMIT).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let asked = bmc.seen().len();
    client.firmware_updates(LIMIT).await.unwrap_err();
    assert_eq!(bmc.seen().len(), asked, "not even the root again");
}

#[tokio::test]
async fn task_that_runs_is_found_among_those_that_have_ended() {
    let mut tasks = vec![task("Completed"); 40];
    tasks.push(task("Running"));
    let bmc = with_tasks(&tasks).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    let running = found.running().unwrap();
    assert_eq!(
        (running.source.as_str(), running.percent),
        ("task 7", Some(12))
    );
    let read = bmc
        .seen()
        .iter()
        .filter(|seen| seen.path.starts_with(TASKS))
        .count();
    assert!(read <= 7, "{read} requests for 41 tasks");
}

#[tokio::test]
async fn idle_bmc_costs_a_bounded_number_of_requests() {
    let bmc = with_tasks(&vec![task("Completed"); 40]).await;
    let client = bmc.client();
    client.power().await.unwrap();
    let before = bmc.seen().len();
    let found = client.firmware_updates(LIMIT).await.unwrap();
    assert!(found.updates.is_empty());
    assert_eq!(found.unread, ["tasks: 6 of 40 were read"]);
    assert_eq!(
        found.read,
        ["UpdateService", "TaskService", "tasks (6 of 40)"]
    );
    let cost = bmc.seen().len() - before;
    assert!(cost <= 11, "{cost} requests");
    let sessions = bmc.count("POST", crate::bmc::SESSIONS);
    assert!(sessions <= 1, "{sessions} sessions");
}

#[tokio::test]
async fn job_of_a_vendor_runs_or_waits_for_the_next_start() {
    let bmc = with_tasks(&[]).await;
    bmc.add_to_system(&json!({"Links": {"ManagedBy": [at(MANAGER)]}}));
    bmc.put(
        MANAGER,
        json!({"Links": {"Oem": {"Dell": {"Jobs": at(JOBS)}}}}),
    );
    bmc.put(JOBS, json!({"Members": [at(&format!("{JOBS}/JID_1"))]}));
    for (state, phase) in [
        ("Downloading", UpdatePhase::Running),
        ("Running", UpdatePhase::Running),
        ("Scheduled", UpdatePhase::AtNextStart),
    ] {
        let job = json!({"Id": "JID_1", "JobType": "FirmwareUpdate", "JobState": state});
        bmc.put(&format!("{JOBS}/JID_1"), job);
        let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
        let update = found.updates.first().unwrap();
        assert_eq!((update.phase, update.source.as_str()), (phase, "job JID_1"));
    }
}

#[tokio::test]
async fn system_that_reports_updating_is_being_updated() {
    let bmc = with_tasks(&[]).await;
    bmc.add_to_system(&json!({"Status": {"State": "Updating"}}));
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.running().unwrap().source, "system");
    assert!(bmc.count("GET", SYSTEM) > 0);
}

#[tokio::test]
async fn service_that_fails_is_not_one_without_updates() {
    let bmc = TestBmc::with(|seen, _| {
        seen.is("GET", "/redfish/v1/TaskService")
            .then(|| Reply::status(500))
    })
    .await;
    serves(&bmc, &[]);
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.read, ["UpdateService"]);
    assert_eq!(found.unread.len(), 1, "{found:?}");
    assert!(found.unread[0].starts_with("TaskService"), "{found:?}");
}

#[tokio::test]
async fn reading_that_runs_out_of_time_says_what_is_missing() {
    let bmc = TestBmc::with(|seen, world| {
        let document = world.documents.get(&seen.path)?;
        Some(Reply::json(200, document).late(Duration::from_millis(150)))
    })
    .await;
    serves(&bmc, &[task("Running")]);
    let client = bmc.client();
    client.power().await.unwrap();
    let found = client
        .firmware_updates(Duration::from_millis(350))
        .await
        .unwrap();
    assert_eq!(found.read[0], "UpdateService");
    assert!(found.running().is_none(), "{found:?}");
    let unknown = found.unknown().unwrap();
    assert!(unknown.contains("tasks: not read in time"), "{unknown}");
    assert!(
        found.silence >= Some(Duration::from_millis(100)),
        "{found:?}"
    );
    // With time enough, the update is found.
    let found = client.firmware_updates(LIMIT).await.unwrap();
    assert!(
        found.running().is_some() && found.unknown().is_none(),
        "{found:?}"
    );
}

#[tokio::test]
async fn image_that_an_openbmc_activates_is_an_update() {
    const INVENTORY: &str = "/redfish/v1/UpdateService/FirmwareInventory";
    let bmc = with_tasks(&[]).await;
    bmc.put(
        SERVICE,
        json!({"Id": "UpdateService", "FirmwareInventory": at(INVENTORY)}),
    );
    bmc.add_to_system(&json!({"Links": {"ManagedBy": [at(MANAGER)]}}));
    bmc.put(
        INVENTORY,
        json!({"Members": [at(&format!("{INVENTORY}/9d0e1f2a"))]}),
    );
    let image = json!({
        "Id": "9d0e1f2a", "Name": "Software Inventory", "Version": "2.18",
        "Status": {"State": "Updating"},
    });
    bmc.put(&format!("{INVENTORY}/9d0e1f2a"), image);
    // Other makes have dozens of components there.
    bmc.put(MANAGER, json!({"Model": "Other"}));
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(found.updates.is_empty(), "{found:?}");
    assert_eq!(bmc.count("GET", INVENTORY), 0);
    bmc.put(MANAGER, json!({"Model": "OpenBmc"}));
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    let update = found.running().unwrap();
    assert_eq!(
        update.to_string(),
        "software 9d0e1f2a \"Software Inventory 2.18\", Updating"
    );
}

#[tokio::test]
async fn document_of_another_service_says_nothing_of_updates() {
    let bmc = with_tasks(&[]).await;
    bmc.put(SERVICE, at("/redfish/v1/TaskService"));
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.unread.len(), 1, "{found:?}");
    assert!(found.unread[0].starts_with("UpdateService: "), "{found:?}");
    assert!(
        !found.read.iter().any(|read| read == "UpdateService"),
        "{found:?}"
    );
}

/// A client whose reads give up a connection that was used before after this time.
fn hasty(bmc: &TestBmc, silent: Duration) -> Box<dyn Bmc> {
    let mut config = bmc.config();
    config.timeouts.connect = silent;
    connect(config).unwrap()
}

#[tokio::test]
async fn slow_service_has_the_whole_time_on_a_connection_that_was_used_before() {
    let bmc = TestBmc::with(|seen, world| {
        let document = world.documents.get(&seen.path)?;
        let is_slow = seen.path == SERVICE;
        is_slow.then(|| Reply::json(200, document).late(Duration::from_millis(1600)))
    })
    .await;
    serves(&bmc, &[]);
    bmc.put(SERVICE, json!({"Oem": {"Hpe": {"State": "Writing"}}}));
    let client = hasty(&bmc, Duration::from_millis(600));
    for _ in 0..2 {
        client.power().await.unwrap();
    }
    let limit = Duration::from_millis(2000);
    let found = client.firmware_updates(limit).await.unwrap();
    assert_eq!(found.running().unwrap().source, "UpdateService");
}

#[tokio::test]
async fn source_that_hangs_hides_no_other() {
    const TASK_SERVICE: &str = "/redfish/v1/TaskService";
    let updating = json!({"Status": {"State": "Updating"}});
    for hangs in [&[SERVICE][..], &[TASK_SERVICE], &[SERVICE, TASK_SERVICE]] {
        let bmc = TestBmc::with(move |seen, _| {
            let is_silent = hangs.contains(&seen.path.as_str());
            is_silent.then(|| Reply::status(200).late(Duration::from_secs(60)))
        })
        .await;
        serves(&bmc, &[task("Completed")]);
        bmc.add_to_system(&json!({"Links": {"ManagedBy": [at(MANAGER)]}}));
        bmc.put(MANAGER, updating.clone());
        let client = bmc.client();
        client.power().await.unwrap();
        let limit = Duration::from_millis(1500);
        let begun = Instant::now();
        let found = client.firmware_updates(limit).await.unwrap();
        assert_eq!(found.running().unwrap().source, "manager", "{hangs:?}");
        assert!(begun.elapsed() < limit, "{hangs:?}");
        // Without an update, what hangs is what is not known.
        bmc.put(MANAGER, json!({"Model": "Other"}));
        let found = client.firmware_updates(limit).await.unwrap();
        let unread: Vec<&str> = found.unread.iter().map(String::as_str).collect();
        assert_eq!(unread.len(), hangs.len(), "{found:?}");
        assert!(
            unread.iter().all(|why| why.contains("not read in time")),
            "{found:?}"
        );
        let sessions = bmc.count("POST", crate::bmc::SESSIONS);
        assert!(sessions <= 1, "{sessions} sessions");
    }
}

#[tokio::test]
async fn task_of_a_push_uri_is_found_while_the_service_is_slow() {
    let bmc = TestBmc::with(|seen, world| {
        let document = world.documents.get(&seen.path)?;
        let is_slow = seen.path == SERVICE;
        is_slow.then(|| Reply::json(200, document).late(Duration::from_millis(800)))
    })
    .await;
    let push = json!({"Id": "7", "TaskState": "Running", "Payload": {"TargetUri": "/push"}});
    serves(&bmc, &[push]);
    bmc.put(SERVICE, json!({"HttpPushUri": "/push"}));
    let limit = Duration::from_millis(1600);
    let found = bmc.client().firmware_updates(limit).await.unwrap();
    assert_eq!(found.running().unwrap().source, "task 7");
}

#[tokio::test]
async fn reason_says_what_the_bmc_answered() {
    let bmc = TestBmc::with(|seen, _| {
        (seen.path == SERVICE).then(|| Reply::message(500, "X.1.0.Broken", "out of order"))
    })
    .await;
    serves(&bmc, &[]);
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(
        found.unread,
        ["UpdateService: unexpected response (500): out of order (X.1.0.Broken)"]
    );
}

#[tokio::test]
async fn job_of_the_standard_is_read_as_a_task_is() {
    const JOB_SERVICE: &str = "/redfish/v1/JobService";
    const ITS_JOBS: &str = "/redfish/v1/JobService/Jobs";
    for (name, state, source, unread) in [
        ("Firmware Update", "Running", Some("job 1"), None),
        ("Firmware Update", "Validating", Some("job 1"), None),
        ("Firmware Update", "New", None, None),
        ("Firmware Update", "Exception", None, None),
        ("Backup", "Running", None, None),
        (
            "Job 1",
            "Running",
            None,
            Some("jobs of the JobService: 1 is Running and does not say what it does"),
        ),
    ] {
        let bmc = TestBmc::start().await;
        bmc.world(|w| w.root = json!({"JobService": at(JOB_SERVICE)}));
        bmc.put(JOB_SERVICE, json!({"Jobs": at(ITS_JOBS)}));
        let link = format!("{ITS_JOBS}/1");
        bmc.put(ITS_JOBS, json!({"Members": [at(&link)]}));
        bmc.put(&link, json!({"Id": "1", "Name": name, "JobState": state}));
        let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
        let running = found.running().map(|update| update.source.as_str());
        assert_eq!(running, source, "{name} {state}");
        assert_eq!(found.unknown().as_deref(), unread, "{name} {state}");
    }
}
