//! The task of an action, polled until it ends (Redfish DSP0266, clause 12.2).
//!
//! Owns: polling a task monitor. Must never: turn "accepted" into an error because the task could
//! not be polled, or poll without end.

use std::time::Duration;

use reqwest::StatusCode;
use tokio::time::{Instant, sleep};

use super::{
    auth::Access,
    call_budget::Call,
    document::{self, TaskState},
    response::{Answer, Body},
};

/// First polling interval; the task of a power action usually completes at once.
const FIRST_POLL: Duration = Duration::from_millis(200);
const SLOWEST_POLL: Duration = Duration::from_secs(2);

/// Result of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    /// The task completed successfully.
    Done,
    /// Still running, or unknown; the action counts as accepted.
    Unknown(&'static str),
    /// The task failed, with the text of the BMC.
    Failed(String),
}

/// Polls the task of a `202` until it ends or `limit` has passed.
pub(crate) async fn follow(
    access: &Access,
    call: &Call,
    accepted: &Answer,
    limit: Duration,
) -> TaskOutcome {
    if let Some(ended) = ended_by(access, accepted) {
        return ended;
    }
    let Some(location) = accepted.location() else {
        return TaskOutcome::Unknown("no task named");
    };
    let Ok(url) = access.http.resolve(location) else {
        return TaskOutcome::Unknown("its task is on another host");
    };
    let deadline = Instant::now() + limit;
    let mut pace = FIRST_POLL;
    let mut asked = accepted.retry_after();
    loop {
        let wait = asked.unwrap_or(pace).max(FIRST_POLL.min(limit / 4));
        if Instant::now() + wait >= deadline {
            return TaskOutcome::Unknown("its task is still running");
        }
        sleep(wait).await;
        pace = (pace * 2).min(SLOWEST_POLL);
        let Ok(answer) = access.get_monitor(call, &url).await else {
            return TaskOutcome::Unknown("its task could not be read");
        };
        match answer.status {
            // The monitor is deleted once its response was fetched or has expired.
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::UNAUTHORIZED => {
                return TaskOutcome::Unknown("its task no longer exists");
            }
            StatusCode::ACCEPTED
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE => {}
            status if status.is_success() => match ended_by(access, &answer) {
                Some(ended) => return ended,
                None if is_task(&answer) => {}
                // The monitor responds as the action itself would have.
                None => return TaskOutcome::Done,
            },
            status => {
                let says = access.http.reporter.says(&answer.messages());
                return TaskOutcome::Failed(format!("its task failed ({}){says}", status.as_u16()));
            }
        }
        asked = answer.retry_after();
    }
}

fn is_task(answer: &Answer) -> bool {
    matches!(&answer.body, Body::Json(body) if document::task(body).is_some())
}

fn ended_by(access: &Access, answer: &Answer) -> Option<TaskOutcome> {
    let Body::Json(body) = &answer.body else {
        return None;
    };
    match document::task(body)? {
        TaskState::Running => None,
        TaskState::Done => Some(TaskOutcome::Done),
        TaskState::Failed(state, messages) => {
            let state = access.http.reporter.quote(&state);
            let says = access.http.reporter.says(&messages);
            Some(TaskOutcome::Failed(format!(
                "its task ended as {state}{says}"
            )))
        }
    }
}
