//! Common parts of the Redfish clients of outlets: documents, links by name, and the response to an action.
//!
//! Owns: one service with its links and its order of changes. Must never: keep a state, or send an action twice.

use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

use reqwest::StatusCode;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    BmcError, BmcFuture, ErrorKind,
    pdu::OutletId,
    redfish::{
        RedfishConfig, Timeouts,
        protocol::{
            auth::Access,
            call_budget::{Call, bounded},
            document::{Collection, acted_on},
            errors,
            http::Change,
            response::Answer,
            task::{self, TaskOutcome},
        },
    },
};

/// Maximum number of members of a collection; large PDUs have 48 outlets, and a chain of four has fewer than
/// this.
const MAX_MEMBERS: usize = 256;
const MAX_PAGES: usize = 16;

/// A Redfish service with outlets.
pub(super) struct OutletService {
    pub(super) access: Access,
    timeouts: Timeouts,
    /// Links of the outlets by name, once they are known. States are never kept.
    pub(super) links: Mutex<Option<BTreeMap<OutletId, String>>>,
    /// Held while a change is in flight.
    pub(super) changing: Mutex<()>,
}

impl OutletService {
    pub(super) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        let timeouts = config.timeouts;
        Ok(Self {
            access: Access::new(config)?,
            timeouts,
            links: Mutex::new(None),
            changing: Mutex::new(()),
        })
    }

    pub(super) fn address(&self) -> &str {
        self.access.http.reporter.bmc()
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        self.access.http.reporter.error(kind, message)
    }

    /// Runs a call within its time limit.
    pub(super) fn bounded<'a, T, F>(&'a self, work: impl FnOnce(Arc<Call>) -> F) -> BmcFuture<'a, T>
    where
        F: Future<Output = Result<T, BmcError>> + Send + 'a,
        T: Send + 'a,
    {
        bounded(self.timeouts.call, &self.access.http.reporter, work)
    }

    /// Reads a document.
    pub(super) async fn fetch(
        &self,
        call: &Call,
        link: &str,
        doing: &str,
    ) -> Result<Value, BmcError> {
        let url = self.access.http.resolve(link)?;
        let answer = self.access.get(call, &url).await?;
        errors::document(&self.access.http.reporter, doing, answer)
    }

    /// The links of all members of a collection.
    pub(super) async fn members(
        &self,
        call: &Call,
        link: &str,
        what: &str,
    ) -> Result<Vec<String>, BmcError> {
        let doing = format!("reading the {what}");
        let mut members = Vec::new();
        let mut next = Some(link.to_owned());
        for _ in 0..MAX_PAGES {
            let Some(page) = next.take() else {
                return Ok(members);
            };
            let body = self.fetch(call, &page, &doing).await?;
            let page = Collection::of(&body).ok_or_else(|| {
                self.error(ErrorKind::Protocol, format!("{doing}: no collection"))
            })?;
            members.extend(page.members);
            next = page.next;
            if members.len() > MAX_MEMBERS {
                break;
            }
        }
        if next.is_none() && members.len() <= MAX_MEMBERS {
            return Ok(members);
        }
        let message = format!("{doing}: more than {MAX_MEMBERS} members");
        Err(self.error(ErrorKind::Protocol, message))
    }

    /// The known links, if they include those of `ids`; otherwise they are discovered again.
    pub(super) async fn known<F>(
        &self,
        ids: &[OutletId],
        discover: impl FnOnce() -> F,
    ) -> Result<BTreeMap<OutletId, String>, BmcError>
    where
        F: Future<Output = Result<BTreeMap<OutletId, String>, BmcError>>,
    {
        // Held during discovery, so that concurrent calls discover the outlets once.
        let mut slot = self.links.lock().await;
        if let Some(links) = &*slot
            && ids.iter().all(|id| links.contains_key(id))
        {
            return Ok(links.clone());
        }
        let links = discover().await?;
        *slot = Some(links.clone());
        Ok(links)
    }

    /// Reads an outlet. `what`: its name at the service, for messages.
    pub(super) async fn fetch_outlet(
        &self,
        call: &Call,
        links: &BTreeMap<OutletId, String>,
        id: &OutletId,
        what: &str,
    ) -> Result<Value, BmcError> {
        let absent = || {
            let name = self.access.http.reporter.quote(&id.0);
            let message = format!("there is no {what} {name:?}");
            self.error(ErrorKind::System, message)
        };
        let link = links.get(id).ok_or_else(absent)?;
        let url = self.access.http.resolve(link)?;
        let answer = self.access.get(call, &url).await?;
        if [StatusCode::NOT_FOUND, StatusCode::GONE].contains(&answer.status) {
            *self.links.lock().await = None;
            return Err(absent());
        }
        errors::document(
            &self.access.http.reporter,
            &format!("reading {what} {id}"),
            answer,
        )
    }

    /// Sends the action of an outlet once, unless it is that of another one. `what`: its name at the service, for messages.
    pub(super) async fn act(
        &self,
        call: &Call,
        (links, id, what): (&BTreeMap<OutletId, String>, &OutletId, &str),
        target: &str,
        body: &Value,
    ) -> Result<Answer, BmcError> {
        let target = self.access.http.resolve(target)?;
        let other = acted_on(target.path(), links.values().map(String::as_str));
        if let Some(other) = other.filter(|other| links.get(id).is_none_or(|own| own != other)) {
            let other = self.access.http.reporter.quote(other);
            let message = format!(
                "the action of {what} {id} is that of another one, {other}; nothing was sent, because it would switch \
                 that one; update the firmware"
            );
            return Err(self.error(ErrorKind::Protocol, message));
        }
        call.command_is_sent();
        let answer = self.access.change(Change::action(&target, body)).await?;
        if !answer.status.is_success() {
            call.command_is_refused();
        }
        Ok(answer)
    }

    /// The response to an action in short.
    ///
    /// # Errors
    ///
    /// The service has refused it.
    pub(super) async fn judge(
        &self,
        call: &Call,
        doing: &str,
        answer: &Answer,
    ) -> Result<String, BmcError> {
        let reporter = &self.access.http.reporter;
        let code = answer.status.as_u16();
        let refused = |says: String| {
            let message = format!("{doing}: refused ({code}){says}");
            self.error(ErrorKind::Refused, message)
        };
        if answer.status == StatusCode::ACCEPTED {
            return match task::follow(&self.access, call, answer, self.timeouts.task).await {
                TaskOutcome::Done => Ok(format!("{code}: task completed")),
                TaskOutcome::Unknown(why) => Ok(format!("{code}: {why}")),
                TaskOutcome::Failed(why) => Err(refused(format!(": {why}"))),
            };
        }
        if answer.status.is_success() {
            let messages = answer.messages();
            if messages.contradict_success() {
                return Err(refused(reporter.says(&messages)));
            }
            return Ok(code.to_string());
        }
        Err(BmcError {
            maybe_sent: errors::is_lost(answer.status),
            ..errors::of_status(reporter, doing, answer)
        })
    }
}

impl fmt::Debug for OutletService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.address())
    }
}
