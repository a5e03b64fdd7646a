//! Requests that are repeated under their id until the agent answers, so that a lost answer is not reported as a
//! failure.

use std::time::Duration;

use rackhand_transport::{CallErrorKind, classify};
use tokio::time::{Instant, sleep};
use tonic::{Response, Status};

use super::lease::Lease;
use crate::output::exit_code::{ExitStatus, Fault};

/// Time for which a request is repeated after its first attempt.
const PERSISTENCE: Duration = Duration::from_secs(30);
/// Time between two attempts.
const AGAIN: Duration = Duration::from_millis(500);

/// A request that is begun once under its id, however often it arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeated<'a> {
    /// Id of the operation.
    pub(crate) id: &'a str,
    /// Lease that it depends on; `None`: it continues without its caller.
    pub(crate) lease: Option<&'a Lease>,
    /// Whether agents without leases know the id as well, so it is begun once there too.
    pub(crate) is_known_to_all: bool,
}

impl Repeated<'_> {
    /// Makes the call, with the name of the lease, until the agent answers it.
    ///
    /// # Errors
    ///
    /// [`ExitStatus::Unreachable`]: the agent was not reached, and nothing was begun. Otherwise the agent rejected
    /// the request, or has not answered, and it is unknown whether the request was begun.
    pub(crate) async fn ask<T, F>(self, call: impl Fn(String) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let begun = Instant::now();
        let mut until = PERSISTENCE;
        let mut is_asked = false;
        let mut why = String::new();
        loop {
            let left = until.saturating_sub(begun.elapsed());
            let (caller, is_once) = match self.lease {
                None => (String::new(), self.is_known_to_all),
                Some(lease) => match lease.held(left).await {
                    Ok(Some(name)) => (name.to_owned(), true),
                    Ok(None) => (String::new(), self.is_known_to_all),
                    Err(lost) if is_asked => return Err(self.unanswered(&why, &lost)),
                    Err(lost) => {
                        return Err(Fault {
                            end: ExitStatus::Unreachable,
                            message: format!("{lost}; nothing was begun"),
                        });
                    }
                },
            };
            let status = match call(caller).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => status,
            };
            let error = classify(&status);
            if error.kind != CallErrorKind::Retryable {
                return Err(Fault::of_status(&status));
            }
            if !is_asked {
                // The first attempt may have used its whole time limit.
                until = begun.elapsed().saturating_add(PERSISTENCE);
            }
            is_asked = true;
            if !is_once || begun.elapsed() >= until {
                return Err(self.unanswered(&error.message, ""));
            }
            why = error.message;
            sleep(AGAIN).await;
        }
    }

    fn unanswered(&self, why: &str, lost: &str) -> Fault {
        let id = self.id;
        let separator = if lost.is_empty() || lost == why {
            ""
        } else {
            "; then: "
        };
        let lost = if separator.is_empty() { "" } else { lost };
        let lives_on = match self.lease.is_some_and(Lease::is_supported) {
            true => ", and nothing more is sent for it once this command has ended",
            false => "",
        };
        Fault {
            end: ExitStatus::Failed,
            message: format!(
                "no answer to the request, so it is not known whether it was begun{lives_on}: {why}{separator}{lost}; \
                 `operations show {id}` tells it once the agent answers"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn repeated(is_known_to_all: bool) -> Repeated<'static> {
        Repeated {
            id: "op-1",
            lease: None,
            is_known_to_all,
        }
    }

    fn lost() -> Status {
        Status::cancelled("Timeout expired")
    }

    #[tokio::test(start_paused = true)]
    async fn request_without_an_answer_is_repeated() {
        let asked = Cell::new(0);
        let answer = repeated(true).ask(|_| {
            asked.set(asked.get() + 1);
            let answered = asked.get() == 3;
            async move { answered.then(|| Response::new("begun")).ok_or_else(lost) }
        });
        assert_eq!(answer.await, Ok("begun"));
        assert_eq!(asked.get(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_request_is_not_reported_as_not_done() {
        let begun = Instant::now();
        let fault = repeated(true).ask(|_| async {
            sleep(Duration::from_secs(5)).await;
            Err::<Response<()>, _>(lost())
        });
        let fault = fault.await.unwrap_err();
        assert_eq!(fault.end, ExitStatus::Failed);
        for expected in ["not known whether it was begun", "operations show op-1"] {
            assert!(fault.message.contains(expected), "{}", fault.message);
        }
        let took = begun.elapsed();
        assert!((35..45).contains(&took.as_secs()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_would_be_done_twice_is_not_repeated() {
        let asked = Cell::new(0);
        let fault = repeated(false).ask(|_| {
            asked.set(asked.get() + 1);
            async { Err::<Response<()>, _>(lost()) }
        });
        assert!(fault.await.is_err());
        assert_eq!(asked.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_is_an_answer() {
        let refused = || Status::permission_denied("not for you");
        let fault = repeated(true).ask(|_| async { Err::<Response<()>, _>(refused()) });
        assert_eq!(fault.await.unwrap_err().end, ExitStatus::Refused);
    }
}
