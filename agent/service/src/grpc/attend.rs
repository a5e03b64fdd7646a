//! The streams by which calling processes renew their leases (F17).

use std::sync::Arc;

use rackhand_agent_core::caller::LEASE;
use rackhand_proto::{convert::duration_to_proto, v1};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::info;

use super::{Answer, Streaming as Answers, caller::Caller};
use crate::engine::{Attendance, Callers, Tasks};

type Sender = mpsc::Sender<Result<v1::AttendResponse, Status>>;

/// The call by which a process keeps its lease.
#[derive(Clone)]
pub(super) struct AttendCalls {
    pub(super) callers: Arc<Callers>,
    pub(super) tasks: Tasks,
}

impl AttendCalls {
    pub(super) async fn attend(
        &self,
        request: Request<Streaming<v1::AttendRequest>>,
    ) -> Answer<Answers<v1::AttendResponse>> {
        let Caller::Operator(operator) = Caller::of(&request)? else {
            return Err(Status::permission_denied(
                "a controller needs no lease: its operations live until their deadlines",
            ));
        };
        let mut renewals = request.into_inner();
        let first = timeout(LEASE, renewals.message()).await;
        let first = first.map_err(|_| Status::invalid_argument("no message has come"))??;
        let caller = first.unwrap_or_default().caller;
        let attendance = self.callers.attend(&caller, &operator)?;
        // A small buffer suffices: a caller that does not read the answers does not need them.
        let (answers, answered) = mpsc::channel(4);
        let stop = self.tasks.stopping();
        self.tasks.spawn(async move {
            tokio::select! {
                why = attend(&attendance, &mut renewals, &answers) => {
                    info!(caller, by = operator, "the lease of a caller is over: {why}");
                }
                () = stop.cancelled() => {}
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(answered))))
    }
}

/// Renews the lease until its end, and returns the reason.
async fn attend(
    attendance: &Attendance,
    renewals: &mut Streaming<v1::AttendRequest>,
    answers: &Sender,
) -> &'static str {
    loop {
        let answer = v1::AttendResponse {
            lease: Some(duration_to_proto(LEASE)),
        };
        answers.try_send(Ok(answer)).ok();
        tokio::select! {
            message = renewals.message() => match message {
                Ok(Some(_)) if attendance.renew() => {}
                Ok(Some(_)) => return "renewed too late, or by another stream",
                Ok(None) => return "it has ended",
                Err(_) => return "its connection has ended",
            },
            () = answers.closed() => return "its connection has ended",
            () = attendance.expired() => return "it was not renewed",
        }
    }
}
