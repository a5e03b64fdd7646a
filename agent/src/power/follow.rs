//! Events of an operation, printed until its outcome.

use std::time::Duration;

use jiff::Timestamp;
use rackhand_proto::{
    convert::timestamp_from_proto,
    v1::{self, await_response::Event, power_client::PowerClient},
};
use rackhand_transport::{CallErrorKind, classify};
use tonic::{Status, Streaming, transport::Channel};

use crate::output::state_word;

/// Upper bound of the wait for a PDU.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Time limit for an outcome. The agent enforces the deadline of the operation; this limit is for
/// an agent that has ended. Waits before a power-on do not count.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutcomeTimeout {
    each: Duration,
    until: tokio::time::Instant,
}

impl OutcomeTimeout {
    pub(super) fn new(each: Duration) -> Self {
        Self {
            each,
            until: tokio::time::Instant::now() + each,
        }
    }

    /// Extends the limit by a wait of the operation.
    fn extend(&mut self, wait: Duration) {
        let until = tokio::time::Instant::now() + wait.saturating_add(self.each);
        self.until = self.until.max(until);
    }

    async fn keep<T>(&self, future: impl Future<Output = T>) -> Result<T, String> {
        tokio::time::timeout_at(self.until, future)
            .await
            .map_err(|_| "the agent did not answer in time".to_owned())
    }
}

/// Remaining time of a wait.
fn rest(waiting: &v1::Waiting, now: Timestamp) -> Duration {
    let until = waiting.until.as_ref();
    let until = until.and_then(|until| timestamp_from_proto(until).ok());
    let rest = until.map(|until| until.duration_since(now));
    let rest = rest.and_then(|rest| Duration::try_from(rest).ok());
    // No rack takes longer, and a wrong clock may yield any value.
    rest.unwrap_or_default().min(LONGEST_WAIT)
}

/// Waits for the outcome; reconnects after a lost connection, because the operation continues.
pub(super) async fn follow(
    client: &mut PowerClient<Channel>,
    operation: &str,
    (host, device): (&str, v1::PowerDevice),
    mut patience: OutcomeTimeout,
    live: bool,
) -> Result<v1::Outcome, String> {
    let mut shown = if live { Some(0) } else { None };
    loop {
        let request = v1::AwaitRequest {
            operation_id: operation.to_owned(),
        };
        let status = match patience.keep(client.r#await(request)).await? {
            Err(status) => status,
            Ok(response) => {
                let events = response.into_inner();
                match listen(events, (host, device), &mut patience, &mut shown).await? {
                    Ok(outcome) => return Ok(outcome),
                    Err(status) => status,
                }
            }
        };
        let error = classify(&status);
        if error.kind != CallErrorKind::Retryable {
            return Err(error.message);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Reads events until the outcome or the loss of the connection. Each connection sends all events
/// from the start; `shown` counts the printed ones.
async fn listen(
    mut events: Streaming<v1::AwaitResponse>,
    (host, device): (&str, v1::PowerDevice),
    patience: &mut OutcomeTimeout,
    shown: &mut Option<usize>,
) -> Result<Result<v1::Outcome, Status>, String> {
    let mut number = 0;
    loop {
        let event = match patience.keep(events.message()).await? {
            Ok(Some(event)) => event,
            Ok(None) => return Err("the agent ended the stream early".to_owned()),
            Err(status) => return Ok(Err(status)),
        };
        number += 1;
        if let Some(Event::Waiting(waiting)) = &event.event {
            patience.extend(rest(waiting, Timestamp::now()));
        }
        if let Some(shown) = shown.as_mut().filter(|shown| number > **shown) {
            *shown = number;
            show(host, device, &event);
        }
        if let Some(Event::Outcome(outcome)) = event.event {
            return Ok(Ok(outcome));
        }
    }
}

fn show(host: &str, device: v1::PowerDevice, event: &v1::AwaitResponse) {
    let device = match device {
        v1::PowerDevice::Outlets => "PDU",
        _ => "BMC",
    };
    let elapsed = event
        .elapsed
        .as_ref()
        .and_then(|elapsed| rackhand_proto::convert::duration_from_proto(elapsed).ok());
    let elapsed = elapsed.unwrap_or_default().as_secs_f64();
    let text = match &event.event {
        Some(Event::Accepted(_)) => "accepted".to_owned(),
        Some(Event::CommandSent(sent)) if sent.answer.is_empty() => {
            format!("sending {}", sent.command)
        }
        Some(Event::CommandSent(sent)) => {
            format!("{}: {device} answered {}", sent.command, sent.answer)
        }
        Some(Event::Reading(reading)) => {
            format!("{device} reports {}", state_word(reading.state()))
        }
        Some(Event::Failure(failure)) => failure.message.clone(),
        Some(Event::Waiting(waiting)) => waiting.reason.clone(),
        Some(Event::Outcome(_)) | None => return,
    };
    errln!("{host}: {elapsed:6.1}s  {text}");
}

#[cfg(test)]
mod tests {
    use rackhand_proto::convert::timestamp_to_proto;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pdu_wait_does_not_count_against_the_outcome_timeout() {
        let now = Timestamp::UNIX_EPOCH;
        let waiting = |seconds: i64| v1::Waiting {
            reason: String::new(),
            until: Timestamp::from_second(seconds).ok().map(timestamp_to_proto),
        };
        assert_eq!(rest(&waiting(400), now), Duration::from_secs(400));
        assert_eq!(rest(&waiting(-400), now), Duration::ZERO);
        assert_eq!(rest(&v1::Waiting::default(), now), Duration::ZERO);
        assert_eq!(rest(&waiting(1 << 35), now), LONGEST_WAIT);

        let minute = Duration::from_secs(60);
        let mut patience = OutcomeTimeout::new(minute);
        patience.extend(minute * 10);
        let slow = tokio::time::sleep(minute * 10);
        assert_eq!(patience.keep(slow).await, Ok(()));
        let never = patience.keep(std::future::pending::<()>());
        assert!(never.await.is_err());
    }
}
