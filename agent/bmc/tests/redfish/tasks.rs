//! Actions that become tasks.

use std::time::Duration;

use rackhand_bmc::{ErrorKind, redfish::connect};
use serde_json::{Value, json};

use crate::bmc::{RESET, Reply, TestBmc};

const MONITOR: &str = "/redfish/v1/TaskService/TaskMonitors/1";

/// A BMC whose reset is a task that answers so, one after the other; the last one stays.
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
async fn a_202_without_a_task_is_accepted() {
    let bmc = TestBmc::with(|seen, _| seen.is("POST", RESET).then(|| Reply::status(202))).await;
    assert_eq!(
        bmc.client().off().await.unwrap().answer,
        "202: no task named"
    );
    assert_eq!(bmc.count("POST", RESET), 1);
}

#[tokio::test]
async fn a_task_is_followed_to_its_end() {
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
async fn a_monitor_that_answers_for_the_action_ends_the_task() {
    let bmc = with_task(vec![Reply::status(204)]).await;
    assert_eq!(
        bmc.client().off().await.unwrap().answer,
        "202: task completed"
    );
}

#[tokio::test]
async fn a_failed_task_is_refused_with_its_words() {
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
async fn a_failed_task_does_not_matter_if_the_state_is_as_wanted() {
    let bmc = with_task(vec![Reply::json(200, &task("Exception"))]).await;
    bmc.world(|world| world.power = json!("Off"));
    assert_eq!(bmc.client().off().await.unwrap().answer, "202: already off");
}

#[tokio::test]
async fn a_task_that_is_gone_or_does_not_end_leaves_the_command_accepted() {
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
async fn a_task_elsewhere_is_not_looked_at() {
    let bmc = TestBmc::with(|seen, _| {
        let elsewhere = || Reply::status(202).header("Location", "http://127.0.0.1:9/task");
        seen.is("POST", RESET).then(elsewhere)
    })
    .await;
    assert_eq!(
        bmc.client().off().await.unwrap().answer,
        "202: its task is elsewhere"
    );
}
