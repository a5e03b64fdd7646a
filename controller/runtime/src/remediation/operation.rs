//! The operation at the agent that belongs to the present step.
//!
//! Must never take silence for an outcome.

use jiff::Timestamp;
use rackhand_core::remediation::{
    AgentId, HostRef, OperationView, PinnedOperation, State, operation_id,
};
use tokio::{sync::mpsc, task::AbortHandle};

use super::engine::Engine;
use crate::agents::Followed;

/// An operation that is followed.
pub(super) struct Tracked {
    id: String,
    view: Option<OperationView>,
    /// The agent that does not know it.
    unknown_to: Option<AgentId>,
    /// The agent has been asked and has answered.
    known: bool,
    news: Option<mpsc::UnboundedReceiver<Followed>>,
    task: Option<AbortHandle>,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Engine {
    /// Where the operation of the present state stands; `Err`: the agent did not say.
    pub(super) async fn operation_view(
        &mut self,
        host: Option<&HostRef>,
    ) -> Result<Option<OperationView>, String> {
        let id = self
            .recorded
            .state
            .as_ref()
            .and_then(|s| operation_id(&self.uid, s));
        let (Some(id), Some(host)) = (id, host) else {
            self.operation = None;
            return Ok(None);
        };
        if self.operation.as_ref().is_none_or(|t| t.id != id) {
            self.operation = Some(Tracked {
                id,
                view: None,
                unknown_to: None,
                known: false,
                news: None,
                task: None,
            });
        }
        self.take_news();
        let Some(tracked) = &mut self.operation else {
            return Ok(None);
        };
        if tracked.known {
            return Ok(tracked.view.clone());
        }
        // After a restart, or a broken connection: only the agent knows.
        self.follow(host);
        self.operation_news().await;
        let Some(tracked) = &self.operation else {
            return Ok(None);
        };
        if tracked.known {
            Ok(tracked.view.clone())
        } else {
            Err("the agent did not say where the operation stands".into())
        }
    }

    /// Where the pinned operation stands, by its agent: queried while another agent (`serving`) may not
    /// begin anything because of it.
    pub(super) async fn pinned_operation(
        &self,
        serving: Option<&AgentId>,
        state: Option<&State>,
        now: Timestamp,
    ) -> PinnedOperation {
        let pin = state.and_then(|s| s.pinned.as_ref());
        let Some(pin) = pin.filter(|pin| pin.until.is_some_and(|until| until > now)) else {
            return PinnedOperation::Unknown;
        };
        let present = state.and_then(|s| operation_id(&self.uid, s));
        let taken_over = serving.is_some_and(|id| id.agent != pin.agent.agent);
        if !taken_over || present.as_ref() == Some(&pin.operation) {
            return PinnedOperation::Unknown;
        }
        let agents = &self.context.agents;
        agents
            .operation_at(&pin.agent.agent, &pin.operation)
            .await
            .unwrap_or_else(|why| {
                tracing::debug!(remediation = %self.id, why, "the earlier agent does not say where its operation stands");
                PinnedOperation::Unknown
            })
    }

    /// The agent that said that it does not know the operation of the present state.
    pub(super) fn unknown_to(&self) -> Option<AgentId> {
        let tracked = self.operation.as_ref()?;
        let unknown = tracked.known && tracked.view.is_none();
        tracked.unknown_to.clone().filter(|_| unknown)
    }

    /// Its outcome, where it has been told: that does not change when the agent falls silent.
    pub(super) fn operation_finished(&mut self) -> Option<OperationView> {
        let id = self
            .recorded
            .state
            .as_ref()
            .and_then(|s| operation_id(&self.uid, s))?;
        self.take_news();
        let tracked = self.operation.as_ref().filter(|t| t.id == id)?;
        tracked
            .view
            .clone()
            .filter(|v| matches!(v, OperationView::Finished { .. }))
    }

    /// Follows the operation from now on.
    pub(super) fn follow(&mut self, host: &HostRef) {
        let Some(tracked) = &mut self.operation else {
            return;
        };
        if tracked.news.is_some() {
            return;
        }
        let (sender, news) = mpsc::unbounded_channel();
        let agents = self.context.agents.clone();
        let state = self.recorded.state.as_ref();
        let pinned = state
            .and_then(|s| s.pinned.as_ref())
            .filter(|pin| pin.operation == tracked.id)
            .map(|pin| pin.agent.agent.clone());
        let following = agents.follow(host.rack.clone(), pinned, tracked.id.clone(), sender);
        // Owned by `Tracked`: ends with it, or when it has told the outcome.
        tracked.task = Some(tokio::spawn(following).abort_handle());
        tracked.news = Some(news);
    }

    /// Begun, or perhaps begun: the agent is asked.
    pub(super) fn ask_again(&mut self) {
        if let Some(tracked) = &mut self.operation {
            tracked.known = false;
            tracked.view = None;
            tracked.news = None;
        }
    }

    /// The agent refused to begin it.
    pub(super) fn rejected(&mut self, why: String) {
        if let Some(tracked) = &mut self.operation {
            tracked.known = true;
            tracked.view = Some(OperationView::Rejected { why });
        }
    }

    /// Waits for the next news; for ever where none is expected.
    pub(super) async fn operation_news(&mut self) {
        let Some(Tracked {
            news: Some(news), ..
        }) = &mut self.operation
        else {
            return std::future::pending().await;
        };
        let told = news.recv().await;
        self.heard(told);
    }

    fn take_news(&mut self) {
        while let Some(Tracked {
            news: Some(news), ..
        }) = &mut self.operation
        {
            match news.try_recv() {
                Ok(told) => self.heard(Some(told)),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => self.heard(None),
            }
        }
    }

    fn heard(&mut self, told: Option<Followed>) {
        let Some(tracked) = &mut self.operation else {
            return;
        };
        match told {
            Some(Followed::View(view)) => {
                tracked.known = true;
                tracked.view = Some(view);
            }
            Some(Followed::Unknown { by }) => {
                tracked.known = true;
                tracked.view = None;
                tracked.unknown_to = Some(by);
                tracked.news = None;
            }
            // Told once it has an answer: the same command is announced before that, too.
            Some(Followed::Command { command, answer }) if !answer.is_empty() => {
                let message = format!("{command} sent to the BMC, answer: {answer}");
                self.tell(false, "CommandSent", &message);
            }
            Some(Followed::Command { .. }) => {}
            Some(Followed::Lost(why)) => {
                tracing::debug!(remediation = %self.id, why, "lost sight of the operation");
                tracked.news = None;
                if !matches!(tracked.view, Some(OperationView::Finished { .. })) {
                    tracked.known = false;
                }
            }
            // The follower has told the outcome and is gone.
            None => {
                tracked.news = None;
                if !matches!(
                    tracked.view,
                    Some(OperationView::Finished { .. } | OperationView::Rejected { .. })
                ) {
                    tracked.known = false;
                }
            }
        }
    }
}
