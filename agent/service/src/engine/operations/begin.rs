//! Start of operations. An operation id is started at most once, even by concurrent requests.

use std::sync::Arc;

use rackhand_agent_core::{
    bmc_queue::OperationRank,
    host_key::HostKeys,
    ledger::{Action, Hold, Lifetime, Refused, StartAnswer, StartRequest, is_in_time},
};
use rackhand_proto::v1;
use tokio::sync::oneshot;
use tonic::Status;
use tracing::{info, warn};

use super::{
    Operations, REMEMBERED, ValidatedRequest,
    handle::Handle,
    record_status,
    runner::{Interruption, Run},
};
use crate::{
    engine::{bmcs::bmc_queue::QueuePosition, journal_status},
    journal::{refused_status, wall_clock},
};

impl Operations {
    /// Starts an operation, or returns the status of the one with this id.
    pub(crate) async fn begin(
        &self,
        request: Box<ValidatedRequest>,
    ) -> Result<(bool, v1::OperationStatus), Status> {
        if self.tasks.is_closing() {
            return Err(Status::unavailable(
                "the agent is stopping; try again later",
            ));
        }
        // A task of its own: a caller that disconnects must not leave journal and map different.
        let (answer, answered) = oneshot::channel();
        let operations = self.clone();
        self.tasks.spawn(async move {
            let result = operations.accept(request).await;
            answer.send(result).ok();
        });
        answered
            .await
            .map_err(|_| Status::unavailable("the agent is stopping; try again later"))?
    }

    async fn accept(
        &self,
        request: Box<ValidatedRequest>,
    ) -> Result<(bool, v1::OperationStatus), Status> {
        if !is_in_time(request.latest, self.context.clock.since_start()) {
            let host = request.target.host;
            return Err(refused_status(&Refused::TooLate { host }));
        }
        let handle = Handle::new(
            request.id.clone(),
            request.target.host.clone(),
            request.target.key.clone(),
            request.action.word(),
            request.device,
        );
        loop {
            let known = {
                let mut handles = self.handles.lock();
                match handles.by_id.get(&request.id) {
                    Some(known) => known.clone(),
                    None => {
                        handles.by_id.insert(request.id.clone(), handle.clone());
                        break;
                    }
                }
            };
            if known.accepted().await {
                let is_same = request.target.keys.mean(&known.key)
                    && known.action == handle.action
                    && known.device == handle.device;
                if is_same {
                    return Ok((false, known.status()));
                }
                return Err(refused_status(&Refused::OtherOperation {
                    id: known.id.clone(),
                    action: known.action.to_owned(),
                    device: known.device,
                    host: known.host.clone(),
                }));
            }
            // A concurrent request with this id was refused; try again.
            tokio::task::yield_now().await;
        }
        let at = match request.action.may_power_on() {
            true => self.context.locator.locate(&request.target).await,
            false => Ok(self.context.locator.locate_known(&request.target).await),
        };
        let at = match at {
            Ok(at) => at,
            Err(status) => {
                self.handles.lock().by_id.remove(&request.id);
                handle.set_accepted(false);
                return Err(status);
            }
        };
        let keys = at.keys.clone();
        let now = wall_clock();
        let start = StartRequest {
            id: request.id.clone(),
            key: request.target.key.clone(),
            host: request.target.host.clone(),
            at,
            action: request.action,
            device: request.device,
            owner: request.owner.clone(),
            authority: request.authority.clone(),
            force: request.force,
            detail: match request.action {
                Action::Off { .. } | Action::Cycle => request.siblings.words(),
                _ => String::new(),
            },
            lifetime: lifetime(&request, now),
            now,
        };
        let result = match self.context.journal.accept(start).await {
            Ok(StartAnswer::Started { overridden }) => {
                self.launch(request, handle.clone(), keys, overridden);
                return Ok((true, handle.status()));
            }
            Ok(StartAnswer::Known(record)) => Ok((false, record_status(&record))),
            Ok(StartAnswer::Refused(refused)) => {
                info!(operation = %request.id, host = %request.target.host, by = %request.authority, "refused: {refused}");
                Err(refused_status(&refused))
            }
            Err(error) => Err(journal_status(&error)),
        };
        self.handles.lock().by_id.remove(&request.id);
        handle.set_accepted(false);
        result
    }

    fn launch(
        &self,
        request: Box<ValidatedRequest>,
        handle: Arc<Handle>,
        keys: HostKeys,
        overridden: Option<Hold>,
    ) {
        if overridden.is_some() {
            self.context.metrics.overridden();
        }
        info!(
            operation = %request.id, host = %request.target.host, action = request.action.word(), device = ?request.device,
            by = %request.authority, owner = %request.owner, force = request.force, "operation begun"
        );
        if let Some(hold) = overridden {
            warn!(host = %request.target.host, owner = %hold.owner, by = %request.authority, "a hold was overridden by force");
        }
        handle.set_accepted(true);
        // Before the task is spawned, to keep the order of the requests.
        let queue = self.context.clients.queue(&request.target);
        let (place, overtaken) = QueuePosition::take(
            queue,
            OperationRank::of(request.action),
            handle.clone(),
            keys,
        );
        for other in overtaken {
            info!(operation = %other.id, host = %other.host, by = %request.id, "operation is overtaken");
            other.overtake(&request.id);
        }
        let interruption =
            Interruption::new(handle.cancel.clone(), request.caller, self.tasks.stopping());
        let run = Box::new(Run {
            context: self.context.clone(),
            handle,
            target: request.target,
            action: request.action,
            device: request.device,
            siblings: request.siblings,
            request: request.operation,
            interruption,
        });
        let (handles, id) = (self.handles.clone(), request.id);
        self.tasks.spawn(async move {
            run.run(place).await;
            let mut handles = handles.lock();
            handles.finished.push_back(id);
            if handles.finished.len() > REMEMBERED
                && let Some(oldest) = handles.finished.pop_front()
            {
                handles.by_id.remove(&oldest);
            }
        });
    }
}

/// Lifetime of the requested operation, at `now` of the wall clock.
fn lifetime(request: &ValidatedRequest, now: i64) -> Lifetime {
    let deadline = i64::try_from(request.operation.deadline.as_nanos()).unwrap_or(i64::MAX);
    Lifetime {
        deadline: now.saturating_add(deadline),
        is_attended: request.caller.is_some(),
    }
}
