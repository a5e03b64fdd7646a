//! Actions that return tasks.

use std::time::Duration;

use rackhand_bmc::{ErrorKind, redfish::connect};
use serde_json::{Value, json};

use crate::bmc::{RESET, Reply, TestBmc};

const MONITOR: &str = "/redfish/v1/TaskService/TaskMonitors/1";

/// A BMC whose reset is a task with these monitor responses, one after the other; the last one
/// repeats.
async fn with_task(answers: Vec<Reply>) -> TestBmc {
    let mut asked = 0;
    TestBmc::with(move |seen, _| {
        if seen.is("POST", RESET) {
            return Some(Reply::status(202).header("Location", MONITOR));
        }
        if seen.path != MONITOR {
            return None;
        }
        asked += 1;
        answers.get(asked - 1).or(answers.last()).cloned()
    })
    .await
}

fn task(state: &str) -> Value {
    json!({"@odata.type": "#Task.v1_4_0.Task", "TaskState": state, "Messages": [
        {"MessageId": "Base.1.8.InternalError", "Message": "the fuse blew"},
    ]})
}

#[tokio::test]
async fn status_202_without_a_task_is_accepted() {
    let bmc = TestBmc::with(|seen, _| seen.is("POST", RESET).then(|| Reply::status(202))).await;
    assert_eq!(
        bmc.client().off().await.unwrap().answer,
        "202: no task named"
    );
    assert_eq!(bmc.count("POST", RESET), 1);
}

#[tokio::test]
async fn task_is_polled_until_it_completes() {
    let bmc = with_task(vec![
        Reply::status(202).header("Retry-After", "0"),
        Reply::json(200, &task("Running")),
        Reply::status(503),
        Reply::json(200, &task("Completed")),
    ])
    .await;
    assert_eq!(
        bmc.client().off().await.unwrap().answer,
        "202: task completed"
    );
    assert_eq!(bmc.count("GET", MONITOR), 4);
    assert_eq!(bmc.count("POST", RESET), 1);
}

#[tokio::test]
async fn success_status_of_the_monitor_completes_the_task() {
    let bmc = with_task(vec![Reply::status(204)]).await;
    assert_eq!(
        bmc.client().off().await.unwrap().answer,
        "202: task completed"
    );
}

#[tokio::test]
async fn failed_task_is_an_error_with_its_message() {
    for failed in [
        Reply::json(200, &task("Exception")),
        Reply::message(400, "Base.1.8.InternalError", "the fuse blew"),
    ] {
        let bmc = with_task(vec![failed]).await;
        let error = bmc.client().off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.message.contains("the fuse blew"), "{error}");
        assert_eq!(bmc.count("POST", RESET), 1);
    }
}

#[tokio::test]
async fn f1_failed_task_in_the_requested_state_is_an_error() {
    let bmc = with_task(vec![Reply::json(200, &task("Exception"))]).await;
    bmc.world(|world| world.power = json!("Off"));
    let error = bmc.client().off().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("power state \"Off\""), "{error}");
}

#[tokio::test]
async fn missing_or_endless_task_leaves_the_command_accepted() {
    let gone = with_task(vec![Reply::status(404)]).await;
    assert_eq!(
        gone.client().off().await.unwrap().answer,
        "202: its task no longer exists"
    );

    for running in [
        Reply::json(202, &task("Running")),
        Reply::json(200, &task("Running")),
        Reply::status(202).header("Retry-After", "3600"),
    ] {
        let bmc = with_task(vec![running]).await;
        let mut config = bmc.config();
        config.timeouts.task = Duration::from_millis(400);
        let accepted = connect(config).unwrap().off().await.unwrap();
        assert_eq!(accepted.answer, "202: its task is still running");
    }
}

#[tokio::test]
async fn task_on_another_host_is_not_read() {
    let bmc = TestBmc::with(|seen, _| {
        let elsewhere = || Reply::status(202).header("Location", "http://127.0.0.1:9/task");
        seen.is("POST", RESET).then(elsewhere)
    })
    .await;
    assert_eq!(
        bmc.client().off().await.unwrap().answer,
        "202: its task is on another host"
    );
}
