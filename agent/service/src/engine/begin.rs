//! How an operation is begun: once, however often and however simultaneously it is asked for.

use std::sync::Arc;

use rackhand_proto::v1;
use tokio::sync::oneshot;
use tonic::Status;
use tracing::{info, warn};

use super::{
    Engine, REMEMBERED, Wish,
    bmc_queue::{Place, Rank},
    handle::Handle,
    journal_status, record_status,
    run::Run,
};
use crate::{
    host_key::HostKeys,
    journal::{Admission, Admitted, HoldRecord, wall_clock},
};

impl Engine {
    /// Starts an operation, or tells how the one of this id stands.
    pub(crate) async fn begin(&self, wish: Wish) -> Result<(bool, v1::OperationStatus), Status> {
        if self.closing.is_cancelled() {
            return Err(Status::unavailable(
                "the agent is stopping; ask again in a moment",
            ));
        }
        // The caller may go away at any moment; then the journal and the map must still agree.
        let (answer, answered) = oneshot::channel();
        let engine = self.clone();
        self.spawn(async move {
            let result = engine.admit(wish).await;
            answer.send(result).ok();
        });
        answered
            .await
            .map_err(|_| Status::unavailable("the agent is stopping; ask again in a moment"))?
    }

    async fn admit(&self, wish: Wish) -> Result<(bool, v1::OperationStatus), Status> {
        let handle = Handle::new(
            wish.id.clone(),
            wish.target.host.clone(),
            wish.target.key.clone(),
            wish.action.word(),
        );
        loop {
            let known = {
                let mut handles = self.handles.lock();
                match handles.by_id.get(&wish.id) {
                    Some(known) => known.clone(),
                    None => {
                        handles.by_id.insert(wish.id.clone(), handle.clone());
                        break;
                    }
                }
            };
            if known.admitted().await {
                if wish.target.keys.mean(&known.key) && known.action == handle.action {
                    return Ok((false, known.status()));
                }
                return Err(Status::invalid_argument(format!(
                    "operation {} is already a power {} of host {}; choose a new operation id",
                    known.id, known.action, known.host
                )));
            }
            // It was refused to somebody else at the same moment; now it is our turn to ask.
            tokio::task::yield_now().await;
        }
        let at = match wish.action.may_power_on() {
            true => self.shared.locate(&wish.target).await,
            false => Ok(self.shared.locate_known(&wish.target).await),
        };
        let at = match at {
            Ok(at) => at,
            Err(status) => {
                self.handles.lock().by_id.remove(&wish.id);
                handle.set_admitted(false);
                return Err(status);
            }
        };
        let keys = at.keys.clone();
        let admission = Admission {
            id: wish.id.clone(),
            key: wish.target.key.clone(),
            host: wish.target.host.clone(),
            at,
            action: wish.action,
            owner: wish.owner.clone(),
            authority: wish.authority.clone(),
            force: wish.force,
            now: wall_clock(),
        };
        let result = match self.shared.journal.admit(admission).await {
            Ok(Admitted::Started { overridden }) => {
                self.launch(wish, handle.clone(), keys, overridden);
                return Ok((true, handle.status()));
            }
            Ok(Admitted::Known(record)) => Ok((false, record_status(&record))),
            Ok(Admitted::Refused(refused)) => {
                info!(operation = %wish.id, host = %wish.target.host, by = %wish.authority, "refused: {refused}");
                Err(refused.status())
            }
            Err(error) => Err(journal_status(&error)),
        };
        self.handles.lock().by_id.remove(&wish.id);
        handle.set_admitted(false);
        result
    }

    fn launch(
        &self,
        wish: Wish,
        handle: Arc<Handle>,
        keys: HostKeys,
        overridden: Option<HoldRecord>,
    ) {
        if overridden.is_some() {
            self.shared.metrics.overridden();
        }
        info!(
            operation = %wish.id, host = %wish.target.host, action = wish.action.word(),
            by = %wish.authority, owner = %wish.owner, force = wish.force, "operation begun"
        );
        if let Some(hold) = overridden {
            warn!(host = %wish.target.host, owner = %hold.owner, by = %wish.authority, "a hold was overridden by force");
        }
        handle.set_admitted(true);
        // In the order of asking, so before the task.
        let queue = self.shared.clients.queue(&wish.target);
        let (place, overtaken) = Place::take(queue, Rank::of(wish.action), handle.clone(), keys);
        for other in overtaken {
            info!(operation = %other.id, host = %other.host, by = %wish.id, "operation is overtaken");
            other.overtake(&wish.id);
        }
        let run = Run {
            shared: self.shared.clone(),
            handle,
            target: wish.target,
            asked: wish.asked,
        };
        let (handles, id) = (self.handles.clone(), wish.id);
        self.spawn(async move {
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
